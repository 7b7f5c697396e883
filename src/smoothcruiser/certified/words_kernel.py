"""The compiled loop that samples states of several fields, and finds their nodes.

A state is a row of 64-bit words (``jit.state_words``). Rows that were met lie one after
the other in ``keys``, each in the place where it was met first, and a hash table finds
them: open addressing, ``slots`` of rows, -1 where one is free. Row 0 stands for the end
of an episode and is in no slot.

It has a file of its own because the functions it calls import Numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.certified.draws_kernel import STEP
from smoothcruiser.certified.graph import STREAM_BYTES
from smoothcruiser.certified.memory_kernel import mix_word
from smoothcruiser.jit.memory import float_at, int_at, put_int
from smoothcruiser.jit.streams import stream_at
from smoothcruiser.problem.tabular import Bools, Floats, Ints

DONE, MISFIT, WRITTEN = 0, 1, 2  # results of a batch
WORD = 8  # bytes
STREAM_WORDS = STREAM_BYTES // WORD
NEGATIVE_ZERO = -(2**63)  # the bits of -0.0, which is equal to another row of words
SEED = 0x9E3779B97F4A7C15  # where hashes begin: any odd number serves


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


def first_slot(address: int, width: int, size: int) -> int:
    """The first slot to try for the words at ``address``, of ``size`` = 2**b slots."""
    word = np.uint64(SEED)
    for w in range(width):
        word = mix_word(word + np.uint64(int_at(address, w)))
    return np.int64(word & np.uint64(size - 1))  # type: ignore[return-value]


def find_row(address: int, keys: Ints, slots: Ints, sizes: Ints) -> int:
    """The row of the words at ``address``; it is added where they are new.

    ``sizes[0]`` rows are in use. The caller has made room for one more.
    """
    width, num_slots = keys.shape[1], len(slots)
    slot = first_slot(address, width, num_slots)
    while slots[slot] >= 0:
        row, is_same = slots[slot], True
        for w in range(width):
            if keys[row, w] != int_at(address, w):
                is_same = False
                break
        if is_same:
            return int(row)
        slot = (slot + 1) & (num_slots - 1)
    row = sizes[0]
    sizes[0] += 1
    slots[slot] = row
    for w in range(width):
        keys[row, w] = int_at(address, w)
    return int(row)


def fill_slots(keys: Ints, slots: Ints, used: int) -> None:
    """Enter rows 1, ..., ``used`` - 1 in an empty hash table."""
    num_slots, keys_address = len(slots), keys.ctypes.data
    for row in range(1, used):
        slot = first_slot(
            keys_address + WORD * keys.shape[1] * row, keys.shape[1], num_slots
        )
        while slots[slot] >= 0:
            slot = (slot + 1) & (num_slots - 1)
        slots[slot] = row


def enter_state(
    state: Any, frame: int, floats: Bools, keys: Ints, slots: Ints, sizes: Ints
) -> int:
    """The row of a state, new or not; -1 where its words may mislead."""
    STORE(frame, state)
    return -1 if is_unusual(frame, floats) else find_row(frame, keys, slots, sizes)


def load_state(address: int) -> Any:
    """The state with its words at ``address``."""
    return LOAD(address)


def draw_states(
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
    frame: int,
    floats: Bools,
    keys: Ints,
    slots: Ints,
    sizes: Ints,
    at: Ints,
) -> int:
    """Fill the buffers with ``counts[i]`` samples of each job, next states as rows.

    ``data`` is for STEP, and ``origins`` are the rows of the jobs' states. ``streams``
    is the address of four words per job, ``before`` that of four more, and ``frame``
    that of two rows to work in. Returns DONE, or MISFIT for sample ``at[1]`` of job
    ``at[0]``, which is no row of words, or an error that plain Python will tell;
    ``before`` is its stream. It is WRITTEN where the step has changed the state of job
    ``at[0]``.
    """
    width = keys.shape[1]
    next_frame = frame + WORD * width
    sample_index = 0
    for job in range(len(origins)):
        stream = streams + STREAM_BYTES * job
        rng: Any = stream_at(stream)  # type: ignore[call-arg]
        origin, action = origins[job], actions[job]
        for w in range(width):
            put_int(frame, w, keys[origin, w])
        state = LOAD(frame)
        for _ in range(counts[job]):
            at[0], at[1] = job, sample_index
            for w in range(STREAM_WORDS):
                put_int(before, w, int_at(stream, w))
            reward, next_state, ended = STEP(data, state, action, rng)
            if not low <= reward <= high or (ended and not ends):
                return MISFIT
            rewards[sample_index], raws[sample_index] = reward, 0
            if not (ended or lasts[job]):  # of the last step only the reward counts
                STORE(next_frame, next_state)
                if is_unusual(next_frame, floats):
                    return MISFIT
                raws[sample_index] = find_row(next_frame, keys, slots, sizes)
            sample_index += 1
        for w in range(width):
            if int_at(frame, w) != keys[origin, w]:
                return WRITTEN
    at[0], at[1] = len(origins), sample_index
    return DONE
