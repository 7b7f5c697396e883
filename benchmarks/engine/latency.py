"""The wait before the first answer of a user's own compiled simulator.

Every figure is CPU seconds of a fresh process, its start included, best of a few. A
process imports Numba, or compiles the user's step and no more, or asks for an answer:
a sharp schedule of about 10^5 calls, certified search or UCT, on a step over a
NamedTuple. Answers are timed with three disk caches:

  empty    nothing was ever compiled here
  new      the package was used before, this simulator never
  second   the same program ran before

The bars are ratios of one run: ``new`` at most 2.5 times the import and the step
together, ``second`` at most 1.5 times the import. Whatever Numba loads from its disk
cache costs more than the import (it reads its registries, and SciPy where there is
one), so a program that calls one function from the cache is timed too, and ``explain``,
which loads no Numba, with a bar of its own: a first time, when it searches for the
schedule, and a second time, when that was kept. Run: .venv/bin/python
benchmarks/engine/latency.py [--json] [--repeats N] [--only schedule,certified,uct] [--out FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.timing import load

NEW_BAR, SECOND_BAR = 2.5, 1.5
EXPLAIN_BAR = 0.6  # seconds
EXPLAINED = (
    "chain:n=5 --discount 0.2 --temperature 10",
    "chain:n=5 --discount 0.5 --temperature 0.5",
    "gridworld:n=5 --discount 0.5 --temperature 0.5",
    "gridworld:n=5 --discount 0.9 --temperature 50",
)

# a shop with two shelves; NUMBER makes it a simulator that no cache knows
WORLD = """
from typing import NamedTuple
import numba

NUMBER = {number}


class Shop(NamedTuple):
    shelf: int
    store: int


@numba.njit
def step(state, action, rng):
    shelf = min(state.shelf + (2 if action == 1 else 0), 9)
    store = min(state.store + (3 if action == 2 else 0), 9)
    asked = rng.integers(4) if rng.random() < 0.7 else 0
    sold = min(shelf, asked)
    cost = 0.01 * (shelf + store) + (0.1 if action > 0 else 0.0)
    moved = min(2, store, 9 - (shelf - sold))
    pay = (sold - cost) / (4.0 + NUMBER * 1e-9)
    return min(1.0, max(0.0, pay)), Shop(shelf - sold + moved, store - moved)
"""
IMPORT = "import numba\n"
STEP = """
from smoothcruiser.jit.random.stream_type import STREAM
import smoothcruiser.jit.random.distributions
step.compile((numba.typeof(Shop(3, 3)), numba.types.int64, STREAM))
"""
CACHED = """
import numba

@numba.njit(cache=True)
def one(x):
    return x + 1

one(1)
"""
# what the step alone needs of this package, without the step
BARE = """
from smoothcruiser.jit.random.stream_type import STREAM
import smoothcruiser.jit.random.distributions
"""
PROBLEM = """
import smoothcruiser as sc
problem = sc.MDP(
    step, num_actions=3, discount=0.5, operator=sc.Entropy(0.5),
    initial_state=Shop(3, 3),
)
"""
ANSWERS = {
    "schedule": """
answer = sc.plan(problem, method="smoothcruiser", epsilon=EPSILON, delta=0.1, workers=1)
""",
    "certified": """
answer = sc.plan(problem, method="certified", epsilon=0.1, delta=0.1)
""",
    "uct": """
