"""States as rows of numbers: their fields, and states from such rows.

A state is a number, an array, or a (Named)tuple of states. Its fields are the numbers
in it, in order. A field is *discrete* where all values seen are whole numbers, else
*continuous*: those lie on a grid, and values between grid points are interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation.critics import flatten_state

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_FIELDS = 64  # of a state that values are fitted to


@dataclass(frozen=True)
class StateForm:
    """The fields of the states of one problem."""

    template: Any  # one of the states
    is_discrete: tuple[bool, ...]

    @classmethod
    def of(cls, template: Any, rows: Floats) -> StateForm:
        """The form of a state, whose like have the numbers ``rows``."""
        is_whole = np.all(rows == np.floor(rows), axis=0)
        return cls(template, tuple(bool(whole) for whole in is_whole))

    @property
    def discrete(self) -> Ints:
        """The places of discrete fields."""
        return np.flatnonzero(np.array(self.is_discrete, bool)).astype(np.int64)

    @property
    def continuous(self) -> Ints:
        """The places of continuous fields."""
        return np.flatnonzero(~np.array(self.is_discrete, bool)).astype(np.int64)

    def rebuild(self, row: Sequence[float]) -> Any:
        """The state with these numbers in its fields."""
        return _rebuild(self.template, iter(row))


def rows_of_numbers(states: Sequence[Any]) -> Floats:
    """(N, d): the numbers in each state."""
    try:
        rows = np.array([flatten_state(state) for state in states], np.float64)
    except (TypeError, ValueError):
        rows = np.zeros((0, 0))
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise InvalidInput(
            "A value can be fitted to states of finite numbers, tuples of them and "
            f"arrays of one shape, got {states[0]!r:.80}; give value=, or features= "
            "(state -> a row of numbers)."
        )
    if rows.shape[1] > MOST_FIELDS:
        raise InvalidInput(
            f"A value is fitted to states of at most {MOST_FIELDS} numbers, got "
            f"{rows.shape[1]}; give value=, or features= (state -> a row of numbers)."
        )
    return rows


def _rebuild(template: Any, numbers: Any) -> Any:
    if isinstance(template, tuple):
        fields = [_rebuild(field, numbers) for field in template]
        is_named = hasattr(template, "_fields")
        return type(template)(*fields) if is_named else tuple(fields)
    if isinstance(template, list):
        return [_rebuild(field, numbers) for field in template]
    if isinstance(template, np.ndarray) and template.shape:
        values = [next(numbers) for _ in range(template.size)]
        return np.array(values).reshape(template.shape).astype(template.dtype)
    number = next(numbers)
    if isinstance(template, bool | np.bool_):
        return bool(number)
    if isinstance(template, int | np.integer):
        return type(template)(round(number))
    return type(template)(number)


def columns_to_rows(columns: Any, count: int) -> Floats:
    """(N, d) from an array of all states, or a tuple with one per field."""
    if isinstance(columns, tuple):
        parts = [columns_to_rows(column, count) for column in columns]
        return np.hstack(parts) if parts else np.zeros((count, 0))
    return np.asarray(columns, np.float64).reshape(count, -1)


@cache
def compiled_field(kind: Any, shapes: Any) -> Any:
    """A compiled function of (state, k): field k of states of a Numba type."""
    from numba import njit

    from smoothcruiser.states.codec import generate

    lines, _ = _field_lines(kind, shapes, "state", 0)
    body = "\n    ".join([*lines, "return 0.0"])
    return njit(generate("field_of", "state, k", f"\n    {body}", {}))


def _field_lines(
    kind: Any, shapes: Any, name: str, first: int
) -> tuple[list[str], int]:
    """Lines that return each field, and the place behind the last."""
    from numba import types

    if isinstance(kind, types.BaseTuple):
        lines = []
        for i, (inner, shape) in enumerate(zip(kind.types, shapes, strict=True)):
            inner_lines, first = _field_lines(inner, shape, f"{name}[{i}]", first)
            lines += inner_lines
        return lines, first
    if isinstance(kind, types.Array):
        last = first + int(np.prod(shapes))
        place = f"{name}.flat[k - {first}]" if first else f"{name}.flat[k]"
        return [f"if k < {last}: return float({place})"], last
    return [f"if k == {first}: return float({name})"], first + 1
