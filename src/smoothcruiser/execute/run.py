"""Running a schedule: shards in order over one engine, in one thread or many, with progress, looks and a stop.

All actions draw one segment (the shards up to the next look), then an action whose answer is already good enough stops. Segments are
finished before the next begins and sums are combined in shard order, so neither threads nor timing can change a bit of the result.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

from smoothcruiser.errors import Interrupted, InvalidInput
from smoothcruiser.execute.shards import Partial, Shard
from smoothcruiser.schedule.schedule import Schedule


class Engine(Protocol):
    """What runs a shard."""

    name: str
    compile_seconds: float

    def run_shard(self, shard: Shard, seed: int) -> Partial:
        """The sums of one shard."""

    def stop(self) -> None:
        """Ask running shards to end."""


@dataclass
class Tally:
    """Sums of one action's root draws so far."""

    draws: int = 0
    total: float = 0.0
    square: float = 0.0
    look: int | None = None  # the look at which it stopped early, if it did

    def add(self, part: Partial) -> None:
        """Add a shard, in shard order."""
        self.draws += part.draws
        self.total += part.total
        self.square += part.square


@dataclass(frozen=True)
class Progress:
    """What a progress callback sees."""

    calls: int
    price: int
    seconds: float


@dataclass
class Outcome:
    """The tallies of the asked actions, and what they cost."""

    tallies: dict[int, Tally]
    num_calls: int = 0
    calls_spent: int = 0
    finished: bool = True  # False: stopped from outside after ``looks_done`` looks
    looks_done: int = 0
    seconds: float = 0.0
    kept: dict[int, Tally] = field(default_factory=dict)  # tallies at the last finished look


Enough = Callable[[int, Tally], bool]  # (look, tally) -> may this action stop here?


def run(
    engine: Engine,
    schedule: Schedule,
    segments: tuple[tuple[Shard, ...], ...],
    actions: list[int],
    *,
    seed: int,
    workers: int | None = None,
    enough: Enough | None = None,
    progress: Callable[[Progress], object] | None = None,
    seconds: float | None = None,
) -> Outcome:
    """The outcome of running every segment, or those up to a stop."""
    begin = time.perf_counter()
    outcome = Outcome({action: Tally() for action in actions})
    per_action = schedule.num_calls // (schedule.facts.num_actions if schedule.root.target == "q_values" else 1)
    price = per_action * len(actions)

    def report(part: Partial) -> None:
        outcome.calls_spent += part.calls
        if progress is not None:
            progress(Progress(outcome.calls_spent, price, time.perf_counter() - begin))

    live = list(actions)
    try:
        with _pool(workers, engine) as pool:
            for look, segment in enumerate(segments):
                work = [Shard(action, s.index, s.first, s.count) for action in live for s in segment]
                deadline = None if seconds is None else begin + seconds
                for shard, part in zip(work, pool(work, seed, report, deadline), strict=True):
                    outcome.tallies[shard.action].add(part)
                    outcome.num_calls += part.calls
                if look < len(segments) - 1 and enough is not None:
                    outcome.looks_done = look + 1
                    for action in live:
                        if enough(look, outcome.tallies[action]):
                            outcome.tallies[action].look = look
                    live = [action for action in live if outcome.tallies[action].look is None]
                    outcome.kept = {a: Tally(t.draws, t.total, t.square, t.look) for a, t in outcome.tallies.items()}
                    if not live:
                        break
    except (Interrupted, KeyboardInterrupt):
        engine.stop()
        outcome.finished = False
        if outcome.looks_done == 0:
            raise
        outcome.tallies = outcome.kept
    outcome.seconds = time.perf_counter() - begin
    return outcome


Report = Callable[[Partial], None]
RunAll = Callable[[list[Shard], int, Report, float | None], Iterable[Partial]]


class _pool:
    """Runs lists of shards, in this thread or in several; results come back in shard order."""

    def __init__(self, workers: int | None, engine: Engine) -> None:
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise InvalidInput(f"workers must be a whole number of at least 1, got {workers!r}.")
        self.engine = engine
        parallel = engine.name == "compiled"
        self.size = (workers or os.cpu_count() or 1) if parallel else 1
        self.threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> RunAll:
        if self.size > 1:
            self.threads = ThreadPoolExecutor(self.size, thread_name_prefix="smoothcruiser")
        return self._run

    def __exit__(self, *_: Any) -> None:
        if self.threads is not None:
            self.threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, work: list[Shard], seed: int, report: Report, deadline: float | None) -> Iterator[Partial]:
        alarm = _alarm(self.engine, deadline)
        try:
            if self.threads is None or len(work) == 1:
                yield from self._one_by_one(work, seed, report)
            else:
                yield from self._in_threads(work, seed, report)
        finally:
            if alarm is not None:
                alarm.cancel()

    def _one_by_one(self, work: list[Shard], seed: int, report: Report) -> Iterator[Partial]:
        for shard in work:
            part = self.engine.run_shard(shard, seed)
            report(part)
            yield part

    def _in_threads(self, work: list[Shard], seed: int, report: Report) -> Iterator[Partial]:
        assert self.threads is not None
        waiting: set[Future[Partial]] = set()
        futures = [self.threads.submit(self.engine.run_shard, shard, seed) for shard in work]
        waiting = set(futures)
        try:
            while waiting:
                # A bounded wait, so that Ctrl-C reaches the main thread at once.
                done, waiting = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
                for future in done:
                    report(future.result())
        except BaseException:
            self.engine.stop()
            for future in futures:
                future.cancel()
            raise
        yield from (future.result() for future in futures)


def _alarm(engine: Engine, deadline: float | None) -> threading.Timer | None:
    if deadline is None:
        return None
    timer = threading.Timer(max(0.0, deadline - time.perf_counter()), engine.stop)
    timer.daemon = True
    timer.start()
    return timer
