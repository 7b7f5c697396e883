"""A ``numpy.random.Generator`` that draws from the planner's own stream.

``rng.numpy()`` returns it, and a foreign simulator gets it in place of its own
generator. NumPy's Generator takes its bits through a C structure of
four function pointers and a pointer to a state. Here the state is a cell that
holds the address of the planner's stream (``jit.random.streams``), and the functions
are compiled callbacks that draw from the stream found there. Binding another
stream is one store, so it costs nothing per call. Every number that the
simulator draws (any distribution NumPy has) comes from the shard's stream. So
equal seeds give equal numbers, and none of them is foreseen by or taken from
the real environment. (NumPy cannot copy such a Generator: copy a simulator that
holds one with ``deepcopy(simulator, {id(generator): generator})``.)

``legacy`` is the same for simulators that use NumPy's older RandomState. That
class keeps every second normal number for its next call; ``bind`` makes it forget,
or a number of one stream would come out of another.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
from numba import carray, cfunc, njit, types

from smoothcruiser.jit.random.stream_type import STEP53, U11, stream_at
from smoothcruiser.jit.random.streams import Stream, stream

_CELL = types.CPointer(types.intp)


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def _masked_bits(cell: Any) -> Any:
    """The next 64 bits; the second word of a cell is the mask of a mirrored stream."""
    return stream_at(cell[0]).raw() ^ np.uint64(cell[1])


@cfunc(types.uint64(_CELL), cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def _next64(cell: Any) -> Any:
    return _masked_bits(carray(cell, 2))


@cfunc(types.uint32(_CELL), cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def _next32(cell: Any) -> Any:
    return np.uint32(_masked_bits(carray(cell, 2)) >> np.uint64(32))


@cfunc(types.float64(_CELL), cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def _next_double(cell: Any) -> Any:
    return np.float64(np.int64(_masked_bits(carray(cell, 2)) >> U11)) * STEP53


class _BitGenerator(ctypes.Structure):
    """``bitgen_t`` of numpy/random/bitgen.h."""

    _fields_ = [
        ("state", ctypes.c_void_p),
        ("next_uint64", ctypes.c_void_p),
        ("next_uint32", ctypes.c_void_p),
        ("next_double", ctypes.c_void_p),
        ("next_raw", ctypes.c_void_p),
    ]


class StreamBits:
    """The bit generator; ``bind`` sets the stream that the next numbers come from."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.cell = (ctypes.c_int64 * 2)()
        cell_address = ctypes.addressof(self.cell)
        self.record = _BitGenerator(
            cell_address,
            _next64.address,
            _next32.address,
            _next_double.address,
            _next64.address,
        )
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype, new_capsule.argtypes = (
            ctypes.py_object,
            [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
        )
        self.capsule = new_capsule(
            ctypes.addressof(self.record), b"BitGenerator", None
        )
        self.legacy_state: np.random.RandomState | None = None  # made by ``legacy``
        self.bind(stream(0))

    def bind(self, source: Stream) -> None:
        """Draw from ``source`` from now on."""
        self.cell[0] = source.share()
        self.cell[1] = source.signed_mask
        self.words = source.words  # kept alive: the cell holds only their address
        if self.legacy_state is not None:
            self.legacy_state.__init__(self)  # type: ignore[misc]  # forgets a kept number


def stream_generator() -> tuple[np.random.Generator, StreamBits]:
    """A Generator, and the bits behind it, to which streams can be bound."""
    bits = StreamBits()
    return np.random.Generator(bits), bits  # type: ignore[arg-type]


def legacy(generator: np.random.Generator) -> np.random.RandomState:
    """A RandomState on the bits of ``generator``; one and the same for a stream's."""
    bits: Any = generator.bit_generator
    if not isinstance(bits, StreamBits):
        return np.random.RandomState(bits)
    if bits.legacy_state is None:
        bits.legacy_state = np.random.RandomState(bits)  # type: ignore[arg-type]
    return bits.legacy_state
