"""Lower bounds on the price of every schedule, from the facts and the promise alone.

A schedule keeps its promise on *every* problem with its facts. So worlds that few calls
cannot tell apart bound its price from below, before any table is built and whatever
its kinds are (docs/theory.md, section 15):

  the line      two worlds are alike up to depth d, and pay nothing or all they may
                beyond: a planner that stops before is off by more than epsilon
  the coin      the first step leads to one or the other, with chances that differ by
                a little: a root needs that many samples of each action
  the path      one of K^d sequences of actions leads to a payment: a planner that
                tried few of them cannot know which

legend   symbol    name
  g(d)             ``_Worlds.gap``: how far apart the values of the two ends can be
                   with d steps taken
  c                ``_Worlds.lost``: the most that F loses of a single larger Q

All prices are logarithms, because they pass 10^(10^9). The bounds take microseconds;
the price itself comes from the compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from smoothcruiser.problem.facts import Facts, discounted_steps

FARTHEST = 2**50  # steps: no deeper tree is considered
# relative: the two ends are taken closer by this, for the rounding of all that is here
ROUNDING = 1e-9


@dataclass(frozen=True)
class LeastPrice:
    """Lower bounds on a table and on its price."""

    depth: int  # rows, and calls of one sample
    log_calls: float  # natural logarithm of the price; 0 where nothing is known


@lru_cache(maxsize=256)
def least_price(
    facts: Facts, epsilon: float, delta: float, target: str = "q_values"
) -> LeastPrice:
    """Lower bounds on every schedule that keeps (epsilon, delta) on ``facts``.

    Args:
        facts: of the problem; with ``episodes_end`` nothing is known here.
        epsilon: the promised half-width.
        delta: the allowed probability of failure.
        target: "q_values" or "value".
    """
    worlds = _Worlds.of(facts)
    if worlds is None or not epsilon > 0.0:
        return LeastPrice(0, 0.0)
    depth = worlds.deepest(epsilon, 0.0)
    num_tests = worlds.root_samples(epsilon, delta)
    if target == "q_values":
        log_line = (
            math.log(facts.num_actions) + math.log(num_tests) + math.log1p(depth)
        )
    else:
        log_line = math.log(max(num_tests, 1 + depth))
    return LeastPrice(depth, max(log_line, worlds.log_paths(epsilon, delta)))


@dataclass(frozen=True)
class _Worlds:
    """The two ends of the worlds that have these facts."""

    facts: Facts
    spread: float  # of the payments of one step, from the world without a payment
    cap: float  # on the difference of two values, by declared bounds

    @classmethod
    def of(cls, facts: Facts) -> _Worlds | None:
        """The worlds; None where the declarations exclude all that are known here."""
        if facts.minimize:
            return cls.of(facts.mirror_image)
        is_endless = facts.horizon is None and facts.discount >= 1.0
        if facts.episodes_end is not None or is_endless:
            return None
        if not facts.operator.shift_invariant:
            return None
        declared_limits = (facts.given_bounds, facts.total_range, facts.given_gap)
        if all(limit is None for limit in declared_limits):
            return cls(facts, facts.reward_span, math.inf)
        return cls._from_declared(facts)

    @classmethod
    def _from_declared(cls, facts: Facts) -> _Worlds | None:
        """The worlds with rewards 0, and the largest payment in a single place."""
        reward_min, reward_max = facts.reward_range
        if not reward_min <= 0.0 <= reward_max or facts.game:
            return None
        value_cap = math.inf if facts.given_gap is None else facts.given_gap
        if facts.total_range is not None:
            if not facts.total_range[0] <= 0.0 <= facts.total_range[1]:
                return None
            value_cap = min(value_cap, facts.total_range[1])
        if facts.given_bounds is not None:
            num_steps = facts.steps(facts.horizon)
            # values without rewards: sums of F(0), from one step to all of them
            offset = facts.operator.offset(facts.num_actions)
            offset_sums = offset, offset * num_steps
            if not facts.given_bounds[0] <= min(offset_sums):
                return None
            value_cap = min(value_cap, facts.given_bounds[1] - max(offset_sums))
        return cls(facts, reward_max, value_cap) if value_cap > 0.0 else None

    def gap(self, depth: int) -> float:
        """The difference of the two ends after ``depth`` steps, 0 at the horizon."""
        horizon = self.facts.horizon
        steps_left = None if horizon is None else horizon - depth
        if steps_left is not None and steps_left <= 0:
            return 0.0
        return min(self.spread * self.facts.steps(steps_left), self.cap) * (
            1.0 - ROUNDING
        )

    @property
    def lost(self) -> float:
        """F(x, 0, …, 0) - F(0) >= x - lost for every x >= 0."""
        omega_min, omega_max = self.facts.operator.omega_range(self.facts.num_actions)
        return omega_max - omega_min

    def deepest(self, epsilon: float, lost: float) -> int:
        """The largest depth at which the ends still move the root by over 2 epsilon.

        ``lost`` is the loss of every step between.
        """
        discount = self.facts.discount

        def moves(depth: int) -> bool:
            discounted_depth = discounted_steps(discount, depth)
            end_gap = discount**depth * self.gap(depth)
            return end_gap - lost * discounted_depth * (1.0 + ROUNDING) > 2.0 * epsilon

        return _largest_holding(moves)

    def root_samples(self, epsilon: float, delta: float) -> int:
        """Samples of a root action that tell two chances of a good step apart.

        With chances (1 ± x)/2 the action's values differ by gamma g(1) x.
        """
        end_gap = self.facts.discount * self.gap(1)
        if delta >= 0.25 or not end_gap > 2.0 * epsilon:
            return 1
        x = 2.0 * epsilon / end_gap * (1.0 + ROUNDING)
        if x >= 1.0:
            return 1
        divergence = x * (math.log1p(x) - math.log1p(-x))
        num_tests = math.log(1.0 / (4.0 * delta)) / divergence * (1.0 - ROUNDING)
        return max(1, math.ceil(min(num_tests, 1e300)))

    def log_paths(self, epsilon: float, delta: float) -> float:
        """log((1 - 2 delta) K^d), d the deepest path that still moves the root."""
        num_actions = self.facts.num_actions
        if delta >= 0.5 or num_actions < 2 or not math.isfinite(self.lost):
            return 0.0
        depth = self.deepest(epsilon, self.lost)
        if self.facts.alternating:  # at the other's states all actions are alike
            depth //= 2
        return max(0.0, depth * math.log(num_actions) + math.log1p(-2.0 * delta))


def _largest_holding(holds: Callable[[int], bool]) -> int:
    """The largest whole number at which ``holds`` is true; 0 if there is none.

    It is true for all smaller ones.
    """
    high = 1
    while high < FARTHEST and holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
