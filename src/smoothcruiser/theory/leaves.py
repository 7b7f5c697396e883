"""Moments of the levels without children, in which every table ends.

CONSTANT   c - V                       in [c - V_hi, c - V_lo]
MIDDLE     (lower + upper)/2 - V       in [-gap/2, gap/2]
"""

from __future__ import annotations

import math

import numpy as np

from smoothcruiser.problem.bounds import slack
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
    low, high = base.values(remaining)
    middle = 0.5 * (low + high)
    if value is None:
        value = float(np.mean(middle))
    if shift is None:
        shift = (
            float(middle[0, 0] - middle[1, 0]) / 2.0 if base.sign.shape[0] == 2 else 0.0
        )
    guess = value + base.sign * shift
    return Moments(
        guess - high,
        guess - low,
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
    room = slack(facts)
    half = 0.5 * facts.given_gap + room
    low, high = base.values(remaining)
    bottom, top = facts.value_hull()
    zero = np.zeros_like(low)
    return Moments(
        zero - half,
        zero + half,
        np.maximum(low - half, bottom - room),
        np.minimum(high + half, top + room),
        zero,
        np.array([-math.inf]),
        np.array([0.0]),
    )
