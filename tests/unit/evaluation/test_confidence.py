"""The empirical Bernstein sequence of Waudby-Smith and Ramdas: two draws by
hand, valid at all counts, narrow for steady draws.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

from smoothcruiser.evaluation.confidence import (
    COST,
    HIGH,
    LOW,
    TOTAL,
    WEIGHT,
    WEIGHTED,
    T,
    begin,
    take,
)


def test_two_draws_by_hand():
    """delta = 2/e makes log(2/delta) = 1: the first bet is min(3/4, sqrt(2/(1/4
    log 2))) = 3/4, and so is the second.
    """
    state = begin(2.0 / math.e, 0.0)
    take(state, 1.0)
    psi = -math.log(0.25) - 0.75
    assert state[WEIGHT] == 0.75
    assert state[COST] == 0.25 * psi  # the guess before the first draw is 1/2
    take(state, 0.0)
    assert (state[T], state[TOTAL], state[WEIGHTED]) == (2.0, 1.0, 0.75)
    # the guess is now (1/2 + 1)/2
    assert math.isclose(state[COST], 0.25 * psi + (0.0 - 0.75) ** 2 * psi)
    radius = (1.0 + state[COST]) / 1.5
    assert state[LOW] == max(0.0, 0.5 - radius)


@pytest.mark.compiles
def test_it_holds_at_every_count_at_once():
    """400 sequences of 400 skewed draws at delta = 0.1: more than 60 that ever
    miss would have probability below 1e-3.
    """
    assert binom.sf(60, 400, 0.1) < 1e-3
    for aim in (0.0, 400.0):
        rng = np.random.default_rng(int(aim))
        missed = 0
        for _ in range(400):
            state = begin(0.1, aim)
            for y in (rng.random(400) < 0.1) * 1.0:
                take(state, y)
            # the running intersection holds iff every interval did
            missed += not state[LOW] <= 0.1 <= state[HIGH]
        assert missed <= 60


def test_constant_draws_are_soon_believed():
    """Width falls like 1/n without variance, where Hoeffding's falls like 1/sqrt(n)."""
    widths = []
    for n in (100, 1000):
        state = begin(0.05, float(n))
        for _ in range(n):
            take(state, 0.3)
        widths.append(state[HIGH] - state[LOW])
        assert state[LOW] <= 0.3 <= state[HIGH]
    assert widths[0] < 0.2 < 2.0 * math.sqrt(math.log(2 / 0.05) / 200)
    assert widths[1] < widths[0] / 7.0
