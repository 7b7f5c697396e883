"""Tsallis entropy: Omega = (lambda/2)(|pi|^2 - 1), in [-(lambda/2)(1 - 1/k), 0].

The policy is the Euclidean projection of Q / lambda on the simplex, which may
drop actions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smoothcruiser.operators.base import Floats, Scalar, TemperedOperator, Vector
from smoothcruiser.operators.outward import Interval, enclose_quotient
from smoothcruiser.operators.sampling import running_sums


def sparsemax_threshold(q: Vector, t: float) -> float:
    """Return the tau with sum max((q - top)/lambda - tau, 0) = 1.

    Michelot's algorithm: the support only shrinks, so at most k passes are
    needed.
    """
    max_q = q[0]
    for a in range(1, len(q)):
        if q[a] > max_q:
            max_q = q[a]
    tau = -math.inf
    support_size = len(q) + 1
    while True:
        total = 0.0
        new_size = 0
        for a in range(len(q)):
            z = (q[a] - max_q) / t
            if z > tau:
                total += z
                new_size += 1
        # The support only shrinks. Rounding at a tie could make it grow again, which
        # also means that the search is over.
        if new_size >= support_size:
            return tau
        support_size = new_size
        tau = (total - 1.0) / new_size


def sparsemax_gradient(q: Vector, w: Vector, t: float, out: Vector) -> None:
    """Write the Euclidean projection of q / lambda on the simplex to ``out``."""
    max_q = q[0]
    for a in range(1, len(q)):
        if q[a] > max_q:
            max_q = q[a]
    tau = sparsemax_threshold(q, t)
    for a in range(len(q)):
        z = (q[a] - max_q) / t - tau
        out[a] = z if z > 0.0 else 0.0


def sparsemax_value(q: Vector, w: Vector, t: float) -> float:
    """Return <pi, q> - (lambda/2)(|pi|^2 - 1) at the projection pi.

    It is written around the maximum of q.
    """
    max_q = q[0]
    for a in range(1, len(q)):
        if q[a] > max_q:
            max_q = q[a]
    tau = sparsemax_threshold(q, t)
    linear_term = 0.0
    squared_norm = 0.0
    for a in range(len(q)):
        z = (q[a] - max_q) / t
        p = z - tau
        if p > 0.0:
            linear_term += p * (q[a] - max_q)
            squared_norm += p * p
    return max_q + linear_term - 0.5 * t * (squared_norm - 1.0)


def sparsemax_omega(p: Vector, w: Vector, t: float) -> float:
    """Return (lambda/2)(|p|^2 - 1)."""
    total = 0.0
    for a in range(len(p)):
        if p[a] > 0.0:
            total += 0.5 * p[a] * p[a]
    total -= 0.5
    return t * total


@dataclass(frozen=True)
class Sparsemax(TemperedOperator):
    """Tsallis entropy: Omega = (lambda/2)(|pi|^2 - 1).

    The policy is a projection and may drop actions.
    """

    name = "sparsemax"
    code = 2
    scalar = Scalar(sparsemax_value, sparsemax_gradient, sparsemax_omega)

    def offset(self, num_actions: int) -> float:  # noqa: D102
        return 0.5 * self.temperature * (1.0 - 1.0 / num_actions)

    def offset_bounds(self, num_actions: int) -> Interval:  # noqa: D102
        numerator, denominator = self.strength.as_integer_ratio()
        return enclose_quotient(
            numerator * (num_actions - 1), 2 * denominator * num_actions
        )

    def offset_range(self, fewest: int, most: int) -> Interval:
        """Return bounds of the ends: F(0) rises with the number of actions."""
        return self.offset_bounds(fewest)[0], self.offset_bounds(most)[1]

    def curvature(self, num_actions: int) -> float:  # noqa: D102
        return num_actions / self.temperature if num_actions > 1 else 0.0

    def smoothness(self, num_actions: int) -> float:
        """Return 1/(2 lambda).

        The gradient is a projection over lambda, hence 1/lambda-Lipschitz.
        """
        return 0.5 / self.temperature

    def omega_range(self, num_actions: int) -> tuple[float, float]:  # noqa: D102
        return -self.offset(num_actions), 0.0

    def strong_convexity(self) -> float:
        """Return lambda: Omega is lambda/2 times a square."""
        return float(self.temperature)

    def batch(self, q: Floats, w: Floats) -> tuple[Floats, Floats]:
        """Return (F, gradient); sorting finds the thresholds of all columns at once."""
        t, max_q = self.strength, q.max(axis=0)
        z = (q - max_q) / t
        ordered = np.sort(z, axis=0)[::-1]
        running_sum = running_sums(ordered)
        k = np.arange(1.0, len(q) + 1.0)[:, None]
        support_size = (1.0 + k * ordered > running_sum).sum(axis=0)
        tau = (
            np.take_along_axis(running_sum, support_size[None] - 1, axis=0)[0] - 1.0
        ) / support_size
        g = np.maximum(z - tau, 0.0)
        below = np.where(g > 0.0, q - max_q, 0.0)
        squared_norm = (g * g).sum(axis=0)
        return max_q + (g * below).sum(axis=0) - 0.5 * t * (squared_norm - 1.0), g

    def omega_rows(self, p: Floats, w: Floats) -> Floats:  # noqa: D102
        omega_values: Floats = 0.5 * self.strength * (np.sum(p * p, axis=1) - 1.0)
        return omega_values
