"""Objects that go to JSON and come back: ``to_dict``, ``from_dict`` and their texts.

Every object carries its kind and the version of its form:

    {"schema": 1, "kind": "estimate", …the fields…}

A number of the schema changes when a reader of the old form could not read the new one.
Names may be added at any time, and readers ignore those that they do not know: the
output of the command line with --json has more of them, and is read too.

Whether two results are equal: NaN equals NaN, and arrays are compared by items.

Python says that NaN differs from itself unless it is the same object, and refuses to say
whether two arrays are equal. So a result with an illegal action, or about a state that is
an array, would differ from its own copy.

Objects that go to tables (``to_frame``) and to pictures (``plot``).

Both need packages that not everybody has: pandas, without which a table is a list of
dicts, and matplotlib (extra ``report``), without which there is no picture. They are
imported where they are used.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from smoothcruiser.errors import InvalidInput, MissingExtra, describe_value
from smoothcruiser.records.json_shapes import DataclassShape, check_flaw
from smoothcruiser.records.shapes import Definitions, Schema, misfit_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SCHEMA = 1
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Data:
    """A dataclass that is written as JSON data and read again, by its fields' types."""

    json_kind: ClassVar[str]
    # names of fields in JSON, where they differ
    json_names: ClassVar[Mapping[str, str]] = {}
    json_left_out: ClassVar[tuple[str, ...]] = ()  # fields that are not written
    json_when_set: ClassVar[tuple[str, ...]] = ()  # flags that are written where true
    # names that ``more_data`` adds: name -> type
    json_more: ClassVar[Mapping[str, Any]] = {}

    def more_data(self) -> dict[str, Any]:
        """Data written beside the fields: they follow from the fields."""
        return {}

    def json_flaw(self) -> str | None:
        """The flaw of an object that was read, None if its parts fit together."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """The object as plain data, with ``schema`` and ``kind``.

        NaN is None, infinity is "Infinity", a count beyond 2**53 is None with its
        log10 and its digits in base 16 beside it. A state that JSON cannot hold is
        written as ``repr`` prints it, and comes back as that text.
        """
        field_data: dict[str, Any] = DataclassShape(type(self)).data(self)
        return head(self.json_kind) | field_data | self.more_data()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The object that ``to_dict`` wrote; names that it does not know are ignored.

        Args:
            data: the result of ``to_dict``, or the same after JSON.
        """
        check_head(data, cls.json_kind, f"{cls.__name__}.from_dict")
        record = cls(**DataclassShape(cls).arguments(data, cls.json_kind))
        return check_flaw(record, cls.json_kind)  # type: ignore[no-any-return]

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
            text: JSON text; also the output of the command line with --json.
        """
        return cls.from_dict(json_data(text, f"{cls.__name__}.from_json"))

    @classmethod
    def json_shape(cls) -> Any:
        """The shape inside another object: as ``to_dict`` writes it."""
        return Inside(cls)

    @classmethod
    def json_schema(cls) -> Schema:
        """The JSON Schema of ``to_dict``'s result; ``schema(kind)`` reads a file."""
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

    def object_schema(self, defs: Definitions) -> Schema:  # noqa: D102
        kind: str = self.type.json_kind  # type: ignore[attr-defined]
        return with_head(kind, super().object_schema(defs))


def head(kind: str) -> dict[str, Any]:
    """The first members of every object."""
    return {"schema": SCHEMA, "kind": kind}


def with_head(kind: str, schema: Schema) -> Schema:
    """The schema of an object that begins with ``head``."""
    head_properties = {"schema": {"const": SCHEMA}, "kind": {"const": kind}}
    return schema | {
        "properties": head_properties | schema["properties"],
        "required": [*head_properties, *schema["required"]],
    }


def schema_of(kind: str, description: str | None, *classes: type) -> Schema:
    """The JSON Schema of an object that has the fields of all these dataclasses."""
    defs: Definitions = {}
    properties: dict[str, Any] = {}
    required: dict[str, None] = {}
    for cls in classes:
        class_schema = DataclassShape(cls).object_schema(defs)
        properties |= class_schema["properties"]
        required |= dict.fromkeys(class_schema["required"])
    object_schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
    }
    schema_head = {
        "$schema": DIALECT,
        "title": kind,
        "description": (description or "").strip().partition("\n")[0],
    }
    return (
        schema_head
        | with_head(kind, object_schema)
        | ({"$defs": defs} if defs else {})
    )


