"""The rule that chooses between interpreting and compiling, against the better of the two.

Thirty requests from 10^2 to 10^8 calls, each in fresh processes, on an empty cache and on
a warm one (filled by compiled runs): as the rule has it, interpreted
only, and compiled only. Figures are CPU seconds of the process that answers, its start
included; a process that the rule starts to compile beside it has a core of its own and
is not counted (its limits are in ``jit.warm``). The ratio is that of the rule to the
better form. A run is ended when it has taken longer than the fastest one
on a cold cache: it is not the better form then. One form alone, ratio 1: functions
that their user compiled are never interpreted, and a plain step is compiled in no tree and
no schedule.

A second table has microseconds per call of simulators in plain Python whose step takes
about one, from two runs with different numbers of calls in one process.

Run: python -m benchmarks.engine.hindsight [--repeats N] [--only WORD ...] [--out FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.timing import load, subject

SOURCE = Path(__file__).resolve().parents[2] / "src"
MOST_RATIO = 2.2
ENDED = 1.05  # times the fastest run, after which a run is ended
RULE, INTERPRETED, COMPILED = "rule", "interpreted", "compiled"
COLD, WARM = "cold", "warm"

HEAD = """
import resource, sys
from smoothcruiser.jit.forms import KernelFamily
FORM = sys.argv[1]
KernelFamily.first_form = {"rule": None, "interpreted": False, "compiled": True}[FORM]
import smoothcruiser as sc
EXECUTOR = {"rule": None, "interpreted": EITHER[0], "compiled": EITHER[1]}[FORM]
import random
draw = random.Random(1)
def table(S):
    P = [[[0.0] * S for _ in range(3)] for _ in range(S)]
    R = [[round(draw.random(), 2) for _ in range(3)] for _ in range(S)]
    for s in range(S):
        for a in range(3):
            for _ in range(4):
                P[s][a][draw.randrange(S)] += 0.25
    return sc.tabular(P=P, R=R, discount=DISCOUNT, operator=sc.Entropy(0.1))
def plain(step):
    return sc.MDP(step, num_actions=3, discount=DISCOUNT, operator=sc.Entropy(0.1))
"""
PLAIN = """
S = {states}
after = [[[draw.randrange(S) for _ in range(4)] for _ in range(3)] for _ in range(S)]
rewards = [[round(draw.random(), 2) for _ in range(3)] for _ in range(S)]
def step(state, action, rng):
    return rewards[state][action], after[state][action][rng.integers(4)]
problem = plain(step)
"""
TABLE = """
problem = table({states})
"""
NJIT = """
import numba
@numba.njit
def step(state, action, rng):
    after = (state * 7 + action * 3 + rng.integers(4)) % {states}
    return (after % 10) / 10, after
problem = plain(step)
"""
GRID = """
problem = sc.make("gridworld:n={states}", discount=DISCOUNT, operator=sc.Entropy(0.1))
"""
WORLDS = {"grid": GRID, "plain": PLAIN, "table": TABLE, "njit": NJIT}
TAIL = """
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_utime + usage.ru_stime, answer.num_calls, repr(answer.value))
"""


class Request(NamedTuple):
    """A request: ``either`` are the executors that interpret and compile, None if one."""

    method: str
    world: str
    limits: str
    states: int = 50
    discount: float = 0.9

    @property
    def name(self) -> str:
        """The request in words."""
        words = self.method, self.world, f"{self.states} states", self.limits
        return ", ".join(filter(None, words)).replace(", delta=0.1", "")

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms that the request can have, the rule first."""
        if self.world == "njit":
            return RULE, COMPILED
        if self.world == "plain" and self.method in ("uct", "smoothcruiser"):
            return RULE, INTERPRETED
        return RULE, INTERPRETED, COMPILED

    def runs(self) -> list[tuple[str, str]]:
        """Caches and forms, the rule first; no cache serves an interpreted run."""
        warm_runs = [(WARM, form) for form in self.forms if form != INTERPRETED]
        return [(COLD, form) for form in self.forms] + warm_runs

    def program(self) -> str:
        """A program that makes the request and prints its seconds, calls and value."""
        either = ("python", "compiled") if self.method == "smoothcruiser" else None
        if self.method == "uct":
            either = ("reference", "compiled")
        executor = ", executor=EXECUTOR" if either else ""
        return (
            f"DISCOUNT, EITHER = {self.discount}, {either or (None, None)}"
            + HEAD
            + WORLDS[self.world].format(states=self.states)
            + f"answer = sc.plan(problem, 0, method={self.method!r}, {self.limits}"
            + f"{executor})"
            + TAIL
        )


