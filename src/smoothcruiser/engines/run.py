"""Running a schedule: shards over a pool of workers, with checkpoints and progress.

Shards that an earlier run finished are used again. At each checkpoint
(``look``) an action whose answer is already good enough stops. Shards are
handed out in order. Workers that would be idle while a checkpoint waits for its
last shard get shards beyond it: ``calls_spent`` counts these too, ``num_calls``
only what the answer uses. Sums are combined in shard order, and a checkpoint
sees exactly the shards before it, so neither workers nor timing can change a
bit of the result. Where shards run: ``engines.pools``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from smoothcruiser.engines.base import Workers
from smoothcruiser.engines.shards import Partial, Shard
from smoothcruiser.errors import Interrupted
from smoothcruiser.jit.interrupts import hear
from smoothcruiser.progress import Progress
from smoothcruiser.schedule.schedule import Schedule

Keep = Callable[[Shard, Partial], None]
Known = Mapping[tuple[int, int], Partial]  # (action, shard index) -> sums


@dataclass
class RootSums:
    """The sums of one action's root samples so far."""

    draws: int = 0
    total: float = 0.0
    square: float = 0.0
    look: int | None = None  # the checkpoint at which it stopped early, if it did

    def add(self, part: Partial) -> None:
        """Add a shard, in shard order."""
        self.draws += part.draws
        self.total += part.total
        self.square += part.square


@dataclass
class Outcome:
    """The sums of the requested actions, and what they cost."""

    tallies: dict[int, RootSums]
    num_calls: int = 0
    calls_spent: int = 0
    # False: stopped from outside. The tallies are then those of the last
    # finished checkpoint.
    finished: bool = True
    seconds: float = 0.0
    stuck: int = 0  # shards in a call that did not return, left behind
    # tallies at the last finished checkpoint
    kept: dict[int, RootSums] = field(default_factory=dict)

    def look(self, number: int, live: list[int], enough: Enough) -> list[int]:
        """The actions that continue after a checkpoint."""
        for action in live:
            if enough(number, self.tallies[action]):
                self.tallies[action].look = number
        self.kept = {action: replace(tally) for action, tally in self.tallies.items()}
        return [action for action in live if self.tallies[action].look is None]


Enough = Callable[[int, RootSums], bool]  # (checkpoint, tally) -> may it stop?


@dataclass(frozen=True)
class Listener:
    """What is called during a run, and with what."""

    progress: Callable[[Progress], object] | None = None
    keep: Keep | None = None  # called with every newly run shard, e.g. to store it
    # for the progress display
    interval: Callable[[dict[int, RootSums]], tuple[float, float] | None] | None = None


class Ledger:
    """The shards that are known, those still needed, and the results of checkpoints."""

    def __init__(
        self,
        segments: tuple[tuple[Shard, ...], ...],
        actions: list[int],
        enough: Enough,
        known: Known | None = None,
    ) -> None:
        self.segments, self.enough = segments, enough
        self.outcome = Outcome({action: RootSums() for action in actions})
        self.live = list(actions)
        self.parts = dict(known or {})
        self.segment = 0  # the one whose shards are awaited
        self.missing = self._missing()
        self._advance()

    def _missing(self) -> set[tuple[int, int]]:
        wanted = {
            (action, shard.index)
            for action in self.live
            for shard in self.segments[self.segment]
        }
        return wanted - self.parts.keys()

    @property
    def complete(self) -> bool:
        """Whether nothing more is needed."""
        return not self.live or self.segment == len(self.segments)

    def source(self) -> Iterator[Shard]:
        """The shards to run, those needed next first.

        An action that has stopped gets no more shards.
        """
        for segment in self.segments:
            for action in tuple(self.outcome.tallies):
                for shard in segment:
                    if action in self.live and (action, shard.index) not in self.parts:
                        yield replace(shard, action=action)

    def add(self, shard: Shard, part: Partial) -> None:
        """Enter a finished shard."""
        self.parts[shard.action, shard.index] = part
        self.missing.discard((shard.action, shard.index))
        self._advance()

    def _advance(self) -> None:
        """Add up every complete segment, in shard order, and apply its checkpoint."""
        while not self.missing and not self.complete:
            for action in self.live:
                for shard in self.segments[self.segment]:
                    part = self.parts[action, shard.index]
                    self.outcome.tallies[action].add(part)
                    self.outcome.num_calls += part.calls
            self.segment += 1
            if self.segment < len(self.segments):
                self.live = self.outcome.look(self.segment - 1, self.live, self.enough)
                if self.live:
                    self.missing = self._missing()


