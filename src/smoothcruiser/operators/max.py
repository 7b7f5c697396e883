"""Plain maximum (minimum for player 2): no regularization, Omega = 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from smoothcruiser.operators.base import Floats, Operator, Scalar, Vector
from smoothcruiser.operators.outward import Interval


def max_value(q: Vector, w: Vector, t: float) -> float:
    """Return the maximum of ``q``."""
    max_q = q[0]
    for a in range(1, len(q)):
        if q[a] > max_q:
            max_q = q[a]
    return float(max_q)


def max_gradient(q: Vector, w: Vector, t: float, out: Vector) -> None:
    """Write the policy to ``out``: all weight on the first of the largest values."""
    best_action = 0
    for a in range(len(q)):
        out[a] = 0.0
        if q[a] > q[best_action]:
            best_action = a
    out[best_action] = 1.0


def max_omega(p: Vector, w: Vector, t: float) -> float:
    """Return 0: there is no regularizer."""
    return 0.0


@dataclass(frozen=True)
class Max(Operator):
    """Plain maximum (minimum for player 2): no regularization."""

    name = "max"
    code = 4
    scalar = Scalar(max_value, max_gradient, max_omega)

    @classmethod
    def at(cls, temperature: float | None) -> Self:
        """Return the same operator at every temperature."""
        return cls()

    def offset(self, num_actions: int) -> float:  # noqa: D102
        return 0.0

    def offset_range(self, fewest: int, most: int) -> Interval:  # noqa: D102
        return 0.0, 0.0

    def value_error(self, num_actions: int, scale: float) -> float:
        """Return 0: the largest of some numbers is one of them."""
        return 0.0

    def curvature(self, num_actions: int) -> float:  # noqa: D102
        return math.inf if num_actions > 1 else 0.0

    def smoothness(self, num_actions: int) -> float:  # noqa: D102
        return math.inf if num_actions > 1 else 0.0

    def omega_range(self, num_actions: int) -> tuple[float, float]:  # noqa: D102
        return 0.0, 0.0

    def batch(self, q: Floats, w: Floats) -> tuple[Floats, Floats]:
        """Return (F, gradient), with all weight on the first of the largest values."""
        best_action = q.argmax(axis=0)
        g = np.zeros_like(q)
        g[best_action, np.arange(q.shape[1])] = 1.0
        return q.max(axis=0), g

    def omega_rows(self, p: Floats, w: Floats) -> Floats:  # noqa: D102
        return np.zeros(len(p))
