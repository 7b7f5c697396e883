"""Compiled loops that sample batches of states and find their nodes.

A state of several fields is a row of 64-bit words (``jit.state_words``). Rows that were
met lie one after the other in ``keys``, each in the place where it was met first, and a
hash table finds them: open addressing, ``slots`` of rows, -1 where one is free. Row 0
stands for the end of an episode and is in no slot.

A state that is a whole number has its node without a Python object, by a hash table of
4 bytes per slot: a slot holds the node of its number, or, below 0, the
place of a number that has no node of its own (a terminal state, or one that ``key=``
merges with another).

A stream moves some numbers further on without taking the numbers one by one
(``advance``). The next state of xoshiro256++ is a linear function of the 256 bits of
its state over the field of two elements. So is the state 2**j numbers later: a matrix
T_j, with T_0 the step itself and T_(j+1) = T_j T_j. A stream that is n numbers further
on has the state that the T_j of the bits j of n make of it, one after the other.

A matrix is kept as the images of the 256 unit states, four words each.

These loops have a file of their own because the functions they call import Numba.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.certified.graph import END, END_RAW, STREAM_BYTES
from smoothcruiser.certified.sweeps.memory_kernel import mix_word
from smoothcruiser.jit.memory import float_at, int_at, put_int
from smoothcruiser.jit.primitives import tabular_step
from smoothcruiser.jit.random.stream_type import stream_at
from smoothcruiser.problem.model.tabular import Bools, Floats, Ints

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


# a number that has no node of its own, and the node that stands for it
OTHER = np.dtype([("number", "i8"), ("node", "i4")])
UNKNOWN = -1  # in the place of a node


class Book(NamedTuple):
    """The arrays of a book of numbers, with free room behind the used part."""

    numbers: Ints  # (N,): that of each node
    others: Any  # (M,) of OTHER
    slots: Any  # (2**b,) of 32 bits: 0 is free, k is node k, -1 - k is others[k]


def slot_of(book: Book, number: int) -> int:
    """Return the slot of a number: the one that holds it, or the free one for it."""
    num_slots = len(book.slots)
    slot = np.int64(mix_word(np.uint64(number)) & np.uint64(num_slots - 1))
    while book.slots[slot] != 0:
        slot_value = book.slots[slot]
        slot_number = (
            book.numbers[slot_value]
            if slot_value > 0
            else book.others[-1 - slot_value]["number"]
        )
        if slot_number == number:
            break
        slot = (slot + 1) & (num_slots - 1)
    return slot  # type: ignore[return-value]


def look_up(book: Book, numbers: Ints, nodes: Ints, missing: Ints) -> int:
    """Write the node of each number; UNKNOWN ones are listed in ``missing``.

    Returns how many are missing, counted as often as they come.
    """
    num_missing = 0
    for i in range(len(numbers)):
        number = numbers[i]
        if number == END_RAW:
            nodes[i] = END
            continue
        slot_value = book.slots[slot_of(book, number)]
        if slot_value > 0:
            nodes[i] = slot_value
        elif slot_value < 0:
            nodes[i] = book.others[-1 - slot_value]["node"]
        else:
            nodes[i] = UNKNOWN
            missing[num_missing] = number
            num_missing += 1
    return num_missing


def enter_nodes(book: Book, first: int, last: int) -> None:
    """Enter nodes ``first`` .. ``last - 1``; their numbers are written already."""
    for node in range(first, last):
        book.slots[slot_of(book, book.numbers[node])] = node


def enter_others(book: Book, first: int, last: int) -> None:
    """Enter the numbers of ``others[first:last]``."""
    for other_index in range(first, last):
        book.slots[slot_of(book, book.others[other_index]["number"])] = (
            -1 - other_index
        )


FINE, BAD_REWARD, ENDED, RESERVED = 0, 1, 2, 3  # results of a batch


def step_tabular(data: Any, state: int, action: int, rng: Any) -> Any:
    """Run the step of a tabular problem, with the flag of a step inside the engine."""
    reward, next_state = tabular_step(data, state, action, rng)
    return reward, next_state, False


def step_two(data: Any, state: int, action: int, rng: Any) -> Any:
    """Run a user's step that returns two values."""
    reward, next_state = USER_STEP(state, action, rng)
    return reward, next_state, False


def step_three(data: Any, state: int, action: int, rng: Any) -> Any:
    """Run a user's step that returns three values."""
    reward, next_state, ended = USER_STEP(state, action, rng)
    return reward, next_state, bool(ended)


def USER_STEP(state: int, action: int, rng: Any) -> Any:
    """Stand for the user's step, which replaces it when the loop is compiled."""
    raise NotImplementedError


STEP: Any = step_tabular


def draw_jobs(
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
        rng: Any = stream_at(streams + STREAM_BYTES * job)  # type: ignore[call-arg]
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
