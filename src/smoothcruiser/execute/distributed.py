"""Executor ``dask``: shards on a Dask cluster, the user's own (``scheduler=``) or one that is started here on loopback.

The problem is shipped once to each worker, which builds its engine once and keeps it; a shard is a few numbers there and back, so the
driver's memory stays flat. Dask moves the shards of a dead worker to the living (an oracle's own error is not retried); a shard is a
pure function of its position, so running one twice gives the same bits, and it is counted once. Only this module imports Dask.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from smoothcruiser.errors import Interrupted, MissingExtra, SmoothcruiserError
from smoothcruiser.execute.run import Report
from smoothcruiser.execute.shards import Partial, Shard
from smoothcruiser.execute.workers import POLL_SECONDS, check_workers
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.schedule import Schedule

try:
    import distributed
except ImportError as error:  # pragma: no cover - the extra is installed where this is tested
    raise MissingExtra("The dask executor needs Dask distributed: pip install 'smoothcruiser[dask]'.") from error

START_SECONDS = 30  # to reach a scheduler
_engines: dict[str, Any] = {}  # on a worker: the engines it has built, by payload


def run_remote(key: str, payload: tuple[str, Problem, Schedule, Any, float], shard: Shard, seed: int) -> Partial:
    """One shard, on a worker."""
    if key not in _engines:
        from smoothcruiser.execute.engines import make_engine

        name, problem, schedule, state, center = payload
        _engines.clear()  # one run at a time: an engine holds the problem's tables
        _engines[key] = make_engine(name, problem, schedule, state, center=center)
    part: Partial = _engines[key].run_shard(shard, seed)
    return part


class DaskWorkers:
    """A connection to a cluster, and the futures of the shards under way."""

    name = "dask"
    compile_seconds = 0.0

    def __init__(
        self, engine: str, problem: Problem, schedule: Schedule, state: Any, *, center: float, workers: int | None, scheduler: str | None
    ) -> None:
        self.cluster: Any = None
        self.stopped = False
        self.futures: list[Any] = []
        try:
            if scheduler is None:
                self.cluster = distributed.LocalCluster(
                    n_workers=check_workers(workers), threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
                )
            self.client = distributed.Client(self.cluster or scheduler, timeout=START_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise SmoothcruiserError(
                f"No Dask scheduler answers at {scheduler!r} ({error}); check the address given to --scheduler."
            ) from error
        self.key = f"smoothcruiser-{time.time_ns()}"
        self.payload = self.client.scatter((engine, problem, schedule, state, center), broadcast=True, hash=False)

    def map(self, work: Sequence[Shard], seed: int, report: Report) -> None:
        """Run every shard and report each as it comes back."""
        tasks = {
            self.client.submit(run_remote, self.key, self.payload, shard, seed, key=f"{self.key}-{shard.action}-{shard.index}"): shard
            for shard in work
        }
        self.futures = list(tasks)
        waiting = set(tasks)
        try:
            while waiting:
                if self.stopped:
                    raise Interrupted("The run was stopped before all shards were finished.")
                try:
                    with self.client.as_current():
                        finished = distributed.wait(list(waiting), timeout=POLL_SECONDS, return_when="FIRST_COMPLETED").done
                except (TimeoutError, distributed.TimeoutError):
                    continue
                for future in finished:
                    waiting.discard(future)
                    report(tasks[future], Partial(*future.result()))
        finally:
            if waiting:
                self.client.cancel(list(waiting))
            self.futures = []

    def stop(self) -> None:
        """Ask the run to end; shards under way are cancelled."""
        self.stopped = True

    def close(self) -> None:
        """Leave the cluster; end it if it was started here."""
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()