answer = sc.plan(problem, method="uct", budget=20_000)
""",
}
EPSILON = 0.21  # about 10^5 calls are made
END = """
import time
print(time.process_time(), getattr(globals().get("answer"), "num_calls", 0))
"""
numbers = itertools.count()


class Place:
    """A folder with a program, and the disk cache that it runs with."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder, folder / "cache"

    def run(self, program: str, number: int = 0) -> tuple[float, int]:
        """(CPU seconds of a fresh process, the oracle calls of its answer)."""
        text = "" if program in (IMPORT, CACHED) else WORLD.format(number=number)
        path = self.folder / "shop.py"
        path.write_text(text + program.replace("EPSILON", str(EPSILON)) + END)
        source = str(Path(__file__).resolve().parents[2] / "src")
        done = subprocess.run(
            [sys.executable, str(path)],
            env=os.environ
            | {"NUMBA_CACHE_DIR": str(self.cache), "PYTHONPATH": source},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        seconds, calls = done.stdout.split()
        return float(seconds), int(calls)

    def explain(self, problem: str, keep: str) -> float:
        """CPU seconds of ``explain``, with all modules compiled to bytecode.

        With ``keep`` "0" the schedules are searched for, with "1" they are kept.
        """
        known = {"PYTHONPYCACHEPREFIX": str(self.folder / "bytecode")}
        known |= {"NUMBA_CACHE_DIR": str(self.cache), "SMOOTHCRUISER_KEEP": keep}
        known["PYTHONPATH"] = str(Path(__file__).resolve().parents[2] / "src")
        around = {
            k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"
        }
        asked = [*problem.split(), "--epsilon", "5%", "--delta", "0.1"]
        before = os.times()
        subprocess.run(
            [sys.executable, "-m", "smoothcruiser", "explain", *asked],
            env=around | known,
            capture_output=True,
            check=True,
        )
        after = os.times()
        return sum(after[2:4]) - sum(before[2:4])

    def clear(self) -> None:
        """Forget everything that was compiled."""
        shutil.rmtree(self.cache, ignore_errors=True)


def measured(folder: Path, kinds: list[str], repeats: int, empty: bool) -> dict:
    """The seconds of every kind of process."""
    place = Place(folder)
    parts = {"import": [], "cached": [], "bare": [], "step": []}
    answers: dict = {kind: {"empty": [], "new": [], "second": []} for kind in kinds}
    for kind in kinds:
        if empty:
            place.clear()
            seconds, calls = place.run(PROBLEM + ANSWERS[kind], next(numbers))
            answers[kind]["empty"].append(seconds)
            answers[kind]["calls"] = calls
        else:
            _, answers[kind]["calls"] = place.run(
                PROBLEM + ANSWERS[kind], next(numbers)
            )
    place.run(CACHED)
    for kind in kinds:  # all of the package is known now, whatever came first
        place.run(PROBLEM + ANSWERS[kind], next(numbers))
    for _ in range(repeats):  # interleaved: a busy minute hits all alike
        parts["import"].append(place.run(IMPORT)[0])
        parts["cached"].append(place.run(CACHED)[0])
        parts["bare"].append(place.run(BARE)[0])
        parts["step"].append(place.run(STEP, next(numbers))[0])
        for kind in kinds:
            number, program = next(numbers), PROBLEM + ANSWERS[kind]
            answers[kind]["new"].append(place.run(program, number)[0])
            answers[kind]["second"].append(place.run(program, number)[0])
    for name in EXPLAINED:
        place.explain(name, "1")  # compiles the modules, and keeps the schedules
    explained = {
        name: [min(place.explain(name, keep) for _ in range(repeats)) for keep in "01"]
        for name in EXPLAINED
    }
    best = {name: min(seconds) for name, seconds in parts.items()}
    found = {
        "import": best["import"],
        "cached": best["cached"],
        "step": best["step"] - best["bare"],
        "load": load(),
        "explain": explained,
    }
    for kind, times in answers.items():
        row = {
            name: min(times[name], default=0.0) for name in ("empty", "new", "second")
        }
        row["calls"] = times["calls"]
        row["new_ratio"] = row["new"] / (found["import"] + found["step"])
        row["second_ratio"] = row["second"] / found["import"]
        found[kind] = row
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default=",".join(ANSWERS))
    parser.add_argument(
        "--keep",
        help="a folder whose cache is used again; nothing runs with an empty one",
    )
    parser.add_argument("--out", help="a file for the result, as Markdown")
    given = parser.parse_args()
    kinds = given.only.split(",")
    if given.keep:
        folder = Path(given.keep)
        folder.mkdir(parents=True, exist_ok=True)
        # simulators that no earlier run of this benchmark has left in the cache
        for _ in range(int.from_bytes(os.urandom(3), "big")):
            next(numbers)
        found = measured(folder, kinds, given.repeats, empty=False)
    else:
        with tempfile.TemporaryDirectory() as name:
            found = measured(Path(name), kinds, given.repeats, empty=True)
    if given.json:
        print(json.dumps(found))
        return
    lines = shown(found, kinds)
    print("\n".join(lines))
    if given.out:
        head = [
            "# The wait before the first answer",
            "",
            f"`python -m benchmarks.engine.latency --repeats {given.repeats}`"
            f"{' with a cache that was filled before' if given.keep else ''}, "
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {commit()}. CPU seconds of "
            "fresh processes, best of a few, interleaved; a busy machine makes all of "
            "them longer, so only ratios compare.",
            "",
            "```",
        ]
        Path(given.out).write_text("\n".join([*head, *lines, "```", ""]))


def commit() -> str:
    """The commit that was measured."""
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"


def shown(found: dict, kinds: list[str]) -> list[str]:
    """What was measured, line by line."""
    lines = [
        f"import of Numba {found['import']:.2f} s, the step alone {found['step']:.2f} s,"
        f" one function from Numba's cache {found['cached']:.2f} s"
        f" ({found['cached'] / found['import']:.2f} imports)",
        f"CPU seconds from start to answer (load {found['load']}):",
        f"{'':10} {'calls':>8} {'empty':>7} {'new':>7} {'second':>7}  ratios",
    ]
    for kind in kinds:
        row = found[kind]
        lines.append(
            f"{kind:10} {row['calls']:8,} {row['empty']:7.2f} {row['new']:7.2f} "
            f"{row['second']:7.2f}  new {row['new_ratio']:.2f} (bar {NEW_BAR}), "
            f"second {row['second_ratio']:.2f} (bar {SECOND_BAR}; "
            f"{row['second'] / found['cached']:.2f} of the function from the cache)"
        )
    lines.append(
        f"explain, epsilon 5%, delta 0.1, a first and a second time (bar {EXPLAIN_BAR} s):"
    )
    lines += [
        f"{first:7.2f} {second:7.2f}  {second / found['import']:5.2f} imports  {name}"
        for name, (first, second) in found["explain"].items()
    ]
    return lines


if __name__ == "__main__":
    main()
