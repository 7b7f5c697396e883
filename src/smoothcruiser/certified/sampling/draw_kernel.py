"""Compiled loops that sample batches of jobs, and jumps of their streams.

``draw_numbers`` is for states that are whole numbers, ``draw_rows`` for states that are
rows of words (``states.codec``), which it looks up in a table (``states.table_kernel``).
Both call STEP, which a compiled step, a table's step or a call by address replaces.

A stream moves some numbers further on without taking the numbers one by one
(``advance``). The next state of xoshiro256++ is a linear function of the 256 bits of
its state over the field of two elements. So is the state 2**j numbers later: a matrix
T_j, with T_0 the step itself and T_(j+1) = T_j T_j. A stream that is n numbers further
on has the state that the T_j of the bits j of n make of it, one after the other.

A matrix is kept as the images of the 256 unit states, four words each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.certified.graph import END_RAW, STREAM_BYTES
from smoothcruiser.jit.primitives import (
    float_at,
    int_at,
    put_int,
    stream_at,
    tabular_step,
)
from smoothcruiser.problem.model.tabular import Bools, Floats, Ints
from smoothcruiser.states.table_kernel import find_slot

DONE, MISFIT, WRITTEN = 0, 1, 2  # results of a batch of rows
WORD = 8  # bytes
STREAM_WORDS = STREAM_BYTES // WORD
NEGATIVE_ZERO = -(2**63)  # the bits of -0.0, which is equal to another row of words


def LOAD(address: int) -> Any:
    """Stand for the function that makes a state of words."""
    raise NotImplementedError


def STORE(address: int, state: Any) -> None:
    """Stand for the function that writes a state as words."""
    raise NotImplementedError


def is_unusual(address: int, floats: Bools) -> bool:
    """Whether words may differ where the states are equal, or the other way round.

    These are -0.0, which equals 0.0, and NaN, which equals nothing.
    """
    for w in range(len(floats)):
        if floats[w]:
            value = float_at(address, w)
            if int_at(address, w) == NEGATIVE_ZERO or value != value:
                return True
    return False


def draw_rows(
    data: Any,
    origins: Ints,
    actions: Ints,
    counts: Ints,
    lasts: Bools,
    streams: int,
    before: int,
    raws: Ints,
    rewards: Floats,
    low: float,
    high: float,
    ends: bool,
    frame: Ints,
    floats: Bools,
    keys: Ints,
    others: Ints,
    slots: Any,
    numbers_of_others: Any,
    used: Ints,
    at: Ints,
) -> int:
    """Fill the buffers with ``counts[i]`` samples of each job, next states as numbers.

    ``data`` is for STEP, and ``origins`` are the numbers of the jobs' states. ``streams``
    is the address of four words per job, ``before`` that of four more, and ``frame`` has
    two rows to work in. New states are written to ``keys`` from number ``used[0]`` on;
    the caller has made room. Returns DONE, or MISFIT for sample ``at[1]`` of job
    ``at[0]``, which is no row of words, or an error that plain Python will tell;
    ``before`` is its stream. It is WRITTEN where the step has changed the state of job
    ``at[0]``.
    """
    width = keys.shape[1]
    state_at = frame.ctypes.data
    next_at = state_at + WORD * width
    sample_index = 0
    for job in range(len(origins)):
        stream = streams + STREAM_BYTES * job
        rng = stream_at(stream)
        origin, action = origins[job], actions[job]
        for w in range(width):
            put_int(state_at, w, keys[origin, w])
        state = LOAD(state_at)
        for _ in range(counts[job]):
            at[0], at[1] = job, sample_index
            for w in range(STREAM_WORDS):
                put_int(before, w, int_at(stream, w))
            reward, next_state, ended = STEP(data, state, action, rng)
            if not low <= reward <= high or (ended and not ends):
                return MISFIT
            rewards[sample_index], raws[sample_index] = reward, 0
            if not (ended or lasts[job]):  # of the last step only the reward counts
                STORE(next_at, next_state)
                if is_unusual(next_at, floats):
                    return MISFIT
                slot = find_slot(keys, others, slots, frame, 1)
                number = slots[slot]
                if number == 0:
                    number = used[0]
                    used[0], slots[slot] = number + 1, number
                    for w in range(width):
                        keys[number, w] = int_at(next_at, w)
                elif number < 0:
                    number = numbers_of_others[-1 - number]
                raws[sample_index] = number
            sample_index += 1
        for w in range(width):
            if int_at(state_at, w) != keys[origin, w]:
                return WRITTEN
    at[0], at[1] = len(origins), sample_index
    return DONE


FINE, BAD_REWARD, ENDED, RESERVED = 0, 1, 2, 3  # results of a batch of numbers


def step_tabular(data: Any, state: int, action: int, rng: Any) -> Any:
    """Run the step of a tabular problem, with the flag of a step inside the engine."""
    reward, next_state = tabular_step(data, state, action, rng)
    return reward, next_state, False


STEP: Any = step_tabular


def draw_numbers(
    data: Any,
    states: Ints,
    actions: Ints,
    counts: Ints,
    streams: int,
    raws: Ints,
    rewards: Floats,
    low: float,
    high: float,
    ends: bool,
    fault: Ints,
) -> int:
    """Fill the buffers with ``counts[i]`` samples of each job.

    Returns FINE, or the code of the fault of sample ``fault[1]`` of job ``fault[0]``.
    ``streams`` is the address of four words per job. They are left where the next batch
    continues.
    """
    sample_index = 0
    for job in range(len(states)):
        fault[0] = job
        rng = stream_at(streams + STREAM_BYTES * job)
        state, action = states[job], actions[job]
        for _ in range(counts[job]):
            reward, next_state, ended = STEP(data, state, action, rng)
            rewards[sample_index] = reward
            raws[sample_index] = END_RAW if ended else next_state
            if not low <= reward <= high:
                fault[1] = sample_index
                return BAD_REWARD
            if ended and not ends:
                return ENDED
            if next_state == END_RAW and not ended:
                return RESERVED
            sample_index += 1
    return FINE


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


def advance(words: Any, counts: Ints, matrices: Any, new_words: Any) -> None:
    """Advance row i of ``words``, the words of a stream, by ``counts[i]`` numbers.

    ``new_words`` is room for four words.
    """
    for i in range(len(words)):
        numbers_left = counts[i]
        for _ in range(numbers_left % NEAR):
            step(words[i])
        numbers_left //= NEAR
        j = 5  # 2**5 is NEAR
        while numbers_left > 0:
            if numbers_left & 1:
                apply(matrices[j], words[i], new_words)
                for k in range(4):
                    words[i, k] = new_words[k]
            numbers_left >>= 1
            j += 1
