"""Workers in this process: one engine, in this thread or in a pool of threads
(kernels of the compiled engine release the GIL).

Compiled shards run in a pool even where it has one thread: machine code cannot
be interrupted, so the main thread has to be free to take a Ctrl-C and set the
stop flag.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from smoothcruiser.engines.inspection import Looks, look, seen
from smoothcruiser.engines.run import Engine, Report
from smoothcruiser.engines.shards import Partial, Shard
from smoothcruiser.errors import Interrupted, InvalidInput
from smoothcruiser.problem.problem import Problem

POLL_SECONDS = 0.1  # a bounded wait, so that Ctrl-C reaches the main thread at once


def check_workers(workers: int | None) -> int:
    """The number of workers: the one asked for, or one a core."""
    if workers is None:
        return os.cpu_count() or 1
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InvalidInput(
            f"workers must be a whole number of at least 1, got {workers!r}."
        )
    return workers


class Pool(ABC):
    """Workers behind futures: pulls a shard when one is free, hands results
    back as they come, leaves nothing running behind.
    """

    name: str
    compile_seconds: float = 0.0
    stopped: bool = False
    # calls counted in shards that were cut short; other processes do not report
    # theirs
    unfinished: int = 0
    looked: Looks | None = None  # what the look before the run saw
    look_calls: int = 0

    @property
    def looks(self) -> int | None:
        """How often workers looked at the step; None: they do, each for itself."""
        return None

    @abstractmethod
    def look(self, seed: int, looked: Looks | None) -> tuple[int, Looks]:
        """``inspection.look``, where the step runs."""

    def inspect(self, seed: int) -> tuple[int, int]:
        """Look at the step before the run, and again after it: (calls made in
        all, those of this time).
        """
        calls, self.looked = self.look(seed, self.looked)
        self.look_calls += calls
        return self.look_calls, calls

    def seen(self, asked: int) -> str:
        """What was seen of the step, where ``asked`` calls were made after the run."""
        return seen(len(self.looked or ()), asked, self.looks, self.doubts)

    @property
    def doubts(self) -> str:
        """What the looks during the run could not tell."""
        return ""

    @abstractmethod
    def window(self) -> int:
        """How many shards may be under way at once."""

    @abstractmethod
    def submit(self, shard: Shard, seed: int) -> Any:
        """The future of a shard."""

    @abstractmethod
    def finished(self, futures: list[Any]) -> Iterable[Any]:
        """Those of ``futures`` that are done, after waiting for one for at most
        ``POLL_SECONDS``.
        """

    @abstractmethod
    def result(self, future: Any) -> Partial:
        """What a finished future holds, or its error."""

    @abstractmethod
    def abandon(self, futures: list[Any]) -> None:
        """Forget shards under way: they are no longer needed."""

    def map(self, source: Iterator[Shard], seed: int, report: Report) -> None:
        """Run what the source hands out until it ends or ``report`` is True."""
        waiting: dict[Any, Shard] = {}
        more = True
        try:
            while True:
                while more and len(waiting) < self.window():
                    shard = next(source, None)
                    if shard is None:
                        more = False
                    else:
                        waiting[self.submit(shard, seed)] = shard
                if not waiting:
                    return
                if self.stopped:
                    raise Interrupted(
                        "The run was stopped before all shards were finished."
                    )
                for future in self.finished(list(waiting)):
                    if report(waiting.pop(future), self.result(future)):
                        return
        finally:
            if waiting:
                self.abandon(list(waiting))

    def stop(self) -> None:
        """Ask the run to end."""
        self.stopped = True


class LocalWorkers(Pool):
    """An engine and as many threads as may run it at once; ``inspected`` is the
    problem and state to look at.
    """

    def __init__(
        self,
        engine: Engine,
        workers: int | None = None,
        inspected: tuple[Problem, Any] | None = None,
    ) -> None:
        self.engine, self.inspected = engine, inspected
        self.name = engine.name
        self.compile_seconds = engine.compile_seconds
        self.size = check_workers(workers)
        self.threads = (
            ThreadPoolExecutor(self.size, thread_name_prefix="smoothcruiser")
            if engine.name == "compiled"
            else None
        )

    def map(self, source: Iterator[Shard], seed: int, report: Report) -> None:
        """Run what the source hands out, one by one where the engine holds the
        interpreter's lock.
        """
        if self.threads is not None:
            super().map(source, seed, report)
            return
        for shard in source:
            try:
                part = self.engine.run_shard(shard, seed)
            except (Interrupted, KeyboardInterrupt):
                # counted as they are made
                self.unfinished = getattr(self.engine, "calls", 0)
                raise
            if report(shard, part):
                return

    @property
    def looks(self) -> int:  # noqa: D102
        return self.engine.looks

    @property
    def doubts(self) -> str:  # noqa: D102
        guard = getattr(self.engine, "guard", None)
        return "" if guard is None else str(guard.doubts)

    def look(self, seed: int, looked: Looks | None) -> tuple[int, Looks]:  # noqa: D102
        return (
            (0, ()) if self.inspected is None else look(*self.inspected, seed, looked)
        )

    def window(self) -> int:  # noqa: D102
        return self.size

    def submit(self, shard: Shard, seed: int) -> Future[Partial]:  # noqa: D102
        assert self.threads is not None
        return self.threads.submit(self.engine.run_shard, shard, seed)

    def finished(self, futures: list[Future[Partial]]) -> Iterable[Future[Partial]]:  # noqa: D102
        return wait(futures, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED).done

    def result(self, future: Future[Partial]) -> Partial:  # noqa: D102
        return future.result()

    def abandon(self, futures: list[Future[Partial]]) -> None:  # noqa: D102
        self.engine.stop()
        for future in futures:
            if not future.cancel():
                # soon: a compiled shard looks at the stop flag every few
                # milliseconds
                error = future.exception()
                self.unfinished += (
                    future.result().calls
                    if error is None
                    else getattr(error, "calls", 0)
                )

    def stop(self) -> None:
        """Ask running shards to end."""
        self.stopped = True
        self.engine.stop()

    def close(self) -> None:
        """End the threads."""
        if self.threads is not None:
            self.threads.shutdown(wait=True, cancel_futures=True)
