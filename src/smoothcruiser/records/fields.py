"""Which type has which shape in JSON; dataclasses have that of their fields.

The type of a field says how it is written, read and described (``records.shapes``):
``shape_of(float | None)``. So a class whose fields have types needs no code of its own.
DataclassShape of type ``Any`` are states. ``hold`` adds a type that needs code of its own.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from typing import (
    Any,
    ClassVar,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from smoothcruiser.errors import InvalidInput, described
from smoothcruiser.records.shapes import (
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    Array,
    Count,
    Definitions,
    Held,
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
    refused,
)

HELD: dict[type, Held] = {}
MOST_CALLS = 2**63  # counters of engines end there


@dataclass(frozen=True)
class DataclassShape(Shape):
    """A dataclass, by its fields.

    ``json_names`` of the class gives fields other names, ``json_left_out`` are fields
    that are not written, ``json_more`` names what ``more_data`` adds (name -> type).
    """

    type: type
    NOTHING: ClassVar[Mapping[str, Any]] = types.MappingProxyType({})

    def parts(self) -> list[tuple[Field[Any], str, Shape]]:
        """Each field, its name in JSON and its shape."""
        hints = hints_of(self.type)
        names: Mapping[str, str] = getattr(self.type, "json_names", self.NOTHING)
        left_out = getattr(self.type, "json_left_out", ())
        return [
            (part, names.get(part.name, part.name), shape_of(hints[part.name]))
            for part in fields(self.type)
            if part.init and part.name not in left_out
        ]

    def data(self, value: Any) -> Any:  # noqa: D102
        out: dict[str, Any] = {}
        for part, name, shape in self.parts():
            shape.write(out, name, getattr(value, part.name))
        return out

    def arguments(self, data: Any, where: str, **known: Any) -> dict[str, Any]:
        """The arguments that the class takes, from JSON data; ``known`` ones are kept."""
        if not isinstance(data, Mapping):
            raise refused(where, "an object", data)
        found: dict[str, Any] = dict(known)
        for part, name, shape in self.parts():
            if part.name in known:
                continue
            if name in data:
                found[part.name] = shape.read(data, name, where)
            elif part.default is MISSING and part.default_factory is MISSING:
                raise InvalidInput(f"{where} must have {name!r}, and it is missing.")
        return found

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        return fitting(self.type(**self.arguments(data, where)), where)

    def schema(self, defs: Definitions) -> Schema:  # noqa: D102
        name = self.type.__name__
        if name not in defs:
            defs[name] = {}  # a class inside itself ends here
            defs[name] = self.whole(defs)
        return {"$ref": f"#/$defs/{name}"}

    def whole(self, defs: Definitions) -> Schema:
        """The schema itself."""
        known: dict[str, Schema] = {}
        required = []
        for _, name, shape in self.parts():
            known |= shape.properties(name, defs)
            required.append(name)
        more: Mapping[str, Any] = getattr(self.type, "json_more", self.NOTHING)
        for name, hint in more.items():
            known |= shape_of(hint).properties(name, defs)
            required.append(name)
        return {"type": "object", "properties": known, "required": required}


def fitting(made: Any, where: str) -> Any:
    """What was read, if its parts fit together: ``json_flaw`` of its class says.

    Data that a program wrote always do; a person may have edited them.
    """
    flaw: str | None = getattr(made, "json_flaw", lambda: None)()
    if flaw is not None:
        raise InvalidInput(f"{where}: {flaw}.")
    return made


def miscounted(name: str, found: int, required: int, what: str) -> str | None:
    """What is wrong with the length of a list; None where it is right."""
    if found == required:
        return None
    return f"{name} must have {required:,} entries, one per {what}, got {found:,}"


def outside(name: str, number: int, count: int, what: str) -> str | None:
    """What is wrong with the number of one of ``count`` things; None where it is one."""
    if 0 <= number < count:
        return None
    return (
        f"{name} must name one of {count:,} {what}, from 0 on, got {described(number)}"
    )


def uncountable(name: str, number: int) -> str | None:
    """What is wrong with the number of calls of a run; None where they can be made."""
    if 0 <= number < MOST_CALLS:
        return None
    return f"{name} must count calls, from 0 on, got {described(number)}"


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
    HELD[cls] = Held(write, read, schema)


@cache
def shape_of(hint: Any) -> Shape:
    """How values of a type are written, read and described."""
    simple: dict[Any, Shape] = {
        str: TEXT,
        bool: FLAG,
        int: WHOLE,
        float: NUMBER,
        Any: OneState(),
        Count: Whole(),
    }
    if hint in simple:
        return simple[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        inner = [shape_of(arg) for arg in args if arg is not type(None)]
        if len(inner) == 1 and len(args) == 2:
            one = inner[0]
            return MaybeNumber() if isinstance(one, Number) else Maybe(one)
    if origin is Literal:
        return OneOf(args)
    if origin is tuple and args[-1:] == (...,):
        special: dict[Any, Shape] = {Any: ManyStates(), Count: Wholes()}
        return special.get(args[0]) or Items(shape_of(args[0]))
    if origin is tuple:
        return Several(tuple(shape_of(arg) for arg in args))
    if origin is list:
        return Items(shape_of(args[0]))
    if origin is dict:
        return Named(args[0], shape_of(args[1]))
    # from NumPy 2.5 on NDArray[…] is an alias of its own, with the array behind it
    if np.ndarray in (origin, get_origin(getattr(origin, "__value__", None))):
        return Array()
    if isinstance(hint, type):
        for base in hint.__mro__:
            if base in HELD:
                return HELD[base]
        own: Shape | None = getattr(hint, "json_shape", lambda: None)()
        if own is not None:
            return own
        if is_dataclass(hint):
            return DataclassShape(hint)
    raise TypeError(f"There is no JSON for the type {hint!r}; add one with hold().")
