"""Samples of a compiled step, or of a table, over the words of states.

``CompiledSampler`` is for whole numbers: next states stay numbers until a batch is
entered, and no Python object is made of them (``states.table.NumberStates``).

``RowSampler`` is for states of several fields: tuples, arrays, floats. ``PythonSampler``
makes a Python object of every next state and looks it up in a dictionary. Here compiled
code looks up the words of a state in a table, so that Python sees a state once: when it
is new and gets its node. Nodes are numbered in the order in which states are met, and
streams are those of ``PythonSampler``, so both return the same bits.

Both begin without machine code, which they load once that pays (``step_loops``): the
loop of whole numbers is interpreted, and ``RowSampler`` is a ``PythonSampler`` until then.

``RowSampler`` leaves to ``PythonSampler``: samples with a next state that has no row of
its own (-0.0, which equals 0.0; NaN; an array of another shape) or that are an error,
batches for which there may be no room, and everything after ``MOST_MISFITS`` of the
first kind. Such a sample is taken a second time, from the same stream.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from smoothcruiser.certified.graph import END_RAW
from smoothcruiser.certified.sample_batches import Batch
from smoothcruiser.certified.sampling import draw_kernel, step_loops
from smoothcruiser.certified.sampling.sampler import (
    PythonSampler,
    Sampler,
    first_words,
)
from smoothcruiser.certified.sampling.step_loops import InterpretedLoop, StepLoop
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.jit.library import UnfinishedKernel
from smoothcruiser.jit.oracle import next_state_type
from smoothcruiser.jit.random.streams import Stream, from_words
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.problem.problem import Problem
from smoothcruiser.run_control.clock import pause_clock
from smoothcruiser.states.identity import is_fixed, is_unchanged
from smoothcruiser.states.state_copies import copy_state, written_into
from smoothcruiser.states.table import WordTable, copy_larger

# a slice below which handing it to threads costs more than it saves: in samples, and
# in seconds where it is known how long one takes
LEAST_SHARED, SHARED_SECONDS = 20_000, 1e-3
MOST_PLACES = 10_000  # of streams in Python, 350 bytes each; others are skipped to
PART = 1 << 16  # samples of one pass: there is room for as many new states
MOST_MISFITS = 16


class CompiledSampler(Sampler):
    """Batches of a compiled oracle over whole numbers."""

    gives_nodes = False
    _each = 0.0  # seconds per sample of the last slice

    def __init__(
        self, problem: Problem, memory: Memory, seed: int, *, workers: int = 1
    ) -> None:
        super().__init__(problem, memory, seed)
        memory.hold_numbers()
        # a table's step takes one number at most; layers may forget samples
        self.derives = problem.tables is not None and problem.horizon is None
        memory.stream_bytes *= not self.derives
        self.num_workers = workers
        self.pool: Any = None
        self.loop: StepLoop | None = None  # machine code, once it pays
        self.interpreted = InterpretedLoop(problem)
        # the numbers that the interpreted loop took from a pair's stream, and the stream
        self._places: dict[int, tuple[int, Stream]] = {}

    def _load_loop(self) -> None:
        """Change over to machine code."""
        start_time = time.perf_counter()
        self._places.clear()
        if self.problem.tables is not None:
            loop: StepLoop | None = step_loops.table_loop(self.problem)
        else:
            from numba import types

            from smoothcruiser.states.codec import codec_of

            number_codec = codec_of(types.int64, 0)
            loop = step_loops.make_loop(
                self.problem, number_codec, draw_kernel.draw_numbers, self._warm_up
            )
        assert loop is not None
        self._warm_up(loop)
        self.loop = loop
        if self.num_workers > 1:
            self.pool = step_loops.make_threads(self.num_workers, self._run_loop)
        self.compile_seconds += time.perf_counter() - start_time

    def _is_interpreted(self, num_samples: int) -> bool:
        """Whether Python takes the next numbers of streams, so many at least."""
        if self.loop is None and step_loops.must_load(
            self.problem, draw_kernel.draw_numbers, num_samples
        ):
            with pause_clock():
                self._load_loop()
        return self.loop is None

    def _warm_up(self, loop: StepLoop) -> None:
        """Compile a loop, on no jobs."""
        none, no_words = np.zeros(0, dtype=np.int64), np.zeros((0, 4), dtype=np.uint64)
        buffers = none, np.zeros(0), np.zeros(2, dtype=np.int64)
        self._run_loop(none, none, none, no_words, *buffers, loop=loop)

    def _run_loop(
        self,
        states: Ints,
        actions: Ints,
        counts: Ints,
        words: Any,
        raws: Ints,
        rewards: Floats,
        fault: Ints,
        loop: StepLoop | None = None,
    ) -> int:
        facts, loop = self.problem.facts, loop or self.loop
        assert loop is not None
        loop_data, _kept_alive = loop.data()
        return int(
            loop.kernel(
                loop_data,
                states,
                actions,
                counts,
                int(words.ctypes.data),
                raws,
                rewards,
                *facts.reward_range,
                facts.terminals,
                fault,
            )
        )

    def _repeat_error(
        self, error: BaseException, state: int, action: int, count: int, words: Any
    ) -> BaseException:
        """The error of a job's step, of which the library's kernel cannot tell."""
        rng = from_words(words)
        try:
            for _ in range(count):
                self.problem.oracle(state, action, rng)
        except Exception as step_error:
            return step_error
        return error

    def draw(self, batch: Batch, max_samples: int) -> None:
        """Take the next samples of a batch, at most ``max_samples`` of them."""
        memory = self.memory
        first_job, counts = batch.next_samples(max_samples)
        pairs = batch.pairs[first_job : first_job + len(counts)]
        chosen_pairs = memory.graph.pairs[pairs]
        states = memory.states.keys[chosen_pairs["node"], 0]
        actions = chosen_pairs["action"].astype(np.int64)
        num_samples, fault = int(counts.sum()), np.zeros(2, dtype=np.int64)
        new_samples = slice(batch.drawn, batch.drawn + num_samples)
        raws, rewards = batch.raws[new_samples], batch.rewards[new_samples]
        num_taken: Ints | None = None
        if self.derives:
            num_taken = chosen_pairs["total"].astype(np.int64)
            num_taken[0] += batch.counts[first_job] - (
                batch.ends[first_job] - batch.drawn
            )
        jobs, buffers = (states, actions, counts), (raws, rewards, fault)
        draw_jobs = (
            self._draw_interpreted
            if self._is_interpreted(num_samples + self._num_skipped(pairs, num_taken))
            else self._draw_compiled
        )
        start_time = time.perf_counter()
        try:
            status = draw_jobs(pairs, num_taken, jobs, buffers)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self._step_error(error, int(pairs[fault[0]])) from error
        if status != draw_kernel.FINE:
            self._refuse(status, int(pairs[fault[0]]), float(rewards[fault[1]]))
        is_last = memory.graph.nodes["last"][chosen_pairs["node"]] == 1
        if is_last.any():  # nothing of the last step counts but its reward
            raws[np.repeat(is_last, counts)] = END_RAW
        self._each = (time.perf_counter() - start_time) / num_samples
        batch.drawn += num_samples
        if self.loop is not None:
            self.loop = self.loop.after(num_samples)

    def _draw_compiled(
        self,
        pairs: Ints,
        num_taken: Ints | None,
        jobs: tuple[Ints, Ints, Ints],
        buffers: tuple[Ints, Floats, Ints],
    ) -> int:
        """The status of the jobs, sampled by machine code."""
        states, actions, counts = jobs
        if num_taken is None:
            words = self._streams(pairs)
        else:
            words = first_words(self.seed, pairs)
            step_loops.advance_streams(words, num_taken)
        words_before, num_samples = words.copy(), int(counts.sum())
        try:
            is_small = (
                num_samples < LEAST_SHARED
                and num_samples * self._each < SHARED_SECONDS
            )
            if self.pool is None or is_small:
                status = self._run_loop(*jobs, words, *buffers)
            else:
                status = step_loops.run_shared(self.pool, *jobs, words, *buffers)
        except UnfinishedKernel as error:
            job = int(buffers[-1][0])
            numbers = int(states[job]), int(actions[job]), int(counts[job])
            raise self._repeat_error(error, *numbers, words_before[job]) from error
        if num_taken is None:
            self.words[pairs] = words
        return status

    # --- the interpreted loop ---------------------------------------------------

    def _num_skipped(self, pairs: Ints, num_taken: Ints | None) -> int:
        """The numbers that Python would skip in streams whose place it does not have."""
        if num_taken is None or self.loop is not None:
            return 0
        places = [
            self._places[p][0] if p in self._places else 0 for p in pairs.tolist()
        ]
        return int(np.abs(num_taken - places).sum())

    def _draw_interpreted(
        self,
        pairs: Ints,
        num_taken: Ints | None,
        jobs: tuple[Ints, Ints, Ints],
        buffers: tuple[Ints, Floats, Ints],
    ) -> int:
        """The status of the jobs, sampled by Python."""
        start_time, facts = time.perf_counter(), self.problem.facts
        if num_taken is None:
            streams = [from_words(row) for row in self._streams(pairs)]
        else:
            streams = self._skip_to(pairs, num_taken)
        limits = *facts.reward_range, facts.terminals
        status = self.interpreted.run(streams, jobs, buffers, limits)
        if num_taken is None:
            self.words[pairs] = [stream.words for stream in streams]
        else:
            ends = (num_taken + jobs[-1]).tolist()
            places = zip(ends, streams, strict=True)
            if len(self._places) + len(pairs) > MOST_PLACES:
                self._places.clear()
            self._places.update(zip(pairs.tolist(), places, strict=True))
        step_loops.count_interpreted(self.problem, time.perf_counter() - start_time)
        return status

    def _skip_to(self, pairs: Ints, num_taken: Ints) -> list[Stream]:
        """The streams of pairs from which so many numbers were taken."""
        streams = []
        first_rows = first_words(self.seed, pairs).tolist()
        numbers = zip(pairs.tolist(), num_taken.tolist(), first_rows, strict=True)
        for pair, num_before, row in numbers:
            # a slice that fails leaves no places behind
            place, stream = self._places.pop(pair, (0, None))
            if stream is None or place > num_before:
                place, stream = 0, from_words(row)
            for _ in range(num_before - place):
                stream.raw()
            streams.append(stream)
        return streams

    def _refuse(self, status: int, pair: int, reward: float) -> None:
        """Raise the error that the loop could only report by a number."""
        if status == draw_kernel.BAD_REWARD:
            raise self._bad_reward(reward, pair)
        if status == draw_kernel.ENDED:
            raise self._undeclared_end(pair)
        raise InvalidInput(
            f"The oracle returned the state -2**63 {self._where(pair)}, which compiled "
            "certified search keeps for ends; number states otherwise, or drop "
            "numba.njit from the step."
        )

    def close(self) -> None:
        """End the threads."""
        if self.pool is not None:
            self.pool.close()


def row_sampler(
    problem: Problem, memory: Memory, state: Any, seed: int
) -> RowSampler | None:
    """The sampler of a compiled step over rows of words; None where it is of no use."""
    if problem.key is not None or not is_compiled(problem.oracle):
        return None
    import numba

    from smoothcruiser.states.codec import codec_of

    start_time = time.perf_counter()
    try:
        codec = codec_of(numba.typeof(state), state)
    except (ValueError, InvalidInput):  # states that have no words
        return None
    if (
        not codec.is_exact  # or the step changes the form of states
        or next_state_type(problem.oracle, codec.kind) != codec.kind
    ):
        return None
    sampler = RowSampler(problem, memory, seed, codec)
    sampler.compile_seconds = time.perf_counter() - start_time
    return sampler


class RowSampler(PythonSampler):
    """Batches of a compiled step over states that are rows of words."""

    def __init__(
        self, problem: Problem, memory: Memory, seed: int, codec: Any
    ) -> None:
        super().__init__(problem, memory, seed)
        self.codec, self.table = codec, WordTable(codec.size)
        self._frame: Ints = np.zeros((2, codec.size), dtype=np.int64)
        self._misfits = 0
        self._checked: dict[int, int] = {}  # ``arrivals`` of the interpreted loop
        self.loop: Any = None  # machine code, once it pays
        self._cover_nodes()

    def _is_interpreted(self, num_samples: int) -> bool:
        """Whether Python calls the step for the next samples, so many at least."""
        kernel, codec = draw_kernel.draw_rows, self.codec
        if self.loop is None and step_loops.must_load(
            self.problem, kernel, num_samples, has_address=codec.is_plain
        ):
            with pause_clock():
                loop = step_loops.make_loop(self.problem, codec, kernel, self._warm_up)
                assert loop is not None  # of steps that change the form of states
                self._warm_up(loop)
                self.loop = loop
        return self.loop is None

    def _warm_up(self, loop: StepLoop) -> None:
        """Compile a loop, on no jobs."""
        none, no_rewards = np.zeros(0, dtype=np.int64), np.zeros(0)
        no_words, used = np.zeros((0, 4), np.uint64), np.ones(1, dtype=np.int64)
        self._run_loop(loop, none, no_words, none, none, no_rewards, used)

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
            elif self._is_interpreted(part_size):
                self._draw_interpreted(batch, part_size)
            elif not self._draw_part(batch, part_size):
                self._misfits += 1
                super().draw(batch, 1)

    def _draw_interpreted(self, batch: Batch, part_size: int) -> None:
        """Sample a part of a batch by calls from Python, checked as the loop checks."""
        start_time, arrivals = time.perf_counter(), self.arrivals
        self.arrivals, self.watches = self._checked, False
        try:
            super().draw(batch, part_size)
        finally:
            self.arrivals, self.watches = arrivals, True
            seconds = time.perf_counter() - start_time
            step_loops.count_interpreted(self.problem, seconds)
        self._cover_nodes()

    def _draw_pair(self, pair: int, count: int, rng: Any, batch: Batch) -> None:
        pair_row = self.memory.graph.pairs[pair]
        state = self.memory.states[int(pair_row["node"])]
        is_compared = not (self.watches or is_fixed(state))
        state_before = copy_state(state) if is_compared else None
        super()._draw_pair(pair, count, rng, batch)
        if is_compared and is_unchanged(state_before, state) is False:
            raise written_into(state_before, state, int(pair_row["action"]))

    def _draw_part(self, batch: Batch, part_size: int) -> bool:
        """Sample a part of a batch; False where the next one is left to plain Python."""
        first_job, counts = batch.next_samples(part_size)
        pairs = batch.pairs[first_job : first_job + len(counts)]
        self._cover_nodes()
        table, nodes = self.table, self.memory.graph.pairs["node"][pairs]
        if not set(table.without_words).isdisjoint(nodes.tolist()):
            return False
        table.reserve(part_size)
        table.keys = copy_larger(table.keys, table.size + part_size)
        self._count_bytes()
        words, used = self._streams(pairs), np.array([table.size])
        buffers = batch.raws[batch.drawn :], batch.rewards[batch.drawn :]
        num_jobs, num_samples, all_done = self._run_loop(
            self.loop, pairs, words, counts, *buffers, used
        )
        raws = buffers[0][:num_samples]
        self._add_nodes(int(used[0]), raws)
        self.words[pairs[:num_jobs]] = words[:num_jobs]
        batch.drawn += num_samples
        self.loop = self.loop.after(num_samples)
        return all_done

    def _run_loop(
        self,
        loop: StepLoop,
        pairs: Ints,
        words: Any,
        counts: Ints,
        raws: Ints,
        rewards: Floats,
        used: Ints,
    ) -> tuple[int, int, bool]:
        """(jobs with a sample, their samples, whether that is all of them)."""
        graph, facts, table = self.memory.graph, self.problem.facts, self.table
        chosen_pairs, progress = graph.pairs[pairs], np.zeros(2, dtype=np.int64)
        nodes = chosen_pairs["node"].astype(np.int64)
        words_before = np.zeros(4, dtype=np.uint64)
        self._frame[:] = 0
        loop_data, _kept_alive = loop.data()
        try:
            status = loop.kernel(
                loop_data,
                nodes,
                chosen_pairs["action"].astype(np.int64),
                counts,
                graph.nodes["last"][nodes] == 1,
                int(words.ctypes.data),
                int(words_before.ctypes.data),
                raws,
                rewards,
                *facts.reward_range,
                facts.terminals,
                self._frame,
                self.codec.floats,
                *table.arrays,
                table.numbers_of_others,
                used,
                progress,
            )
        except KeyboardInterrupt:
            raise
        except BaseException:
            if len(pairs) == 0:  # it could not be compiled
                raise
            status = draw_kernel.MISFIT  # plain Python raises it again, and says where
        job, num_samples = progress.tolist()
        if status == draw_kernel.DONE:
            return job, num_samples, True
        if not np.array_equal(self._frame[0], table.keys[nodes[job]]):
            (changed_state,) = self.codec.decode(self._frame[:1])
            action = int(chosen_pairs["action"][job])
            raise written_into(self.memory.states[nodes[job]], changed_state, action)
        words[job] = words_before
        return job + 1, num_samples, False

    # --- the table --------------------------------------------------------------

    def _cover_nodes(self) -> None:
        """Give every node its row; most got it when they were met."""
        new_states = self.memory.states[self.table.size :]
        if not new_states:
            return
        rows = np.zeros((len(new_states), self.codec.size), dtype=np.int64)
        without_words = []
        for i, state in enumerate(new_states):
            if self.codec.has_row(state):
                rows[i] = self.codec.encode([state])[0]
            else:
                without_words.append(i)
        self.table.extend(rows, without_words)
        self._count_bytes()

    def _add_nodes(self, rows_used: int, raws: Ints) -> None:
        """Give the states of new rows their nodes, in this order, also in ``raws``."""
        memory, table, first_row = self.memory, self.table, self.table.size
        if rows_used == first_row:
            return
        states = self.codec.decode(table.keys[first_row:rows_used])
        try:
            # an end that was met in another process may be known
            if is_fixed(states[0]) and not any(s in memory.nodes for s in states):
                nodes = memory.add_plain(states)
            else:
                nodes = [memory.node_of(state) for state in states]
        except BaseException:
            table.enter_all()  # without the rows that have no nodes
            raise
        node_array = np.array(nodes, dtype=np.int64)
        is_new = raws >= first_row
        raws[is_new] = node_array[raws[is_new] - first_row]
        table.settle(node_array)

    def _count_bytes(self) -> None:
        self.memory.key_bytes = self.table.nbytes
