"""The page of an exact solution: values and best actions, and how exact they are."""

from __future__ import annotations

import math

import numpy as np

from smoothcruiser.display.answers import state_text
from smoothcruiser.display.document import Column, Fields, Grid, Labelled, Page
from smoothcruiser.exact.solution import Solution
from smoothcruiser.schedule.numbers import (
    count_noun,
    duration,
    format_bound,
    format_decimals,
)

MOST_STATES = 20  # rows; ``values`` and ``policy`` have all of them
LEAST, MOST = 3, 6  # decimals


def solution_page(solution: Solution) -> Page:
    """The first states with their values and most likely actions."""
    num_states, num_actions = solution.q_values.shape
    field_rows: list[Labelled] = [
        ("exact", f"every value up to {format_bound(solution.residual_bound)}, proven"),
        (
            "run",
            f"{solution.method}, {count_noun(solution.sweeps, 'sweep')}, "
            f"{duration(solution.seconds)} running, "
            f"{duration(solution.compile_seconds)} compiling",
        ),
    ]
    if solution.stages is not None:
        field_rows.insert(
            0, ("horizon", f"values with all {len(solution.stages) - 1} steps")
        )
    if solution.note:
        field_rows.append(("note", solution.note))
    problem_names = [solution.problem] if solution.problem else []
    title = (
        "Solution",
        *problem_names,
        count_noun(num_states, "state"),
        count_noun(num_actions, "action"),
    )
    return Page(title, (_states(solution), Fields(tuple(field_rows), heading="Run")))


def _states(solution: Solution) -> Grid:
    num_states = len(solution.values)
    has_numbered_states = solution.states is None
    columns = (
        Column("state", right=has_numbered_states, fit="cut"),
        Column("value", right=True),
        Column("action", right=True, fit="cut"),
        Column("policy", right=True),
    )
    digits = _digits(solution.residual_bound)
    listed_states = range(min(num_states, MOST_STATES))
    num_omitted = num_states - len(listed_states)
    omission_text = f"… {count_noun(num_omitted, 'more state')}" if num_omitted else ""
    return Grid(
        columns,
        tuple(_row(solution, i, digits) for i in listed_states),
        more=omission_text,
    )


def _digits(bound: float) -> int:
    """Decimals that the bound leaves certain, of those worth reading."""
    if not 0.0 < bound < 1.0:
        return LEAST if bound > 0.0 else MOST
    return min(MOST, max(LEAST, -math.floor(math.log10(bound)) - 1))


def _row(solution: Solution, row: int, digits: int) -> tuple[str, ...]:
    state = row if solution.states is None else solution.states[row]
    value, policy = float(solution.values[row]), solution.policy[row]
    cells = (
        state_text(state),
        "unknown" if math.isnan(value) else format_decimals(value, digits),
    )
    if np.isnan(policy).any():
        return (*cells, "", "")
    if not policy.any():  # no action is legal
        return (*cells, "", "terminal")
    best_action = int(np.argmax(policy))
    return (
        *cells,
        solution.label(best_action),
        f"{100.0 * float(policy[best_action]):.1f}%",
    )
