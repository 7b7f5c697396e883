"""Certified search's samples on workers in other processes, for plain Python oracles.

The tasks run on the pools of ``engines``. A round of the search is a list of
jobs, (pair, number of samples). Every pair has its own stream, which continues
where it stopped, and what the workers return is entered in the order of the
jobs. So the result has the bits of one process, whoever sampled what. Compiled
oracles use threads instead (``sampling.CompiledSampler``).
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from smoothcruiser.certified.graph import END
from smoothcruiser.certified.intake import Batch
from smoothcruiser.certified.memory import Memory
from smoothcruiser.certified.room import Full
from smoothcruiser.certified.sampling import Sampler
from smoothcruiser.engines.base import Executor
from smoothcruiser.engines.inspection import Looks, look, sendable
from smoothcruiser.engines.pools.base import Build, check_workers
from smoothcruiser.errors import Interrupted, OracleError
from smoothcruiser.jit.streams import from_words
from smoothcruiser.problem.answers import raised
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import Guard
from smoothcruiser.query import Compute

PARTS_PER_WORKER = 4  # of a round: enough to even out samples that differ in length


class PairJob(NamedTuple):
    """Samples to take at one pair: its state, action, count and stream's words."""

    state: Any
    action: int
    draws: int
    words: tuple[int, ...]


class Drawn(NamedTuple):
    """The result of a job, or what was raised.

    It has the rewards, the next states, which samples ended, and the stream's
    words after it.
    """

    rewards: list[float]
    states: list[Any]
    ended: list[bool]
    words: tuple[int, ...]
    error: str | None = None
    told: bool = False  # whether the error is a whole sentence already


def draw_jobs(problem: Problem, jobs: list[PairJob]) -> list[Drawn]:
    """Return the samples of some jobs, one after the other; an error ends the list."""
    found: list[Drawn] = []
    guard = Guard()
    for job in jobs:
        rng = from_words(job.words)
        drawn = Drawn([], [], [], ())
        try:
            before = guard.copied(job.state) if guard.due(job.draws) else None
            for _ in range(job.draws):
                reward, after, *rest = problem.oracle(job.state, job.action, rng)
                drawn.rewards.append(float(reward))
                drawn.states.append(after)
                drawn.ended.append(bool(rest[0]) if rest else False)
            guard.compare(before, job.state, job.action)
        except OracleError as error:
            return [*found, drawn._replace(error=str(error), told=True)]
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return [*found, drawn._replace(error=f"{type(error).__name__}: {error}")]
        found.append(drawn._replace(words=tuple(int(word) for word in rng.words)))
    return found


def draw_part(problem: Problem, item: tuple[int, list[PairJob]]) -> list[Drawn]:
    """Return the samples of the numbered part of a round."""
    return draw_jobs(problem, item[1])


def look_elsewhere(
    problem: Problem, item: tuple[Any, int, Looks | None, int, float]
) -> tuple[int, Looks]:
    """Inspect the step, and return as much of the result as can be sent back."""
    calls, found = look(problem, *item)
    return calls, sendable(found)


def itself(problem: Problem) -> Problem:
    """Return the problem, which is what a worker builds."""
    return problem


