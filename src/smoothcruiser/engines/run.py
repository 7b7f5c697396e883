"""Running a schedule: shards over a pool of workers, with checkpoints and progress.

Shards that an earlier run finished are used again. At each checkpoint
(``look``) an action stops if its answer is already good enough. Shards are
handed out in order, the actions in turn. Workers that would be idle while a
checkpoint waits for its last shard get shards beyond it: ``calls_spent`` counts
these too, ``num_calls`` only those behind the answer. Sums are combined in shard
order, and a checkpoint sees exactly the shards before it, so neither workers nor
timing can change a bit of the result. Where shards run: ``engines.pools``.

A run that is stopped answers from its prefixes: of every action the samples up to
the first one that is missing, which may lie in the middle of a shard.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from smoothcruiser.engines.base import Workers
from smoothcruiser.engines.root_scores import Sums, add_sums
from smoothcruiser.engines.shards import Partial, Shard
from smoothcruiser.errors import Interrupted
from smoothcruiser.progress import Callback, Phases, time_left
from smoothcruiser.run_control.control import StopReason
from smoothcruiser.run_control.stop_requests import count_stop
from smoothcruiser.schedule.schedule import Schedule

Keep = Callable[[Shard, Partial], None]
Known = Mapping[tuple[int, int], Partial]  # (action, shard index) -> sums


@dataclass
class RootSums:
    """The sums of one action's root samples so far."""

    draws: int = 0
    total: float = 0.0
    square: float = 0.0
    score: Sums = ()
    look: int | None = None  # the checkpoint at which it stopped early, if it did

    def add(self, shard_sums: Partial) -> None:
        """Add a shard, in shard order."""
        self.draws += shard_sums.draws
        self.total += shard_sums.total
        self.square += shard_sums.square
        self.score = add_sums(self.score, shard_sums.score)


@dataclass
class Outcome:
    """The sums of the requested actions, and their cost."""

    tallies: dict[int, RootSums]
    num_calls: int = 0
    calls_spent: int = 0
    # Not None: the tallies are prefixes, of different lengths.
    stopped: StopReason | None = None
    seconds: float = 0.0
    stuck: int = 0  # shards in a call that did not return, left behind

    @property
    def finished(self) -> bool:
        """Whether nothing stopped it."""
        return self.stopped is None

    def look(self, number: int, live: list[int], enough: Enough) -> list[int]:
        """The actions that continue after a checkpoint."""
        for action in live:
            if enough(number, self.tallies[action]):
                self.tallies[action].look = number
        return [action for action in live if self.tallies[action].look is None]


Enough = Callable[[int, RootSums], bool]  # (checkpoint, tally) -> may it stop?


@dataclass(frozen=True)
class Listener:
    """The functions that a run calls with its news."""

    progress: Callback | None = None
    keep: Keep | None = None  # called with every newly run shard, e.g. to store it
    # for the progress display
    interval: Callable[[dict[int, RootSums]], tuple[float, float] | None] | None = None


