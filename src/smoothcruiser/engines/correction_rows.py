"""What randomized levels add to their base, for rows of states at once.

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
    """What each of ``states`` has added, 0 for those without a correction."""
    level = engine.schedule.levels[row]
    added = np.zeros(len(signs))
    uniforms = engine.own.random(len(signs))
    rung = np.searchsorted(np.cumsum(level.rungs), uniforms, side="right")
    for j, chance in enumerate(level.rungs):
        here = np.flatnonzero(rung == j)
        if len(here) == 0:
            continue
        part = engine.backend.take(states, here)
        mask = None if legal is None else legal[:, here]
        first, second = (
            in_movers_terms(
                engine.estimate_q(part, len(here), mask, row, level.samples << j),
                signs[here],
            )
            for _ in range(2)
        )
        added[here] = lacking_rows(engine, level, part, signs[here], first, second)
        added[here] /= chance
    return added


def lacking_rows(
    engine: BatchedEngine,
    level: Level,
    states: Any,
    signs: Floats,
    first: Floats,
    second: Floats,
) -> Floats:
    """What the halves ``first`` and ``second`` lack of their whole."""
    lacking, delta = np.zeros(len(signs)), np.zeros_like(first)
    parts = ((1.0, 0.5 * (first + second)), (-0.5, first), (-0.5, second))
    for share, y in parts:
        value, g = engine.problem.operator.batch(y, engine.weights)
        if level.kind == Kind.RANDOM_PLUGIN:
            lacking += share * value
        else:
            lacking += share * rest(value, y, g)
            delta += share * g
    lacking *= signs
    moving = np.flatnonzero(np.any(delta != 0.0, axis=0))
    if len(moving) == 0:
        return lacking
    action, norm = sampled_columns(np.abs(delta[:, moving]), engine.own)
    xi = engine.backup(engine.backend.take(states, moving), action, level.continuation)
    if not engine.unit:
        lacking += level.constant * delta.sum(axis=0)
    factor = np.where(delta[action, moving] > 0.0, norm, -norm)
    lacking[moving] += factor * (xi - level.constant)
    return lacking


def in_movers_terms(q: Floats, signs: Any) -> Floats:
    """Action values (K, n) times the movers' signs, still -inf where illegal."""
    return np.where(q > -np.inf, signs * q, -np.inf)


def rest(value: Floats, y: Floats, g: Floats) -> Floats:
    """F(y) - <y, g> for every column."""
    inner: Floats = (np.where(g > 0.0, y, 0.0) * g).sum(axis=0)
    return value - inner
