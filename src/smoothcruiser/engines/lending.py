"""Workers that serve one state after the other: ``plan_many`` opens them once.

Processes take seconds to start (2.6 s for two of them, measured), and a cluster has
to be reached and sent the problem; an engine in this process takes milliseconds and
is made anew. What changes from state to state is the state, and who moves there: the
schedule and what is scored stay, so an engine elsewhere moves to the state that comes
with a shard, and sums around the center of its mover.
"""

from __future__ import annotations

from smoothcruiser.engines.base import Job, Workers
from smoothcruiser.engines.pools.base import Futures
from smoothcruiser.engines.registry import open_workers
from smoothcruiser.engines.workers import ShardWorkers
from smoothcruiser.query import Compute

# what starting processes costs: waiting for what is under way is worth as much
PATIENCE = 3.0


class Lender:
    """Opens workers as ``open_workers`` does, and keeps those that took long."""

    def __init__(self) -> None:
        self._kept: ShardWorkers | None = None

    def open(self, job: Job, compute: Compute) -> Workers:
        """Workers for a job; all jobs have one problem, schedule and score."""
        if self._kept is not None and getattr(self._kept.pool, "stopped", False):
            self.close()  # a pool that was stopped stays so
        if self._kept is None:
            workers = open_workers(job, compute)
            if not isinstance(workers, ShardWorkers) or workers.engine is not None:
                return workers
            self._kept = workers
            if isinstance(workers.pool, Futures):
                workers.pool.patience = PATIENCE
        return self._kept.lent(job.state, job.center)

    def close(self) -> None:
        """Release what was kept."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None
