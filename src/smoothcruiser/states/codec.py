"""The codec of a form of state: its words in memory, for compiled code and for Python.

A state may be a number, a tuple, a NamedTuple or an array of fixed shape, nested at
will. A form is a Numba type with the shapes of the arrays in it; ``codec_of`` builds its
codec once, from an example. A state is a row of 8-byte words: numbers widened to 64
bits, which loses nothing, arrays as their bytes.

Compiled code reads and writes one state (``words``): ``load(address)``,
``store(address, state)`` and ``keep(address, state)``, which passes a next state on:
numbers as they are, an array after copying it (the step may use the array it returned
again). An array is a view of the memory. Nothing is reference-counted, so all forms are
equally cheap. ``row_parts`` are the same functions over rows of an array.

Python reads and writes many states at once (``encode``, ``decode``, ``columns``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import njit, typeof, types
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
MASK = 2**64 - 1
NEGATIVE_ZERO = -(2**63)  # the bits of -0.0
# scalars that Python gets back from compiled code as they were
PLAIN = (types.int64, types.float64, types.boolean)


class Words(NamedTuple):
    """The compiled functions of one form."""

    load: Callable[..., Any]
    store: Callable[..., Any]
    keep: Callable[..., Any]


def state_shapes(state: Any) -> Any:
    """The shapes of the arrays in a state, which its Numba type leaves out."""
    if isinstance(state, tuple):
        return tuple(map(state_shapes, state))
    return np.shape(state)


def codec_of(kind: Any, example: Any) -> StateCodec:
    """The codec of states of Numba type ``kind``; ``example`` gives array shapes."""
    return _make_codec(kind, state_shapes(example))


@cache
def _make_codec(kind: Any, shapes: Any) -> StateCodec:
    return StateCodec(kind, shapes)


class StateCodec:
    """States of one form as words, and back."""

    def __init__(self, kind: Any, shapes: Any) -> None:
        self.kind, self.shapes = kind, shapes
        self.size: int  # in words
        self.is_tuple = isinstance(kind, types.BaseTuple)
        self.fields: tuple[StateCodec, ...] = ()
        if self.is_tuple:
            field_forms = zip(kind.types, shapes, strict=True)
            self.fields = tuple(_make_codec(*form) for form in field_forms)
            self.size = sum(field.size for field in self.fields)
        elif isinstance(kind, types.Array):
            self.dtype = as_dtype(kind.dtype)
            self.num_bytes = int(np.prod(shapes)) * self.dtype.itemsize
            self.size = -(-self.num_bytes // WORD)
        elif isinstance(kind, types.Integer | types.Boolean | types.Float):
            self.dtype, self.size = as_dtype(kind), 1
        else:
            raise InvalidInput(
                "Compiled oracles take states of numbers, tuples, NamedTuples and arrays "
                f"of fixed shape, got {kind}; use one of these, or drop numba.njit from "
                "the step to run it in plain Python."
            )

    # --- facts ----------------------------------------------------------------

    @cached_property
    def is_plain(self) -> bool:
        """Whether states hold no array, and no number that Python would widen."""
        if self.is_tuple:
            return all(field.is_plain for field in self.fields)
        return self.kind in PLAIN

    @cached_property
    def is_exact(self) -> bool:
        """Whether states are equal where their words are, but for some floats.

        A word of an array may hold several whole numbers.
        """
        if self.is_tuple:
            return bool(self.fields) and all(field.is_exact for field in self.fields)
        if not isinstance(self.kind, types.Array):
            return self.is_plain
        is_usual = self.kind.layout == "C" and self.kind.mutable and self.kind.aligned
        return self.num_bytes > 0 and is_usual and self.dtype.str[1:] in EXACT_ITEMS

    @cached_property
    def floats(self) -> Any:
        """(size,) Which words are floats."""
        if self.is_tuple:
            no_words = np.zeros(0, dtype=np.bool_)
            return np.concatenate([no_words, *(field.floats for field in self.fields)])
        return np.full(self.size, self.dtype.kind == "f")

    def has_row(self, state: Any) -> bool:
        """Whether a state has this form, and words that no other state equals.

        -0.0 equals 0.0, and NaN equals nothing.
        """
        if typeof(state) != self.kind or state_shapes(state) != self.shapes:
            return False
        words = self.encode([state])[0]
        is_unusual = (words == NEGATIVE_ZERO) | np.isnan(words.view(np.float64))
        return not bool((self.floats & is_unusual).any())

    def build(self, values: Any) -> Any:
        """A tuple of these values, of the form's own class."""
        is_named = isinstance(self.kind, types.BaseNamedTuple)
        return self.kind.instance_class(*values) if is_named else tuple(values)

    # --- in Python ------------------------------------------------------------

    def encode(self, states: Sequence[Any]) -> Any:
        """(N, size) The words of states."""
        if self.is_tuple:
            values = zip(self.fields, zip(*states, strict=True), strict=True)
            no_words = np.zeros((len(states), 0), dtype=np.int64)
            field_words = (field.encode(column) for field, column in values)
            return np.concatenate([no_words, *field_words], axis=1)
        if isinstance(self.kind, types.Array):
            padding = bytes(self.size * WORD - self.num_bytes)
            arrays = map(np.ascontiguousarray, states)
            row_bytes = b"".join(array.tobytes() + padding for array in arrays)
            return np.frombuffer(row_bytes, dtype=np.int64).reshape(len(states), -1)
        if self.dtype.kind == "f":
            return np.array(states, dtype=np.float64).view(np.int64)[:, None]
        numbers = [int(state) & MASK for state in states]
        return np.array(numbers, dtype=np.uint64).view(np.int64)[:, None]

    def columns(self, rows: Any) -> Any:
        """The states of rows of words: an array of all, or a tuple with one per field."""
        if self.is_tuple:
            ends = np.cumsum([0, *(field.size for field in self.fields)])
            return self.build(
                field.columns(rows[:, ends[i] : ends[i + 1]])
                for i, field in enumerate(self.fields)
            )
        rows = np.ascontiguousarray(rows)
        if isinstance(self.kind, types.Array):
            row_bytes = rows.view(np.uint8).reshape(len(rows), -1)[:, : self.num_bytes]
            values = np.frombuffer(row_bytes.tobytes(), self.dtype)
            return values.reshape(len(rows), *self.shapes).copy()
        words = rows[:, 0].view(np.float64) if self.dtype.kind == "f" else rows[:, 0]
        return words.astype(self.dtype)

    def decode(self, rows: Any) -> list[Any]:
        """The states of rows of words, each with memory of its own."""
        return self.list_states(self.columns(rows), len(rows))

    def list_states(self, columns: Any, count: int) -> list[Any]:
        """The states of ``count`` rows of ``columns``."""
        if self.is_tuple:
            values = [
                field.list_states(column, count)
                for field, column in zip(self.fields, columns, strict=True)
            ]
            rows = zip(*values, strict=True) if values else [()] * count
            return list(map(self.build, rows))
        if isinstance(self.kind, types.Array):
            return [columns[i, ...].copy() for i in range(count)]
        return columns.tolist()  # type: ignore[no-any-return]

    # --- in compiled code -----------------------------------------------------

    @cached_property
    def words(self) -> Words:
        """The compiled functions of one state at an address."""
        if self.is_tuple:
            return self._tuple_words()
        if isinstance(self.kind, types.Array):
            return self._array_words()
        kind, is_float = self.kind, isinstance(self.kind, types.Float)
        read, write = (float_at, put_float) if is_float else (int_at, put_int)
        widened = types.float64 if is_float else types.int64

        def load(address: int) -> Any:
            return kind(read(address, 0))

        def store(address: int, state: Any) -> None:
            write(address, 0, widened(state))

        return Words(_inline(load), _inline(store), _keep_unchanged)

    def _array_words(self) -> Words:
        kind, shape, num_bytes = self.kind, self.shapes, self.num_bytes
        array_view = array_at(types.Array(kind.dtype, kind.ndim, "C"))

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

        return Words(njit(load), store, njit(keep))

    def _tuple_words(self) -> Words:
        places, scope, at = range(len(self.fields)), dict[str, Any](), []
        for i, field in enumerate(self.fields):
            for name, function in zip(
                ("load", "store", "keep"), field.words, strict=True
            ):
                scope[f"{name}{i}"] = function
            at.append(f"address + {WORD * sum(f.size for f in self.fields[:i])}")
        tuple_start = "("
        if isinstance(self.kind, types.BaseNamedTuple):
            scope["Named"], tuple_start = self.kind.instance_class, "Named("
        loads = "".join(f"load{i}({at[i]}), " for i in places)
        keeps = "".join(f"keep{i}({at[i]}, state[{i}]), " for i in places)
        stores = "; ".join(
            [*(f"store{i}({at[i]}, state[{i}])" for i in places), "pass"]
        )
        return Words(
            _inline(
                generate("load", "address", f"return {tuple_start}{loads})", scope)
            ),
            _inline(generate("store", "address, state", stores, scope)),
            _inline(
                generate(
                    "keep", "address, state", f"return {tuple_start}{keeps})", scope
                )
            ),
        )

    @cached_property
    def row_parts(self) -> dict[str, Any]:
        """Compiled functions of a machine that keeps states as rows of an array."""
        size, row_bytes, (load, store, keep) = self.size, WORD * self.size, self.words

        def allocate(depth: int) -> Any:
            return np.empty((depth, size), np.int64)

        def load_row(rows: Any, i: int) -> Any:
            return load(rows.ctypes.data + i * row_bytes)

        def store_row(rows: Any, i: int, state: Any) -> None:
            store(rows.ctypes.data + i * row_bytes, state)

        def keep_row(rows: Any, i: int, state: Any) -> Any:
            return keep(rows.ctypes.data + i * row_bytes, state)

        row_functions = {"LOAD": load_row, "STORE": store_row, "KEEP": keep_row}
        row_functions["ALLOCATE"] = allocate
        return {name: njit(f) for name, f in row_functions.items()} | hashing(
            self.kind
        )


