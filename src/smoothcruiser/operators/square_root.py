"""The operator of the paper's appendix: Omega = -lambda sum sqrt(pi).

Omega lies in [-lambda sqrt(k), -lambda].

Its policy ((lambda/2)/(U - Q))**2, with U such that it sums to one, resembles
the pulls of UCB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smoothcruiser.operators.base import Floats, Scalar, TemperedOperator, Vector
from smoothcruiser.operators.outward import Interval, root_bounds, scale_interval


def square_root_level(q: Vector, t: float) -> float:
    """Return U - max q for the U with sum ((lambda/2)/(U - q))**2 = 1.

    It is found by Newton's method from the left end of a safe bracket. The sum
    is convex and decreasing in U, so Newton from a point where it is at least 1
    rises monotonically to the root. The bracket [lambda/2, (lambda/2) sqrt(k)]
    guards against rounding. The method stops at a step of 1e-15 (five units in
    the last place): below that, steps are rounding and may go back and forth
    for ever.
    """
    max_q = q[0]
    for a in range(1, len(q)):
        if q[a] > max_q:
            max_q = q[a]
    half = 0.5 * t
    lower_bound = half
    upper_bound = half * math.sqrt(len(q))
    level = lower_bound
    for _ in range(100):
        policy_sum = 0.0
        slope = 0.0
        for a in range(len(q)):
            gap = level + (max_q - q[a])
            ratio = half / gap
            policy_sum += ratio * ratio
            slope += ratio * ratio / gap
        if policy_sum > 1.0:
            lower_bound = level
        else:
            upper_bound = level
        proposal = level + (policy_sum - 1.0) / (2.0 * slope)
        if not (lower_bound <= proposal <= upper_bound):
            proposal = 0.5 * (lower_bound + upper_bound)
        if abs(proposal - level) <= 1e-15 * level:
            return proposal
        level = proposal
    return level


def square_root_value(q: Vector, w: Vector, t: float) -> float:
    """Return U + sum (lambda/2)**2 / (U - q).

    This is the dual form, insensitive to first order in an error of U.
    """
    max_q = q[0]
    for a in range(1, len(q)):
        if q[a] > max_q:
            max_q = q[a]
    level = square_root_level(q, t)
    half = 0.5 * t
    total = level
    for a in range(len(q)):
        # in this order, because half * half overflows for lambda above 1e154
        total += half * (half / (level + (max_q - q[a])))
    return max_q + total


def square_root_gradient(q: Vector, w: Vector, t: float, out: Vector) -> None:
    """Write the policy ((lambda/2)/(U - q))**2 into ``out``.

    It is normalized so that Newton's last bit does not matter.
    """
    max_q = q[0]
    for a in range(1, len(q)):
        if q[a] > max_q:
            max_q = q[a]
    level = square_root_level(q, t)
    half = 0.5 * t
    policy_sum = 0.0
    for a in range(len(q)):
        ratio = half / (level + (max_q - q[a]))
        out[a] = ratio * ratio
        policy_sum += out[a]
    for a in range(len(q)):
        out[a] = out[a] / policy_sum


def square_root_omega(p: Vector, w: Vector, t: float) -> float:
    """Return -lambda sum sqrt(p)."""
    total = 0.0
    for a in range(len(p)):
        if p[a] > 0.0:
            total -= math.sqrt(p[a])
    return t * total


@dataclass(frozen=True)
class SquareRoot(TemperedOperator):
    """The operator of the paper's appendix: Omega = -lambda sum sqrt(pi).

    Its policy resembles the pulls of UCB.
    """

    name = "square-root"
    code = 3
    scalar = Scalar(square_root_value, square_root_gradient, square_root_omega)

    def offset(self, num_actions: int) -> float:  # noqa: D102
        return self.temperature * math.sqrt(num_actions)

    def offset_bounds(self, num_actions: int) -> Interval:  # noqa: D102
        return scale_interval(root_bounds(num_actions), (self.strength, self.strength))

    def offset_range(self, fewest: int, most: int) -> Interval:
        """Return bounds of the ends: F(0) rises with the number of actions."""
        return self.offset_bounds(fewest)[0], self.offset_bounds(most)[1]

    def curvature(self, num_actions: int) -> float:  # noqa: D102
        return 4.0 / self.temperature if num_actions > 1 else 0.0

    def policy_bend(self) -> float:
        """Return 0.577/lambda^2; numerically, 0.2265/lambda^2 would do."""
        squared_temperature = float(self.temperature) ** 2  # 0 below 1e-162
        return 0.577 / squared_temperature if squared_temperature > 0.0 else math.inf

    def smoothness(self, num_actions: int) -> float:
        """Return 1/lambda.

        The Hessian is (sum h) Cov_w with sum h <= 4/lambda, and a variance is
        at most norm2**2 / 2.
        """
        return 1.0 / self.temperature

    def omega_range(self, num_actions: int) -> tuple[float, float]:  # noqa: D102
        return -self.offset(num_actions), -self.strength

    def omega_width(self, num_actions: int) -> float:
        """Return lambda (sqrt(k) - 1), with one rounding less than the difference."""
        return self.strength * (math.sqrt(num_actions) - 1.0)

    def batch(self, q: Floats, w: Floats) -> tuple[Floats, Floats]:
        """Return (F, gradient) for many states, by Newton's method on all columns.

        From the left end of the bracket it rises monotonically to the root, as
        in ``square_root_level``.
        """
        half = 0.5 * self.strength
        gaps = q.max(axis=0) - q
        level = np.full(q.shape[1], half)
        for _ in range(100):
            distance = level + gaps
            ratio = half / distance
            square = ratio * ratio
            slope = (square / distance).sum(axis=0)
            rise = (square.sum(axis=0) - 1.0) / (2.0 * slope)
            level = np.maximum(level + rise, half)
            if np.all(np.abs(rise) <= 1e-15 * level):
                break
        distance = level + gaps
        g = (half / distance) ** 2
        value = q.max(axis=0) + level + (half * half / distance).sum(axis=0)
        return value, g / g.sum(axis=0)

    def omega_rows(self, p: Floats, w: Floats) -> Floats:  # noqa: D102
        omega_values: Floats = -self.strength * np.sum(np.sqrt(p), axis=1)
        return omega_values
