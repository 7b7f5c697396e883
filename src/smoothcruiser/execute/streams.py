"""Random streams: xoshiro256++ with the same bits from Python and from compiled code, at the speed of C.

A stream belongs to a position in the work, never to a moment: ``stream(seed, action, shard)`` seeds it through NumPy's
``SeedSequence(seed, spawn_key=(action, shard))``, so results do not depend on who runs a shard, or when. To compiled code a stream
is the address of its four words, so its methods inline and nothing is reference-counted (about 2 ns a uniform); from Python they
call that same compiled code.

Methods: ``random()`` on [0, 1) in steps of 2**-53; ``integers(n)`` on 0..n-1 without bias (Lemire's multiply-shift with rejection,
n below 2**32); ``normal()`` (Marsaglia's polar method, one of its two values is dropped so that no state hides in the stream);
``exponential()`` with mean 1; ``choice(weights)``: an index drawn in proportion to the weights, by one uniform and a running sum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.core.extending import (
    NativeValue,
    intrinsic,
    models,
    overload_method,
    register_model,
    typeof_impl,
    unbox,
)

U11, U17, U19, U23, U32, U41, U45 = (np.uint64(k) for k in (11, 17, 19, 23, 32, 41, 45))
LOW32 = np.uint64(0xFFFFFFFF)
TWO32 = np.uint64(1 << 32)
STEP53 = 2.0**-53


class Stream:
    """A stream of random numbers; see the module's head."""

    __slots__ = ("address", "words")

    def __init__(self, words: Any) -> None:
        self.words = np.array([int(word) for word in words], dtype=np.uint64)  # four words, not all zero
        self.address = int(self.words.ctypes.data)

    def __reduce__(self) -> Any:
        return Stream, (self.words,)  # a copy has memory, and so an address, of its own

    def __deepcopy__(self, memo: dict[int, Any]) -> Stream:
        return Stream(self.words)

    def __copy__(self) -> Stream:
        return Stream(self.words)

    def random(self) -> float:
        """A uniform number in [0, 1)."""
        return _random(self.address)  # type: ignore[no-any-return]

    def integers(self, n: int) -> int:
        """A uniform whole number in 0..n-1, n from 1 to 2**32 - 1 (compiled code does not check)."""
        if not 0 < n < 4_294_967_296:
            raise ValueError(f"rng.integers(n) needs n from 1 to 4,294,967,295, got {n!r}")
        return _integers(self.address, n)  # type: ignore[no-any-return]

    def normal(self) -> float:
        """A standard normal number."""
        return _normal(self.address)  # type: ignore[no-any-return]

    def exponential(self) -> float:
        """An exponential number with mean 1."""
        return _exponential(self.address)  # type: ignore[no-any-return]

    def choice(self, weights: Any) -> int:
        """An index drawn in proportion to ``weights``."""
        return _choice(self.address, np.asarray(weights, dtype=np.float64))  # type: ignore[no-any-return]

    def raw(self) -> int:
        """The next 64 bits."""
        return int(_raw(self.address))


class StreamType(types.Type):  # type: ignore[misc]
    """The Numba type of a stream: the address of its state."""

    def __init__(self) -> None:
        super().__init__(name="Stream")


STREAM = StreamType()


@register_model(StreamType)
class StreamModel(models.PrimitiveModel):  # type: ignore[misc]
    """An address; never boxed back, never counted."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, manager.lookup(types.intp).get_value_type())


@typeof_impl.register(Stream)
def _typeof(value: Stream, context: Any) -> StreamType:
    return STREAM


@unbox(StreamType)
def _unbox(kind: Any, thing: Any, c: Any) -> Any:
    address = c.pyapi.object_getattr_string(thing, "address")
    native = c.pyapi.long_as_voidptr(address)
    value = c.builder.ptrtoint(native, c.context.get_value_type(types.intp))
    c.pyapi.decref(address)
    return NativeValue(value, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


def _word_pointer(context: Any, builder: Any, address: Any, index: Any) -> Any:
    base = builder.inttoptr(address, context.get_value_type(types.uint64).as_pointer())
    return cgutils.gep_inbounds(builder, base, index)


@intrinsic
def word(typing_context: Any, stream: Any, index: Any) -> Any:
    """The state word ``index``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_word_pointer(context, builder, arguments[0], arguments[1]))

    return types.uint64(stream, types.intp), generate


