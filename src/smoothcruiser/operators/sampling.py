"""An action sampled in proportion to a gradient: for one state, and for many."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.operators.base import Floats, Vector


def proportional(p: Vector, size: int, goal: float) -> int:
    """Return the index at which the running sum of ``p`` passes ``goal``.

    It is never one of weight 0. With goal = u sum(p) it is a sample of p.
    """
    running_sum = 0.0
    chosen = 0
    for j in range(size):
        if p[j] > 0.0:
            chosen = j
            running_sum += p[j]
            if goal < running_sum:
                break
    return chosen


def running_sums(g: Floats) -> Floats:
    """Return ``np.cumsum(g, axis=0)``, bit for bit, in a tenth of the time.

    NumPy goes down one column after the other; here whole rows are added.
    """
    running_sum = np.empty_like(g)
    running_sum[0] = g[0]
    for a in range(1, len(g)):
        np.add(running_sum[a - 1], g[a], out=running_sum[a])
    return running_sum


def sampled_columns(
    g: Floats, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Floats]:
    """Return (A ~ g / |g|_1 for every column, |g|_1), with one uniform per column."""
    running_sum = running_sums(g)
    norm = running_sum[-1]
    u = rng.random(g.shape[1]) * norm
    action: Any = (u >= running_sum).sum(axis=0)
    past_end = action >= len(
        g
    )  # u rounded up to the norm: the last action with any weight
    if past_end.any():
        action[past_end] = len(g) - 1 - (g[::-1, past_end] > 0.0).argmax(axis=0)
    return action.astype(np.int64), norm