def list_requests() -> list[Request]:
    """Thirty requests, short ones first in each group."""
    requests = []
    for world in ("plain", "table"):
        for budget in ("10**2", "10**4", "10**5", "10**6"):
            requests.append(Request("certified", world, f"budget={budget}, delta=0.1"))
    requests.append(
        Request("certified", "plain", "epsilon='3%', delta=0.1", states=300)
    )
    requests.append(
        Request("certified", "table", "epsilon='2%', delta=0.1", states=300)
    )
    requests += [
        Request("certified", "njit", f"budget={budget}, delta=0.1")
        for budget in ("10**3", "10**6")
    ]
    for budget in ("10**2", "10**4", "10**5", "10**6", "2 * 10**6"):
        requests.append(Request("uct", "table", f"budget={budget}"))
    requests.append(Request("uct", "plain", "budget=10**5"))
    requests.append(Request("uct", "njit", "budget=10**5"))
    requests += [
        Request("smoothcruiser", "table", f"epsilon='{x}%', delta=0.1", discount=g)
        for x, g in ((40, 0.1), (10, 0.3), (5, 0.3), (3, 0.3), (10, 0.5))
    ]
    requests += [
        Request("smoothcruiser", world, f"epsilon='{x}%', delta=0.1", discount=g)
        for world, x, g in (("plain", 10, 0.3), ("njit", 10, 0.5))
    ]
    for world, size in (("table", 2), ("table", 300), ("grid", 10), ("grid", 60)):
        requests.append(Request("exact", world, "", states=size, discount=0.99))
    return requests


def environment_of(cache: Path) -> dict[str, str]:
    """The environment of a run whose cache is a folder."""
    folders = {"NUMBA_CACHE_DIR": str(cache), "XDG_CACHE_HOME": str(cache)}
    source = {"PYTHONPATH": str(SOURCE), "SMOOTHCRUISER_LIBRARY": "0"}
    variables = os.environ | folders | source
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return variables


def run_form(
    script: Path, form: str, cache: Path, most_seconds: float
) -> tuple[float, list[str]]:
    """(CPU seconds, the printed words); the words are empty if the run was ended."""

    def limit_seconds() -> None:
        import resource

        if most_seconds < math.inf:
            most = math.ceil(most_seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))

    process = subprocess.run(
        [sys.executable, str(script), form],
        cwd=script.parent,
        env=environment_of(cache),
        capture_output=True,
        text=True,
        preexec_fn=limit_seconds,
    )
    if process.returncode == -signal.SIGXCPU:
        return most_seconds, []
    if process.returncode != 0:
        raise SystemExit(f"{script.read_text()}\nfailed:\n{process.stderr}")
    words = process.stdout.split()
    return float(words[0]), words[1:]


def end_helpers(cache: Path) -> None:
    """End the processes that compile into a cache of ours: they would disturb others."""
    for command_path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if (
                os.fsencode(f"{cache}/smoothcruiser/warm-")
                in command_path.read_bytes()
            ):
                os.kill(int(command_path.parent.name), signal.SIGKILL)


class Row(NamedTuple):
    """The seconds of one request by form, on one kind of cache."""

    request: Request
    cache: str
    num_calls: int
    seconds: dict[str, float]

    @property
    def ratio(self) -> float:
        """The seconds of the rule, in those of the better form."""
        return self.seconds[RULE] / min(
            seconds for form, seconds in self.seconds.items() if form != RULE
        )


def measure_request(request: Request, repeats: int, warm_cache: Path) -> list[Row]:
    """The row of a cold cache and that of a warm one, which fills up."""
    seconds = {kind: dict.fromkeys(request.forms, math.inf) for kind in (COLD, WARM)}
    answers: set[tuple[str, ...]] = set()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "program.py"
        script.write_text(request.program())
        run_form(script, request.forms[-1], warm_cache, math.inf)
        for repeat in range(repeats):
            most = math.inf
            for kind, form in request.runs():
                cache = Path(folder) / f"{form}-{repeat}"
                if kind == WARM:
                    cache = warm_cache
                cache.mkdir(exist_ok=True)
                elapsed, words = run_form(script, form, cache, most)
                end_helpers(cache)
                if kind == COLD:
                    most = min(most, ENDED * elapsed)
                answers |= {tuple(words)} if words else set()
                seconds[kind][form] = min(seconds[kind][form], elapsed)
                print(
                    f"{request.name}, {kind}, {form}: {elapsed:.2f} s {words}",
                    flush=True,
                )
    if len(answers) != 1:
        raise SystemExit(f"{request.name}: forms answer differently, {answers}")
    if INTERPRETED in request.forms:  # which no cache serves
        best = min(seconds[kind][INTERPRETED] for kind in seconds)
        seconds[COLD][INTERPRETED] = seconds[WARM][INTERPRETED] = best
    num_calls = int(answers.pop()[0])
    return [Row(request, kind, num_calls, seconds[kind]) for kind in seconds]


