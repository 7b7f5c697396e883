"""Random streams: xoshiro256++ with the same bits from Python and from compiled code, at the speed of C.

A stream belongs to a position in the work, never to a moment: ``stream(seed, action, shard)`` seeds it through NumPy's
``SeedSequence(seed, spawn_key=(action, shard))``, so results do not depend on who runs a shard, or when. The object is a Numba
structref: inside compiled code its methods inline (about 2 ns a uniform), from Python they call that same compiled code.

Methods: ``random()`` on [0, 1) in steps of 2**-53; ``integers(n)`` on 0..n-1 without bias (Lemire's multiply-shift with rejection,
n below 2**32); ``normal()`` (Marsaglia's polar method, one of its two values is dropped so that no state hides in the stream);
``exponential()`` with mean 1; ``choice(weights)``: an index drawn in proportion to the weights, by one uniform and a running sum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.core.extending import overload_method
from numba.experimental import structref

U11, U17, U19, U23, U32, U41, U45 = (np.uint64(k) for k in (11, 17, 19, 23, 32, 41, 45))
LOW32 = np.uint64(0xFFFFFFFF)
TWO32 = np.uint64(1 << 32)
STEP53 = 2.0**-53


@structref.register
class StreamType(types.StructRef):  # type: ignore[misc]
    """The Numba type of a stream: four words of state."""


class Stream(structref.StructRefProxy):  # type: ignore[misc]
    """A stream of random numbers; see the module's head."""

    def random(self) -> float:
        """A uniform number in [0, 1)."""
        return float(_random(self))

    def integers(self, n: int) -> int:
        """A uniform whole number in 0..n-1."""
        return int(_integers(self, n))

    def normal(self) -> float:
        """A standard normal number."""
        return float(_normal(self))

    def exponential(self) -> float:
        """An exponential number with mean 1."""
        return float(_exponential(self))

    def choice(self, weights: Any) -> int:
        """An index drawn in proportion to ``weights``."""
        return int(_choice(self, np.asarray(weights, dtype=np.float64)))

    def raw(self) -> int:
        """The next 64 bits."""
        return int(_raw(self))


structref.define_proxy(Stream, StreamType, ["s0", "s1", "s2", "s3"])
STREAM = StreamType([(name, types.uint64) for name in ("s0", "s1", "s2", "s3")])


@overload_method(StreamType, "raw")
def _raw_method(self: Any) -> Any:
    def raw(self: Any) -> Any:
        s0, s1, s2, s3 = self.s0, self.s1, self.s2, self.s3
        mixed = s0 + s3
        result = ((mixed << U23) | (mixed >> U41)) + s0
        shifted = s1 << U17
        s2 ^= s0
        s3 ^= s1
        s1 ^= s2
        s0 ^= s3
        s2 ^= shifted
        self.s0, self.s1, self.s2 = s0, s1, s2
        self.s3 = (s3 << U45) | (s3 >> U19)
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
def _make(s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    made = structref.new(STREAM)
    made.s0, made.s1, made.s2, made.s3 = s0, s1, s2, s3
    return made


@njit(cache=True)
def _raw(stream: Any) -> Any:
    return stream.raw()


@njit(cache=True)
def _random(stream: Any) -> Any:
    return stream.random()


@njit(cache=True)
def _integers(stream: Any, n: int) -> Any:
    return stream.integers(n)


@njit(cache=True)
def _normal(stream: Any) -> Any:
    return stream.normal()


@njit(cache=True)
def _exponential(stream: Any) -> Any:
    return stream.exponential()


@njit(cache=True)
def _choice(stream: Any, weights: Any) -> Any:
    return stream.choice(weights)


def from_words(words: Any) -> Stream:
    """The stream whose state is four given words, not all zero."""
    made: Stream = _make(*(np.uint64(int(word)) for word in words))
    return made


def stream(seed: int, *key: int) -> Stream:
    """The stream of position ``key`` under ``seed``."""
    return from_words(np.random.SeedSequence(seed, spawn_key=key).generate_state(4, np.uint64))
