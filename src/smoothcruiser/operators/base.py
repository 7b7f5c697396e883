"""Smooth Bellman operators: F(Q) = max over policies of <pi, Q> - Omega(pi), in
one definition for Python and compiled code.

legend      symbol   public name
  Q, q               action values over the k legal actions of a state (a list or an array of length k)
  lambda    t        ``temperature``
  mu        w        prior weights of those actions (KL only; renormalized over the legal actions)
  F(0)               ``offset(k)``
  curv               ``curvature(k)``: D(Q, Q') <= curv * span(Q - Q')**2 / 8
  L                  ``smoothness(k)``: |D(Q, Q')| <= L * norm2(Q - Q')**2, the paper's definition (its printed value for entropy)

The arithmetic is in ``operator_functions``, shared with compiled code. The min
player has F_min(Q) = -F(-Q); its policy is the gradient of F at -Q. What this
file leaves out: how errors propagate (``theory``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators.functions import (
    CUSTOM,
    ENTROPY,
    KL_PRIOR,
    MAX,
    SPARSEMAX,
    SQUARE_ROOT,
    builtin_gradient,
    builtin_value,
)

# --- the operators as data ----------------------------------------------------


def _check_temperature(name: str, temperature: float) -> None:
    # Below 1e-300 lambda/2 and its quotients leave the normal numbers; every
    # operator is plain max long before.
    if (
        isinstance(temperature, bool)
        or not isinstance(temperature, int | float)
        or not (1e-300 <= temperature < math.inf)
    ):
        raise InvalidInput(
            f"{name} needs a finite temperature above 0, got {temperature!r}; for "
            "plain max/min use Max()."
        )


@dataclass(frozen=True)
class Operator(ABC):
    """A smooth maximum F with its gradient, constants and min-player form.
    Frozen data; final subclasses below.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The operator's name on the command line."""

    @property
    @abstractmethod
    def code(self) -> int:
        """Which of the built-in functions computes it (``CUSTOM`` for a user's own)."""

    @property
    def strength(self) -> float:
        """The temperature, 0 for Max: how far F may lie above the plain maximum."""
        return 0.0

    @property
    def label(self) -> str:
        """Name and temperature, for people: "entropy(0.1)", "max"."""
        return (
            self.name
            if self.code in (MAX, CUSTOM)
            else f"{self.name}({self.strength:g})"
        )

    @abstractmethod
    def offset(self, num_actions: int) -> float:
        """F(0) over ``num_actions`` actions."""

    @abstractmethod
    def curvature(self, num_actions: int) -> float:
        """A number curv with D(Q, Q') <= curv * span(Q - Q')**2 / 8 over at
        most ``num_actions`` actions.
        """

    @abstractmethod
    def smoothness(self, num_actions: int) -> float:
        """The paper's L over at most ``num_actions`` actions, as printed for
        entropy.
        """

    @property
    def shift_invariant(self) -> bool:
        """Whether F(Q + c) = F(Q) + c, so that gradients are probability vectors."""
        return True

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
        return sign * builtin_value(
            self.code, [sign * float(x) for x in q], w, self.strength
        )

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
        builtin_gradient(self.code, [sign * float(x) for x in q], w, self.strength, out)
        return out


def has_prior(operator: Operator) -> bool:
    """Whether the operator prefers some actions before anything is known of
    their values.
    """
    return getattr(operator, "prior", None) is not None


def _sign(player: int) -> float:
    if player not in (1, 2):
        raise InvalidInput(f"A player is 1 (max) or 2 (min), got {player!r}.")
    return 1.0 if player == 1 else -1.0