def show_rows(rows: list[Row]) -> list[str]:
    """The table, as lines of Markdown."""
    lines = [
        "| request | calls | cache | rule | interpreted | compiled | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [f"{row.seconds[RULE]:.2f}"]
        for form in (INTERPRETED, COMPILED):
            seconds = row.seconds.get(form)
            cells.append("–" if seconds is None else f"{seconds:.2f}")
        lines.append(
            f"| {row.request.name} | {row.num_calls:,} | {row.cache} | "
            + " | ".join(cells)
            + f" | {row.ratio:.2f} |"
        )
    return lines


# --- plain simulators -------------------------------------------------------------------


class PlainRun(NamedTuple):
    """A search of a plain simulator: its goal, and two sizes in one process."""

    goal: float
    request: Request
    form: str
    sizes: tuple[str, str]


PLAIN_RUNS = {
    "schedule": PlainRun(
        4.0,
        Request("smoothcruiser", "plain", "epsilon={}, delta=0.1", discount=0.3),
        RULE,
        ("'10%'", "'5%'"),
    ),
    "certified, interpreted": PlainRun(
        10.0,
        Request("certified", "plain", "budget={}, delta=0.1"),
        INTERPRETED,
        ("10**4", "10**5"),
    ),
    "certified, compiled": PlainRun(
        4.0,
        Request("certified", "plain", "budget={}, delta=0.1"),
        COMPILED,
        ("10**5", "10**6"),
    ),
    "uct": PlainRun(
        15.0, Request("uct", "plain", "budget={}"), RULE, ("10**4", "10**5")
    ),
}
CALL_TIMER = """
import time, types
def run(limits):
    began = time.process_time()
    answer = sc.plan(problem, 0, method={method!r}, **limits)
    return time.process_time() - began, answer.num_calls
run(dict({small}))
(few_seconds, few), (seconds, calls) = run(dict({small})), run(dict({large}))
generator = types.SimpleNamespace(integers=lambda n: 1)
began = time.process_time()
for i in range(10**5): step(i % 50, 1, generator)
step_seconds = (time.process_time() - began) / 10**5
answer = types.SimpleNamespace(num_calls=calls, value=[
    round((seconds - few_seconds) / (calls - few) * 1e6, 2), round(step_seconds * 1e6, 2)])
"""


def time_calls(repeats: int, cache: Path) -> list[str]:
    """The table of seconds per call, as lines of Markdown."""
    lines = [
        "| plain simulator | calls | µs per call | goal | step alone, µs |",
        "|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, (goal, request, form, sizes) in PLAIN_RUNS.items():
            head, _, _ = request.program().partition("answer = ")
            small, large = (request.limits.format(size) for size in sizes)
            timer = CALL_TIMER.format(method=request.method, small=small, large=large)
            script = Path(folder) / "program.py"
            script.write_text(head + timer + TAIL)
            results = []
            for _ in range(repeats):
                _, words = run_form(script, form, cache, math.inf)
                call, step = (float(x.strip("[],")) for x in words[1:])
                results.append((call, step, int(words[0])))
            call, step, calls = min(results)
            print(f"{name}: {call} µs, step {step} µs", file=sys.stderr, flush=True)
            lines.append(
                f"| {name} | {calls:,} | {call:.2f} | {goal:g} | {step:.2f} |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument(
        "--only", nargs="+", metavar="WORD", help="of requests' names, one of"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    loads, began = [load()], datetime.now(UTC)
    requests = list_requests()
    if options.only:
        requests = [r for r in requests if any(w in r.name for w in options.only)]
    command = f"python -m benchmarks.engine.hindsight --repeats {options.repeats}"
    if options.only:
        command += " --only " + " ".join(f'"{word}"' for word in options.only)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as warm_folder:
        cache = Path(warm_folder)
        for request in requests:
            rows += measure_request(request, options.repeats, cache)
            page = show_page(rows, [], command, [*loads, load()], began)
            if options.out:  # what a run that is stopped leaves
                options.out.write_text(page)
        plain_lines = time_calls(options.repeats, cache)
    page = show_page(rows, plain_lines, command, [*loads, load()], began)
    print(page)
    if options.out:
        options.out.write_text(page)


def show_page(
    rows: list[Row],
    plain_lines: list[str],
    command: str,
    loads: list[list[float]],
    began: datetime,
) -> str:
    """The page of evidence."""
    above = [row for row in rows if row.ratio > MOST_RATIO]
    largest = max(row.ratio for row in rows)
    return f"""# The choice between interpreting and compiling, in hindsight

`{command}`, {began:%Y-%m-%d %H:%M} UTC,
commit "{subject(SOURCE)}". CPU seconds of fresh processes, their start included, best of
`--repeats`; load averages {loads[0]} when it began and {loads[-1]} at the end.
{len(rows) // 2} requests, on an empty cache and on a warm one: {len(above)} of {len(rows)} ratios
are above {MOST_RATIO}, the largest is {largest:.2f}. A process that compiles beside the
rule's is not counted. A run is ended soon after it has taken longer than the fastest form.

""" + "\n".join([*show_rows(rows), "", *plain_lines, ""])


if __name__ == "__main__":
    main()
