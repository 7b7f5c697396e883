"""Runs that are ended from outside, in the middle of drawing.

  python -m benchmarks.reliability.survival [--kills N] [--out FILE]

A run with a store is started in a process of its own, with each executor. Progress is
read from the store, from outside; then the process is killed (kill -9) at a random
moment between two shards, and resumed by the next process, N times per executor.
Then SIGTERM and Ctrl-C are sent to the command line, and Ctrl-C twice to a step that
loops for ever in machine code. Each time:

  inside    the process was alive, shards had been finished since it started, and
            others were missing
  kept      every shard that was in the store before is in it after, bit for bit
  alone     no process is left that the run had started (a mark in its environment)

In the end every shard and the answer have the bits of a run that was left alone. A
line of the table that breaks any of this makes the exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import smoothcruiser as sc
from smoothcruiser.store import Store

HERE = Path(__file__).parent
MARK = "SMOOTHCRUISER_SURVIVAL"
PATIENCE = 120.0  # seconds for something that must happen
SEED = 5
AGAIN_SECONDS = 0.6  # until the second Ctrl-C; 1 s after the first, threads are left
COMPILED_SECONDS = 25.0  # until a step is compiled and loops, also on a busy machine


@dataclass(frozen=True)
class Study:
    """A run, and how it is executed."""

    name: str
    problem: str
    promise: tuple[str, ...]
    executor: str
    workers: int
    shards: int

    def made(self) -> sc.Problem:
        if self.problem.startswith("slow_world"):
            return sc.make(self.problem)
        return sc.make(self.problem, discount=0.5, temperature=1.0)

    def arguments(self, store: Path) -> list[str]:
        """The command line that starts the run."""
        facts = ["--discount", "0.5", "--temperature", "1"]
        return [
            *("-m", "smoothcruiser", "plan", self.problem),
            *([] if self.problem.startswith("slow_world") else facts),
            *("--method", "smoothcruiser", "--delta", "0.1", *self.promise),
            *("--executor", self.executor, "--workers", str(self.workers)),
            *(
                "--shards",
                str(self.shards),
                "--seed",
                str(SEED),
                "--store",
                str(store),
            ),
        ]

    def resuming(self, store: Path) -> list[str]:
        """The same for a run that is resumed."""
        code = (
            "import smoothcruiser as sc, survival\n"
            "if __name__ == '__main__':\n"
            f"    study = survival.STUDIES[{self.name!r}]\n"
            f"    sc.resume(1, {str(store)!r}, study.made(), workers=study.workers)\n"
        )
        script = store.with_name(f"resume_{store.stem}.py")
        script.write_text(code)
        return [str(script)]


# its early stop, after a seventh of the shards, has to come after all kills
SLOW = ("slow_world:problem", ("--epsilon", "3%"))  # 20 s of waiting until then
FAST = ("garnet:states=10,actions=2", ("--epsilon", "0.017"))  # 8e8 calls
STUDIES = {
    study.name: study
    for study in (
        Study("compiled", *FAST, "compiled", 2, 400),
        Study("python", *SLOW, "python", 1, 200),
        Study("processes", *SLOW, "processes", 2, 800),
        Study("dask", *SLOW, "dask", 2, 800),
    )
}


# --- one process --------------------------------------------------------------


class Child:
    """A process whose descendants can be found again."""

    def __init__(self, arguments: list[str]) -> None:
        self.mark = uuid.uuid4().hex
        path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, MARK: self.mark, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            # a shell's background job ignores Ctrl-C, and so do its children
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def left(self) -> list[int]:
        """The processes that it started and that are not over."""
        found = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # another user's, or over by now
                if f"{MARK}={self.mark}".encode() in environ.read_bytes():
                    found.append(int(environ.parent.name))
        return found

    def ended(self) -> tuple[int, str, bool]:
        """(exit code, what it wrote, in one line, whether nothing is left of it)."""
        alone = soon(lambda: not self.left(), seconds=30.0)
        for number in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        written, _ = self.process.communicate()
        return self.process.returncode, " ".join(written.split()), alone


def soon(holds: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether a condition comes to hold in time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.03)
    return True


def shards(store: Path) -> dict[tuple[int, int], tuple[float, ...]]:
    """The finished shards of run 1, read from outside."""
    try:
        with Store(store, write=False) as opened:
            return {
                place: (part.draws, part.total, part.square, part.calls)
                for place, part in opened.parts(1).items()
            }
    except sc.SmoothcruiserError:
        return {}  # not there yet


# --- one executor -------------------------------------------------------------


@dataclass
class Row:
    """A line of the table."""

    executor: str
    how: str
    ended: int = 0
    inside: int = 0
    kept: int = 0
    alone: int = 0
    told: int = 0  # exit code and resume hint as they should be
    finished: list[int] = field(default_factory=list)  # shards after each
    same: bool | None = False  # None: the run has no end to compare

    @property
    def holds(self) -> bool:
        counts = (self.inside, self.kept, self.alone, self.told)
        return self.same is not False and all(count == self.ended for count in counts)

    def __str__(self) -> str:
        each = " | ".join(
            f"{count} of {self.ended}"
            for count in (self.inside, self.kept, self.alone, self.told)
        )
        return (
            f"| {self.executor} | {self.how} | {self.ended} | {each} | "
            f"{self.finished[-1]} | {'–' if self.same is None else self.same} |"
        )


HEAD = (
    "| executor | ended by | times | inside drawing | nothing lost | nothing left | "
    "exit code and hint | shards before the last resume | same bits |\n"
    "|---|---|---|---|---|---|---|---|---|"
)
CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}


def interrupted(
    study: Study, store: Path, how: signal.Signals, row: Row, moments: random.Random
) -> None:
    """Start or resume a run, see progress, end it, and look at what is left."""
    before = shards(store)
    child = Child(study.resuming(store) if before else study.arguments(store))
    goal = len(before) + moments.randint(1, 4)
    soon(lambda: not child.alive or len(shards(store)) >= goal)
    time.sleep(moments.random() * 0.1)
    seen, alive = shards(store), child.alive
    child.process.send_signal(how)
    code, written, alone = child.ended()
    after = shards(store)
    whole = 2 * study.shards
    row.ended += 1
    row.inside += alive and goal <= len(seen) and len(after) < whole
    row.kept += all(after.get(place) == part for place, part in seen.items())
    row.alone += alone
    hint = how == signal.SIGKILL or f"--resume 1 --store {store}" in written
    row.told += code == CODES[how] and hint
    row.finished.append(len(after))


def compared(study: Study, store: Path, alone: sc.Estimate, kept: Path) -> bool:
    """Whether the resumed run ends with every bit of the one that was left alone.

    Workers may draw shards ahead of an early stop, so one store may have more.
    """
    final = sc.resume(1, store, study.made(), workers=study.workers)
    fields = ("value", "q_values", "interval", "num_calls", "policy")
    here, there = shards(store), shards(kept)
    return all(here[place] == there[place] for place in here.keys() & there) and all(
        getattr(final, name) == getattr(alone, name) for name in fields
    )


def studied(study: Study, kills: int, signals: int, folder: Path) -> list[Row]:
    """The lines of one executor."""
    problem, promise = study.made(), study.promise[1]
    kept = folder / f"{study.name}-alone.db"
    alone = sc.plan(
        problem,
        epsilon=promise if promise.endswith("%") else float(promise),
        delta=0.1,
        method="smoothcruiser",
        executor="python" if study.problem.startswith("slow") else study.executor,
        shards=study.shards,
        seed=SEED,
        store=kept,
    )
    rows = []
    moments = random.Random(study.name)
    if kills:
        row, store = Row(study.name, "kill -9"), folder / f"{study.name}.db"
        for _ in range(kills):
            interrupted(study, store, signal.SIGKILL, row, moments)
        row.same = compared(study, store, alone, kept)
        rows.append(row)
    for how in (signal.SIGTERM, signal.SIGINT) if signals else ():
        row = Row(study.name, how.name)
        row.same = True
        for number in range(signals):
            store = folder / f"{study.name}-{how.name}-{number}.db"
            interrupted(study, store, how, row, moments)
            row.same = row.same and compared(study, store, alone, kept)
        rows.append(row)
    return rows


# --- a step that never returns ------------------------------------------------

ENDLESS = """
import numba
import smoothcruiser as sc