@dataclass(frozen=True)
class Entropy(Operator):
    """Shannon entropy: F = lambda log sum exp(Q / lambda), softmax policy. The
    paper's operator.
    """

    temperature: float
    name = "entropy"
    code = ENTROPY

    def __post_init__(self) -> None:
        _check_temperature("Entropy", self.temperature)

    @property
    def strength(self) -> float:  # noqa: D102
        return float(self.temperature)

    def offset(self, num_actions: int) -> float:  # noqa: D102
        return self.temperature * math.log(num_actions)

    def curvature(self, num_actions: int) -> float:  # noqa: D102
        return 1.0 / self.temperature if num_actions > 1 else 0.0

    def smoothness(self, num_actions: int) -> float:  # noqa: D102
        return 1.0 / self.temperature


@dataclass(frozen=True)
class KL(Operator):
    """Relative entropy to a prior: F = lambda log sum mu exp(Q / lambda).
    Mellowmax without a prior.

    Where a state has fewer legal actions, the prior is renormalized over them,
    so F(0) = 0 in every state.
    """

    temperature: float
    prior: tuple[float, ...] | None = None
    name = "kl"
    code = KL_PRIOR

    def __post_init__(self) -> None:
        _check_temperature("KL", self.temperature)
        if self.prior is None:
            return
        prior = tuple(float(p) for p in self.prior)
        if not prior or not all(0.0 < p < math.inf for p in prior):
            raise InvalidInput(
                f"KL needs a prior of positive weights, got {prior}; an action "
                "that must not be taken belongs in legal=."
            )
        total = sum(prior)
        object.__setattr__(self, "prior", tuple(p / total for p in prior))

    @property
    def strength(self) -> float:  # noqa: D102
        return float(self.temperature)

    def weights(self, num_actions: int) -> list[float]:  # noqa: D102
        if self.prior is None:
            return [1.0] * num_actions
        if len(self.prior) != num_actions:
            raise InvalidInput(
                f"KL's prior has {len(self.prior)} weights for {num_actions} "
                "actions; give one weight an action."
            )
        return list(self.prior)

    def offset(self, num_actions: int) -> float:  # noqa: D102
        return 0.0

    def curvature(self, num_actions: int) -> float:  # noqa: D102
        return 1.0 / self.temperature if num_actions > 1 else 0.0

    def smoothness(self, num_actions: int) -> float:  # noqa: D102
        return 1.0 / self.temperature


@dataclass(frozen=True)
class Sparsemax(Operator):
    """Tsallis entropy: Omega = (lambda/2)(|pi|^2 - 1); the policy is a
    projection and may drop actions.
    """

    temperature: float
    name = "sparsemax"
    code = SPARSEMAX

    def __post_init__(self) -> None:
        _check_temperature("Sparsemax", self.temperature)

    @property
    def strength(self) -> float:  # noqa: D102
        return float(self.temperature)

    def offset(self, num_actions: int) -> float:  # noqa: D102
        return 0.5 * self.temperature * (1.0 - 1.0 / num_actions)

    def curvature(self, num_actions: int) -> float:  # noqa: D102
        return num_actions / self.temperature if num_actions > 1 else 0.0

    def smoothness(self, num_actions: int) -> float:
        """1/(2 lambda): the gradient is a projection over lambda, hence
        1/lambda-Lipschitz.
        """
        return 0.5 / self.temperature


@dataclass(frozen=True)
class SquareRoot(Operator):
    """The paper's appendix: Omega = -lambda sum sqrt(pi); its policy resembles
    the pulls of UCB.
    """

    temperature: float
    name = "square-root"
    code = SQUARE_ROOT

    def __post_init__(self) -> None:
        _check_temperature("SquareRoot", self.temperature)

    @property
    def strength(self) -> float:  # noqa: D102
        return float(self.temperature)

    def offset(self, num_actions: int) -> float:  # noqa: D102
        return self.temperature * math.sqrt(num_actions)

    def curvature(self, num_actions: int) -> float:  # noqa: D102
        return 4.0 / self.temperature if num_actions > 1 else 0.0

    def smoothness(self, num_actions: int) -> float:
        """1/lambda: the Hessian is (sum h) Cov_w with sum h <= 4/lambda, and a
        variance is at most norm2**2 / 2.
        """
        return 1.0 / self.temperature


