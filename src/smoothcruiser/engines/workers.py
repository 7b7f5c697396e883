"""The shards of a job on a pool, and the inspections of the step where it runs.

Workers may serve several jobs (``engines.worker_reuse``). Jobs differ in their state
and its mover; the schedule and the scores stay. So an engine elsewhere moves to the
state that comes with a shard, and sums around the center of its mover.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from smoothcruiser.engines.base import Engine, Job, Report
from smoothcruiser.engines.inspection import (
    Looks,
    describe_inspections,
    look,
    sendable,
)
from smoothcruiser.engines.pools.base import Pool, check_workers
from smoothcruiser.engines.pools.threads import ThisThread, Threads
from smoothcruiser.engines.shards import Piece, Shard
from smoothcruiser.errors import Interrupted
from smoothcruiser.run_control.call_ledger import CallLedger

# Plain Python runs a shard in pieces of about this time, so that slow simulators
# report, actions take turns, and a stop loses little.
PIECE_SECONDS = 0.25


@dataclass(frozen=True)
class Move:
    """The next job of an engine elsewhere: another state, or another schedule.

    The engine is made once for each number.
    """

    number: int
    parts: dict[str, Any]  # of a Job, without the problem

    @staticmethod
    def to(job: Job) -> Move:
        """The way to a job of the same problem."""
        return Move(next(_numbers), job_parts(job))


_numbers = count()


class Turns(Iterator[tuple[Any, ...]]):
    """The items to run: shards in order, and those begun when their turn comes.

    It ends where all shards are finished or under way, and goes on when a piece
    comes back.
    """

    def __init__(
        self,
        source: Iterator[Shard],
        seed: int,
        abreast: int,
        moves: tuple[Any, ...] = (),
    ) -> None:
        self.source, self.seed, self.abreast, self.moves = source, seed, abreast, moves
        self.begun: deque[Piece] = deque()
        self.opened = 0  # shards since none was begun and waiting

    def __next__(self) -> tuple[Any, ...]:
        """The next shard, where not every action has one; else the oldest piece."""
        if not self.begun:
            self.opened = 0
        if self.opened < self.abreast:
            self.opened += 1
            shard = next(self.source, None)
            if shard is not None:
                return shard, self.seed, None, *self.moves
        if not self.begun:
            raise StopIteration
        piece = self.begun.popleft()
        return piece.shard, self.seed, piece, *self.moves


class ShardWorkers:
    """A pool of workers that have built an engine each, or share ``engine``."""

    def __init__(self, name: str, pool: Pool, engine: Engine | None = None) -> None:
        """Workers of an executor; ``engine`` is None where engines are elsewhere."""
        self.name, self.pool, self.engine = name, pool, engine
        self.compile_seconds = 0.0 if engine is None else engine.compile_seconds
        self.unfinished = 0
        self.abreast = 1
        self.left: Sequence[Piece] = []
        self.looked: Looks | None = None  # pairs inspected before the run
        # the next job of engines elsewhere; empty where they stay at their own
        self.moves: tuple[Move, ...] = ()

    def lend_to(self, job: Job) -> ShardWorkers:
        """The same pool for another job; closing the result leaves it open."""
        lent_workers = ShardWorkers(self.name, LentPool(self.pool))
        lent_workers.moves = (Move.to(job),)
        return lent_workers

    def move_to(self, job: Job) -> ShardWorkers:
        """The same pool for another job, which now closes it."""
        moved_workers = ShardWorkers(self.name, self.pool)
        moved_workers.moves = (Move.to(job),)
        return moved_workers

    @property
    def stuck(self) -> int:
        """As in ``Workers``."""
        return self.pool.stuck

    def inspect(
        self, seed: int, ledger: CallLedger, seconds: float | None = None
    ) -> int:
        """As in ``Workers``; a run that was stopped may have no time for it."""
        if not self.pool.reachable:
            return 0
        inspection_task = look_elsewhere if self.engine is None else look_here
        inspected = CallLedger()  # another process fills one of its own
        try:
            inspected, self.looked = self.pool.ask(
                inspection_task, (seed, inspected, self.looked, seconds, *self.moves)
            )
        finally:
            ledger.add(inspected)
        return inspected.total

    def seen(self, asked: int) -> str:
        """As in ``Workers``."""
        looks, doubts = None, ""
        if self.engine is not None:
            guard = self.engine.guard
            looks, doubts = (0, "") if guard is None else (guard.looks, guard.doubts)
        return describe_inspections(len(self.looked or ()), asked, looks, doubts)

    def map(self, source: Iterator[Shard], seed: int, report: Report) -> None:
        """As in ``Workers``."""
        turns = Turns(source, seed, self.abreast, self.moves)
        num_abandoned = len(self.pool.abandoned_results)  # by earlier runs

        def take_piece(item: Any, piece: Piece) -> bool:
            if not piece.whole:
                turns.begun.append(piece)
            return report(piece.shard, piece.part)

        stop_error: BaseException | None = None
        try:
            self.pool.map(run_piece, turns, take_piece)
        except (Interrupted, KeyboardInterrupt) as error:
            stop_error = error
            raise
        finally:
            for end in (*self.pool.abandoned_results[num_abandoned:], stop_error):
                self._leave(end)

    def _leave(self, end: Any) -> None:
        """Keep the finished samples of a shard that was cut short."""
        piece = end if isinstance(end, Piece) else getattr(end, "piece", None)
        if piece is not None:
            self.left = [*self.left, piece]
            return
        self.unfinished += getattr(end, "calls", 0)

    def stop(self) -> None:
        """As in ``Workers``."""
        self.pool.stop()

    def close(self) -> None:
        """As in ``Workers``."""
        self.pool.close()


class LentPool:
    """A pool that somebody else closes."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)  # everything else is the pool's own

    def close(self) -> None:
        """Leave it open."""


