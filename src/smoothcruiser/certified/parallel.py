"""Certified search's draws on several workers: worker processes or a Dask
cluster for plain Python oracles.

A round of the search is a list of jobs, (pair, number of draws); every pair has
its own stream that goes on where it stopped, and what the workers return is
entered in the order of the jobs. So the result has the bits of one process,
whoever drew what. Compiled oracles use threads instead
(``certified_sampling.CompiledSampler``).
"""

from __future__ import annotations

from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.certified.graph import END
from smoothcruiser.certified.memory import Memory
from smoothcruiser.certified.sampling import Sampler
from smoothcruiser.engines.inspection import Looks, look, sendable
from smoothcruiser.engines.pools.processes import (
    Recipe,
    SpawnedPool,
    check_begun,
    rebuilt,
    recipe_of,
)
from smoothcruiser.engines.pools.threads import check_workers
from smoothcruiser.errors import OracleError
from smoothcruiser.problem.answers import raised
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import Guard
from smoothcruiser.problem.tabular import Floats, Ints

PARTS_PER_WORKER = 4  # of a round: enough to even out draws that differ in length


class Job(NamedTuple):
    """Draws to make at one pair: its state and action, how many, and its
    stream's words.
    """

    state: Any
    action: int
    draws: int
    words: tuple[int, ...]


class Drawn(NamedTuple):
    """What came of a job: rewards, next states, which draws ended, the words
    after it; or what was raised.
    """

    rewards: list[float]
    states: list[Any]
    ended: list[bool]
    words: tuple[int, ...]
    error: str | None = None
    told: bool = False  # whether the error is a whole sentence already


def draw_jobs(oracle: Any, jobs: list[Job]) -> list[Drawn]:
    """The draws of some jobs, one after the other; an error ends the list."""
    from smoothcruiser.jit.streams import from_words

    found: list[Drawn] = []
    guard = Guard()
    for job in jobs:
        rng = from_words(job.words)
        drawn = Drawn([], [], [], ())
        try:
            before = guard.copied(job.state) if guard.due(job.draws) else None
            for _ in range(job.draws):
                reward, after, *rest = oracle(job.state, job.action, rng)
                drawn.rewards.append(float(reward))
                drawn.states.append(after)
                drawn.ended.append(bool(rest[0]) if rest else False)
            guard.compare(before, job.state, job.action)
        except OracleError as error:
            return [*found, drawn._replace(error=str(error), told=True)]
        except Exception as error:
            return [*found, drawn._replace(error=f"{type(error).__name__}: {error}")]
        found.append(drawn._replace(words=tuple(int(word) for word in rng.words)))
    return found


_problem: Problem | None = None  # this process's own, rebuilt once


def _begin(recipe: Recipe) -> None:
    global _problem
    _problem = rebuilt(recipe)


def _look_here(
    state: Any, seed: int, looked: Looks | None, most_calls: int
) -> tuple[int, Looks]:
    check_begun()
    assert _problem is not None
    return look_remote(_problem, state, seed, looked, most_calls)


def look_remote(
    problem: Problem, state: Any, seed: int, looked: Looks | None, most_calls: int
) -> tuple[int, Looks]:
    """A look at the step, on a worker."""
    calls, found = look(problem, state, seed, looked, most_calls)
    return calls, sendable(found)


def _draw_here(jobs: list[Job]) -> list[Drawn]:
    check_begun()
    assert _problem is not None
    return draw_jobs(_problem.oracle, jobs)


