"""Bets on a mean: by hand, by exact probabilities, and against the samples themselves."""

import math
from itertools import pairwise

import numpy as np
import pytest

from smoothcruiser.theory import bets

AT_THE_END = (0.0,) * len(
    bets.SHARES
)  # all poles at the end of the range are one pole


def test_samples_that_do_not_vary():
    """Law: with the pole at the end M of the range, n samples at x give M - (M - x)
    e^{-l/n} and x e^{-l/n}.
    """
    weights = [0] * 9
    weights[2] = 40 * 16
    low, high = bets.bet_interval(tuple(weights), 16, AT_THE_END, 3.0)
    assert high == pytest.approx(8.0 - 6.0 * math.exp(-3.0 / 40.0), abs=1e-9)
    assert low == pytest.approx(2.0 * math.exp(-3.0 / 40.0), abs=1e-9)


def wealth(x, q, poles):
    """The log of W_n(q) for samples in [0, 1], straight from its definition."""
    terms = [
        math.log(share) + float(np.sum(np.log(1.0 + t - x) - math.log(1.0 + t - q)))
        for share, t in zip(bets.SHARES, poles, strict=True)
    ]
    return float(np.logaddexp.reduce(terms))


@pytest.mark.parametrize("bins", [16, 256])
def test_a_histogram_gives_little_more_than_the_samples(bins):
    """Law: linear binning widens both ends, by O(1/bins^2); at the ends of the binned
    interval the bets on the samples themselves have won at least as much.
    """
    x = np.random.default_rng(1).beta(2.0, 5.0, 400)
    poles, level = bets.offsets(0.02, 1.0, 0.25), 4.0
    points = np.floor(x * bins).astype(int)
    share = np.floor((x * bins - points) * 2**24).astype(int)
    weights = np.zeros(bins + 1, dtype=int)
    np.add.at(weights, points, 2**24 - share)
    np.add.at(weights, points + 1, share)
    ends = bets.bet_interval(tuple(weights.tolist()), 2**24, poles, level)
    low, high = (end / bins for end in ends)
    assert low < float(x.mean()) < high
    for q, sample in ((high, x), (1.0 - low, 1.0 - x)):
        assert wealth(sample, q, poles) >= level - 1e-6
        assert wealth(sample, q - 3.0 / bins**2, poles) < level


def crossing(p, level, n, upper):
    """The exact probability that bets on Bernoulli(p) exclude p at some count <= n."""
    poles = bets.offsets(0.05, 1.0, 0.25)
    alive = {0: 1.0}  # ones so far -> probability that p was never excluded
    lost = 0.0
    for count in range(1, n + 1):
        after = {}
        for ones, chance in alive.items():
            for more, part in ((1, p), (0, 1.0 - p)):
                after[ones + more] = after.get(ones + more, 0.0) + chance * part
        alive = {}
        for ones, chance in after.items():
            low, high = bets.bet_interval((count - ones, ones), 1, poles, level)
            if p > high if upper else p < low:
                lost += chance
            else:
                alive[ones] = chance
    return lost


@pytest.mark.parametrize("p", [0.03, 0.3])
@pytest.mark.parametrize("upper", [False, True])
def test_bets_hold_at_every_count_at_once(p, upper):
    """Law: the exact chance of excluding the mean at any of 120 counts is at most
    e^-l on each side, and not far below: half the level would not do.
    """
    level = 2.0
    missed = crossing(p, level, 120, upper)
    assert math.exp(-1.8 * level) < missed <= math.exp(-level)


def test_rounding_is_on_the_safe_side_of_many_samples():
    """Law: 10^12 equal samples still leave room for the mean itself."""
    weights = [0] * 257
    weights[100] = 10**12
    low, high = bets.bet_interval(
        tuple(weights), 1, bets.offsets(1.0, 256.0, 128.0**2), 5.0
    )
    assert low < 100.0 < high
    assert high - low < 1e-6


def test_checkpoints_begin_where_samples_that_do_not_vary_would_stop():
    """Law: geometric counts; at the first one equal samples close the radius, and none
    can where the plan is short.
    """
    looks = bets.choose_checkpoints(0.01, 1.0, 2, 20_000, 0.05)
    level = bets.bet_level(2, 0.05)
    weights = [0] * 257
    weights[128] = looks[0]
    low, high = bets.bet_interval(
        tuple(weights), 1, bets.offsets(2.56, 256.0, 64.0), level
    )
    assert (high - low) / 2.0 <= 2.56 * 1.001
    assert all(a < b for a, b in pairwise((*looks, 20_000)))
    assert bets.choose_checkpoints(0.5, 1.0, 2, 10, 0.05) == ()
    assert bets.choose_checkpoints(0.1, 1.0, 2, 20, 0.05) == ()
