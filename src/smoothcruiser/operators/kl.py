"""Relative entropy to a prior mu: F = lambda log sum mu exp(Q / lambda).

Omega(pi) = lambda sum pi log(pi / mu), in [0, lambda log(1 / min mu)]. Where a
state has fewer legal actions, the prior is renormalized over them, so F(0) = 0
in every state. Without a prior, mu is uniform and F is mellowmax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators.base import Floats, Scalar, Vector
from smoothcruiser.operators.entropy import LogSumExp
from smoothcruiser.operators.outward import Interval, sum_in_order


def kl_value(q: Vector, w: Vector, t: float) -> float:
    """Return lambda log sum mu exp(q / lambda) with mu = w / sum(w).

    This is mellowmax when w is uniform. An action of weight 0 does not count.
    """
    max_q = -math.inf
    for a in range(len(q)):
        if w[a] > 0.0 and q[a] > max_q:
            max_q = q[a]
    exp_sum = 0.0
    prior_mass = 0.0
    for a in range(len(q)):
        if w[a] > 0.0:
            exp_sum += w[a] * math.exp((q[a] - max_q) / t)
            prior_mass += w[a]
    return max_q + t * math.log(exp_sum / prior_mass)


def kl_gradient(q: Vector, w: Vector, t: float, out: Vector) -> None:
    """Write the policy proportional to mu exp(q / lambda) to ``out``."""
    max_q = -math.inf
    for a in range(len(q)):
        if w[a] > 0.0 and q[a] > max_q:
            max_q = q[a]
    exp_sum = 0.0
    for a in range(len(q)):
        out[a] = w[a] * math.exp((q[a] - max_q) / t) if w[a] > 0.0 else 0.0
        exp_sum += out[a]
    for a in range(len(q)):
        out[a] = out[a] / exp_sum


def kl_omega(p: Vector, w: Vector, t: float) -> float:
    """Return lambda sum p log(p / mu) with mu = w / sum(w)."""
    divergence = 0.0
    prior_mass = 0.0
    for a in range(len(p)):
        prior_mass += w[a]
    for a in range(len(p)):
        if p[a] > 0.0:
            divergence += p[a] * math.log(p[a] * prior_mass / w[a])
    return t * divergence


@dataclass(frozen=True)
class KL(LogSumExp):
    """Relative entropy to a prior: F = lambda log sum mu exp(Q / lambda).

    It is mellowmax without a prior. Where a state has fewer legal actions, the
    prior is renormalized over them, so F(0) = 0 in every state.
    """

    prior: tuple[float, ...] | None = None
    name = "kl"
    code = 1
    entropic = True
    uniform_at_zero = False
    weighted = True
    scalar = Scalar(kl_value, kl_gradient, kl_omega)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior is None:
            return
        prior = tuple(float(p) for p in self.prior)
        if not prior or not all(0.0 < p < math.inf for p in prior):
            raise InvalidInput(
                f"KL needs a prior of positive weights, got {prior}; an action "
                "that must not be taken belongs in legal=."
            )
        prior_mass = sum_in_order(prior)
        object.__setattr__(self, "prior", tuple(p / prior_mass for p in prior))

    @property
    def has_prior(self) -> bool:  # noqa: D102
        return self.prior is not None

    def weights(self, num_actions: int) -> list[float]:  # noqa: D102
        if self.prior is None:
            return [1.0] * num_actions
        if len(self.prior) != num_actions:
            raise InvalidInput(
                f"KL's prior has {len(self.prior)} weights for {num_actions} "
                "actions; give one weight per action."
            )
        return list(self.prior)

    def offset(self, num_actions: int) -> float:  # noqa: D102
        return 0.0

    def offset_range(self, fewest: int, most: int) -> Interval:  # noqa: D102
        return 0.0, 0.0

    def curvature(self, num_actions: int) -> float:  # noqa: D102
        return 1.0 / self.temperature if num_actions > 1 else 0.0

    def smoothness(self, num_actions: int) -> float:  # noqa: D102
        return 1.0 / self.temperature

    def omega_range(self, num_actions: int) -> tuple[float, float]:  # noqa: D102
        weights = self.weights(num_actions)
        return 0.0, -self.strength * math.log(min(weights) / sum_in_order(weights))

    def omega_width(self, num_actions: int) -> float:
        """Return lambda log(1 / min mu) over the whole prior.

        The number of actions does not matter: schedules need the width for any
        number up to all of them.
        """
        rarity = num_actions if self.prior is None else 1.0 / min(self.prior)
        return self.strength * math.log(rarity)

    def batch(self, q: Floats, w: Floats) -> tuple[Floats, Floats]:  # noqa: D102
        t, max_q = self.strength, q.max(axis=0)
        g = np.exp((q - max_q) / t)
        g *= w[:, None]
        exp_sum = g.sum(axis=0)
        g /= exp_sum
        exp_sum = exp_sum / np.where(q > -np.inf, w[:, None], 0.0).sum(axis=0)
        return max_q + t * np.log(exp_sum), g

    def omega_rows(self, p: Floats, w: Floats) -> Floats:  # noqa: D102
        log_p = np.log(np.where(p > 0.0, p, 1.0))
        prior = w / np.maximum(w.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        omega_values: Floats = self.strength * np.sum(
            p * (log_p - np.log(np.where(prior > 0.0, prior, 1.0))), axis=1
        )
        return omega_values
