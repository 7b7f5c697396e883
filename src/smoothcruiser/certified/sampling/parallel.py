"""Certified search's samples on workers in other processes, for plain Python oracles.

The tasks run on the pools of ``engines``. A round of the search is a list of jobs,
(pair, number of samples). Every pair has its own stream, which continues where it
stopped, and the workers' samples are entered in the order of the jobs. So the result
has the bits of one process, whichever worker took a sample. Compiled oracles use
threads instead (``sampling.CompiledSampler``).
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from smoothcruiser.certified.graph import END
from smoothcruiser.certified.query_limits import MemoryFull
from smoothcruiser.certified.sample_batches import Batch
from smoothcruiser.certified.sampling.sampler import Sampler
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.engines.base import Executor
from smoothcruiser.engines.inspection import Looks, look, sendable
from smoothcruiser.engines.pools.base import Build, check_workers
from smoothcruiser.errors import Interrupted, OracleError
from smoothcruiser.jit.random.streams import from_words
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import oracle_raised
from smoothcruiser.query import Compute
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.states.state_copies import Guard

PARTS_PER_WORKER = 4  # of a round: enough to even out samples that differ in length


class PairJob(NamedTuple):
    """Samples to take at one pair: its state, action, count and stream's words."""

    state: Any
    action: int
    draws: int
    words: tuple[int, ...]


class JobResult(NamedTuple):
    """The result of a job, or its error.

    It has the rewards, the next states, which samples ended, and the stream's
    words after it.
    """

    rewards: list[float]
    states: list[Any]
    ended: list[bool]
    words: tuple[int, ...]
    error: str | None = None
    told: bool = False  # whether the error is a whole sentence already


def draw_jobs(problem: Problem, jobs: list[PairJob]) -> list[JobResult]:
    """Return the samples of some jobs, one after the other; an error ends the list."""
    results: list[JobResult] = []
    guard = Guard()
    for job in jobs:
        rng = from_words(job.words)
        samples: tuple[list[float], list[Any], list[bool]] = [], [], []
        rewards, states, ended = samples
        try:
            state_before = (
                guard.copy_state(job.state) if guard.due(job.draws) else None
            )
            for _ in range(job.draws):
                reward, next_state, *end_flag = problem.oracle(
                    job.state, job.action, rng
                )
                rewards.append(float(reward))
                states.append(next_state)
                ended.append(bool(end_flag[0]) if end_flag else False)
            guard.compare(state_before, job.state, job.action)
        except OracleError as error:
            return [*results, JobResult(*samples, (), str(error), True)]
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            error_text = f"{type(error).__name__}: {error}"
            return [*results, JobResult(*samples, (), error_text)]
        results.append(JobResult(*samples, tuple(int(word) for word in rng.words)))
    return results


def draw_part(problem: Problem, item: tuple[int, list[PairJob]]) -> list[JobResult]:
    """Return the samples of the numbered part of a round."""
    return draw_jobs(problem, item[1])


def look_elsewhere(
    problem: Problem, item: tuple[Any, int, CallLedger, Looks | None, float]
) -> tuple[CallLedger, Looks]:
    """Inspect the step, and return as much of the result as can be sent back."""
    return item[2], sendable(look(problem, *item))


def itself(problem: Problem) -> Problem:
    """Return the problem itself: a worker builds nothing else."""
    return problem


