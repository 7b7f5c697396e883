"""What an exact solution says of the bounds on V that the user declared.

The solution needs none, so it stays right where they are wrong. But every other
method relies on them, and here their error can be seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.errors import OracleError
from smoothcruiser.exact.solution import Solution
from smoothcruiser.problem.bounds import bounds_at, slack
from smoothcruiser.problem.problem import Problem

MOST_STATES = 1000  # that are compared, spread over all


def broken_bounds(problem: Problem, solution: Solution, state: Any) -> str:
    """A note that names a state whose value lies outside ``value_bounds``.

    It is empty where none was seen. With a horizon only the requested state is
    compared, whose number of steps left is certain.
    """
    if problem.value_bounds is None:
        return ""
    rows = [solution.index(state)]
    if problem.horizon is None:
        every = np.linspace(0, len(solution.values) - 1, MOST_STATES)
        rows += np.unique(every.astype(np.int64)).tolist()
    room = solution.residual_bound + slack(problem.facts)
    for row in rows:
        where = row if solution.states is None else solution.states[row]
        value = float(solution.values[row])
        if np.isnan(value) or problem.is_terminal(where):
            continue
        try:
            low, high = (
                problem.value_bounds
                if problem.value_gap is None
                else bounds_at(problem, where)
            )
        except OracleError as error:
            return f"{error} This answer does not rely on value_bounds."
        if not low - room <= value <= high + room:
            return (
                f"value_bounds do not hold: state {where!r} is worth {value:.6g}, and "
                f"they say {low:.6g} to {high:.6g}. This answer does not rely on them; "
                "every method that samples does."
            )
    return ""