def check_head(data: Any, kind: str, verb: str) -> None:
    """Refuse data that are no object of this kind and version."""
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{verb} takes a dict, got {describe_value(data)}.")
    if data.get("schema") != SCHEMA or isinstance(data.get("schema"), bool):
        raise InvalidInput(
            f'{verb} reads "schema": {SCHEMA}, got {describe_value(data.get("schema"))}; '
            "write the object again with this version."
        )
    if data.get("kind") != kind:
        raise InvalidInput(
            f'{verb} reads "kind": "{kind}", got {describe_value(data.get("kind"))}.'
        )


def json_text(data: dict[str, Any], options: Mapping[str, Any]) -> str:
    """Data as JSON text; NaN and infinity, which JSON does not have, are an error."""
    return json.dumps(data, **({"allow_nan": False} | dict(options)))


def json_data(text: Any, verb: str) -> Any:
    """The data in JSON text."""

    def no_number(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    if not isinstance(text, str | bytes):
        raise misfit_error(verb, "given a text", text)
    try:
        return json.loads(text, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{verb} takes JSON text, and this is none ({error})."
        ) from error


def kinds() -> tuple[str, ...]:
    """The kinds of objects that have a schema."""
    folder = files("smoothcruiser.records").joinpath("schema")
    file_names = [entry.name for entry in folder.iterdir()]
    return tuple(
        sorted(
            name.removesuffix(".json") for name in file_names if name.endswith(".json")
        )
    )


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of a kind of object, such as "estimate".

    It describes the output of ``to_dict``, ``to_json`` and ``--json``.

    >>> import smoothcruiser as sc
    >>> sc.schema("estimate")["properties"]["kind"]
    {'const': 'estimate'}

    Args:
        kind: the value of "kind" in the object.
    """
    known_kinds = kinds()
    if kind not in known_kinds:
        raise InvalidInput(
            f"There is no schema of kind {describe_value(kind)}; there are "
            f"{', '.join(known_kinds)}."
        )
    folder = files("smoothcruiser.records").joinpath("schema")
    kind_schema: dict[str, Any] = json.loads(
        folder.joinpath(f"{kind}.json").read_text("utf-8")
    )
    return kind_schema


def same_fields(left: Any, right: Any, but: tuple[str, ...] = ()) -> bool:
    """Whether two objects of one dataclass have equal fields, those of ``but`` aside."""
    return all(
        are_equal(getattr(left, field.name), getattr(right, field.name))
        for field in fields(left)
        if field.compare and field.name not in but
    )


def are_equal(left: Any, right: Any) -> bool:
    """Whether two values are equal, item by item."""
    if left is right:
        return True
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        are_arrays = isinstance(left, np.ndarray) and isinstance(right, np.ndarray)
        return (
            are_arrays
            and left.shape == right.shape
            and are_equal(left.tolist(), right.tolist())
        )
    for sequence_type in (tuple, list):
        if isinstance(left, sequence_type) and isinstance(right, sequence_type):
            return len(left) == len(right) and all(map(are_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            are_equal(left[k], right[k]) for k in left
        )
    if isinstance(left, float) and isinstance(right, float) and left != left:
        return right != right
    return bool(left == right)


class Framed(ABC):
    """An object that is a table: some rows, each with the same columns."""

    frame_columns: ClassVar[tuple[str, ...]]

    @abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """The rows as dicts, in order; the keys are the columns."""

    def frame_attrs(self) -> dict[str, Any]:
        """Facts of the whole table: ``attrs`` of the DataFrame."""
        return {}

    def to_frame(self) -> Any:
        """A pandas DataFrame of the rows; ``records()`` where pandas is not installed."""
        record_rows = self.records()
        try:
            import pandas
        except ImportError:
            return record_rows
        column_names = (
            list(record_rows[0]) if record_rows else list(self.frame_columns)
        )
        frame = pandas.DataFrame.from_records(record_rows, columns=column_names)
        frame.attrs.update(self.frame_attrs())
        return frame


def draw_object(drawing: str, subject: Any, ax: Axes | None, **options: Any) -> Axes:
    """Draw an object by a module of ``smoothcruiser.plots``, and return the Axes.

    Args:
        drawing: the name of a module there; its function ``draw`` draws.
        subject: the object.
        ax: where to draw; by default a figure of its own.
        **options: options of the drawing.
    """
    try:
        from matplotlib import axes  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "plot needs matplotlib; install it with: "
            "pip install 'smoothcruiser[report]'."
        ) from None
    module = import_module(f"smoothcruiser.plots.{drawing}_plot")
    drawn_axes: Axes = module.draw(subject, ax, **options)
    return drawn_axes