class ParallelSampler(Sampler):
    """Rounds of samples spread over workers.

    Next states become nodes in the order of the jobs.
    """

    gives_nodes = True

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
        self, state: Any, ledger: CallLedger, looked: Looks | None, seconds: float
    ) -> Looks:
        """Inspect the step in a worker.

        A simulator that crashes must not take this process with it.
        """
        item = (state, self.seed, CallLedger(ledger.price), looked, seconds)
        with self._in_time():
            worker_ledger, pairs = self.pool.ask(look_elsewhere, item)
        ledger.add(worker_ledger)
        return pairs

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Wait for workers until the deadline; then ``Interrupted`` is raised.

        Their unfinished work is given up, and the next task starts them anew.
        """
        seconds_left = min(self.deadline - time.perf_counter(), threading.TIMEOUT_MAX)
        timer = threading.Timer(max(0.0, seconds_left), self.pool.stop)
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

    def draw(self, batch: Batch, max_samples: int) -> None:
        """Take the next samples of a batch, at most ``max_samples`` of them.

        ``Full`` ends it before the job with a next state that has no room.
        """
        drawn_before = batch.drawn
        first_job, counts = batch.next_samples(max_samples)
        pairs = batch.pairs[first_job : first_job + len(counts)]
        jobs = []
        for pair, count, stream_words in zip(
            pairs.tolist(), counts.tolist(), self._streams(pairs).tolist(), strict=True
        ):
            pair_row = self.memory.graph.pairs[pair]
            jobs.append(
                PairJob(
                    self.memory.states[int(pair_row["node"])],
                    int(pair_row["action"]),
                    count,
                    tuple(stream_words),
                )
            )
        job_results, stop = self._gather_results(jobs)
        for pair, job_result in zip(pairs.tolist(), job_results, strict=False):
            try:
                self._enter(pair, job_result, batch)
            except MemoryFull as error:
                error.calls = int(counts.sum()) + drawn_before - batch.drawn
                raise
            self.words[pair] = job_result.words
        if stop is not None:
            raise Interrupted("The search was stopped.") from stop

    def _gather_results(
        self, jobs: list[PairJob]
    ) -> tuple[list[JobResult], BaseException | None]:
        """Return the results of the jobs, in order, and the error that ended them.

        After a stop they are those before the first job that was not finished.
        """
        job_parts = _parts(jobs, PARTS_PER_WORKER * self.workers)
        part_results: list[list[JobResult] | None] = [None for _ in job_parts]

        def report(item: tuple[int, list[PairJob]], part: list[JobResult]) -> bool:
            part_results[item[0]] = part
            return False

        stop_error: BaseException | None = None
        try:
            with self.hold.opened(), self._in_time():
                self.pool.map(draw_part, enumerate(job_parts), report)
        except (KeyboardInterrupt, Interrupted) as stop:
            stop_error = stop
        finished_parts = itertools.takewhile(
            lambda part_result: part_result is not None, part_results
        )
        return [
            job_result
            for part_result in finished_parts
            for job_result in part_result or ()
        ], stop_error

    def _enter(self, pair: int, result: JobResult, batch: Batch) -> None:
        facts, memory = self.problem.facts, self.memory
        low, high = facts.reward_range
        is_last = memory.graph.nodes["last"][memory.graph.pairs[pair]["node"]] == 1
        sample_index = batch.drawn
        for reward, next_state, ended in zip(
            result.rewards, result.states, result.ended, strict=True
        ):
            if not low <= reward <= high:
                raise self._bad_reward(reward, pair)
            if ended and not facts.terminals:
                raise self._undeclared_end(pair)
            batch.rewards[sample_index] = reward
            batch.raws[sample_index] = (
                END if ended or is_last else memory.node_of(next_state)
            )
            sample_index += 1
        if result.error is not None:
            raise (
                OracleError(result.error)
                if result.told
                else oracle_raised(result.error, self._where(pair))
            )
        batch.drawn = sample_index

    def close(self) -> None:
        """End the workers."""
        self.pool.close()


def _parts(jobs: list[PairJob], max_parts: int) -> list[list[PairJob]]:
    """Split the jobs, in order, into at most ``max_parts``.

    The parts have about the same number of samples.
    """
    total_samples = sum(job.draws for job in jobs)
    part_goal = max(1, -(-total_samples // max_parts))
    job_parts: list[list[PairJob]] = [[]]
    part_size = 0
    for job in jobs:
        if part_size >= part_goal:
            job_parts.append([])
            part_size = 0
        job_parts[-1].append(job)
        part_size += job.draws
    return job_parts
