"""From whole numbers to nodes without a Python object per state, compiled.

A hash table of 4 bytes per slot: a slot holds the node of its number, or, below 0, the
place of a number that has no node of its own (a terminal state, or one that ``key=``
merges with another).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.certified.graph import END, END_RAW
from smoothcruiser.certified.memory_kernel import mix_word
from smoothcruiser.problem.tabular import Ints

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
        book.slots[slot_of(book, book.others[other_index]["number"])] = -1 - other_index
