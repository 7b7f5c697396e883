"""Samples of a compiled step over states of several fields: tuples, arrays, floats.

``PythonSampler`` makes a Python object of every next state and looks it up in a
dictionary. Here states are rows of words, which compiled code hashes and compares
(``words_kernel``), so that Python sees a state once: when it is new and gets its node.
Nodes are numbered in the order in which states are met, and streams are those of
``PythonSampler``, so both return the same bits.

What this file leaves to ``PythonSampler``: samples whose next state has no such row
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
from smoothcruiser.certified.intake import Batch
from smoothcruiser.certified.memory import Memory
from smoothcruiser.certified.sampling import PythonSampler
from smoothcruiser.engines.compiled.handover import (
    ADDRESS,
    INLINED,
    Handover,
    calling,
    checked,
    tier_choice,
)
from smoothcruiser.jit.build import compiled, is_compiled
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import is_fixed, written_into
from smoothcruiser.problem.tabular import Bools, Floats, Ints

if TYPE_CHECKING:
    from collections.abc import Callable

PART = 1 << 16  # samples of one pass: there is room for as many new states
FIRST_ROWS = 1 << 10
MOST_MISFITS = 16
NONE: Ints = np.zeros(0, dtype=np.int64)
NO_REWARDS: Floats = np.zeros(0)


class WordLoops(NamedTuple):
    """What is compiled for one step and one kind of state."""

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
    begin = time.perf_counter()
    loops = _loops_of(problem, state)
    if loops is None:
        return None
    if loops.spoken is not None and loops.spoken.kept:
        problem = calling(loops.spoken, problem)  # nothing is compiled for Python
    found = WordSampler(problem, memory, seed, loops)
    found.warm(state)
    found.compile_seconds = time.perf_counter() - begin
    return found


def _loops_of(problem: Problem, state: Any) -> WordLoops | None:
    """The compiled loops of a step; None for states that have no words."""
    import numba

    try:
        kind = numba.typeof(state)
    except ValueError:
        return None
    tier = tier_choice()
    key = (problem.oracle, kind, _shapes(state), tier)
    known = _loops.get(key)
    changed = known and known.spoken and not known.spoken.is_current()
    if key not in _loops or changed:
        floats = _floats(kind, state)
        found = None
        if floats is not None and tier != INLINED:
            found = _by_address(problem, kind, state, np.array(floats))
        if floats is not None and found is None:
            found = _inlined(problem.oracle, kind, state, np.array(floats))
        _loops[key] = found
    return _loops[key]


def _by_address(
    problem: Problem, kind: Any, state: Any, floats: Bools
) -> WordLoops | None:
    """Loops that all users share, and the functions that they call; None for arrays."""
    from smoothcruiser.certified import words_kernel
    from smoothcruiser.engines.compiled.speaking import speak_step
    from smoothcruiser.jit import by_address
    from smoothcruiser.jit.spoken import is_shown

    found = speak_step(problem, state) if is_shown(kind) else None
    if found is None:
        return None
    parts = by_address.row_parts()
    salt, store = parts["salt"], parts["STORE"]
    shared = compiled(words_kernel.enter_state, salt=salt, STORE=store)

    def enter(state: Any, *others: Any) -> int:
        words = found.words(state)
        return int(shared(int(words.ctypes.data), *others))

    def build() -> Any:
        loops = _inlined(problem.oracle, kind, state, floats)
        if loops is not None:
            _warm(loops)
        return None if loops is None else loops.draw

    return WordLoops(
        compiled(words_kernel.draw_states, nogil=True, **parts),
        enter,
        found.state,
        compiled(words_kernel.fill_slots),
        floats,
        (kind, _shapes(state)),
        found,
        Handover(checked(build, found)) if tier_choice() != ADDRESS else None,
    )


def _inlined(oracle: Any, kind: Any, state: Any, floats: Bools) -> WordLoops | None:
    """Loops with the step in them; None where the step changes the type of states."""
    from smoothcruiser.certified import draws_kernel, words_kernel
    from smoothcruiser.jit.oracle import returned_type
    from smoothcruiser.jit.state_words import words

    returned = returned_type(oracle, kind)
    if returned[1] != kind:
        return None
    form = words(kind, state)
    adapter = draws_kernel.step_three if len(returned) == 3 else draws_kernel.step_two
    step = compiled(adapter, USER_STEP=oracle)
    parts: dict[str, Any] = {"LOAD": form.load, "STORE": form.store}
    load = compiled(words_kernel.load_state, LOAD=form.load)
    return WordLoops(
        compiled(words_kernel.draw_states, nogil=True, STEP=step, **parts),
        compiled(words_kernel.enter_state, STORE=form.store),
        lambda row: load(int(row.ctypes.data)),
        compiled(words_kernel.fill_slots),
        floats,
        (kind, _shapes(state)),
    )


def _warm(loops: WordLoops) -> None:
    """Compile the loop that samples, on no jobs."""
    width, flags = len(loops.floats), np.zeros(0, dtype=np.bool_)
    stream, frame = np.zeros(4, dtype=np.uint64), np.zeros((2, width), dtype=np.int64)
    keys, ones = np.zeros((1, width), dtype=np.int64), np.ones(2, dtype=np.int64)
    at = int(stream.ctypes.data)
    work = int(frame.ctypes.data), loops.floats, keys, ones, ones, ones.copy()
    buffers = at, at, NONE, NO_REWARDS, 0.0, 1.0, True
    loops.draw((), NONE, NONE, NONE, flags, *buffers, *work)


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
        parts = [_floats(*part) for part in zip(kind.types, state, strict=True)]
        if not parts or any(part is None for part in parts):
            return None
        return [word for part in parts for word in part or ()]
    if isinstance(kind, types.Array):
        plain = kind.layout == "C" and kind.mutable and kind.aligned
        whole = isinstance(kind.dtype, types.Integer | types.Boolean)
        if not plain or not state.size or not (whole or kind.dtype == types.float64):
            return None
        return [not whole] * -(-state.nbytes // 8)
    if kind in (types.int64, types.boolean, types.float64):
        return [kind == types.float64]
    return None


class WordSampler(PythonSampler):
    """Batches of a compiled step whose states are rows of words."""

    def __init__(
        self, problem: Problem, memory: Memory, seed: int, loops: WordLoops
    ) -> None:
        super().__init__(problem, memory, seed)
        self.loops, width = loops, len(loops.floats)
        self._keys: Ints = np.zeros((FIRST_ROWS, width), dtype=np.int64)
        self._targets: Ints = np.full(FIRST_ROWS, END)  # (rows,): their nodes
        self._slots: Ints = np.full(2 * FIRST_ROWS, -1)
        self._sizes: Ints = np.ones(1, dtype=np.int64)  # rows in use, the end's too
        self._rows: Ints = np.zeros(1, dtype=np.int64)  # (N,) of nodes; -1: it has none
        self._frame: Ints = np.zeros((2, width), dtype=np.int64)
        self._misfits = 0
        self._data: Any = ()  # what the step in ``draw`` needs
        if loops.spoken is not None:
            self._room = loops.spoken.buffer()
            self._data = loops.spoken.address, int(self._room.ctypes.data)
        self._run(np.zeros(0, dtype=np.int64), np.zeros((0, 4), np.uint64))  # compiles
        self._cover_nodes()

    def warm(self, state: Any) -> None:
        """Compile what rows need, on rows that nobody keeps."""
        keys, slots, sizes = self._keys.copy(), self._slots.copy(), self._sizes.copy()
        frame, floats = np.zeros_like(self._frame), self.loops.floats
        self.loops.enter(state, int(frame.ctypes.data), floats, keys, slots, sizes)
        self.loops.fill(keys, slots, int(sizes[0]))
        self.loops.load(keys[0])

    def draw(self, batch: Batch, most: int) -> None:
        """Take the next samples of a batch, at most ``most`` of them."""
        stop = min(batch.size, batch.drawn + most)
        while batch.drawn < stop:
            part = min(PART, stop - batch.drawn)
            if (
                batch.watched
                or self._misfits >= MOST_MISFITS
                or self.memory.is_crowded(part)
            ):
                super().draw(batch, part)
            elif not self._draw_part(batch, part):
                self._misfits += 1
                super().draw(batch, 1)

    def _draw_part(self, batch: Batch, part: int) -> bool:
        """Sample a part of a batch; False where the next one is left to plain Python."""
        first, counts = batch.ahead(part)
        pairs = batch.pairs[first : first + len(counts)]
        self._cover_nodes()
        self._make_room(part)
        origins = self._rows[self.memory.graph.pairs["node"][pairs]]
        if (origins < 0).any():
            return False
        begun, words, drawn = int(self._sizes[0]), self._streams(pairs), batch.drawn
        buffers = batch.raws[drawn:], batch.rewards[drawn:]
        jobs, size, done = self._run(pairs, words, counts, origins, *buffers)
        self._add_nodes(begun)
        new = slice(drawn, drawn + size)
        batch.raws[new] = self._targets[batch.raws[new]]
        self.words[pairs[:jobs]] = words[:jobs]
        batch.drawn = new.stop
        self._hand_over(size)
        return done

    def _hand_over(self, calls: int) -> None:
        """Go on with the loop that has the step in it, once it is there."""
        later = self.loops.later
        draw = None if later is None else later.after(calls)
        if draw is not None:
            self.loops = self.loops._replace(draw=draw, later=None)
            self._data = ()

    def _run(
        self,
        pairs: Ints,
        words: Any,
        counts: Ints = NONE,
        origins: Ints = NONE,
        raws: Ints = NONE,
        rewards: Floats = NO_REWARDS,
    ) -> tuple[int, int, bool]:
        """(jobs with a sample, their samples, whether that is all of them)."""
        from smoothcruiser.certified import words_kernel as kernel

        graph, facts = self.memory.graph, self.problem.facts
        chosen, at = graph.pairs[pairs], np.zeros(2, dtype=np.int64)
        before = np.zeros(4, dtype=np.uint64)
        self._frame[:] = 0
        try:
            status = self.loops.draw(
                self._data,
                origins,
                chosen["action"].astype(np.int64),
                counts,
                graph.nodes["last"][chosen["node"]] == 1,
                int(words.ctypes.data),
                int(before.ctypes.data),
                raws,
                rewards,
                *facts.reward_range,
                facts.terminals,
                int(self._frame.ctypes.data),
                self.loops.floats,
                self._keys,
                self._slots,
                self._sizes,
                at,
            )
        except KeyboardInterrupt:
            raise
        except BaseException:
            if len(pairs) == 0:  # it could not be compiled
                raise
            status = kernel.MISFIT  # plain Python raises it again, and says where
        job, size = at.tolist()
        if status == kernel.DONE:
            return job, size, True
        if not np.array_equal(self._frame[0], self._keys[origins[job]]):
            node, action = graph.pairs[["node", "action"]][pairs[job]]
            became = self._state_at(self._frame[0])
            raise written_into(self.memory.states[node], became, int(action))
        words[job] = before
        return job + 1, size, False

    # --- rows and nodes -------------------------------------------------------

    def _state_at(self, words: Ints) -> Any:
        """A state of its own, made of a row of words."""
        found = self.loops.load(words)
        return found if is_fixed(found) else copy.deepcopy(found)

    def _cover_nodes(self) -> None:
        """Give every node its row; most got it when they were met."""
        have, need = len(self._rows), self.memory.num_nodes
        if have == need:
            return
        self._make_room(need - have)
        rows = [self._enter(self.memory.states[node]) for node in range(have, need)]
        self._rows = np.concatenate([self._rows, np.array(rows, dtype=np.int64)])
        for node, row in enumerate(rows, have):
            if row > 0:
                self._targets[row] = node

    def _enter(self, state: Any) -> int:
        """The row of a state; -1 where it has none."""
        import numba

        if (numba.typeof(state), _shapes(state)) != self.loops.form:
            return -1
        self._frame[:] = 0
        frame, floats = int(self._frame.ctypes.data), self.loops.floats
        found = self.loops.enter(
            state, frame, floats, self._keys, self._slots, self._sizes
        )
        return int(found)

    def _add_nodes(self, begun: int) -> None:
        """Give the states of the rows from ``begun`` on their nodes, in this order."""
        memory, used = self.memory, int(self._sizes[0])
        if begun == used:
            return
        states = [self._state_at(self._keys[row]) for row in range(begun, used)]
        # an end that was met in another process may be known
        if is_fixed(states[0]) and not any(state in memory.nodes for state in states):
            nodes = memory.add_plain(states)
        else:
            nodes = [memory.node_of(state) for state in states]
        self._targets[begun:used] = nodes
        rows = np.full(memory.num_nodes, -1)
        rows[: len(self._rows)] = self._rows
        rows[nodes] = np.arange(begun, used)
        self._rows = rows

    def _make_room(self, more: int) -> None:
        """Make room for so many further rows."""
        used = int(self._sizes[0])
        need = used + more
        if need > len(self._keys):
            size = max(need, 2 * len(self._keys))
            keys = np.zeros((size, self._keys.shape[1]), dtype=np.int64)
            targets = np.full(size, END)
            keys[:used], targets[:used] = self._keys[:used], self._targets[:used]
            self._keys, self._targets = keys, targets
        if 2 * need > len(self._slots):
            self._slots = np.full(1 << (2 * need).bit_length(), -1)
            self.loops.fill(self._keys, self._slots, used)
        parts = self._keys, self._targets, self._slots, self._rows
        self.memory.key_bytes = sum(part.nbytes for part in parts)
