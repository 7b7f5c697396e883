"""Functions of an operator that ``dispatch`` does not list, for compiled loops.

Engines use them in place of the built-in ones.

A machine compiled so is the operator's own. It is kept for the process and not
on disk, where only the sources of this package are followed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from smoothcruiser.jit.build import compiled
from smoothcruiser.operators.base import Operator, Vector
from smoothcruiser.operators.dispatch import uniform_blind
from smoothcruiser.operators.max import max_gradient, max_omega, max_value

# replaced by the operator's own
VALUE, GRADIENT, OMEGA = max_value, max_gradient, max_omega


class OperatorParts(NamedTuple):
    """The functions of ``dispatch`` for one operator, with their arguments."""

    value: Any
    gradient: Any
    both: Any
    omega: Any
    blind: Any
    compiled: bool  # or plain Python, where a user's functions are


def parts_of(operator: Operator) -> OperatorParts | None:
    """The operator's own functions; None where those of ``dispatch`` serve it."""
    if operator.built_in:
        return None
    scalar = operator.compiled_scalar()
    if scalar is None:
        return _plain(operator)
    gradient = compiled(own_gradient, GRADIENT=scalar.gradient)
    return OperatorParts(
        value=compiled(own_value, VALUE=scalar.value),
        gradient=gradient,
        both=compiled(own_both, VALUE=scalar.value, GRADIENT=scalar.gradient),
        omega=compiled(own_omega, OMEGA=scalar.omega) if operator.has_omega else None,
        blind=compiled(uniform_blind) if operator.uniform_at_zero else gradient,
        compiled=True,
    )


def _plain(operator: Operator) -> OperatorParts:
    """The same in plain Python."""
    scalar, strength = operator.scalar, operator.strength

    def value(code: int, q: Vector, w: Vector, t: float) -> float:
        return scalar.value(q, w, strength)

    def gradient(code: int, q: Vector, w: Vector, t: float, out: Vector) -> None:
        scalar.gradient(q, w, strength, out)

    def both(code: int, q: Vector, w: Vector, t: float, out: Vector) -> float:
        scalar.gradient(q, w, strength, out)
        return scalar.value(q, w, strength)

    def omega(code: int, p: Vector, w: Vector, t: float) -> float:
        return scalar.omega(p, w, strength)

    blind = uniform_blind if operator.uniform_at_zero else gradient
    return OperatorParts(value, gradient, both, omega, blind, compiled=False)


def own_value(code: int, q: Vector, w: Vector, t: float) -> float:
    """Return F(q) of the operator that was put in."""
    return VALUE(q, w, t)


def own_gradient(code: int, q: Vector, w: Vector, t: float, out: Vector) -> None:
    """Write its gradient to ``out``."""
    GRADIENT(q, w, t, out)


def own_both(code: int, q: Vector, w: Vector, t: float, out: Vector) -> float:
    """Write its gradient to ``out`` and return its value."""
    GRADIENT(q, w, t, out)
    return VALUE(q, w, t)


def own_omega(code: int, p: Vector, w: Vector, t: float) -> float:
    """Return its Omega(p)."""
    return OMEGA(p, w, t)
