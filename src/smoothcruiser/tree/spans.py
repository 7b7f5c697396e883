"""The range of values that the rewards allow for an untried action, and its rounding.

Trees that solve begin with these boxes. This file loads no Numba: ``explain`` and
``--help`` ask whether a search can solve.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.problem.facts import Facts, largest
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from smoothcruiser.tree.kernel import Setting

ROOM = 4.0 * 2.0**-53  # of a step, for numbers of size 1
UNTRIED = 5  # steps: their room pays for the rounding of an untried action's range
LEAST = 5e-324  # the smallest number above 0


def spans_of(problem: Problem, setting: Setting) -> NDArray[np.float64]:
    """The ranges that the rewards allow for an untried action, after 0, 1, ... moves.

    One row serves all where there is no horizon, or nothing is to be proven.
    """
    return _spans(problem.facts).copy() if setting.solves else np.zeros((1, 2))


@lru_cache(maxsize=16)  # a long horizon takes seconds
def _spans(facts: Facts) -> NDArray[np.float64]:
    steps_left: list[int | None] = [None]
    if facts.horizon is not None:
        steps_left = [facts.horizon - t for t in range(facts.horizon)]
    players = (1, 2) if facts.game else (1,)
    player_bounds = [
        [facts.q_bounds(player, steps) for player in players] for steps in steps_left
    ]
    return np.array(
        [
            [
                min(bounds[0] for bounds in bounds_row),
                max(bounds[1] for bounds in bounds_row),
            ]
            for bounds_row in player_bounds
        ],
        dtype=float,
    )


def rounding(problem: Problem, steps: int) -> float:
    """The largest rounding error of a box in a tree of ``steps`` steps.

    An end of a box is a sum r_0 + gamma (r_1 + gamma (...)) from its last term on, and
    each step errs by at most two roundings of numbers that are at most M in size, the
    largest that the declared rewards allow anywhere: 2 steps M 2**-53, plus products
    of roundings. The last term may be an end of the range of an untried action, which
    ``Facts`` computes within ten roundings. ``ROOM`` pays for all of these twice over,
    and ``LEAST`` for products below the normal numbers, which err by up to half of it.
    """
    facts = problem.facts
    largest_value = facts.reward_bound + largest(facts.value_hull())
    return (steps + 1 + UNTRIED) * (ROOM * largest_value + LEAST)


@lru_cache(maxsize=16)
def spans_are_exact(facts: Facts) -> bool:
    """Whether nothing was rounded in the ranges of untried actions.

    Sums of short numbers are exact; a range of the total is as it was declared.
    """
    spans, total_range, declared_bounds = (
        _spans(facts),
        facts.total_range,
        facts.given_bounds,
    )
    if total_range is not None and bool((spans == np.array(total_range)).all()):
        return True
    all_numbers = (
        *facts.reward_range,
        *(total_range or ()),
        *(declared_bounds or ()),
        *spans.flat,
    )
    return facts.discount == 1.0 and all(map(_is_short, all_numbers))


def _is_short(number: float) -> bool:
    """Whether a number is a multiple of 2**-20 below 2**32, which takes 52 bits."""
    return abs(number) < 2.0**32 and (number * 2.0**20).is_integer()
