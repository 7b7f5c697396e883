"""All statements of an answer of ``gap`` together, over 2,000 runs with a refit.

Every run has its columns in one ``MixtureBounds``: U, L, U - L and the far end of the
policy's value, each with its share of delta. Their laws are two-point laws at the edges
of their ranges, the hardest there are, with other ranges after the refit; limits are
computed at every look and intersected. False alarms of a comparison: one in a million.
Whole runs over problems are in ``benchmarks/gap/gap_coverage.py``.
"""

import math

import numpy as np
from scipy import stats

from smoothcruiser.duality.runs.mixture_bounds import (
    MixtureBounds,
    pole_weights,
    share_delta,
)

DELTA, RUNS, PATHS = 0.1, 2000, 240
ALARM = 1e-6
MOST_FAILURES = int(stats.binom.isf(ALARM, RUNS, DELTA))
# (chance, size) of a jackpot of U and of one of U - L, before and after the refit
ERAS = (((0.02, 40.0), (0.02, 20.0)), ((0.08, 10.0), (0.04, 10.0)))
VALUE = 0.8  # both eras have this mean of U, and .4 of U - L
GAP = 0.4
SHARES = share_delta(DELTA, has_policy=True, num_actions=0)
NAMES = ("upper", "lower", "gap", "policy")


def sample_eras(seed=1):
    """(U, U - L) of all runs by era, each (paths, runs)."""
    rng = np.random.default_rng(seed)
    eras = []
    for (chance, size), (gap_chance, gap_size) in ERAS:
        shape = (PATHS // 2, RUNS)
        upper = np.where(rng.random(shape) < chance, size, 0.0)
        gap = np.where(rng.random(shape) < gap_chance, gap_size, 0.0)
        eras.append((upper, gap))
    return eras


def columns_of(upper, gap):
    """The columns of the statements: U, -L, U - L, L."""
    return np.concatenate([upper, gap - upper, gap, upper - gap], axis=1)


def is_false(highs):
    """Whether any of the statements of a run is false."""
    upper, minus_low, gap, policy = highs.reshape(4, RUNS)
    is_wrong = (upper < VALUE) | (-minus_low > VALUE - GAP)
    return is_wrong | (gap < GAP) | (policy < VALUE - GAP)


def run_bounds(eras, *, is_clipped=False):
    """The limits at the end, with a look every twelve paths."""
    alphas = np.repeat([SHARES[name] for name in NAMES], RUNS)
    bounds = MixtureBounds(alphas, np.full(4 * RUNS, np.inf), pole_weights())
    for (upper, gap), (jackpot, gap_jackpot) in zip(eras, ERAS, strict=True):
        edges = [jackpot[1], gap_jackpot[1], gap_jackpot[1], jackpot[1]]
        bounds.begin_era(np.repeat(edges, RUNS), np.zeros(4 * RUNS))
        for begin in range(0, len(upper), 12):
            rows = slice(begin, begin + 12)
            columns = columns_of(upper[rows], gap[rows])
            if is_clipped:
                columns = np.minimum(columns, 4.0)
            bounds.take_samples(columns)
            bounds.lower_highs()
    return bounds.highs


def test_all_statements_hold_together_at_every_look():
    failures = int(is_false(run_bounds(sample_eras())).sum())
    # tight laws: a tenth of what is allowed would be a limit too loose to notice
    assert 0.1 * DELTA * RUNS <= failures <= MOST_FAILURES


def test_samples_clipped_from_above_and_normal_quantiles_fail():
    eras = sample_eras()
    clipped = int(is_false(run_bounds(eras, is_clipped=True)).sum())
    assert clipped > MOST_FAILURES
    columns = columns_of(*(np.concatenate(parts) for parts in zip(*eras, strict=True)))
    quantiles = np.repeat([stats.norm.isf(SHARES[name]) for name in NAMES], RUNS)
    limits = columns.mean(axis=0) + quantiles * columns.std(axis=0) / math.sqrt(PATHS)
    assert int(is_false(limits).sum()) > MOST_FAILURES
