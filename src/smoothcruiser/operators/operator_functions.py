"""Functions of an operator that ``dispatch`` does not list, for compiled loops.

Engines use them in place of the built-in ones.

A machine compiled so is the operator's own. It is kept for the process and not
on disk, where only the sources of this package are followed.

Operators as JSON data: their name and their fields.

An operator of the user's own is code, which JSON cannot hold: only its name is written,
and reading it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from smoothcruiser.errors import InvalidInput, SmoothcruiserError, describe_value
from smoothcruiser.jit.build import compile_function, is_compiled
from smoothcruiser.operators.base import Operator, Scalar, Vector
from smoothcruiser.operators.dispatch import uniform_blind
from smoothcruiser.operators.max import max_gradient, max_omega, max_value
from smoothcruiser.records.json_shapes import DataclassShape
from smoothcruiser.records.shapes import misfit_error

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


def parts_of(operator: Operator, *, omega: bool = False) -> OperatorParts | None:
    """The operator's own functions; None where those of ``dispatch`` serve it.

    They are compiled here, before they are put into a loop: a fault of theirs would
    otherwise be taken for one of the loop or of the oracle in it. Omega is compiled
    only if the caller needs it (``omega``).
    """
    if operator.built_in:
        return None
    scalar = _compiled_scalar(operator, omega and operator.has_omega)
    if scalar is None:
        return _plain_parts(operator)
    gradient = compile_function(own_gradient, GRADIENT=scalar.gradient)
    return OperatorParts(
        value=compile_function(own_value, VALUE=scalar.value),
        gradient=gradient,
        both=compile_function(own_both, VALUE=scalar.value, GRADIENT=scalar.gradient),
        omega=compile_function(own_omega, OMEGA=scalar.omega)
        if operator.has_omega
        else None,
        blind=compile_function(uniform_blind)
        if operator.uniform_at_zero
        else gradient,
        compiled=True,
    )


def _compiled_scalar(operator: Operator, omega: bool) -> Scalar | None:
    """Return ``operator.compiled_scalar()``, compiled for the types of every loop.

    So nothing is compiled twice. An error names the function that cannot be compiled.
    """
    failing_function = "its functions"
    try:
        scalar = operator.compiled_scalar()
        if scalar is None:
            return None
        from numba import float64

        array_type = float64[::1]
        policy_signature = (array_type, array_type, float64)
        signatures = {
            "value": policy_signature,
            "gradient": (*policy_signature, array_type),
        }
        if omega:
            signatures["omega"] = policy_signature
        for name, signature in signatures.items():
            failing_function = f"its {name}"
            scalar_function = getattr(scalar, name)
            if is_compiled(scalar_function):
                scalar_function.compile(signature)
    except SmoothcruiserError:
        raise
    except Exception as error:
        from smoothcruiser.jit.oracle import first_line

        raise InvalidInput(
            f"The operator {operator.name!r} ({type(operator).__name__}) cannot be "
            f"compiled, {failing_function}: {first_line(error)} Write it in Python "
            "that Numba can compile (math and loops), or use executor='python' where "
            "the method takes one."
        ) from error
    return scalar


def _plain_parts(operator: Operator) -> OperatorParts:
    """Return the functions of ``parts_of`` in plain Python."""
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


OperatorTable = Mapping[str, type[Operator]]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "temperature": {"type": "number"},
        "prior": {"anyOf": [{"type": "array"}, {"type": "null"}]},
    },
    "required": ["name"],
}


def operator_data(operator: Operator, operator_table: OperatorTable) -> dict[str, Any]:
    """The name and the fields of an operator; ``own`` marks one that is not listed."""
    if operator_table.get(operator.name) is not type(operator):
        return {"name": operator.name, "own": True}
    field_data: dict[str, Any] = DataclassShape(type(operator)).data(operator)
    return {"name": operator.name, **field_data}


def operator_from(data: Any, where: str, operator_table: OperatorTable) -> Operator:
    """The operator that ``operator_data`` wrote."""
    if not isinstance(data, Mapping):
        raise misfit_error(where, "an object with the name of an operator", data)
    name = data.get("name")
    if data.get("own") or not isinstance(name, str) or name not in operator_table:
        raise InvalidInput(
            f"{where} must be one of {', '.join(operator_table)}, got "
            f"{describe_value(name)}: an operator of one's own is code, which JSON cannot "
            "hold; give facts=problem.facts."
        )
    cls = operator_table[name]
    field_values = DataclassShape(cls).arguments(data, where)
    operator = cls(**field_values)
    for data_field in fields(operator):
        # weights that were scaled to 1 before may lose a last bit when they are again
        if data_field.name in field_values and _is_near(
            getattr(operator, data_field.name), field_values[data_field.name]
        ):
            object.__setattr__(
                operator, data_field.name, field_values[data_field.name]
            )
    return operator


def _is_near(scaled_weights: Any, written_weights: Any) -> bool:
    if not isinstance(written_weights, tuple):
        return False
    return all(
        abs(x - y) <= 1e-12
        for x, y in zip(scaled_weights, written_weights, strict=True)
    )
