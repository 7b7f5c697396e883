"""Thirteen published models by name: exact and certified against the published values.

    python -m benchmarks.exact.worlds_verification [--models NAME ...] [--budget 4.5e7]
        [--seconds 12] [--out docs/evidence/worlds-verification.md]

Each model of ``shared/data/qvbs`` is made as ``npz:FILE``, as a user would: discount 1,
plain max, and the least probability of the file declared. ``exact`` has to agree with
the published value to 1e-9; certified search (delta 0.1, the value to 0.05 and then to
0.01, ``verification.spend``) has to hold it. Where umbi is installed the same arrays are
written as a UMB file and read again by name, which has to change no bit of the tables.

The exit code is 1 if an exact value is off, an interval excludes the published value
more often than a binomial test at delta allows, or a round trip changes a table.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.coverage.sharp_coverage import binomial_tail
from benchmarks.exact.verification import (
    DELTA,
    FALSE_ALARM,
    PUBLISHED,
    Run,
    cell,
    models_called,
    spend,
)
from benchmarks.exact.verification_worlds import PUBLISHED as FOLDER
from benchmarks.exact.verification_worlds import Model, load
from benchmarks.timing import signed

import smoothcruiser as sc

AGREES = 1e-9


@dataclass(frozen=True)
class Row:
    """What one model showed."""

    name: str
    states: int
    published: float
    exact: float
    bound: float  # proven, of the exact value
    run: Run
    round_trip: str

    @property
    def good(self) -> bool:
        """Whether the exact value agrees, and the round trip is one."""
        return (
            abs(self.exact - self.published) <= AGREES
            and self.run.error is None
            and not self.round_trip.startswith("NOT")
        )


def by_name(name: str) -> sc.Problem:
    """The model as its name makes it."""
    return sc.make(f"npz:{os.path.relpath(FOLDER / f'{name}.npz')}")


def row(name: str, budget: float, seconds: float) -> Row:
    """One model: solved, searched, written and read again."""
    model, problem = load(name), by_name(name)
    exact = sc.plan(problem, method="exact")
    run = Run(name, "by name", 0, model.reference, PUBLISHED)
    spend(run, problem, budget, seconds)
    return Row(
        name,
        len(model.goal),
        model.reference,
        exact.value,
        exact.epsilon,
        run,
        round_trip(model, problem),
    )


def round_trip(model: Model, problem: sc.Problem) -> str:
    """Whether the tables of the model as a UMB file are the same to the bit."""
    if importlib.util.find_spec("umbi") is None:
        return "umbi is not installed"
    from benchmarks.exact.umb_files import written

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.umb"
        written(model, path)
        opt = "max" if model.maximize else "min"
        again = sc.make(f"umb:{path},reach=goal,opt={opt}")
    one, two = problem.tables, again.tables
    same = (
        np.array_equal(one.terminal, two.terminal)
        and np.array_equal(one.player, two.player)
        and all(
            listed(one, s, a) == listed(two, s, b)
            for s in np.flatnonzero(~one.terminal).tolist()
            for b, a in enumerate(np.flatnonzero(one.legal[s]).tolist())
        )
    )
    return "same" if same else "NOT THE SAME"


def listed(tables: object, state: int, action: int) -> list[tuple[float, float, int]]:
    return [row for row in tables.outcomes(state, action) if row[0] > 0.0]


def table(rows: list[Row]) -> list[str]:
    """The lines of the table, in Markdown."""
    lines = [
        "| model | states | published | exact less published | proven to | certified, "
        "calls/seconds to 0.05 ; to 0.01 | last interval | holds | as UMB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for each in rows:
        low, high = each.run.interval or (float("nan"), float("nan"))
        lines.append(
            f"| {each.name} | {each.states:,} | {each.published:.10g} | "
            f"{each.exact - each.published:.1e} | {each.bound:.1e} | "
            f"{each.run.error or cell([each.run])} | [{low:.5f}, {high:.5f}] | "
            f"{'NO' if each.run.missed else 'yes'} | {each.round_trip} |"
        )
    return lines


def measured(wanted: list[str], budget: float, seconds: float) -> list[Row]:
    """All rows, one after the other; each is printed when it is known."""
    rows = []
    for name in wanted[:1]:  # what is compiled now takes no seconds of a row
        sc.Certified(by_name(name), delta=DELTA).query(epsilon=0.5, budget=1000)
    for name in wanted:
        rows.append(row(name, budget, seconds))
        print(table(rows[-1:])[-1], flush=True)
    return rows


def summary(rows: list[Row]) -> str:
    """How many are as they have to be."""
    agree = sum(abs(each.exact - each.published) <= AGREES for each in rows)
    held = sum(not each.run.missed and each.run.error is None for each in rows)
    return (
        f"{agree} of {len(rows)} exact values agree with the published ones to "
        f"{AGREES:g}; {held} of {len(rows)} certified intervals hold them (delta = "
        f"{DELTA:g})."
    )


def main() -> int:
    """Print the table, and write it where requested."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=None, help="parts of names")
    parser.add_argument("--budget", type=float, default=4.5e7)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    wanted = models_called(options.models)
    rows = measured(wanted, options.budget, options.seconds)
    print(summary(rows))
    if options.out is not None:
        head = [
            "# Published models by name",
            "",
            f"`python {' '.join(sys.argv)}`",
            "",
            signed(),
            "",
            summary(rows),
            "",
        ]
        options.out.write_text("\n".join([*head, *table(rows), ""]))
    missed = sum(each.run.missed for each in rows)
    tail = binomial_tail(missed, len(rows), DELTA)
    return int(tail < FALSE_ALARM or not all(each.good for each in rows))


if __name__ == "__main__":
    sys.exit(main())
