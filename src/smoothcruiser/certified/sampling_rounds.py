"""The samples of a round, which may be left in the middle when it is time.

A round may be left by the clock, by Ctrl-C, by a callback that returns False, and where
the memory is full. Whatever ends it, the entered samples of a pair are the beginning of
its stream, and nothing more is sampled until the waiting samples are entered
(docs/certified.md, section 9). So a round is left between two slices, or inside a slice
that is then sampled again from where it began.

The clock: entering samples, the last sweeps and the inspection afterwards take time
too. Their last durations are reserved (``ending_seconds``), so that the answer is there
when the time is up.

Inspections of the step before the first sample and after each query.

The times at which a search is saved, and the size of its slices of samples.

The clock decides both, and neither changes a bit of the result: a snapshot is
taken between two slices (``intake``), and a slice ends where one likes.

A snapshot holds the whole search, so that a large one takes its time. Between two of
them lies at least ``LEAST_SAVE_SECONDS``, and ``RARELY`` times the duration of the last one.
So saving takes at most 3% of the time, and a kill costs at most that interval and one
slice.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.certified.price_forecast import pair_costs
from smoothcruiser.certified.query_limits import (
    MemoryFull,
    QueryLimits,
    limits_for_samples,
)
from smoothcruiser.certified.query_progress import QueryProgress
from smoothcruiser.certified.sampling.sampler import Sampler
from smoothcruiser.certified.snapshot_checks import Unspelled
from smoothcruiser.certified.sweeps.steering_kernel import FIRST_BATCH
from smoothcruiser.engines.inspection import LOOK_SECONDS, Looks, describe_inspections
from smoothcruiser.engines.watchdog import end_calls_at
from smoothcruiser.errors import Interrupted, InvalidInput
from smoothcruiser.jit.interrupts import TimeIsUp
from smoothcruiser.problem.model.tabular import Ints
from smoothcruiser.progress import Progress, says_stop

if TYPE_CHECKING:
    from smoothcruiser.certified.search import Certified


log = logging.getLogger(__name__)

LAST_SWEEPS = 2  # for which the clock leaves room
SLICE_SHARE = 0.25  # of the time that is left
REPORT_SECONDS = 0.5  # between two reports to a callback within a round


class SamplingRounds:
    """Takes the samples of one memory."""

    def __init__(self, search: Certified) -> None:
        self.search = search
        self.entering = 0.0  # seconds per sample, when some were last entered
        self.lost = 0  # calls of dropped samples, in a slice that was left
        self._begun = self._told = 0.0  # the query, and the last report to a callback

    def start(self, start_time: float) -> None:
        """Begin a query that was requested at ``start_time``."""
        self._begun = self._told = start_time

    def said_stop(
        self,
        position: QueryProgress,
        limits: QueryLimits,
        least_seconds: float = REPORT_SECONDS,
    ) -> str | None:
        """Report to the callback, if the last report is old; return whether it stops."""
        search, now = self.search, time.perf_counter()
        if limits.callback is None or now - self._told < least_seconds:
            return None
        if self.is_first:  # nothing is known yet; the inspection is reported next
            return None
        has_deadline = limits.seconds is not None
        progress_report = Progress(
            calls=search.num_calls - position.first_call,
            seconds=now - self._begun,
            seconds_left=max(0.0, limits.deadline - now) if has_deadline else None,
            interval=search.memory.interval(position.root),
            half_width=search.memory.half_width(position.root, limits.target),
            states=search.memory.num_nodes - 1,
        )
        try:
            with limits.hold.opened():
                callback_answer = limits.callback(progress_report)
        except TimeIsUp:
            return "seconds"
        except KeyboardInterrupt:
            return "hand"
        self._told = time.perf_counter()
        return "callback" if says_stop(callback_answer) else None

    def ending_seconds(self, limits: QueryLimits) -> float:
        """The seconds between the last sample and the answer."""
        if limits.deadline == math.inf:
            return 0.0
        search = self.search
        batch = search._intake.batch
        num_waiting = 0 if batch is None else batch.drawn - batch.entered
        sweep_seconds = LAST_SWEEPS * search._sweeps.seconds
        return (
            num_waiting * self.entering
            + sweep_seconds
            + search._inspected.reserved_seconds(limits)
        )

    def begin_round(self, position: QueryProgress, pairs: Ints, counts: Ints) -> None:
        """Keep the jobs of a round: rows first, then pairs to sample, with their shares."""
        are_rows = self.search._sampler.are_rows(pairs)
        row_places = np.flatnonzero(are_rows)
        self.give_shares(pairs[~are_rows])
        position.begin_round(
            np.concatenate([pairs[row_places], pairs[~are_rows]]),
            np.concatenate(
                [np.ones(len(row_places), dtype=np.int64), counts[~are_rows]]
            ),
        )

    def drop_round(self) -> None:
        """Forget the jobs of the round under way, if there is one."""
        position = self.search._at
        if position is not None and position.sampling:
            self.search._region.leave_round()
            position.end_round()

    def _begin_batch(self, position: QueryProgress) -> None:
        """Make a batch of the first jobs, all of them rows, or none."""
        num_rows = int(self.search._sampler.are_rows(position.pairs).sum())
        num_jobs = num_rows or len(position.pairs)
        pairs, counts = self.search._intake.begin_batch(
            position.pairs[:num_jobs], position.counts[:num_jobs]
        )
        position.pairs = np.concatenate([pairs, position.pairs[num_jobs:]])
        position.counts = np.concatenate([counts, position.counts[num_jobs:]])

    def _take_missing(self, position: QueryProgress) -> None:
        """Give the pairs that had no row their shares of delta, and sample them.

        That is in this round, or in the next one if the step was not inspected yet.
        """
        search, sampler = self.search, self.search._sampler
        pairs = np.array(sampler.missing, dtype=np.int64)
        sampler.missing = []
        if len(pairs) == 0:
            return
        if search.delta == 0.0:
            raise without_delta(search, int(pairs[0]))
        self.give_shares(pairs)
        if search._inspected.looked is not None:
            first_counts = np.full(len(pairs), FIRST_BATCH, dtype=np.int64)
            position.pairs = np.concatenate([position.pairs, pairs])
            position.counts = np.concatenate([position.counts, first_counts])

    def give_shares(self, pairs: Ints) -> None:
        """Assign the next k to every new pair, before its first sample."""
        search = self.search
        g = search.memory.graph
        new_pairs = pairs[g.pairs["total"][pairs] == 0.0]
        if len(new_pairs) and not search.problem.deterministic:
            # a round that was left may have given one to a pair that it did not sample
            new_pairs = new_pairs[g.pairs["cost"][new_pairs] == 0.0]
            k = search._drawn_pairs + 1 + np.arange(len(new_pairs))
            pair_cost = pair_costs(search.bound, search.problem, k, search.delta)
            g.pairs["cost"][new_pairs] = pair_cost
        search._drawn_pairs += len(new_pairs)

    def begin_sampling(self, limits: QueryLimits) -> QueryLimits:
        """Go on with samples beside rows, and return the limits for that.

        It follows the round in which the first pair without a row was met.
        """
        search = self.search
        search._steering.begin_sampling()
        search._sweeps.exact = False
        search._region.note_samples()
        return limits_for_samples(limits, search.bound, search.problem, search.delta)

    @property
    def is_first(self) -> bool:
        """Whether nothing was sampled so far, and something has to be."""
        search = self.search
        only_rows = search.known and search.exact
        return search._inspected.looked is None and not only_rows

    def inspect(
        self, position: QueryProgress, calls_left: int, limits: QueryLimits
    ) -> int:
        """Inspect the step before the first sample, and return the calls."""
        search = self.search
        if limits.phases.begin(
            "inspecting", calls=search.num_calls - position.first_call
        ):
            search._save(position)
            return 0
        state = search.memory.states[position.root]
        num_calls = search._inspected.inspect_first(
            search._sampler, state, calls_left, limits
        )
        search.num_calls += num_calls
        search._save(position)
        limits.phases.begin("sampling", calls=search.num_calls - position.first_call)
        return num_calls

    def end_query(self, limits: QueryLimits, state: Any) -> None:
        """Inspect the step, the rows and the states again, after a query."""
        search, sampler = self.search, self.search._sampler
        if sampler.torn:
            search.fault = (
                "a step that was stopped in the middle has left its state changed"
            )
            if search.keeper is not None:
                search.keeper.unkept = f"{search.fault}."
            return
        closing_limits = limits.closing_limits()
        search.memory.check_untouched(
            max(closing_limits.deadline, time.perf_counter() + LEAST_SECONDS)
        )
        search.num_calls += sampler.read_again(closing_limits)
        search.num_calls += search._inspected.inspect_again(
            sampler, state, closing_limits
        )

    def sample_round(self, position: QueryProgress, limits: QueryLimits) -> str | None:
        """Sample the jobs of the round; return None, or why it was left.

        A search that was left by the clock or by hand is saved before its samples are
        entered.
        """
        search, intake = self.search, self.search._intake
        try:
            while intake.batch is not None or len(position.pairs):
                if intake.batch is None:
                    self._begin_batch(position)
                reason = self._fill(position, limits) or self._enter(limits)
                if reason is None:
                    search._save_if_due(position)
                    reason = limits.stop_reason(self.ending_seconds(limits))
                if reason is not None:
                    search._save(position)
                    search._region.leave_round()
                    search.num_calls += self.lost
                    self._enter(limits.closing_limits())
                    position.end_round()
                    return reason
        except MemoryFull as error:
            search.num_calls += error.calls
            search._region.leave_round()
            self.enter_waiting(limits)
            return error.reason
        position.end_round()
        return None

    def enter_waiting(self, limits: QueryLimits) -> str | None:
        """Enter the samples of a round that was left, as far as there is room.

        Returns why some still wait, if it was for want of time.
        """
        reason = None
        with suppress(MemoryFull):
            reason = self._enter(limits)
        return reason

    def _enter(self, limits: QueryLimits) -> str | None:
        """Enter the samples; return None, or why some of them wait."""
        start_time, batch = time.perf_counter(), self.search._intake.batch
        if batch is None:
            return None
        entered_before = batch.entered
        reason = self.search._intake.enter_batch(limits.stop_reason)
        num_entered = batch.entered - entered_before
        if num_entered:
            self.entering = (time.perf_counter() - start_time) / num_entered
        return reason

    def _fill(self, position: QueryProgress, limits: QueryLimits) -> str | None:
        """Sample the batch in slices; return None, or why it is not full."""
        search, sampler = self.search, self.search._sampler
        batch, pace, self.lost = search._intake.batch, search._pace, 0
        assert batch is not None
        while batch.drawn < batch.size:
            ending_seconds = self.ending_seconds(limits)
            reason = limits.stop_reason(ending_seconds) or self.said_stop(
                position, limits
            )
            if reason is not None:
                return reason
            seconds_left = limits.deadline - ending_seconds - time.perf_counter()
            slice_seconds = POOL_SECONDS if sampler.workers else SLICE_SECONDS
            max_samples = pace.samples_within(
                min(slice_seconds, SLICE_SHARE * seconds_left), self.entering
            )
            start_time, drawn_before = time.perf_counter(), batch.drawn
            rows_before, num_missing = sampler.num_rows, len(sampler.missing)
            try:
                sampler.draw(batch, max(max_samples, sampler.workers))
            except Interrupted as stop:
                self.lost = stop.calls
                log.info("a slice was broken off: %d calls are dropped", stop.calls)
                return limits.stop_reason() or "seconds"
            finally:
                search.num_calls += batch.drawn - drawn_before
                search.num_calls -= len(sampler.missing) - num_missing
                search.num_rows += sampler.num_rows - rows_before
                self._take_missing(position)
            pace.learn(batch.drawn - drawn_before, time.perf_counter() - start_time)
            if batch.drawn < batch.size:
                search._save_if_due(position)
        return None


def without_delta(search: Certified, pair: int) -> InvalidInput:
    """The refusal to sample a pair without a row where no delta was given."""
    pair_row = search.memory.graph.pairs[pair]
    state = search.memory.states[int(pair_row["node"])]
    return InvalidInput(
        f"outcomes({state!r}, {int(pair_row['action'])}) is None, so that pair has to be "
        "sampled; give delta, the allowed probability of failure (delta=0.1), or "
        "list that row."
    )


INSPECTED_SHARE = 8  # at most an eighth of the budget goes into inspecting the step
# of the seconds: at most so much before the first sample, and after the last
BEFORE_SHARE, AFTER_SHARE = 0.1, 0.05
LEAST_SECONDS = 0.1  # for either, so that the clock cuts short slow simulators alone


class StepInspections:
    """The inspections of one memory; both return the calls to count."""

    def __init__(self) -> None:
        self.looked: Looks | None = None  # seen before the first sample
        self.asked = 0  # calls of the last inspection after a query
        self._fewer: int | None = None  # pairs to repeat after this query; None: all
        self._each = 0.0  # seconds per call, before the first sample

    def inspect_first(
        self, sampler: Sampler, state: Any, calls_left: int, limits: QueryLimits
    ) -> int:
        """Inspect the step; the calls include those of the inspection afterwards.

        A stop in the middle leaves the step uninspected, and it is inspected when the
        search goes on.
        """
        start_time = time.perf_counter()
        seconds_share = BEFORE_SHARE * (limits.deadline - start_time)
        seconds = min(LOOK_SECONDS, max(LEAST_SECONDS, seconds_share))
        try:
            with limits.hold.opened():
                num_calls, self.looked = sampler.look(
                    state, None, calls_left // INSPECTED_SHARE, seconds
                )
        except (KeyboardInterrupt, Interrupted) as stop:
            return getattr(stop, "calls", 0)
        self._each = (time.perf_counter() - start_time) / max(1, num_calls)
        return num_calls + len(self.looked)

    def reserve(self, budget: int) -> int:
        """The calls of a query without those of the inspection after it.

        The first query counts them when it inspects the step. A small budget repeats
        fewer pairs.
        """
        self._fewer = None
        if not (self.asked and self.looked):
            return budget
        self._fewer = min(len(self.looked), budget // INSPECTED_SHARE)
        return budget - self._fewer

    def reserved_seconds(self, limits: QueryLimits) -> float:
        """The seconds that the inspection after a query may take."""
        if not self.looked:
            return 0.0
        seconds_share = (
            LOOK_SECONDS if limits.seconds is None else AFTER_SHARE * limits.seconds
        )
        return min(LOOK_SECONDS, seconds_share, len(self.looked) * self._each)

    def inspect_again(self, sampler: Sampler, state: Any, limits: QueryLimits) -> int:
        """Repeat the inspection after a query, as far as there is time."""
        pairs = (self.looked or ())[: self._fewer]
        if self.looked is None or not pairs:
            return 0
        num_calls, seconds_left = (
            0,
            max(LEAST_SECONDS, limits.deadline - time.perf_counter()),
        )
        if sampler.ready and self._each <= seconds_left:
            try:
                with end_calls_at(limits.latest, limits.hold), limits.hold.opened():
                    seconds = min(LOOK_SECONDS, seconds_left)
                    num_calls, _ = sampler.look(state, pairs, 0, seconds)
            except (KeyboardInterrupt, Interrupted) as stop:
                num_calls = getattr(stop, "calls", 0)
        calls_counted = 0 if self.asked else len(self.looked)
        self.asked = num_calls
        return num_calls - calls_counted

    def describe(self, sampler: Sampler) -> str:
        """A sentence on the inspections for a certificate; empty before the first."""
        if self.looked is None:
            return ""
        doubts = sampler.guard.doubts
        return describe_inspections(
            len(self.looked), self.asked, sampler.looks, doubts
        )


LEAST_SAVE_SECONDS = 10.0
RARELY = 32
# of a slice: Ctrl-C and time limits are seen between two of them
SLICE_SECONDS = 0.1
POOL_SECONDS = 1.0  # of a slice that workers share
MOST_GROWTH = 16  # of a slice against the one before


class Autosave:
    """Writes snapshots of one search, neither too often nor too rarely."""

    def __init__(self, write: Callable[[bytes, int], None]) -> None:
        """``write`` takes a snapshot and the calls that it stands for."""
        self.write = write
        self.unkept: str | None = None  # why nothing is saved any more
        self._next = 0.0  # when the next one is due: the first at once

    @property
    def due(self) -> bool:
        """Whether it is time for another snapshot."""
        return time.perf_counter() >= self._next

    def save(self, snapshot: Callable[[], bytes], calls: int) -> None:
        """Take a snapshot and write it."""
        if self.unkept is not None:
            return
        start_time = time.perf_counter()
        try:
            self.write(snapshot(), calls)
        except Unspelled as error:  # the answer is worth more than the store
            self.unkept = str(error)
        now = time.perf_counter()
        self._next = now + max(LEAST_SAVE_SECONDS, RARELY * (now - start_time))


class SlicePace:
    """How many samples take how long."""

    def __init__(self) -> None:
        self.last_samples = 0  # samples of the last slice
        self.sample_seconds = 0.0  # seconds per sample there

    def samples_within(self, seconds: float, entry_seconds: float = 0.0) -> int:
        """The samples that take about so long, with ``entry_seconds`` for each.

        The first slice is one sample, and none is much larger than the one before.
        """
        max_samples = max(1, MOST_GROWTH * self.last_samples)
        sample_seconds = self.sample_seconds + entry_seconds
        return (
            max_samples
            if sample_seconds <= 0.0
            else max(1, min(max_samples, int(seconds / sample_seconds)))
        )

    def learn(self, samples: int, seconds: float) -> None:
        """Learn from a slice."""
        if samples:
            self.last_samples, self.sample_seconds = samples, seconds / samples