@dataclass
class Prefix:
    """The samples of an action up to the first shard that is missing."""

    sums: RootSums
    shards: int = 0  # whole ones
    calls: int = 0


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
        self.shards = [shard for segment in segments for shard in segment]
        self.outcome = Outcome({action: RootSums() for action in actions})
        self.live = list(actions)
        self.parts = dict(known or {})
        self.outcome.calls_spent = sum(part.calls for part in self.parts.values())
        self.begun: dict[tuple[int, int], Partial] = {}  # of shards under way
        self.prefixes = {action: Prefix(RootSums()) for action in actions}
        self.segment = 0  # the index of the segment under way
        self.missing = self._missing()
        self._advance()

    def _missing(self) -> set[tuple[int, int]]:
        wanted_shards = {
            (action, shard.index)
            for action in self.live
            for shard in self.segments[self.segment]
        }
        return wanted_shards - self.parts.keys()

    @property
    def complete(self) -> bool:
        """Whether nothing more is needed."""
        return not self.live or self.segment == len(self.segments)

    def source(
        self, call_budget: float, price: Callable[[Shard], int]
    ) -> Iterator[Shard]:
        """The shards to run, those needed next first.

        An action that has stopped gets no more shards. The shards end before the
        calls that they can take, by ``price``, are more than ``room``.
        """
        for segment in self.segments:
            for shard in segment:
                for action in tuple(self.outcome.tallies):
                    if action in self.live and (action, shard.index) not in self.parts:
                        call_budget -= price(shard)
                        if call_budget < 0:
                            return
                        yield replace(shard, action=action)

    def add(self, shard: Shard, shard_sums: Partial) -> int:
        """Enter a shard, or the first samples of it; the calls that are new in it."""
        shard_key = shard.action, shard.index
        earlier_sums = self.begun.pop(shard_key, None)
        if shard_sums.draws < shard.count:
            self.begun[shard_key] = shard_sums
        else:
            self.parts[shard_key] = shard_sums
            self.missing.discard(shard_key)
            self._advance()
        return shard_sums.calls - (0 if earlier_sums is None else earlier_sums.calls)

    def _advance(self) -> None:
        """Add up every complete segment, in shard order, and apply its checkpoint."""
        while not self.missing and not self.complete:
            for action in self.live:
                for shard in self.segments[self.segment]:
                    shard_sums = self.parts[action, shard.index]
                    self.outcome.tallies[action].add(shard_sums)
                    self.outcome.num_calls += shard_sums.calls
            self.segment += 1
            if self.segment < len(self.segments):
                self.live = self.outcome.look(self.segment - 1, self.live, self.enough)
                if self.live:
                    self.missing = self._missing()

    def so_far(self) -> tuple[dict[int, RootSums], int]:
        """(the sums of each action so far, the calls in them), at any time.

        An action that has stopped has its final sums, others have their prefix.
        """
        tallies, num_calls = {}, 0
        for action, tally in self.outcome.tallies.items():
            prefix = self.prefixes[action]
            self._lengthen(
                action, prefix, tally.draws if tally.look is not None else None
            )
            num_calls += prefix.calls
            tallies[action] = tally
            if tally.look is None:
                tallies[action] = tally = replace(prefix.sums)
                if prefix.shards < len(self.shards):
                    shard_key = action, self.shards[prefix.shards].index
                    shard_sums = self.begun.get(shard_key)
                    if shard_sums is not None:
                        tally.add(shard_sums)
                        num_calls += shard_sums.calls
        return tallies, num_calls

    def stopped(self, cause: StopReason) -> Outcome:
        """The outcome with the sums of each action so far, when the run is stopped."""
        self.outcome.stopped = cause
        self.outcome.tallies, self.outcome.num_calls = self.so_far()
        return self.outcome

    def _lengthen(self, action: int, prefix: Prefix, max_samples: int | None) -> None:
        """Add the whole shards that have become known since, up to ``most`` samples."""
        for shard in self.shards[prefix.shards :]:
            shard_sums = self.parts.get((action, shard.index))
            if shard_sums is None or (
                max_samples is not None and shard.first >= max_samples
            ):
                return
            prefix.sums.add(shard_sums)
            prefix.shards, prefix.calls = (
                prefix.shards + 1,
                prefix.calls + shard_sums.calls,
            )


class Alarm:
    """Stops workers at a time, which may be moved."""

    def __init__(self) -> None:
        self.rang = False
        self.timer: threading.Timer | None = None

    def set(self, stop: Callable[[], object], seconds: float) -> None:
        """Call ``stop`` after so many seconds, and at no other time."""
        self.cancel()

        def ring() -> None:
            self.rang = True
            stop()

        delay_seconds = min(max(0.0, seconds), threading.TIMEOUT_MAX)
        self.timer = threading.Timer(delay_seconds, ring)
        self.timer.daemon = True
        self.timer.start()

    def cancel(self) -> None:
        """Ring no more."""
        if self.timer is not None:
            self.timer.cancel()


