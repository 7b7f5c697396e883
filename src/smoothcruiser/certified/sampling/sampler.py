"""Where outcomes come from: samples of the oracle in batches.

Each pair has a stream of its own that continues where it stopped.

The stream of pair k has the four words 4k..4k+3 of SplitMix64 under the seed. So pairs
cost nothing until they are sampled, and the i-th sample of a pair does not depend on
how batches were cut. No two pairs share a stream, because the radii need samples that
are independent across pairs.

Three samplers fill the same buffers (next state as a whole number, reward):
``CompiledSampler`` for tabular problems and for numba.njit steps over whole
numbers, ``RowSampler`` for such steps over tuples and arrays of numbers,
``PythonSampler`` for any step over states that have keys. None of them
reads tables or outcomes: they call the oracle. Where a problem has outcomes,
``model_rows.RowReader`` takes their place, and samples only pairs without a row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.certified.graph import END
from smoothcruiser.certified.query_limits import MemoryFull, QueryLimits
from smoothcruiser.certified.sample_batches import Batch
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.errors import Interrupted, OracleError, SmoothcruiserError
from smoothcruiser.jit.random import Key
from smoothcruiser.problem.model.tabular import Bools, Ints
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import (
    at_pair,
    early_payoff,
    oracle_raised,
    reward_outside,
    undeclared_end,
    unpack_answer,
)
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.run_control.stop_requests import StopRequest, TimeIsUp
from smoothcruiser.states.identity import is_fixed, is_unchanged
from smoothcruiser.states.state_copies import Guard, copy_state, written_into
from smoothcruiser.states.table_kernel import GOLDEN, mix_word

if TYPE_CHECKING:
    from smoothcruiser.engines.inspection import Looks

# arrivals of plain values at a node that are compared with the first
ALWAYS_COMPARED, COMPARED_EVERY = 8, 64


def first_words(seed: int, pairs: Ints) -> Any:
    """Return the streams of pairs without samples, as rows of four words."""
    base_word = np.random.SeedSequence(
        seed, spawn_key=(Key.CERTIFIED,)
    ).generate_state(1, np.uint64)[0]
    word_places = (
        np.asarray(pairs, dtype=np.uint64)[:, None] * np.uint64(4)
        + np.arange(1, 5, dtype=np.uint64)[None, :]
    )
    return mix_word(base_word + word_places * np.uint64(GOLDEN))


class Sampler:
    """Samples batches, and keeps the streams of the pairs."""

    gives_nodes: bool  # whether ``raws`` are nodes already
    workers = 0  # processes that share a slice; 0: it is sampled here
    ready = True  # whether ``look`` would get an answer at once
    torn = False  # whether a step that was broken off has left its state changed
    num_rows = 0  # jobs that were rows of a known model, and took no call
    missing: list[
        int
    ]  # pairs for which a known model has no row, until they are taken
    deadline = math.inf  # after which nobody waits for workers
    derives = False  # whether a pair's samples say where its stream is

    def __init__(self, problem: Problem, memory: Memory, seed: int) -> None:
        self.problem, self.memory, self.seed = problem, memory, seed
        self.missing = []
        self.words: Any = np.zeros((0, 4), dtype=np.uint64)
        self.compile_seconds = 0.0
        self.guard = Guard()
        # how often a node was met by a plain value that is no int
        self.arrivals: dict[int, int] = {}
        self.hold = StopRequest()  # of the query under way

    @property
    def looks(self) -> int | None:
        """How often it was checked that the step leaves its state alone.

        None means that each worker checks for itself.
        """
        return self.guard.looks

    def look(
        self, state: Any, ledger: CallLedger, looked: Looks | None, seconds: float
    ) -> Looks:
        """Run ``inspection.look`` where the step runs."""
        from smoothcruiser.engines.inspection import look

        return look(self.problem, state, self.seed, ledger, looked, seconds)

    def draw(self, batch: Batch, max_samples: int) -> None:
        """Take the next samples of a batch, at most ``max_samples`` of them.

        A stop raises ``Interrupted`` with the calls that were lost; it leaves the
        batch and the streams as if only the jobs before it had been sampled.
        """
        raise NotImplementedError

    def are_rows(self, pairs: Ints) -> Bools:
        """Which of the pairs, when they are jobs, are rows to read: of a simulator none."""
        return np.zeros(len(pairs), dtype=np.bool_)

    def read_again(self, limits: QueryLimits) -> int:
        """Refuse a known model that answers differently now; no samples do.

        Returns the calls of the step that this took.
        """
        return 0

    def take_up(self, batch: Batch) -> None:
        """Get ready for the rest of a batch that another process has begun."""

    def check_written(self, batch: Batch) -> None:
        """Refuse a state that the job in progress has written into, before it is kept."""

    def _is_torn(self, node: int) -> bool:
        """Whether a node's state has changed, after a step was interrupted.

        A step that makes a move and takes it back has then only made it.
        """
        memory = self.memory
        state = memory.states[node]
        if self.problem.key is None and is_fixed(state):
            return False
        try:
            key: Any = self.problem.key_of(state)
        except SmoothcruiserError:
            return True
        seen_state = memory.others.get(key)
        return seen_state is None or seen_state.node != node

    def close(self) -> None:
        """Release workers, where there are any."""

    def cover(self) -> None:
        """Give every pair of the memory its stream, where streams are kept."""
        num_streams = len(self.words)
        if num_streams < self.memory.num_pairs and not self.derives:
            new_streams = first_words(
                self.seed,
                np.arange(
                    num_streams, max(self.memory.num_pairs, 2 * num_streams, 256)
                ),
            )
            self.words = np.concatenate([self.words, new_streams])

    def _streams(self, pairs: Ints) -> Any:
        """Return the words of the pairs' streams."""
        self.cover()
        return self.words[pairs]

    def _where(self, pair: int) -> str:
        pair_row = self.memory.graph.pairs[pair]
        return at_pair(self.memory.states[pair_row["node"]], int(pair_row["action"]))

    def _bad_reward(self, reward: Any, pair: int) -> OracleError:
        low, high = self.problem.facts.reward_range
        costs = self.problem.minimizes
        return reward_outside(reward, self._where(pair), low, high, costs)

    def early_payoff(self, reward: float, pair: int) -> OracleError:
        """The error of a reward on a step that does not end the episode."""
        return early_payoff(reward, self._where(pair))

    def _undeclared_end(self, pair: int) -> OracleError:
        return undeclared_end(self._where(pair))

    def _step_error(self, error: BaseException, pair: int) -> OracleError:
        return oracle_raised(error, self._where(pair))


