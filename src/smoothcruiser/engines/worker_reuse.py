"""Workers that serve several jobs: those of ``plan_many``, and those that were timed.

Processes take seconds to start (2.6 s for two of them, measured), and a cluster has
to be reached and sent the problem; an engine in this process takes milliseconds and
is made anew. So workers elsewhere move to the next job (``engines.workers.Move``).
"""

from __future__ import annotations

import weakref
from typing import Any

from smoothcruiser.engines.base import Engine, Job, Workers
from smoothcruiser.engines.calibrate import Speed, measure_speed
from smoothcruiser.engines.pools.base import Futures
from smoothcruiser.engines.registry import open_workers
from smoothcruiser.engines.workers import ShardWorkers
from smoothcruiser.query import Compute
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.run_control.call_seconds import calls_the_oracle

# seconds: starting processes takes as long, so a wait for running items is worth it
PATIENCE = 3.0


def time_elsewhere(engine: Engine, item: Any) -> Speed:
    """The speed of an engine that was made to be timed: ``item`` is (seconds, calls)."""
    return measure_speed(engine, CallLedger(), *item)


@calls_the_oracle
def time_worker(workers: ShardWorkers, seconds: float, most_calls: float) -> Speed:
    """The speed of one worker with an engine that was made for a ``timing_job``."""
    speed: Speed = workers.pool.ask(time_elsewhere, (seconds, most_calls))
    return speed


class TimedWorkers:
    """Workers that were opened to time the step, and wait for the run that needs them.

    They are closed when nobody can ask for them any more.
    """

    def __init__(self, workers: ShardWorkers) -> None:
        self._waiting = [workers]  # empty once they were taken
        weakref.finalize(self, _close_once, self._waiting)

    def open(self, job: Job, compute: Compute) -> Workers:
        """Workers for a job of the same problem: these at first, new ones later."""
        workers = self.take()
        return open_workers(job, compute) if workers is None else workers.move_to(job)

    def take(self) -> ShardWorkers | None:
        """The workers, to be closed by the caller; None where they are taken or stopped."""
        workers = self._waiting.pop() if self._waiting else None
        if workers is not None and getattr(workers.pool, "stopped", False):
            workers.close()
            return None
        return workers


def _close_once(box: list[ShardWorkers]) -> None:
    while box:
        box.pop().close()


class WorkerReuse:
    """Opens workers as ``open_workers`` does, and reuses those that start slowly."""

    def __init__(self, waiting: TimedWorkers | None = None) -> None:
        self._reused: ShardWorkers | None = None if waiting is None else waiting.take()

    def open(self, job: Job, compute: Compute) -> Workers:
        """Workers for a job; all jobs have one problem."""
        if self._reused is not None and getattr(self._reused.pool, "stopped", False):
            self.close()  # a pool that was stopped stays so
        if self._reused is None:
            workers = open_workers(job, compute)
            if not isinstance(workers, ShardWorkers) or workers.engine is not None:
                return workers
            self._reused = workers
        if isinstance(self._reused.pool, Futures):
            self._reused.pool.patience = PATIENCE
        return self._reused.lend_to(job)

    def close(self) -> None:
        """Release the workers that are reused."""
        if self._reused is not None:
            self._reused.close()
            self._reused = None
