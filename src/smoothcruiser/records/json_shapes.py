"""The JSON shape of each type; dataclasses have that of their fields.

The type of a field decides how it is written, read and described (``records.shapes``):
``shape_of(float | None)``. So a class with typed fields needs no code of its own.
Fields of type ``Any`` are states. ``hold`` adds a type that needs code of its own.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from smoothcruiser.errors import InvalidInput, describe_value
from smoothcruiser.records.shapes import (
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    Array,
    Count,
    CustomShape,
    Definitions,
    Items,
    ManyStates,
    Maybe,
    MaybeNumber,
    Named,
    Number,
    OneOf,
    OneState,
    Schema,
    Several,
    Shape,
    Whole,
    Wholes,
    misfit_error,
)

CUSTOM_SHAPES: dict[type, CustomShape] = {}
MOST_CALLS = 2**63  # counters of engines end there


@dataclass(frozen=True)
class DataclassShape(Shape):
    """A dataclass, by its fields.

    ``json_names`` of the class gives fields other names, ``json_left_out`` are fields
    that are not written, those of ``json_when_set`` are where they are true,
    ``json_more`` are the names that ``more_data`` adds (name -> type).
    """

    type: type
    NOTHING: ClassVar[Mapping[str, Any]] = types.MappingProxyType({})

    def field_shapes(self) -> list[tuple[Field[Any], str, Shape]]:
        """Each field, its name in JSON and its shape."""
        hints = hints_of(self.type)
        json_names: Mapping[str, str] = getattr(self.type, "json_names", self.NOTHING)
        left_out = getattr(self.type, "json_left_out", ())
        return [
            (
                field,
                json_names.get(field.name, field.name),
                shape_of(hints[field.name]),
            )
            for field in fields(self.type)
            if field.init and field.name not in left_out
        ]

    def data(self, value: Any) -> Any:  # noqa: D102
        json_data: dict[str, Any] = {}
        when_set = getattr(self.type, "json_when_set", ())
        for field, name, shape in self.field_shapes():
            if field.name in when_set and not getattr(value, field.name):
                continue
            shape.write_field(json_data, name, getattr(value, field.name))
        return json_data

    def arguments(self, data: Any, where: str, **preset: Any) -> dict[str, Any]:
        """The arguments of the class, from JSON data; ``preset`` ones are kept."""
        if not isinstance(data, Mapping):
            raise misfit_error(where, "an object", data)
        arguments: dict[str, Any] = dict(preset)
        for field, name, shape in self.field_shapes():
            if field.name in preset:
                continue
            if name in data:
                arguments[field.name] = shape.read_field(data, name, where)
            elif field.default is MISSING and field.default_factory is MISSING:
                raise InvalidInput(f"{where} must have {name!r}, and it is missing.")
        return arguments

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        return check_flaw(self.type(**self.arguments(data, where)), where)

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        name = self.type.__name__
        if name not in defs:
            defs[name] = {}  # a class inside itself ends here
            defs[name] = self.object_schema(defs)
        return {"$ref": f"#/$defs/{name}"}

    def object_schema(self, defs: Definitions) -> Schema:
        """The schema of the object itself, without a reference."""
        properties: dict[str, Schema] = {}
        required = []
        when_set = getattr(self.type, "json_when_set", ())
        for field, name, shape in self.field_shapes():
            properties |= shape.properties(name, defs)
            if field.name not in when_set:
                required.append(name)
        more_types: Mapping[str, Any] = getattr(self.type, "json_more", self.NOTHING)
        for name, hint in more_types.items():
            properties |= shape_of(hint).properties(name, defs)
            required.append(name)
        return {"type": "object", "properties": properties, "required": required}


def check_flaw(record: Any, where: str) -> Any:
    """The record that was read; refused where ``json_flaw`` of its class finds a flaw.

    Data that a program wrote always fit together; a person may have edited them.
    """
    flaw: str | None = getattr(record, "json_flaw", lambda: None)()
    if flaw is not None:
        raise InvalidInput(f"{where}: {flaw}.")
    return record


def length_flaw(name: str, length: int, required: int, unit: str) -> str | None:
    """The flaw of a list's length; None where it is right."""
    if length == required:
        return None
    return f"{name} must have {required:,} entries, one per {unit}, got {length:,}"


def index_flaw(name: str, number: int, count: int, things: str) -> str | None:
    """The flaw of a number that must name one of ``count`` things; None if it does."""
    if 0 <= number < count:
        return None
    return (
        f"{name} must name one of {count:,} {things}, from 0 on, got "
        f"{describe_value(number)}"
    )


def calls_flaw(name: str, number: int) -> str | None:
    """The flaw of a run's number of calls; None where they can be made."""
    if 0 <= number < MOST_CALLS:
        return None
    return f"{name} must count calls, from 0 on, got {describe_value(number)}"


@cache
def hints_of(cls: type) -> dict[str, Any]:
    """The types of a class's fields."""
    return get_type_hints(cls, include_extras=True)


def hold(
    cls: type,
    write: Callable[[Any], Any],
    read: Callable[[Any, str], Any],
    schema: Schema,
) -> None:
    """Let a type be written and read by code of its own."""
    CUSTOM_SHAPES[cls] = CustomShape(write, read, schema)


@cache
def shape_of(hint: Any) -> Shape:
    """The shape by which values of a type are written, read and described."""
    simple_shapes: dict[Any, Shape] = {
        str: TEXT,
        bool: FLAG,
        int: WHOLE,
        float: NUMBER,
        Any: OneState(),
        Count: Whole(),
    }
    if hint in simple_shapes:
        return simple_shapes[hint]
    origin, type_args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        inner_shapes = [
            shape_of(member_type)
            for member_type in type_args
            if member_type is not type(None)
        ]
        if len(inner_shapes) == 1 and len(type_args) == 2:
            inner_shape = inner_shapes[0]
            return (
                MaybeNumber()
                if isinstance(inner_shape, Number)
                else Maybe(inner_shape)
            )
    if origin is Literal:
        return OneOf(type_args)
    if origin is tuple and type_args[-1:] == (...,):
        tuple_shapes: dict[Any, Shape] = {Any: ManyStates(), Count: Wholes()}
        return tuple_shapes.get(type_args[0]) or Items(shape_of(type_args[0]))
    if origin is tuple:
        return Several(tuple(shape_of(member_type) for member_type in type_args))
    if origin is list:
        return Items(shape_of(type_args[0]))
    if origin is dict:
        return Named(type_args[0], shape_of(type_args[1]))
    # from NumPy 2.5 on NDArray[…] is an alias of its own, with the array behind it
    if np.ndarray in (origin, get_origin(getattr(origin, "__value__", None))):
        return Array()
    if isinstance(hint, type):
        for base_class in hint.__mro__:
            if base_class in CUSTOM_SHAPES:
                return CUSTOM_SHAPES[base_class]
        own_shape: Shape | None = getattr(hint, "json_shape", lambda: None)()
        if own_shape is not None:
            return own_shape
        if is_dataclass(hint):
            return DataclassShape(hint)
    raise TypeError(f"There is no JSON for the type {hint!r}; add one with hold().")