class PythonSampler(Sampler):
    """Batches of a plain Python oracle over states of any kind.

    Next states become nodes at once.
    """

    gives_nodes = True

    watches = True  # whether ``guard`` chooses jobs that are compared
    _before: Any = None  # a copy of the state of the watched job
    _samples: Any = None  # counts those of the job under way

    def draw(self, batch: Batch, max_samples: int) -> None:
        """Take the next samples of a batch, at most ``max_samples`` of them.

        ``Full`` ends it before the sample with a next state that has no room.
        """
        from smoothcruiser.jit.random.streams import from_words

        first_job, counts = batch.next_samples(max_samples)
        pairs = batch.pairs[first_job : first_job + len(counts)]
        words, pair_pool = self._streams(pairs), self.memory.graph.pairs
        for job, (pair, count) in enumerate(
            zip(pairs.tolist(), counts.tolist(), strict=True)
        ):
            node, action = int(pair_pool[pair]["node"]), int(pair_pool[pair]["action"])
            state, job_end = self.memory.states[node], int(batch.ends[first_job + job])
            job_size = int(batch.counts[first_job + job])
            if batch.drawn == job_end - job_size:  # the job begins
                batch.watched = self.watches and self.guard.due(job_size)
                self._before = self.guard.copy_state(state) if batch.watched else None
            rng = from_words(words[job])
            drawn_before, hold = batch.drawn, self.hold
            try:
                hold.begin()
                self._draw_pair(pair, count, rng, batch)
                hold.open = False
            except BaseException as error:
                is_stop = hold.broke(error) or isinstance(error, TimeIsUp)
                if not is_stop:
                    raise
                # The job is sampled again from where it began. A sample that was
                # dropped because it took long, and not sampled again, would bias
                # the rest.
                rng, batch.drawn = from_words(words[job]), drawn_before
                self.torn = self._is_torn(node)
                raise Interrupted(
                    "The search was stopped.", calls=count - self._under_way()
                ) from error
            finally:
                self.words[pair] = rng.words
            if batch.drawn == job_end and batch.watched:
                self.guard.compare(self._before, state, action)
                batch.watched = False

    def _under_way(self) -> int:
        """The samples of the job under way that were not begun."""
        return 0 if self._samples is None else self._samples.__length_hint__()

    def _node(self, state: Any) -> int:
        """The node of a next state; a stop must not interrupt its entry."""
        self.hold.open = False
        node = self.memory.node_of(state)
        self.hold.begin()
        return node

    def take_up(self, batch: Batch) -> None:  # noqa: D102
        if batch.watched:
            pair = batch.pairs[batch.next_samples(1)[0]]
            node = int(self.memory.graph.pairs[pair]["node"])
            self._before = copy_state(self.memory.states[node])

    def check_written(self, batch: Batch) -> None:  # noqa: D102
        if batch.watched and self._before is not None:
            pair = self.memory.graph.pairs[batch.pairs[batch.next_samples(1)[0]]]
            state = self.memory.states[int(pair["node"])]
            if is_unchanged(self._before, state) is False:
                raise written_into(self._before, state, int(pair["action"]))

    def _draw_pair(self, pair: int, count: int, rng: Any, batch: Batch) -> None:
        memory, facts, step = self.memory, self.problem.facts, self.problem.oracle
        node, action = (
            int(memory.graph.pairs[pair]["node"]),
            int(memory.graph.pairs[pair]["action"]),
        )
        state, is_last = memory.states[node], bool(memory.graph.nodes[node]["last"])
        low, high = facts.reward_range
        known_nodes, states = memory.nodes, memory.states
        arrivals, raws, rewards, first_sample = (
            self.arrivals,
            batch.raws,
            batch.rewards,
            batch.drawn,
        )
        is_crowded, words_before = memory.is_crowded(count), rng.words.copy()
        self._samples = iter(range(first_sample, first_sample + count))
        for i in self._samples:
            if is_crowded:
                batch.drawn, words_before = i, rng.words.copy()
            try:
                answer = step(state, action, rng)
            except (SmoothcruiserError, KeyboardInterrupt):
                raise
            except BaseException as error:
                raise self._step_error(error, pair) from error
            try:
                reward, next_state, *end_flag = answer
                reward, ended = float(reward), bool(end_flag[0]) if end_flag else False
            except (TypeError, ValueError):
                reward, next_state, ended = unpack_answer(answer, state, action)
            if not low <= reward <= high:
                raise self._bad_reward(reward, pair)
            rewards[i] = reward
            if ended and not facts.terminals:
                raise self._undeclared_end(pair)
            if ended or is_last:  # nothing of the last step counts but its reward
                raws[i] = END
                continue
            try:  # most states are plain values and known: this is the short way
                next_node = known_nodes[next_state]
                if type(next_state) is not int or type(states[next_node]) is not int:
                    num_arrivals = arrivals[next_node] = (
                        arrivals.get(next_node, -1) + 1
                    )
                    # equal values need not be the same state: 1 and True
                    if (
                        num_arrivals < ALWAYS_COMPARED
                        or num_arrivals % COMPARED_EVERY == 0
                    ):
                        next_node = self._node(next_state)
            except (KeyError, TypeError):
                try:
                    next_node = self._node(next_state)
                except (
                    MemoryFull
                ) as error:  # the samples from ``before`` on are not taken
                    rng.words[:], error.calls = words_before, i + 1 - batch.drawn
                    raise
            raws[i] = next_node
        batch.drawn = first_sample + count
