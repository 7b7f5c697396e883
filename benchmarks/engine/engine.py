"""The compiled engine against hand-written C and against its own reference.

What compiling costs is measured, too.

  python -m benchmarks.engine.engine [--quick] [--json FILE]

Bars: engine/C at least 0.95 in the geometric mean and 0.85 for every schedule of plain
kinds, at least 0.9 for every schedule with randomized ones;
2,828,268 calls of paper mode in well under a second; a tabular problem ready
from the cache in under half a second. Every timed pair returns the same bits,
which is checked. Exits with 1 if a bar is missed. A ratio is the median over 100 short
pairs of runs, of CPU time, which a busy machine stretches least; the quartiles stand
beside it. Two threads are timed by the wall clock.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.engine.c_kernel import CKernel
from benchmarks.engine.schedules import (
    Case,
    facts,
    hand,
    mixture,
    plug_ins,
    randomized_cases,
    ring,
    rollouts,
    sharp_cases,
    written_cases,
)
from benchmarks.engine.walk import START, problems
from benchmarks.timing import best, load, machine, paired, signed

import smoothcruiser as sc
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.compiled.engine import CompiledEngine
from smoothcruiser.engines.compiled.tiers import ADDRESS, INLINED
from smoothcruiser.engines.interpreted.reference import ReferenceEngine
from smoothcruiser.engines.root_scores import BINNED, BINS, Score
from smoothcruiser.engines.shards import Shard

GEOMETRIC_BAR = {"plain": 0.95, "randomized": 0.9}
MINIMUM_BAR = {"plain": 0.85, "randomized": 0.9}
CACHE_BAR = 0.5
CENTER = 0.5
SCORE = Score(BINNED, 2.0, BINS / 4.0)
SEED = 1
ROUND = 2e5  # calls of one timed run: some milliseconds
Row = dict[str, Any]


def mean_of(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def draws_for(case: Case, calls: float) -> int:
    return max(
        1, int(calls // (1 + case.schedule.level_calls[case.schedule.root.child]))
    )


def table(rows: list[Row], columns: dict[str, str]) -> str:
    """The rows as a Markdown table; ``columns`` maps a key to its format."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += [
        "| "
        + " | ".join(format(row[key], form) for key, form in columns.items())
        + " |"
        for row in rows
    ]
    return "\n".join(lines)


# --- against C ----------------------------------------------------------------


def against_c(case: Case, rounds: int) -> Row:
    """Million calls per second of the engine and of C in one thread, and their ratio.

    The bits must be equal.
    """
    schedule = case.schedule
    ground = schedule.facts
    problem = ring(ground.num_actions, ground.discount, ground.operator)
    engine = CompiledEngine(Job(problem, schedule, 0, CENTER, SCORE))
    kernel = CKernel(engine.schedule_table, problem.tables, (0,))
    count = draws_for(case, ROUND)
    shard = Shard(0, 0, 0, count)
    ours, theirs = (
        engine.run_shard(shard, SEED),
        kernel.run(0, count, CENTER, SEED, (0, 0)),
    )
    assert (ours.calls, ours.total, ours.square, ours.score) == theirs, (
        f"{case.name}: the engine and C differ"
    )
    found = paired(
        {
            "engine": lambda: engine.run_shard(shard, SEED),
            "C": lambda: kernel.run(0, count, CENTER, SEED, (0, 0)),
        },
        "C",
        clock=time.thread_time,
        rounds=rounds,
    )
    rate = {name: ours.calls / each.seconds / 1e6 for name, each in found.items()}
    return {
        "schedule": case.name,
        "engine M/s": rate["engine"],
        "C M/s": rate["C"],
        "engine/C": found["engine"].ratio,
        "quartile": found["engine"].low,
        "to": found["engine"].high,
    }


