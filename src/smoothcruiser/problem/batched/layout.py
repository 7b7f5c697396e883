"""States of many arrays as one immutable row of bytes.

A simulator in JAX keeps its state in a tree of arrays (a dataclass of boards,
counters, masks). A planner needs a value: hashable, never changed, equal exactly
where the arrays are. A ``RowState`` holds the bytes of the leaves one after the
other, and a ``RowLayout`` says which bytes are which leaf:

    row = bytes(leaf_1) + bytes(leaf_2) + …       exact to the bit, NaN and -0.0 too

Two rows are equal if all their bits are. So states that differ in the sign of a
zero are two states: that costs a little memory and is never wrong.

This file decides the order of bytes, and how a row is read and written by
people (``{"x": 0.5, "time": 3}``). It leaves out JAX; only NumPy is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput, describe_value

SHOWN = 16  # numbers of one leaf that a ``repr`` shows


@dataclass(frozen=True)
class Leaf:
    """One array of a state."""

    name: str  # where it is in the tree, such as "board" or "game.board"
    shape: tuple[int, ...]
    dtype: str  # NumPy's name, such as "float32"

    @property
    def size(self) -> int:
        """Its bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class RowLayout:
    """Which bytes of a row are which leaf of a state of ``title``."""

    title: str
    leaves: tuple[Leaf, ...]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first byte of each leaf, and the number of all bytes."""
        offsets = [0]
        for leaf in self.leaves:
            offsets.append(offsets[-1] + leaf.size)
        return tuple(offsets)

    @property
    def size(self) -> int:
        """The bytes of a row."""
        return self.starts[-1]

    def leaf_index(self, name: str) -> int:
        """The number of the leaf called ``name``."""
        return [leaf.name for leaf in self.leaves].index(name)

    def pack(self, arrays: Sequence[Any]) -> RowState:
        """The row of these arrays, which must have the leaves' shapes and types."""
        leaf_bytes = []
        for leaf, value in zip(self.leaves, arrays, strict=True):
            array = np.asarray(value)
            if array.shape != leaf.shape or array.dtype.name != leaf.dtype:
                raise InvalidInput(
                    f"{leaf.name} of {self.title} must be {_form_text(leaf)}, got "
                    f"{array.dtype.name} of shape {array.shape}; give a state as the "
                    "environment's own step returns it."
                )
            leaf_bytes.append(array.tobytes())
        return RowState(self, b"".join(leaf_bytes))

    def unpack(self, row: RowState) -> list[NDArray[Any]]:
        """The arrays of a row, which cannot be written into."""
        return [self.array(row, i) for i in range(len(self.leaves))]

    def array(self, row: RowState, place: int) -> NDArray[Any]:
        """One array of a row, without a copy."""
        leaf = self.leaves[place]
        num_elements = int(np.prod(leaf.shape, dtype=np.int64))
        flat_array: NDArray[Any] = np.frombuffer(
            row.words, leaf.dtype, num_elements, self.starts[place]
        )
        return flat_array.reshape(leaf.shape)

    def plain(self, row: RowState) -> dict[str, Any]:
        """A row as numbers and lists by the names of its leaves."""
        arrays = self.unpack(row)
        return {
            leaf.name: array.tolist()
            for leaf, array in zip(self.leaves, arrays, strict=True)
        }

    def parse(self, given: Mapping[str, Any]) -> RowState:
        """The row that ``plain`` wrote; numbers that a leaf cannot hold are refused."""
        leaf_names = [leaf.name for leaf in self.leaves]
        wrong_names = [name for name in given if name not in leaf_names] or [
            name for name in leaf_names if name not in given
        ]
        if wrong_names:
            verb = "has no" if wrong_names[0] in given else "needs"
            raise InvalidInput(
                f"A state of {self.title} {verb} {wrong_names[0]!r}; give a value for "
                f"each of {', '.join(leaf_names)}."
            )
        return self.pack([_read_leaf(leaf, given[leaf.name]) for leaf in self.leaves])


class RowState:
    """A state as one row of bytes; equal if all bits are."""

    __slots__ = ("layout", "words")
    adapter_state = True  # nobody can write into it

    layout: RowLayout
    words: bytes

    def __init__(self, layout: RowLayout, words: bytes) -> None:
        if len(words) != layout.size:
            raise InvalidInput(
                f"A state of {layout.title} has {layout.size} bytes, got {len(words)}."
            )
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "words", words)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a state cannot be changed, {name} of it least of all")

    @property
    def leaves(self) -> dict[str, NDArray[Any]]:
        """The arrays of the state by their names."""
        arrays = self.layout.unpack(self)
        return {
            leaf.name: array
            for leaf, array in zip(self.layout.leaves, arrays, strict=True)
        }

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RowState)
            and self.words == other.words
            and (self.layout is other.layout or self.layout == other.layout)
        )

    def __hash__(self) -> int:
        return hash(self.words)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowState, (self.layout, self.words)

    def __fingerprint__(self) -> Any:
        return self.layout.title, self.words

    def __repr__(self) -> str:
        leaves_text = ", ".join(
            f"{leaf_name}={_leaf_text(array)}"
            for leaf_name, array in self.leaves.items()
        )
        return f"{self.layout.title}({leaves_text})"


def _form_text(leaf: Leaf) -> str:
    return f"{leaf.dtype} of shape {leaf.shape}"


def _leaf_text(array: NDArray[Any]) -> str:
    """A leaf in a few words."""
    if array.size > SHOWN:
        return f"<{'x'.join(map(str, array.shape))} {array.dtype.name}>"
    if array.dtype.kind == "f":
        array = np.array(
            [float(f"{x:.6g}") for x in array.reshape(-1).tolist()]
        ).reshape(array.shape)
    return str(array.tolist()).replace("True", "1").replace("False", "0")


def _read_leaf(leaf: Leaf, given: Any) -> NDArray[Any]:
    """An array for a leaf from lists of numbers; nothing is rounded in silence."""
    leaf_type = np.dtype(leaf.dtype)
    try:
        array = np.asarray(given)
        with np.errstate(all="ignore"):
            converted = array.astype(leaf_type)
            is_exact = np.array_equal(
                converted.astype(np.float64), array.astype(np.float64), equal_nan=True
            )
    except (TypeError, ValueError, OverflowError):
        is_exact, converted = False, np.zeros(())
    if leaf_type.kind == "f" and converted.shape == leaf.shape:
        return converted  # rounded to the environment's own floats
    if not is_exact or converted.shape != leaf.shape:
        raise InvalidInput(
            f"{leaf.name} must be {_form_text(leaf)}, got {describe_value(given)}; give "
            "lists of such numbers."
        )
    return converted
