"""What the rewards allow of an action that was not tried, and how far it is rounded.

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
UNTRIED = 5  # steps whose room pays for the rounding of what the rewards allow
LEAST = 5e-324  # the smallest number above 0


def spans_of(problem: Problem, setting: Setting) -> NDArray[np.float64]:
    """What the rewards allow of an untried action, after 0, 1, ... moves.

    One row serves all where there is no horizon, or nothing is to be proven.
    """
    return _spans(problem.facts).copy() if setting.solves else np.zeros((1, 2))


@lru_cache(maxsize=16)  # a long horizon takes seconds
def _spans(facts: Facts) -> NDArray[np.float64]:
    left: list[int | None] = [None]
    if facts.horizon is not None:
        left = [facts.horizon - t for t in range(facts.horizon)]
    players = (1, 2) if facts.game else (1,)
    rows = [[facts.q_bounds(player, steps) for player in players] for steps in left]
    return np.array(
        [[min(b[0] for b in row), max(b[1] for b in row)] for row in rows], dtype=float
    )


def rounding(problem: Problem, steps: int) -> float:
    """How far a box of a tree of ``steps`` steps may be off by rounding.

    An end of a box is a sum r_0 + gamma (r_1 + gamma (...)) from its last term on, and
    each step errs by at most two roundings of numbers that are at most M in size, the
    largest that the declared rewards allow anywhere: 2 steps M 2**-53, and what
    products of roundings add. The last term may be what the rewards allow of an
    untried action, which ``Facts`` computes within ten roundings. ``ROOM`` pays for all
    of these twice over, and ``LEAST`` for products below the normal numbers, which err
    by up to half of it.
    """
    facts = problem.facts
    size = facts.reward_bound + largest(facts.value_hull())
    return (steps + 1 + UNTRIED) * (ROOM * size + LEAST)


@lru_cache(maxsize=16)
def spans_are_exact(facts: Facts) -> bool:
    """Whether nothing was rounded in what the rewards allow of untried actions.

    Sums of short numbers are exact; a range of the total is as it was declared.
    """
    spans, total, given = _spans(facts), facts.total_range, facts.given_bounds
    if total is not None and bool((spans == np.array(total)).all()):
        return True
    numbers = (*facts.reward_range, *(total or ()), *(given or ()), *spans.flat)
    return facts.discount == 1.0 and all(map(_is_short, numbers))


def _is_short(number: float) -> bool:
    """Whether a number is a multiple of 2**-20 below 2**32, which takes 52 bits."""
    return abs(number) < 2.0**32 and (number * 2.0**20).is_integer()