def run_schedule(
    workers: Workers,
    schedule: Schedule,
    ledger: Ledger,
    *,
    seed: int,
    listener: Listener = Listener(),
    alarm: Alarm | None = None,
    room: float = float("inf"),
    until: Callable[[], float] | None = None,
) -> Outcome:
    """The outcome of running every shard that is needed, or those up to a stop.

    No shard is begun that could take the run's calls above ``room``. ``until`` says
    for reports how many seconds are left of a time limit.
    """
    start_time = time.perf_counter()
    outcome = ledger.outcome
    root = schedule.root
    per_action = schedule.num_calls // (
        schedule.facts.num_actions if root.target == "q_values" else 1
    )
    per_sample = per_action // root.samples
    phases = Phases(listener.progress)
    resumed_calls = outcome.calls_spent
    price = per_action * len(outcome.tallies)

    def report(shard: Shard, shard_sums: Partial) -> bool:
        outcome.calls_spent += ledger.add(shard, shard_sums)
        if listener.keep is not None and shard_sums.draws == shard.count:
            listener.keep(shard, shard_sums)
        if listener.progress is not None:
            tallies, _ = ledger.so_far()
            elapsed_seconds = time.perf_counter() - start_time
            limit_seconds = None if until is None else until()
            interval = listener.interval
            must_stop = phases.tell(
                calls=outcome.calls_spent,
                seconds=elapsed_seconds,
                seconds_left=time_left(
                    outcome.calls_spent - resumed_calls,
                    price - resumed_calls,
                    elapsed_seconds,
                    limit_seconds,
                ),
                interval=None if interval is None else interval(tallies),
            )
            if must_stop and not ledger.complete:
                raise Interrupted("The progress function returned False.")
        return ledger.complete

    try:
        if not ledger.complete:
            if phases.begin(
                "sampling", calls=resumed_calls, resumed=resumed_calls, price=price
            ):
                raise Interrupted("The progress function returned False.")
            workers.abreast = len(ledger.live)
            calls_left = room - outcome.calls_spent
            pending_shards = ledger.source(
                calls_left, lambda shard: shard.count * per_sample
            )
            workers.map(pending_shards, seed, report)
            if not ledger.complete:
                outcome.stopped = StopReason.BUDGET
    except (Interrupted, KeyboardInterrupt) as stop:
        count_stop(stop)
        workers.stop()
        is_late = alarm is not None and alarm.rang
        outcome.stopped = cause_of(stop, is_late, phases.refused)
    # what workers had under way at the end, which may be an early one
    outcome.calls_spent += workers.unfinished
    for shard, shard_sums, _ in workers.left:
        outcome.calls_spent += ledger.add(shard, shard_sums)
        if listener.keep is not None and shard_sums.draws == shard.count:
            listener.keep(shard, shard_sums)
    if outcome.stopped is not None:
        ledger.stopped(outcome.stopped)
    outcome.seconds, outcome.stuck = time.perf_counter() - start_time, workers.stuck
    return outcome


def cause_of(error: BaseException, late: bool, refused: bool = False) -> StopReason:
    """The cause of a stop with ``error``, after the time limit or before.

    ``refused`` says that the progress function returned False.
    """
    if refused:
        return StopReason.CALLBACK
    if late:
        return StopReason.SECONDS
    return (
        StopReason.HAND if isinstance(error, KeyboardInterrupt) else StopReason.OUTSIDE
    )


def left_behind(stuck: int) -> str:
    """A sentence about calls that did not return when the run was stopped."""
    return (
        f"{stuck} {'call' if stuck == 1 else 'calls'} of the oracle did not return "
        "after the stop, and nothing ends machine code from outside but the end of "
        "this process: look for a loop in the step that never ends."
    )
