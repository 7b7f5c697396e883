"""Coverage of certified search with a horizon, and at discount 1 without one.

    python -m benchmarks.coverage.horizon_coverage [--runs 400] [--first 0] [--workers 2]
        [--out docs/evidence/horizon-coverage.md]

Random small worlds (``verification_worlds``): MDPs and games with horizons of 1 to 40,
and at discount 1 with goals, loops, traps and rare outcomes, or with rewards at every
step where every policy ends. Their exact values come from a solver that shares no code
with the package. A run draws a world, delta (0.1 or 0.2), a budget of 200 to 20,000
calls, sometimes an epsilon, and sometimes a second query from another state. Then EVERY
row of ``search.table()`` is compared: the interval of V and of each Q, by state and steps
left. Nothing is allowed beyond rounding, 1e-12 of the largest number of the world.

A run fails if any bound excludes the truth, or if certified search finds that its bounds
contradict each other. All bounds of a memory hold together with probability 1 - delta,
so at most a share delta of the runs may fail. Failures are tested by the exact binomial
tail for each family and delta; any false alarm has probability 1e-3 at most (Bonferroni).

So that "no failure" says something, all runs are repeated with radii a quarter as wide
(``radius_scale``); many of those should fail.

At discount 1 half of the runs declare ``min_probability``, truly: 0.1 to 1 times the
smallest probability. All runs of worlds whose outcomes are at the minimum
(``declared_worlds``) declare it in full. A fifth of the worlds are also run as plain
simulators that list the rows of some pairs (``outcomes=``). Every third world without a
horizon is also run with a false declaration, 10 to 100 times too large: as a table,
which can give the lie away at once, and as a plain simulator. Those runs promise
nothing, so they are counted apart: "refused" (an error said so), "held", or "excluded
the truth".

The exit code says whether a share is beyond its delta, or a run raised an error that is
no answer. A family that this version refuses to search is listed, and is no error.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.coverage.declared_worlds import half_known, random_at_least
from benchmarks.coverage.sharp_coverage import binomial_tail
from benchmarks.exact.verification_worlds import (
    World,
    random_horizon,
    random_undiscounted,
)
from benchmarks.timing import publish, signed

import smoothcruiser as sc
from smoothcruiser.errors import InvalidInput, OracleError, SmoothcruiserError

FALSE_ALARM = 1e-3
ROUNDING = 1e-12  # of the largest number of a world
DELTAS = (0.1, 0.2)
QUARTER = 0.25
WORD = "min_probability"
NOT_A_MULTIPLE = 1.0 - 1e-9  # rows are normalized: a true minimum may lose a bit


class Plan(NamedTuple):
    """One run: a world, what is declared of it, and what is asked."""

    number: int
    world: World
    family: str
    declared: float | None  # min_probability
    false: bool  # whether that is too large
    hidden: bool  # a plain simulator instead of tables
    delta: float
    budget: int
    epsilon: float | None
    target: str
    second: int | None  # a second query starts here
    told: Any = None  # (S, A): rows that a simulator lists


@dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    family: str
    delta: float
    false: bool
    scale: float
    # "held", "missed", "contradiction", "refused when made", "refused",
    # "unavailable" (this version has no such search) or "raised"
    kind: str
    rows: int = 0  # of the table
    calls: int = 0
    named: bool = False  # whether a note or the error names min_probability
    width: float = math.nan  # of the root's interval, over that before any call
    text: str = ""


# --- runs ---------------------------------------------------------------------


def plans(number: int) -> Iterator[Plan]:
    """The runs with this number: one, and for some worlds a false declaration."""
    rng = np.random.default_rng([19, number])
    undiscounted = bool(number % 2)
    seed = number // 2
    world = random_undiscounted(seed) if undiscounted else random_horizon(seed)
    declared, family = None, world.family
    truly = rng.random() < 0.5
    share = 10.0 ** rng.uniform(-1.0, 0.0)
    if truly:
        declared = world.min_probability * min(share, NOT_A_MULTIPLE)
    family += f", {WORD}" if truly else ", nothing declared"
    live = np.flatnonzero(~world.terminal)
    common: dict[str, Any] = {
        "number": number,
        "world": world,
        "delta": float(rng.choice(DELTAS)),
        "budget": int(10.0 ** rng.uniform(math.log10(200), math.log10(20_000))),
        "epsilon": _some_epsilon(rng, world),
        "target": str(rng.choice(["value", "q_values"])),
        "second": int(rng.choice(live)) if rng.random() < 0.4 else None,
    }
    yield Plan(family=family, declared=declared, false=False, hidden=False, **common)
    if number % 10 < 2:  # with a horizon and without one
        yield Plan(
            family=f"partly known, {world.family}",
            declared=declared,
            false=False,
            hidden=True,
            told=half_known(world, number),
            **common,
        )
    if number % 10 in (2, 7):
        edge = random_at_least(number // 5)
        most = edge.min_probability * NOT_A_MULTIPLE
        live = np.flatnonzero(~edge.terminal)
        second = None if common["second"] is None else int(rng.choice(live))
        changed = common | {"world": edge, "second": second}
        yield Plan(
            family=edge.family, declared=most, false=False, hidden=False, **changed
        )
    if undiscounted and seed % 3 == 0 and world.min_probability <= 0.05:
        factor = 10.0 ** rng.uniform(1.0, 2.0)
        common["declared"] = min(0.5, world.min_probability * factor)
        for hidden, family in ((False, "table"), (True, "simulator")):
            yield Plan(family=family, false=True, hidden=hidden, **common)


def _some_epsilon(rng: np.random.Generator, world: World) -> float | None:
    if rng.random() < 0.6:
        return None
    span = float(world.values.max() - world.values.min())
    return max(span, 0.1) * float(rng.choice([0.3, 0.1, 0.03]))


def carry_out(plan: Plan, scale: float = 1.0) -> Outcome:
    """Sample, and compare every bound of the table with the exact values."""

    def outcome(kind: str, **more: Any) -> Outcome:
        return Outcome(plan.family, plan.delta, plan.false, scale, kind, **more)

    try:
        problem = plan.world.problem(
            min_probability=plan.declared, hidden=plan.hidden, told=plan.told
        )
        search = sc.Certified(problem, delta=plan.delta, seed=plan.number)
    except InvalidInput as error:
        kind = "refused when made" if _refuted(plan, error) else "unavailable"
        return outcome(kind, text=str(error), named=WORD in str(error))
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        return outcome("unavailable", text=str(error))
    search.radius_scale = scale
    notes: tuple[str, ...] = ()
    try:
        for start in (0, plan.second):
            if start is None:
                break
            found = search.query(
                start, epsilon=plan.epsilon, budget=plan.budget, target=plan.target
            )
            notes += found.notes
        table = search.table()
        held = all(holds(row, plan.world) for row in table)
    except OracleError as error:
        kind = "refused" if plan.false else "contradiction"
        named = WORD in str(error)
        return outcome(kind, calls=search.num_calls, text=str(error), named=named)
    except InvalidInput as error:
        kind = "refused" if _refuted(plan, error) else "raised"
        if kind == "refused" and not plan.false:
            kind = "contradiction"
        text = f"InvalidInput: {error}"
        return outcome(kind, calls=search.num_calls, text=text, named=WORD in text)
    except SmoothcruiserError as error:
        text = f"{type(error).__name__}: {error}"
        return outcome("raised", calls=search.num_calls, text=text)
    return outcome(
        "held" if held else "missed",
        rows=len(table),
        calls=search.num_calls,
        named=any(WORD in note for note in notes),
        width=narrowed(table, problem),
    )


def _refuted(plan: Plan, error: Exception) -> bool:
    """Whether an error is about the number declared, not about a missing keyword."""
    text = str(error)
    return plan.declared is not None and WORD in text and "no option" not in text


def holds(row: Any, world: World) -> bool:
    """Whether the interval of V and those of all Q hold the exact values."""
    slack = ROUNDING * world.scale
    value, q_values = world.exact(row.state, row.remaining)
    low, high = row.interval
    if not low - slack <= value <= high + slack:
        return False
    return all(
        low - slack <= q <= high + slack
        for q, (low, high) in zip(q_values.tolist(), row.q_intervals, strict=True)
        if not math.isnan(q)
    )


def narrowed(table: Any, problem: sc.Problem) -> float:
    """The width of the first row's interval as a share of what was known before."""
    low, high = table[0].interval
    player = table[0].player
    before = problem.facts.value_bounds(player, problem.horizon)
    span = before[1] - before[0]
    return (high - low) / span if math.isfinite(span) and span > 0.0 else math.nan


