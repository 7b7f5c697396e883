"""Where outcomes come from: samples of the oracle in batches.

Each pair has a stream of its own that continues where it stopped.

The tape of pair k is the stream whose four words are outputs 4k..4k+3 of
SplitMix64 under the seed. So pairs cost nothing until they are sampled, and the i-th
sample of a pair does not depend on how batches were cut. No two pairs share a stream,
because the radii need samples that are independent across pairs.

Three samplers fill the same buffers (next state as a whole number, reward):
``CompiledSampler`` for tabular problems and for numba.njit steps over whole
numbers, ``words.WordSampler`` for such steps over tuples and arrays of numbers,
``PythonSampler`` for any step over states that have keys. None of them
reads tables or outcomes: they call the oracle. Where a problem has outcomes,
``reading.RowReader`` takes their place, and samples only pairs without a row.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.certified.graph import END, END_RAW
from smoothcruiser.certified.intake import Batch
from smoothcruiser.certified.jumps import advance_streams
from smoothcruiser.certified.limits import Ends
from smoothcruiser.certified.memory import Memory
from smoothcruiser.certified.memory_kernel import mixed
from smoothcruiser.certified.number_loop import number_loop
from smoothcruiser.certified.room import Full
from smoothcruiser.certified.shared import make_threads, run_shared
from smoothcruiser.errors import (
    Interrupted,
    InvalidInput,
    OracleError,
    SmoothcruiserError,
)
from smoothcruiser.jit.interrupts import Hold, TimeIsUp
from smoothcruiser.jit.keys import Key
from smoothcruiser.problem.answers import (
    at,
    early_payoff,
    outside,
    raised,
    undeclared_end,
    unpacked,
)
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import (
    Guard,
    copied,
    is_fixed,
    unchanged,
    written_into,
)
from smoothcruiser.problem.tabular import Bools, Floats, Ints

if TYPE_CHECKING:
    from smoothcruiser.engines.inspection import Looks

# arrivals of plain values at a node that are compared with the first
ALWAYS_COMPARED, COMPARED_EVERY = 8, 64
GOLDEN = 0x9E3779B97F4A7C15  # the odd step of SplitMix64
# a slice below which handing it to threads costs more than it saves: in samples, and
# in seconds where it is known how long one takes
LEAST_SHARED, SHARED_SECONDS = 20_000, 1e-3


def first_words(seed: int, pairs: Ints) -> Any:
    """Return the streams of pairs without samples, as rows of four words."""
    base = np.random.SeedSequence(seed, spawn_key=(Key.CERTIFIED,)).generate_state(
        1, np.uint64
    )[0]
    places = (
        np.asarray(pairs, dtype=np.uint64)[:, None] * np.uint64(4)
        + np.arange(1, 5, dtype=np.uint64)[None, :]
    )
    return mixed(base + places * np.uint64(GOLDEN))


class Sampler:
    """Samples batches, and keeps the streams of the pairs."""

    resolved: bool  # whether ``raws`` are nodes already
    workers = 0  # processes that share a slice; 0: it is sampled here
    ready = True  # whether ``look`` would get an answer at once
    torn = False  # whether a step that was broken off has left its state changed
    num_rows = 0  # jobs that were rows of a known model, and took no call
    missing: list[int]  # pairs for which a known model has no row, until they are taken
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
        self.hold = Hold()  # of the query under way

    @property
    def looks(self) -> int | None:
        """How often it was checked that the step leaves its state alone.

        None means that each worker checks for itself.
        """
        return self.guard.looks

    def look(
        self, state: Any, looked: Looks | None, most_calls: int, seconds: float
    ) -> tuple[int, Looks]:
        """Run ``inspection.look`` where the step runs."""
        from smoothcruiser.engines.inspection import look

        return look(self.problem, state, self.seed, looked, most_calls, seconds)

    def draw(self, batch: Batch, most: int) -> None:
        """Take the next samples of a batch, at most ``most`` of them.

        A stop raises ``Interrupted`` with the calls that were lost; it leaves the
        batch and the streams as if only the jobs before it had been sampled.
        """
        raise NotImplementedError

    def reads(self, pairs: Ints) -> Bools:
        """Which of the pairs, when they are jobs, are rows to read: of a simulator none."""
        return np.zeros(len(pairs), dtype=np.bool_)

    def read_again(self, limits: Ends) -> int:
        """Refuse a known model that answers differently now; no samples do.

        Returns the calls of the step that this took.
        """
        return 0

    def take_up(self, batch: Batch) -> None:
        """Get ready for the rest of a batch that another process has begun."""

    def check_written(self, batch: Batch) -> None:
        """Refuse a state that the job in progress has written into, before it is kept."""

    def _is_torn(self, node: int) -> bool:
        """Whether a node's state is not what it was, after a step was broken off.

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
        seen = memory.others.get(key)
        return seen is None or seen.node != node

    def close(self) -> None:
        """Release workers, where there are any."""

    def cover(self) -> None:
        """Give every pair of the memory its stream, where streams are kept."""
        have = len(self.words)
        if have < self.memory.num_pairs and not self.derives:
            fresh = first_words(
                self.seed, np.arange(have, max(self.memory.num_pairs, 2 * have, 256))
            )
            self.words = np.concatenate([self.words, fresh])

    def _streams(self, pairs: Ints) -> Any:
        """Return the words of the pairs' streams."""
        self.cover()
        return self.words[pairs]

    def _where(self, pair: int) -> str:
        found = self.memory.graph.pairs[pair]
        return at(self.memory.states[found["node"]], int(found["action"]))

    def _bad_reward(self, reward: Any, pair: int) -> OracleError:
        low, high = self.problem.facts.reward_range
        return outside(reward, self._where(pair), low, high)

    def early_payoff(self, reward: float, pair: int) -> OracleError:
        """The error of a reward on a step that does not end the episode."""
        return early_payoff(reward, self._where(pair))

    def _undeclared_end(self, pair: int) -> OracleError:
        return undeclared_end(self._where(pair))

    def _raised(self, error: BaseException, pair: int) -> OracleError:
        return raised(error, self._where(pair))