def two_threads(case: Case, calls: float) -> Row:
    """Wall seconds of eight shards in one thread and in two, for the engine and C."""
    schedule = case.schedule
    ground = schedule.facts
    problem = ring(ground.num_actions, ground.discount, ground.operator)
    engine = CompiledEngine(Job(problem, schedule, 0, CENTER, SCORE))
    kernel = CKernel(engine.schedule_table, problem.tables, (0,))
    count = draws_for(case, calls / 8)

    def engine_shard(index: int) -> None:
        engine.run_shard(Shard(0, index, 0, count), SEED)

    def c_shard(index: int) -> None:
        kernel.run(0, count, CENTER, SEED, (0, index))

    def run(shard: Callable[[int], None], threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(shard, range(8)))

    runs = {
        f"{name} {threads}": (lambda s=shard, t=threads: run(s, t))
        for name, shard in (("engine", engine_shard), ("C", c_shard))
        for threads in (1, 2)
    }
    seconds = best(runs)
    return {
        "schedule": case.name,
        "engine, 2 threads / 1": seconds["engine 1"] / seconds["engine 2"],
        "C, 2 threads / 1": seconds["C 1"] / seconds["C 2"],
        "engine/C, 2 threads": seconds["C 2"] / seconds["engine 2"],
    }


# --- users' oracles -----------------------------------------------------------


def user_oracles(rounds: int) -> list[Row]:
    """The walk in every form against its C twin, on three schedules.

    A user's oracle begins on the machine that calls it by address. A long run goes on
    with it inlined. Figures are M calls/s, and ratios to C.
    """
    rows = []
    for name, levels in (
        ("sparse 4,4", plug_ins((4, 4))),
        ("rollouts 2,2,2,2", rollouts((2, 2, 2, 2))),
        ("mixture", mixture()),
    ):
        ground = facts(0.5, 1.0, 4)
        case = hand(name, ground, levels)
        count = draws_for(case, ROUND)
        shard = Shard(0, 0, 0, count)
        forms = problems(ground.discount, ground.operator)

        def engine(form: str, tier: str, case: Case = case, forms: Any = forms) -> Any:
            problem, state = forms[form]
            return CompiledEngine(
                Job(problem, case.schedule, state, CENTER, SCORE), tier
            )

        engines = {form: engine(form, INLINED) for form in forms}
        engines |= {"by address": engine("NamedTuple", ADDRESS)}
        kernel = CKernel(engines["NamedTuple"].schedule_table, None, START, walk=True)
        theirs = kernel.run(0, count, CENTER, SEED, (0, 0))
        for form in ("NamedTuple", "by address", "int", "array"):
            ours = engines[form].run_shard(shard, SEED)
            assert (ours.calls, ours.total, ours.square, ours.score) == theirs, (
                f"{form}: the engine and C differ"
            )
        runs: dict[str, Callable[[], Any]] = {
            form: (lambda e=e, s=shard: e.run_shard(s, SEED))
            for form, e in engines.items()
        }
        runs["C"] = lambda k=kernel, n=count: k.run(0, n, CENTER, SEED, (0, 0))
        found = paired(runs, "C", clock=time.thread_time, rounds=rounds)
        row: Row = {"schedule": name} | {
            f"{form} M/s": theirs[0] / each.seconds / 1e6
            for form, each in found.items()
        }
        row |= {
            f"{form}/C": found[form].ratio
            for form in ("NamedTuple", "by address", "int")
        }
        row["array is slower"] = found["NamedTuple"].ratio / found["array"].ratio
        rows.append(row)
    return rows


# --- against the reference, and paper mode ------------------------------------