def study(number: int, families: tuple[str, ...] = ()) -> list[Outcome]:
    """The runs of one number, each with whole radii and with a quarter of them.

    Where ``families`` are given, only those of which a word begins the name.
    """
    found = []
    for plan in plans(number):
        if families and not plan.family.startswith(families):
            continue
        try:
            found.append(carry_out(plan))
            if not plan.false and found[-1].kind != "unavailable":
                found.append(carry_out(plan, QUARTER))
        except Exception as error:  # a defect: it is shown, and the others go on
            text = f"run {number}: {type(error).__name__}: {error}"
            found.append(
                Outcome(plan.family, plan.delta, plan.false, 1.0, "raised", text=text)
            )
    return found


# --- the page -----------------------------------------------------------------

FAILED = ("missed", "contradiction")
ANSWERED = ("held", *FAILED)


def beyond(runs: list[Outcome], cases: int) -> bool:
    """Whether so many failures are no accident at the delta that was allowed."""
    failures = sum(run.kind in FAILED for run in runs)
    tail = binomial_tail(failures, len(runs), runs[0].delta)
    return tail < FALSE_ALARM / cases


def grouped(found: list[Outcome]) -> dict[tuple[str, float], list[Outcome]]:
    """Answered runs with whole radii and no false declaration, by family and delta."""
    groups: dict[tuple[str, float], list[Outcome]] = {}
    for run in found:
        if not run.false and run.scale == 1.0 and run.kind in ANSWERED:
            groups.setdefault((run.family, run.delta), []).append(run)
    return dict(sorted(groups.items()))


