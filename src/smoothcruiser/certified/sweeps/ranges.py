"""Ranges of values before the first sample, where bounds start.

They also say how radii add up along the discounted steps.

legend   symbol      public name
  m, M               the ends of ``box`` for Q
  gamma              ``discount``
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from smoothcruiser.certified.sweeps.memory_kernel import GRID_CELLS
from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators.outward import widen_interval
from smoothcruiser.problem.facts import BOUNDS_ROUNDING, Facts

# S for which rounding is proved (docs/certified.md, section 4). Below, logarithms are
# longer than allowed for, and in the end numbers have fewer bits than 53.
SMALLEST_SCALE, LARGEST_SCALE = 1e-40, 1e50
MANY_STEPS = 2000  # of a horizon: beyond it the sum of radii is bounded, not added up


@lru_cache(maxsize=4096)  # of a horizon every number of steps left has its own
def box(
    facts: Facts, player: int, steps_left: int | None
) -> tuple[float, float, float, float]:
    """Return bounds on V, then on Q, for a ``player`` to move with ``steps_left``.

    The second also hold r' + gamma V(z) for a reward r' that was rounded to the grid
    of ``memory_kernel``. Bounds by the range of one reward do so by themselves;
    those by a known total need room for a cell.
    """
    value_bounds = facts.value_bounds(player, steps_left)
    (low, high) = facts.q_bounds(player, steps_left)
    if facts.known_total is not None:
        widest_bounds = replace(facts, total_range=None).q_bounds(player, steps_left)
        cell_width = facts.reward_span / GRID_CELLS * (1.0 + BOUNDS_ROUNDING)
        low, high = widen_interval((low, high), cell_width)
        low, high = max(widest_bounds[0], low), min(widest_bounds[1], high)
    return (*value_bounds, low, high)


@lru_cache(maxsize=64)
def largest_value(facts: Facts) -> float:
    """Return S, the largest |value| that a sweep can meet."""
    box_ends = [
        abs(box_end)
        for player in facts.players
        for box_end in box(facts, player, facts.horizon)
    ]
    return max(box_ends) + facts.reward_bound + facts.regularizer_bound


def checked_scale(facts: Facts) -> float:
    """Return S, where the allowances for rounding hold; it is refused elsewhere."""
    scale = largest_value(facts)
    if scale == 0.0 or SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        return scale
    unit_word = "smaller" if scale < SMALLEST_SCALE else "larger"
    raise InvalidInput(
        f"Certified search takes values from {SMALLEST_SCALE:g} to {LARGEST_SCALE:g}, "
        f"but |V| is at most {scale:g} here; measure rewards in a {unit_word} unit."
    )


@lru_cache(maxsize=64)
def widest(facts: Facts, steps_left: int | None) -> float:
    """Return the width M - m of the widest box with ``steps_left``."""
    boxes = [box(facts, player, steps_left) for player in facts.players]
    return max(high - low for _, _, low, high in boxes)


@lru_cache(maxsize=64)  # a long horizon has many, and they are asked for every round
def widths(facts: Facts) -> tuple[float, ...]:
    """Return M - m with all steps to go, one step fewer, and so on.

    It is one number without a horizon; and one that none exceeds where there are many,
    with room for a reward that was rounded to the grid.
    """
    if facts.horizon is not None and facts.horizon > MANY_STEPS:
        low, high = facts.value_hull()
        value_span = max(high, 0.0) - min(low, 0.0)
        return (2.0 * facts.reward_span + facts.discount * value_span,)
    steps_left = (None,) if facts.horizon is None else range(facts.horizon, 0, -1)
    return tuple(widest(facts, steps) for steps in steps_left)


def discounted_width(facts: Facts) -> float:
    """Return the sum over t of gamma**t (M - m) after t steps.

    This is the half-width at the requested state per unit of radius, where a
    radius is a share of M - m.
    """
    layer_widths = widths(facts)
    if len(layer_widths) == 1:
        return layer_widths[0] * facts.steps(facts.horizon)
    return math.fsum(width * facts.discount**t for t, width in enumerate(layer_widths))
