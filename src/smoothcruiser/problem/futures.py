"""Whether two states pay the same from equal streams.

Then they are the same as far as a planner can tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smoothcruiser.problem.answers import Answer
from smoothcruiser.problem.problem import Problem

# steps for which two states are followed where their values cannot be compared
FUTURE = 6


def same_future(
    problem: Problem, x: Any, y: Any, call: Callable[[Any, int, int], Answer]
) -> bool:
    """Whether two states pay the same under equal streams.

    Used where their values differ, or show nothing to compare. ``call(state,
    action, i)`` steps on from the i-th stream.
    """
    for i in range(
        FUTURE if problem.horizon is None else min(FUTURE, problem.horizon - 1)
    ):
        mine, theirs = problem.profile(x), problem.profile(y)
        if mine is None or mine != theirs:
            return mine == theirs
        action = mine[1 + i % (len(mine) - 1)]
        one, other = call(x, action, i), call(y, action, i)
        if one[0] != other[0] or one[2] != other[2]:
            return False
        if one[2]:
            return True
        x, y = one[1], other[1]
    return True