class ParallelSampler(Sampler):
    """Rounds of samples spread over workers.

    Next states become nodes in the order of the jobs.
    """

    resolved = True

    def __init__(
        self,
        problem: Problem,
        memory: Memory,
        seed: int,
        executor: Executor,
        compute: Compute,
    ) -> None:
        super().__init__(problem, memory, seed)
        assert executor.pool is not None
        self.workers = check_workers(compute.workers)
        self.pool = executor.pool(Build(problem, itself), compute)

    @property
    def looks(self) -> None:
        """None: each worker inspects the step for itself."""

    def look(
        self, state: Any, looked: Looks | None, most_calls: int, seconds: float
    ) -> tuple[int, Looks]:
        """Inspect the step in a worker.

        A simulator that crashes must not take this process with it.
        """
        item = (state, self.seed, looked, most_calls, seconds)
        with self._in_time():
            return self.pool.ask(look_elsewhere, item)

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Wait for workers until the deadline; then ``Interrupted`` is raised.

        What they had under way is given up, and the next task starts them anew.
        """
        left = min(self.deadline - time.perf_counter(), threading.TIMEOUT_MAX)
        timer = threading.Timer(max(0.0, left), self.pool.stop)
        timer.daemon = True
        timer.start()
        self.ready = False
        try:
            yield
            self.ready = True
        finally:
            timer.cancel()
            timer.join()
            self.pool.restart()

    def draw(self, batch: Batch, most: int) -> None:
        """Take the next samples of a batch, at most ``most`` of them.

        ``Full`` ends it before the job with a next state that has no room.
        """
        begun = batch.drawn
        first, counts = batch.ahead(most)
        pairs = batch.pairs[first : first + len(counts)]
        jobs = []
        for pair, count, four in zip(
            pairs.tolist(), counts.tolist(), self._streams(pairs).tolist(), strict=True
        ):
            found = self.memory.graph.pairs[pair]
            jobs.append(
                PairJob(
                    self.memory.states[int(found["node"])],
                    int(found["action"]),
                    count,
                    tuple(four),
                )
            )
        gathered, stop = self._gathered(jobs)
        for pair, drawn in zip(pairs.tolist(), gathered, strict=False):
            try:
                self._enter(pair, drawn, batch)
            except Full as error:
                error.calls = int(counts.sum()) + begun - batch.drawn
                raise
            self.words[pair] = drawn.words
        if stop is not None:
            raise Interrupted("The search was stopped.") from stop

    def _gathered(
        self, jobs: list[PairJob]
    ) -> tuple[list[Drawn], BaseException | None]:
        """Return the results of the jobs, in their order, and what stopped them.

        After a stop they are those before the first job that was not finished.
        """
        parts = _parts(jobs, PARTS_PER_WORKER * self.workers)
        found: list[list[Drawn] | None] = [None for _ in parts]

        def report(item: tuple[int, list[PairJob]], part: list[Drawn]) -> bool:
            found[item[0]] = part
            return False

        stopped: BaseException | None = None
        try:
            with self.hold.opened(), self._in_time():
                self.pool.map(draw_part, enumerate(parts), report)
        except (KeyboardInterrupt, Interrupted) as stop:
            stopped = stop
        done = itertools.takewhile(lambda part: part is not None, found)
        return [drawn for part in done for drawn in part or ()], stopped

    def _enter(self, pair: int, drawn: Drawn, batch: Batch) -> None:
        facts, memory = self.problem.facts, self.memory
        low, high = facts.reward_range
        last = memory.graph.nodes["last"][memory.graph.pairs[pair]["node"]] == 1
        at = batch.drawn
        for reward, after, ended in zip(
            drawn.rewards, drawn.states, drawn.ended, strict=True
        ):
            if not low <= reward <= high:
                raise self._bad_reward(reward, pair)
            if ended and not facts.terminals:
                raise self._undeclared_end(pair)
            batch.rewards[at] = reward
            batch.raws[at] = END if ended or last else memory.node_of(after)
            at += 1
        if drawn.error is not None:
            raise (
                OracleError(drawn.error)
                if drawn.told
                else raised(drawn.error, self._where(pair))
            )
        batch.drawn = at

    def close(self) -> None:
        """End the workers."""
        self.pool.close()


def _parts(jobs: list[PairJob], number: int) -> list[list[PairJob]]:
    """Split the jobs, in order, into at most ``number`` parts.

    The parts have about the same number of samples.
    """
    total = sum(job.draws for job in jobs)
    goal = max(1, -(-total // number))
    parts: list[list[PairJob]] = [[]]
    size = 0
    for job in jobs:
        if size >= goal:
            parts.append([])
            size = 0
        parts[-1].append(job)
        size += job.draws
    return parts
