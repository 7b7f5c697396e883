"""Entries of the cache that were damaged, raced or forged: missing, or the same bits.

  python -m benchmarks.reliability.damaged_cache [--entries 2000] [--processes 24] [--out F]

Machine code and a schedule are written once. Each case damages an entry, or puts
something else in its place, and reads it. The law:

  * the entry counts as missing, or it gives the bits of the whole one;
  * nothing else is built, called or waited for, and nothing raw is raised;
  * an entry that was missing is written again, and then gives the same bits.

Then processes start at once on an empty folder. All print the same bits, the folder holds
the entries that a single process leaves, and the next process compiles nothing.
"""

from __future__ import annotations

import argparse
import os
import pickle
import platform
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.reliability.damaged_stores import PIECE_DAMAGES, damage_piece
from benchmarks.timing import commit, publish

import smoothcruiser as sc
from smoothcruiser.jit import disk_cache
from smoothcruiser.jit.build import compile_function
from smoothcruiser.operators import dispatch
from smoothcruiser.schedule import schedule_cache
from smoothcruiser.schedule.compiler.optimizer import ALL_KINDS, compile_schedule

MISSING, SAME = "missing", "the same bits"
SECONDS = 20  # a case that takes longer was waiting for something
ARGUMENTS = (0, np.array([1.0, 2.0]), np.array([1.0, 1.0]), 0.5)
PROGRAM = """
import numpy as np
from smoothcruiser.jit.build import compile_function
from smoothcruiser.operators import dispatch

value = compile_function(dispatch.builtin_value)
answer = value(0, np.array([1.0, 2.0]), np.array([1.0, 1.0]), 0.5)
print(answer.hex(), sum(value.stats.cache_hits.values()))
"""


@dataclass(frozen=True)
class Entry:
    """An entry that is whole, and the two ways to its contents."""

    name: str
    whole: bytes  # the file
    expected: Any
    read: Callable[[], Any]  # its result, or None if it counts as missing

    @property
    def path(self) -> Path:
        """The entry's file."""
        folder = disk_cache.find_folder()
        assert folder is not None
        return folder / self.name


def write_entries() -> list[Entry]:
    """Machine code and a schedule in the folder of ``NUMBA_CACHE_DIR``."""
    names = {path.name for path in disk_cache.list_entries()}
    value = compile_function(dispatch.builtin_value, salt=f"damaged_{len(names)}")
    expected = value(*ARGUMENTS)
    (signature,) = value.signatures
    prefix = disk_cache.code_prefix(value.py_func, value.py_func.__qualname__)
    assert prefix is not None
    code_cache = disk_cache.CodeCache(prefix, lambda: None)

    def load_code() -> float | None:
        result = code_cache.load_overload(signature, value.targetctx)
        return None if result is None else result.entry_point(*ARGUMENTS)

    facts = sc.make("chain:n=5", discount=0.4, temperature=0.2).facts
    request = schedule_cache.ScheduleRequest(
        facts, frozenset(ALL_KINDS), 0.15, 0.1, "q_values", True, "smoothcruiser"
    )
    schedule = compile_schedule(facts, epsilon=0.15, delta=0.1)
    schedule_cache.load_or_search(request, lambda: schedule)

    def load_schedule() -> str | None:
        searched: list[int] = []
        answer = schedule_cache.load_or_search(
            request, lambda: searched.append(1) or schedule
        )
        return None if searched else answer.to_json()

    entries = []
    for path in disk_cache.list_entries():
        if path.name.startswith(prefix):
            entries.append(Entry(path.name, path.read_bytes(), expected, load_code))
        elif path.name.startswith(disk_cache.SCHEDULE):
            text = schedule.to_json()
            entries.append(Entry(path.name, path.read_bytes(), text, load_schedule))
    assert len(entries) == 2
    return sorted(entries, key=lambda entry: entry.name)


# --- damage ---------------------------------------------------------------------------


def flip_bits(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 2, 8))):
        end = rng.choice((32, 200, len(content)))
        content[rng.randrange(end)] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def lose_blocks(path: Path, rng: random.Random) -> None:
    """A piece is cut, zeroed, copied elsewhere, added or dropped; or all of it."""
    content = bytearray(path.read_bytes())
    size = rng.choice((1, 32, 512, 4096))
    at, to = (rng.randrange(0, len(content)) for _ in range(2))
    damage = rng.choice((*PIECE_DAMAGES, "empty"))
    if damage == "empty":
        content.clear()
    else:
        damage_piece(content, damage, slice(at, at + size), to, rng)
    path.write_bytes(content)


