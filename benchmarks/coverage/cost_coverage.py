"""Coverage of certified search with paths: how often an interval misses the truth.

    python -m benchmarks.coverage.cost_coverage [--runs 700] [--out FILE]

Tables with exact values, sampled as simulators, through ``plan`` with ``delta = .1``: a
world with rare breakdowns, where normal quantiles must fail, fines with a heavy tail,
an inventory, random MDPs with and without a regularizer, and a lake. ``coloured`` makes
small worlds hard for the search alone. A third of a budget is played as paths. Counted are

  misses           of the interval of V, and of every action value's
  below            of the lower end alone, which comes from paths where they are ahead
  quarter          lower ends that would miss at a quarter of their distance from ``value``
  normal           of value - 1.645 standard errors, which promises 5% of misses
  paths            runs in which the lower end came from paths

Failures stand against delta by the exact binomial tail; one below 1e-4 in any row ends
the script with 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.coverage import known_worlds as worlds
from benchmarks.coverage.sharp_coverage import binomial_tail
from benchmarks.timing import publish, signed

import smoothcruiser as sc

DELTA, FALSE_ALARM, ROUNDING = 0.1, 1e-4, 1e-9


def coloured(world: worlds.World, colours: int = 40) -> worlds.World:
    """The same world, where each state comes in colours that mean nothing.

    A search has as many times the pairs to bound, and a path no more noise.
    """

    def outcomes(state: int, action: int) -> Any:
        return [
            (p / colours, reward, target * colours + colour)
            for p, reward, target in world.outcomes(state // colours, action)
            for colour in range(colours)
        ]

    return replace(world, name=f"{world.name}, coloured", outcomes=outcomes)


ROWS: list[tuple[Callable[[], worlds.World], dict[str, Any]]] = [
    (lambda: coloured(worlds.rare_breakdown(0.95)), {"budget": 12_000}),
    (lambda: coloured(worlds.rare_breakdown(0.98)), {"budget": 30_000}),
    (lambda: coloured(worlds.rare_breakdown(0.95)), {"budget": 40_000}),
    (lambda: coloured(worlds.fines(0.95)), {"budget": 12_000}),
    (lambda: worlds.inventory(0.95), {"budget": 12_000}),
    (lambda: worlds.garnet(60, 3, 0.95), {"budget": 12_000}),
    (lambda: worlds.garnet(60, 3, 0.95, temperature=0.5), {"budget": 12_000}),
    (lambda: worlds.garnet(20, 3, 0.95), {"epsilon": 3.0, "target": "value"}),
    (lambda: worlds.lake(6, 0.95), {"budget": 12_000}),
]


def run_row(world: worlds.World, request: dict[str, Any], runs: int) -> dict[str, Any]:
    """The counts of one row."""
    known = world.planned(compiled=True)
    truth = float(known.truth)
    slack = ROUNDING * max(1.0, abs(truth))
    counts = dict.fromkeys(("misses", "below", "quarter", "normal", "paths"), 0)
    for seed in range(1, runs + 1):
        answer = sc.plan(
            known.problem, method="certified", delta=DELTA, seed=seed, **request
        )
        assert answer.interval is not None
        assert answer.certificate is not None
        low, _ = answer.interval
        boxes = [(answer.interval, truth)]
        boxes += zip(answer.certificate.q_intervals, known.q_values, strict=False)
        counts["misses"] += any(not a - slack <= x <= b + slack for (a, b), x in boxes)
        counts["below"] += low > truth + slack
        counts["quarter"] += answer.value - 0.25 * (answer.value - low) > truth + slack
        error = answer.standard_error
        counts["normal"] += (
            error is not None and answer.value - 1.645 * error > truth + slack
        )
        counts["paths"] += any(note.startswith("Lower end: ") for note in answer.notes)
    return counts | {"name": world.name, "truth": truth}


def page(rows: list[dict[str, Any]], runs: int, seconds: float) -> tuple[str, bool]:
    """The table as Markdown, and whether every row holds."""
    lines = [
        "# Coverage of certified search with paths",
        "",
        f"`python -m benchmarks.coverage.cost_coverage --runs {runs}`; {signed()}",
        "",
        "What is counted: the script's head.",
        "",
        "| world | request | truth | runs | misses | tail | below | quarter | normal | "
        "paths |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    good = True
    for row, (_, request) in zip(rows, ROWS, strict=True):
        tail = binomial_tail(row["misses"], runs, DELTA)
        good &= tail >= FALSE_ALARM
        words = ", ".join(f"{name} {value}" for name, value in request.items())
        lines.append(
            f"| {row['name']} | {words} | {row['truth']:.4g} | {runs:,} | "
            f"{row['misses']} | {tail:.2g} | {row['below']} | {row['quarter']} | "
            f"{row['normal']} | {row['paths']} |"
        )
    misses, total = sum(row["misses"] for row in rows), runs * len(rows)
    lines += [
        "",
        f"{total:,} runs in {seconds:.0f} s, {misses} misses where {DELTA * total:,.0f} "
        "may be.",
    ]
    return "\n".join(lines) + "\n", good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=700, help="of each row")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    begin = time.perf_counter()
    rows = []
    for build, request in ROWS:
        rows.append(run_row(build(), request, options.runs))
        print(rows[-1], round(time.perf_counter() - begin), "s", flush=True)
    text, good = page(rows, options.runs, time.perf_counter() - begin)
    publish(text, options.out)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