# arrays with words that are equal where their elements are, but for some floats
EXACT_ITEMS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f8")


def generate(name: str, arguments: str, body: str, scope: dict[str, Any]) -> Any:
    """A function of generated code: Numba unrolls a tuple only if its length is there."""
    exec(f"def {name}({arguments}): {body}", scope)
    return scope[name]


def _inline(function: Callable[..., Any]) -> Any:
    return njit(function, inline="always")


@njit(inline="always")
def _keep_unchanged(address: int, state: Any) -> Any:
    return state


def make_retype(kind: Any) -> Callable[[Any], Any] | None:
    """A function that gives a state from compiled code its Numba type ``kind`` back.

    It is None where the state already has that type.

    Numba returns every integer and float to Python as ``int`` and ``float``. A
    float32 or uint64 would then be computed with as float64 or int64, and other
    bits would follow.
    """
    if isinstance(kind, types.BaseTuple):
        conversions = [make_retype(field) for field in kind.types]
        if not any(conversions):
            return None
        is_named = isinstance(kind, types.BaseNamedTuple)
        build = kind.instance_class._make if is_named else tuple
        return lambda state: build(
            value if convert is None else convert(value)
            for convert, value in zip(conversions, state, strict=True)
        )
    if kind == types.float64:
        return float
    is_narrow = isinstance(kind, types.Integer | types.Float) and kind != types.int64
    return as_dtype(kind).type if is_narrow else None


def hashing(kind: Any) -> dict[str, Any]:
    """HASH and SAME for states of a Numba type.

    They are the language's own for numbers and tuples of them, and go element
    by element for arrays.
    """
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
    inner_types = kind.types if isinstance(kind, types.BaseTuple) else ()
    if any(isinstance(inner, types.Array | types.BaseTuple) for inner in inner_types):
        scope: dict[str, Any] = {}
        hash_source, same_source = "0", "True"
        for i, inner in enumerate(inner_types):
            for name, function in hashing(inner).items():
                scope[f"{name}{i}"] = function
            hash_source = f"1000003 * ({hash_source}) + HASH{i}(state[{i}])"
            same_source += f" and SAME{i}(a[{i}], b[{i}])"
        return {
            "HASH": njit(generate("HASH", "state", f"return {hash_source}", scope)),
            "SAME": njit(generate("SAME", "a, b", f"return {same_source}", scope)),
        }

    @njit(inline="always")
    def plain_hash(state: Any) -> Any:
        return hash(state)

    @njit(inline="always")
    def plain_same(a: Any, b: Any) -> Any:
        return a == b

    return {"HASH": plain_hash, "SAME": plain_same}
