"""Radii of certified search: how far the mean of draws can be from Q(s, a), for
all pairs and all numbers of draws at once.

The problem: X_1, X_2, ... are draws of r + gamma V(z) at one pair (s, a), all
in [m, M], with mean Q. V is fixed but unknown; upper bounds U >= V are known,
so Y_i = r_i + gamma U(z_i) >= X_i is what can be computed. For a pole nu >= M,
fixed before the first draw,

    W_n = product of (nu - X_i) / (nu - Q)  is a nonnegative martingale that starts at 1,

so with probability 1 - alpha no n has W_n >= 1/alpha (Ville). Solved for Q, and
X <= Y put in:

    Q  <=  nu - exp( mean of log(nu - Y_i) - log(1/alpha)/n )     for all n.                                    (upper)
    Q  >=  nu + exp( mean of log(Y_i - nu) - log(1/alpha)/n )     for a pole nu <= m and Y from L <= V.         (lower)

A geometric mean in the place of Hoeffding's or Bernstein's sum: no variance has
to be estimated, the bound is monotone in U (so that sweeps are monotone), it
never leaves [m, M], and nothing is paid for holding at all n. A pole near M
gives (M - mean) log(1/alpha)/n, a pole far out gives mean + sigma sqrt(2
log(1/alpha)/n): a few poles in geometric order, each with its share of alpha,
serve both.

legend   symbol      public name
  nu_j = M + t_j (M - m)   ``pole``; t_j is ``POLE_OFFSETS[j]``
  w_j                the share of pole j; ``POLE_COSTS[j]`` = log(1/w_j)
  p_k                the share of the k-th pair that was ever drawn; ``pair_cost`` = log(2 / (delta p_k)), the 2 for the two sides

This file decides the shares and the poles. It leaves out where to draw and how
bounds travel (``certified_sweeps``), and what can be said of the price
beforehand (``certified_price``). The proof is in docs/certified.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smoothcruiser.problem.tabular import Floats

# t_0 = 0 (rates of 1/n), then t_j = 0.05 * 1.6**(j-1) up to 2.6e4. A pole that
# misses the best one by a factor f costs a factor (f + 1/f)/2 in the radius; f <=
# sqrt(1.6) is 2.8% at the worst. The best pole is sigma sqrt(n / (2 log 1/alpha))
# away from the mean: with sigma <= (M - m)/2 the last one serves up to n of about
# 8e10.
FIRST_OFFSET, OFFSET_RATIO, NUM_POLES = 0.05, 1.6, 30
# w_0 = 1/4 and w_j = (3/4)(1 - q) q**(j-1): sums to 1. q = 0.85 keeps every pole in
# common use (j < 15) below log(1/w_j) = 4.5.
SHARE_AT_RANGE, SHARE_DECAY = 0.25, 0.85

POLE_OFFSETS: Floats = np.array(
    [0.0] + [FIRST_OFFSET * OFFSET_RATIO**j for j in range(NUM_POLES - 1)]
)
POLE_COSTS: Floats = np.array(
    [-math.log(SHARE_AT_RANGE)]
    + [
        -math.log((1.0 - SHARE_AT_RANGE) * (1.0 - SHARE_DECAY))
        - j * math.log(SHARE_DECAY)
        for j in range(NUM_POLES - 1)
    ]
)
UNIT = 2.0**-52  # twice the unit roundoff of float64
# |log| under the geometric mean: at least log(4 * 2**-52 * scale), 64 covers scales
# from 1e-12 to 1e12
LONGEST_LOG = 64.0


def pair_cost(k: Any, delta: float) -> Any:
    """log(2 / (delta p_k)) for the k-th pair, k = 1, 2, ... (a number or an
    array), p_k = 1 / ((k+e) log(k+e)**2).

    The shares sum to at most 1: each is below the integral of 1/(x log(x)**2)
    from k-1+e to k+e, and from e to infinity that is 1. Against 6/(pi**2 k**2)
    the price of the thousandth pair falls from log 1.6e6 to log 4.8e4.
    """
    shifted = np.asarray(k, dtype=np.float64) + math.e
    return math.log(2.0 / delta) + np.log(shifted) + 2.0 * np.log(np.log(shifted))


def tilted_bound(
    entries: Any,
    nodes: Any,
    start: int,
    stop: int,
    total: float,
    upper: bool,
    discount: float,
    pole: float,
    cost: float,
    guard: float,
) -> float:
    """The upper (or lower) bound on Q at one pole from entries start..stop-1 of
    the pool; ``cost`` is log(1/alpha).

    Rounding is on the safe side: ``guard`` is above the error of pole - Y, so
    what stands under the logarithm is too small, the geometric mean is
    shortened by more than its sum, logarithm and exponential can err, and
    ``guard`` covers the last sum too.
    """
    total_log = 0.0
    for e in range(start, stop):
        entry = entries[e]
        if upper:
            gap = (
                pole
                - (entry["reward"] + discount * nodes[entry["target"]]["upper"])
                - guard
            )
        else:
            gap = (
                (entry["reward"] + discount * nodes[entry["target"]]["lower"])
                - pole
                - guard
            )
        if gap <= guard:  # nothing sure is left; also keeps |log| below LONGEST_LOG
            return pole
        total_log += entry["weight"] * math.log(gap)
    mean = math.exp((total_log - cost) / total) * (
        1.0 - (stop - start + 8) * LONGEST_LOG * UNIT
    )
    return pole - mean + guard if upper else pole + mean - guard


def plain_mean(
    entries: Any,
    nodes: Any,
    start: int,
    stop: int,
    total: float,
    upper: bool,
    discount: float,
) -> float:
    """The mean of r + gamma U(z), or of r + gamma L(z), over entries
    start..stop-1 of the pool.
    """
    total_value = 0.0
    for e in range(start, stop):
        after = nodes[entries[e]["target"]]
        total_value += entries[e]["weight"] * (
            entries[e]["reward"]
            + discount * (after["upper"] if upper else after["lower"])
        )
    return total_value / total


def best_bound(
    draws: Any, low: float, high: float, cost: float, *, side: float = 1.0
) -> float:
    """The bound on the mean of given draws in [low, high], best of all poles:
    what the sweeps converge to, for tests and reports.
    """
    x = np.asarray(draws, dtype=np.float64)
    end = high if side > 0.0 else low
    found = [end]
    for offset, price in zip(POLE_OFFSETS, POLE_COSTS, strict=True):
        pole = end + side * float(offset) * (high - low)
        gaps = side * (pole - x)
        if np.all(gaps > 0.0):
            found.append(
                pole
                - side
                * math.exp(
                    float(np.mean(np.log(gaps))) - (cost + float(price)) / len(x)
                )
            )
    return min(found) if side > 0.0 else max(found)


def value_rounding(size: int, scale: float, temperature: float) -> float:
    """What a backup adds to each side of V for the rounding of F over ``size``
    actions, |Q| <= ``scale``.
    """
    return UNIT * (16.0 * (size + 2) * scale + (2.0 * size * size + 16.0) * temperature)


def pole_guard(pole: float, scale: float) -> float:
    """An absolute error that pole - Y stays below when |Y| <= ``scale``."""
    return 4.0 * UNIT * (abs(pole) + scale)
