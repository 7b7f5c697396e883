"""CPU seconds to the first answer in a fresh process that finds nothing compiled.

Every figure is user and system time of one process, its start included, and of the
processes that it starts: the best of a few, interleaved. Compiled code goes to a folder that
is empty at the start of every run. The unit is the import of Numba in the same run, which
every goal is a multiple of; Python's bytecode is on disk for both, as after any
installation. (``make run`` has its goal for an installed wheel with a library of machine
code; a checkout has none.)

``--before`` names the folder of another version's package (``src`` of a worktree),
``--wheel`` one where a wheel with a library is unpacked or installed (DEVELOPING.md says
how it is built). They run the same programs beside this checkout.

Run: python -m benchmarks.engine.first_answer [--before FOLDER] [--wheel FOLDER]
[--repeats N] [--only NAME ...] [--out FILE]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.timing import load, subject

HERE = Path(__file__).resolve().parents[2] / "src"

SHOP = """
from typing import NamedTuple
import smoothcruiser as sc

class Shop(NamedTuple):
    stock: int
    day: int

{decorator}
def step(shop, order, rng):
    stock = min(shop.stock + order, 5)
    demand = rng.integers(6) if shop.day >= 5 else rng.integers(3)
    sold = min(stock, demand)
    return (sold - 0.4 * order + 0.8) / 5.8, Shop(stock - sold, (shop.day + 1) % 7)

problem = sc.MDP(step, num_actions=3, discount=0.3, operator=sc.Entropy(0.1),
                 initial_state=Shop(0, 5))
estimate = sc.plan(problem, epsilon="5%", delta=0.1)
"""

TABLE = """
import smoothcruiser as sc

P = [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.0, 1.0]]]
R = [[0.1, 0.7], [0.4, 0.9]]
problem = sc.tabular(P=P, R=R, discount=0.9, operator=sc.Max(), initial_state=0)
estimate = sc.plan(problem, method="exact")
"""

TAXI = """
import smoothcruiser as sc

problem = sc.make("gym:Taxi-v4", discount=0.95, operator=sc.Max())
estimate = sc.plan(problem, method="exact")
"""

CHAIN = """
import smoothcruiser as sc

def step(place, action, rng):
    forward = rng.random() < (0.8 if action == 1 else 0.3)
    place = min(place + 1, 9) if forward else max(place - 1, 0)
    return float(place == 9), place

problem = sc.MDP(step, num_actions=2, discount=0.9, operator=sc.Max(), initial_state=0)
estimate = sc.plan(problem, method="uct", budget=10_000)
"""

LAKE = """
import smoothcruiser as sc

problem = sc.make("gym:FrozenLake-v1,access=state", discount=0.9, temperature=0.1)
estimate = sc.plan(problem, epsilon="20%", delta=0.1)
"""

RUN = """
import sys
from smoothcruiser.cli.app import main

