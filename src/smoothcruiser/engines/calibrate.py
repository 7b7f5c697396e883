"""Oracle calls per second of one core, measured on a small table of the problem.

A price in calls becomes a time only with the speed of the user's simulator,
which may be 10 ns or 10 s per call. So a table that promises nothing is run
again and again until ``SECONDS`` have passed, and stopped in its middle where the
simulator is slow. Most of its calls are in leaves below plug-ins, as in a real
plan. The engine is the one that would run the plan. So is the place:
``time_worker`` of ``engines.worker_reuse`` measures in a worker.

This file decides which table is run, for how long and for how many calls. It leaves
out compiling (done before the clock starts).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from smoothcruiser.engines.base import Engine, Job
from smoothcruiser.engines.registry import default_executor, make_engine
from smoothcruiser.engines.shards import Shard
from smoothcruiser.errors import Interrupted
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.run_control.call_ledger import CallLedger, CallRole
from smoothcruiser.run_control.clock import pause_clock
from smoothcruiser.run_control.stop_requests import stoppable
from smoothcruiser.schedule.schedule import Kind, Level, Root, Schedule, level_calls

# Long enough for 1% of noise at a millisecond per repetition, and short enough
# to wait for.
SECONDS = 0.3
CALLS = 200_000  # of a repetition: 4 ms at 50 M calls/s
LEAVES = 16  # samples per action of the inner node


class Speed(NamedTuple):
    """The speed of a simulator, and the cost of measuring it."""

    rate: float  # calls per second
    calls: int  # made to measure it
    busy: float  # share of the time in which this process computed
    compile_seconds: float


@stoppable()
def calls_per_second(
    problem: Problem,
    state: Any,
    executor: str | None = None,
    *,
    seconds: float = SECONDS,
    began: Callable[[], object] = time.perf_counter,
    most_calls: float = math.inf,
    ledger: CallLedger | None = None,
) -> Speed:
    """The speed of one core at ``state``, measured for at most about ``seconds``.

    There is at least one call, however long it takes, and at most ``most_calls``.
    ``began`` is called when all is compiled. ``ledger`` gets the calls.
    """
    job = timing_job(problem, state, most_calls)
    start_time = time.perf_counter()
    with pause_clock():
        engine = make_engine(executor or default_executor(problem), job)
    compile_seconds = time.perf_counter() - start_time
    began()
    speed = measure_speed(engine, ledger or CallLedger(), seconds, most_calls)
    return speed._replace(compile_seconds=compile_seconds)


def timing_job(problem: Problem, state: Any, most_calls: float = math.inf) -> Job:
    """A table of about ``CALLS`` calls, not deeper than the horizon.

    One sample of it takes at most ``most_calls``, or one.
    """
    facts = problem.facts
    levels = (
        Level(Kind.CONSTANT),
        Level(Kind.PLUGIN, samples=LEAVES, query=0),
        Level(Kind.PLUGIN, samples=1, query=1),
    )[: min(3, facts.horizon or 3)]
    while len(levels) > 1 and _sample_calls(levels, facts) > most_calls:
        levels = levels[:-1]
    num_samples = max(1, CALLS // _sample_calls(levels, facts))
    root = Root("q_values", num_samples, len(levels) - 1, "none")
    # an infinite epsilon: a table that promises nothing
    schedule = Schedule("measured", facts, levels, root, math.inf, 0.5)
    return Job(problem, schedule, state)


def _sample_calls(levels: tuple[Level, ...], facts: Facts) -> int:
    """Calls of one sample of the root, at the most."""
    return 1 + level_calls(levels, facts.num_actions)[-1]


def measure_speed(
    engine: Engine, ledger: CallLedger, seconds: float, most_calls: float
) -> Speed:
    """The speed of an engine that was made for a ``timing_job``; it is used up."""
    problem, schedule = engine.job.problem, engine.job.schedule
    action = problem.legal_actions(engine.job.state)[0]
    calls_per_sample, max_samples = (
        _sample_calls(schedule.levels, schedule.facts),
        schedule.root.samples,
    )
    timer = threading.Timer(seconds, engine.stop)
    timer.daemon = True
    timer.start()
    num_calls, start_time, elapsed_seconds = 0, time.perf_counter(), 0.0
    cpu_start = time.process_time()
    try:
        for index in range(1_000_000):
            samples_left = (
                most_calls - num_calls
            ) / calls_per_sample  # no //: that of infinity is no number
            num_samples = int(min(max_samples, max(1.0, samples_left)))
            num_calls += _repetition_calls(
                engine, Shard(action, index, 0, num_samples)
            )
            elapsed_seconds = time.perf_counter() - start_time
            if elapsed_seconds >= seconds or num_calls + calls_per_sample > most_calls:
                break
    except KeyboardInterrupt as stop:
        begun_piece = getattr(stop, "piece", None)
        num_calls += 0 if begun_piece is None else begun_piece.part.calls
        raise
    finally:
        timer.cancel()
        ledger.spend(CallRole.TIMING, num_calls)
    busy_share = min(1.0, (time.process_time() - cpu_start) / elapsed_seconds)
    return Speed(max(1, num_calls) / elapsed_seconds, num_calls, busy_share, 0.0)


def _repetition_calls(engine: Engine, shard: Shard) -> int:
    """The calls of one repetition, or of the part of it before the stop."""
    try:
        return engine.run_shard(shard, seed=0).calls
    except Interrupted as stop:
        return stop.calls if stop.piece is None else int(stop.piece.part.calls)