@intrinsic
def set_word(typing_context: Any, stream: Any, index: Any, value: Any) -> Any:
    """Write the state word ``index``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _word_pointer(context, builder, arguments[0], arguments[1]))
        return context.get_dummy_value()

    return types.void(stream, types.intp, types.uint64), generate


@intrinsic
def stream_at(typing_context: Any, address: Any) -> Any:
    """The stream whose state lies at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    return STREAM(types.intp), generate


@overload_method(StreamType, "raw")
def _raw_method(self: Any) -> Any:
    def raw(self: Any) -> Any:
        s0, s1, s2, s3 = word(self, 0), word(self, 1), word(self, 2), word(self, 3)
        mixed = s0 + s3
        result = ((mixed << U23) | (mixed >> U41)) + s0
        shifted = s1 << U17
        s2 ^= s0
        s3 ^= s1
        set_word(self, 1, s1 ^ s2)
        set_word(self, 0, s0 ^ s3)
        set_word(self, 2, s2 ^ shifted)
        set_word(self, 3, (s3 << U45) | (s3 >> U19))
        return result

    return raw


@overload_method(StreamType, "random")
def _random_method(self: Any) -> Any:
    def random(self: Any) -> Any:
        return np.float64(np.int64(self.raw() >> U11)) * STEP53

    return random


@overload_method(StreamType, "integers")
def _integers_method(self: Any, n: Any) -> Any:
    def integers(self: Any, n: Any) -> Any:
        size = np.uint64(n)
        product = (self.raw() >> U32) * size
        low = product & LOW32
        if low < size:
            floor = (TWO32 - size) % size
            while low < floor:
                product = (self.raw() >> U32) * size
                low = product & LOW32
        return np.int64(product >> U32)

    return integers


@overload_method(StreamType, "normal")
def _normal_method(self: Any) -> Any:
    def normal(self: Any) -> Any:
        while True:
            x = 2.0 * self.random() - 1.0
            y = 2.0 * self.random() - 1.0
            s = x * x + y * y
            if 0.0 < s < 1.0:
                return x * math.sqrt(-2.0 * math.log(s) / s)

    return normal


@overload_method(StreamType, "exponential")
def _exponential_method(self: Any) -> Any:
    def exponential(self: Any) -> Any:
        return -math.log(1.0 - self.random())

    return exponential


@overload_method(StreamType, "choice")
def _choice_method(self: Any, weights: Any) -> Any:
    def choice(self: Any, weights: Any) -> Any:
        total = 0.0
        for i in range(len(weights)):
            total += weights[i]
        u = self.random() * total
        last = 0
        running = 0.0
        for i in range(len(weights)):
            if weights[i] > 0.0:
                last = i
                running += weights[i]
                if u < running:
                    return i
        return last

    return choice


@njit(cache=True)
def _raw(address: int) -> Any:
    return stream_at(address).raw()


@njit(cache=True)
def _random(address: int) -> Any:
    return stream_at(address).random()


@njit(cache=True)
def _integers(address: int, n: int) -> Any:
    return stream_at(address).integers(n)


@njit(cache=True)
def _normal(address: int) -> Any:
    return stream_at(address).normal()


@njit(cache=True)
def _exponential(address: int) -> Any:
    return stream_at(address).exponential()


@njit(cache=True)
def _choice(address: int, weights: Any) -> Any:
    return stream_at(address).choice(weights)


def from_words(words: Any) -> Stream:
    """The stream whose state is four given words, not all zero."""
    return Stream(words)


def stream(seed: int, *key: int) -> Stream:
    """The stream of position ``key`` under ``seed``."""
    return Stream(np.random.SeedSequence(seed, spawn_key=key).generate_state(4, np.uint64))