sys.argv[1:] = (
    "plan gridworld:n=5 --discount 0.5 --temperature 0.5 --state 23 --epsilon 5% "
    "--delta 0.1 --method smoothcruiser --compare-exact"
).split()
main()
"""

COMMAND = "make run"
SHOWN = "\nprint(repr(estimate.value))\n"
# by name: (goal in imports of Numba, program); the goals are those of the project's plan,
# of which some are for a wheel
PROGRAMS = {
    "shop, plain": (4.0, SHOP.format(decorator="") + SHOWN),
    "shop, njit": (
        9.0,
        "import numba\n" + SHOP.format(decorator="@numba.njit") + SHOWN,
    ),
    "two states, exact": (2.5, TABLE + SHOWN),
    "Taxi, exact": (6.0, TAXI + SHOWN),
    "uct, 10,000 calls": (4.0, CHAIN + SHOWN),
    "FrozenLake, simulator": (8.0, LAKE + SHOWN),
    COMMAND: (None, RUN),
}
WHEEL_GOALS = {"shop, njit": 6.0, COMMAND: 6.0}
UNIT = "import numba"


def run_program(program: str, source: Path) -> tuple[float, str]:
    """(CPU seconds, the printed text) of a program with the package in ``source``."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "program.py"  # a step has to be in a file
        script.write_text(program)
        environment = os.environ | {
            "PYTHONPATH": str(source),
            "NUMBA_CACHE_DIR": f"{folder}/numba",
            "XDG_CACHE_HOME": f"{folder}/cache",
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        before = os.times()
        process = subprocess.run(
            [sys.executable, str(script)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        after = os.times()
    if process.returncode != 0:
        raise SystemExit(f"{program}\nfailed:\n{process.stderr}")
    seconds = (
        after.children_user
        - before.children_user
        + after.children_system
        - before.children_system
    )
    return seconds, process.stdout


def measure(
    sources: dict[str, Path], names: list[str], repeats: int
) -> tuple[float, dict[str, dict[str, float]]]:
    """(seconds of the import, seconds by program and version), each the best of a few."""
    unit = float("inf")
    seconds = {name: dict.fromkeys(sources, float("inf")) for name in names}
    for _ in range(repeats):
        unit = min(unit, run_program(UNIT, HERE)[0])
        for name in names:
            answers = set()
            for version, source in sources.items():
                elapsed, answer = run_program(PROGRAMS[name][1], source)
                seconds[name][version] = min(seconds[name][version], elapsed)
                answers.add(answer)
                print(f"{name}, {version}: {elapsed:.1f} s", file=sys.stderr)
            if len(answers) > 1 and name != COMMAND:  # which prints its seconds
                raise SystemExit(f"{name}: versions answer differently, {answers}")
    return unit, seconds


def show(unit: float, seconds: dict[str, dict[str, float]]) -> list[str]:
    """The table, as lines of Markdown."""
    versions = next(iter(seconds.values()))
    lines = [
        "| first answer | goal | goal, wheel | " + " | ".join(versions) + " |",
        "|---|---|---|" + "---|" * len(versions),
    ]
    for name, by_version in seconds.items():
        cells = [f"{x / unit:.1f} ({x:.1f} s)" for x in by_version.values()]
        goals = PROGRAMS[name][0], WHEEL_GOALS.get(name)
        cells = ["" if goal is None else f"{goal:g}" for goal in goals] + cells
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="the package folder of a version")
    parser.add_argument("--wheel", type=Path, help="the folder of a wheel")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    before = {"before": options.before.resolve()} if options.before else {}
    wheel = {"wheel": options.wheel.resolve()} if options.wheel else {}
    sources = before | {"now": HERE} | wheel
    loads = [load()]
    began = datetime.now(UTC)
    unit, seconds = measure(sources, options.only or list(PROGRAMS), options.repeats)
    loads.append(load())
    lines = show(unit, seconds)
    print("\n".join(lines))
    if options.out:
        command = (
            f"python -m benchmarks.engine.first_answer --repeats {options.repeats}"
        )
        command += " --before FOLDER" if before else ""
        command += " --wheel FOLDER" if wheel else ""
        if options.only:
            command += " --only " + " ".join(f'"{name}"' for name in options.only)
        commits = [
            f'`{version}` is the commit "{subject(path)}".'
            for version, path in (before | {"now": HERE}).items()
        ]
        if wheel:
            commits.append("`wheel` is built from `now`, with its library.")
        head = f"""# CPU seconds to the first answer

`{command}`, {began:%Y-%m-%d %H:%M} UTC. User and system time of fresh processes that find
nothing compiled, best of {options.repeats}, interleaved, as multiples of `import numba` in
the same run ({unit:.2f} s); load averages {loads[0]} when it began and {loads[1]} at the end.
Seconds grow with the load; the multiples grow less. {" ".join(commits)}
"""
        options.out.write_text(head + "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
