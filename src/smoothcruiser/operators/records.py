"""Operators as JSON data: their name and their fields.

An operator of the user's own is code, which JSON cannot hold: only its name is written,
and reading it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from smoothcruiser.errors import InvalidInput, describe_value
from smoothcruiser.operators.base import Operator
from smoothcruiser.records.fields import DataclassShape
from smoothcruiser.records.shapes import misfit_error

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
            object.__setattr__(operator, data_field.name, field_values[data_field.name])
    return operator


def _is_near(scaled_weights: Any, written_weights: Any) -> bool:
    if not isinstance(written_weights, tuple):
        return False
    return all(
        abs(x - y) <= 1e-12
        for x, y in zip(scaled_weights, written_weights, strict=True)
    )
