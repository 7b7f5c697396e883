"""Where outcomes come from: samples of the oracle in batches.

Each pair has a stream of its own that continues where it stopped.

The tape of pair k is the stream whose four words are outputs 4k..4k+3 of
SplitMix64 under the seed. Access is random, so that pairs cost nothing until
they are sampled. The i-th sample of a pair does not depend on how batches were
cut. No two pairs share a stream, because the radii need samples that are
independent across pairs.

Two samplers fill the same buffers (next state as a whole number, reward):
``CompiledSampler`` for tabular problems and for numba.njit steps over whole
numbers, ``PythonSampler`` for any step over states that have keys. Neither
reads tables or outcomes: they call the oracle. Where a problem has outcomes,
nothing is sampled, and ``reading.RowReader`` takes their place.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcruiser.certified.graph import END
from smoothcruiser.certified.intake import Batch
from smoothcruiser.certified.memory import Memory
from smoothcruiser.certified.memory_kernel import mixed
from smoothcruiser.certified.room import Full
from smoothcruiser.engines.pools.threads import Threads
from smoothcruiser.engines.registry import choose
from smoothcruiser.errors import InvalidInput, OracleError, SmoothcruiserError
from smoothcruiser.jit.build import compiled, is_compiled
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
from smoothcruiser.problem.rows import check_ends, has_rows
from smoothcruiser.problem.states import Guard, copied, unchanged, written_into
from smoothcruiser.problem.tabular import Floats, Ints
from smoothcruiser.query import Compute

if TYPE_CHECKING:
    from smoothcruiser.engines.inspection import Looks

# arrivals of plain values at a node that are compared with the first
ALWAYS_COMPARED, COMPARED_EVERY = 8, 64
GOLDEN = 0x9E3779B97F4A7C15  # the odd step of SplitMix64
# samples of a round below which handing it to threads costs more than it saves
LEAST_SHARED = 20_000


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

    def __init__(self, problem: Problem, memory: Memory, seed: int) -> None:
        self.problem, self.memory, self.seed = problem, memory, seed
        self.words: Any = np.zeros((0, 4), dtype=np.uint64)
        self.compile_seconds = 0.0
        self.guard = Guard()
        # how often a node was met by a plain value that is no int
        self.arrivals: dict[int, int] = {}

    @property
    def looks(self) -> int | None:
        """How often it was checked that the step leaves its state alone.

        None means that each worker checks for itself.
        """
        return self.guard.looks

    def look(
        self, state: Any, looked: Looks | None, most_calls: int
    ) -> tuple[int, Looks]:
        """Run ``inspection.look`` where the step runs."""
        from smoothcruiser.engines.inspection import look

        return look(self.problem, state, self.seed, looked, most_calls)

    def draw(self, batch: Batch, most: int) -> None:
        """Take the next samples of a batch, at most ``most`` of them."""
        raise NotImplementedError

    def read_again(self) -> None:
        """Refuse a known model that answers differently now; no samples do."""

    def take_up(self, batch: Batch) -> None:
        """Get ready for the rest of a batch that another process has begun."""

    def check_written(self, batch: Batch) -> None:
        """Refuse a state that the job in progress has written into, before it is kept."""

    def close(self) -> None:
        """Release workers, where there are any."""

    def cover(self) -> None:
        """Give every pair of the memory its stream."""
        have = len(self.words)
        if have < self.memory.num_pairs:
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

    def __init__(
        self, problem: Problem, memory: Memory, seed: int, *, workers: int = 1
    ) -> None:
        super().__init__(problem, memory, seed)
        self.pool = Threads(workers, self, _nothing) if workers > 1 else None
        begin = time.perf_counter()
        from smoothcruiser.certified import draws_kernel as draws

        self.draws = draws
        if problem.tables is not None:
            self.data: Any = problem.tables.sampling
            self.kernel = compiled(draws.draw_jobs, nogil=True)
        else:
            self.data = ()
            from numba import types

            from smoothcruiser.jit.oracle import returned_type

            returned = returned_type(problem.oracle, types.int64)
            adapter = draws.step_three if len(returned) == 3 else draws.step_two
            self.kernel = compiled(
                draws.draw_jobs,
                nogil=True,
                STEP=compiled(adapter, USER_STEP=problem.oracle),
            )
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
        return int(
            self.kernel(
                self.data,
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
        states = np.array(
            [memory.states[node] for node in chosen["node"].tolist()], dtype=np.int64
        )
        actions = chosen["action"].astype(np.int64)
        size, fault = int(counts.sum()), np.zeros(2, dtype=np.int64)
        new = slice(batch.drawn, batch.drawn + size)
        raws, rewards = batch.raws[new], batch.rewards[new]
        words = self._streams(pairs)
        try:
            if self.pool is None or size < LEAST_SHARED:
                status = self._run(states, actions, counts, words, raws, rewards, fault)
            else:
                status = self._run_shared(
                    states, actions, counts, words, raws, rewards, fault
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
        self.words[pairs] = words
        batch.drawn += size

    def _run_shared(
        self,
        states: Ints,
        actions: Ints,
        counts: Ints,
        words: Any,
        raws: Ints,
        rewards: Floats,
        fault: Ints,
    ) -> int:
        """Do the same on several threads.

        Jobs are split into contiguous parts of about the same number of
        samples, each with its streams and buffers.
        """
        assert self.pool is not None
        ends, number = np.cumsum(counts), self.pool.size
        cuts = [
            0,
            *(
                int(np.searchsorted(ends, ends[-1] * part / number)) + 1
                for part in range(1, number)
            ),
            len(counts),
        ]
        cuts = sorted({min(cut, len(counts)) for cut in cuts})
        parts = []
        for first, last in itertools.pairwise(cuts):
            low, high = int(ends[first] - counts[first]), int(ends[last - 1])
            jobs = (
                states[first:last],
                actions[first:last],
                counts[first:last],
                words[first:last],
                raws[low:high],
                rewards[low:high],
                np.zeros(2, dtype=np.int64),
            )
            parts.append(_Part(first, low, jobs))
        found: dict[int, int | BaseException] = {}

        def report(part: _Part, ended: int | BaseException) -> bool:
            found[part.first] = ended
            return False

        self.pool.map(_run_part, iter(parts), report)
        for part in parts:  # the first fault in the order of the jobs is reported
            ended, wrong = found[part.first], part.jobs[-1]
            fault[0], fault[1] = part.first + wrong[0], part.low + wrong[1]
            if isinstance(ended, BaseException):
                raise ended
            if ended != self.draws.FINE:
                return ended
        return int(self.draws.FINE)

    def close(self) -> None:
        """End the threads."""
        if self.pool is not None:
            self.pool.close()


class _Part(NamedTuple):
    """Jobs for one thread.

    It has the first of them, the place of its first sample, and the arguments
    of ``CompiledSampler._run``.
    """

    first: int
    low: int
    jobs: tuple[Any, ...]


def _run_part(sampler: CompiledSampler, part: _Part) -> int | BaseException:
    """Return how a part ended, or what it raised.

    The sampler decides which fault comes first.
    """
    try:
        return sampler._run(*part.jobs)
    except BaseException as error:
        return error


def _nothing() -> None:
    """Do nothing: samples of a round take milliseconds and cannot be interrupted."""


class PythonSampler(Sampler):
    """Batches of a plain Python oracle over states of any kind.

    Next states become nodes at once.
    """

    resolved = True

    _before: Any = None  # a copy of the state whose job is watched

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
            try:
                self._draw_pair(pair, count, rng, batch)
            finally:
                self.words[pair] = rng.words
            if batch.drawn == end and batch.watched:
                self.guard.compare(self._before, state, action)
                batch.watched = False

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
        state, after_steps = memory.states[node], memory.remaining[node] - 1
        low, high = facts.reward_range
        horizon, known, states = (
            self.problem.horizon is not None,
            memory.nodes,
            memory.states,
        )
        arrivals, raws, rewards, at = (
            self.arrivals,
            batch.raws,
            batch.rewards,
            batch.drawn,
        )
        crowded, before = memory.is_crowded(count), rng.words.copy()
        for i in range(at, at + count):
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
            if ended:
                if not facts.terminals:
                    raise self._undeclared_end(pair)
                raws[i] = END
                continue
            try:  # most states are plain values and known: this is the short way
                found = known[(after, after_steps) if horizon else after]
                if type(after) is not int or type(states[found]) is not int:
                    met = arrivals[found] = arrivals.get(found, -1) + 1
                    # equal values need not be the same state: 1 and True
                    if met < ALWAYS_COMPARED or met % COMPARED_EVERY == 0:
                        found = memory.node_of(after, after_steps)
            except (KeyError, TypeError):
                try:
                    found = memory.node_of(after, after_steps)
                except Full as error:  # the samples from ``before`` on are not taken
                    rng.words[:], error.calls = before, i + 1 - batch.drawn
                    raise
            raws[i] = found
        batch.drawn = at + count


def make_sampler(
    problem: Problem, memory: Memory, state: Any, seed: int, compute: Compute
) -> Sampler:
    """Return the sampler that fits the problem.

    Rows of a known model are read. Otherwise it is compiled where the step is and
    states are whole numbers, Python elsewhere, and on workers if requested.
    """
    if has_rows(problem):
        from smoothcruiser.certified.reading import RowReader

        check_ends(problem)
        return RowReader(problem, memory, seed)
    whole = (
        isinstance(state, int | np.integer)
        and not isinstance(state, bool)
        and -(2**63) < int(state) < 2**63
    )
    if problem.tables is not None or (
        whole and is_compiled(problem.oracle) and _whole_states(problem.oracle)
    ):
        return CompiledSampler(problem, memory, seed, workers=compute.workers or 1)
    executor = choose(problem, compute)
    if executor.pool is not None:
        from smoothcruiser.certified.parallel import ParallelSampler

        return ParallelSampler(problem, memory, seed, executor, compute)
    return PythonSampler(problem, memory, seed)


def _whole_states(oracle: Any) -> bool:
    """Return whether the step maps whole numbers to whole numbers."""
    from numba import types

    from smoothcruiser.jit.oracle import next_state_type

    after = next_state_type(oracle, types.int64)
    return isinstance(after, types.Integer) and after.signed
