"""Limits on means by mixtures over poles: their failures, and those of wrong ones.

Each column of one ``MixtureBounds`` is a run of its own here: 4,000 runs at once. A
count of failures is compared with alpha by an exact binomial tail of one in a million.
The module is imported itself, because its limits have no other front door.
"""

import math

import numpy as np
import pytest
from scipy import stats

from smoothcruiser.duality.runs.mixture_bounds import (
    MixtureBounds,
    pole_reaches,
    pole_weights,
    share_delta,
)

ALPHA, RUNS = 0.05, 4000
ALARM = 1e-6  # of a false alarm of one comparison
TOP, JUMP, PATHS = 40.0, 0.0156, 200  # the two-point law: TOP with probability JUMP
# the smallest alpha failures that still speak against a limit
MOST_FAILURES = int(stats.binom.isf(ALARM, RUNS, ALPHA))


def two_points(num_paths=PATHS, seed=1):
    """Samples (paths, runs) of the law that a limit finds hardest."""
    jumps = np.random.default_rng(seed).random((num_paths, RUNS)) < JUMP
    return np.where(jumps, TOP, 0.0), TOP * JUMP


def fresh_bounds(num_columns=RUNS, weights=None, alpha=ALPHA):
    """Limits without samples."""
    columns = np.ones(num_columns)
    weights = pole_weights() if weights is None else weights
    return MixtureBounds(alpha * columns, np.inf * columns, weights)


def count_failures(samples, truth, edges, step=PATHS):
    """The runs whose limit lies below the truth at some look, every ``step`` paths."""
    bounds = fresh_bounds()
    bounds.begin_era(edges * np.ones(RUNS), np.zeros(RUNS))
    for begin in range(0, len(samples), step):
        bounds.take_samples(samples[begin : begin + step])
        bounds.lower_highs()
    return int(np.sum(bounds.highs < truth))


def test_two_points_at_the_edge_fail_as_often_as_promised_at_every_look():
    samples, truth = two_points()
    at_the_end = count_failures(samples, truth, TOP)
    anytime = count_failures(samples, truth, TOP, step=10)
    assert ALPHA / 2 * RUNS <= at_the_end <= anytime <= MOST_FAILURES


def test_edges_that_change_between_eras_keep_the_promise():
    jumps = np.random.default_rng(2).random((400, RUNS))
    bounds = fresh_bounds()
    for era, (edge, jump) in enumerate(((40.0, 0.0175), (10.0, 0.07))):
        bounds.begin_era(edge * np.ones(RUNS), np.zeros(RUNS))
        bounds.take_samples(
            np.where(jumps[200 * era : 200 * (era + 1)] < jump, edge, 0.0)
        )
        bounds.lower_highs()
    failures = int(np.sum(bounds.highs < 0.7))
    assert failures <= MOST_FAILURES
    assert bounds.highs.max() <= 10.0  # no mean is above any edge


@pytest.mark.parametrize("mutation", ["clipped above", "finished paths", "normal"])
def test_wrong_limits_fail_too_often(mutation):
    samples, truth = two_points()
    if mutation == "clipped above":
        failures = count_failures(np.minimum(samples, 5.0), truth, 5.0)
    elif mutation == "finished paths":
        # the first jackpot is slow, not finished when time is up, and left out
        is_first = (np.cumsum(samples > 0, axis=0) == 1) & (samples > 0)
        kept = np.where(is_first, 0.0, samples)[: PATHS - 1]
        failures = count_failures(kept, truth, TOP, step=PATHS)
    else:
        limits = samples.mean(axis=0) + stats.norm.isf(ALPHA) * samples.std(
            axis=0
        ) / math.sqrt(PATHS)
        failures = int(np.sum(limits < truth))
    assert failures > MOST_FAILURES


def test_limit_is_the_root_of_the_mixture():
    rng = np.random.default_rng(3)
    samples, edge, alpha = rng.normal(0.0, 1.0, (50, 1)), 8.0, 0.02
    bounds = fresh_bounds(1, alpha=alpha)
    bounds.begin_era([edge], [0.0])
    bounds.take_samples(samples)
    limit = float(bounds.lower_highs()[0])
    poles = edge + edge * pole_reaches()
    products = [np.prod((nu - samples) / (nu - limit)) for nu in poles]
    assert np.dot(pole_weights(), products) == pytest.approx(1.0 / alpha, rel=1e-6)
    # it is never worse than the best pole with its share of alpha
    best = min(
        nu - math.exp(np.mean(np.log(nu - samples)) + math.log(w * alpha) / 50)
        for nu, w in zip(poles, pole_weights(), strict=True)
    )
    assert samples.mean() < limit <= best + 1e-9


def test_small_noise_brings_limits_near_the_mean_and_large_counts_nearer():
    samples = 1.0 + 1e-3 * np.random.default_rng(4).standard_normal((3000, 1))
    limits = []
    for is_noisy in (False, True):
        bounds = fresh_bounds(1, pole_weights(is_noisy=is_noisy))
        bounds.begin_era([2.0], [1.0])
        for begin in (0, 300):
            bounds.take_samples(samples[begin : 300 if begin == 0 else None])
            limits.append(float(bounds.lower_highs()[0]))
    assert limits[1] < limits[0]
    assert limits[3] < limits[2]
    # log(1/alpha)/n of the range at the edge, and log(1/.9) for the weight
    assert limits[1] - 1.0 < 1.1 * (math.log(1 / ALPHA) + 0.11) / 3000


def test_samples_at_the_edge_prove_nothing_and_break_nothing():
    bounds = fresh_bounds(2)
    bounds.begin_era([1.0, 0.0], [0.0, 0.0])
    bounds.take_samples(np.tile([1.0, 0.0], (20, 1)))
    assert bounds.lower_highs().tolist() == [1.0, 0.0]


def test_lower_limits_are_upper_limits_of_the_mirror_image():
    samples = np.random.default_rng(5).random((400, 1))
    bounds = fresh_bounds(2)
    bounds.begin_era([1.5, 0.5], [0.5, -0.5])
    bounds.take_samples(np.hstack([samples, -samples]))
    high, minus_low = bounds.lower_highs()
    assert -minus_low < samples.mean() < high


def test_shares_of_delta_sum_to_delta():
    for has_policy in (False, True):
        for is_game in (False, True):
            for num_actions in (0, 7):
                shares = share_delta(
                    0.05,
                    has_policy=has_policy,
                    num_actions=num_actions,
                    is_game=is_game,
                )
                actions = shares.pop("upper_action", 0.0)
                actions += shares.pop("lower_action", 0.0)
                total = actions * num_actions + sum(shares.values())
                assert total == pytest.approx(0.05)
