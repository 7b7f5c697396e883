"""The shards of a job on a pool, and the inspections of the step where it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from smoothcruiser.engines.base import Engine, Job, Report
from smoothcruiser.engines.inspection import Looks, look, seen, sendable
from smoothcruiser.engines.pools.base import Build, Pool, check_workers
from smoothcruiser.engines.pools.threads import ThisThread, Threads
from smoothcruiser.engines.shards import Partial, Shard
from smoothcruiser.errors import Interrupted


class ShardWorkers:
    """A pool whose workers have built an engine each, or share ``engine``."""

    def __init__(self, name: str, pool: Pool, engine: Engine | None = None) -> None:
        """Workers of an executor; ``engine`` is None where engines are elsewhere."""
        self.name, self.pool, self.engine = name, pool, engine
        self.compile_seconds = 0.0 if engine is None else engine.compile_seconds
        self.unfinished = 0
        self.looked: Looks | None = None  # what the inspection before the run saw
        self.look_calls = 0
        # what engines elsewhere move to; empty where they stay at their own state
        self.moves: tuple[Any, ...] = ()

    def lent(self, state: Any) -> ShardWorkers:
        """The same pool at another state; closing what is returned leaves it open."""
        lent = ShardWorkers(self.name, Lent(self.pool))
        lent.moves = (state,)
        return lent

    @property
    def stuck(self) -> int:
        """As in ``Workers``."""
        return self.pool.stuck

    def inspect(self, seed: int) -> tuple[int, int]:
        """As in ``Workers``; a run that was stopped may have no time for it."""
        if not self.pool.reachable:
            return self.look_calls, 0
        task = look_elsewhere if self.engine is None else look_here
        calls, self.looked = self.pool.ask(task, (seed, self.looked, *self.moves))
        self.look_calls += calls
        return self.look_calls, calls

    def seen(self, asked: int) -> str:
        """As in ``Workers``."""
        looks, doubts = None, ""
        if self.engine is not None:
            guard = self.engine.guard
            looks, doubts = (0, "") if guard is None else (guard.looks, guard.doubts)
        return seen(len(self.looked or ()), asked, looks, doubts)

    def map(self, source: Iterator[Shard], seed: int, report: Report) -> None:
        """As in ``Workers``."""
        items = ((shard, seed, *self.moves) for shard in source)
        try:
            self.pool.map(run_shard, items, lambda item, part: report(item[0], part))
        except (Interrupted, KeyboardInterrupt):
            # An engine in this process counts its calls as it makes them.
            self.unfinished += 0 if self.engine is None else self.engine.calls
            raise
        finally:
            self.unfinished += sum(getattr(x, "calls", 0) for x in self.pool.abandoned)

    def stop(self) -> None:
        """As in ``Workers``."""
        self.pool.stop()

    def close(self) -> None:
        """As in ``Workers``."""
        self.pool.close()


class Lent:
    """A pool that somebody else closes."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)  # what is not here is the pool's own

    def close(self) -> None:
        """Leave it open."""


def local_workers(
    engine: Engine, workers: int | None = None, *, name: str | None = None
) -> ShardWorkers:
    """Workers for an engine in this process.

    They are threads if the engine can use them, and this thread otherwise.
    ``name`` is the executor's, where it is not the engine's.
    """
    size = check_workers(workers)
    pool: Pool = (
        Threads(size, engine, engine.stop)
        if engine.parallel
        else ThisThread(engine, engine.stop)
    )
    return ShardWorkers(name or engine.name, pool, engine)


def engine_build(name: str, job: Job) -> Build:
    """The engine of executor ``name`` for a job, as something that workers build."""
    parts = {"schedule": job.schedule, "state": job.state, "center": job.center}
    return Build(job.problem, _engine, parts | {"name": name})


def _engine(problem: Any, name: str, **parts: Any) -> Engine:
    from smoothcruiser.engines.registry import make_engine

    return make_engine(name, Job(problem, **parts))


# --- tasks --------------------------------------------------------------------


def run_shard(engine: Engine, item: Any) -> Partial:
    """The sums of one shard: ``item`` is (shard, seed), or (shard, seed, state)."""
    shard, seed, *moves = item
    if moves:
        engine = type(engine)(replace(engine.job, state=moves[0]))
    return engine.run_shard(shard, seed)


def look_here(engine: Engine, item: Any) -> tuple[int, Looks]:
    """An inspection of the step: ``item`` is (seed, looks), perhaps with a state."""
    seed, looked, *moves = item
    state = moves[0] if moves else engine.job.state
    return look(engine.job.problem, state, seed, looked)


def look_elsewhere(engine: Engine, item: Any) -> tuple[int, Looks]:
    """An inspection of the step, reduced to what can be sent back."""
    calls, found = look_here(engine, item)
    return calls, sendable(found)
