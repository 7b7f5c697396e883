"""Shapes: values of a declared type, written as JSON data, read again, and described.

A shape does all three: it writes (``data``), reads (``value``) and gives the JSON Schema
(``schema``), so that the three agree. ``Count`` is a whole number of any size: it and
states (``states.state_json``) write more than one name. A value that does not fit is refused
in a sentence with the required and the actual value. This file leaves out classes with
fields, and the table of types and shapes (``records.json_shapes``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from smoothcruiser.errors import InvalidInput, describe_value
from smoothcruiser.states.state_json import (
    LARGEST_COUNT,
    NOT_FINITE,
    count_data,
    hex_name,
    log_name,
    number_data,
    state_data,
    state_from,
)

Count = Annotated[int, "a whole number of any size"]
Schema = dict[str, Any]
Definitions = dict[str, Schema]


def misfit_error(where: str, required: str, actual: object) -> InvalidInput:
    """The error of a value that does not fit."""
    return InvalidInput(f"{where} must be {required}, got {describe_value(actual)}.")


class Shape(ABC):
    """A type as JSON data."""

    @abstractmethod
    def data(self, value: Any) -> Any:
        """The value as JSON data."""

    @abstractmethod
    def value(self, data: Any, where: str) -> Any:
        """The value that JSON data stand for; ``where`` names them in an error."""

    @abstractmethod
    def schema(self, defs: Definitions) -> Schema:
        """The JSON Schema of the data; classes are described in ``defs``."""

    # a field of an object; most have their data under their name and nothing more

    def write_field(self, out: dict[str, Any], name: str, value: Any) -> None:
        """Put a field into an object."""
        out[name] = self.data(value)

    def read_field(self, data: Mapping[str, Any], name: str, where: str) -> Any:
        """Take a field out of an object."""
        return self.value(data[name], f"{where}.{name}")

    def properties(self, name: str, defs: Definitions) -> dict[str, Schema]:
        """The properties of a field in the schema of an object."""
        return {name: self.schema(defs)}


@dataclass(frozen=True)
class Simple(Shape):
    """Texts, truth values and whole numbers."""

    type: type
    word: str  # of JSON Schema
    required: str

    def data(self, value: Any) -> Any:  # noqa: D102
        return self.type(value)

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        has_type = isinstance(data, self.type)
        if not has_type or (self.type is int and isinstance(data, bool)):
            raise misfit_error(where, self.required, data)
        return data

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        return {"type": self.word}


class Number(Shape):
    """A float; NaN is null."""

    def data(self, value: Any) -> Any:  # noqa: D102
        return number_data(value)

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        if data is None:
            return math.nan
        if isinstance(data, str) and data in NOT_FINITE:
            return NOT_FINITE[data]
        if not isinstance(data, int | float) or isinstance(data, bool):
            raise misfit_error(where, "a number, null for NaN, or 'Infinity'", data)
        try:
            return float(data)
        except OverflowError:
            raise misfit_error(
                where, "a number below 1.8e308", "a larger one"
            ) from None

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        defs["number"] = {
            "description": "A number; null is NaN, as of an illegal action.",
            "anyOf": [
                {"type": ["number", "null"]},
                {"enum": ["Infinity", "-Infinity"]},
            ],
        }
        return {"$ref": "#/$defs/number"}


@dataclass(frozen=True)
class Maybe(Shape):
    """A value or None, which is null."""

    inner: Shape

    def data(self, value: Any) -> Any:  # noqa: D102
        return None if value is None else self.inner.data(value)

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        return None if data is None else self.inner.value(data, where)

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        return {"anyOf": [self.inner.schema(defs), {"type": "null"}]}

    def write_field(self, out: dict[str, Any], name: str, value: Any) -> None:  # noqa: D102
        if value is not None:
            self.inner.write_field(out, name, value)
            return
        out[name] = None
        if isinstance(self.inner, Whole):
            out[log_name(name)] = None

    def read_field(self, data: Mapping[str, Any], name: str, where: str) -> Any:  # noqa: D102
        is_absent = data[name] is None and data.get(hex_name(name)) is None
        return None if is_absent else self.inner.read_field(data, name, where)

    def properties(self, name: str, defs: Definitions) -> dict[str, Schema]:  # noqa: D102
        return self.inner.properties(name, defs) | {name: self.schema(defs)}


class MaybeNumber(Shape):
    """A float or None: null is None, and NaN is a text."""

    def data(self, value: Any) -> Any:  # noqa: D102
        if value is None:
            return None
        return "NaN" if value != value else number_data(value)

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        return None if data is None else NUMBER.value(data, where)

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        return {"anyOf": [{"type": ["number", "null"]}, {"enum": list(NOT_FINITE)}]}


@dataclass(frozen=True)
class OneOf(Shape):
    """One of some texts or numbers."""

    members: tuple[Any, ...]

    def data(self, value: Any) -> Any:  # noqa: D102
        return value

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        if data not in self.members:
            raise misfit_error(
                where, f"one of {', '.join(map(repr, self.members))}", data
            )
        return data

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        return {"enum": list(self.members)}


@dataclass(frozen=True)
class Items(Shape):
    """A tuple of any length, all of one type."""

    inner: Shape

    def data(self, value: Any) -> Any:  # noqa: D102
        return [self.inner.data(element) for element in value]

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        if not isinstance(data, list | tuple):
            raise misfit_error(where, "a list", data)
        return tuple(
            self.inner.value(element, f"{where}[{i}]")
            for i, element in enumerate(data)
        )

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        return {"type": "array", "items": self.inner.schema(defs)}


@dataclass(frozen=True)
class Several(Shape):
    """A tuple of fixed length, each place with a type of its own."""

    inner: tuple[Shape, ...]

    def data(self, value: Any) -> Any:  # noqa: D102
        return [
            shape.data(element)
            for shape, element in zip(self.inner, value, strict=True)
        ]

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        if not isinstance(data, list | tuple) or len(data) != len(self.inner):
            raise misfit_error(where, f"a list of {len(self.inner)}", data)
        return tuple(
            shape.value(element, f"{where}[{i}]")
            for i, (shape, element) in enumerate(zip(self.inner, data, strict=True))
        )

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        num_items = len(self.inner)
        item_schemas = [shape.schema(defs) for shape in self.inner]
        return {
            "type": "array",
            "prefixItems": item_schemas,
            "minItems": num_items,
            "maxItems": num_items,
        }


@dataclass(frozen=True)
class Named(Shape):
    """A dict; keys that are whole numbers are written as texts."""

    key: type
    inner: Shape

    def data(self, value: Any) -> Any:  # noqa: D102
        return {str(key): self.inner.data(element) for key, element in value.items()}

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        if not isinstance(data, dict):
            raise misfit_error(where, "an object", data)
        try:
            return {
                self.key(name): self.inner.value(element, f"{where}.{name}")
                for name, element in data.items()
            }
        except ValueError as error:
            if isinstance(error, InvalidInput):
                raise
            raise misfit_error(
                where, "an object named by whole numbers", data
            ) from None

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        return {"type": "object", "additionalProperties": self.inner.schema(defs)}


class Array(Shape):
    """An array of floats, as lists of lists."""

    def data(self, value: Any) -> Any:  # noqa: D102
        array = np.asarray(value, dtype=np.float64)
        return (
            array.tolist()
            if np.isfinite(array).all()
            else _nested_data(array.tolist())
        )

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        if not isinstance(data, list | tuple):
            raise misfit_error(where, "a list of numbers, or of lists of them", data)
        try:
            return np.array(self._floats(data, where), dtype=np.float64)
        except ValueError as error:
            if isinstance(error, InvalidInput):
                raise
            raise misfit_error(where, "lists of equal lengths", data) from None

    def _floats(self, data: Any, where: str) -> Any:
        if isinstance(data, list | tuple):
            return [self._floats(x, f"{where}[{i}]") for i, x in enumerate(data)]
        return NUMBER.value(data, where)

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        number_schema = NUMBER.schema(defs)
        defs["numbers"] = {
            "description": "Numbers, or lists of them.",
            "type": "array",
            "items": {"anyOf": [number_schema, {"$ref": "#/$defs/numbers"}]},
        }
        return {"$ref": "#/$defs/numbers"}


def _nested_data(data: Any) -> Any:
    return (
        [_nested_data(x) for x in data]
        if isinstance(data, list)
        else number_data(data)
    )


class Whole(Shape):
    """A whole number of any size: a ``Count``."""

    def data(self, value: Any) -> Any:  # noqa: D102
        return int(value) if value <= LARGEST_COUNT else hex(value)

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        if isinstance(data, str):
            try:
                return int(data, 16)
            except ValueError:
                raise misfit_error(
                    where, "digits in base 16 such as '0x1f'", data
                ) from None
        return WHOLE.value(data, where)

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        return {"type": ["integer", "null"], "description": "null beyond 2**53"}

    def write_field(self, out: dict[str, Any], name: str, value: Any) -> None:  # noqa: D102
        out |= count_data(name, value)

    def read_field(self, data: Mapping[str, Any], name: str, where: str) -> Any:  # noqa: D102
        hex_digits = data.get(hex_name(name))
        raw_count = data[name] if hex_digits is None else hex_digits
        field_name = name if hex_digits is None else hex_name(name)
        return self.value(raw_count, f"{where}.{field_name}")

    def properties(self, name: str, defs: Definitions) -> dict[str, Schema]:  # noqa: D102
        return {
            name: self.schema(defs),
            log_name(name): {"type": ["number", "null"]},
            hex_name(name): {"type": "string", "pattern": "^0x[0-9a-f]+$"},
        }


class Wholes(Shape):
    """A tuple of ``Count``."""

    def data(self, value: Any) -> Any:  # noqa: D102
        return [int(x) if x <= LARGEST_COUNT else None for x in value]

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        return Items(Whole()).value(data, where)

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        return {"type": "array", "items": Whole().schema(defs)}

    def write_field(self, out: dict[str, Any], name: str, value: Any) -> None:  # noqa: D102
        out[name] = self.data(value)
        if None in out[name]:
            out[hex_name(name)] = [hex(x) for x in value]

    def read_field(self, data: Mapping[str, Any], name: str, where: str) -> Any:  # noqa: D102
        field_name = hex_name(name) if hex_name(name) in data else name
        return self.value(data[field_name], f"{where}.{field_name}")

    def properties(self, name: str, defs: Definitions) -> dict[str, Schema]:  # noqa: D102
        hex_schema = {"type": "string", "pattern": "^0x[0-9a-f]+$"}
        return {
            name: self.schema(defs),
            hex_name(name): {"type": "array", "items": hex_schema},
        }


class OneState(Shape):
    """A state, with its form beside it where that is not plain."""

    def data(self, value: Any) -> Any:  # noqa: D102
        return state_data(value)[0]

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        return state_from(data, None, where)

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        return {"description": "A state: any JSON data."}

    def write_field(self, out: dict[str, Any], name: str, value: Any) -> None:  # noqa: D102
        out[name], form = state_data(value)
        if form is not None:
            out[f"{name}_form"] = form

    def read_field(self, data: Mapping[str, Any], name: str, where: str) -> Any:  # noqa: D102
        return state_from(data[name], data.get(f"{name}_form"), f"{where}.{name}")

    def properties(self, name: str, defs: Definitions) -> dict[str, Schema]:  # noqa: D102
        form_schema = {
            "type": ["string", "object"],
            "description": "What the data do not tell of the state.",
        }
        return {name: self.schema(defs), f"{name}_form": form_schema}


class ManyStates(OneState):
    """A tuple of states: written as one, so that forms stand in one place."""

    def read_field(self, data: Mapping[str, Any], name: str, where: str) -> Any:  # noqa: D102
        if not isinstance(data[name], list | tuple):
            raise misfit_error(f"{where}.{name}", "a list of states", data[name])
        return super().read_field(data, name, where)

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        return {"type": "array", "description": "States: any JSON data."}


@dataclass(frozen=True)
class CustomShape(Shape):
    """A type with code of its own."""

    write_data: Callable[[Any], Any]
    read_data: Callable[[Any, str], Any]
    described: Schema

    def data(self, value: Any) -> Any:  # noqa: D102
        return self.write_data(value)

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        return self.read_data(data, where)

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        return dict(self.described)


TEXT = Simple(str, "string", "a text")
FLAG = Simple(bool, "boolean", "true or false")
WHOLE = Simple(int, "integer", "a whole number")
NUMBER = Number()
