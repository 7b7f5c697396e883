"""A problem's functions over rows of states, as executor ``batched`` calls them.

They are the user's own, or those of a problem's tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.problem.batched import (
    MAX_BATCH,
    Backend,
    Batched,
    BatchedFunction,
    NumpyBackend,
)
from smoothcruiser.problem.problem import Game, Problem
from smoothcruiser.problem.tabular import Tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RowFunctions:
    """The functions of a problem over rows, and how rows are held."""

    backend: Backend
    step: Any
    legal: Any
    terminal: Any
    player: Any
    lower: Any
    upper: Any
    max_batch: int


def row_functions_of(problem: Problem, max_batch: int | None = None) -> RowFunctions:
    """A problem's functions over rows: the user's own, or those of its tables."""
    if problem.tables is not None:
        return _tabular_functions(problem, problem.tables, max_batch or MAX_BATCH)
    assert isinstance(problem.oracle, Batched)  # the registry refuses others

    def inner(function: Any) -> Any:
        return function.function if isinstance(function, BatchedFunction) else None

    player = inner(problem.player) if isinstance(problem, Game) else None
    oracle = problem.oracle
    lower, upper = (inner(bound) for bound in problem.value_bounds or (None, None))
    return RowFunctions(
        oracle.backend,
        oracle.function,
        inner(problem.legal),
        inner(problem.terminal),
        player,
        lower,
        upper,
        max_batch or oracle.max_batch,
    )


def _tabular_functions(
    problem: Problem, tables: Tables, max_batch: int
) -> RowFunctions:
    accept_chances, alias = tables.alias_form
    first_slots, num_outcomes, num_actions = (
        tables.start[:-1],
        np.diff(tables.start),
        tables.num_actions,
    )
    reward, next_state = tables.reward, tables.next_state

    def step(
        states: Ints, actions: Ints, rng: np.random.Generator
    ) -> tuple[Floats, Ints]:
        """Rewards and next states by alias sampling, with one uniform per row.

        The method is that of ``problem.tabular_kernel``.
        """
        pair_rows = states * num_actions + actions
        uniforms = rng.random(len(pair_rows)) * num_outcomes.take(pair_rows)
        i = uniforms.astype(np.int64)
        outcome_slots = first_slots.take(pair_rows) + i
        uniforms -= i
        outcome_slots = np.where(
            uniforms >= accept_chances.take(outcome_slots),
            alias.take(outcome_slots),
            outcome_slots,
        )
        return reward.take(outcome_slots), next_state.take(outcome_slots)

    return RowFunctions(
        backend=NumpyBackend(),
        step=step,
        legal=None
        if problem.legal is None
        else lambda states, actions: tables.legal[states, actions],
        terminal=None
        if problem.terminal is None
        else lambda states: tables.terminal.take(states),
        player=(lambda states: tables.player.take(states)) if problem.is_game else None,
        lower=_bound_by_state(problem, 0),
        upper=_bound_by_state(problem, 1),
        max_batch=max_batch,
    )


def _bound_by_state(problem: Problem, side: int) -> Any:
    """A bound on V over rows of a tabular problem, None where it is a number.

    The function is asked once for each state of a batch.
    """
    if problem.value_gap is None or problem.value_bounds is None:
        return None
    bound = problem.value_bounds[side]

    def bounds_of_states(states: Ints) -> Floats:
        distinct_states, state_index = np.unique(states, return_inverse=True)
        return np.array([float(bound(int(state))) for state in distinct_states])[
            state_index
        ]

    return bounds_of_states
