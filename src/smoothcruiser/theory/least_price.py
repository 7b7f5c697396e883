"""What every schedule costs at the least, from the facts and the promise alone.

A schedule keeps its promise on *every* problem with its facts. So worlds that few calls
cannot tell apart bound its price from below, before any table is built and whatever
its kinds are (docs/theory.md, section 15):

  the line      all is alike up to depth d, and what follows pays nothing or all that
                it may: who does not look so deep is off by more than epsilon
  the coin      the first step leads to one or the other, with chances that differ by
                a little: a root needs that many samples of each action
  the path      one of K^d sequences of actions leads to what pays: who has not tried
                most of them cannot know

legend   symbol    name
  g(d)             ``_Worlds.gap``: how far apart the values of the two ends can be
                   with d steps taken
  c                ``_Worlds.lost``: what F loses of a single larger Q, at the most

Logarithms throughout: prices pass 10^(10^9). All of it takes microseconds; what it leaves
out is the price itself, which is the compiler's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from smoothcruiser.problem.facts import Facts, discounted_steps

FARTHEST = 2**50  # steps: no deeper tree is looked for
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
    tests = worlds.root_samples(epsilon, delta)
    if target == "q_values":
        line = math.log(facts.num_actions) + math.log(tests) + math.log1p(depth)
    else:
        line = math.log(max(tests, 1 + depth))
    return LeastPrice(depth, max(line, worlds.log_paths(epsilon, delta)))


@dataclass(frozen=True)
class _Worlds:
    """The two ends of the worlds that have these facts."""

    facts: Facts
    spread: float  # of what one step pays, from the world where nothing is special
    cap: float  # on the difference of two values, by declared bounds

    @classmethod
    def of(cls, facts: Facts) -> _Worlds | None:
        """The worlds; None where what is declared leaves none that is known here."""
        endless = facts.horizon is None and facts.discount >= 1.0
        if facts.episodes_end is not None or endless:
            return None
        if not facts.operator.shift_invariant:
            return None
        declared = (facts.given_bounds, facts.total_range, facts.given_gap)
        if all(each is None for each in declared):
            return cls(facts, facts.reward_span, math.inf)
        return cls._declared(facts)

    @classmethod
    def _declared(cls, facts: Facts) -> _Worlds | None:
        """Rewards 0 everywhere, but where all that may be is paid: more, never less."""
        low, high = facts.reward_range
        if not low <= 0.0 <= high or facts.game:
            return None
        cap = math.inf if facts.given_gap is None else facts.given_gap
        if facts.total_range is not None:
            if not facts.total_range[0] <= 0.0 <= facts.total_range[1]:
                return None
            cap = min(cap, facts.total_range[1])
        if facts.given_bounds is not None:
            most = facts.steps(facts.horizon)
            # values without rewards: sums of F(0), from one step to all of them
            offset = facts.operator.offset(facts.num_actions)
            ends = offset, offset * most
            if not facts.given_bounds[0] <= min(ends):
                return None
            cap = min(cap, facts.given_bounds[1] - max(ends))
        return cls(facts, high, cap) if cap > 0.0 else None

    def gap(self, depth: int) -> float:
        """The difference of the two ends after ``depth`` steps, 0 at the horizon."""
        horizon = self.facts.horizon
        left = None if horizon is None else horizon - depth
        if left is not None and left <= 0:
            return 0.0
        return min(self.spread * self.facts.steps(left), self.cap) * (1.0 - ROUNDING)

    @property
    def lost(self) -> float:
        """F(x, 0, …, 0) - F(0) >= x - lost for every x >= 0."""
        low, high = self.facts.operator.omega_range(self.facts.num_actions)
        return high - low

    def deepest(self, epsilon: float, lost: float) -> int:
        """The largest depth at which the ends still move the root by over 2 epsilon.

        ``lost`` is what every step between loses.
        """
        discount = self.facts.discount

        def moves(depth: int) -> bool:
            between = discounted_steps(discount, depth)
            apart = discount**depth * self.gap(depth)
            return apart - lost * between * (1.0 + ROUNDING) > 2.0 * epsilon

        return _last(moves)

    def root_samples(self, epsilon: float, delta: float) -> int:
        """Samples of a root action that tell two chances of a good step apart.

        With chances (1 ± x)/2 the action's values differ by gamma g(1) x.
        """
        apart = self.facts.discount * self.gap(1)
        if delta >= 0.25 or not apart > 2.0 * epsilon:
            return 1
        x = 2.0 * epsilon / apart * (1.0 + ROUNDING)
        if x >= 1.0:
            return 1
        divergence = x * (math.log1p(x) - math.log1p(-x))
        tests = math.log(1.0 / (4.0 * delta)) / divergence * (1.0 - ROUNDING)
        return max(1, math.ceil(min(tests, 1e300)))

    def log_paths(self, epsilon: float, delta: float) -> float:
        """log((1 - 2 delta) K^d), d the deepest path that still moves the root."""
        actions = self.facts.num_actions
        if delta >= 0.5 or actions < 2 or not math.isfinite(self.lost):
            return 0.0
        depth = self.deepest(epsilon, self.lost)
        if self.facts.alternating:  # at the other's states all actions are alike
            depth //= 2
        return max(0.0, depth * math.log(actions) + math.log1p(-2.0 * delta))


def _last(holds: Callable[[int], bool]) -> int:
    """The largest whole number at which ``holds``, true up to there; 0 if there is none."""
    high = 1
    while high < FARTHEST and holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
