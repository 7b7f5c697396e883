"""A user's own operator, from two functions: its value and its gradient.

For an operator with constants of its own, a regularizer Omega or a temperature,
write a class as the other files of this folder do (docs/extending.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import compile_function, is_compiled
from smoothcruiser.operators.base import Operator, Scalar


def VALUE(q: Any) -> float:
    """Stand for the user's value function, which replaces it."""
    raise NotImplementedError


def GRADIENT(q: Any) -> Any:
    """Stand for the user's gradient function, which replaces it."""
    raise NotImplementedError


def custom_value(q: Any, w: Any, t: float) -> float:
    """Return a user's F at ``q``, with the arguments of the other operators.

    The function gets a copy, so that it may write to it.
    """
    return float(VALUE(q.copy()))


def custom_gradient(q: Any, w: Any, t: float, out: Any) -> None:
    """Write a user's gradient to ``out``, with the arguments of the other operators."""
    user_gradient = GRADIENT(q.copy())
    for a in range(len(q)):
        out[a] = user_gradient[a]


@dataclass(frozen=True)
class CustomOperator(Operator):
    """A user's own F: ``value(q) -> float`` and ``gradient(q) -> k numbers``.

    The functions are plain Python or ``numba.njit``. The paper's conditions
    (section "Generalization") are: differentiable, 0 < |grad|_1 <= 1,
    grad >= 0, L-smooth. Gradients need not sum to one. ``check_operator`` tests
    them numerically. ``smooth`` is L in |D| <= L norm2**2. Where gradients
    sum to one, Q - Q' may be centred, so norm2**2 <= k span**2 / 4 and D <= k L
    span**2 / 4: curv = 2 k L.
    """

    value_function: Callable[[Any], float]
    gradient_function: Callable[[Any], Any]
    smooth: float
    label: str = "custom"
    sums_to_one: bool = field(default=False)
    # a user promises smoothness and nothing else
    convex = False
    has_omega = False
    uniform_at_zero = False

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
    def scalar(self) -> Scalar:  # noqa: D102
        return Scalar(self._value, self._gradient, self._omega)

    def compiled_scalar(self) -> Scalar | None:  # noqa: D102
        value, gradient = self.value_function, self.gradient_function
        if not (is_compiled(value) and is_compiled(gradient)):
            return None
        return Scalar(
            compile_function(custom_value, VALUE=value),
            compile_function(custom_gradient, GRADIENT=gradient),
            self._omega,
        )

    def _value(self, q: Any, w: Any, t: float) -> float:
        return float(self.value_function(np.array(q, dtype=np.float64)))

    def _gradient(self, q: Any, w: Any, t: float, out: Any) -> None:
        # As many numbers as the user's function returns. A wrong count is reported by
        # the caller that needs one per action.
        user_gradient = self.gradient_function(np.array(q, dtype=np.float64))
        out[:] = [float(g) for g in user_gradient]

    def _omega(self, p: Any, w: Any, t: float) -> float:
        raise InvalidInput(
            f"The operator {self.name!r} gives no regularizer Omega; use a built-in "
            "operator."
        )

    @property
    def shift_invariant(self) -> bool:  # noqa: D102
        return self.sums_to_one

    def offset(self, num_actions: int) -> float:  # noqa: D102
        return self._value([0.0] * num_actions, None, 0.0)

    def curvature(self, num_actions: int) -> float:  # noqa: D102
        return 2.0 * num_actions * self.smooth

    def smoothness(self, num_actions: int) -> float:  # noqa: D102
        return self.smooth

    def omega_range(self, num_actions: int) -> tuple[float, float]:
        """Return infinite ends, because nothing is known of a user's Omega."""
        return -math.inf, math.inf

    def rounding_scale(self, num_actions: int) -> float:
        """Return |F(0)|.

        It is an assumption that the user's functions round as well as the
        built-in ones.
        """
        return abs(self.offset(num_actions))
