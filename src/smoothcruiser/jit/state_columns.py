"""States of any type as columns of compiled memory: one array per field.

``storage(numba_type, example)`` returns four compiled functions:
``allocate(depth)``, ``load(stack, i)``, ``store(stack, i, state)`` and
``keep(stack, i, state)``. The last one passes a state on: a scalar or tuple of
scalars as it is, an array after copying it to the stack (the step may reuse the
array it returned). Scalars live in 1-D arrays, tuples and NamedTuples in a
tuple of their fields' stores, arrays of fixed shape in one array with a leading
axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.np.numpy_support import as_dtype

from smoothcruiser.errors import InvalidInput


class Storage(NamedTuple):
    """The four functions for one state type."""

    allocate: Callable[..., Any]
    load: Callable[..., Any]
    store: Callable[..., Any]
    keep: Callable[..., Any]


def storage(kind: Any, example: Any) -> Storage:
    """The storage of states of Numba type ``kind``; ``example`` gives array shapes."""
    if isinstance(kind, types.Integer | types.Float | types.Boolean):
        return _scalar(as_dtype(kind))
    if isinstance(kind, types.Array):
        return _array(np.asarray(example).shape, as_dtype(kind.dtype))
    if isinstance(kind, types.BaseTuple):
        return _tuple(kind, example)
    raise InvalidInput(
        "Compiled oracles take states of numbers, tuples, NamedTuples and arrays of "
        f"fixed shape, got {kind}; use one of these, or drop numba.njit from the step "
        "to run it in plain Python."
    )


def _scalar(dtype: Any) -> Storage:
    @njit(inline="always")
    def allocate(depth: int) -> Any:
        return np.empty(depth, dtype)

    @njit(inline="always")
    def load(stack: Any, i: int) -> Any:
        return stack[i]

    @njit(inline="always")
    def store(stack: Any, i: int, state: Any) -> None:
        stack[i] = state

    @njit(inline="always")
    def keep(stack: Any, i: int, state: Any) -> Any:
        return state

    return Storage(allocate, load, store, keep)


def _array(shape: tuple[int, ...], dtype: Any) -> Storage:
    @njit(inline="always")
    def allocate(depth: int) -> Any:
        return np.empty((depth, *shape), dtype)

    @njit(inline="always")
    def load(stack: Any, i: int) -> Any:
        return stack[i]

    @njit(inline="always")
    def store(stack: Any, i: int, state: Any) -> None:
        stack[i] = state

    @njit(inline="always")
    def keep(stack: Any, i: int, state: Any) -> Any:
        stack[i] = state
        return stack[i]

    return Storage(allocate, load, store, keep)


def _tuple(kind: Any, example: Any) -> Storage:
    """The storage of tuples, as generated code.

    Numba unrolls a tuple only where its length stands in the source.
    """
    field_stores = [
        storage(field_type, field_value)
        for field_type, field_value in zip(kind.types, example, strict=True)
    ]
    code_scope: dict[str, Any] = {}
    for i, field in enumerate(field_stores):
        code_scope |= {
            f"allocate{i}": field.allocate,
            f"load{i}": field.load,
            f"store{i}": field.store,
            f"keep{i}": field.keep,
        }
    is_named = isinstance(kind, types.BaseNamedTuple)
    if is_named:
        code_scope["Named"] = kind.instance_class

    def tuple_source(part_texts: list[str]) -> str:
        joined_parts = "".join(f"{part_text}, " for part_text in part_texts)
        return f"Named({joined_parts})" if is_named else f"({joined_parts})"

    field_range = range(len(field_stores))
    source_texts = [
        "def allocate(depth): return ("
        + "".join(f"allocate{i}(depth), " for i in field_range)
        + ")",
        "def load(stack, i): return "
        + tuple_source([f"load{j}(stack[{j}], i)" for j in field_range]),
        "def store(stack, i, state):\n"
        + "\n".join(
            [f"    store{j}(stack[{j}], i, state[{j}])" for j in field_range]
            + ["    return"]
        ),
        "def keep(stack, i, state): return "
        + tuple_source([f"keep{j}(stack[{j}], i, state[{j}])" for j in field_range]),
    ]
    for text in source_texts:
        exec(text, code_scope)
    return Storage(*(njit(code_scope[name]) for name in Storage._fields))
