"""States that are whole numbers: a list and a dictionary without Python objects.

A table's states, and those of a compiled step over whole numbers, are numbers of 64
bits. ``NumberStates`` takes the place of the list of states and ``NumberNodes`` that of
the dictionary from states to nodes: 8 bytes per state, and 4 bytes per slot of a hash
table that is at most three quarters full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, overload

import numpy as np

from smoothcruiser.certified import numbers_kernel
from smoothcruiser.certified.graph import END, END_RAW
from smoothcruiser.certified.numbers_kernel import OTHER, UNKNOWN, Book
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import compile_function
from smoothcruiser.problem.tabular import Ints

FIRST_ROOM = 64


class BookLoops(NamedTuple):
    """The loops over a book."""

    look_up: Any
    enter_nodes: Any
    enter_others: Any


@cache
def make_book_loops() -> BookLoops:
    """Return the loops, compiled."""
    loop_names = BookLoops._fields
    return BookLoops(
        *(
            compile_function(getattr(numbers_kernel, loop_name))
            for loop_name in loop_names
        )
    )


def larger(size: int, size_needed: int) -> int:
    """The room that an array of ``size`` gets when it has to hold ``size_needed``.

    It is a sixteenth more: arrays are copied 17 times as they grow, and the free room
    takes 3% of them on average.
    """
    return (
        size
        if size_needed <= size
        else max(size_needed, size + max(size // 16, FIRST_ROOM))
    )


def copy_larger(array: Any, size_needed: int) -> Any:
    """An array with room for ``size_needed``: the same, or a copy with free room."""
    if size_needed <= len(array):
        return array
    larger_array = np.zeros(
        (larger(len(array), size_needed), *array.shape[1:]), array.dtype
    )
    larger_array[: len(array)] = array
    return larger_array


class NumberStates(Sequence[Any]):
    """The states of nodes 0, 1, ...: None for the end, then whole numbers."""

    def __init__(self) -> None:
        self.size = 1
        self.others = 0  # numbers that have no node of their own
        self.book = Book(
            np.zeros(FIRST_ROOM, np.int64),
            np.zeros(0, OTHER),
            np.zeros(2 * FIRST_ROOM, np.int32),
        )

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
        return None if node_index == END else int(self.book.numbers[node_index])

    @property
    def numbers(self) -> Ints:
        """The numbers of nodes 1, 2, ..."""
        return self.book.numbers[1 : self.size]

    @property
    def nbytes(self) -> int:
        """The size of the arrays."""
        return sum(array.nbytes for array in self.book)

    def grown_bytes(self, more_states: int) -> int:
        """The bytes of arrays that replace others when there are ``more_states``."""
        numbers_room, num_slots = len(self.book.numbers), len(self.book.slots)
        new_room, new_slots = (
            larger(numbers_room, self.size + more_states),
            self._table(more_states),
        )
        return (8 * new_room if new_room > numbers_room else 0) + (
            4 * new_slots if new_slots > num_slots else 0
        )

    def extend(self, states: Any) -> None:
        """Give the next nodes their states, none of which is known."""
        numbers = [_number(state) for state in states]
        if None in numbers:
            raise InvalidInput(
                "The states of this memory are whole numbers of 64 bits, got "
                f"{states[numbers.index(None)]!r:.60}; give such a number, or start "
                "another memory."
            )
        self._make_room(len(numbers))
        first_node, self.size = self.size, self.size + len(numbers)
        number_array = copy_larger(self.book.numbers, self.size)
        number_array[first_node : self.size] = numbers
        self.book = self.book._replace(numbers=number_array)
        make_book_loops().enter_nodes(self.book, first_node, self.size)

    def find(self, numbers: Ints) -> tuple[Ints, Ints]:
        """The nodes of numbers, UNKNOWN for some, and those, sorted and each once."""
        nodes, missing = np.empty_like(numbers), np.empty_like(numbers)
        num_missing = make_book_loops().look_up(self.book, numbers, nodes, missing)
        return nodes, np.unique(missing[:num_missing])

    def stand_for(self, numbers: Any, nodes: Any) -> None:
        """Say which nodes stand for numbers that may have none of their own."""
        numbers, nodes = np.asarray(numbers, np.int64), np.asarray(nodes, np.int64)
        is_unknown = self.find(numbers)[0] == UNKNOWN
        self._make_room(int(is_unknown.sum()))
        first_other, self.others = self.others, self.others + int(is_unknown.sum())
        other_rows = copy_larger(self.book.others, self.others)
        other_rows["number"][first_other : self.others] = numbers[is_unknown]
        other_rows["node"][first_other : self.others] = nodes[is_unknown]
        self.book = self.book._replace(others=other_rows)
        make_book_loops().enter_others(self.book, first_other, self.others)

    def _table(self, more_numbers: int) -> int:
        """The slots that the hash table needs for ``more_numbers``."""
        num_slots = len(self.book.slots)
        while 4 * (self.size + self.others + more_numbers) > 3 * num_slots:
            num_slots *= 2
        return num_slots

    def _make_room(self, more_numbers: int) -> None:
        num_slots = self._table(more_numbers)
        if num_slots > len(self.book.slots):
            self.book = self.book._replace(slots=np.zeros(num_slots, np.int32))
            loops = make_book_loops()
            loops.enter_nodes(self.book, 1, self.size)
            loops.enter_others(self.book, 0, self.others)


class NumberNodes(Mapping[Any, int]):
    """The node of each whole number that is known."""

    def __init__(self, states: NumberStates) -> None:
        self.states = states

    def __len__(self) -> int:
        return self.states.size - 1 + self.states.others

    def __iter__(self) -> Iterator[int]:
        yield from (number for number, _ in self.items())

    def items(self) -> Any:
        """The numbers with their nodes."""
        numbers, other_rows = self.states.numbers.tolist(), self.states.book.others
        other_items = other_rows[: self.states.others][["number", "node"]].tolist()
        return [*zip(numbers, range(1, self.states.size), strict=True), *other_items]

    def __getitem__(self, key: Any) -> int:
        number = _number(key)
        node = UNKNOWN
        if number is not None:
            node = int(self.states.find(np.array([number]))[0][0])
        if node == UNKNOWN:
            raise KeyError(key)
        return node

    def __setitem__(self, key: Any, node: int) -> None:
        self.states.stand_for([key], [node])

    def update(self, pairs: Any) -> None:
        """Say which nodes stand for numbers, as pairs of both."""
        number_pairs = list(pairs)
        self.states.stand_for(
            [number_and_node[0] for number_and_node in number_pairs],
            [number_and_node[1] for number_and_node in number_pairs],
        )


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
    return state if END_RAW < state < 2**63 else None
