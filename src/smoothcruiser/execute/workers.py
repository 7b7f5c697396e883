"""Workers in this process: one engine, in this thread or in a pool of threads (kernels of the compiled engine release the GIL).

Compiled shards run in a pool even where it has one thread: machine code cannot be interrupted, so the main thread has to be free to
take a Ctrl-C and set the stop flag.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from smoothcruiser.errors import InvalidInput
from smoothcruiser.execute.run import Engine, Report
from smoothcruiser.execute.shards import Partial, Shard

POLL_SECONDS = 0.1  # a bounded wait, so that Ctrl-C reaches the main thread at once


def check_workers(workers: int | None) -> int:
    """The number of workers: the one asked for, or one a core."""
    if workers is None:
        return os.cpu_count() or 1
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InvalidInput(f"workers must be a whole number of at least 1, got {workers!r}.")
    return workers


class LocalWorkers:
    """An engine and as many threads as may run it at once."""

    def __init__(self, engine: Engine, workers: int | None = None) -> None:
        self.engine = engine
        self.name = engine.name
        self.compile_seconds = engine.compile_seconds
        size = check_workers(workers)
        self.threads = ThreadPoolExecutor(size, thread_name_prefix="smoothcruiser") if engine.name == "compiled" else None

    def map(self, work: Sequence[Shard], seed: int, report: Report) -> None:
        """Run every shard and report each."""
        if self.threads is None:
            for shard in work:
                report(shard, self.engine.run_shard(shard, seed))
            return
        futures: dict[Future[Partial], Shard] = {self.threads.submit(self.engine.run_shard, shard, seed): shard for shard in work}
        waiting = set(futures)
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                for future in done:
                    report(futures[future], future.result())
        except BaseException:
            self.engine.stop()
            for future in futures:
                future.cancel()
            raise

    def stop(self) -> None:
        """Ask running shards to end."""
        self.engine.stop()

    def close(self) -> None:
        """End the threads."""
        if self.threads is not None:
            self.threads.shutdown(wait=True, cancel_futures=True)
