"""Samples of a compiled step over states of several fields: tuples, arrays, floats.

``PythonSampler`` makes a Python object of every next state and looks it up in a
dictionary. Here states are rows of words, which compiled code hashes and compares
(``words_kernel``), so that Python sees a state once: when it is new and gets its node.
Nodes are numbered in the order in which states are met, and streams are those of
``PythonSampler``, so both return the same bits.

This file leaves to ``PythonSampler``: samples with a next state that has no such row
(-0.0, which equals 0.0; NaN; an array of another shape) or that are an error, batches
for which there may be no room, and everything after ``MOST_MISFITS`` of the first kind.
Such a sample is taken a second time, from the same stream.
"""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcruiser.certified.graph import END
from smoothcruiser.certified.sample_batches import Batch
from smoothcruiser.certified.sampling.sampler import PythonSampler
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.engines.compiled.tiers import (
    ADDRESS,
    INLINED,
    Handover,
    tier_choice,
)
from smoothcruiser.jit.build import compile_function, is_compiled
from smoothcruiser.problem.model.tabular import Bools, Floats, Ints
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import is_fixed, written_into

if TYPE_CHECKING:
    from collections.abc import Callable

PART = 1 << 16  # samples of one pass: there is room for as many new states
FIRST_ROWS = 1 << 10
MOST_MISFITS = 16
NONE: Ints = np.zeros(0, dtype=np.int64)
NO_REWARDS: Floats = np.zeros(0)


class WordLoops(NamedTuple):
    """The loops compiled for one step and one kind of state."""

    draw: Callable[..., int]
    enter: Callable[..., int]  # (state, frame, ...)
    load: Callable[[Ints], Any]  # the state of a row of words
    fill: Callable[..., None]
    floats: Bools  # (W,): which words are floats
    form: Any  # the Numba type of a state, and the shapes in it
    spoken: Any = None  # the user's functions, where ``draw`` calls them by address
    later: Handover | None = None  # the ``draw`` that has the step in it


_loops: dict[Any, WordLoops | None] = {}


def word_sampler(
    problem: Problem, memory: Memory, state: Any, seed: int
) -> WordSampler | None:
    """The sampler of a compiled step over rows of words; None where it is of no use."""
    if problem.key is not None or not is_compiled(problem.oracle):
        return None
    start_time = time.perf_counter()
    loops = _loops_of(problem, state)
    if loops is None:
        return None
    sampler = WordSampler(problem, memory, seed, loops)
    sampler.warm(state)
    sampler.compile_seconds = time.perf_counter() - start_time
    return sampler


def _loops_of(problem: Problem, state: Any) -> WordLoops | None:
    """The compiled loops of a step; None for states that have no words."""
    import numba

    try:
        kind = numba.typeof(state)
    except ValueError:
        return None
    tier = tier_choice()
    loops_key = (problem.oracle, kind, _shapes(state), tier)
    if loops_key not in _loops:
        float_words = _floats(kind, state)
        word_loops = None
        if float_words is not None and tier != INLINED:
            word_loops = _by_address(problem, kind, state, np.array(float_words))
        if float_words is not None and word_loops is None:
            word_loops = _inlined_loops(
                problem.oracle, kind, state, np.array(float_words)
            )
        _loops[loops_key] = word_loops
    return _loops[loops_key]


def _by_address(
    problem: Problem, kind: Any, state: Any, floats: Bools
) -> WordLoops | None:
    """Loops that all users share, and the functions that they call; None for arrays."""
    from smoothcruiser.certified.sampling import states_kernel as words_kernel
    from smoothcruiser.engines.compiled.tiers import compile_user_step
    from smoothcruiser.jit import by_address
    from smoothcruiser.jit.word_functions import is_shown

    user_step = compile_user_step(problem, state) if is_shown(kind) else None
    if user_step is None:
        return None
    row_parts = by_address.row_parts()
    salt, store = row_parts["salt"], row_parts["STORE"]
    enter_shared = compile_function(words_kernel.enter_state, salt=salt, STORE=store)

    def enter(state: Any, *others: Any) -> int:
        words = user_step.words(state)
        return int(enter_shared(int(words.ctypes.data), *others))

    def build() -> Any:
        loops = _inlined_loops(problem.oracle, kind, state, floats)
        if loops is not None:
            _warm(loops)
        return None if loops is None else loops.draw

    return WordLoops(
        compile_function(words_kernel.draw_states, nogil=True, **row_parts),
        enter,
        user_step.state,
        compile_function(words_kernel.fill_slots),
        floats,
        (kind, _shapes(state)),
        user_step,
        Handover(build) if tier_choice() != ADDRESS else None,
    )


