"""A pool on a Dask cluster, the user's own (``scheduler=``) or a local one.

A local cluster is started here, on loopback. What a worker needs is sent to it
once, and it builds from it once per thread. An item is a few numbers there and
back, so the driver's memory stays flat. Dask moves the items of a dead worker
to living ones (an oracle's own error is not retried). A task is a pure function
of its item, so running one twice gives the same bits, and it is counted once.
Only this module imports Dask.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Iterable
from typing import Any

from smoothcruiser.engines.pools.base import (
    POLL_SECONDS,
    Build,
    Futures,
    Item,
    Result,
    Task,
)
from smoothcruiser.errors import MissingExtra, SmoothcruiserError

try:
    import distributed
except (
    ImportError
) as error:  # pragma: no cover - the extra is installed where this is tested
    raise MissingExtra(
        "The dask executor needs Dask distributed: pip install 'smoothcruiser[dask]'."
    ) from error

COUNT_SECONDS = 1.0  # between two counts of the cluster's threads
MOST_IDLE = 4  # items to offer while no worker is known
START_SECONDS = 30  # to reach a scheduler
# On a worker: the pool that its thread last worked for, and what it built for
# it.
_here = threading.local()


def run_remote(key: str, build: Build, task: Task[Item, Result], item: Item) -> Result:
    """The result of one item, computed on a worker.

    A worker keeps what it built for one pool at a time, since that may be
    large.
    """
    if getattr(_here, "key", None) != key:
        _here.built, _here.key = None, None
        _here.built = build.make(build.problem, **build.arguments)
        _here.key = key
    return task(_here.built, item)


def connect(workers: int, scheduler: str | None) -> tuple[Any, Any]:
    """(client, cluster) of the user's cluster, or of one that is started here.

    The user's cluster is not ours to end, so the second is None then. A local
    one has ``workers`` processes on loopback.
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


class Dask(Futures):
    """A connection to a cluster, and the futures of the items under way."""

    def __init__(self, workers: int, scheduler: str | None, build: Build) -> None:
        self.counted, self.room = -math.inf, 0
        self.client, self.cluster = connect(workers, scheduler)
        self.key = f"smoothcruiser-{time.time_ns()}"
        self.numbers = itertools.count()
        self.build = self.client.scatter(build, broadcast=True, hash=False)

    def window(self) -> int:
        """Two items per thread of the cluster, so that none waits for the driver.

        Workers that join are noticed within a second.
        """
        now = time.monotonic()
        if now - self.counted > COUNT_SECONDS:
            self.counted, self.room = (
                now,
                max(MOST_IDLE, 2 * sum(self.client.nthreads().values())),
            )
        return self.room

    def ask(self, task: Task[Item, Result], item: Item) -> Result:  # noqa: D102
        found: Result = self.submit(task, item).result()
        return found

    def submit(self, task: Task[Item, Result], item: Item) -> Any:  # noqa: D102
        key = f"{self.key}-{next(self.numbers)}"
        return self.client.submit(
            run_remote, self.key, self.build, task, item, key=key, pure=False
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

    def result(self, future: Any) -> Any:  # noqa: D102
        return future.result()

    def abandon(self, futures: list[Any]) -> None:  # noqa: D102
        self.client.cancel(futures)

    def close(self) -> None:
        """Leave the cluster; end it if it was started here."""
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()
