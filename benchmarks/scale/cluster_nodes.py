"""Schedulers, workers and command lines in processes of their own.

They are for scenarios and tests in which one of them is broken, wrong or killed.
Everything listens on loopback alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

import smoothcruiser as sc

PACKAGE = Path(sc.__file__).parent
WORLD = """
import time
import smoothcruiser as sc

def step(state, action, rng):
    time.sleep({seconds})
    return rng.random(), (state + action) % 3

problem = sc.MDP(step, num_actions=2, discount=0.4, operator=sc.Entropy(1.0),
                 initial_state=0, name="world")
"""
SERVER = """
import asyncio, sys
import distributed

async def main(kind, address, tls):
    security = None
    if tls:
        ca, cert, key = tls
        security = distributed.Security(
            require_encryption=True, tls_ca_file=ca,
            tls_scheduler_cert=cert, tls_scheduler_key=key,
            tls_worker_cert=cert, tls_worker_key=key)
    common = dict(host="127.0.0.1", security=security,
                  dashboard_address="127.0.0.1:0")
    if kind == "scheduler":
        node = distributed.Scheduler(port=0, dashboard=False, **common,
                                     protocol="tls://" if tls else "tcp://")
    else:
        node = distributed.Worker(address, nthreads=1, dashboard=False, **common)
    async with node:
        print(node.address, flush=True)
        await node.finished()

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
"""
# --- processes ----------------------------------------------------------------


class Node:
    """A scheduler or a worker in a process of its own."""

    def __init__(
        self,
        kind: str,
        scheduler: str = "",
        *,
        path: str | Path = "",
        folder: Path | None = None,
        tls: tuple[str, ...] = (),
    ) -> None:
        """``path`` stands before all else in PYTHONPATH."""
        known = f"{path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, kind, scheduler, *tls],
            env=os.environ | {"PYTHONPATH": known},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def edited_copy(folder: Path) -> Path:
    """A folder with this package in it, one line of which was edited."""
    target = folder / "edited"
    shutil.copytree(PACKAGE, target / "smoothcruiser", symlinks=True)
    file = target / "smoothcruiser" / "engines" / "interpreted" / "python.py"
    lines = file.read_text().splitlines()
    lines[-1] += "  # edited"
    file.write_text("\n".join(lines) + "\n")
    return target


def world(folder: Path, seconds: float = 0.001, name: str = "world") -> str:
    """A module with a problem, in a folder; the argument that names it."""
    (folder / f"{name}.py").write_text(WORLD.format(seconds=seconds))
    return f"{name}:problem"


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "smoothcruiser", "plan", *words]


def started(folder: Path, *words: str, **settings: str) -> subprocess.Popen[str]:
    """The command line under way, in a group of its own as in a terminal."""
    return subprocess.Popen(
        command(*words),
        cwd=folder,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(
    process: subprocess.Popen[str], seconds: float = 120
) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def run(folder: Path, *words: str, **settings: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of the command line."""
    return ended(started(folder, *words, **settings))


def kept(folder: Path) -> int:
    """The shards that the store of a folder holds."""
    with contextlib.suppress(sqlite3.Error):
        uri = f"file:{folder / 'runs.db'}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as store:
            return int(store.execute("SELECT count(*) FROM shards").fetchone()[0])
    return 0


def until(found: Callable[[], Any], seconds: float = 60) -> Any:
    """What ``found`` returns as soon as it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = found()
        if answer:
            return answer
        time.sleep(0.05)
    raise TimeoutError("what was awaited did not happen")


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    me = psutil.Process(process.pid)
    return [me, *me.children(recursive=True)]


def left(processes: list[psutil.Process]) -> int:
    """How many still run after a second; nobody may be there to reap the dead."""
    end = time.monotonic() + 1.0
    while (alive := [x for x in processes if runs(x)]) and time.monotonic() < end:
        time.sleep(0.05)
    for process in alive:
        process.kill()
    return len(alive)


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def listening(processes: list[psutil.Process]) -> list[Any]:
    return [
        connection.laddr
        for process in processes
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]


def answer(out: str) -> tuple[Any, ...]:
    found = json.loads(out)
    return found["value"], tuple(found["q_values"]), found["num_calls"]


def sentence(err: str) -> str:
    """The error, without what came before it."""
    return err[err.find("Error: ") :].strip()


def one_sentence(err: str) -> bool:
    """Whether there is one error, on one line, after at most some warnings."""
    lines = err.strip().split("\n")
    starts = [line.startswith("Error: ") for line in lines]
    return "Traceback" not in err and starts.count(True) == 1 and starts[-1]


def speaks_http(port: int) -> bool:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/")
        connection.getresponse()
        return True
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def certificates(folder: Path) -> tuple[str, str]:
    """PEM files of a new certificate, which is its own CA, and of its key."""
    import distributed

    security = distributed.Security.temporary()
    files = (folder / "cert.pem", folder / "key.pem")
    folder.mkdir(exist_ok=True)
    for file, text in zip(
        files, (security.tls_ca_file, security.tls_client_key), strict=True
    ):
        file.write_text(text)
    return str(files[0]), str(files[1])


def words(text: str) -> list[str]:
    """The words of a command line that prints one JSON object."""
    return [*text.split(), "--json"]
