"""Oracle calls per second of one core, measured on a small schedule of the problem.

A price in calls becomes a time only with the speed of the user's simulator,
which may be 10 ns or 10 s per call. So a schedule that costs a few hundred
calls is run first, for at least ``QUICK`` seconds. A slow simulator takes much
longer than that, and its speed is then known. For others a schedule of
``LARGE`` calls is run again and again until ``SECONDS`` have passed: its leaves
and rollouts are mixed like those of a real plan. The engine is the one that
would run the plan.

What this file decides: what is run and for how long. It leaves out compiling
(done before the clock starts).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from smoothcruiser.engines.base import Engine, Job
from smoothcruiser.engines.registry import default_executor, make_engine, named
from smoothcruiser.engines.shards import Shard
from smoothcruiser.errors import Interrupted, SmoothcruiserError
from smoothcruiser.jit.interrupts import stoppable
from smoothcruiser.jit.streams import warm_up
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.compiler.optimizer import compile_schedule, smallest_epsilon
from smoothcruiser.schedule.schedule import Schedule

# Long enough for 1% of noise at a millisecond per repetition, and short enough
# to wait for.
SECONDS = 0.3
SMALL, LARGE = 500, 200_000  # calls: 200,000 take 4 ms at 50 M calls/s
QUICK = 0.01  # seconds, at least, of the small schedule
DELTA = 0.1  # any will do: it scales the number of root samples, not their kind


@stoppable()
def calls_per_second(
    problem: Problem, state: Any, executor: str | None = None
) -> float:
    """Oracle calls per second of one core at ``state``."""
    name = executor or default_executor(problem)
    job = Job(problem, _sample(problem.facts, SMALL), state)
    calls, seconds = _timed(name, job, QUICK)
    if seconds < 5.0 * QUICK:
        large = replace(job, schedule=_sample(problem.facts, LARGE))
        calls, seconds = _timed(name, large, SECONDS)
    return calls / seconds


def _sample(facts: Facts, budget: int) -> Schedule:
    """A schedule of about ``budget`` calls, or the loosest if none is so cheap."""
    try:
        epsilon = smallest_epsilon(facts, budget=budget, delta=DELTA)
        return compile_schedule(facts, epsilon=epsilon, delta=DELTA, adaptive=False)
    except SmoothcruiserError:
        return compile_schedule(
            facts, epsilon=max(facts.value_span(), 1e-9), delta=DELTA, adaptive=False
        )


def _timed(name: str, job: Job, least: float) -> tuple[int, float]:
    """(calls, seconds) of repetitions of the job until ``least`` seconds have passed.

    Plain Python stops in the middle of a repetition.
    """
    clock = _Deadline(job.problem.oracle)
    if named(name).engine(job.problem).python:
        job = replace(job, problem=replace(job.problem, oracle=clock))
    engine = make_engine(name, job)
    action = job.problem.legal_actions(job.state)[0]
    warm_up()
    calls, begin = 0, time.perf_counter()
    clock.end = begin + SECONDS
    for index in range(1_000_000):
        calls += _one(engine, Shard(action, index, 0, job.schedule.root.samples))
        seconds = time.perf_counter() - begin
        if seconds >= least:
            break
    return max(1, calls), seconds


def _one(engine: Engine, shard: Shard) -> int:
    """The calls of one repetition, or of the part of it before the deadline."""
    try:
        return engine.run_shard(shard, seed=0).calls
    except Interrupted:
        return engine.calls


class _Deadline:
    """The oracle, which stops the run after a deadline.

    Without it, one repetition with a slow simulator could take minutes.
    """

    def __init__(self, oracle: Any) -> None:
        self.oracle, self.end = oracle, float("inf")

    def __call__(self, state: Any, action: int, rng: Any) -> Any:
        if time.perf_counter() > self.end:
            raise Interrupted("The time for the measurement is over.")
        return self.oracle(state, action, rng)
