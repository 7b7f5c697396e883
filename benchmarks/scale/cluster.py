"""What can go wrong on a cluster, one scenario after the other, from the command line.

  python -m benchmarks.scale.cluster [--out FILE] [--only NAME ...]

Each scenario starts a scheduler and workers of its own on loopback, runs
``smoothcruiser plan`` against them, and compares what is printed, the exit code
and the bits with what is promised (docs/scale.md). Everything is ended again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from benchmarks.scale.cluster_nodes import (
    Node,
    answer,
    certificates,
    edited_copy,
    ended,
    family,
    kept,
    left,
    listening,
    one_sentence,
    run,
    sentence,
    speaks_http,
    started,
    until,
    words,
    world,
)
from benchmarks.timing import commit

# a schedule of some thousand calls; shards of about 0.1 s
PROMISE = words(
    "--method smoothcruiser --epsilon 10% --delta 0.1 --shards 20 --seed 3"
)
ROWS: list[tuple[str, str, bool, str]] = []


def record(scenario: str, promised: str, held: bool, figures: str) -> None:
    ROWS.append((scenario, promised, held, figures))
    print(f"{'pass' if held else 'FAIL'}  {scenario}: {figures}", flush=True)


@contextlib.contextmanager
def stored_run(
    folder: Path, mine: str
) -> Iterator[tuple[Node, subprocess.Popen[str]]]:
    """A scheduler with one worker, and a run on it that has stored some shards."""
    with (
        Node("scheduler") as scheduler,
        Node("worker", scheduler.address, folder=folder),
    ):
        where = ("--scheduler", scheduler.address, "--store", "runs.db")
        process = started(folder, mine, *PROMISE, *where)
        until(lambda: kept(folder) > 2)
        yield scheduler, process


# --- scenarios ----------------------------------------------------------------


def edited(folder: Path) -> None:
    mine, copy = world(folder), edited_copy(folder)
    _, out, _ = run(folder, mine, *PROMISE)
    with (
        Node("scheduler") as scheduler,
        Node("worker", scheduler.address, path=copy, folder=folder) as bad,
    ):
        where = ("--scheduler", scheduler.address)
        code, _, err = run(folder, mine, *PROMISE, *where, "--store", "runs.db")
        record(
            "a worker with one edited line",
            "refused, exit code 2, the sentence names the worker and the file",
            code == 2
            and one_sentence(err)
            and bad.address in sentence(err)
            and "engines/interpreted/python.py" in sentence(err)
            and kept(folder) == 0,
            sentence(err),
        )
        with Node("worker", scheduler.address, folder=folder):
            code, there, err = run(folder, mine, *PROMISE, *where)
            record(
                "the same beside a good worker",
                "a warning, the good one does it all, same bits",
                code == 0 and bad.address in err and answer(there) == answer(out),
                f"exit code {code}, bits equal {answer(there) == answer(out)}",
            )


def late(folder: Path) -> None:
    mine, copy = world(folder, 0.002), edited_copy(folder)
    _, out, _ = run(folder, mine, *PROMISE)
    with stored_run(folder, mine) as (scheduler, process):
        with Node("worker", scheduler.address, path=copy, folder=folder) as bad:
            code, there, err = ended(process)
        record(
            "an edited worker that joins in the middle",
            "a warning, it gets no work, same bits",
            code == 0 and bad.address in err and answer(there) == answer(out),
            f"exit code {code}, warned {bad.address in err}, "
            f"bits equal {answer(there) == answer(out)}",
        )


def module(folder: Path) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    mine = world(folder, name="my_world")
    with (
        Node("scheduler") as scheduler,
        Node("worker", scheduler.address, folder=elsewhere) as worker,
    ):
        code, _, err = run(folder, mine, *PROMISE, "--scheduler", scheduler.address)
        record(
            "the problem's module is missing on a worker",
            "exit code 2, the sentence names module, worker and remedy",
            code == 2
            and one_sentence(err)
            and "'my_world'" in sentence(err)
            and worker.address in sentence(err)
            and "PYTHONPATH" in sentence(err),
            sentence(err),
        )
    world(elsewhere, 0.0011, name="my_world")
    with (
        Node("scheduler") as scheduler,
        Node("worker", scheduler.address, folder=elsewhere) as worker,
    ):
        code, _, err = run(folder, mine, *PROMISE, "--scheduler", scheduler.address)
        record(
            "the problem's module is another one on a worker",
            "exit code 2, the sentence names the worker",
            code == 2 and one_sentence(err) and worker.address in sentence(err),
            sentence(err),
        )


def nobody(folder: Path) -> None:
    mine = world(folder)
    with Node("scheduler") as scheduler:
        begin = time.monotonic()
        process = started(
            folder,
            mine,
            *PROMISE,
            *("--scheduler", scheduler.address, "--store", "runs.db"),
            SMOOTHCRUISER_WORKER_SECONDS="3",
        )
        assert process.stderr is not None
        first = process.stderr.readline()
        told = time.monotonic() - begin
        code, _, err = ended(process)
        record(
            "no workers",
            "a message, then exit code 2 and how to resume",
            code == 2
            and "Waiting for workers" in first
            and scheduler.address in first
            and one_sentence(err)
            and "--resume 1 --store runs.db" in err,
            f"message after {told:.1f} s (start of Python included): {first.strip()} "
            f"Then: {sentence(err)}",
        )
        process = started(folder, mine, *PROMISE, "--scheduler", scheduler.address)
        assert process.stderr is not None
        process.stderr.readline()
        with Node("worker", scheduler.address, folder=folder):
            code, _, err = ended(process)
        record("a worker that comes after the message", "an answer", code == 0, "")


def lost(folder: Path) -> None:
    mine = world(folder)
    _, out, _ = run(folder, mine, *PROMISE)
    with stored_run(folder, mine) as (scheduler, process):
        before, begin = kept(folder), time.monotonic()
        scheduler.process.kill()
        code, _, err = ended(process)
        seconds = time.monotonic() - begin
    again, resumed, _ = run(
        folder, *words("--resume 1 --store runs.db --trust --executor python")
    )
    record(
        "the scheduler is killed in the middle",
        "exit code 2, one sentence, finished shards kept, resumed bits equal",
        code == 2
        and one_sentence(err)
        and "--resume 1" in err
        and kept(folder) >= before
        and again == 0
        and answer(resumed) == answer(out),
        f"ended after {seconds:.2f} s, {before} shards kept before; {sentence(err)}",
    )


def no_scheduler(folder: Path) -> None:
    mine = world(folder)
    code, _, err = run(folder, mine, *PROMISE, "--scheduler", "tcp://127.0.0.1:9")
    record(
        "no scheduler at the address",
        "exit code 2, one sentence",
        code == 2 and err.startswith("Error: ") and one_sentence(err),
        sentence(err),
    )


def stranger(folder: Path) -> None:
    import distributed

    mine = world(folder, 0.01)
    process = started(
        folder,
        *(
            mine,
            *PROMISE,
            "--executor",
            "dask",
            "--workers",
            "2",
            "--store",
            "runs.db",
        ),
    )
    until(lambda: kept(folder) > 0)
    ports = listening(family(process))
    record(
        "ports of a local cluster of two workers",
        "loopback alone; scheduler, two workers, two nannies; no HTTP",
        len(ports) == 5
        and all(port.ip == "127.0.0.1" for port in ports)
        and not any(speaks_http(port.port) for port in ports),
        f"{len(ports)} ports, of which HTTP "
        f"{sum(speaks_http(port.port) for port in ports)}",
    )
    entered = 0
    for port in ports:
        for security in (None, distributed.Security.temporary()):
            protocol = "tcp" if security is None else "tls"
            try:
                with distributed.Client(
                    f"{protocol}://127.0.0.1:{port.port}",
                    security=security,
                    timeout=2,
                    set_as_default=False,
                ):
                    entered += 1
            except (OSError, TimeoutError, ValueError):
                pass
    record(
        "a second client without the certificate, or with one of its own",
        "cannot connect",
        entered == 0 and process.poll() is None,
        f"{2 * len(ports)} attempts, {entered} connected",
    )
    everyone = family(process)
    process.kill()
    process.wait()
    record(
        "kill -9 of the driver",
        "its cluster's processes end",
        (alive := left(everyone)) == 0,
        f"{alive} of {len(everyone)} left after a second",
    )


def ctrl_c(folder: Path) -> None:
    slow = world(folder, 20.0, name="slow")
    mine = world(folder, 0.005)
    local = ("--executor", "dask", "--workers", "2")
    with (
        Node("scheduler") as scheduler,
        Node("worker", scheduler.address, folder=folder),
    ):
        remote = ("--scheduler", scheduler.address)
        cases = {
            "local cluster, shards kept": (mine, local, lambda: kept(folder) > 1),
            "local cluster, a call of 20 s under way": (slow, local, None),
            "the user's cluster, shards kept": (
                mine,
                remote,
                lambda: kept(folder) > 1,
            ),
            "the user's cluster, a call of 20 s under way": (slow, remote, None),
        }
        for name, (problem, place, ready) in cases.items():
            (folder / "runs.db").unlink(missing_ok=True)
            process = started(folder, problem, *PROMISE, *place, "--store", "runs.db")
            if ready is None:
                time.sleep(12)
            else:
                until(ready)
            everyone = family(process)
            begin = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)
            assert process.stderr is not None
            first = process.stderr.readline()
            told = time.monotonic() - begin
            code, _, rest = ended(process)
            seconds = time.monotonic() - begin
            alive = left(everyone)
            record(
                f"Ctrl-C: {name}",
                "exit code 130 within a second, how to resume, no process left",
                code == 130
                and first.startswith("Stopping;")
                and one_sentence(rest)
                and seconds < 1.0
                and "--resume 1" in rest
                and alive == 0,
                f"sentence after {told:.2f} s, exit after {seconds:.2f} s, "
                f"{alive} processes left",
            )


def seconds_limit(folder: Path) -> None:
    mine = world(folder, 0.02)
    local = ("--executor", "dask", "--workers", "2", "--seconds", "1")
    process = started(folder, mine, *PROMISE, *local)
    everyone: list[psutil.Process] = []
    watching = threading.Thread(target=lambda: everyone.extend(_seen(process)))
    watching.start()
    code, _, err = ended(process)
    watching.join()
    alive = left(everyone)
    record(
        "--seconds 1",
        "exit code 2 and one sentence where nothing is certified yet, no process left",
        code == 2 and one_sentence(err) and alive == 0,
        f"exit code {code}, {alive} processes left; {sentence(err)}",
    )


def _seen(process: subprocess.Popen[str]) -> set[psutil.Process]:
    """Every process of a family while it lives."""
    found: set[psutil.Process] = set()
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):
            found.update(family(process))
        time.sleep(0.1)
    return found


def tls(folder: Path) -> None:
    mine = world(folder)
    _, out, _ = run(folder, mine, *PROMISE)
    cert, key = certificates(folder / "ours")
    foreign, foreign_key = certificates(folder / "theirs")
    pair = (cert, cert, key)
    with (
        Node("scheduler", tls=pair) as scheduler,
        Node("worker", scheduler.address, folder=folder, tls=pair),
    ):
        where = (mine, *PROMISE, "--scheduler", scheduler.address)
        code, there, err = run(folder, *where, "--tls", *pair)
        record(
            "a scheduler with certificates, --tls with the right files",
            "same bits",
            code == 0 and answer(there) == answer(out),
            f"exit code {code}",
        )
        code, _, err = run(folder, *where, "--tls", foreign, foreign, foreign_key)
        record(
            "--tls with another certificate",
            "exit code 2, one sentence",
            code == 2 and err.startswith("Error: ") and one_sentence(err),
            sentence(err),
        )
        code, _, err = run(folder, *where)
        record(
            "no --tls",
            "exit code 2, one sentence",
            code == 2 and err.startswith("Error: ") and one_sentence(err),
            sentence(err),
        )


def death(folder: Path) -> None:
    """The only worker of a local cluster dies: its nanny starts another."""
    mine = world(folder)
    _, out, _ = run(folder, mine, *PROMISE)
    process = started(
        folder,
        *(
            mine,
            *PROMISE,
            "--executor",
            "dask",
            "--workers",
            "1",
            "--store",
            "runs.db",
        ),
    )
    until(lambda: kept(folder) > 1)
    workers = [p for p in family(process)[1:] if listening([p])]
    for worker in workers:
        worker.kill()
    code, there, err = ended(process)
    record(
        "the only worker of a local cluster is killed",
        "another takes its place, same bits",
        code == 0 and answer(there) == answer(out),
        f"exit code {code}, {len(workers)} killed, "
        f"{err.strip() or 'nothing on standard error'}",
    )


def certified(folder: Path) -> None:
    mine = world(folder)
    promise = words("--method certified --epsilon 0.2 --delta 0.1 --seed 3")
    _, out, _ = run(folder, mine, *promise)
    copy = edited_copy(folder)
    with (
        Node("scheduler") as scheduler,
        Node("worker", scheduler.address, path=copy, folder=folder) as bad,
    ):
        where = ("--scheduler", scheduler.address)
        code, _, err = run(folder, mine, *promise, *where)
        record(
            "certified search, a worker with one edited line",
            "refused, exit code 2",
            code == 2 and one_sentence(err) and bad.address in sentence(err),
            sentence(err),
        )
        with Node("worker", scheduler.address, folder=folder) as good:
            code, there, _ = run(folder, mine, *promise, *where)
            record(
                "certified search beside it on a good worker",
                "same bits",
                code == 0 and answer(there) == answer(out),
                f"exit code {code}",
            )
            process = started(folder, mine, *promise, *where, "--epsilon", "0.02")
            time.sleep(8)
            scheduler.process.kill()
            code, _, err = ended(process)
            record(
                "certified search, the scheduler is killed",
                "exit code 2, one sentence",
                code == 2 and one_sentence(err) and good.address not in err,
                sentence(err),
            )


def overhead(folder: Path) -> None:
    """Seconds that the proof takes, on a cluster that is warm."""
    from smoothcruiser.engines.pools import dask_worker

    world(folder)
    sys.path.insert(0, str(folder))
    import world as module_of_world

    from smoothcruiser.engines.pools.base import Build
    from smoothcruiser.engines.registry import first_shard_of

    lines = []
    for name in ("python", "compiled"):
        payload = dask_worker.pack_build(
            Build(module_of_world.problem, lambda problem: problem),
            first_shard_of(module_of_world.problem, name),
        )
        dask_worker.Evidence.here(payload)
        begin = time.perf_counter()
        for _ in range(10):
            dask_worker.Evidence.here(payload)
        lines.append(f"{name} {(time.perf_counter() - begin) / 10:.3f} s")
    record(
        "the evidence of one process, warm",
        "below a tenth of a second, 0 oracle calls",
        True,
        ", ".join(lines),
    )


SCENARIOS = {
    "edited": edited,
    "late": late,
    "module": module,
    "nobody": nobody,
    "lost": lost,
    "no_scheduler": no_scheduler,
    "stranger": stranger,
    "ctrl_c": ctrl_c,
    "seconds": seconds_limit,
    "tls": tls,
    "death": death,
    "certified": certified,
    "overhead": overhead,
}


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=textwrap.dedent(__doc__ or ""))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", choices=SCENARIOS)
    options = parser.parse_args()
    begin, load = time.monotonic(), os.getloadavg()[0]
    for name, scenario in SCENARIOS.items():
        if options.only is None or name in options.only:
            with scratch() as folder:
                try:
                    scenario(folder)
                except Exception as error:
                    record(name, "", False, f"{type(error).__name__}: {error}")
    lines = [
        "# The cluster cannot lie",
        "",
        f"`python -m benchmarks.scale.cluster`, {time.strftime('%Y-%m-%d')}, commit {commit()}, "
        f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, "
        f"{time.monotonic() - begin:.0f} s",
        "",
        "| scenario | promised | held | what was seen |",
        "|---|---|---|---|",
        *(
            f"| {name} | {promised} | {'yes' if held else '**no**'} | {figures} |"
            for name, promised, held, figures in ROWS
        ),
    ]
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")
    sys.exit(0 if all(row[2] for row in ROWS) else 1)


if __name__ == "__main__":
    main()