def local_workers(
    engine: Engine, workers: int | None = None, *, name: str | None = None
) -> ShardWorkers:
    """Workers for an engine in this process.

    They are threads if the engine can use them, and this thread otherwise.
    ``name`` is the executor's, where it is not the engine's.
    """
    num_workers = check_workers(workers)
    pool: Pool = (
        Threads(num_workers, engine, engine.stop)
        if engine.parallel
        else ThisThread(engine, engine.stop)
    )
    return ShardWorkers(name or engine.name, pool, engine)


def job_parts(job: Job) -> dict[str, Any]:
    """A job without its problem, which travels apart."""
    return {
        "schedule": job.schedule,
        "state": job.state,
        "center": job.center,
        "score": job.score,
    }


# --- tasks --------------------------------------------------------------------


def run_piece(engine: Engine, item: Any) -> Piece:
    """The sums of one shard, or of the samples for which there is time now.

    ``item`` is (shard, seed, piece that was begun or None), perhaps with a Move.
    """
    shard, seed, begun_piece, *moves = item
    for move in moves:
        engine = _move_engine(engine, move)
    in_pieces = getattr(engine, "run_piece", None)
    if in_pieces is None:
        return Piece(shard, engine.run_shard(shard, seed))
    finished_piece: Piece = in_pieces(shard, seed, begun_piece, PIECE_SECONDS)
    return finished_piece


def _move_engine(engine: Any, move: Move) -> Engine:
    """The engine for the job that a Move names; it is kept until the next Move."""
    if getattr(engine, "moved_by", None) != move.number:
        engine.moved = type(engine)(Job(engine.job.problem, **move.parts))
        engine.moved_by = move.number
    moved_engine: Engine = engine.moved
    return moved_engine


def look_here(engine: Engine, item: Any) -> tuple[CallLedger, Looks]:
    """An inspection of the step: ``item`` is (seed, ledger, looks, seconds), perhaps a Move."""
    seed, ledger, looked, seconds, *moves = item
    state = moves[0].parts["state"] if moves else engine.job.state
    return ledger, look(engine.job.problem, state, seed, ledger, looked, seconds)


def look_elsewhere(engine: Engine, item: Any) -> tuple[CallLedger, Looks]:
    """An inspection of the step; its pairs are left out where they cannot be sent."""
    ledger, inspected_pairs = look_here(engine, item)
    return ledger, sendable(inspected_pairs)
