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
spread over both. The logarithm is concave, so what stands for log(nu - X) is below
it, and the bound only gets wider.

legend   symbol        name
  nu_j = M (1 + t_j)   t_j is ``offsets[j]``
  w_j                  ``SHARE``, the same for all poles
  log(1/alpha)         ``level``
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

# Poles other than the one at the end of the range. The best offset is
# sigma^2/(R tau) for a deviation sigma and the radius tau at which a run stops. The
# largest one is that of a third of the largest variance, and each of the others is a
# third of the one before: missing the best one by sqrt(3) costs 15% of the radius at
# most, and the last one serves a deviation of a tenth of the bound (measured: 3 to 6
# poles with ratios from 2 to 4 differ by less than 5% in the samples needed).
FAR_POLES, RATIO, LARGEST = 4, 3.0, 1.0 / 3.0
SHARE = 1.0 / (1 + FAR_POLES)
# More than what 257 logarithms, their products with weights and an exact sum lose.
_ROUNDING = 512.0 * 2.0**-53


def offsets(radius: float, spread: float, variance: float) -> tuple[float, ...]:
    """Return t_j of the poles for samples of this range and at most this variance.

    ``radius`` is the half-width at which a run would stop.
    """
    top = LARGEST * variance / (spread * max(radius, 1e-9 * spread))
    return (0.0, *(top / RATIO**j for j in range(FAR_POLES)))


@lru_cache(maxsize=256)
def bet_interval(
    weights: tuple[int, ...], whole: int, poles: tuple[float, ...], level: float
) -> tuple[float, float]:
    """Return (low, high) for the mean, in steps of the grid from its first point.

    ``weights`` are those of the grid points, where a sample weighs ``whole``. Each
    side fails with probability at most exp(-level).
    """
    last = len(weights) - 1
    shares = [(k, weight / whole) for k, weight in enumerate(weights) if weight]
    high = _upper(shares, last, poles, level)
    low = _upper([(last - k, weight) for k, weight in shares], last, poles, level)
    return last - low, high


def _upper(
    shares: Sequence[tuple[int, float]],
    last: int,
    poles: tuple[float, ...],
    level: float,
) -> float:
    """Return the upper bound on a mean of samples in [0, ``last``]."""
    number = math.fsum(weight for _, weight in shares)
    bets = []  # (pole, log of its share and of the product without its divisors)
    for offset in poles:
        pole = last * (1.0 + offset)
        logs = _logs(shares, pole)
        if logs > -math.inf:
            bets.append((pole, math.log(SHARE) + logs * (1.0 + _ROUNDING)))
    low, high = 0.0, float(last)
    while high - low > 1e-12 * last:
        middle = 0.5 * (low + high)
        if _log_wealth(bets, number, middle) >= level * (1.0 + 1e-12):
            high = middle
        else:
            low = middle
    return high


def _logs(shares: Sequence[tuple[int, float]], pole: float) -> float:
    """Return the sum of log(1 - x/pole): the logarithm of pole - x, up to a constant."""
    if any(x >= pole for x, _ in shares):
        return -math.inf
    return math.fsum(weight * math.log1p(-x / pole) for x, weight in shares)


def _log_wealth(bets: list[tuple[float, float]], number: float, q: float) -> float:
    """Return the log of W_n(q), rounded down."""
    terms = [
        logs - number * math.log1p(-q / pole) * (1.0 - _ROUNDING) for pole, logs in bets
    ]
    if not terms:
        return -math.inf
    top = max(terms)
    return top + math.log(math.fsum(math.exp(term - top) for term in terms))


# --- checkpoints --------------------------------------------------------------

# Of one checkpoint to the one before. Bets hold at every count, so more of them cost
# no share of delta, only a shard each: on the average 5% of the samples are too many.
CHECKPOINT_RATIO = 1.1


def bet_level(actions: int, adaptive_delta: float) -> float:
    """Return the level of one side of one of ``actions`` means."""
    return math.log(2.0 * actions / adaptive_delta)


def likely_samples(t: float, spread: float, variance: float, level: float) -> float:
    """Return about how many samples let bets close the radius t.

    ``variance`` is that of the samples. It is a forecast, on which no promise rests:
    Bernstein's count at a level that is raised by what several poles cost (within 15%
    of what was measured on laws with a deviation of 0 to a half of their bound).
    """
    return (level + 1.3) * (2.0 * variance / (t * t) + 2.0 * spread / (3.0 * t))


def choose_looks(
    t: float, spread: float, actions: int, samples: int, adaptive_delta: float
) -> tuple[int, ...]:
    """Return the checkpoints: increasing counts below ``samples``.

    They are geometric from the first count at which samples that do not vary close
    the radius t, and empty where none can. One that saves less than 5% is not worth
    a share of delta.
    """
    if not 2.0 * t < spread:
        return ()
    level = bet_level(actions, adaptive_delta) - math.log(SHARE)
    count = max(2, math.ceil(level / -math.log1p(-2.0 * t / spread)))
    looks: list[int] = []
    while count < samples / 1.05:
        looks.append(count)
        count = max(count + 1, math.ceil(count * CHECKPOINT_RATIO))
    return tuple(looks)