def against_reference() -> Row:
    """Calls per second of one run in ``compiled`` and in ``reference``, and the ratio."""
    case = hand("mixture", facts(0.5, 1.0, 4), mixture())
    problem = ring(4, 0.5, case.schedule.facts.operator)
    rates = {}
    for name, engine, calls in (
        ("reference", ReferenceEngine(Job(problem, case.schedule, 0)), 3e4),
        ("compiled", CompiledEngine(Job(problem, case.schedule, 0)), 3e6),
    ):
        shard = Shard(0, 0, 0, draws_for(case, calls))
        spent = engine.run_shard(shard, SEED).calls
        seconds = best(
            {name: lambda e=engine, s=shard: e.run_shard(s, SEED)},
            clock=time.thread_time,
        )[name]
        rates[name] = spent / seconds
    return {
        "compiled calls/s": rates["compiled"],
        "reference calls/s": rates["reference"],
        "ratio": rates["compiled"] / rates["reference"],
    }


def paper_mode() -> Row:
    """Wall seconds of 2,828,268 calls through ``plan`` with one worker and two.

    Compilation is not counted.
    """
    problem = sc.make("garnet:states=20,actions=2", discount=0.2, temperature=1.0)

    def run(workers: int) -> int:
        return sc.plan(
            problem, method="paper", epsilon=0.9, delta_prime=0.1, workers=workers
        ).num_calls

    assert run(1) == 2_828_268
    seconds = best({"1": lambda: run(1), "2": lambda: run(2)})
    return {
        "calls": 2_828_268,
        "seconds, 1 worker": seconds["1"],
        "seconds, 2 workers": seconds["2"],
    }


# --- compiling ----------------------------------------------------------------

STARTED = """
import json, sys, time
begin = time.perf_counter()
sys.path.insert(0, {here!r})
import numba
imported = time.perf_counter() - begin
import smoothcruiser as sc
{problem}
schedule = sc.explain(problem, epsilon=0.9, delta_prime=0.1, method="paper")
ready, spent = time.perf_counter(), time.process_time()
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.compiled.engine import CompiledEngine
engine = CompiledEngine(Job(problem, schedule, state))
built, used = time.perf_counter() - ready, time.process_time() - spent
sc.run(problem, schedule, state, workers=1)
total, cpu = time.perf_counter() - begin, time.process_time()
figures = {{"import numba": imported, "engine": built, "engine CPU": used}}
print(json.dumps(figures | {{"total": total, "total CPU": cpu}}))
"""
TABULAR = (
    'problem = sc.make("garnet:states=20,actions=2", discount=0.2, '
    "temperature=1.0); state = 0"
)
NAMED = (
    "from benchmarks.engine.walk import *; problem = sc.MDP(walk, num_actions=4, "
    "discount=0.2, operator=sc.Entropy(1.0)); state = Cell(0, 0)"
)


def compile_times(repeats: int) -> list[Row]:
    """Seconds in fresh interpreters: with an empty cache, then from it.

    Each is the best of ``repeats``.

    "engine" is from a schedule in hand to an engine that can sample; "total" is a
    whole process that imports, plans and runs.
    """
    rows = []
    with tempfile.TemporaryDirectory() as cache:

        def started(problem: str) -> dict[str, float]:
            script = STARTED.format(
                here=str(Path(__file__).resolve().parents[2]), problem=problem
            )
            environment = os.environ | {"NUMBA_CACHE_DIR": cache}
            result = subprocess.run(
                [sys.executable, "-c", script],
                capture_output=True,
                text=True,
                check=True,
                env=environment,
            )
            times: dict[str, float] = json.loads(result.stdout)
            return times

        rows.append({"what": "tabular, nothing cached", **started(TABULAR)})
        rows.append(
            {
                "what": "tabular, from the cache",
                **_fastest([started(TABULAR) for _ in range(repeats)]),
            }
        )
        rows.append(
            {
                "what": "a user's NamedTuple oracle",
                **_fastest([started(NAMED) for _ in range(2)]),
            }
        )
    return rows


def _fastest(runs: list[dict[str, float]]) -> dict[str, float]:
    return min(runs, key=lambda times: times["engine CPU"])


