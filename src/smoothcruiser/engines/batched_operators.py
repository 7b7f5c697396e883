"""Smooth operators over many states at once: columns are states, rows are
actions, so that every reduction runs along memory.

``both(operator, q, weights)`` returns F of every column and its gradient.
Illegal actions have q = -inf: every formula below then gives them weight 0
without a case. The functions are those of ``operators.base`` with NumPy's exp
and log, whose last bits differ from the scalar ones: the batched executor
agrees with the others in law and in counts, not in bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.operators.base import Operator
from smoothcruiser.operators.functions import (
    ENTROPY,
    KL_PRIOR,
    MAX,
    SPARSEMAX,
    SQUARE_ROOT,
)

Floats = NDArray[np.float64]


def both(operator: Operator, q: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """(F, gradient) of shapes (n,) and (K, n) at action values (K, n);
    ``weights`` (K,) are the prior's.
    """
    if operator.code == ENTROPY:
        return _exponential(
            q, np.ones_like(weights), operator.strength, normalized=False
        )
    if operator.code == KL_PRIOR:
        return _exponential(q, weights, operator.strength, normalized=True)
    if operator.code == SPARSEMAX:
        return _sparsemax(q, operator.strength)
    if operator.code == SQUARE_ROOT:
        return _square_root(q, operator.strength)
    if operator.code == MAX:
        return _max(q)
    return _one_by_one(operator, q)


def _exponential(
    q: Floats, weights: Floats, t: float, *, normalized: bool
) -> tuple[Floats, Floats]:
    top = q.max(axis=0)
    g = np.exp((q - top) / t)
    if normalized:
        g *= weights[:, None]
    total = g.sum(axis=0)
    g /= total
    if normalized:
        total = total / np.where(q > -np.inf, weights[:, None], 0.0).sum(axis=0)
    return top + t * np.log(total), g


def _sparsemax(q: Floats, t: float) -> tuple[Floats, Floats]:
    top = q.max(axis=0)
    z = (q - top) / t
    ordered = -np.sort(-z, axis=0)
    running = np.cumsum(ordered, axis=0)
    k = np.arange(1.0, len(q) + 1.0)[:, None]
    size = (1.0 + k * ordered > running).sum(axis=0)
    tau = (np.take_along_axis(running, size[None] - 1, axis=0)[0] - 1.0) / size
    g = np.maximum(z - tau, 0.0)
    below = np.where(g > 0.0, q - top, 0.0)
    return top + (g * below).sum(axis=0) - 0.5 * t * ((g * g).sum(axis=0) - 1.0), g


def _square_root(q: Floats, t: float) -> tuple[Floats, Floats]:
    """Newton from the left end of the bracket rises monotonically to the root
    (problem.operators.square_root_level).
    """
    half = 0.5 * t
    gaps = q.max(axis=0) - q
    level = np.full(q.shape[1], half)
    for _ in range(100):
        distance = level + gaps
        ratio = half / distance
        square = ratio * ratio
        rise = (square.sum(axis=0) - 1.0) / (2.0 * (square / distance).sum(axis=0))
        level = np.maximum(level + rise, half)
        if np.all(np.abs(rise) <= 1e-15 * level):
            break
    distance = level + gaps
    g = (half / distance) ** 2
    value = q.max(axis=0) + level + (half * half / distance).sum(axis=0)
    return value, g / g.sum(axis=0)


def _max(q: Floats) -> tuple[Floats, Floats]:
    best = q.argmax(axis=0)
    g = np.zeros_like(q)
    g[best, np.arange(q.shape[1])] = 1.0
    return q.max(axis=0), g


def _one_by_one(operator: Operator, q: Floats) -> tuple[Floats, Floats]:
    """A user's own operator, column by column."""
    value, g = np.empty(q.shape[1]), np.zeros_like(q)
    for i in range(q.shape[1]):
        legal = np.flatnonzero(q[:, i] > -np.inf)
        numbers = q[legal, i].tolist()
        value[i] = operator.value(numbers)
        g[legal, i] = operator.gradient(numbers)
    return value, g


def drawn(g: Floats, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
    """(A ~ g / |g|_1 for every column, |g|_1): one uniform a column."""
    running = np.cumsum(g, axis=0)
    norm = running[-1]
    u = rng.random(g.shape[1]) * norm
    action: Any = (u >= running).sum(axis=0)
    late = action >= len(g)  # u rounded up to the norm: the last action with any weight
    if late.any():
        action[late] = len(g) - 1 - (g[::-1, late] > 0.0).argmax(axis=0)
    return action.astype(np.int64), norm