def run(
    workers: Workers,
    schedule: Schedule,
    ledger: Ledger,
    *,
    seed: int,
    listener: Listener = Listener(),
    seconds: float | None = None,
) -> Outcome:
    """The outcome of running every shard that is needed, or those up to a stop."""
    begin = time.perf_counter()
    outcome = ledger.outcome
    outcome.calls_spent = sum(part.calls for part in ledger.parts.values())
    per_action = schedule.num_calls // (
        schedule.facts.num_actions if schedule.root.target == "q_values" else 1
    )

    def report(shard: Shard, part: Partial) -> bool:
        outcome.calls_spent += part.calls
        ledger.add(shard, part)
        if listener.keep is not None:
            listener.keep(shard, part)
        if listener.progress is not None:
            certified = (
                listener.interval(outcome.kept)
                if listener.interval is not None and outcome.kept
                else None
            )
            listener.progress(
                Progress(
                    calls=outcome.calls_spent,
                    price=per_action * len(outcome.tallies),
                    seconds=time.perf_counter() - begin,
                    interval=certified,
                )
            )
        return ledger.complete

    alarm = _alarm(workers, None if seconds is None else begin + seconds)
    try:
        if not ledger.complete:
            workers.map(ledger.source(), seed, report)
    except (Interrupted, KeyboardInterrupt) as stop:
        hear(stop)
        workers.stop()
        if not outcome.kept:
            raise _nothing_yet(
                outcome.calls_spent,
                workers.unfinished + getattr(stop, "calls", 0),
                workers.stuck,
            ) from stop
        outcome.finished = False
        outcome.tallies = outcome.kept
        outcome.num_calls = sum(
            ledger.parts[action, shard.index].calls
            for action, tally in outcome.kept.items()
            for segment in ledger.segments
            for shard in segment
            if shard.first < tally.draws
        )
    finally:
        if alarm is not None:
            alarm.cancel()
    outcome.seconds, outcome.stuck = time.perf_counter() - begin, workers.stuck
    return outcome


def _nothing_yet(finished: int, unfinished: int, stuck: int) -> Interrupted:
    """The error of a run that was stopped before its first checkpoint.

    A kernel that is stopped inside a leaf does not count the leaf.
    """
    calls = finished + unfinished
    made = (
        (
            f"oracle calls made, at least: {calls:,}, of which {finished:,} in "
            "finished shards"
        )
        if calls
        else "no call was reported yet"
    )
    return Interrupted(
        (
            "The run was stopped before its first look at the data, so nothing can be "
            f"certified yet; {made}." + (f" {left_behind(stuck)}" if stuck else "")
        ),
        calls=calls,
    )


def left_behind(stuck: int) -> str:
    """A sentence about calls that did not return when the run was stopped."""
    return (
        f"{stuck} {'call' if stuck == 1 else 'calls'} of the oracle did not return "
        "after the stop, and nothing ends machine code from outside but the end of "
        "this process: look for a loop in the step that never ends."
    )


def _alarm(workers: Workers, deadline: float | None) -> threading.Timer | None:
    if deadline is None:
        return None
    timer = threading.Timer(max(0.0, deadline - time.perf_counter()), workers.stop)
    timer.daemon = True
    timer.start()
    return timer