class CompiledSampler(Sampler):
    """Batches of a compiled oracle over whole numbers."""

    resolved = False
    _each = 0.0  # seconds per sample of the last slice

    def __init__(
        self, problem: Problem, memory: Memory, seed: int, *, workers: int = 1
    ) -> None:
        super().__init__(problem, memory, seed)
        memory.hold_numbers()
        # a table's step takes one number at most; layers may forget samples
        self.derives = problem.tables is not None and problem.horizon is None
        memory.stream_bytes *= not self.derives
        self.pool = make_threads(workers, self._run) if workers > 1 else None
        begin = time.perf_counter()
        from smoothcruiser.certified import draws_kernel as draws

        self.draws = draws
        self.loop = number_loop(problem)
        self.problem = self.loop.problem
        empty = np.zeros(0, dtype=np.int64)
        self._run(
            empty,
            empty,
            empty,
            np.zeros((0, 4), dtype=np.uint64),
            empty,
            np.zeros(0),
            np.zeros(2, dtype=np.int64),
        )
        self.compile_seconds = time.perf_counter() - begin

    def _run(
        self,
        states: Ints,
        actions: Ints,
        counts: Ints,
        words: Any,
        raws: Ints,
        rewards: Floats,
        fault: Ints,
    ) -> int:
        facts = self.problem.facts
        low, high = facts.reward_range
        streams = int(words.ctypes.data)
        data, _kept = self.loop.data()
        return int(
            self.loop.kernel(
                data,
                states,
                actions,
                counts,
                streams,
                raws,
                rewards,
                low,
                high,
                facts.terminals,
                fault,
            )
        )

    def draw(self, batch: Batch, most: int) -> None:
        """Take the next samples of a batch, at most ``most`` of them."""
        memory = self.memory
        first, counts = batch.ahead(most)
        pairs = batch.pairs[first : first + len(counts)]
        chosen = memory.graph.pairs[pairs]
        states = memory.states.book.numbers[chosen["node"]]
        actions = chosen["action"].astype(np.int64)
        size, fault = int(counts.sum()), np.zeros(2, dtype=np.int64)
        new = slice(batch.drawn, batch.drawn + size)
        raws, rewards = batch.raws[new], batch.rewards[new]
        words = first_words(self.seed, pairs) if self.derives else self._streams(pairs)
        if self.derives:
            taken = chosen["total"].astype(np.int64)
            taken[0] += batch.counts[first] - (batch.ends[first] - batch.drawn)
            advance_streams(words, taken)
        try:
            begin = time.perf_counter()
            small = size < LEAST_SHARED and size * self._each < SHARED_SECONDS
            if self.pool is None or small:
                status = self._run(states, actions, counts, words, raws, rewards, fault)
            else:
                status = run_shared(
                    self.pool, states, actions, counts, words, raws, rewards, fault
                )
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self._raised(error, int(pairs[fault[0]])) from error
        if status == self.draws.BAD_REWARD:
            raise self._bad_reward(float(rewards[fault[1]]), int(pairs[fault[0]]))
        if status == self.draws.ENDED:
            raise self._undeclared_end(int(pairs[fault[0]]))
        if status == self.draws.RESERVED:
            raise InvalidInput(
                "The oracle returned the state -2**63 "
                f"{self._where(int(pairs[fault[0]]))}, which compiled certified search "
                "keeps for ends; number states otherwise, or drop numba.njit from the "
                "step."
            )
        last = memory.graph.nodes["last"][chosen["node"]] == 1
        if last.any():  # nothing of the last step counts but its reward
            raws[np.repeat(last, counts)] = END_RAW
        self._each = (time.perf_counter() - begin) / size
        if not self.derives:
            self.words[pairs] = words
        batch.drawn += size
        self.loop = self.loop.after(size)

    def close(self) -> None:
        """End the threads."""
        if self.pool is not None:
            self.pool.close()


