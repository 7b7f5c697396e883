"""States as 8-byte words in a frame of the compiled engine.

A state may be a number, a tuple, a NamedTuple or an array of fixed shape,
nested at will. ``words(numba_type, example)`` returns how many words a state
takes and three compiled functions: ``load(address)``, ``store(address, state)``
and ``keep(address, state)``. The last one passes a next state on: numbers as
they are, an array after copying it into the frame (the step may use the array
it returned again). Numbers are kept widened to 64 bits, which loses nothing; an
array is a view of the frame's memory. Nothing is reference-counted, so all
kinds of state are equally cheap to keep.
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

    return Words(1, _inlined(load), _inlined(store), _unchanged)


def _float(kind: Any) -> Words:
    def load(address: int) -> Any:
        return kind(float_at(address, 0))

    def store(address: int, state: Any) -> None:
        put_float(address, 0, types.float64(state))

    return Words(1, _inlined(load), _inlined(store), _unchanged)


def _handed_on(address: int, state: Any) -> Any:
    return state


def _inlined(function: Callable[..., Any]) -> Any:
    return njit(function, inline="always")


_unchanged = _inlined(_handed_on)


def _array(kind: Any, shape: tuple[int, ...]) -> Words:
    view = array_at(types.Array(kind.dtype, kind.ndim, "C"))
    size = int(np.prod(shape)) * as_dtype(kind.dtype).itemsize

    def copy(address: int, state: Any) -> None:
        if state.shape != shape:
            raise ValueError(
                "step returned an array of another shape than the asked state's"
            )
        copy_array(address, np.ascontiguousarray(state), size)

    store = njit(copy)

    def load(address: int) -> Any:
        return view(address, shape)

    def keep(address: int, state: Any) -> Any:
        store(address, state)
        return view(address, shape)

    return Words(-(-size // WORD), njit(load), store, njit(keep))


def _tuple(kind: Any, example: Any) -> Words:
    """The form of tuples, as generated code.

    Numba unrolls a tuple only where its length stands in the source.
    """
    fields = [
        words(part, value) for part, value in zip(kind.types, example, strict=True)
    ]
    scope: dict[str, Any] = {}
    offsets, total = [], 0
    for i, field in enumerate(fields):
        scope |= {
            f"load{i}": field.load,
            f"store{i}": field.store,
            f"keep{i}": field.keep,
        }
        offsets.append(total * WORD)
        total += field.size
    named = isinstance(kind, types.BaseNamedTuple)
    if named:
        scope["Named"] = kind.instance_class

    def built(parts: list[str]) -> str:
        inner = "".join(f"{part}, " for part in parts)
        return f"Named({inner})" if named else f"({inner})"

    n = range(len(fields))
    source = [
        "def load(address): return "
        + built([f"load{j}(address + {offsets[j]})" for j in n]),
        "def store(address, state):\n"
        + "\n".join(
            [f"    store{j}(address + {offsets[j]}, state[{j}])" for j in n]
            + ["    return"]
        ),
        "def keep(address, state): return "
        + built([f"keep{j}(address + {offsets[j]}, state[{j}])" for j in n]),
    ]
    for text in source:
        exec(text, scope)
    return Words(total, *(_inlined(scope[name]) for name in ("load", "store", "keep")))


def retyped(kind: Any) -> Callable[[Any], Any] | None:
    """A function that gives a state from compiled code its Numba type ``kind`` back.

    It is None where the state already has that type.

    Numba returns every integer and float to Python as ``int`` and ``float``. A
    float32 or uint64 would then be computed with as float64 or int64, and other
    bits would follow.
    """
    if isinstance(kind, types.BaseTuple):
        parts = [retyped(part) or _as_it_is for part in kind.types]
        if all(part is _as_it_is for part in parts):
            return None
        build = (
            kind.instance_class._make
            if isinstance(kind, types.BaseNamedTuple)
            else tuple
        )
        return lambda state: build(
            part(value) for part, value in zip(parts, state, strict=True)
        )
    if isinstance(kind, types.Integer | types.Float) and kind not in (
        types.int64,
        types.float64,
    ):
        return as_dtype(kind).type
    return float if kind == types.float64 else None


def _as_it_is(state: Any) -> Any:
    return state