@numba.njit
def step(state, action, rng):
    number = rng.random()
    while state == 2 and number >= 0.0:
        number += 1.0
    return number, state + 1 if rng.random() < {rarely} else 0

problem = sc.MDP(step, num_actions=2, discount=0.5, operator=sc.Entropy(1.0),
                 initial_state={start})
"""


def endless(folder: Path, *, at_once: bool, times: int) -> Row:
    """Ctrl-C twice while machine code loops for ever.

    It loops in threads, after some shards, or at the first call, in the main
    thread and with the interpreter's lock in its hand.
    """
    where = "at its first call" if at_once else "in threads"
    row = Row(f"compiled, endless {where}", "Ctrl-C twice", same=None)
    for number in range(times):
        name = f"endless_{at_once}_{number}"
        rarely, start = (3e-3, 2 if at_once else 0)
        module = folder / f"{name}.py"
        module.write_text(ENDLESS.format(rarely=rarely, start=start))
        store = folder / f"{name}.db"
        arguments = [
            *("-m", "smoothcruiser", "plan", f"{name}:problem", "--store", str(store)),
            *("--method", "smoothcruiser", "--delta", "0.1", "--epsilon", "2%"),
        ]
        child = Child(["-c", _in_folder(folder, arguments)])
        time.sleep(COMPILED_SECONDS)
        seen, alive = shards(store), child.alive
        child.process.send_signal(signal.SIGINT)
        time.sleep(AGAIN_SECONDS)
        if child.alive:
            child.process.send_signal(signal.SIGINT)
        code, written, alone = child.ended()
        row.ended += 1
        after = shards(store)
        row.inside += alive and "Ended at once." in written
        row.kept += all(after.get(place) == part for place, part in seen.items())
        row.finished.append(len(after))
        row.alone += alone
        row.told += code == 130 and f"--resume 1 --store {store}" in written
    return row


def _in_folder(folder: Path, arguments: list[str]) -> str:
    return (
        f"import os, sys, runpy; os.chdir({str(folder)!r}); "
        f"sys.argv = ['smoothcruiser', *{arguments[2:]!r}]; "
        "runpy.run_module('smoothcruiser', run_name='__main__')"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--kills", type=int, default=20, help="per executor")
    parser.add_argument("--signals", type=int, default=2, help="of each kind")
    parser.add_argument("--only", nargs="*", default=list(STUDIES))
    options = parser.parse_args()
    options.out = None if options.out is None else options.out.resolve()
    os.chdir(HERE)  # where the problems' module is
    sys.path.insert(0, str(HERE))
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    lines = [
        "# Survival",
        "",
        f"`{shlex.join(['python', 'benchmarks/reliability/survival.py', *sys.argv[1:]])}` "
        f"({options.kills} kills, {options.signals} signals of each kind), "
        f"{time.strftime('%Y-%m-%d')}, commit {commit}, "
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "",
        HEAD,
    ]
    print("\n".join(lines), flush=True)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for key in options.only:
            kills = options.kills if key != "python" else -(-options.kills // 4)
            found = studied(STUDIES[key], kills, options.signals, folder)
            print("\n".join(map(str, found)), flush=True)
            rows += found
        if options.signals:
            for at_once in (False, True):
                rows.append(endless(folder, at_once=at_once, times=2))
                print(rows[-1], flush=True)
    kills = sum(row.ended for row in rows if row.how == "kill -9")
    broken = sum(not row.holds for row in rows)
    last = [
        "",
        f"{kills} kill -9 and {sum(row.ended for row in rows) - kills} other ends; "
        f"lines of the table that break a promise: {broken}. What the columns mean: "
        "the head of benchmarks/reliability/survival.py.",
    ]
    print("\n".join(last), flush=True)
    if options.out:
        options.out.write_text("\n".join([*lines, *map(str, rows), *last]) + "\n")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
