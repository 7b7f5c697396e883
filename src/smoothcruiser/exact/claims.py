"""What an exact solution says of what the user declared of rewards and values.

The solution needs none of it, so it stays right where that is wrong. But every other
method relies on it, and here an error can be seen: all rewards of the model are
known, and so are the values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from smoothcruiser.errors import OracleError
from smoothcruiser.exact.reachable import Known
from smoothcruiser.exact.solution import Solution
from smoothcruiser.problem.bounds import bounds_at, slack
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.rows import check_rewards
from smoothcruiser.problem.tabular import Bools
from smoothcruiser.problem.totals import AT_THE_END

MOST_STATES = 1000  # that are compared, spread over all
UNUSED = "This answer does not rely on it; other methods do."


def broken_claims(
    problem: Problem, known: Known, solution: Solution, state: Any
) -> tuple[str, ...]:
    """Notes on what was declared and does not hold, as far as that was seen."""
    paid = broken_rewards(problem, known)
    # where rewards are not as declared, totals follow from nothing
    total = "" if paid else broken_total(problem, solution, state)
    found = paid, total, broken_bounds(problem, solution, state)
    return tuple(note for note in found if note)


def broken_rewards(problem: Problem, known: Known) -> str:
    """A note that names a reward outside its range, or paid before the end."""
    tables, (low, high) = known.tables, problem.facts.reward_range
    wrong = ~((low <= tables.reward) & (tables.reward <= high))
    if problem.payoffs == AT_THE_END:
        wrong |= (tables.reward != 0.0) & ~_ends(problem, known)[tables.next_state]
    live = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    wrong &= np.repeat(live, np.diff(tables.start))  # nobody steps from an end
    for place in np.flatnonzero(wrong & (tables.prob > 0.0))[:1].tolist():
        pair = int(np.searchsorted(tables.start, place, side="right")) - 1
        row, action = divmod(pair, problem.num_actions)
        after = int(tables.next_state[place])
        if known.states is not None:
            row, after = known.states[row], known.states[after]
        outcome = float(tables.prob[place]), float(tables.reward[place]), after
        try:
            check_rewards(problem, [outcome], row, action)
        except OracleError as error:
            return f"{error} {UNUSED}"
    return ""


def _ends(problem: Problem, known: Known) -> Bools:
    """(S,): where episodes end. A horizon that cuts them off does not end them."""
    found: Bools = known.tables.terminal.copy()
    if known.states is not None:
        rows = np.flatnonzero(found)
        found[rows] = [problem.is_terminal(known.states[row]) for row in rows]
    return found


def broken_total(problem: Problem, solution: Solution, state: Any) -> str:
    """A note that names a state whose value no total in the declared range allows."""
    facts = replace(problem.facts, given_bounds=None, given_gap=None)
    names = [] if facts.known_total is None else ["total_reward_range or payoffs="]
    if facts.episodes_end is not None:
        names.append("episodes_end=")
    if not names:
        return ""
    low, high = facts.value_hull()
    room = solution.residual_bound + slack(problem.facts)
    for where, value in _compared(problem, solution, state):
        if not low - room <= value <= high + room:
            return (
                f"{' or '.join(names)} do not hold: with them values lie in "
                f"[{low:.6g}, {high:.6g}], and state {where!r} is worth {value:.6g}. "
                f"{UNUSED}"
            )
    return ""


def broken_bounds(problem: Problem, solution: Solution, state: Any) -> str:
    """A note that names a state whose value lies outside ``value_bounds``.

    It is empty where none was seen.
    """
    if problem.value_bounds is None:
        return ""
    room = solution.residual_bound + slack(problem.facts)
    for where, value in _compared(problem, solution, state):
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


def _compared(
    problem: Problem, solution: Solution, state: Any
) -> Iterator[tuple[Any, float]]:
    """States that are not over, and their values: the requested one, and some more.

    With a horizon it is the requested state alone, whose number of steps left is
    certain.
    """
    rows = [solution.index(state)]
    if problem.horizon is None:
        every = np.linspace(0, len(solution.values) - 1, MOST_STATES)
        rows += np.unique(every.astype(np.int64)).tolist()
    for row in rows:
        where = row if solution.states is None else solution.states[row]
        value = float(solution.values[row])
        if not np.isnan(value) and not problem.is_terminal(where):
            yield where, value
