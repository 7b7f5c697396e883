"""Streams that begin anew at any position of a path, and their mirrors.

``gap`` calls a step many times with the same random numbers, and with their mirrors.
The stream of a position, a tuple of whole numbers, begins with four words that are a
hash of it: two chains of SplitMix64 (Steele, Lea and Flood 2014), one per pair of words.
Each link maps the next number of the position one to one, so that positions that differ
in one number have other words, and any two share them with probability 2^-128. A
``SeedSequence`` costs 43 microseconds, which is more than most paths.

A mirrored stream flips all bits: a uniform number u becomes 1 - u, up to its last bit, a
normal number its negative. Flipped random bits are random bits, so every law stays
exact, those by rejection too.

``restart`` keeps the stream an object of one identity. A Generator of NumPy on it
(``numpy``) forgets what it kept of the position before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smoothcruiser.jit.random import Key
from smoothcruiser.jit.random.streams import LOW64, TWO32, Stream

GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, odd
MIX1, MIX2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # SplitMix64
FLIPPED = LOW64  # the mask of a mirror
LOW53, STEP53 = (1 << 53) - 1, 2.0**-53


def mix_bits(bits: int) -> int:
    """A bijection of 64-bit numbers (the finalizer of SplitMix64)."""
    bits = (bits ^ bits >> 30) * MIX1 & LOW64
    bits = (bits ^ bits >> 27) * MIX2 & LOW64
    return bits ^ bits >> 31


def first_words(seed: int, part: int) -> tuple[int, int]:
    """The two words with which the positions of a part of a run begin."""
    sequence = np.random.SeedSequence(seed, spawn_key=(Key.GAP, part))
    first, second = sequence.generate_state(2, np.uint64).tolist()
    return first, second


def position_words(first: Sequence[int], *position: int) -> tuple[int, ...]:
    """The four words of the stream of a position."""
    words: list[int] = []
    for chain in first:
        for number in position:
            chain = mix_bits(chain + (number + 1) * GOLDEN & LOW64)
        words += [mix_bits(chain + k * GOLDEN & LOW64) for k in (1, 2)]
    return tuple(words)


class MirroredStream(Stream):
    """A stream that can begin anew, and as its own mirror."""

    __slots__ = ("mask",)
    entry_name = "call_mirrored_at"

    def __init__(self, words: Sequence[int], mask: int = 0) -> None:
        super().__init__(words)
        self.mask = mask

    def __reduce__(self) -> Any:
        return MirroredStream, (self.words[:4].tolist(), self.mask)

    def __deepcopy__(self, memo: dict[int, Any]) -> MirroredStream:
        return MirroredStream(self.words[:4].tolist(), self.mask)

    def __copy__(self) -> MirroredStream:
        return MirroredStream(self.words[:4].tolist(), self.mask)

    @property
    def _numba_type_(self) -> Any:
        """The Numba type that compiled code sees."""
        from smoothcruiser.jit.random.stream_type import MIRRORED

        return MIRRORED

    @property
    def signed_mask(self) -> int:  # type: ignore[override]
        """The mask as a signed number."""
        return -1 if self.mask else 0

    def restart(self, words: Sequence[int]) -> None:
        """Begin anew with four words and a mask."""
        self._s0, self._s1, self._s2, self._s3, self.mask = words
        if self.generator is not None:
            bits: Any = self.generator.bit_generator
            bits.bind(self)

    @property
    def address(self) -> int:
        """The place of the five words in memory, as in ``Stream``."""
        if self._s0 is not None:
            if self._memory is None:
                self._memory = np.empty(5, dtype=np.uint64)
                self._address = int(self._memory.ctypes.data)
            self._memory[:] = self._s0, self._s1, self._s2, self._s3, self.mask
            self._s0 = None
        return self._address

    def _take_words(self) -> int:
        first_word, self._s1, self._s2, self._s3, self.mask = self._memory.tolist()
        self._s0 = first_word
        return first_word  # type: ignore[no-any-return]

    def share(self) -> int:
        """The address of the state, which is in memory from now on."""
        self.__class__ = SharedMirroredStream
        return self.address

    def raw(self) -> int:
        """The next 64 bits."""
        return Stream.raw(self) ^ self.mask

    def random(self) -> float:
        """A uniform number in [0, 1)."""
        return (self.raw() >> 11 & LOW53) * STEP53

    def integers(self, low: int, high: int | None = None) -> int:
        """A uniform whole number in low..high-1, or in 0..low-1 without ``high``."""
        if high is not None or type(low) is not int or not 0 < low < TWO32:
            return super().integers(low, high)
        product = (self.raw() >> 32) * low
        rejection_floor = (TWO32 - low) % low
        while product % TWO32 < rejection_floor:
            product = (self.raw() >> 32) * low
        return product >> 32


class SharedMirroredStream(MirroredStream):
    """A mirrored stream whose state is in memory between any two calls."""

    __slots__ = ()

    def raw(self) -> int:
        """The next 64 bits."""
        try:
            return MirroredStream.raw(self)
        finally:
            self.share()

    def restart(self, words: Sequence[int]) -> None:
        """Begin anew with four words and a mask."""
        MirroredStream.restart(self, words)
        self.share()
