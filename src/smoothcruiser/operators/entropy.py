"""Shannon entropy: F = lambda log sum exp(Q / lambda), the paper's operator.

Omega(pi) = lambda sum pi log pi, in [-lambda log k, 0]. The policy is the
softmax of Q / lambda.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smoothcruiser.operators.base import Floats, Scalar, TemperedOperator, Vector
from smoothcruiser.operators.outward import Interval, log_bounds, scale_interval


def entropy_value(q: Vector, w: Vector, t: float) -> float:
    """Return lambda log sum exp(q / lambda).

    It is shifted by the maximum so that nothing overflows.
    """
    max_q = q[0]
    for a in range(1, len(q)):
        if q[a] > max_q:
            max_q = q[a]
    exp_sum = 0.0
    for a in range(len(q)):
        exp_sum += math.exp((q[a] - max_q) / t)
    return max_q + t * math.log(exp_sum)


def entropy_gradient(q: Vector, w: Vector, t: float, out: Vector) -> None:
    """Write softmax(q / lambda) to ``out``."""
    max_q = q[0]
    for a in range(1, len(q)):
        if q[a] > max_q:
            max_q = q[a]
    exp_sum = 0.0
    for a in range(len(q)):
        out[a] = math.exp((q[a] - max_q) / t)
        exp_sum += out[a]
    for a in range(len(q)):
        out[a] = out[a] / exp_sum


def entropy_both(q: Vector, w: Vector, t: float, out: Vector) -> float:
    """Write ``entropy_gradient`` to ``out`` and return ``entropy_value``, in one pass.

    The exponentials are computed once, and the bits are those of each. The gradient alone
    does not call this: its logarithm would make a solution by value iteration 25% slower.
    """
    max_q = q[0]
    for a in range(1, len(q)):
        if q[a] > max_q:
            max_q = q[a]
    exp_sum = 0.0
    for a in range(len(q)):
        out[a] = math.exp((q[a] - max_q) / t)
        exp_sum += out[a]
    for a in range(len(q)):
        out[a] = out[a] / exp_sum
    return max_q + t * math.log(exp_sum)


def entropy_omega(p: Vector, w: Vector, t: float) -> float:
    """Return lambda sum p log p."""
    exp_sum = 0.0
    for a in range(len(p)):
        if p[a] > 0.0:
            exp_sum += p[a] * math.log(p[a])
    return t * exp_sum


class LogSumExp(TemperedOperator):
    """F = lambda log sum mu exp(Q / lambda), whatever the weights mu."""

    def policy_bend(self) -> float:
        """Return 1/(24 sqrt(3) lambda^2), attained by two actions."""
        squared_temperature = self.temperature**2  # 0 below 1e-162
        return (
            1.0 / (24.0 * math.sqrt(3.0) * squared_temperature)
            if squared_temperature > 0.0
            else math.inf
        )

    def strong_convexity(self) -> float:
        """2 lambda: the Hessian is at most (I - 11'/k)/(2 lambda) (Boehning)."""
        return 2.0 * self.temperature


@dataclass(frozen=True)
class Entropy(LogSumExp):
    """The paper's operator: F = lambda log sum exp(Q / lambda), softmax policy.

    Its regularizer is the Shannon entropy.
    """

    name = "entropy"
    code = 0
    entropic = True
    scalar = Scalar(entropy_value, entropy_gradient, entropy_omega)

    def offset(self, num_actions: int) -> float:  # noqa: D102
        return self.temperature * math.log(num_actions)

    def offset_bounds(self, num_actions: int) -> Interval:  # noqa: D102
        return scale_interval(log_bounds(num_actions), (self.strength, self.strength))

    def offset_range(self, fewest: int, most: int) -> Interval:
        """Return bounds of the ends: F(0) rises with the number of actions."""
        return self.offset_bounds(fewest)[0], self.offset_bounds(most)[1]

    def curvature(self, num_actions: int) -> float:  # noqa: D102
        return 1.0 / self.temperature if num_actions > 1 else 0.0

    def smoothness(self, num_actions: int) -> float:  # noqa: D102
        return 1.0 / self.temperature

    def omega_range(self, num_actions: int) -> tuple[float, float]:  # noqa: D102
        return -self.offset(num_actions), 0.0

    def both(self, q: Vector, w: Vector) -> tuple[float, list[float]]:  # noqa: D102
        out = [0.0] * len(q)
        return entropy_both(q, w, self.strength, out), out

    def batch(self, q: Floats, w: Floats) -> tuple[Floats, Floats]:  # noqa: D102
        t, max_q = self.strength, q.max(axis=0)
        g = np.exp((q - max_q) / t)
        exp_sum = g.sum(axis=0)
        g /= exp_sum
        return max_q + t * np.log(exp_sum), g

    def omega_rows(self, p: Floats, w: Floats) -> Floats:  # noqa: D102
        log_p = np.log(np.where(p > 0.0, p, 1.0))
        omega_values: Floats = self.strength * np.sum(p * log_p, axis=1)
        return omega_values