def _inlined_loops(
    oracle: Any, kind: Any, state: Any, floats: Bools
) -> WordLoops | None:
    """Loops with the step in them; None where the step changes the type of states."""
    from smoothcruiser.certified.sampling import states_kernel as draws_kernel
    from smoothcruiser.certified.sampling import states_kernel as words_kernel
    from smoothcruiser.jit.oracle import returned_type
    from smoothcruiser.jit.state_words import words

    returned_types = returned_type(oracle, kind)
    if returned_types[1] != kind:
        return None
    word_form = words(kind, state)
    adapter = (
        draws_kernel.step_three if len(returned_types) == 3 else draws_kernel.step_two
    )
    step = compile_function(adapter, USER_STEP=oracle)
    load_and_store: dict[str, Any] = {"LOAD": word_form.load, "STORE": word_form.store}
    load = compile_function(words_kernel.load_state, LOAD=word_form.load)
    return WordLoops(
        compile_function(
            words_kernel.draw_states, nogil=True, STEP=step, **load_and_store
        ),
        compile_function(words_kernel.enter_state, STORE=word_form.store),
        lambda row: load(int(row.ctypes.data)),
        compile_function(words_kernel.fill_slots),
        floats,
        (kind, _shapes(state)),
    )


def _warm(loops: WordLoops) -> None:
    """Compile the loop that samples, on no jobs."""
    width, no_flags = len(loops.floats), np.zeros(0, dtype=np.bool_)
    stream, frame = np.zeros(4, dtype=np.uint64), np.zeros((2, width), dtype=np.int64)
    keys, small_sizes = (
        np.zeros((1, width), dtype=np.int64),
        np.ones(2, dtype=np.int64),
    )
    stream_address = int(stream.ctypes.data)
    work = (
        int(frame.ctypes.data),
        loops.floats,
        keys,
        small_sizes,
        small_sizes,
        small_sizes.copy(),
    )
    buffers = stream_address, stream_address, NONE, NO_REWARDS, 0.0, 1.0, True
    loops.draw((), NONE, NONE, NONE, no_flags, *buffers, *work)


def _shapes(state: Any) -> Any:
    """The shapes of the arrays in a state, which its Numba type leaves out."""
    if isinstance(state, tuple):
        return tuple(map(_shapes, state))
    return np.shape(state)


