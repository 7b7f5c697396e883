"""Executor ``dask``: shards on a Dask cluster, the user's own (``scheduler=``)
or one that is started here on loopback.

The problem is shipped once to each worker, which builds its engine once and
keeps it; a shard is a few numbers there and back, so the driver's memory stays
flat. Dask moves the shards of a dead worker to the living (an oracle's own
error is not retried); a shard is a pure function of its position, so running
one twice gives the same bits, and it is counted once. Only this module imports
Dask.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

from smoothcruiser.engines.inspection import Looks, look, sendable
from smoothcruiser.engines.pools.threads import POLL_SECONDS, Pool, check_workers
from smoothcruiser.engines.shards import Partial, Shard
from smoothcruiser.errors import MissingExtra, SmoothcruiserError
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.schedule import Schedule

try:
    import distributed
except (
    ImportError
) as error:  # pragma: no cover - the extra is installed where this is tested
    raise MissingExtra(
        "The dask executor needs Dask distributed: pip install 'smoothcruiser[dask]'."
    ) from error

COUNT_SECONDS = 1.0  # between two looks at the cluster's size
MOST_IDLE = 4  # shards to offer while no worker is known
START_SECONDS = 30  # to reach a scheduler
_engines: dict[str, Any] = {}  # on a worker: the engines it has built, by payload


def run_remote(
    key: str,
    payload: tuple[str, Problem, Schedule, Any, float],
    shard: Shard,
    seed: int,
) -> Partial:
    """One shard, on a worker."""
    if key not in _engines:
        from smoothcruiser.engines.registry import make_engine

        name, problem, schedule, state, center = payload
        _engines.clear()  # one run at a time: an engine holds the problem's tables
        _engines[key] = make_engine(name, problem, schedule, state, center=center)
    part: Partial = _engines[key].run_shard(shard, seed)
    return part


def look_remote(
    payload: tuple[str, Problem, Schedule, Any, float], seed: int, looked: Looks | None
) -> tuple[int, Looks]:
    """A look at the step, on a worker."""
    _, problem, _, state, _ = payload
    calls, found = look(problem, state, seed, looked)
    return calls, sendable(found)


def connect(workers: int, scheduler: str | None) -> tuple[Any, Any]:
    """(client, cluster): the user's cluster (then the second is None), or one
    of ``workers`` processes started here on loopback.
    """
    cluster: Any = None
    try:
        if scheduler is None:
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
            )
        return distributed.Client(
            cluster or scheduler, timeout=START_SECONDS, set_as_default=False
        ), cluster
    except (OSError, TimeoutError, ValueError) as error:
        raise SmoothcruiserError(
            f"No Dask scheduler answers at {scheduler!r} ({error}); check the "
            "address given to --scheduler."
        ) from error


class DaskWorkers(Pool):
    """A connection to a cluster, and the futures of the shards under way."""

    name = "dask"

    def __init__(
        self,
        engine: str,
        problem: Problem,
        schedule: Schedule,
        state: Any,
        *,
        center: float,
        workers: int | None,
        scheduler: str | None,
    ) -> None:
        self.counted, self.room = -math.inf, 0
        self.client, self.cluster = connect(check_workers(workers), scheduler)
        self.key = f"smoothcruiser-{time.time_ns()}"
        self.payload = self.client.scatter(
            (engine, problem, schedule, state, center), broadcast=True, hash=False
        )

    def window(self) -> int:
        """Two shards a thread of the cluster, so that none waits for the
        driver; workers that join are noticed within a second.
        """
        now = time.monotonic()
        if now - self.counted > COUNT_SECONDS:
            self.counted, self.room = (
                now,
                max(MOST_IDLE, 2 * sum(self.client.nthreads().values())),
            )
        return self.room

    def look(self, seed: int, looked: Looks | None) -> tuple[int, Looks]:  # noqa: D102
        found: tuple[int, Looks] = self.client.submit(
            look_remote, self.payload, seed, looked, pure=False
        ).result()
        return found

    def submit(self, shard: Shard, seed: int) -> Any:  # noqa: D102
        return self.client.submit(
            run_remote,
            self.key,
            self.payload,
            shard,
            seed,
            key=f"{self.key}-{shard.action}-{shard.index}",
        )

    def finished(self, futures: list[Any]) -> Iterable[Any]:  # noqa: D102
        try:
            with self.client.as_current():
                done: Iterable[Any] = distributed.wait(
                    futures, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED"
                ).done
                return done
        except (TimeoutError, distributed.TimeoutError):
            return ()

    def result(self, future: Any) -> Partial:  # noqa: D102
        return Partial(*future.result())

    def abandon(self, futures: list[Any]) -> None:  # noqa: D102
        self.client.cancel(futures)

    def close(self) -> None:
        """Leave the cluster; end it if it was started here."""
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()
