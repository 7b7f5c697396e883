"""States as 8-byte words in a frame of the compiled engine.

A state may be a number, a tuple, a NamedTuple or an array of fixed shape,
nested at will. ``words(numba_type, example)`` returns how many words a state
takes and three compiled functions: ``load(address)``, ``store(address, state)``
and ``keep(address, state)``. The last one passes a next state on: numbers as
they are, an array after copying it into the frame (the step may use the array
it returned again). Numbers are kept widened to 64 bits, which loses nothing; an
array is a view of the frame's memory. Nothing is reference-counted, so all
kinds of state are equally cheap to keep.

States of any type as columns of compiled memory: one array per field.

``storage(numba_type, example)`` returns four compiled functions:
``allocate(depth)``, ``load(stack, i)``, ``store(stack, i, state)`` and
``keep(stack, i, state)``. The last one passes a state on: a scalar or tuple of
scalars as it is, an array after copying it to the stack (the step may reuse the
array it returned). Scalars live in 1-D arrays, tuples and NamedTuples in a
tuple of their fields' stores, arrays of fixed shape in one array with a leading
axis.

Hash and equality of compiled states, built for their type.

Left out: the storage of states (``jit.state_words``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.np.numpy_support import as_dtype

from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.memory import (
    array_at,
    copy_array,
    float_at,
    int_at,
    put_float,
    put_int,
)

WORD = 8  # bytes


class Words(NamedTuple):
    """The size and the three functions for one state type."""

    size: int
    load: Callable[..., Any]
    store: Callable[..., Any]
    keep: Callable[..., Any]


def words(kind: Any, example: Any) -> Words:
    """The form of states of Numba type ``kind``; ``example`` gives array shapes."""
    if isinstance(kind, types.Integer | types.Boolean):
        return _integer(kind)
    if isinstance(kind, types.Float):
        return _float(kind)
    if isinstance(kind, types.Array):
        return _array(kind, np.asarray(example).shape)
    if isinstance(kind, types.BaseTuple):
        return _tuple(kind, example)
    raise InvalidInput(
        "Compiled oracles take states of numbers, tuples, NamedTuples and arrays of "
        f"fixed shape, got {kind}; use one of these, or drop numba.njit from the step "
        "to run it in plain Python."
    )


def _integer(kind: Any) -> Words:
    def load(address: int) -> Any:
        return kind(int_at(address, 0))

    def store(address: int, state: Any) -> None:
        put_int(address, 0, types.int64(state))

    return Words(1, _inline(load), _inline(store), _keep_unchanged)


def _float(kind: Any) -> Words:
    def load(address: int) -> Any:
        return kind(float_at(address, 0))

    def store(address: int, state: Any) -> None:
        put_float(address, 0, types.float64(state))

    return Words(1, _inline(load), _inline(store), _keep_unchanged)


def _return_state(address: int, state: Any) -> Any:
    return state


def _inline(function: Callable[..., Any]) -> Any:
    return njit(function, inline="always")


_keep_unchanged = _inline(_return_state)


def _array(kind: Any, shape: tuple[int, ...]) -> Words:
    array_view = array_at(types.Array(kind.dtype, kind.ndim, "C"))
    num_bytes = int(np.prod(shape)) * as_dtype(kind.dtype).itemsize

    def copy(address: int, state: Any) -> None:
        if state.shape != shape:
            raise ValueError(
                "step returned an array of another shape than the asked state's"
            )
        copy_array(address, np.ascontiguousarray(state), num_bytes)

    store = njit(copy)

    def load(address: int) -> Any:
        return array_view(address, shape)

    def keep(address: int, state: Any) -> Any:
        store(address, state)
        return array_view(address, shape)

    return Words(-(-num_bytes // WORD), njit(load), store, njit(keep))


def _tuple(kind: Any, example: Any) -> Words:
    """The form of tuples, as generated code.

    Numba unrolls a tuple only where its length stands in the source.
    """
    field_forms = [
        words(field_type, field_value)
        for field_type, field_value in zip(kind.types, example, strict=True)
    ]
    code_scope: dict[str, Any] = {}
    byte_offsets, total_words = [], 0
    for i, field in enumerate(field_forms):
        code_scope |= {
            f"load{i}": field.load,
            f"store{i}": field.store,
            f"keep{i}": field.keep,
        }
        byte_offsets.append(total_words * WORD)
        total_words += field.size
    is_named = isinstance(kind, types.BaseNamedTuple)
    if is_named:
        code_scope["Named"] = kind.instance_class

    def tuple_source(part_texts: list[str]) -> str:
        joined_parts = "".join(f"{part_text}, " for part_text in part_texts)
        return f"Named({joined_parts})" if is_named else f"({joined_parts})"

    field_range = range(len(field_forms))
    source_texts = [
        "def load(address): return "
        + tuple_source([f"load{j}(address + {byte_offsets[j]})" for j in field_range]),
        "def store(address, state):\n"
        + "\n".join(
            [
                f"    store{j}(address + {byte_offsets[j]}, state[{j}])"
                for j in field_range
            ]
            + ["    return"]
        ),
        "def keep(address, state): return "
        + tuple_source(
            [f"keep{j}(address + {byte_offsets[j]}, state[{j}])" for j in field_range]
        ),
    ]
    for text in source_texts:
        exec(text, code_scope)
    return Words(
        total_words, *(_inline(code_scope[name]) for name in ("load", "store", "keep"))
    )


def make_retype(kind: Any) -> Callable[[Any], Any] | None:
    """A function that gives a state from compiled code its Numba type ``kind`` back.

    It is None where the state already has that type.

    Numba returns every integer and float to Python as ``int`` and ``float``. A
    float32 or uint64 would then be computed with as float64 or int64, and other
    bits would follow.
    """
    if isinstance(kind, types.BaseTuple):
        conversions = [
            make_retype(convert_field) or _same_state for convert_field in kind.types
        ]
        if all(convert_field is _same_state for convert_field in conversions):
            return None
        build_tuple = (
            kind.instance_class._make
            if isinstance(kind, types.BaseNamedTuple)
            else tuple
        )
        return lambda state: build_tuple(
            convert_field(field_value)
            for convert_field, field_value in zip(conversions, state, strict=True)
        )
    if isinstance(kind, types.Integer | types.Float) and kind not in (
        types.int64,
        types.float64,
    ):
        return as_dtype(kind).type
    return float if kind == types.float64 else None


def _same_state(state: Any) -> Any:
    return state


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
        return _column_array(np.asarray(example).shape, as_dtype(kind.dtype))
    if isinstance(kind, types.BaseTuple):
        return _column_tuple(kind, example)
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


def _column_array(shape: tuple[int, ...], dtype: Any) -> Storage:
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


def _column_tuple(kind: Any, example: Any) -> Storage:
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


def hashing(kind: Any) -> dict[str, Any]:
    """HASH and SAME for states of a Numba type.

    They are the language's own for numbers and tuples of them, and go element
    by element for arrays.
    """
    from numba import njit, types

    if isinstance(kind, types.Array):

        @njit
        def array_hash(state: Any) -> Any:
            mixed_hash = 0
            for element in state.flat:
                mixed_hash = 1000003 * mixed_hash + hash(element)
            return mixed_hash

        @njit
        def array_same(a: Any, b: Any) -> Any:
            return np.array_equal(a, b)

        return {"HASH": array_hash, "SAME": array_same}
    if isinstance(kind, types.BaseTuple) and any(
        isinstance(field_type, types.Array | types.BaseTuple)
        for field_type in kind.types
    ):
        return _tuple_hashing(kind)

    @njit(inline="always")
    def plain_hash(state: Any) -> Any:
        return hash(state)

    @njit(inline="always")
    def plain_same(a: Any, b: Any) -> Any:
        return a == b

    return {"HASH": plain_hash, "SAME": plain_same}


def _tuple_hashing(kind: Any) -> dict[str, Any]:
    """HASH and SAME for tuples that hold arrays or tuples, as generated code.

    Numba unrolls a tuple only where its length stands in the source.
    """
    from numba import njit

    code_scope: dict[str, Any] = {}
    for i, field_type in enumerate(kind.types):
        field_functions = hashing(field_type)
        code_scope |= {
            f"hash{i}": field_functions["HASH"],
            f"same{i}": field_functions["SAME"],
        }
    field_range = range(len(kind.types))
    hash_source = "0"
    for i in field_range:
        hash_source = f"1000003 * ({hash_source}) + hash{i}(state[{i}])"
    exec(f"def tuple_hash(state): return {hash_source}", code_scope)
    exec(
        "def tuple_same(a, b): return "
        + " and ".join(f"same{i}(a[{i}], b[{i}])" for i in field_range),
        code_scope,
    )
    return {
        "HASH": njit(code_scope["tuple_hash"]),
        "SAME": njit(code_scope["tuple_same"]),
    }
