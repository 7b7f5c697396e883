"""Certified search on thirteen published models: calls and seconds to a half-width.

    python -m benchmarks.exact.verification [--models NAME ...] [--columns NAME ...]
        [--budget 4.5e7] [--seconds 12] [--seeds 1] [--out docs/evidence/verification.md]

The models (``verification_worlds.published``) ask for the best or the worst probability
of reaching a goal. They are sampled at discount 1; nothing was tuned on them. Columns:

    A100, A1000   a horizon of 100 or 1,000 steps (the value is that of the horizon)
    B             no horizon, nothing declared
    Bflag         no horizon, states that cannot reach a goal are terminal
    Bp            no horizon, min_probability declared: the true minimum
    Bp10          the same with a tenth of it

Each run is one memory with delta = 0.1: a query of the value to 0.05, then one to 0.01.
Calls are those of the memory. Budget and seconds hold for the two queries together;
seconds leave out compilation. With several seeds a cell shows the median run that
reached the half-width. An interval is compared with the value by backward induction (A)
or the published one (B), which has nine digits at least. ``REFERENCE`` has the calls of
an earlier prototype, to which calls are compared as ratios: below 1 means fewer calls.

The exit code says whether more intervals missed than a binomial test at delta allows, or
a run ended in an error.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.coverage.sharp_coverage import binomial_tail
from benchmarks.exact.verification_worlds import (
    Model,
    load,
    names,
    true_minimum,
    value_with_horizon,
)
from benchmarks.timing import publish, signed

import smoothcruiser as sc
from smoothcruiser.errors import SmoothcruiserError

DELTA = 0.1
GOALS = (0.05, 0.01)
FALSE_ALARM = 1e-3
COLUMNS = ("A100", "A1000", "B", "Bflag", "Bp", "Bp10")
DEFAULT_COLUMNS = tuple(column for column in COLUMNS if column != "A1000")
HORIZONS = {"A100": 100, "A1000": 1000}
INDUCTION = 1e-12  # what rounding leaves of a value by backward induction
PUBLISHED = 1e-9  # what printing leaves of a published one

# Calls to 0.05 and to 0.01 of the prototype in certified-next.md, section 5 (columns
# A100kt, A1000kt, B0, Bflag, Bp, Bp10; one seed, delta 0.1, cap 3e7 calls with the last
# round beyond it, 12 s). None: not reached. Its draws grew by half per round, so
# a figure is up to 50% above the true crossing. cdrive.3 is not in that table: A100 is
# from the comparison below it, Bp from its note on D2, which has only the second figure;
# NaN: no figure.
Calls = tuple[float | None, float | None]
UNREACHED: Calls = (None, None)
UNMEASURED: Calls = (math.nan, math.nan)
REFERENCE: dict[str, tuple[Calls, ...]] = {
    "beb.3-4-N3.GaveUp": (
        (2.70e7, None),
        UNREACHED,
        UNREACHED,
        (1.63e7, None),
        (3.44e6, 3.92e7),
        (7.97e6, 4.03e7),
    ),
    "cdrive.2.goal": (
        (1.30e5, 2.22e6),
        (2.93e5, 5.00e6),
        (5.04e6, None),
        (2.45e5, 2.79e6),
        (1.99e5, 1.01e6),
        (6.70e5, 3.39e6),
    ),
    "cdrive.3.goal": (
        (1.9e6, 2.1e7),
        UNMEASURED,
        UNMEASURED,
        UNMEASURED,
        (math.nan, 1.4e7),
        UNMEASURED,
    ),
    "cdrive.6.goal": (
        (2.09e7, None),
        UNREACHED,
        UNREACHED,
        UNREACHED,
        (3.10e7, None),
        UNREACHED,
    ),
    "consensus.2-K2.c2": (
        (1.10e7, None),
        (1.64e7, None),
        UNREACHED,
        (1.10e7, None),
        (3.24e6, None),
        (3.25e6, None),
    ),
    "consensus.2-K2.disagree": (
        (4.89e6, 3.71e7),
        (1.10e7, None),
        UNREACHED,
        (4.88e6, None),
        (6.41e5, 1.63e7),
        (9.66e5, 1.65e7),
    ),
    "consensus.2-K4.disagree": (
        (9.46e6, None),
        UNREACHED,
        UNREACHED,
        (3.33e7, None),
        (3.25e6, 3.70e7),
        (1.89e6, 3.23e7),
    ),
    "csma.2-2.some_before": (
        (1.14e7, None),
        (1.71e7, None),
        UNREACHED,
        (1.15e7, None),
        (1.46e5, 4.94e5),
        (9.61e5, 1.72e6),
    ),
    "ij.10.stable": (
        (1.98e7, None),
        (8.79e6, None),
        (1.28e7, None),
        (1.28e7, None),
        (6.60e4, 6.60e4),
        (1.71e6, 1.71e6),
    ),
    "pacman-MAXSTEPS5.crash": (
        (1.25e6, 9.52e6),
        (4.23e6, 3.21e7),
        UNREACHED,
        (5.47e5, 4.16e6),
        (7.17e4, 8.18e5),
        (1.65e5, 8.35e5),
    ),
    "rabin.3.live": (
        (6.14e4, 3.11e5),
        (6.14e4, 3.11e5),
        (2.07e5, 1.05e6),
        (2.07e5, 1.05e6),
        (1.35e5, 3.05e5),
        (2.03e5, 6.86e5),
    ),
    "triangle-tireworld.9.goal": (
        (3.61e4, 2.74e5),
        (5.41e4, 2.74e5),
        (1.22e5, 6.16e5),
        (3.57e4, 1.81e5),
        (2.69e3, 2.69e3),
        (1.60e4, 2.40e4),
    ),
    "zeroconf-N1000-K2-resetTrue.correct_max": (
        (3.14e5, 1.59e6),
        (1.06e6, 8.01e6),
        UNREACHED,
        (4.04e7, None),
        (9.37e4, 2.11e5),
        (3.16e5, 7.12e5),
    ),
}


def reference(model: str, column: str) -> Calls:
    """The prototype's calls to 0.05 and to 0.01."""
    return REFERENCE.get(model, (UNMEASURED,) * len(COLUMNS))[COLUMNS.index(column)]


