"""Bounds on V that depend on the state: what they save, and whether intervals hold.

    python -m benchmarks.certified.state_bounds [--runs N] [--out FILE]

Prices: the calls of the schedule that keeps epsilon at delta = 0.1, without bounds and
with bounds that are a share of the value span apart.

Coverage: small random worlds with exact values, and bounds made to break the promise:
V in the middle of them, V their lower end, V their upper end, and V at either end by
turns, so that every leaf is off by half the gap in the worst direction. An interval
that excludes the truth is a miss; at most delta of the runs may miss.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
from benchmarks.timing import signed

import smoothcruiser as sc
from smoothcruiser.jit.memory import float_at
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import compile_schedule

DELTA = 0.1
# share of the gap that lies below V, by state
SKEWS: dict[str, Callable[[int], float]] = {
    "middle": lambda state: 0.5,
    "V is the lower end": lambda state: 0.0,
    "V is the upper end": lambda state: 1.0,
    "either end by turns": lambda state: float(state % 2),
}


MOST_STATES = 64
MOST_CALLS = 1_000_000  # of a schedule
# what the compiled functions read: one machine serves every world
LOWER, UPPER = np.zeros(MOST_STATES), np.zeros(MOST_STATES)
LOWER_AT, UPPER_AT = LOWER.ctypes.data, UPPER.ctypes.data


@numba.njit
def lower(state):
    return float_at(LOWER_AT, state)


@numba.njit
def upper(state):
    return float_at(UPPER_AT, state)


def bounded(problem: sc.MDP, share: float, skew: Callable[[int], float]) -> sc.MDP:
    """``problem`` with bounds around its exact values, ``share`` of the span apart.

    With a horizon they hold the values at every number of steps left from 1 on.
    """
    solution = sc.solve(problem)
    values = solution.values[None] if solution.stages is None else solution.stages[1:]
    least, most = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    room = 2.0 * solution.residual_bound + 1e-12
    gap = share * problem.facts.value_span()
    below = np.array([skew(state) for state in range(len(least))])
    LOWER[: len(least)] = least - room - below * gap
    UPPER[: len(least)] = most + room + (1.0 - below) * gap
    widest = float(np.max(UPPER - LOWER))
    return replace(problem, value_bounds=(lower, upper), value_gap=widest)


def smallest(problem: sc.MDP) -> float:
    """The smallest tried epsilon whose schedule can be run often."""
    span = problem.facts.value_span()
    for share in (0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12):
        made = compile_schedule(problem.facts, epsilon=share * span, delta=DELTA)
        if made.num_calls <= MOST_CALLS:
            break
    return share * span


def worlds(seed: int = 0) -> dict[str, sc.MDP]:
    """Small random worlds: an MDP, ends, few actions, games, a horizon."""
    rng = np.random.default_rng(seed)
    size, actions = 6, 2
    P = rng.dirichlet(np.full(size, 0.3), (size, actions))
    R = rng.integers(0, 2, (size, actions, size)).astype(float)
    legal = np.ones((size, actions), bool)
    legal[1, 1] = legal[4, 0] = False
    ends = np.arange(size) == size - 1
    turns = np.arange(size) % 2 + 1
    across = P * (turns[:, None, None] != turns[None, None, :])
    across /= across.sum(axis=2, keepdims=True)
    soft = {"discount": 0.7, "operator": sc.Entropy(1.0)}
    return {
        "MDP": sc.tabular(P, R, **soft),
        "plain max": sc.tabular(P, R, discount=0.6, operator=sc.Max()),
        "ends": sc.tabular(P, R, terminal=ends, **soft),
        "few actions": sc.tabular(P, R, legal=legal, terminal=ends, **soft),
        "game": sc.tabular(P, R, players=turns, **soft),
        "game by turns": sc.tabular(
            across, R, players=turns, alternating=True, **soft
        ),
        "game with ends": sc.tabular(P, R, players=turns, terminal=ends, **soft),
        "horizon": sc.tabular(P, R, horizon=4, **soft),
        "horizon and ends": sc.tabular(
            P, R, horizon=5, terminal=ends, discount=1.0, operator=sc.Entropy(0.5)
        ),
    }


def missed(
    problem: sc.MDP, method: str, epsilon: float, runs: int
) -> tuple[int, float]:
    """(intervals that exclude V or a Q, mean calls) of ``runs`` seeded runs."""
    solution = sc.solve(replace(problem, value_bounds=None, value_gap=None))
    row = solution.index(problem.initial_state)
    room = solution.residual_bound + 1e-12
    misses, calls = 0, 0
    for seed in range(runs):
        found = sc.plan(
            problem, method=method, epsilon=epsilon, delta=DELTA, seed=seed
        )
        assert found.certificate is not None
        checks = [(*found.certificate.interval, float(solution.values[row]))]
        checks += [
            (*interval, float(q))
            for interval, q in zip(
                found.certificate.q_intervals, solution.q_values[row], strict=True
            )
            if not math.isnan(q)
        ]
        misses += any(not low - room <= x <= high + room for low, high, x in checks)
        calls += found.num_calls
    return misses, calls / runs


said: list[str] = []  # what goes into the file


def say(*words: str) -> None:
    """Print a line, and keep it."""
    said.append(" ".join(words))
    print(said[-1], flush=True)


def prices() -> None:
    """Print the prices of promises without bounds, and with bounds of several gaps."""
    shares = (None, 0.2, 0.1, 0.05, 0.02)
    say("price in calls, entropy at temperature 1, delta 0.1 (gap: share of the span)")
    head = ("none" if s is None else f"{s:.0%}" for s in shares)
    say(f"{'discount':>8} {'actions':>7} {'epsilon':>7}", *(f"{h:>9}" for h in head))
    for discount in (0.5, 0.7, 0.9):
        for actions in (2, 4):
            facts = Facts(actions, actions, discount, sc.Entropy(1.0), (0.0, 1.0))
            span = facts.value_span()
            for epsilon in (0.05, 0.02, 0.01):
                row = []
                for share in shares:
                    given = None if share is None else share * span
                    schedule = compile_schedule(
                        replace(facts, given_gap=given),
                        epsilon=epsilon * span,
                        delta=DELTA,
                    )
                    row.append(f"1e{math.log10(schedule.num_calls):.1f}")
                say(
                    f"{discount:>8} {actions:>7} {epsilon:>7.0%}",
                    *(f"{x:>9}" for x in row),
                )


def coverage(runs: int) -> None:
    """Print the misses of seeded runs on worlds made to break the promise."""
    say(f"\ncoverage at delta {DELTA}, gap 15% of the span")
    say(
        f"{'world':>18} {'bounds':>20} {'method':>14} {'epsilon':>8} {'misses':>8} {'calls':>10}"
    )
    total = worst = 0
    for name, problem in worlds().items():
        for skew, share_below in SKEWS.items():
            tight = bounded(problem, 0.15, share_below)
            for method in ("smoothcruiser", "certified"):
                epsilon = smallest(tight)
                misses, calls = missed(tight, method, epsilon, runs)
                total, worst = total + runs, max(worst, misses)
                say(
                    f"{name:>18} {skew:>20} {method:>14} {epsilon:>8.3f} {misses:>4}/{runs:<3}"
                    f" {calls:>10,.0f}"
                )
    say(f"{total:,} runs, at most {worst} of {runs} missed in one row")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--no-prices", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if not arguments.no_prices:
        prices()
    coverage(arguments.runs)
    if arguments.out is not None:
        head = "# Bounds on V that depend on the state\n\n"
        asked = f"`python {' '.join(sys.argv)}` (what is measured: the script's head)"
        table = "\n".join(said)
        arguments.out.write_text(f"{head}{asked}\n\n{signed()}\n\n```\n{table}\n```\n")
