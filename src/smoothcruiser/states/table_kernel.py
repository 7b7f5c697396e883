"""A hash table of states as rows of words: the loops, for both forms of a kernel.

The words of state number k are row k of ``keys``. A row that has no number of its own,
and is known to stand for another state, is one of ``others``. Open addressing finds
both: a slot holds k, or -1 - m for row m of ``others``, or 0 where it is free. State 0
is the end of an episode; it has no words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.jit.forms import interpret_as

UNKNOWN = -1  # in the place of a number
END_WORD = -(2**63)  # in the place of a row of one word: the end
GOLDEN = 0x9E3779B97F4A7C15  # the odd step of SplitMix64, where hashes begin
MASK = 2**64 - 1


def mix_word(x: Any) -> Any:
    """Stafford's mix 13 of a 64-bit word, the finalizer of SplitMix64.

    It serves for hashing and for seeding streams by position.
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def mix_number(x: int) -> int:
    """``mix_word`` of a Python number below 2**64."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def row_width(rows: Any) -> int:
    """The words of a row."""
    return rows.shape[1]  # type: ignore[no-any-return]


def word_of(rows: Any, i: int, w: int) -> Any:
    """Word ``w`` of row ``i``."""
    return rows[i, w]


def one_word(rows: Any) -> int:
    """``row_width`` of a vector of numbers: with both, a look-up takes 60% of the time."""
    return 1


def number_of(rows: Any, i: int, w: int) -> Any:
    """``word_of`` for a vector of numbers."""
    return rows[i]


def first_slot(rows: Any, i: int, num_slots: int) -> int:
    """The first slot to try for row ``i``, of ``num_slots`` = 2**b."""
    word = np.uint64(GOLDEN)
    for w in range(row_width(rows)):
        word = mix_word(word + np.uint64(word_of(rows, i, w)))
    return np.int64(word & np.uint64(num_slots - 1))  # type: ignore[return-value]


def interpreted_slot(rows: Any, i: int, num_slots: int) -> int:
    """``first_slot`` in the arithmetic of Python."""
    word = GOLDEN
    for row_word in rows[i : i + 1].tolist():
        for number in row_word if isinstance(row_word, list) else (row_word,):
            word = mix_number((word + number) & MASK)
    return word & (num_slots - 1)


interpret_as(first_slot, interpreted_slot)


def find_slot(keys: Any, others: Any, slots: Any, rows: Any, i: int) -> int:
    """The slot of row ``i`` of ``rows``: the one that holds it, or the free one for it."""
    slot, last_slot = first_slot(rows, i, len(slots)), len(slots) - 1
    while slots[slot] != 0:
        number = slots[slot]
        is_same = True
        for w in range(row_width(rows)):
            if number > 0:
                word = word_of(keys, number, w)
            else:
                word = word_of(others, -1 - number, w)
            if word != word_of(rows, i, w):
                is_same = False
                break
        if is_same:
            break
        slot = (slot + 1) & last_slot
    return slot


def enter_keys(keys: Any, others: Any, slots: Any, first: int, last: int) -> None:
    """Enter states ``first`` .. ``last - 1``."""
    for number in range(first, last):
        slots[find_slot(keys, others, slots, keys, number)] = number


def enter_others(keys: Any, others: Any, slots: Any, first: int, last: int) -> None:
    """Enter rows ``first`` .. ``last - 1`` of ``others``."""
    for row in range(first, last):
        slots[find_slot(keys, others, slots, others, row)] = -1 - row


def look_up(
    keys: Any,
    others: Any,
    slots: Any,
    numbers_of_others: Any,
    rows: Any,
    numbers: Any,
    missing: Any,
) -> int:
    """Write the number of each row, and list the indices of UNKNOWN ones in ``missing``.

    Rows have one word, END_WORD for the end. Returns how many are missing.
    """
    num_missing = 0
    for i in range(len(rows)):
        if word_of(rows, i, 0) == END_WORD:
            numbers[i] = 0
            continue
        number = slots[find_slot(keys, others, slots, rows, i)]
        if number > 0:
            numbers[i] = number
        elif number < 0:
            numbers[i] = numbers_of_others[-1 - number]
        else:
            numbers[i] = UNKNOWN
            missing[num_missing] = i
            num_missing += 1
    return num_missing


def settle(
    keys: Any, others: Any, slots: Any, first: int, first_other: int, numbers: Any
) -> None:
    """Give rows from ``first`` on of ``keys`` their ``numbers``, new ones ascending.

    Rows move to the place of their number, which is their own or an earlier one, or to
    ``others`` where the number is below that of the next new state.
    """
    next_number, next_other = first, first_other
    for i in range(len(numbers)):
        slot = find_slot(keys, others, slots, keys, first + i)
        if numbers[i] == next_number:
            for w in range(keys.shape[1]):
                keys[next_number, w] = keys[first + i, w]
            slots[slot] = next_number
            next_number += 1
        else:
            for w in range(keys.shape[1]):
                others[next_other, w] = keys[first + i, w]
            slots[slot] = -1 - next_other
            next_other += 1
