"""Ranges of values before the first sample, where bounds start.

They also say how radii add up along the discounted steps.

legend   symbol      public name
  m, M               the ends of ``box`` for Q
  gamma              ``discount``
"""

from __future__ import annotations

import math

from smoothcruiser.problem.facts import Facts


def box(
    facts: Facts, player: int, left: int | None
) -> tuple[float, float, float, float]:
    """Return bounds on V, then on Q, for a ``player`` to move and ``left`` steps."""
    return (*facts.value_bounds(player, left), *facts.q_bounds(player, left))


def largest_value(facts: Facts) -> float:
    """Return S, the largest |value| that a sweep can meet."""
    ends = [
        abs(x) for player in _players(facts) for x in box(facts, player, facts.horizon)
    ]
    return max(ends) + facts.reward_bound + facts.regularizer_bound


def widest(facts: Facts, left: int | None) -> float:
    """Return the width M - m of the widest box with ``left`` steps to go."""
    boxes = [box(facts, player, left) for player in _players(facts)]
    return max(high - low for _, _, low, high in boxes)


def widths(facts: Facts) -> list[float]:
    """Return M - m with all steps to go, one step fewer, and so on.

    It is one number without a horizon.
    """
    left = (None,) if facts.horizon is None else range(facts.horizon, 0, -1)
    return [widest(facts, steps) for steps in left]


def discounted_width(facts: Facts) -> float:
    """Return the sum over t of gamma**t (M - m) after t steps.

    This is the half-width at the requested state per unit of radius, where a
    radius is a share of M - m.
    """
    found = widths(facts)
    if facts.horizon is None:
        return found[0] * facts.steps(None)
    return math.fsum(width * facts.discount**t for t, width in enumerate(found))


def _players(facts: Facts) -> tuple[int, ...]:
    return (1, 2) if facts.game else (1,)