def put_other(path: Path, rng: random.Random) -> None:
    """The whole entry of another name, as it is."""
    others = [x for x in disk_cache.list_entries() if x.name != path.name]
    path.write_bytes(rng.choice(others).read_bytes())


def put_pipe(path: Path, rng: random.Random) -> None:
    path.unlink()
    if rng.random() < 0.5:
        os.mkfifo(path)
    else:
        with socket.socket(socket.AF_UNIX) as endpoint:
            os.chdir(path.parent)  # the path of a socket is short
            endpoint.bind(path.name)


def put_folder(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()
    if rng.random() < 0.5:
        (path / "file").touch()


def put_link(path: Path, rng: random.Random) -> None:
    copy = path.with_name("elsewhere")
    path.replace(copy)
    path.symlink_to(rng.choice((copy, Path("/dev/zero"), Path("nowhere"), path)))


def give_away(path: Path, rng: random.Random) -> None:
    """Others can write the file, or it belongs to one of them."""
    if os.geteuid() == 0 and rng.random() < 0.5:
        os.chown(path, 12345, 12345)
    else:
        path.chmod(rng.choice((0o664, 0o646, 0o666)))


class Forged:
    """A pickle that calls a function of its own choice."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


FORGED_CALLS: tuple[tuple[Any, ...], ...] = (
    (os.mkdir, "loaded"),
    (eval, "__import__('os').mkdir('loaded')"),
    (__import__, "subprocess"),
    (subprocess.Popen, ["mkdir", "loaded"]),
    (Path.touch, Path("loaded")),
    (pickle.loads, pickle.dumps(Forged(os.mkdir, "loaded"))),
)


def forge(path: Path, rng: random.Random) -> None:
    """Another pickle or text under a seal that fits."""
    contents = rng.choice(
        (
            *(pickle.dumps(([], Forged(*call))) for call in FORGED_CALLS),
            pickle.dumps(rng.choice((None, 1, [], ([], ()), (["no_such"], (1,) * 9)))),
            b"cnumba.core.config\nos.mkdir\n(S'loaded'\ntR.",
            rng.randbytes(200),
            b"[" * 100_000,
            b'{"levels": []}',
        )
    )
    disk_cache.write_entry(path.name, contents)


def race(path: Path, rng: random.Random) -> None:
    """While it is read, another thread replaces the file by damaged ones and back."""
    whole = path.read_bytes()

    def write() -> None:
        for _ in range(rng.randrange(1, 30)):
            action = rng.choice(("cut", "whole", "remove", "write"))
            try:
                if action == "remove":
                    path.unlink(missing_ok=True)
                elif action == "write":  # not at once: readers see a part of it
                    path.write_bytes(whole)
                else:
                    end = rng.randrange(len(whole)) if action == "cut" else None
                    disk_cache.write_private(path, whole[:end])
            except OSError:
                pass

    threading.Thread(target=write, daemon=True, name="race").start()


def leave_parts(path: Path, rng: random.Random) -> None:
    """Parts of a file that a killed process was writing, beside the whole one."""
    for _ in range(3):
        part = path.with_name(f"{path.name}.tmp.{rng.randbytes(8).hex()}")
        part.write_bytes(path.read_bytes()[: rng.randrange(1000)])


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "bits flipped": flip_bits,
    "blocks lost or moved": lose_blocks,
    "another entry": put_other,
    "a pipe or socket": put_pipe,
    "a folder": put_folder,
    "a link": put_link,
    "others can write it": give_away,
    "forged and sealed": forge,
    "raced": race,
    "parts beside it": leave_parts,
}


# --- the law --------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """The result of one damaged entry."""

    damage: str
    result: str
    detail: str = ""

    @property
    def is_broken(self) -> bool:
        """Whether the law was broken."""
        return self.result not in (MISSING, SAME)


@contextmanager
def time_limit() -> Iterator[None]:
    """TimeoutError after SECONDS; only the main thread can be interrupted."""

    def interrupt(*_: Any) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def run_case(entry: Entry, number: int) -> Case:
    """One case: an entry is damaged, read, written again and read."""
    rng = random.Random(number)
    damage = rng.choice(sorted(DAMAGES))
    try:
        DAMAGES[damage](entry.path, rng)
        with time_limit():
            answer = entry.read()
        for thread in threading.enumerate():
            if thread.name == "race":
                thread.join()
        if answer not in (None, entry.expected):
            return Case(damage, "other bits", repr(answer)[:100])
        if Path("loaded").exists():
            return Case(damage, "foreign code ran")
        if damage == "a folder":
            disk_cache.remove(entry.path / "file")
            disk_cache.remove(entry.path)
        disk_cache.write_entry(entry.name, entry.whole[disk_cache.SEAL_BYTES :])
        if entry.read() != entry.expected:
            return Case(damage, "not written again")
    except Exception as error:
        return Case(damage, type(error).__name__, str(error)[:200])
    return Case(damage, MISSING if answer is None else SAME)


def all_cases(count: int, folder: Path) -> list[Case]:
    """``count`` cases in a folder, machine code and the schedule in turns."""
    previous = {x: os.environ.get(x) for x in ("NUMBA_CACHE_DIR", disk_cache.VARIABLE)}
    here = Path.cwd()
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    os.environ.pop(disk_cache.VARIABLE, None)
    os.chdir(folder)
    try:
        entries = write_entries()
        return [run_case(entries[i % len(entries)], i) for i in range(count)]
    finally:
        os.chdir(here)
        for name, value in previous.items():
            os.environ.pop(name, None)
            os.environ |= {} if value is None else {name: value}


def start_at_once(count: int, folder: Path) -> list[str]:
    """Processes on one empty folder: their answers and hits, and the folder's names."""
    source = Path(sc.__file__).parent.parent
    around = os.environ | {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", PROGRAM]
    processes = [
        subprocess.Popen(command, env=around, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    return [process.communicate()[0].strip() for process in processes]


def check_processes(count: int, folder: Path) -> str:
    """One sentence about processes that start at once; AssertionError otherwise."""
    (alone,) = start_at_once(1, folder / "alone")
    answers = start_at_once(count, folder / "many")
    (later,) = start_at_once(1, folder / "many")
    value = alone.split()[0]
    assert {answer.split()[0] for answer in answers} == {value}, answers
    assert later.split() == [value, "1"], later
    names = [
        sorted(x.name for x in (folder / n).rglob("*")) for n in ("alone", "many")
    ]
    assert names[0] == names[1], "the folder differs from that of one process"
    return (
        f"{count} processes that started at once on an empty folder printed the same bits "
        f"and left the {len(names[0]) - 1} entries that one process leaves; the next one "
        "compiled nothing."
    )


def table(cases: list[Case]) -> list[str]:
    """Counts by damage and result, as Markdown."""
    results = sorted({case.result for case in cases})
    counts = Counter((case.damage, case.result) for case in cases)
    lines = [f"| damage | {' | '.join(results)} |", "|---" * (len(results) + 1) + "|"]
    for damage in DAMAGES:
        row = " | ".join(str(counts[damage, result]) for result in results)
        lines.append(f"| {damage} | {row} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=24)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    start_time = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cases").mkdir()
        cases = all_cases(options.entries, Path(folder) / "cases")
        sentence = check_processes(options.processes, Path(folder))
    broken = [case for case in cases if case.is_broken]
    lines = [
        "# Damaged entries of the cache",
        "",
        f"`python -m benchmarks.reliability.damaged_cache --entries {options.entries} "
        f"--processes {options.processes}`, {time.strftime('%Y-%m-%d')}, commit "
        f"{commit()}, {platform.machine()}, {time.perf_counter() - start_time:.0f} s",
        "",
        *table(cases),
        "",
        f"{len(cases):,} entries, machine code and schedules in turns; {len(broken)} broke "
        "the law: an entry counts as missing and is written again, or gives the same bits; "
        "nothing else is built, called or waited for.",
        "",
        sentence,
        *(f"- {x.damage}: {x.result}: {x.detail}" for x in broken),
    ]
    text = "\n".join(lines) + "\n"
    publish(text, options.out)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
