"""Objects that go to JSON and come back: ``to_dict``, ``from_dict`` and their texts.

Every object says what it is and which version of the form it has:

    {"schema": 1, "kind": "estimate", …the fields…}

A number of the schema changes when a reader of the old form could not read the new one.
Names may be added at any time, and readers ignore those that they do not know: what the
command line prints with --json has more of them, and is read too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, ClassVar, Self

from smoothcruiser.errors import InvalidInput, described
from smoothcruiser.records.fields import DataclassShape, fitting
from smoothcruiser.records.shapes import Definitions, Schema, refused

SCHEMA = 1
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Data:
    """A dataclass that is written as JSON data and read again, by its fields' types."""

    json_kind: ClassVar[str]
    # names of fields in JSON, where they differ
    json_names: ClassVar[Mapping[str, str]] = {}
    json_left_out: ClassVar[tuple[str, ...]] = ()  # fields that are not written
    # what ``more_data`` adds: name -> type
    json_more: ClassVar[Mapping[str, Any]] = {}

    def more_data(self) -> dict[str, Any]:
        """What is written beside the fields: it follows from them."""
        return {}

    def json_flaw(self) -> str | None:
        """What does not fit together in an object that was read, None if all does."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """The object as plain data, with ``schema`` and ``kind``.

        NaN is None, infinity is "Infinity", a count beyond 2**53 is None with its
        log10 and its digits in base 16 beside it. A state that JSON cannot hold is
        written as ``repr`` prints it, and comes back as that text.
        """
        own: dict[str, Any] = DataclassShape(type(self)).data(self)
        return head(self.json_kind) | own | self.more_data()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The object that ``to_dict`` wrote; names that it does not know are ignored.

        Args:
            data: what ``to_dict`` returned, or the same after JSON.
        """
        check_head(data, cls.json_kind, f"{cls.__name__}.from_dict")
        made = cls(**DataclassShape(cls).arguments(data, cls.json_kind))
        return fitting(made, cls.json_kind)  # type: ignore[no-any-return]

    def to_json(self, **options: Any) -> str:
        """The object as JSON text (``to_dict``).

        Args:
            **options: those of ``json.dumps``, such as ``indent=2``.
        """
        return json_text(self.to_dict(), options)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The object that ``to_json`` wrote.

        Args:
            text: JSON text; also what the command line prints with --json.
        """
        return cls.from_dict(json_data(text, f"{cls.__name__}.from_json"))

    @classmethod
    def json_shape(cls) -> Any:
        """How it is written inside another object: as ``to_dict`` writes it."""
        return Inside(cls)

    @classmethod
    def json_schema(cls) -> Schema:
        """The JSON Schema of what ``to_dict`` returns; ``schema(kind)`` reads a file."""
        return schema_of(cls.json_kind, cls.__doc__, cls)


@dataclass(frozen=True)
class Inside(DataclassShape):
    """A ``Data`` inside another object."""

    def data(self, value: Any) -> Any:  # noqa: D102
        return value.to_dict()

    def value(self, data: Any, where: str) -> Any:  # noqa: D102
        try:
            return self.type.from_dict(data)  # type: ignore[attr-defined]
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}") from error

    def whole(self, defs: Definitions) -> Schema:  # noqa: D102
        kind: str = self.type.json_kind  # type: ignore[attr-defined]
        return with_head(kind, super().whole(defs))


def head(kind: str) -> dict[str, Any]:
    """What every object begins with."""
    return {"schema": SCHEMA, "kind": kind}


def with_head(kind: str, schema: Schema) -> Schema:
    """The schema of an object that begins with ``head``."""
    first = {"schema": {"const": SCHEMA}, "kind": {"const": kind}}
    return schema | {
        "properties": first | schema["properties"],
        "required": [*first, *schema["required"]],
    }


def schema_of(kind: str, about: str | None, *classes: type) -> Schema:
    """The JSON Schema of an object that has the fields of all these dataclasses."""
    defs: Definitions = {}
    known: dict[str, Any] = {}
    required: dict[str, None] = {}
    for cls in classes:
        whole = DataclassShape(cls).whole(defs)
        known |= whole["properties"]
        required |= dict.fromkeys(whole["required"])
    body = {"type": "object", "properties": known, "required": list(required)}
    top = {
        "$schema": DIALECT,
        "title": kind,
        "description": (about or "").strip().partition("\n")[0],
    }
    return top | with_head(kind, body) | ({"$defs": defs} if defs else {})


def check_head(data: Any, kind: str, verb: str) -> None:
    """Refuse what is no object of this kind, or of another version."""
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{verb} takes a dict, got {described(data)}.")
    if data.get("schema") != SCHEMA or isinstance(data.get("schema"), bool):
        raise InvalidInput(
            f'{verb} reads "schema": {SCHEMA}, got {described(data.get("schema"))}; '
            "write the object again with this version."
        )
    if data.get("kind") != kind:
        raise InvalidInput(
            f'{verb} reads "kind": "{kind}", got {described(data.get("kind"))}.'
        )


def json_text(data: dict[str, Any], options: Mapping[str, Any]) -> str:
    """Data as JSON text; NaN and infinity, which JSON does not have, are an error."""
    return json.dumps(data, **({"allow_nan": False} | dict(options)))


def json_data(text: Any, verb: str) -> Any:
    """What JSON text holds."""

    def no_number(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    if not isinstance(text, str | bytes):
        raise refused(verb, "given a text", text)
    try:
        return json.loads(text, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{verb} takes JSON text, and this is none ({error})."
        ) from error


def kinds() -> tuple[str, ...]:
    """The kinds of objects that have a schema."""
    folder = files("smoothcruiser.records").joinpath("schema")
    names = [entry.name for entry in folder.iterdir()]
    return tuple(sorted(n.removesuffix(".json") for n in names if n.endswith(".json")))


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of a kind of object, such as "estimate".

    It describes what ``to_dict`` and ``to_json`` write and ``--json`` prints.

    >>> import smoothcruiser as sc
    >>> sc.schema("estimate")["properties"]["kind"]
    {'const': 'estimate'}

    Args:
        kind: what "kind" says in the object.
    """
    known = kinds()
    if kind not in known:
        raise InvalidInput(
            f"There is no schema of kind {described(kind)}; there are "
            f"{', '.join(known)}."
        )
    folder = files("smoothcruiser.records").joinpath("schema")
    found: dict[str, Any] = json.loads(
        folder.joinpath(f"{kind}.json").read_text("utf-8")
    )
    return found
