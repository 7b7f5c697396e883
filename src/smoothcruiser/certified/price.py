"""What equal draws certainly reach: the price of certified search as a function
of the number of pairs it meets.

With n draws or more at each of N pairs every radius is at most (M - m) rho(n)
at the pole that serves the worst law best, and the half-width of the answer is
at most the sum of radii and rounding along the discounted steps
(docs/certified.md, section 7). So n(N) is the least n with

    reach * rho(n) + steps * rounding <= (1 - SWEPT) epsilon,
    reach = sum over t of gamma**t (M - m) with t steps gone.

The search steers its draws for the first N n(N) calls of a query; pairs that
these left short of n(N) are then brought there. So 2 N n(N) calls suffice,
whatever the steering did.

legend   symbol      public name
  N                  ``num_pairs``: pairs of state and action in the memory when the search ends
  n(N)               ``draws``
  gamma, M - m       ``discount``, the width of ``box``

This file decides when draws become equal and what ``explain`` promises. No
bound depends on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from smoothcruiser.certified.bounds.betting import (
    LONGEST_LOG,
    POLE_COSTS,
    POLE_OFFSETS,
    UNIT,
    pair_cost,
    pole_guard,
    value_rounding,
)
from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.tabular import Floats

# N n(N) calls that are steered, and as many that make up for what these missed
STEERED_AND_EQUAL = 2
SWEPT = 0.005  # of epsilon: what the last sweeps may leave
# distinct outcomes of a pair up to which the price allows for the rounding of their
# sum
MANY = 10_000


def box(
    facts: Facts, player: int, left: int | None
) -> tuple[float, float, float, float]:
    """Bounds on V, then on Q, where ``player`` moves with ``left`` steps to go."""
    return (*facts.value_bounds(player, left), *facts.q_bounds(player, left))


def largest_value(facts: Facts) -> float:
    """S: no |value| that a sweep meets is above."""
    ends = [
        abs(x) for player in _players(facts) for x in box(facts, player, facts.horizon)
    ]
    return max(ends) + facts.reward_bound + facts.regularizer_bound


def rounding_floor(facts: Facts) -> float:
    """A half-width that rounding cannot keep the search from reaching; not much
    less can be reached.
    """
    scale = largest_value(facts)
    pair = 24.0 * pole_guard(scale, scale) + 80.0 * LONGEST_LOG * UNIT * _widest(
        facts, facts.horizon
    )
    backup = value_rounding(facts.num_actions, scale, facts.operator.strength)
    return facts.steps(facts.horizon) * (backup + pair)


def pole_radii(draws: float, cost: float) -> Floats:
    """The largest that bound - mean can be after ``draws`` draws on [0, 1], at
    each pole but the first.

    At a fixed pole 1 + t and mean x the law on {0, 1} is the worst (the
    logarithm is concave), with radius 1 + t - x - A exp(-b x), A = (1 + t)
    exp(-cost/n), b = log((1 + t)/t): concave in x, largest at log(A b)/b or at
    an end. It falls with n and rises with the cost.
    """
    t = POLE_OFFSETS[1:]
    top, rate = np.log1p(t) - (cost + POLE_COSTS[1:]) / draws, np.log((1.0 + t) / t)
    x = np.clip((top + np.log(rate)) / rate, 0.0, 1.0)
    radii: Floats = 1.0 + t - x - np.exp(top - rate * x)
    return radii


def worst_radius(draws: float, cost: float) -> float:
    """The largest that bound - mean can be after ``draws`` draws on [0, 1], at
    the best pole for the worst law.
    """
    return min(1.0, float(pole_radii(draws, cost).min()))


@dataclass(frozen=True)
class EqualDraws:
    """A promise, and the draws of each pair that keep it for certain."""

    facts: Facts
    epsilon: float
    delta: float

    def half_width(self, draws: float, num_pairs: int) -> float:
        """No answer of ``num_pairs`` pairs with ``draws`` draws or more each is
        wider, once it is swept.
        """
        radii = pole_radii(draws, float(pair_cost(num_pairs, self.delta)))
        found = self._reach * radii + self._rounding
        return float(found.min())

    def enough(self, draws: float, num_pairs: int) -> bool:
        """Whether ``draws`` draws of each of ``num_pairs`` pairs keep the
        promise for certain.
        """
        return self.half_width(draws, num_pairs) <= (1.0 - SWEPT) * self.epsilon

    def draws(self, num_pairs: int) -> int:
        """The least number of draws of each pair that is enough."""
        low, high = 0, 1
        while not self.enough(high, num_pairs):
            low, high = high, 2 * high
            if high > 2**62:  # the poles end, or rounding is all that is left
                raise InvalidInput(
                    f"epsilon={self.epsilon:g} is below what any number of draws "
                    "that can be counted reaches for certain; ask for more."
                )
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if self.enough(middle, num_pairs) else (middle, high)
            )
        return high

    @cached_property
    def _widths(self) -> list[float]:
        """M - m with all steps to go, one step fewer, and so on; one number
        without a horizon.
        """
        left = (
            (None,) if self.facts.horizon is None else range(self.facts.horizon, 0, -1)
        )
        return [_widest(self.facts, steps) for steps in left]

    @cached_property
    def _reach(self) -> float:
        if self.facts.horizon is None:
            return self._widths[0] * self.facts.steps(None)
        return math.fsum(
            width * self.facts.discount**t for t, width in enumerate(self._widths)
        )

    @cached_property
    def _rounding(self) -> Any:
        """What rounding adds to the half-width, by pole."""
        facts, scale = self.facts, largest_value(self.facts)
        t, span = POLE_OFFSETS[1:], max(self._widths)
        inside = pole_guard(scale, scale) + 4.0 * UNIT * t * span
        pairs = (
            inside * (2.5 + 1.25 / t)
            + (MANY + 8) * LONGEST_LOG * UNIT * (1.0 + t) * span
        )
        backup = value_rounding(facts.num_actions, scale, facts.operator.strength)
        return facts.steps(facts.horizon) * (pairs + backup)


def price_bound(facts: Facts, *, epsilon: float, delta: float, num_pairs: int) -> int:
    """Calls that certainly suffice for half-width ``epsilon`` where a new
    memory ends with ``num_pairs`` pairs.

    Steered draws and the variance at hand usually need far less; the number of
    pairs is not known before, so this is a function of it.
    """
    if num_pairs < 1 or not epsilon > 0.0 or not 0.0 < delta < 1.0:
        raise InvalidInput(
            "A price needs num_pairs >= 1, epsilon > 0 and 0 < delta < 1, got "
            f"{num_pairs!r}, {epsilon!r}, {delta!r}."
        )
    backup = value_rounding(
        facts.num_actions, largest_value(facts), facts.operator.strength
    )
    # what is known before the first call
    if _widest(facts, facts.horizon) + 2.0 * backup <= 2.0 * epsilon:
        return 0
    return (
        STEERED_AND_EQUAL
        * num_pairs
        * EqualDraws(facts, epsilon, delta).draws(num_pairs)
    )


def _players(facts: Facts) -> tuple[int, ...]:
    return (1, 2) if facts.game else (1,)


def _widest(facts: Facts, left: int | None) -> float:
    """The width M - m of the widest box with ``left`` steps to go."""
    boxes = [box(facts, player, left) for player in _players(facts)]
    return max(high - low for _, _, low, high in boxes)
