"""A table of states: words to numbers and back, without a Python object per state.

Numbers are 0, 1, ... in the order in which states are entered; 0 is the end of an
episode. A state takes 8 bytes per word, and 4 bytes per slot of a hash table that is at
most three quarters full. Words of states that have no number of their own (terminal
ones, those that ``key=`` merges with another) can stand for the number of another.

``NumberStates`` is the table of states that are whole numbers, in the place of a list of
states, and ``NumberNodes`` stands in the place of a dictionary from states to numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.forms import KernelFamily
from smoothcruiser.states import table_kernel
from smoothcruiser.states.table_kernel import END_WORD, UNKNOWN

FIRST_ROOM = 64

# about the CPU seconds of compiling the loops of a table
TABLES = KernelFamily(compiling=1.5)
enter_keys = TABLES.kernel(table_kernel.enter_keys)
enter_others = TABLES.kernel(table_kernel.enter_others)
NUMBER_PARTS: dict[str, Any] = {
    "row_width": table_kernel.one_word,
    "word_of": table_kernel.number_of,
}
look_up = TABLES.kernel(table_kernel.look_up, salt="numbers", parts=NUMBER_PARTS)
settle = TABLES.kernel(table_kernel.settle)


def larger(size: int, size_needed: int) -> int:
    """The room that an array of ``size`` gets when it has to hold ``size_needed``.

    It is a sixteenth more: arrays are copied 17 times as they grow, and the free room
    takes 3% of them on average.
    """
    if size_needed <= size:
        return size
    return max(size_needed, size + max(size // 16, FIRST_ROOM))


def copy_larger(array: Any, size_needed: int) -> Any:
    """An array with room for ``size_needed``: the same, or a copy with free room."""
    if size_needed <= len(array):
        return array
    shape = (larger(len(array), size_needed), *array.shape[1:])
    larger_array = np.zeros(shape, array.dtype)
    larger_array[: len(array)] = array
    return larger_array


class WordTable:
    """The numbers of states that are rows of ``width`` words."""

    def __init__(self, width: int) -> None:
        self.size = 1  # numbers in use
        self.num_others = 0  # rows that stand for the number of another
        self.without_words: list[int] = []  # states that no row stands for
        self.keys = np.zeros((FIRST_ROOM, width), np.int64)
        self.others = np.zeros((0, width), np.int64)
        self.numbers_of_others = np.zeros(0, np.int32)
        self.slots = np.zeros(2 * FIRST_ROOM, np.int32)

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        """The arrays in which compiled code looks a row up."""
        return self.keys, self.others, self.slots

    @property
    def nbytes(self) -> int:
        """The size of the arrays."""
        arrays = (*self.arrays, self.numbers_of_others)
        return sum(array.nbytes for array in arrays)

    def grown_bytes(self, more_states: int) -> int:
        """The bytes of arrays that replace others when there are ``more_states``."""
        room, num_slots = len(self.keys), self._slots_for(more_states)
        new_room = larger(room, self.size + more_states)
        row_bytes = self.keys.itemsize * self.keys.shape[1]
        return (row_bytes * new_room if new_room > room else 0) + (
            4 * num_slots if num_slots > len(self.slots) else 0
        )

    def _slots_for(self, more_rows: int) -> int:
        num_slots = len(self.slots)
        while 4 * (self.size + self.num_others + more_rows) > 3 * num_slots:
            num_slots *= 2
        return num_slots

    def reserve(self, more_rows: int) -> None:
        """Make room in the hash table for so many further rows."""
        num_slots = self._slots_for(more_rows)
        if num_slots > len(self.slots):
            self.slots = np.zeros(num_slots, np.int32)
            self.enter_all()

    def enter_all(self) -> None:
        """Fill the hash table anew."""
        self.slots[:] = 0
        self._enter_keys(1)
        enter_others(*self.arrays, 0, self.num_others)

    def _enter_keys(self, first: int) -> None:
        gaps = [number for number in self.without_words if number >= first]
        starts, ends = [first, *(gap + 1 for gap in gaps)], [*gaps, self.size]
        for start, end in zip(starts, ends, strict=True):
            enter_keys(*self.arrays, start, end)

    def extend(self, rows: Any, without_words: Sequence[int] = ()) -> None:
        """Give the next numbers to states that are not in the table.

        ``without_words`` are indices of states that no row stands for.
        """
        self.reserve(len(rows))
        first, self.size = self.size, self.size + len(rows)
        self.keys = copy_larger(self.keys, self.size)
        self.keys[first : self.size] = rows
        self.without_words += [first + i for i in without_words]
        self._enter_keys(first)

    def find(self, rows: Any) -> tuple[Any, Any]:
        """The numbers of rows of one word, UNKNOWN for some, and the indices of those."""
        numbers, missing = (np.empty(len(rows), np.int64) for _ in range(2))
        vectors = self.keys.ravel(), self.others.ravel(), self.slots
        num_missing = look_up(
            *vectors, self.numbers_of_others, rows.ravel(), numbers, missing
        )
        return numbers, missing[:num_missing]

    def stand_for(self, rows: Any, numbers: Any) -> None:
        """Say which numbers rows stand for that may have none of their own."""
        unknown = self.find(rows)[1]
        if len(unknown) == 0:
            return
        self.reserve(len(unknown))
        first = self._add_others(numbers[unknown])
        self.others[first : self.num_others] = rows[unknown]
        enter_others(*self.arrays, first, self.num_others)

    def _add_others(self, numbers: Any) -> int:
        """Make room for rows that stand for ``numbers``; returns the first of them."""
        first, self.num_others = self.num_others, self.num_others + len(numbers)
        self.others = copy_larger(self.others, self.num_others)
        self.numbers_of_others = copy_larger(self.numbers_of_others, self.num_others)
        self.numbers_of_others[first : self.num_others] = numbers
        return first

    def settle(self, numbers: Any) -> None:
        """Say which numbers the rows behind the table get, which compiled code wrote."""
        first, num_rows = self.size, len(numbers)
        expected = np.arange(first, first + num_rows)
        if np.array_equal(numbers, expected):
            self.size += num_rows
            return
        self.size = max(first, int(numbers.max()) + 1)
        is_new = np.zeros(num_rows, dtype=np.bool_)
        is_new[np.unique(numbers, return_index=True)[1]] = True
        is_new &= numbers >= first
        first_other = self._add_others(numbers[~is_new])
        settle(*self.arrays, first, first_other, numbers)


class NumberStates(WordTable, Sequence[Any]):
    """The table of whole numbers of 64 bits: None for the end, then the numbers."""

    def __init__(self) -> None:
        super().__init__(1)

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, node: int) -> int | None: ...

    @overload
    def __getitem__(self, node: slice) -> list[int | None]: ...

    def __getitem__(self, node: int | slice) -> Any:
        if isinstance(node, slice):
            return [self[i] for i in range(*node.indices(self.size))]
        if not -self.size <= node < self.size:
            raise IndexError(node)
        node_index = node % self.size
        return None if node_index == 0 else int(self.keys[node_index, 0])

    @property
    def numbers(self) -> Any:
        """The numbers of nodes 1, 2, ..."""
        return self.keys[1 : self.size, 0]

    def extend(self, rows: Any, without_words: Sequence[int] = ()) -> None:
        """Give the next nodes their states, none of which is known."""
        numbers = [_number(state) for state in rows]
        if None in numbers:
            raise InvalidInput(
                "The states of this memory are whole numbers of 64 bits, got "
                f"{rows[numbers.index(None)]!r:.60}; give such a number, or start "
                "another memory."
            )
        super().extend(np.array(numbers, np.int64)[:, None])

    def find_numbers(self, numbers: Any) -> tuple[Any, Any]:
        """The nodes of numbers, UNKNOWN for some, and those, sorted and each once."""
        nodes, missing = self.find(numbers[:, None])
        return nodes, np.unique(numbers[missing])


class NumberNodes(Mapping[Any, int]):
    """The node of each whole number that is known."""

    def __init__(self, states: NumberStates) -> None:
        self.states = states

    def __len__(self) -> int:
        return self.states.size - 1 + self.states.num_others

    def __iter__(self) -> Iterator[int]:
        yield from (number for number, _ in self.items())

    def items(self) -> Any:
        """The numbers with their nodes."""
        states, used = self.states, slice(self.states.num_others)
        numbers = np.concatenate([states.numbers, states.others[used, 0]])
        nodes = [*range(1, states.size), *states.numbers_of_others[used].tolist()]
        return [*zip(numbers.tolist(), nodes, strict=True)]

    def __getitem__(self, key: Any) -> int:
        number = _number(key)
        node = UNKNOWN
        if number is not None:
            node = int(self.states.find(np.array([[number]]))[0][0])
        if node == UNKNOWN:
            raise KeyError(key)
        return node

    def __setitem__(self, key: Any, node: int) -> None:
        self.update([(key, node)])

    def update(self, pairs: Any) -> None:
        """Say which nodes stand for numbers, as pairs of both."""
        numbers, nodes = np.array(list(pairs), np.int64).reshape(-1, 2).T.copy()
        self.states.stand_for(numbers[:, None], nodes)


def _number(state: Any) -> int | None:
    """A state as a whole number of 64 bits that is equal to it; None where it is none."""
    if type(state) is not int:
        try:
            number = int(state)
            if number != state:
                return None
        except (TypeError, ValueError, OverflowError):
            return None
        state = number
    return state if END_WORD < state < 2**63 else None
