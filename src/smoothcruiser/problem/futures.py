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
        x_profile, y_profile = problem.profile(x), problem.profile(y)
        if x_profile is None or x_profile != y_profile:
            return x_profile == y_profile
        action = x_profile[1 + i % (len(x_profile) - 1)]
        x_answer, y_answer = call(x, action, i), call(y, action, i)
        if x_answer[0] != y_answer[0] or x_answer[2] != y_answer[2]:
            return False
        if x_answer[2]:
            return True
        x, y = x_answer[1], y_answer[1]
    return True