@dataclass
class Run:
    """One memory on one model: what each half-width cost."""

    model: str
    column: str
    seed: int
    exact: float
    slack: float
    calls: list[int | None] = field(default_factory=lambda: [None] * len(GOALS))
    seconds: list[float] = field(default_factory=lambda: [0.0] * len(GOALS))
    interval: tuple[float, float] | None = None  # the last one
    total: int = 0  # calls in the end
    missed: bool = False  # whether any interval excluded the exact value
    notes: tuple[str, ...] = ()
    error: str | None = None


def problem_of(model: Model, column: str) -> sc.Problem:
    """The model as the column asks for it."""
    if column in HORIZONS:
        return model.problem(horizon=HORIZONS[column])
    if column == "Bflag":
        return model.problem(dead_ends=True)
    if column == "Bp":
        return model.problem(min_probability=true_minimum(model))
    if column == "Bp10":
        return model.problem(min_probability=true_minimum(model) / 10.0)
    return model.problem()


def measure(
    model: Model, column: str, seed: int, budget: float, seconds: float
) -> Run:
    """One memory: the value to 0.05, then to 0.01."""
    if column in HORIZONS:
        exact, slack = value_with_horizon(model, HORIZONS[column])[0], INDUCTION
    else:
        exact, slack = model.reference, PUBLISHED
    run = Run(model.name, column, seed, exact, slack)
    try:
        problem = problem_of(model, column)
    except SmoothcruiserError as error:
        run.error = f"{type(error).__name__}: {error}"
        return run
    spend(run, problem, budget, seconds)
    return run


def spend(run: Run, problem: sc.Problem, budget: float, seconds: float) -> None:
    """Fill ``run`` by one memory of a problem: the value to 0.05, then to 0.01."""
    try:
        search = sc.Certified(problem, delta=DELTA, seed=run.seed)
        spent = 0.0
        for i, goal in enumerate(GOALS):
            found = search.query(
                epsilon=goal,
                target="value",
                budget=max(1.0, budget - search.num_calls),
                seconds=max(1e-3, seconds - spent),
            )
            spent += found.seconds
            note(run, found)
            run.total = search.num_calls
            low, high = found.interval
            if high - low > 2.0 * goal * (1.0 + 1e-12):
                break
            run.calls[i], run.seconds[i] = search.num_calls, spent
            if search.num_calls >= budget or spent >= seconds:
                break
    except SmoothcruiserError as error:
        run.error = f"{type(error).__name__}: {error}"


def note(run: Run, found: Any) -> None:
    """Keep the interval, whether it holds, and new sentences."""
    low, high = run.interval = found.interval
    run.missed |= not low - run.slack <= run.exact <= high + run.slack
    run.notes += tuple(text for text in found.notes if text not in run.notes)


# --- the page -----------------------------------------------------------------


def short(calls: float) -> str:
    return f"{calls:.2e}".replace("e+0", "e").replace("e+", "e")


def median_run(runs: list[Run], goal: int) -> Run | None:
    """The median of the runs that reached a half-width, if half of them did."""
    reached = [run for run in runs if run.calls[goal] is not None]
    if 2 * len(reached) < len(runs):
        return None
    return sorted(reached, key=lambda run: run.calls[goal] or 0)[
        (len(reached) - 1) // 2
    ]


def cell(runs: list[Run]) -> str:
    """Calls and seconds to each half-width, or how far the first seed came."""
    if not runs:
        return ""
    errors = [run for run in runs if run.error is not None]
    if errors:
        return f"error ({len(errors)} of {len(runs)})" if len(runs) > 1 else "error"
    parts = []
    for goal in range(len(GOALS)):
        run = median_run(runs, goal)
        if run is None:
            last = runs[0]
            assert last.interval is not None
            low, high = last.interval
            parts.append(f"- [{low:.5f}, {high:.5f}]@{short(last.total)}")
            break
        parts.append(f"{short(run.calls[goal] or 0)}/{run.seconds[goal]:.1f}s")
    missed = sum(run.missed for run in runs)
    return " ; ".join(parts) + (f" **missed {missed}**" if missed else "")


