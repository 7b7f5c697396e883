"""Checks of the declared rewards and values against an exact solution.

The solution needs no declaration, so it stays right where one is wrong. But every other
method relies on them, and here an error can be seen: all rewards of the model are known,
and so are the values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from smoothcruiser.errors import OracleError
from smoothcruiser.exact.reachable import KnownModel
from smoothcruiser.exact.solution import Solution
from smoothcruiser.problem.bounds import bounds_at, bounds_slack
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.rows import check_rewards
from smoothcruiser.problem.tabular import Bools
from smoothcruiser.problem.totals import AT_THE_END

MOST_STATES = 1000  # that are compared, spread over all
UNUSED = "This answer does not rely on it; other methods do."


def broken_claims(
    problem: Problem, known: KnownModel, solution: Solution, state: Any
) -> tuple[str, ...]:
    """Notes on declarations that do not hold, as far as that was seen."""
    reward_note = broken_rewards(problem, known)
    # where rewards are not as declared, totals follow from nothing
    total_note = "" if reward_note else broken_total(problem, solution, state)
    claim_notes = reward_note, total_note, broken_bounds(problem, solution, state)
    return tuple(note for note in claim_notes if note)


def broken_rewards(problem: Problem, known: KnownModel) -> str:
    """A note that names a reward outside its range, or paid before the end."""
    tables, (lower_bound, upper_bound) = known.tables, problem.facts.reward_range
    is_wrong = ~((lower_bound <= tables.reward) & (tables.reward <= upper_bound))
    if problem.payoffs == AT_THE_END:
        is_wrong |= (tables.reward != 0.0) & ~_ends(problem, known)[tables.next_state]
    is_live = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    is_wrong &= np.repeat(is_live, np.diff(tables.start))  # nobody steps from an end
    for entry_index in np.flatnonzero(is_wrong & (tables.prob > 0.0))[:1].tolist():
        pair = int(np.searchsorted(tables.start, entry_index, side="right")) - 1
        row, action = divmod(pair, problem.num_actions)
        next_state = int(tables.next_state[entry_index])
        if known.states is not None:
            row, next_state = known.states[row], known.states[next_state]
        outcome = (
            float(tables.prob[entry_index]),
            float(tables.reward[entry_index]),
            next_state,
        )
        try:
            check_rewards(problem, [outcome], row, action)
        except OracleError as error:
            return f"{error} {UNUSED}"
    return ""


def _ends(problem: Problem, known: KnownModel) -> Bools:
    """(S,): where episodes end. A horizon that cuts them off does not end them."""
    is_end: Bools = known.tables.terminal.copy()
    if known.states is not None:
        end_rows = np.flatnonzero(is_end)
        is_end[end_rows] = [problem.is_terminal(known.states[row]) for row in end_rows]
    return is_end


def broken_total(problem: Problem, solution: Solution, state: Any) -> str:
    """A note that names a state with a value that the declared totals do not allow."""
    facts = replace(problem.facts, given_bounds=None, given_gap=None)
    claim_names = (
        [] if facts.known_total is None else ["total_reward_range or payoffs="]
    )
    if facts.episodes_end is not None:
        claim_names.append("episodes_end=")
    if not claim_names:
        return ""
    lower_bound, upper_bound = facts.value_hull()
    rounding_slack = solution.residual_bound + bounds_slack(problem.facts)
    for compared_state, value in _compared_values(problem, solution, state):
        if not lower_bound - rounding_slack <= value <= upper_bound + rounding_slack:
            return (
                f"{' or '.join(claim_names)} do not hold: with them values lie in "
                f"[{lower_bound:.6g}, {upper_bound:.6g}], and state {compared_state!r} is "
                f"worth {value:.6g}. {UNUSED}"
            )
    return ""


def broken_bounds(problem: Problem, solution: Solution, state: Any) -> str:
    """A note that names a state with a value outside ``value_bounds``.

    It is empty where none was seen.
    """
    if problem.value_bounds is None:
        return ""
    rounding_slack = solution.residual_bound + bounds_slack(problem.facts)
    for compared_state, value in _compared_values(problem, solution, state):
        try:
            lower_bound, upper_bound = (
                problem.value_bounds
                if problem.value_gap is None
                else bounds_at(problem, compared_state)
            )
        except OracleError as error:
            return f"{error} This answer does not rely on value_bounds."
        if not lower_bound - rounding_slack <= value <= upper_bound + rounding_slack:
            return (
                f"value_bounds do not hold: state {compared_state!r} is worth {value:.6g}, "
                f"and they say {lower_bound:.6g} to {upper_bound:.6g}. This answer does "
                "not rely on them; every method that samples does."
            )
    return ""


def _compared_values(
    problem: Problem, solution: Solution, state: Any
) -> Iterator[tuple[Any, float]]:
    """States that are not over, and their values: the requested one, and some more.

    With a horizon it is the requested state alone: only its number of steps left is
    certain.
    """
    compared_rows = [solution.index(state)]
    if problem.horizon is None:
        spread_rows = np.linspace(0, len(solution.values) - 1, MOST_STATES)
        compared_rows += np.unique(spread_rows.astype(np.int64)).tolist()
    for row in compared_rows:
        compared_state = row if solution.states is None else solution.states[row]
        value = float(solution.values[row])
        if not np.isnan(value) and not problem.is_terminal(compared_state):
            yield compared_state, value