class PythonSampler(Sampler):
    """Batches of a plain Python oracle over states of any kind.

    Next states become nodes at once.
    """

    resolved = True

    _before: Any = None  # a copy of the state whose job is watched
    _samples: Any = None  # counts those of the job under way

    def draw(self, batch: Batch, most: int) -> None:
        """Take the next samples of a batch, at most ``most`` of them.

        ``Full`` ends it before the sample for whose next state there is no room.
        """
        from smoothcruiser.jit.streams import from_words

        first, counts = batch.ahead(most)
        pairs = batch.pairs[first : first + len(counts)]
        words, pool = self._streams(pairs), self.memory.graph.pairs
        for job, (pair, count) in enumerate(
            zip(pairs.tolist(), counts.tolist(), strict=True)
        ):
            node, action = int(pool[pair]["node"]), int(pool[pair]["action"])
            state, end = self.memory.states[node], int(batch.ends[first + job])
            whole = int(batch.counts[first + job])
            if batch.drawn == end - whole:  # the job begins
                batch.watched = self.guard.due(whole)
                self._before = self.guard.copied(state) if batch.watched else None
            rng = from_words(words[job])
            begun, hold = batch.drawn, self.hold
            try:
                hold.begin()
                self._draw_pair(pair, count, rng, batch)
                hold.open = False
            except BaseException as error:
                stop = hold.broke(error) or isinstance(error, TimeIsUp)
                if not stop:
                    raise
                # The job is sampled again from where it began. A sample that was
                # dropped because it took long, and not sampled again, would be
                # missing for what it is.
                rng, batch.drawn = from_words(words[job]), begun
                self.torn = self._is_torn(node)
                raise Interrupted(
                    "The search was stopped.", calls=count - self._under_way()
                ) from error
            finally:
                self.words[pair] = rng.words
            if batch.drawn == end and batch.watched:
                self.guard.compare(self._before, state, action)
                batch.watched = False

    def _under_way(self) -> int:
        """The samples of the job under way that were not begun."""
        return 0 if self._samples is None else self._samples.__length_hint__()

    def _node(self, state: Any) -> int:
        """The node of a next state; a stop must not break off what enters it."""
        self.hold.open = False
        found = self.memory.node_of(state)
        self.hold.begin()
        return found

    def take_up(self, batch: Batch) -> None:  # noqa: D102
        if batch.watched:
            pair = batch.pairs[batch.ahead(1)[0]]
            node = int(self.memory.graph.pairs[pair]["node"])
            self._before = copied(self.memory.states[node])

    def check_written(self, batch: Batch) -> None:  # noqa: D102
        if batch.watched and self._before is not None:
            pair = self.memory.graph.pairs[batch.pairs[batch.ahead(1)[0]]]
            state = self.memory.states[int(pair["node"])]
            if unchanged(self._before, state) is False:
                raise written_into(self._before, state, int(pair["action"]))

    def _draw_pair(self, pair: int, count: int, rng: Any, batch: Batch) -> None:
        memory, facts, step = self.memory, self.problem.facts, self.problem.oracle
        node, action = (
            int(memory.graph.pairs[pair]["node"]),
            int(memory.graph.pairs[pair]["action"]),
        )
        state, last = memory.states[node], bool(memory.graph.nodes[node]["last"])
        low, high = facts.reward_range
        known, states = memory.nodes, memory.states
        arrivals, raws, rewards, at = (
            self.arrivals,
            batch.raws,
            batch.rewards,
            batch.drawn,
        )
        crowded, before = memory.is_crowded(count), rng.words.copy()
        self._samples = iter(range(at, at + count))
        for i in self._samples:
            if crowded:
                batch.drawn, before = i, rng.words.copy()
            try:
                answer = step(state, action, rng)
            except (SmoothcruiserError, KeyboardInterrupt):
                raise
            except BaseException as error:
                raise self._raised(error, pair) from error
            try:
                reward, after, *rest = answer
                reward, ended = float(reward), bool(rest[0]) if rest else False
            except (TypeError, ValueError):
                reward, after, ended = unpacked(answer, state, action)
            if not low <= reward <= high:
                raise self._bad_reward(reward, pair)
            rewards[i] = reward
            if ended and not facts.terminals:
                raise self._undeclared_end(pair)
            if ended or last:  # nothing of the last step counts but its reward
                raws[i] = END
                continue
            try:  # most states are plain values and known: this is the short way
                found = known[after]
                if type(after) is not int or type(states[found]) is not int:
                    met = arrivals[found] = arrivals.get(found, -1) + 1
                    # equal values need not be the same state: 1 and True
                    if met < ALWAYS_COMPARED or met % COMPARED_EVERY == 0:
                        found = self._node(after)
            except (KeyError, TypeError):
                try:
                    found = self._node(after)
                except Full as error:  # the samples from ``before`` on are not taken
                    rng.words[:], error.calls = before, i + 1 - batch.drawn
                    raise
            raws[i] = found
        batch.drawn = at + count
