"""States that are whole numbers, and the compiled loop that samples them.

A table's states, and those of a compiled step over whole numbers, are numbers of 64
bits. ``NumberStates`` takes the place of the list of states and ``NumberNodes`` that of
the dictionary from states to nodes, without Python objects: 8 bytes per state, and 4
bytes per slot of a hash table that is at most three quarters full.

Tables have one sampling loop, with the tables as its data. For a user's step there are
two, which return the same bits: one for all users, from the disk, which calls the step
by address, and one with the step in it, which replaces it in a search of many calls
(``engines.compiled.tiers``). On several threads, jobs are split into contiguous parts of
about the same number of samples, each with its streams and buffers, so that the bits are
those of one thread.

The stream of a table's pair needs no memory: samples take one number each, so where it
is follows from its first words and the samples that the pair has (``states_kernel``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, overload

import numpy as np

from smoothcruiser.certified.graph import END, END_RAW
from smoothcruiser.certified.sampling import states_kernel as jumps_kernel
from smoothcruiser.certified.sampling import states_kernel as numbers_kernel
from smoothcruiser.certified.sampling.states_kernel import OTHER, UNKNOWN, Book
from smoothcruiser.engines.compiled.tiers import (
    ADDRESS,
    INLINED,
    Handover,
    tier_choice,
)
from smoothcruiser.engines.pools.threads import Threads
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import compile_function
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.problem.problem import Problem

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


_steps: dict[Any, Any] = {}  # steps by address; False where that cannot be


@dataclass(frozen=True)
class NumberLoop:
    """A loop and its data."""

    kernel: Any  # ``draws_kernel.draw_jobs``
    problem: Problem  # as Python calls it
    fixed: Any = ()  # the data of a loop that calls nothing by address
    spoken: Any = None  # the user's functions that it calls by address
    later: Handover | None = None

    def data(self) -> tuple[Any, Any]:
        """(data of its step, objects to keep alive as long); threads share nothing."""
        if self.spoken is None:
            return self.fixed, None
        buffer, state = self.spoken.buffer(), np.zeros(1, dtype=np.int64)
        buffer_addresses = int(buffer.ctypes.data), int(state.ctypes.data)
        return (self.spoken.address, *buffer_addresses), (buffer, state)

    def after(self, calls: int) -> NumberLoop:
        """The loop to continue with, after so many more calls."""
        inlined_kernel = None if self.later is None else self.later.after(calls)
        return (
            self
            if inlined_kernel is None
            else NumberLoop(inlined_kernel, self.problem)
        )


def number_loop(problem: Problem) -> NumberLoop:
    """The loop of a problem over whole numbers."""
    from smoothcruiser.certified.sampling import states_kernel as draws_kernel

    if problem.tables is not None:
        kernel = compile_function(draws_kernel.draw_jobs, nogil=True)
        return NumberLoop(kernel, problem, problem.tables.sampling)
    tier = tier_choice()
    user_step = None if tier == INLINED else _step_by_address(problem)
    if user_step is None:
        return NumberLoop(_inlined_loop(problem), problem)
    from smoothcruiser.jit import by_address

    kernel = compile_function(
        draws_kernel.draw_jobs, nogil=True, **by_address.number_parts()
    )
    handover = None if tier == ADDRESS else Handover(lambda: _compile_inlined(problem))
    return NumberLoop(kernel, problem, spoken=user_step, later=handover)


def _step_by_address(problem: Problem) -> Any:
    """The step as it is called by address, or None."""
    from smoothcruiser.engines.compiled.tiers import compile_user_step

    if problem.oracle not in _steps:
        _steps[problem.oracle] = compile_user_step(problem, 0)
    return _steps[problem.oracle]


def _inlined_loop(problem: Problem) -> Any:
    """The loop with the step in it."""
    from numba import types

    from smoothcruiser.certified.sampling import states_kernel as draws
    from smoothcruiser.jit.oracle import returned_type

    returned_types = returned_type(problem.oracle, types.int64)
    adapter = draws.step_three if len(returned_types) == 3 else draws.step_two
    step = compile_function(adapter, USER_STEP=problem.oracle)
    return compile_function(draws.draw_jobs, nogil=True, STEP=step)


def _compile_inlined(problem: Problem) -> Any:
    """The same, compiled."""
    kernel, no_jobs = _inlined_loop(problem), np.zeros(0, dtype=np.int64)
    low, high = problem.facts.reward_range
    has_terminals, fault = problem.facts.terminals, np.zeros(2, dtype=np.int64)
    kernel(
        (),
        no_jobs,
        no_jobs,
        no_jobs,
        0,
        no_jobs,
        np.zeros(0),
        low,
        high,
        has_terminals,
        fault,
    )
    return kernel


class _Part(NamedTuple):
    """Jobs for one thread.

    It has the first of them, the place of its first sample, and the arguments of the
    loop that runs it (``sampling.CompiledSampler``).
    """

    first: int
    low: int
    jobs: tuple[Any, ...]


def make_threads(num_threads: int, run: Callable[..., int]) -> Threads:
    """Threads that sample with ``run``."""
    return Threads(num_threads, run, _nothing)


def run_shared(
    pool: Threads,
    states: Ints,
    actions: Ints,
    counts: Ints,
    words: Any,
    raws: Ints,
    rewards: Floats,
    fault: Ints,
) -> int:
    """The status of the samples, as if one thread had taken them."""
    job_ends, num_parts = np.cumsum(counts), pool.size
    cut_places = [
        0,
        *(
            int(np.searchsorted(job_ends, job_ends[-1] * part / num_parts)) + 1
            for part in range(1, num_parts)
        ),
        len(counts),
    ]
    cut_places = sorted({min(cut_place, len(counts)) for cut_place in cut_places})
    parts = []
    for first_job, end_job in itertools.pairwise(cut_places):
        first_sample, end_sample = (
            int(job_ends[first_job] - counts[first_job]),
            int(job_ends[end_job - 1]),
        )
        jobs = (
            states[first_job:end_job],
            actions[first_job:end_job],
            counts[first_job:end_job],
            words[first_job:end_job],
            raws[first_sample:end_sample],
            rewards[first_sample:end_sample],
            np.zeros(2, dtype=np.int64),
        )
        parts.append(_Part(first_job, first_sample, jobs))
    part_results: dict[int, int | BaseException] = {}

    def report(part: _Part, ended: int | BaseException) -> bool:
        part_results[part.first] = ended
        return False

    pool.map(_run_part, iter(parts), report)
    status = 0
    for part in parts:  # the first fault in the order of the jobs is reported
        part_result, part_fault = part_results[part.first], part.jobs[-1]
        fault[0], fault[1] = part.first + part_fault[0], part.low + part_fault[1]
        if isinstance(part_result, BaseException):
            raise part_result
        status = part_result
        if status:
            break
    return status


def _run_part(run: Callable[..., int], part: _Part) -> int | BaseException:
    """Return how a part ended, or its error.

    The sampler decides which fault comes first.
    """
    try:
        return run(*part.jobs)
    except BaseException as error:
        return error


def _nothing() -> None:
    """Do nothing: samples of a slice take milliseconds and cannot be interrupted."""


@cache
def _tools() -> tuple[Any, Any]:
    """The compiled loop, and its matrices."""
    matrices = np.zeros((jumps_kernel.STEPS, jumps_kernel.BITS, 4), np.uint64)
    compile_function(jumps_kernel.fill)(matrices)
    return compile_function(jumps_kernel.advance, nogil=True), matrices


def advance_streams(words: Any, counts: Ints) -> None:
    """Advance streams, rows of four words, by ``counts`` numbers each, in place."""
    advance, matrices = _tools()
    advance(words, counts, matrices)
