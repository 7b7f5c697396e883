"""Smooth Bellman operators: F(Q) = max over policies of <pi, Q> - Omega(pi).

legend      symbol   public name
  Q, q               action values over the k legal actions of a state
  lambda    t        ``temperature``
  mu        w        prior weights of those actions (KL only; renormalized)
  F(0)               ``offset(k)``
  curv               ``curvature(k)``: D(Q, Q') <= curv * span(Q - Q')**2 / 8
  L                  ``smoothness(k)``: |D(Q, Q')| <= L * norm2(Q - Q')**2, the
                     paper's definition (its printed value for entropy)
  Omega              ``omega(p, w)``; ``omega_range(k)`` is where it lies
  D(Q, Q')           F(Q) - F(Q') - <Q - Q', grad F(Q')>

An operator is one file of this folder: a frozen class with these numbers, three
scalar functions that Python and compiled code share (``Scalar``), and, where
speed requires it, the same over arrays (``batch``, ``omega_rows``). Other
modules use the object; only compiled code knows operators by a number
(``code``, see ``dispatch``). The min player has F_min(Q) = -F(-Q); its policy
is the gradient of F at -Q. This file leaves out how errors propagate
(``theory``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import compile_function
from smoothcruiser.operators.outward import Interval, widen_interval

# a list of floats in Python, a float64 array in compiled code
Vector = MutableSequence[float]
Floats = NDArray[np.float64]

# the code of every operator that ``dispatch`` does not list
OWN = -1

UNIT = 2.0**-52  # twice the unit roundoff of float64


def value_rounding(size: int, scale: float, temperature: float) -> float:
    """Return how far F over ``size`` actions with |Q| <= ``scale`` may be rounded.

    The proof is in docs/certified.md, section 4.
    """
    return UNIT * (
        16.0 * (size + 2) * scale + (2.0 * size * size + 16.0) * temperature
    )


class Scalar(NamedTuple):
    """An operator's functions over the k legal actions of a state, for the max player.

    They are plain Python that Numba can compile. Scalar arithmetic has a fixed
    order (``math.exp/log/sqrt``, sequential sums), so that the interpreter and
    compiled code return the same bits.
    """

    value: Callable[[Any, Any, float], float]  # (q, w, t) -> F(q)
    gradient: Callable[[Any, Any, float, Any], None]  # (q, w, t, out): into out
    omega: Callable[[Any, Any, float], float]  # (p, w, t) -> Omega(p)


@dataclass(frozen=True)
class Operator(ABC):
    """A smooth maximum F with its gradient, constants and min-player form.

    It is frozen data, and its subclasses are final.
    """

    code: ClassVar[int] = OWN
    # whether F is convex, so that D >= 0
    convex: ClassVar[bool] = True
    # whether F(Q) = max <pi, Q> - Omega(pi) for an Omega that can be computed
    has_omega: ClassVar[bool] = True
    # Whether blind policies treat all actions alike: grad F(0) is uniform for every
    # object of the class (for Max, the uniform policy is among its subgradients).
    uniform_at_zero: ClassVar[bool] = True
    # whether F reads the prior weights
    weighted: ClassVar[bool] = False
    # Whether F = lambda log sum mu exp(Q / lambda). The Hessian is then a covariance
    # under grad F over lambda, and the noise lemmas of ``theory`` are sharper.
    entropic: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The operator's name on the command line."""

    @property
    @abstractmethod
    def scalar(self) -> Scalar:
        """The functions that define it."""

    def compiled_scalar(self) -> Scalar | None:
        """``scalar`` as Numba functions; None where it runs in Python alone."""
        return Scalar(*(compile_function(function) for function in self.scalar))

    @classmethod
    def at(cls, temperature: float | None) -> Self:
        """Return the operator at a temperature, as the command line builds it."""
        if temperature is None:
            raise InvalidInput(
                f"The {cls.name} operator needs a temperature above 0; give "
                "temperature=."
            )
        return cls(temperature)  # type: ignore[call-arg]  # its first field

    @property
    def built_in(self) -> bool:
        """Whether the operator is one of this package, with proved promises."""
        return self.code != OWN

    @property
    def strength(self) -> float:
        """The temperature, 0 for Max: how far F may lie above the plain maximum."""
        return 0.0

    @property
    def label(self) -> str:
        """Name and temperature, for people: "entropy(0.1)", "max"."""
        return f"{self.name}({self.strength:g})" if self.strength > 0.0 else self.name

    @abstractmethod
    def offset(self, num_actions: int) -> float:
        """F(0) over ``num_actions`` actions."""

    def offset_bounds(self, num_actions: int) -> Interval:
        """Return floats between which the exact F(0) lies.

        Here they leave a margin for the rounding of F. An operator with a formula for
        F(0) has nearer ones.
        """
        rounding_error = value_rounding(
            num_actions, 0.0, self.rounding_scale(num_actions)
        )
        offset = self.offset(num_actions)
        return widen_interval(
            (offset, offset), rounding_error if offset != 0.0 else 0.0
        )

    def offset_range(self, fewest: int, most: int) -> Interval:
        """Return bounds of F(0) over all numbers of legal actions between the two."""
        offset_intervals = [self.offset_bounds(k) for k in range(fewest, most + 1)]
        return min(lower_end for lower_end, _ in offset_intervals), max(
            upper_end for _, upper_end in offset_intervals
        )

    @abstractmethod
    def curvature(self, num_actions: int) -> float:
        """Return a number curv with D(Q, Q') <= curv * span(Q - Q')**2 / 8.

        It holds for at most ``num_actions`` actions.
        """

    @abstractmethod
    def smoothness(self, num_actions: int) -> float:
        """Return the paper's L for at most ``num_actions`` actions.

        For entropy it is the printed value.
        """

    @abstractmethod
    def omega_range(self, num_actions: int) -> tuple[float, float]:
        """Return the smallest and the largest Omega over all policies.

        The policies have at most ``num_actions`` actions. The numbers are
        infinite where nothing is known. F(Q) - max Q lies in [-largest,
        -smallest], because Omega is convex: its largest value is at a single
        action.
        """

    def omega_width(self, num_actions: int) -> float:
        """Return the width of ``omega_range``, which is sup D(0, .).

        This is the drop: how far -Omega can lie below F(0).
        """
        omega_min, omega_max = self.omega_range(num_actions)
        return omega_max - omega_min

    def policy_bend(self) -> float:
        """Return a number b that bounds second differences of the policy.

        |pi(q) - pi(q - d)/2 - pi(q + d)/2|_1 <= b span(2 d)**2 for pi = grad F. It is
        infinite where no such number is known (docs/randomized.md, R2).
        """
        return math.inf

    def strong_convexity(self) -> float:
        """Return a c such that Omega is c-strongly convex in the Euclidean norm.

        The Hessian of F is then at most 1/c. It is 0 where no c is known that
        says more than ``curvature``.
        """
        return 0.0

    def rounding_scale(self, num_actions: int) -> float:
        """Return the scale of the rounding error of F, beside the size of Q."""
        return self.strength

    @property
    def shift_invariant(self) -> bool:
        """Whether F(Q + c) = F(Q) + c, so that gradients are probability vectors."""
        return True

    @property
    def has_prior(self) -> bool:
        """Whether the operator prefers some actions before their values are known."""
        return False

    def weights(self, num_actions: int) -> list[float]:
        """Prior weights of the actions, all 1 where the operator has none."""
        return [1.0] * num_actions

    def value(
        self,
        q: Sequence[float],
        *,
        player: int = 1,
        weights: Sequence[float] | None = None,
    ) -> float:
        """F(q) for the max player (1), -F(-q) for the min player (2)."""
        sign = _sign(player)
        w = self.weights(len(q)) if weights is None else list(weights)
        return sign * self.scalar.value([sign * float(x) for x in q], w, self.strength)

    def gradient(
        self,
        q: Sequence[float],
        *,
        player: int = 1,
        weights: Sequence[float] | None = None,
    ) -> list[float]:
        """The policy of ``player`` at action values ``q``."""
        sign = _sign(player)
        w = self.weights(len(q)) if weights is None else list(weights)
        out = [0.0] * len(q)
        self.scalar.gradient([sign * float(x) for x in q], w, self.strength, out)
        return out

    def value_bounds(
        self,
        low: Sequence[float],
        high: Sequence[float],
        *,
        player: int = 1,
        weights: Sequence[float] | None = None,
    ) -> Interval:
        """Return floats between which F lies wherever Q lies between low and high.

        F is monotone; the ends leave a margin for the rounding of its two values.
        """
        end_values = (
            self.value(low, player=player, weights=weights),
            self.value(high, player=player, weights=weights),
        )
        largest_q = max(abs(x) for x in (*low, *high))
        return widen_interval(end_values, self.value_error(len(low), largest_q))

    def value_error(self, num_actions: int, scale: float) -> float:
        """Return how far ``value`` may be off where |Q| <= ``scale``."""
        return value_rounding(num_actions, scale, self.rounding_scale(num_actions))

    def both(self, q: Vector, w: Vector) -> tuple[float, list[float]]:
        """Return (F(q), its gradient) for the max player, as a rollout needs them.

        It leaves out the checks of ``value`` and ``gradient``.
        """
        scalar, out = self.scalar, [0.0] * len(q)
        scalar.gradient(q, w, self.strength, out)
        return scalar.value(q, w, self.strength), out

    def blind(self, w: Sequence[float]) -> list[float]:
        """Return the policy where nothing is known of the values: grad F(0).

        ``w`` are the prior weights of the legal actions. The policy is uniform
        for Max.
        """
        if self.uniform_at_zero:
            return [1.0 / len(w)] * len(w)
        return self.gradient([0.0] * len(w), weights=w)

    def omega(self, p: Sequence[float], w: Sequence[float]) -> float:
        """Omega of a policy over the legal actions, which have prior weights ``w``."""
        return self.scalar.omega(p, w, self.strength)

    def batch(self, q: Floats, w: Floats) -> tuple[Floats, Floats]:
        """Return (F, gradient) of shapes (n,) and (K, n) at action values (K, n).

        They are for the max player; ``w`` (K,) are the prior weights. Columns
        are states, so that every reduction runs along memory. An action that is
        not legal has q = -inf and gets weight 0. This default works column by
        column. Operators with an array form use NumPy's exp and log, which differ in
        their last bits: the batched executor agrees with the others in law and in
        counts, not in bits.
        """
        value, g = np.empty(q.shape[1]), np.zeros_like(q)
        for i in range(q.shape[1]):
            legal_actions = np.flatnonzero(q[:, i] > -np.inf)
            legal_values, legal_weights = (
                q[legal_actions, i].tolist(),
                w[legal_actions].tolist(),
            )
            value[i] = self.value(legal_values, weights=legal_weights)
            g[legal_actions, i] = self.gradient(legal_values, weights=legal_weights)
        return value, g

    def omega_rows(self, p: Floats, w: Floats) -> Floats:
        """Return Omega (n,) of policies (n, K), one per row.

        Actions that are not legal have p = 0 and w = 0.
        """
        return np.array(
            [
                self.omega(policy[legal_mask].tolist(), prior[legal_mask].tolist())
                for policy, prior, legal_mask in zip(p, w, w > 0.0, strict=True)
            ]
        )


@dataclass(frozen=True)
class TemperedOperator(Operator):
    """An operator with a temperature lambda above 0."""

    temperature: float

    def __post_init__(self) -> None:
        # Below 1e-300 lambda/2 and its quotients leave the normal numbers; every
        # operator is plain max long before.
        t = self.temperature
        if (
            isinstance(t, bool)
            or not isinstance(t, int | float)
            or not (1e-300 <= t < math.inf)
        ):
            raise InvalidInput(
                f"{type(self).__name__} needs a finite temperature above 0, got "
                f"{t!r}; for plain max/min use Max()."
            )

    @property
    def strength(self) -> float:  # noqa: D102
        return float(self.temperature)


def _sign(player: int) -> float:
    if player not in (1, 2):
        raise InvalidInput(f"A player is 1 (max) or 2 (min), got {player!r}.")
    return 1.0 if player == 1 else -1.0