class ParallelSampler(Sampler):
    """Rounds of draws spread over workers; next states become nodes in the
    order of the jobs.
    """

    resolved = True

    def __init__(
        self,
        problem: Problem,
        memory: Memory,
        seed: int,
        *,
        workers: int | None,
        executor: str,
        scheduler: str | None = None,
    ) -> None:
        super().__init__(problem, memory, seed)
        self.size = check_workers(workers)
        self.pool: SpawnedPool | None = None
        if executor == "dask":
            from smoothcruiser.engines.pools.dask import connect

            self.client, self.cluster = connect(self.size, scheduler)
            self.payload = self.client.scatter(
                problem.oracle, broadcast=True, hash=False
            )
        else:
            self.pool = SpawnedPool(self.size, _begin, recipe_of(problem))

    @property
    def looks(self) -> None:
        """Workers look, each for itself."""

    def look(
        self, state: Any, looked: Looks | None, most_calls: int
    ) -> tuple[int, Looks]:
        """Look in a worker: a simulator that crashes must not take this process
        with it.
        """
        found: tuple[int, Looks]
        if self.pool is None:
            task = (self.problem, state, self.seed, looked, most_calls)
            found = self.client.submit(look_remote, *task, pure=False).result()
            return found
        try:
            found = self.pool.submit(
                _look_here, state, self.seed, looked, most_calls
            ).result()
        except BrokenProcessPool as error:
            raise self.pool.death() from error
        return found

    def draw(self, pairs: Ints, counts: Ints) -> tuple[Ints, Floats]:
        """(next nodes, rewards) of the jobs, one after the other."""
        words = self._streams(pairs)
        jobs = []
        for pair, count, four in zip(
            pairs.tolist(), counts.tolist(), words.tolist(), strict=True
        ):
            found = self.memory.graph.pairs[pair]
            jobs.append(
                Job(
                    self.memory.states[int(found["node"])],
                    int(found["action"]),
                    count,
                    tuple(four),
                )
            )
        raws, rewards = (
            np.empty(int(counts.sum()), dtype=np.int64),
            np.empty(int(counts.sum())),
        )
        at = 0
        for i, drawn in enumerate(self._gathered(jobs)):
            at = self._enter(int(pairs[i]), drawn, raws, rewards, at)
            words[i] = drawn.words
        self.words[pairs] = words
        self.memory.check_turns(np.repeat(pairs, counts), raws)
        return raws, rewards

    def _gathered(self, jobs: list[Job]) -> list[Drawn]:
        parts = _parts(jobs, PARTS_PER_WORKER * self.size)
        if self.pool is None:
            futures = [
                self.client.submit(draw_jobs, self.payload, part, pure=False)
                for part in parts
            ]
            return [drawn for part in self.client.gather(futures) for drawn in part]
        try:
            return [
                drawn for part in self.pool.map(_draw_here, parts) for drawn in part
            ]
        except BrokenProcessPool as error:
            raise self.pool.death() from error

    def _enter(
        self, pair: int, drawn: Drawn, raws: Ints, rewards: Floats, at: int
    ) -> int:
        facts, memory = self.problem.facts, self.memory
        low, high = facts.reward_range
        after_steps = memory.remaining[int(memory.graph.pairs[pair]["node"])] - 1
        for reward, after, ended in zip(
            drawn.rewards, drawn.states, drawn.ended, strict=True
        ):
            if not low <= reward <= high:
                raise self._bad_reward(reward, pair)
            if ended and not facts.terminals:
                raise self._undeclared_end(pair)
            rewards[at] = reward
            raws[at] = END if ended else memory.node_of(after, after_steps)
            at += 1
        if drawn.error is not None:
            raise (
                OracleError(drawn.error)
                if drawn.told
                else raised(drawn.error, self._where(pair))
            )
        return at

    def close(self) -> None:
        """End the workers."""
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)
            return
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()


def _parts(jobs: list[Job], number: int) -> list[list[Job]]:
    """The jobs in order, cut into at most ``number`` parts of about the same
    number of draws.
    """
    total = sum(job.draws for job in jobs)
    goal = max(1, -(-total // number))
    parts: list[list[Job]] = [[]]
    size = 0
    for job in jobs:
        if size >= goal:
            parts.append([])
            size = 0
        parts[-1].append(job)
        size += job.draws
    return parts
