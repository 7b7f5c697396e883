"""Bets on a mean: an interval that holds at every number of samples at once.

The problem: X_1, X_2, ... are independent samples in [0, M] with mean Q. For a
pole nu >= M, fixed before the first sample, (nu - X_i)/(nu - Q) is nonnegative with
mean 1, so for poles nu_j and shares w_j that add up to 1

    W_n(Q) = sum_j w_j prod_i (nu_j - X_i)/(nu_j - Q)

is a nonnegative martingale that starts at 1: with probability 1 - alpha no n has
W_n(Q) >= 1/alpha (Ville). W_n(q) grows with q, so the smallest q with W_n(q) >=
1/alpha is an upper bound on Q, for all n at once, whatever ends the sampling. The
lower bound is the same for M - X. Proofs, also of the grid: docs/theory.md, section 5.

Samples come as weights of grid points 0, 1, ..., M: a sample between two points is
spread over both. The logarithm is concave, so the stand-in for log(nu - X) is below
it, and the bound only gets wider.

legend   symbol        name
  nu_j = M (1 + t_j)   t_j is ``offsets[j]``
  w_j                  ``SHARES[j]``
  log(1/alpha)         ``level``
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

# A pole at the end of the range, for samples that hardly vary, and three beyond it. The
# best offset is sigma^2/(R tau) for a deviation sigma and the radius tau at which a run
# stops. The farthest pole is that of 0.3 of the largest variance, and each of the others
# has a quarter of the offset of the one before. A pole that misses the best one by a
# factor f costs a factor (f + 1/f)/2 in the radius. Noisy runs are the long ones, so
# the far poles have the larger shares. They were chosen among some 18 settings (3 to 9
# poles, ratios of 2 to 8, equal shares or not), by simulated stops on the laws of the
# six problems of docs/evidence/paid.md: that table is no test of the choice. Equal
# shares need 8% more samples on the noisiest of them and 10% fewer on the quietest.
FARTHEST, RATIO = 0.3, 4.0
SHARES = (0.1, 0.45, 0.3, 0.15)
# More than 257 logarithms, their products with weights and an exact sum lose.
_ROUNDING = 512.0 * 2.0**-53
_HALVINGS = 6  # before Newton's steps, of which four or five are enough then
_FINE = 1e-10  # of the range: where a bound is near enough to its best


def offsets(radius: float, spread: float, variance: float) -> tuple[float, ...]:
    """Return t_j of the poles for samples of this range and at most this variance.

    ``radius`` is the half-width at which a run would stop.
    """
    largest_offset = FARTHEST * variance / (spread * max(radius, 1e-9 * spread))
    return (0.0, *(largest_offset / RATIO**j for j in range(len(SHARES) - 1)))


@lru_cache(maxsize=256)
def bet_interval(
    weights: tuple[int, ...], whole: int, poles: tuple[float, ...], level: float
) -> tuple[float, float]:
    """Return (low, high) for the mean, in steps of the grid from its first point.

    ``weights`` are those of the grid points, where a sample weighs ``whole``. Each
    side fails with probability at most exp(-level).
    """
    last_point = len(weights) - 1
    point_weights = [
        (point, weight / whole) for point, weight in enumerate(weights) if weight
    ]
    upper_bound = _upper_bound(point_weights, last_point, poles, level)
    mirrored_bound = _upper_bound(
        [(last_point - point, weight) for point, weight in point_weights],
        last_point,
        poles,
        level,
    )
    return last_point - mirrored_bound, upper_bound


def _upper_bound(
    point_weights: Sequence[tuple[int, float]],
    last_point: int,
    poles: tuple[float, ...],
    level: float,
) -> float:
    """Return the upper bound on a mean of samples in [0, ``last``].

    The log of W_n is convex and increasing, and at most 0 at the mean: bisection
    between there and the end comes near. Newton's steps from above, which never pass
    the root, complete the search. Every bound on the way has W_n >= 1/alpha, or is the
    end.
    """
    num_samples = math.fsum(weight for _, weight in point_weights)
    bets = []  # (pole, log of its share and of the product without its divisors)
    for share, offset in zip(SHARES, poles, strict=True):
        pole_logs = _pole_logs(last_point, offset)
        if all(pole_logs[x] > -math.inf for x, _ in point_weights):
            log_product = math.fsum(
                weight * pole_logs[x] for x, weight in point_weights
            )
            log_start = math.log(share) + log_product * (1.0 + _ROUNDING)
            bets.append((last_point * (1.0 + offset), log_start))
    target_wealth = level * (1.0 + 1e-12)
    lower_end = min(
        math.fsum(x * weight for x, weight in point_weights) / num_samples,
        float(last_point),
    )
    upper_bound, num_halvings = float(last_point), 0
    while num_halvings < _HALVINGS or (
        upper_bound == last_point and last_point - lower_end > _FINE * last_point
    ):
        num_halvings += 1
        middle = 0.5 * (lower_end + upper_bound)
        if _log_wealth(bets, num_samples, middle)[0] >= target_wealth:
            upper_bound = middle
        else:
            lower_end = middle
    while upper_bound < last_point:
        wealth, slope = _log_wealth(bets, num_samples, upper_bound)
        next_bound = upper_bound - (wealth - target_wealth) / slope
        if (
            upper_bound - next_bound <= _FINE * last_point
            or _log_wealth(bets, num_samples, next_bound)[0] < target_wealth
        ):
            break
        upper_bound = next_bound
    return upper_bound


@lru_cache(maxsize=64)
def _pole_logs(last_point: int, offset: float) -> tuple[float, ...]:
    """Return log(1 - x/pole) at the grid points: log(pole - x), up to a constant."""
    pole = last_point * (1.0 + offset)
    return tuple(
        math.log1p(-x / pole) if x < pole else -math.inf for x in range(last_point + 1)
    )


def _log_wealth(
    bets: list[tuple[float, float]], num_samples: float, q: float
) -> tuple[float, float]:
    """Return the log of W_n(q), rounded down, and its derivative."""
    if not bets or any(q >= pole for pole, _ in bets):
        return (math.inf, math.inf) if bets else (-math.inf, 0.0)
    terms = [
        log_start - num_samples * math.log1p(-q / pole) * (1.0 - _ROUNDING)
        for pole, log_start in bets
    ]
    largest_term = max(terms)
    scaled_terms = [math.exp(term - largest_term) for term in terms]
    term_sum = math.fsum(scaled_terms)
    rates = (
        scaled_term / (pole - q)
        for scaled_term, (pole, _) in zip(scaled_terms, bets, strict=True)
    )
    return largest_term + math.log(term_sum), num_samples * math.fsum(rates) / term_sum


# --- checkpoints --------------------------------------------------------------

# Of one checkpoint to the one before. Bets hold at every count, so more of them cost
# no share of delta, only a shard each: on the average 2.5% of the samples are too many.
CHECKPOINT_RATIO = 1.05


# The deviation of a sample at the root that schedules are made for, as a share of its
# bound: a default, within the 0 to 0.61 that were measured (docs/evidence/paid.md).
DEVIATION = 1.0 / 3.0


def bet_level(actions: int, adaptive_delta: float) -> float:
    """Return the level of one side of one of ``actions`` means."""
    return math.log(2.0 * actions / adaptive_delta)


def likely_samples(t: Any, spread: Any, variance: Any, level: float) -> Any:
    """Return about how many samples let bets close the radius t.

    ``variance`` is that of the samples; numbers or arrays. It is a forecast, on which
    no promise rests. It joins the counts for a known variance and for samples that do
    not vary by two constants, fitted to a few simulated stops. The level is raised by
    the cost of several poles.
    """
    return (level + 1.0) * np.hypot(2.0 * variance / (t * t), 0.62 * spread / t)


def likely_calls(calls: int, samples: int, likely: float) -> int:
    """Return the calls of a run that likely ends after ``likely`` of its samples.

    Whole numbers, because prices are beyond 10^1000.
    """
    sample_share = min(1.0, likely / samples)
    return (
        calls
        if sample_share >= 1.0
        else max(1, calls * int(sample_share * 2**30) >> 30)
    )


def choose_checkpoints(
    t: float, spread: float, actions: int, samples: int, adaptive_delta: float
) -> tuple[int, ...]:
    """Return the checkpoints: increasing counts below ``samples``.

    They are geometric from the first count at which samples that do not vary close
    the radius t, and empty where none can. One that saves less than 5% is not worth
    its shards.
    """
    if not 2.0 * t < spread:
        return ()
    level = bet_level(actions, adaptive_delta) - math.log(SHARES[0])
    return checkpoints(
        max(2, math.ceil(level / -math.log1p(-2.0 * t / spread))), samples
    )


def checkpoints(count: int, samples: int) -> tuple[int, ...]:
    """Return geometric counts from ``count`` on, below ``samples``."""
    checkpoint_counts: list[int] = []
    while count < samples / 1.05:
        checkpoint_counts.append(count)
        count = max(count + 1, math.ceil(count * CHECKPOINT_RATIO))
    return tuple(checkpoint_counts)
