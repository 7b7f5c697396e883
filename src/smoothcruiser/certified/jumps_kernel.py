"""Streams some numbers further on, without taking the numbers one by one, compiled.

The next state of xoshiro256++ is a linear function of the 256 bits of its state over
the field of two elements. So is the state 2**j numbers later: a matrix T_j, with T_0 the
step itself and T_(j+1) = T_j T_j. A stream that is n numbers further on has the state
that the T_j of the bits j of n make of it, one after the other.

A matrix is kept as the images of the 256 unit states, four words each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.problem.tabular import Ints

BITS = 256
STEPS = 53  # matrices: counts are below 2**53
NEAR = 32  # numbers that are taken one by one: a matrix takes about as long


def step(words: Any) -> None:
    """Advance the four words of a stream by one number."""
    shifted_word = words[1] << np.uint64(17)
    words[2] ^= words[0]
    words[3] ^= words[1]
    words[1] ^= words[2]
    words[0] ^= words[3]
    words[2] ^= shifted_word
    words[3] = (words[3] << np.uint64(45)) | (words[3] >> np.uint64(19))


def apply(matrix: Any, words: Any, out: Any) -> None:
    """Write the image of a state to ``out``."""
    out[:] = np.uint64(0)
    for k in range(4):
        word, bit_place = words[k], 64 * k
        while word != np.uint64(0):
            if word & np.uint64(1) != np.uint64(0):
                for i in range(4):
                    out[i] ^= matrix[bit_place, i]
            word >>= np.uint64(1)
            bit_place += 1


def fill(matrices: Any) -> None:
    """Write the matrices of 2**j numbers, j = 0, 1, ..."""
    for bit in range(BITS):
        unit_state = matrices[0, bit]
        unit_state[:] = np.uint64(0)
        unit_state[bit // 64] = np.uint64(1) << np.uint64(bit % 64)
        step(unit_state)
    for j in range(1, len(matrices)):
        for bit in range(BITS):
            apply(matrices[j - 1], matrices[j - 1, bit], matrices[j, bit])


def advance(words: Any, counts: Ints, matrices: Any) -> None:
    """Advance row i of ``words``, the words of a stream, by ``counts[i]`` numbers."""
    new_words = np.zeros(4, np.uint64)
    for i in range(len(words)):
        numbers_left = counts[i]
        for _ in range(numbers_left % NEAR):
            step(words[i])
        numbers_left //= NEAR
        j = 5  # 2**5 is NEAR
        while numbers_left > 0:
            if numbers_left & 1:
                apply(matrices[j], words[i], new_words)
                words[i] = new_words
            numbers_left >>= 1
            j += 1