def coverage(found: list[Outcome]) -> tuple[list[str], list[tuple[str, float]]]:
    """The table of failures, and the cases that are beyond their delta."""
    groups = grouped(found)
    lines = [
        "| family | delta | runs | rows compared | failing runs | delta allows "
        "| failing with radii times 1/4 | calls per run | median width |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (family, delta), runs in groups.items():
        quarter = [
            run
            for run in found
            if (run.family, run.delta, run.scale) == (family, delta, QUARTER)
            and not run.false
        ]
        widths = [run.width for run in runs if not math.isnan(run.width)]
        width = f"{np.median(widths):.2f}" if widths else "-"
        lines.append(
            f"| {family} | {delta:g} | {len(runs):,} | {sum(r.rows for r in runs):,} "
            f"| {sum(r.kind in FAILED for r in runs)} | {delta * len(runs):.1f} "
            f"| {sum(r.kind in FAILED for r in quarter)} of {len(quarter):,} "
            f"| {sum(r.calls for r in runs) / len(runs):,.0f} | {width} |"
        )
    return lines, [key for key, runs in groups.items() if beyond(runs, len(groups))]


def declarations(found: list[Outcome]) -> list[str]:
    """What became of false declarations."""
    false = [run for run in found if run.false]
    counts = Counter((run.family, run.kind) for run in false)
    if not false:
        return ["No run had a false declaration."]
    words = {"held": "held", "missed": "excluded the truth"}
    lines = [
        f"{len(false):,} runs declared a `{WORD}` that is 10 to 100 times too large "
        "(at most 0.5):",
        "",
        "| given as | outcome | runs | a note or the error names the declaration |",
        "|---|---|---|---|",
    ]
    for (family, kind), number in sorted(counts.items()):
        same = [run for run in false if (run.family, run.kind) == (family, kind)]
        named = sum(run.named for run in same)
        lines.append(f"| {family} | {words.get(kind, kind)} | {number:,} | {named} |")
    return lines


def page(found: list[Outcome], seconds: float) -> tuple[str, bool]:
    """The page as Markdown, and whether everything held."""
    table, broken = coverage(found)
    runs = [run for group in grouped(found).values() for run in group]
    failures = sum(run.kind in FAILED for run in runs)
    quarter = [run for run in found if run.scale == QUARTER]
    raised = [run for run in found if run.kind == "raised" and run.scale == 1.0]
    unsearched = sum(run.kind == "unavailable" for run in found)
    lines = [
        "# Coverage with a horizon and at discount 1",
        "",
        f"`python {' '.join(sys.argv)}` (what counts as a failure: the script's head)",
        "",
        signed(),
        "",
        f"{len(runs):,} runs and {sum(run.rows for run in runs):,} rows in "
        f"{seconds:.0f} s: {failures} runs with a false bound where delta allows "
        f"{sum(run.delta for run in runs):.0f}; {len(broken)} cases beyond their "
        f"delta; {len(raised)} runs without an answer; {unsearched:,} that this version does "
        f"not search. With radii a quarter as wide "
        f"{sum(run.kind in FAILED for run in quarter):,} of {len(quarter):,} fail.",
        "",
        "Width: of the first state's interval, as a share of that before any call.",
        "",
        *table,
        "",
        "## False declarations",
        "",
        *declarations(found),
        "",
    ]
    refused = Counter(
        (run.family, run.text) for run in found if run.kind == "unavailable"
    )
    lines += [f"- beyond delta: {family}, {delta:g}" for family, delta in broken]
    lines += [f"- no answer: {run.text}" for run in raised[:20]]
    lines += [
        f"- {number} runs not searched ({family}): {text}"
        for (family, text), number in refused.most_common(20)
    ]
    untrue = [
        run for run in found if run.kind == "refused when made" and not run.false
    ]
    lines += [f"- a true declaration was refused: {run.text}" for run in untrue[:20]]
    good = not broken and not raised and not untrue
    return "\n".join(lines).rstrip() + "\n", good


def gather(
    first: int, runs: int, workers: int, families: tuple[str, ...] = ()
) -> list[Outcome]:
    """The outcomes of runs ``first`` to ``first + runs - 1``, in their order."""
    numbers = range(first, first + runs)
    if workers == 1:
        return [run for number in numbers for run in study(number, families)]
    with get_context("spawn").Pool(workers) as pool:
        parts = pool.imap(partial(study, families=families), numbers, chunksize=8)
        return [run for part in parts for run in part]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--families",
        nargs="+",
        default=(),
        help="only those that begin with these words",
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    begin = time.perf_counter()
    families = tuple(options.families)
    found = gather(options.first, options.runs, options.workers, families)
    text, good = page(found, time.perf_counter() - begin)
    publish(text, options.out)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
