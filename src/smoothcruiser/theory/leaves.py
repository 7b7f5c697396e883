"""Moments of the levels without children, in which every table ends.

CONSTANT   c - V                       in [c - V_hi, c - V_lo]
MIDDLE     (lower + upper)/2 - V       in [-gap/2, gap/2]
"""

from __future__ import annotations

import math

import numpy as np

from smoothcruiser.problem.bounds import bounds_slack
from smoothcruiser.theory.ground import Ground
from smoothcruiser.theory.moments import Moments


def constant(
    base: Ground,
    remaining: int | None,
    value: float | None = None,
    shift: float | None = None,
) -> Moments:
    """Return the moments of the constant ``value`` + sign * ``shift``; it is free.

    The default is the middle of each player's bounds. With no steps left it is
    exact.
    """
    value_low, value_high = base.values(remaining)
    middle_values = 0.5 * (value_low + value_high)
    if value is None:
        value = float(np.mean(middle_values))
    if shift is None:
        shift = (
            float(middle_values[0, 0] - middle_values[1, 0]) / 2.0
            if base.sign.shape[0] == 2
            else 0.0
        )
    guess = value + base.sign * shift
    return Moments(
        guess - value_high,
        guess - value_low,
        guess,
        guess,
        np.zeros_like(guess),
        np.array([-math.inf]),
        np.array([shift]),
    )


def middle(base: Ground, remaining: int | None) -> Moments:
    """Return the moments of the middle of bounds that depend on the state; it is free.

    With V and the middle m both between lower(s) and upper(s), |m - V| <= gap/2. So
    m lies within gap/2 of the bounds on V, and between the bounds that its own are
    clipped to. It is no random number: in one state its variance is 0.
    """
    facts = base.facts
    assert facts.given_gap is not None
    rounding_slack = bounds_slack(facts)
    half_gap = 0.5 * facts.given_gap + rounding_slack
    value_low, value_high = base.values(remaining)
    hull_low, hull_high = facts.value_hull()
    zero = np.zeros_like(value_low)
    return Moments(
        zero - half_gap,
        zero + half_gap,
        np.maximum(value_low - half_gap, hull_low - rounding_slack),
        np.minimum(value_high + half_gap, hull_high + rounding_slack),
        zero,
        np.array([-math.inf]),
        np.array([0.0]),
    )
