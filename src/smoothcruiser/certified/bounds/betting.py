"""Betting: the bound of certified search.

It is a product of bets against a mean that is too far away.

The problem: X_1, X_2, ... are samples of r + gamma V(z) at one pair (s, a), all
in [m, M], with mean Q. V is fixed but unknown; upper bounds U >= V are known,
so Y_i = r_i + gamma U(z_i) >= X_i can be computed. For a pole nu >= M, fixed
before the first sample,

    W_n = product of (nu - X_i) / (nu - Q)

is a nonnegative martingale that starts at 1, so with probability 1 - alpha no n
has W_n >= 1/alpha (Ville). Solved for Q, and X <= Y put in, for all n:

    Q <= nu - exp(mean of log(nu - Y_i) - log(1/alpha)/n)               (upper)
    Q >= nu + exp(mean of log(Y_i - nu) - log(1/alpha)/n)               (lower)

the second one for a pole nu <= m and Y from L <= V.

A geometric mean takes the place of Hoeffding's or Bernstein's sum. So no
variance has to be estimated, the bound is monotone in U (so that sweeps are
monotone), it never leaves [m, M], and nothing is paid for holding at all n. A
pole near M gives (M - mean) log(1/alpha)/n, a pole far out gives mean + sigma
sqrt(2 log(1/alpha)/n): a few poles in geometric order, each with its share of
alpha, serve both.

legend   symbol      public name
  nu_j = M + t_j (M - m)   ``pole``; t_j is ``POLE_OFFSETS[j]``
  w_j                the share of pole j; ``POLE_COSTS[j]`` = log(1/w_j)
  p_k                the share of the k-th pair that was ever sampled;
                     ``pair_cost`` = log(2 / (delta p_k)), the 2 for the two sides

This file decides the poles, their shares, and the bound on the price before a
run. The proofs are in docs/certified.md: sections 2, 4 and 7.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smoothcruiser.certified.bounds.base import (
    KEEP,
    SCAN,
    UNIT,
    WALK,
    Bound,
    BoundRules,
    Outcomes,
    least_samples,
    pair_cost,
    sample_mean,
    value_rounding,
)
from smoothcruiser.certified.sweeps.ranges import (
    discounted_width,
    largest_value,
    widest,
    widths,
)
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.model.tabular import Floats

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
# Half of the longest |log| under the geometric mean: its terms err by half of UNIT. The
# smallest argument is 4 * 2**-52 * scale, the largest 5.3e4 * scale: 128 covers the scales
# that ``ranges.checked_scale`` lets pass.
LONGEST_LOG = 64.0
# The slope, n**2 times the derivative of the radius, is radius * n/2 where the
# radius decreases like 1/sqrt(n), and twice that where it decreases like 1/n. Where
# the best pole gives far less than either (a sample at the edge of the range, too few
# samples for any pole), more samples still lead to one of the two.
SLOWEST = 1.0 / 64.0
# The price allows for the rounding of a sum of this many distinct outcomes of a pair.
MANY = 10_000


# --- compiled -----------------------------------------------------------------


def pole_guard(pole: float, scale: float) -> float:
    """Return a bound on the rounding error of pole - Y when |Y| <= ``scale``."""
    return 4.0 * UNIT * (abs(pole) + scale)


def bound_at(
    g: Outcomes, pair: int, upper: bool, pole_index: int, rules: BoundRules
) -> float:
    """The upper (or lower) bound on Q at one pole.

    Rounding is on the safe side: ``guard`` is above the error of pole - Y, so the
    argument of the logarithm is too small, the geometric mean is shortened by more than
    its sum, logarithm and exponential can err, and ``guard`` covers the last sum too.
    """
    nodes, pairs, discount = g.nodes, g.pairs, rules.discount
    reward, weight, target = g.entries
    node = pairs["node"][pair]
    low, high = nodes["q_low"][node], nodes["q_high"][node]
    offset = POLE_OFFSETS[pole_index] * (high - low)
    pole = high + offset if upper else low - offset
    guard = pole_guard(pole, rules.scale)
    cost = pairs["cost"][pair] + POLE_COSTS[pole_index]
    start, length = pairs["start"][pair], pairs["length"][pair]
    uppers, lowers = nodes["upper"], nodes["lower"]
    total_log = 0.0
    for e in range(start, start + length):
        # a known total holds X in [m, M] where Y, with bounds for V, may lie outside
        if upper:
            value = reward[e] + discount * uppers[target[e]]
            gap = pole - (value if value < high else high) - guard
        else:
            value = reward[e] + discount * lowers[target[e]]
            gap = (value if value > low else low) - pole - guard
        if gap <= guard:  # rounding hides the rest; also keeps |log| below LONGEST_LOG
            return float(pole)
        total_log += weight[e] * math.log(gap)
    mean = math.exp((total_log - cost) / pairs["total"][pair]) * (
        1.0 - (length + 8) * LONGEST_LOG * UNIT
    )
    return float(pole - mean + guard if upper else pole + mean - guard)


def far_pole(
    g: Outcomes, pair: int, upper: bool, tune: int, rules: BoundRules
) -> tuple[int, float]:
    """The pole beyond the end of the range that bounds best, and its bound.

    WALK goes downhill from the last pole: the bound is convex in the pole but
    for the prices, which differ little. SCAN tries them all.
    """
    first_index = (
        1
        if tune == SCAN
        else max(1, g.pairs["pole_up"][pair] if upper else g.pairs["pole_down"][pair])
    )
    best_index, bound = first_index, bound_at(g, pair, upper, first_index, rules)
    for step in (1, -1):
        pole_index = first_index + step
        while 1 <= pole_index < NUM_POLES:
            other_bound = bound_at(g, pair, upper, pole_index, rules)
            if other_bound < bound if upper else other_bound > bound:
                best_index, bound = pole_index, other_bound
            elif tune == WALK:
                break
            pole_index += step
        if best_index != first_index:
            break
    return best_index, bound


def side(g: Outcomes, pair: int, upper: bool, tune: int, rules: BoundRules) -> float:
    """Return the bound of one side, and write its slope.

    WALK and SCAN search for the pole that bounds best. Pole 0, at the end of
    the range, is tried apart: a sample at that end makes its bound the end
    itself. The bounds of the next poles are worse than that while samples are
    few, so a walk would never leave pole 0.

    Slope: at a fixed pole the bound is pole -+ exp(. - cost/n). Its derivative by n is
    -+ cost/n**2 times |pole - bound|. It is 0 at a pole that a sample hit, so it is not
    taken to be less than ``SLOWEST`` allows.
    """
    if tune == KEEP:
        last_index = g.pairs["pole_up"][pair] if upper else g.pairs["pole_down"][pair]
        return bound_at(g, pair, upper, last_index, rules)
    pole_index, bound = far_pole(g, pair, upper, tune, rules)
    nearest_bound = bound_at(g, pair, upper, 0, rules)
    if nearest_bound <= bound if upper else nearest_bound >= bound:
        pole_index, bound = 0, nearest_bound
    pairs, node = g.pairs, g.pairs["node"][pair]
    low, high = g.nodes["q_low"][node], g.nodes["q_high"][node]
    pole_reach = POLE_OFFSETS[pole_index] * (high - low) + (
        high - bound if upper else bound - low
    )
    mean = sample_mean(g, pair, upper, rules)
    # without the allowance for rounding
    radius = abs(bound - mean) - 4.0 * (pairs["length"][pair] + 8) * UNIT * rules.scale
    slope = max(
        (pairs["cost"][pair] + POLE_COSTS[pole_index]) * pole_reach,
        SLOWEST * pairs["total"][pair] * max(0.0, radius),
    )
    if upper:
        pairs["pole_up"][pair], pairs["slope_up"][pair] = pole_index, slope
    else:
        pairs["pole_down"][pair], pairs["slope_down"][pair] = pole_index, slope
    return bound


# --- before a run -------------------------------------------------------------


def pole_radii(samples: float, cost: float) -> Floats:
    """Return the largest bound - mean after ``samples`` samples on [0, 1], per pole.

    The first pole is left out. At a fixed pole 1 + t and mean x the law on {0,
    1} is the worst (the logarithm is concave), with radius 1 + t - x - A exp(-b
    x), A = (1 + t) exp(-cost/n), b = log((1 + t)/t). It is concave in x,
    largest at log(A b)/b or at an end. It decreases with n and increases with
    the cost.
    """
    t = POLE_OFFSETS[1:]
    log_scale = np.log1p(t) - (cost + POLE_COSTS[1:]) / samples
    log_rate = np.log((1.0 + t) / t)
    x = np.clip((log_scale + np.log(log_rate)) / log_rate, 0.0, 1.0)
    radii: Floats = 1.0 + t - x - np.exp(log_scale - log_rate * x)
    return radii


def worst_radius(samples: float, cost: float) -> float:
    """Return the largest bound - mean after ``samples`` samples on [0, 1].

    It is that of the best pole for the worst law.
    """
    return min(1.0, float(pole_radii(samples, cost).min()))


def price(facts: Facts, epsilon: float, delta: float, num_pairs: int) -> int:
    """Return n(N), the samples of each of N = ``num_pairs`` pairs that suffice.

    It is the least number that is certainly enough. With n samples or more at
    each pair every radius is at most (M - m) rho(n) at the pole that serves the
    worst law best. The half-width of the answer is at most the sum of radii and
    rounding along the discounted steps (docs/certified.md, section 7).
    """
    cost = float(pair_cost(num_pairs, delta))
    width_per_radius, rounding = discounted_width(facts), price_rounding(facts)
    return least_samples(
        lambda n: float((width_per_radius * pole_radii(n, cost) + rounding).min()),
        epsilon,
    )


def price_rounding(facts: Facts) -> Floats:
    """Return the half-width that rounding adds, per pole without the first."""
    scale, t, widest_span = largest_value(facts), POLE_OFFSETS[1:], max(widths(facts))
    pole_rounding = pole_guard(scale, scale) + 4.0 * UNIT * t * widest_span
    pair_rounding = (
        pole_rounding * (2.5 + 1.25 / t)
        + (MANY + 8) * LONGEST_LOG * UNIT * (1.0 + t) * widest_span
    )
    backup_rounding = value_rounding(facts.num_actions, scale, facts.operator.strength)
    half_widths: Floats = facts.steps(facts.horizon) * (
        pair_rounding + backup_rounding
    )
    return half_widths


def rounding_floor(facts: Facts) -> float:
    """Return a half-width that the search can reach in spite of rounding.

    It cannot reach much less.
    """
    scale = largest_value(facts)
    pair_rounding = 24.0 * pole_guard(
        scale, scale
    ) + 80.0 * LONGEST_LOG * UNIT * widest(facts, facts.horizon)
    backup_rounding = value_rounding(facts.num_actions, scale, facts.operator.strength)
    return facts.steps(facts.horizon) * (backup_rounding + pair_rounding)


def readable(pairs: Any) -> bool:
    """Return whether every pair remembers a pole that there is."""
    pole_fields = (pairs["pole_up"], pairs["pole_down"])
    return all(
        bool(np.all((pole_indices >= 0) & (pole_indices < NUM_POLES)))
        for pole_indices in pole_fields
    )


BETTING = Bound(
    word="betting",
    fields=(("pole_up", "i1"), ("pole_down", "i1")),
    side=side,
    cost=pair_cost,
    price=price,
    floor=rounding_floor,
    readable=readable,
)


def best_bound(
    samples: Any, low: float, high: float, cost: float, *, side: float = 1.0
) -> float:
    """Return the bound on the mean of ``samples`` in [low, high], best of all poles.

    Sweeps converge to it; it serves tests and reports.
    """
    x = np.asarray(samples, dtype=np.float64)
    range_end = high if side > 0.0 else low
    pole_bounds = [range_end]
    for offset, pole_cost in zip(POLE_OFFSETS, POLE_COSTS, strict=True):
        pole = range_end + side * float(offset) * (high - low)
        pole_gaps = side * (pole - x)
        if np.all(pole_gaps > 0.0):
            pole_bounds.append(
                pole
                - side
                * math.exp(
                    float(np.mean(np.log(pole_gaps)))
                    - (cost + float(pole_cost)) / len(x)
                )
            )
    return min(pole_bounds) if side > 0.0 else max(pole_bounds)