def ratio(runs: list[Run], column: str, goal: int) -> tuple[str, float | None]:
    """Calls over the prototype's, as text and number."""
    if not runs or any(run.error for run in runs):
        return "", None
    run, before = median_run(runs, goal), reference(runs[0].model, column)[goal]
    if before is not None and math.isnan(before):
        return "no figure", None
    if run is None:
        return ("not reached" if before is not None else "-"), None
    if before is None:
        return "new", None
    found = (run.calls[goal] or 0) / before
    return f"{found:.2f}", found


def mean_ratio(found: Iterable[float | None]) -> str:
    numbers = [x for x in found if x is not None]
    if not numbers:
        return "-"
    mean = math.exp(statistics.fmean(map(math.log, numbers)))
    return f"{mean:.2f} ({len(numbers)})"


def page(runs: list[Run], columns: list[str], head: str) -> str:
    """The tables as Markdown."""
    models = list(dict.fromkeys(run.model for run in runs))
    by = {
        (m, c): [run for run in runs if (run.model, run.column) == (m, c)]
        for m in models
        for c in columns
    }
    finite = [c for c in columns if c in HORIZONS]
    values = [f"V_{HORIZONS[c]}" for c in finite]
    answered = [run for run in runs if run.interval is not None]
    missed = sum(run.missed for run in answered)
    lines = [
        "# Certified search on published models",
        "",
        head,
        "",
        signed(),
        "",
        f"{len(runs)} runs: {missed} of {len(answered)} with an interval that excludes "
        f"the exact value (delta = {DELTA:g} allows {DELTA * len(answered):.1f}); "
        f"{sum(run.error is not None for run in runs)} ended in an error.",
        "",
        "Calls/seconds to 0.05 ; to 0.01, or the last interval @ calls.",
        "",
        f"| model | {' | '.join(['published', *values, *columns])} |",
        f"|---|{'---|' * (1 + len(values) + len(columns))}",
    ]
    for m in models:
        exact = [load(m).reference, *(by[m, c][0].exact for c in finite)]
        cells = [*(f"{x:.5g}" for x in exact), *(cell(by[m, c]) for c in columns)]
        lines.append(f"| {m} | {' | '.join(cells)} |")
    lines += [
        "",
        "## Calls over the prototype's",
        "",
        "Calls here over those of certified-next.md, section 5, to 0.05 ; to 0.01. "
        '"new": only reached here; "not reached": only reached there; "-": neither. The '
        "prototype's figures are up to 50% above its true crossing.",
        "",
        f"| model | {' | '.join(columns)} |",
        f"|---|{'---|' * len(columns)}",
    ]
    for m in models:
        cells = " | ".join(
            " ; ".join(ratio(by[m, c], c, goal)[0] for goal in range(len(GOALS)))
            for c in columns
        )
        lines.append(f"| {m} | {cells} |")
    means = " | ".join(
        " ; ".join(
            mean_ratio(ratio(by[m, c], c, goal)[1] for m in models)
            for goal in range(len(GOALS))
        )
        for c in columns
    )
    lines += [f"| geometric mean (of so many) | {means} |", "", *remarks(runs)]
    return "\n".join(lines).rstrip() + "\n"


def remarks(runs: list[Run]) -> list[str]:
    """What the answers say of themselves, and every error."""
    lines = ["## Notes of the answers", ""]
    for run in runs:
        if run.seed == min(r.seed for r in runs) and run.notes:
            lines.append(f"- {run.model}, {run.column}: {' '.join(run.notes)}")
    errors: Counter[tuple[str, str]] = Counter()
    for run in runs:
        if run.error is not None:
            errors[run.column, run.error] += 1
    if errors:
        lines += ["", "## Errors", ""]
        lines += [f"- {c}, {n} runs: {text}" for (c, text), n in errors.items()]
    return lines


def models_called(parts: list[str] | None) -> list[str]:
    """The models whose names have one of these parts; all of them without parts."""
    return [name for name in names() if not parts or any(p in name for p in parts)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=None, help="parts of names")
    parser.add_argument(
        "--columns", nargs="+", choices=COLUMNS, default=list(DEFAULT_COLUMNS)
    )
    parser.add_argument("--budget", type=float, default=4.5e7)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    wanted = models_called(options.models)
    if not wanted:
        parser.error(f"no model is called like that; there are {', '.join(names())}")
    runs = []
    for name in wanted:
        for column in options.columns:
            for seed in range(options.seeds):
                run = measure(
                    load(name), column, seed, options.budget, options.seconds
                )
                runs.append(run)
                shown = run.error or cell([run])
                print(f"{name}, {column}, seed {seed}: {shown}", flush=True)
    text = page(runs, options.columns, f"`python {' '.join(sys.argv)}`")
    publish(text, options.out)
    answered = [run for run in runs if run.interval is not None]
    missed = sum(run.missed for run in answered)
    tail = binomial_tail(missed, len(answered), DELTA)
    return int(tail < FALSE_ALARM or any(run.error for run in runs))


if __name__ == "__main__":
    sys.exit(main())
