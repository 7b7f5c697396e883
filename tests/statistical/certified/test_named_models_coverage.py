"""Certified intervals of models by name hold the exact value.

What a name declares is computed from the file: the least probability, and for totals
how soon plays end. A wrong one would show here, so the worlds are made to depend on it:
random UMB models with deadlocks, self-loops, end components and rare branches of 1/64,
MDPs and games, max and min, small budgets that leave intervals open. Law: at most delta
of the intervals miss (exact binomial test, false alarm 1e-4).
"""

from fractions import Fraction

import numpy as np
import pytest
from benchmarks.coverage.sharp_coverage import binomial_tail

import smoothcruiser as sc

pytest.importorskip("umbi")
from benchmarks.exact.umb_files import save

DELTA = 0.2
FALSE_ALARM = 1e-4
RARE = Fraction(1, 64)


def written(rng, path, *, forward):
    """A random model; with ``forward`` every choice may lead on, so that plays end."""
    size = int(rng.integers(3, 7))
    choices = []
    for s in range(size - 1):
        here = []
        for _ in range(int(rng.integers(1, 3))):
            share = (RARE, Fraction(1, 4), Fraction(1, 2))[int(rng.integers(3))]
            to = int(rng.integers(s + 1 if forward else 0, size))
            here.append([(to, share), (int(rng.integers(size)), 1 - share)])
        choices.append(here)
    choices.append([])
    goal = [s == size - 1 for s in range(size)]
    is_game = bool(rng.integers(2))
    save(
        path,
        choices,
        labels={"goal": goal},
        rewards={"r": {"state": [*rng.integers(0, 3, size - 1).tolist(), 0]}},
        num_players=2 if is_game else 1,
        players=rng.integers(2, size=size).tolist() if is_game else None,
        player_names=["one", "two"] if is_game else None,
    )


def measured(objective, seeds, budgets, folder):
    """(memories that missed, memories, those with a narrow interval in the end)."""
    missed = asked = narrow = 0
    for seed in seeds:
        path = folder / f"{seed}.umb"
        totals = objective == "total=r"
        written(np.random.default_rng([22, seed]), path, forward=totals)
        opt = ("max", "min")[seed % 2]
        problem = sc.make(f"umb:{path},{objective},opt={opt}")
        if totals and problem.episodes_end is None:  # an end that is too far off
            continue
        value = sc.plan(problem, method="exact").value
        search, holds = sc.Certified(problem, delta=DELTA, seed=seed), True
        for budget in budgets:
            low, high = search.query(
                epsilon=1e-3, target="value", budget=budget, seconds=5.0
            ).interval
            holds &= low - 1e-9 <= value <= high + 1e-9
        missed, asked = missed + (not holds), asked + 1
        narrow += high - low < 0.5 * problem.facts.value_hull()[1]
    return missed, asked, narrow


SIZES = [
    (range(8), (200, 3000), 5, 3),
    pytest.param(range(100, 180), (200, 2000, 20_000), 50, 25, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("objective", ["reach=goal", "total=r"])
@pytest.mark.parametrize("seeds, budgets, least_asked, least_narrow", SIZES)
def test_intervals_of_named_models_hold_the_exact_value(
    objective, seeds, budgets, least_asked, least_narrow, tmp_path
):
    missed, asked, narrow = measured(objective, seeds, budgets, tmp_path)
    assert asked >= least_asked
    assert narrow >= least_narrow  # the intervals say something
    assert binomial_tail(missed, asked, DELTA) > FALSE_ALARM