# --- all of it ----------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="a fifth of the rounds: noisier"
    )
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    calls, rounds = (2e6, 20) if options.quick else (1e7, 100)
    print(signed() + "\n")
    result: dict[str, Any] = {"machine": machine()}

    print("One thread, CPU time, the same bits:\n")
    for key, kinds, cases in (
        ("against_c", "plain", [*written_cases(), *sharp_cases()]),
        ("randomized_against_c", "randomized", randomized_cases()),
    ):
        rows = [against_c(case, rounds) for case in cases]
        ratios = [row["engine/C"] for row in rows]
        result[key] = rows
        result.setdefault("geometric_mean", {})[kinds] = mean_of(ratios)
        result.setdefault("minimum", {})[kinds] = min(ratios)
        columns = {"engine M/s": ".1f", "C M/s": ".1f", "engine/C": ".3f"}
        columns |= {"quartile": ".2f", "to": ".2f"}
        print(table(rows, {"schedule": ""} | columns))
        print(
            f"\nengine/C, {kinds} kinds: geometric mean {mean_of(ratios):.3f} (bar "
            f"{GEOMETRIC_BAR[kinds]}), minimum {min(ratios):.3f} (bar "
            f"{MINIMUM_BAR[kinds]})\n"
        )

    print(f"Two threads, wall clock, load {load()} (speed-ups need two idle cores):\n")
    chosen = [
        case
        for case in written_cases()
        if "paper" in case.name or "mixture" in case.name or "tiny" in case.name
    ]
    result["two_threads"] = [two_threads(case, calls) for case in chosen]
    keys = list(result["two_threads"][0])[1:]
    print(
        table(result["two_threads"], {"schedule": ""} | dict.fromkeys(keys, ".2f"))
        + "\n"
    )

    print(
        "A user's oracle in four forms, inlined, one of them also by address, and in C "
        "(NamedTuple, int and array states return the bits of C):\n"
    )
    result["user_oracles"] = user_oracles(rounds)
    keys = list(result["user_oracles"][0])[1:]
    print(
        table(result["user_oracles"], {"schedule": ""} | dict.fromkeys(keys, ".2f"))
        + "\n"
    )

    reference = against_reference()
    result["against_reference"] = reference
    print(
        (
            "compiled {compiled calls/s:,.0f} calls/s, reference {reference "
            "calls/s:,.0f} calls/s, ratio {ratio:,.0f}\n"
        ).format(**reference)
    )

    paper = paper_mode()
    result["paper_mode"] = paper
    print(
        (
            "paper mode, {calls:,} calls: {seconds, 1 worker:.3f} s with one worker, "
            "{seconds, 2 workers:.3f} s with two\n"
        ).format(**paper)
    )

    result["compile"] = compile_times(2 if options.quick else 5)
    print(
        "Ready in a new process, seconds of the wall "
        f"clock and of the CPU, load {load()}:\n"
    )
    keys = list(result["compile"][0])[1:]
    print(table(result["compile"], {"what": ""} | dict.fromkeys(keys, ".2f")) + "\n")

    missed = [name for name, met in _bars(result).items() if not met]
    print("bars missed: " + (", ".join(missed) or "none"))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if missed else 0


def _bars(result: dict[str, Any]) -> dict[str, bool]:
    cached = next(
        row for row in result["compile"] if row["what"] == "tabular, from the cache"
    )
    return {
        **{
            f"geometric mean of engine/C at least {bar}, {kinds} kinds": (
                result["geometric_mean"][kinds] >= bar
            )
            for kinds, bar in GEOMETRIC_BAR.items()
        },
        **{
            f"every engine/C at least {bar}, {kinds} kinds": (
                result["minimum"][kinds] >= bar
            )
            for kinds, bar in MINIMUM_BAR.items()
        },
        "2,828,268 calls in half a second": result["paper_mode"]["seconds, 1 worker"]
        <= 0.5,
        f"a tabular engine from the cache in {CACHE_BAR} s of the CPU": cached[
            "engine CPU"
        ]
        <= CACHE_BAR,
    }


if __name__ == "__main__":
    sys.exit(main())
