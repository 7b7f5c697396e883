"""Samples of a compiled step, or of a table, over the words of states.

``CompiledSampler`` is for whole numbers: next states stay numbers until a batch is
entered, and no Python object is made of them (``states.table.NumberStates``).

``RowSampler`` is for states of several fields: tuples, arrays, floats. ``PythonSampler``
makes a Python object of every next state and looks it up in a dictionary. Here compiled
code looks up the words of a state in a table, so that Python sees a state once: when it
is new and gets its node. Nodes are numbered in the order in which states are met, and
streams are those of ``PythonSampler``, so both return the same bits.

``RowSampler`` leaves to ``PythonSampler``: samples with a next state that has no row of
its own (-0.0, which equals 0.0; NaN; an array of another shape) or that are an error,
batches for which there may be no room, and everything after ``MOST_MISFITS`` of the
first kind. Such a sample is taken a second time, from the same stream.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.certified.graph import END_RAW
from smoothcruiser.certified.sample_batches import Batch
from smoothcruiser.certified.sampling.sampler import (
    PythonSampler,
    Sampler,
    first_words,
)
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.jit.library import UnfinishedKernel
from smoothcruiser.jit.random.streams import from_words
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.problem.problem import Problem
from smoothcruiser.states.identity import is_fixed
from smoothcruiser.states.state_copies import written_into
from smoothcruiser.states.table import WordTable, copy_larger

if TYPE_CHECKING:
    from smoothcruiser.certified.sampling.step_loops import StepLoop

# a slice below which handing it to threads costs more than it saves: in samples, and
# in seconds where it is known how long one takes
LEAST_SHARED, SHARED_SECONDS = 20_000, 1e-3
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
        start_time = time.perf_counter()
        from smoothcruiser.certified.sampling import draw_kernel, step_loops

        self.draws, self.loops = draw_kernel, step_loops
        self.pool = (
            step_loops.make_threads(workers, self._run_loop) if workers > 1 else None
        )
        self.loop = self._choose_loop()
        self._warm_up(self.loop)
        self.compile_seconds = time.perf_counter() - start_time

    def _choose_loop(self) -> StepLoop:
        if self.problem.tables is not None:
            return self.loops.table_loop(self.problem)
        from numba import types

        from smoothcruiser.states.codec import codec_of

        number_codec = codec_of(types.int64, 0)
        kernel, warm_up = self.draws.draw_numbers, self._warm_up
        loop = self.loops.make_loop(self.problem, number_codec, kernel, warm_up)
        assert loop is not None
        return loop

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
        words = first_words(self.seed, pairs) if self.derives else self._streams(pairs)
        if self.derives:
            num_taken = chosen_pairs["total"].astype(np.int64)
            num_taken[0] += batch.counts[first_job] - (
                batch.ends[first_job] - batch.drawn
            )
            self.loops.advance_streams(words, num_taken)
        jobs = states, actions, counts, words, raws, rewards, fault
        words_before = words.copy()
        try:
            start_time = time.perf_counter()
            is_small = (
                num_samples < LEAST_SHARED
                and num_samples * self._each < SHARED_SECONDS
            )
            if self.pool is None or is_small:
                status = self._run_loop(*jobs)
            else:
                status = self.loops.run_shared(self.pool, *jobs)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            job = int(fault[0])
            if isinstance(error, UnfinishedKernel):
                numbers = int(states[job]), int(actions[job]), int(counts[job])
                error = self._repeat_error(error, *numbers, words_before[job])
            raise self._step_error(error, int(pairs[job])) from error
        if status != self.draws.FINE:
            self._refuse(status, int(pairs[fault[0]]), float(rewards[fault[1]]))
        is_last = memory.graph.nodes["last"][chosen_pairs["node"]] == 1
        if is_last.any():  # nothing of the last step counts but its reward
            raws[np.repeat(is_last, counts)] = END_RAW
        self._each = (time.perf_counter() - start_time) / num_samples
        if not self.derives:
            self.words[pairs] = words
        batch.drawn += num_samples
        self.loop = self.loop.after(num_samples)

    def _refuse(self, status: int, pair: int, reward: float) -> None:
        """Raise the error that the loop could only report by a number."""
        if status == self.draws.BAD_REWARD:
            raise self._bad_reward(reward, pair)
        if status == self.draws.ENDED:
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
    sampler = RowSampler(problem, memory, seed, codec) if codec.is_exact else None
    if sampler is None or sampler.loop is None:
        return None
    sampler.compile_seconds = time.perf_counter() - start_time
    return sampler


class RowSampler(PythonSampler):
    """Batches of a compiled step over states that are rows of words."""

    def __init__(
        self, problem: Problem, memory: Memory, seed: int, codec: Any
    ) -> None:
        """``loop`` is None where the step changes the form of states."""
        super().__init__(problem, memory, seed)
        from smoothcruiser.certified.sampling import draw_kernel, step_loops

        self.draws, self.codec, self.table = draw_kernel, codec, WordTable(codec.size)
        self._frame: Ints = np.zeros((2, codec.size), dtype=np.int64)
        self._misfits = 0
        self.loop: Any = step_loops.make_loop(
            problem, codec, draw_kernel.draw_rows, self._warm_up
        )
        if self.loop is not None:
            self._warm_up(self.loop)
            self._cover_nodes()

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
            elif not self._draw_part(batch, part_size):
                self._misfits += 1
                super().draw(batch, 1)

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
            status = self.draws.MISFIT  # plain Python raises it again, and says where
        job, num_samples = progress.tolist()
        if status == self.draws.DONE:
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