def _floats(kind: Any, state: Any) -> list[bool] | None:
    """Which words of a state are floats; None where its words would not do.

    Python gets every number back as int64 or float64, so that others would change
    their type on the way. A word of an array may hold several whole numbers.
    """
    from numba import types

    if isinstance(kind, types.BaseTuple):
        fields = [
            _floats(*field_floats)
            for field_floats in zip(kind.types, state, strict=True)
        ]
        if not fields or any(field_floats is None for field_floats in fields):
            return None
        return [word for field_floats in fields for word in field_floats or ()]
    if isinstance(kind, types.Array):
        is_plain = kind.layout == "C" and kind.mutable and kind.aligned
        is_whole = isinstance(kind.dtype, types.Integer | types.Boolean)
        if (
            not is_plain
            or not state.size
            or not (is_whole or kind.dtype == types.float64)
        ):
            return None
        return [not is_whole] * -(-state.nbytes // 8)
    if kind in (types.int64, types.boolean, types.float64):
        return [kind == types.float64]
    return None


class WordSampler(PythonSampler):
    """Batches of a compiled step over states that are rows of words."""

    def __init__(
        self, problem: Problem, memory: Memory, seed: int, loops: WordLoops
    ) -> None:
        super().__init__(problem, memory, seed)
        self.loops, num_words = loops, len(loops.floats)
        self._keys: Ints = np.zeros((FIRST_ROWS, num_words), dtype=np.int64)
        self._targets: Ints = np.full(FIRST_ROWS, END)  # (rows,): their nodes
        self._slots: Ints = np.full(2 * FIRST_ROWS, -1)
        self._sizes: Ints = np.ones(1, dtype=np.int64)  # rows in use, the end's too
        self._rows: Ints = np.zeros(
            1, dtype=np.int64
        )  # (N,) of nodes; -1: it has none
        self._frame: Ints = np.zeros((2, num_words), dtype=np.int64)
        self._misfits = 0
        self._data: Any = ()  # for the step in ``draw``
        if loops.spoken is not None:
            self._room = loops.spoken.buffer()
            self._data = loops.spoken.address, int(self._room.ctypes.data)
        self._run_loop(
            np.zeros(0, dtype=np.int64), np.zeros((0, 4), np.uint64)
        )  # compiles
        self._cover_nodes()

    def warm(self, state: Any) -> None:
        """Compile the functions of rows, on rows that are thrown away."""
        keys, slots, sizes = self._keys.copy(), self._slots.copy(), self._sizes.copy()
        frame, floats = np.zeros_like(self._frame), self.loops.floats
        self.loops.enter(state, int(frame.ctypes.data), floats, keys, slots, sizes)
        self.loops.fill(keys, slots, int(sizes[0]))
        self.loops.load(keys[0])

    def draw(self, batch: Batch, max_samples: int) -> None:
        """Take the next samples of a batch, at most ``max_samples`` of them."""
        stop_sample = min(batch.size, batch.drawn + max_samples)
        while batch.drawn < stop_sample:
            part_size = min(PART, stop_sample - batch.drawn)
            if (
                batch.watched
                or self._misfits >= MOST_MISFITS
                or self.memory.is_crowded(part_size)
            ):
                super().draw(batch, part_size)
            elif not self._draw_part(batch, part_size):
                self._misfits += 1
                super().draw(batch, 1)

    def _draw_part(self, batch: Batch, part_size: int) -> bool:
        """Sample a part of a batch; False where the next one is left to plain Python."""
        first_job, counts = batch.next_samples(part_size)
        pairs = batch.pairs[first_job : first_job + len(counts)]
        self._cover_nodes()
        self._make_room(part_size)
        origin_rows = self._rows[self.memory.graph.pairs["node"][pairs]]
        if (origin_rows < 0).any():
            return False
        rows_before, words, drawn_before = (
            int(self._sizes[0]),
            self._streams(pairs),
            batch.drawn,
        )
        buffers = batch.raws[drawn_before:], batch.rewards[drawn_before:]
        num_jobs, num_samples, all_done = self._run_loop(
            pairs, words, counts, origin_rows, *buffers
        )
        self._add_nodes(rows_before)
        new_samples = slice(drawn_before, drawn_before + num_samples)
        batch.raws[new_samples] = self._targets[batch.raws[new_samples]]
        self.words[pairs[:num_jobs]] = words[:num_jobs]
        batch.drawn = new_samples.stop
        self._hand_over(num_samples)
        return all_done

    def _hand_over(self, calls: int) -> None:
        """Go on with the loop that has the step in it, once it is there."""
        handover = self.loops.later
        inlined_draw = None if handover is None else handover.after(calls)
        if inlined_draw is not None:
            self.loops = self.loops._replace(draw=inlined_draw, later=None)
            self._data = ()

    def _run_loop(
        self,
        pairs: Ints,
        words: Any,
        counts: Ints = NONE,
        origins: Ints = NONE,
        raws: Ints = NONE,
        rewards: Floats = NO_REWARDS,
    ) -> tuple[int, int, bool]:
        """(jobs with a sample, their samples, whether that is all of them)."""
        from smoothcruiser.certified.sampling import states_kernel as kernel

        graph, facts = self.memory.graph, self.problem.facts
        chosen_pairs, progress = graph.pairs[pairs], np.zeros(2, dtype=np.int64)
        words_before = np.zeros(4, dtype=np.uint64)
        self._frame[:] = 0
        try:
            status = self.loops.draw(
                self._data,
                origins,
                chosen_pairs["action"].astype(np.int64),
                counts,
                graph.nodes["last"][chosen_pairs["node"]] == 1,
                int(words.ctypes.data),
                int(words_before.ctypes.data),
                raws,
                rewards,
                *facts.reward_range,
                facts.terminals,
                int(self._frame.ctypes.data),
                self.loops.floats,
                self._keys,
                self._slots,
                self._sizes,
                progress,
            )
        except KeyboardInterrupt:
            raise
        except BaseException:
            if len(pairs) == 0:  # it could not be compiled
                raise
            status = kernel.MISFIT  # plain Python raises it again, and says where
        job, num_samples = progress.tolist()
        if status == kernel.DONE:
            return job, num_samples, True
        if not np.array_equal(self._frame[0], self._keys[origins[job]]):
            node, action = graph.pairs[["node", "action"]][pairs[job]]
            changed_state = self._state_at(self._frame[0])
            raise written_into(self.memory.states[node], changed_state, int(action))
        words[job] = words_before
        return job + 1, num_samples, False

    # --- rows and nodes -------------------------------------------------------

    def _state_at(self, words: Ints) -> Any:
        """A state of its own, made of a row of words."""
        state = self.loops.load(words)
        return state if is_fixed(state) else copy.deepcopy(state)

    def _cover_nodes(self) -> None:
        """Give every node its row; most got it when they were met."""
        rows_before, rows_needed = len(self._rows), self.memory.num_nodes
        if rows_before == rows_needed:
            return
        self._make_room(rows_needed - rows_before)
        node_rows = [
            self._enter(self.memory.states[node])
            for node in range(rows_before, rows_needed)
        ]
        self._rows = np.concatenate([self._rows, np.array(node_rows, dtype=np.int64)])
        for node, row in enumerate(node_rows, rows_before):
            if row > 0:
                self._targets[row] = node

    def _enter(self, state: Any) -> int:
        """The row of a state; -1 where it has none."""
        import numba

        if (numba.typeof(state), _shapes(state)) != self.loops.form:
            return -1
        self._frame[:] = 0
        frame_address, floats = int(self._frame.ctypes.data), self.loops.floats
        row = self.loops.enter(
            state, frame_address, floats, self._keys, self._slots, self._sizes
        )
        return int(row)

    def _add_nodes(self, begun: int) -> None:
        """Give the states of the rows from ``begun`` on their nodes, in this order."""
        memory, rows_used = self.memory, int(self._sizes[0])
        if begun == rows_used:
            return
        states = [self._state_at(self._keys[row]) for row in range(begun, rows_used)]
        # an end that was met in another process may be known
        if is_fixed(states[0]) and not any(state in memory.nodes for state in states):
            nodes = memory.add_plain(states)
        else:
            nodes = [memory.node_of(state) for state in states]
        self._targets[begun:rows_used] = nodes
        node_rows = np.full(memory.num_nodes, -1)
        node_rows[: len(self._rows)] = self._rows
        node_rows[nodes] = np.arange(begun, rows_used)
        self._rows = node_rows

    def _make_room(self, more_rows: int) -> None:
        """Make room for so many further rows."""
        rows_used = int(self._sizes[0])
        rows_needed = rows_used + more_rows
        if rows_needed > len(self._keys):
            num_rows = max(rows_needed, 2 * len(self._keys))
            keys = np.zeros((num_rows, self._keys.shape[1]), dtype=np.int64)
            targets = np.full(num_rows, END)
            keys[:rows_used], targets[:rows_used] = (
                self._keys[:rows_used],
                self._targets[:rows_used],
            )
            self._keys, self._targets = keys, targets
        if 2 * rows_needed > len(self._slots):
            self._slots = np.full(1 << (2 * rows_needed).bit_length(), -1)
            self.loops.fill(self._keys, self._slots, rows_used)
        arrays = self._keys, self._targets, self._slots, self._rows
        self.memory.key_bytes = sum(array.nbytes for array in arrays)
