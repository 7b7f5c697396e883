"""Sampling where it pays: calls of certified search beside equal samples.

    python -m benchmarks.certified.steering [--seeds 2] [--out docs/evidence/steering.md]

Ten problems of ten kinds, chosen before any of them was measured: lakes, a gridworld,
Garnets, games, a shop, and published models with a horizon and at discount 1. Each is
asked for its value with the same radii, once with samples that are steered and once with
the same number for every pair seen (``Uniform``). The exit code says whether
an answer misses a known value.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.certified.certified import Uniform
from benchmarks.certified.certified_worlds import LAKE_8, frozen_lake, sparse_garnet
from benchmarks.coverage.portfolio_worlds import pig, shop, shop_step
from benchmarks.exact.verification_worlds import load, value_with_horizon
from benchmarks.timing import publish, signed
from numba import njit

import smoothcruiser as sc
from smoothcruiser.certified.search import Certified
from smoothcruiser.problem.zoo import garnet, gridworld, random_game

DELTA = 0.05
BUDGET, SECONDS = 4e7, 20.0
HALF, MOST = 0.5, 1.2  # the bar: at most half on six of ten, never above 1.2 times


class Question(NamedTuple):
    """A problem, the half-width, and its value where it is known before."""

    name: str
    problem: sc.Problem
    epsilon: float
    value: float | None = None


def questions() -> list[Question]:
    """The ten of them."""
    cdrive, csma = load("cdrive.3.goal"), load("csma.2-2.some_before")

    def share(name: str, part: float, make: Callable[..., sc.Problem], **more: Any):
        problem = make(**more)
        return Question(
            f"{name}, {part:.0%}", problem, part * problem.facts.value_span()
        )

    def lake(discount: float, temperature: float) -> sc.Problem:
        return frozen_lake(LAKE_8, discount=discount, operator=sc.Entropy(temperature))

    soft = sc.Entropy(0.1)
    return [
        share("Frozen Lake 8x8, 0.95", 0.05, lambda: lake(0.95, 0.05)),
        share("Frozen Lake 8x8, 0.9", 0.01, lambda: lake(0.9, 0.1)),
        share("gridworld 8x8, 0.9", 0.05, gridworld, n=8, discount=0.9, operator=soft),
        share(
            "Garnet, 200 states, 0.9",
            0.05,
            garnet,
            states=200,
            actions=3,
            branching=3,
            seed=1,
            discount=0.9,
            operator=soft,
        ),
        share(
            "sparse Garnet, 2,000 states, 0.8",
            0.05,
            sparse_garnet,
            states=2000,
            seed=1,
            discount=0.8,
        ),
        share(
            "random game, 40 states, 0.9",
            0.05,
            random_game,
            states=40,
            branching=2,
            seed=1,
            alternating=True,
            discount=0.9,
            operator=soft,
        ),
        share("dice (Pig)", 0.05, pig),
        share("shop", 0.02, lambda: shop(njit(shop_step))),
        Question(
            "cdrive.3, H = 100, 0.05",
            cdrive.problem(horizon=100),
            0.05,
            value_with_horizon(cdrive, 100)[0],
        ),
        Question(
            "csma.2-2, discount 1, ends flagged, 0.05",
            csma.problem(dead_ends=True),
            0.05,
            csma.reference,
        ),
    ]


class Found(NamedTuple):
    """What one run took."""

    calls: float
    reached: bool
    seconds: float
    missed: bool


def run(question: Question, seed: int, uniform: bool) -> Found:
    """One memory, one query."""
    kind = Uniform if uniform else Certified
    search = kind(question.problem, delta=DELTA, seed=seed)
    found = search.query(
        epsilon=question.epsilon, target="value", budget=BUDGET, seconds=SECONDS
    )
    low, high = found.interval
    missed = question.value is not None and not (
        low - 1e-9 <= question.value <= high + 1e-9
    )
    reached = high - low <= 2.0 * question.epsilon * (1.0 + 1e-12)
    return Found(search.num_calls, reached, found.seconds, missed)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows, ratios, missed = [], [], 0
    for question in questions():
        calls: list[float] = []
        cells = []
        for uniform in (False, True):
            found = [run(question, seed, uniform) for seed in range(options.seeds)]
            calls.append(statistics.median(x.calls for x in found))
            seconds = statistics.median(x.seconds for x in found)
            missed += sum(x.missed for x in found)
            text = f"{calls[-1]:,.0f}"
            if not all(x.reached for x in found):
                text = f"more than {text}"
            cells.append(f"{text} | {seconds:.1f}")
        ratio = calls[0] / calls[1]
        ratios.append(ratio)
        rows.append(f"| {question.name} | {' | '.join(cells)} | {ratio:.2f} |")
        print(rows[-1], flush=True)
    few = sum(ratio <= HALF for ratio in ratios)
    text = "\n".join(
        [
            "# Sampling where it pays",
            "",
            f"`python {' '.join(sys.argv)}`",
            "",
            signed(),
            "",
            f"delta = {DELTA:g}, medians of {options.seeds} seeds: calls until the value "
            "has the half-width (a share of the widest interval, or a number). At most "
            f"half of the calls of equal samples on {few} of {len(ratios)} problems; the "
            f"largest ratio is {max(ratios):.2f}. {missed} answers miss a known value. "
            f"Where equal samples do not reach it in {SECONDS:.0f} s or {BUDGET:.0e} calls, "
            "the ratio is to those they made, and too large.",
            "",
            "| problem | steered | seconds | equal | seconds | ratio |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )
    publish(text, options.out)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
