"""Corrections of randomized levels, for many rows of states at once.

It is ``engines.corrections`` over arrays, for executor ``batched``: the same law,
with that executor's stream and its order of sums. Rows of the same rung go
together, because they have the same number of samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.engines.rows import Bools, Floats
from smoothcruiser.operators.sampling import sampled_columns
from smoothcruiser.schedule.schedule import Kind, Level

if TYPE_CHECKING:
    from smoothcruiser.engines.batched import BatchedEngine


def correction_rows(
    engine: BatchedEngine,
    row: int,
    states: Any,
    legal: Bools | None,
    signs: Floats,
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
    """The bracket of the correction from two halves (``engines.corrections``)."""
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
    factor = np.where(delta[chosen_actions, moving_rows] > 0.0, delta_norm, -delta_norm)
    lacking[moving_rows] += factor * (xi - level.constant)
    return lacking


def in_movers_terms(q: Floats, signs: Any) -> Floats:
    """Action values (K, n) times the movers' signs, still -inf where illegal."""
    return np.where(q > -np.inf, signs * q, -np.inf)


def linear_remainder(value: Floats, y: Floats, g: Floats) -> Floats:
    """F(y) - <y, g> for every column."""
    inner_product: Floats = (np.where(g > 0.0, y, 0.0) * g).sum(axis=0)
    return value - inner_product