@dataclass(frozen=True)
class Max(Operator):
    """Plain maximum (minimum for player 2): no regularization."""

    name = "max"
    code = MAX

    def offset(self, num_actions: int) -> float:  # noqa: D102
        return 0.0

    def curvature(self, num_actions: int) -> float:  # noqa: D102
        return math.inf if num_actions > 1 else 0.0

    def smoothness(self, num_actions: int) -> float:  # noqa: D102
        return math.inf if num_actions > 1 else 0.0


@dataclass(frozen=True)
class CustomOperator(Operator):
    """A user's own F: ``value(q) -> float`` and ``gradient(q) -> k numbers``,
    plain Python or ``numba.njit``.

    The paper's conditions (section "Generalization"): differentiable, 0 <
    |grad|_1 <= 1, grad >= 0, L-smooth. Gradients need not sum to one.
    ``check_operator`` tests the four numerically. ``smooth`` is L in |D| <= L
    norm2**2. Where gradients sum to one, Q - Q' may be centred, so norm2**2 <=
    k span**2 / 4 and D <= k L span**2 / 4: curv = 2 k L.
    """

    value_function: Callable[[Any], float]
    gradient_function: Callable[[Any], Any]
    smooth: float
    label: str = "custom"
    sums_to_one: bool = field(default=False)
    code = CUSTOM

    def __post_init__(self) -> None:
        if not callable(self.value_function) or not callable(self.gradient_function):
            raise InvalidInput(
                "CustomOperator needs two functions of q, the value and the "
                "gradient; got something that cannot be called."
            )
        if not (0.0 <= self.smooth < math.inf):
            raise InvalidInput(
                f"CustomOperator needs a finite smoothness L >= 0, got {self.smooth!r}."
            )

    @property
    def name(self) -> str:  # noqa: D102
        return self.label

    @property
    def shift_invariant(self) -> bool:  # noqa: D102
        return self.sums_to_one

    def value(
        self,
        q: Sequence[float],
        *,
        player: int = 1,
        weights: Sequence[float] | None = None,
    ) -> float:
        """F(q) as the user's function computes it."""
        sign = _sign(player)
        return sign * float(self.value_function(_array([sign * float(x) for x in q])))

    def gradient(
        self,
        q: Sequence[float],
        *,
        player: int = 1,
        weights: Sequence[float] | None = None,
    ) -> list[float]:
        """Grad F(q) as the user's function computes it."""
        sign = _sign(player)
        return [
            float(g)
            for g in self.gradient_function(_array([sign * float(x) for x in q]))
        ]

    def offset(self, num_actions: int) -> float:  # noqa: D102
        return float(self.value_function(_array([0.0] * num_actions)))

    def curvature(self, num_actions: int) -> float:  # noqa: D102
        return 2.0 * num_actions * self.smooth

    def smoothness(self, num_actions: int) -> float:  # noqa: D102
        return self.smooth


def _array(q: list[float]) -> Any:
    import numpy as np

    return np.array(q, dtype=np.float64)


OPERATORS: dict[str, type[Operator]] = {
    "entropy": Entropy,
    "kl": KL,
    "sparsemax": Sparsemax,
    "square-root": SquareRoot,
    "max": Max,
}


def make_operator(name: str, temperature: float | None) -> Operator:
    """The operator called ``name`` at ``temperature``; temperature 0 is Max for
    every name.
    """
    if name not in OPERATORS:
        raise InvalidInput(
            f"Unknown operator {name!r}; choose one of {', '.join(OPERATORS)}."
        )
    if name == "max" or temperature == 0:
        return Max()
    if temperature is None:
        raise InvalidInput(
            f"The {name} operator needs a temperature above 0; give --temperature "
            "(temperature=)."
        )
    kinds: dict[str, Callable[[float], Operator]] = {
        "entropy": Entropy,
        "kl": KL,
        "sparsemax": Sparsemax,
        "square-root": SquareRoot,
    }
    return kinds[name](temperature)
