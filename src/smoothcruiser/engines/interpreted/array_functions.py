"""A problem's functions over rows of states, as executor ``batched`` calls them.

They are the user's own, or those of a problem's tables.

Corrections of randomized levels, for many rows of states at once.

It is ``ReferenceEngine.correction`` over arrays, for executor ``batched``: the same law,
with that executor's stream and its order of sums. Rows of the same rung go
together, because they have the same number of samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.operators.sampling import sampled_columns
from smoothcruiser.problem.batched import (
    MAX_BATCH,
    Backend,
    Batched,
    BatchedFunction,
    NumpyBackend,
)
from smoothcruiser.problem.model.tabular import Tables
from smoothcruiser.problem.problem import Game, Problem
from smoothcruiser.schedule.schedule import Kind, Level

if TYPE_CHECKING:
    from smoothcruiser.engines.interpreted.batched import BatchedEngine


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

        The method is that of ``jit.memory``.
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
        player=(lambda states: tables.player.take(states))
        if problem.sole_player is None
        else None,
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


def correction_rows(
    engine: BatchedEngine, row: int, states: Any, legal: Bools | None, signs: Floats
) -> Floats:
    """The correction of each of ``states``, 0 for those without one."""
    level = engine.schedule.levels[row]
    corrections = np.zeros(len(signs))
    uniforms = engine.action_rng.random(len(signs))
    row_rungs = np.searchsorted(np.cumsum(level.rungs), uniforms, side="right")
    for j, chance in enumerate(level.rungs):
        rung_rows = np.flatnonzero(row_rungs == j)
        if len(rung_rows) == 0:
            continue
        rung_states = engine.backend.take(states, rung_rows)
        legal_mask = None if legal is None else legal[:, rung_rows]
        first_half, second_half = (
            in_movers_terms(
                engine.estimate_q(
                    rung_states, len(rung_rows), legal_mask, row, level.samples << j
                ),
                signs[rung_rows],
            )
            for _ in range(2)
        )
        corrections[rung_rows] = halves_lacking(
            engine, level, rung_states, signs[rung_rows], first_half, second_half
        )
        corrections[rung_rows] /= chance
    return corrections


def halves_lacking(
    engine: BatchedEngine,
    level: Level,
    states: Any,
    signs: Floats,
    first_half: Floats,
    second_half: Floats,
) -> Floats:
    """The bracket of the correction from two halves (``ReferenceEngine.correction``)."""
    lacking, delta = np.zeros(len(signs)), np.zeros_like(first_half)
    weighted_means = (
        (1.0, 0.5 * (first_half + second_half)),
        (-0.5, first_half),
        (-0.5, second_half),
    )
    for share, y in weighted_means:
        value, g = engine.problem.operator.batch(y, engine.weights)
        if level.kind == Kind.RANDOM_PLUGIN:
            lacking += share * value
        else:
            lacking += share * linear_remainder(value, y, g)
            delta += share * g
    lacking *= signs
    moving_rows = np.flatnonzero(np.any(delta != 0.0, axis=0))
    if len(moving_rows) == 0:
        return lacking
    chosen_actions, delta_norm = sampled_columns(
        np.abs(delta[:, moving_rows]), engine.action_rng
    )
    xi = engine.backup(
        engine.backend.take(states, moving_rows), chosen_actions, level.continuation
    )
    if not engine.is_shift_invariant:
        lacking += level.constant * delta.sum(axis=0)
    factor = np.where(
        delta[chosen_actions, moving_rows] > 0.0, delta_norm, -delta_norm
    )
    lacking[moving_rows] += factor * (xi - level.constant)
    return lacking


def in_movers_terms(q: Floats, signs: Any) -> Floats:
    """Action values (K, n) times the movers' signs, still -inf where illegal."""
    return np.where(q > -np.inf, signs * q, -np.inf)


def linear_remainder(value: Floats, y: Floats, g: Floats) -> Floats:
    """F(y) - <y, g> for every column."""
    inner_product: Floats = (np.where(g > 0.0, y, 0.0) * g).sum(axis=0)
    return value - inner_product
