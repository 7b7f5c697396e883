"""What ``auto`` answers holds in every branch of its portfolio.

Reduced form of benchmarks/coverage/portfolio_coverage.py (the full table is
docs/evidence/portfolio-coverage.md). Seeds are fixed; the false-alarm rate of the
binomial test, had the seeds been free, is 1e-4.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from benchmarks.coverage.portfolio_coverage import Tally, small_world, study
from benchmarks.coverage.sharp_coverage import binomial_tail

import smoothcruiser as sc

# one label, forty, a real number; and a world without chance
CHOSEN = (0, 16, 2, 9)
RUNS = 24


@pytest.mark.parametrize("number", CHOSEN)
def test_the_benchmark_knows_the_truth(number):
    """Value iteration by textbook formulas agrees with the exact solver."""
    world = small_world(number)
    solved = sc.plan(
        sc.tabular(
            world.P,
            world.R,
            discount=world.discount,
            operator=world.operator,
            players=world.player,
            terminal=world.ends,
            horizon=world.horizon,
        ),
        method="exact",
    )
    value, q_values = world.truth()
    assert solved.value == pytest.approx(value, abs=1e-9)
    assert np.array(solved.q_values) == pytest.approx(q_values, abs=1e-9)


@pytest.mark.slow
@pytest.mark.compiles
def test_every_branch_of_the_portfolio_covers():
    """Failures stay within delta in each branch, and all branches were taken.

    Every limit gave an answer. That the test can fail: with intervals an eighth as
    wide failures would be too many.
    """
    branches: dict[str, Tally] = defaultdict(Tally)
    total = Tally()
    for number in CHOSEN:
        found, raised = study((number, RUNS))
        assert not raised
        for (branch, _), tally in found.items():
            branches[branch].add(tally)
            total.add(tally)
    assert {
        "race: the search was enough",
        "race: search, then schedule",
        "smoothcruiser alone",
        "certified alone",
    } <= set(branches)
    for tally in branches.values():
        assert binomial_tail(tally.failures, tally.runs, tally.delta) > 1e-4
    assert binomial_tail(total.narrowed[-1], total.runs, total.delta) < 1e-4
