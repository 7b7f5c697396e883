"""Bounds on V and on the span of Q that hold before any level is built.

They are kept per player and per number of steps left (docs/theory.md, section
2; S6 in section 4).

legend   symbol    name
  P                number of players; every bound has shape (P, 1), player first
  V_lo, V_hi       ``Ground.values``
  B_Q              ``Ground.q_box``: the span that the true Q can have in one state
  sup D(Q, 0)      ``Ground.blind``: the largest loss of acting by grad F(0)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators.outward import add_intervals, scale_interval
from smoothcruiser.problem.facts import Facts
from smoothcruiser.theory.noise import OperatorRule, blind_loss, policy_ceiling

Array = Any  # float64 array

GIVEN_ROUNDING = 1e-9  # relative: how far a user's bounds may contradict a backup
# The bounds only tighten, so they are valid after any number of steps; 64 reach the
# fixed point in practice.
_BELLMAN_STEPS = 64
# key of ``Ground.cache``: the steps left from which on the bounds stay as they are
SETTLED = "settled", None


@dataclass(frozen=True)
class Ground:
    """The facts in the form that the algebra uses, as ``ground(facts)`` caches it."""

    facts: Facts
    rule: OperatorRule
    sign: Array  # (P, 1): +1 for the max player, -1 for the min player
    offset_low: (
        Array  # (P, 1): signed F(0), smallest over the numbers of legal actions
    )
    offset_high: Array  # (P, 1): the largest
    # Cached bounds, by name and number of steps left: thousands of levels need the
    # same few.
    cache: dict[tuple[str, int | None], Any] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def alone(self) -> bool:
        """Whether there is one player, so that nothing is compared over players."""
        return len(self.sign) == 1

    def after(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return the hull of bounds over the possible next states, per player to move.

        It depends on the players that can move next, and it includes 0 where states
        can be terminal.
        """
        if self.sign.shape[0] == 2:
            if self.facts.alternating:
                low, high = low[::-1], high[::-1]
            else:
                low = np.broadcast_to(np.min(low, axis=0, keepdims=True), low.shape)
                high = np.broadcast_to(np.max(high, axis=0, keepdims=True), high.shape)
        if self.facts.terminals:
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        return low, high

    def largest_after(self, bound: Array) -> Array:
        """Return the largest of ``bound``, at least 0, over the possible next states."""
        return bound if self.alone else self.after(bound, bound)[1]

    def values(self, remaining: int | None) -> tuple[Array, Array]:
        """Return V_lo and V_hi of a non-terminal state, per player: shape (P, 1).

        ``remaining`` is the number of steps left; None means that there is no
        horizon.
        """
        if remaining is not None:  # the same from there on, to the last bit
            remaining = min(remaining, self.cache.get(SETTLED, remaining))
        cache_key = "values", remaining
        if cache_key not in self.cache:
            if remaining is None:
                self.cache[cache_key] = _stationary_values(self)
            else:
                _add_stage_values(self, remaining)
        value_bounds: tuple[Array, Array] = (
            self.cache.get(cache_key) or self.cache["values", self.cache[SETTLED]]
        )
        return value_bounds

    def bellman(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return bounds on V one step earlier than ``low`` and ``high`` (Lemma B).

        They hold because F is monotone and F(Q + c) = F(Q) + c. They are rounded
        outwards, because errors would add up over a thousand stages or near discount 1.
        """
        facts = self.facts
        low, high = self.after(low, high)
        offset_min, offset_max = facts.offset_bounds
        discount_factor, player_ends = (facts.discount, facts.discount), []
        for player, *pair in zip(facts.players, low[:, 0], high[:, 0], strict=True):
            offset = (
                (offset_min, offset_max) if player == 1 else (-offset_max, -offset_min)
            )
            later_values = scale_interval(
                (float(pair[0]), float(pair[1])), discount_factor
            )
            player_ends.append(
                add_intervals(add_intervals(facts.reward_range, later_values), offset)
            )
        low, high = np.array(player_ends)[:, :1], np.array(player_ends)[:, 1:]
        if facts.given_bounds is not None:
            low, high = (
                np.maximum(low, facts.given_bounds[0]),
                np.minimum(high, facts.given_bounds[1]),
            )
            value_scale = max(
                abs(x) for x in (*facts.given_bounds, *facts.reward_range)
            )
            if np.any(low - high > GIVEN_ROUNDING * value_scale):
                raise InvalidInput(
                    f"value_bounds {facts.given_bounds!r} contradict the rewards: one "
                    "backup of values inside them leads "
                    f"to [{float(np.max(low)):g}, {float(np.min(high)):g}]; widen them."
                )
        return low, np.maximum(low, high)

    def add_known_total(
        self, low: Array, high: Array, remaining: int | None
    ) -> tuple[Array, Array]:
        """Return the bounds, tightened by a known total of rewards (Lemma T)."""
        known_total = self.facts.known_total
        if known_total is None or remaining == 0:
            return low, high
        unpaid_values = zip(*ground(self.facts.unpaid).values(remaining), strict=True)
        total_ends = np.array(
            [
                add_intervals(known_total, (float(x[0]), float(y[0])))
                for x, y in unpaid_values
            ]
        )
        low = np.maximum(low, total_ends[:, :1])
        return low, np.maximum(low, np.minimum(high, total_ends[:, 1:]))

    def next_span(self, remaining: int | None) -> Array:
        """Return the span of r + gamma V(z) in one state by its total, shape (P, 1).

        ``remaining`` is the number of steps left in z. It is infinite where no total
        is known.
        """
        known_total = self.facts.known_total
        if known_total is None:
            return np.full_like(self.sign, np.inf)
        unpaid_ground = ground(self.facts.unpaid)
        value_low, value_high = unpaid_ground.after(*unpaid_ground.values(remaining))
        return (
            known_total[1]
            - known_total[0]
            + self.facts.discount * (value_high - value_low)
        )

    def q_box(self, remaining: int | None) -> Array:
        """Return B_Q of each player, shape (P, 1).

        It is rho + gamma times the span of V over the next states, or less by a
        known total.
        """
        cache_key = "q_box", remaining
        if cache_key not in self.cache:
            steps_after = None if remaining is None else remaining - 1
            value_low, value_high = self.after(*self.values(steps_after))
            q_span = self.facts.reward_span + self.facts.discount * (
                value_high - value_low
            )
            self.cache[cache_key] = np.minimum(q_span, self.next_span(steps_after))
        return self.cache[cache_key]

    def policy_ceiling(self, remaining: int | None) -> Array:
        """Return ``noise.policy_ceiling`` of each player's B_Q, shape (P, 1)."""
        cache_key = "policy_ceiling", remaining
        if cache_key not in self.cache:
            self.cache[cache_key] = policy_ceiling(self.rule, self.q_box(remaining))
        return self.cache[cache_key]

    def blind(self, remaining: int | None) -> Array:
        """Return sup D(Q, 0) of each player, shape (P, 1)."""
        cache_key = "blind", remaining
        if cache_key not in self.cache:
            facts = self.facts
            losses = [
                blind_loss(
                    facts.operator, facts.min_actions, facts.num_actions, float(q_span)
                )
                for q_span in self.q_box(remaining)[:, 0]
            ]
            self.cache[cache_key] = np.array(losses)[:, None]
        return self.cache[cache_key]


@lru_cache(maxsize=64)
def ground(facts: Facts) -> Ground:
    """Return the analysis of ``facts``; the operator must have F(Q + c) = F(Q) + c."""
    if not facts.operator.shift_invariant:
        raise InvalidInput(
            "The sharp analysis needs an operator with F(Q + c) = F(Q) + c, which "
            f"{facts.operator.name} does not promise; use 'paper'."
        )
    if facts.horizon is None and not facts.discount < 1.0:
        raise InvalidInput(
            "Without a horizon the discount must be below 1, got "
            f"{facts.discount}; give horizon= or a smaller discount."
        )
    offset_min, offset_max = facts.offsets
    rows = [player - 1 for player in facts.players]
    return Ground(
        facts=facts,
        rule=OperatorRule.of(facts.operator, facts.num_actions),
        sign=np.array([[1.0], [-1.0]])[rows],
        offset_low=np.array([[offset_min], [-offset_max]])[rows],
        offset_high=np.array([[offset_max], [-offset_min]])[rows],
    )


def _stationary_values(base: Ground) -> tuple[Array, Array]:
    player_bounds = [base.facts.value_bounds(player) for player in base.facts.players]
    low, high = (
        np.array([[b[0]] for b in player_bounds]),
        np.array([[b[1]] for b in player_bounds]),
    )
    for _ in range(_BELLMAN_STEPS):
        new_low, new_high = base.add_known_total(*base.bellman(low, high), None)
        low, high = np.maximum(low, new_low), np.minimum(high, new_high)
    return low, np.maximum(low, high)


def _add_stage_values(base: Ground, remaining: int) -> None:
    """Add the bounds of all stages up to ``remaining`` to the cache."""
    low = high = np.zeros_like(base.sign)
    base.cache.setdefault(("values", 0), (low, high))
    start_stage = remaining
    while ("values", start_stage) not in base.cache:
        start_stage -= 1
    low, high = base.cache["values", start_stage]
    for stage in range(start_stage + 1, remaining + 1):
        previous_bounds = low, high
        low, high = base.add_known_total(*base.bellman(low, high), stage)
        base.cache["values", stage] = (low, high)
        if _is_same(previous_bounds, (low, high)) and _is_still(base, stage):
            base.cache[SETTLED] = stage
            return


def _is_same(bounds: tuple[Array, Array], other_bounds: tuple[Array, Array]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(bounds, other_bounds, strict=True))


def _is_still(base: Ground, stage: int) -> bool:
    """Whether the contribution of a known total no longer changes by stage."""
    if base.facts.known_total is None:
        return True
    unpaid_ground = ground(base.facts.unpaid)
    return stage > 1 and _is_same(
        unpaid_ground.values(stage - 1), unpaid_ground.values(stage)
    )
