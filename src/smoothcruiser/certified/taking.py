"""The samples of a round, which may be left in the middle when it is time.

A round may be left by the clock, by Ctrl-C, by a callback that returns False, and where
the memory is full. Whatever ends it, the entered samples of a pair are the beginning of
its stream, and nothing more is sampled until the waiting samples are entered
(docs/certified.md, section 9). So a round is left between two slices, or inside a slice
that is then sampled again from where it began.

The clock: entering samples, the last sweeps and the inspection afterwards take time
too. Their last durations are reserved (``ending_seconds``), so that the answer is there
when the time is up.
"""

from __future__ import annotations

import logging
import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.certified.inspected import LEAST_SECONDS
from smoothcruiser.certified.keeping import POOL_SECONDS, SLICE_SECONDS
from smoothcruiser.certified.limits import QueryLimits, limits_for_samples
from smoothcruiser.certified.position import QueryProgress
from smoothcruiser.certified.room import MemoryFull
from smoothcruiser.certified.shares import pair_costs
from smoothcruiser.certified.steering_kernel import FIRST_BATCH
from smoothcruiser.errors import Interrupted, InvalidInput
from smoothcruiser.jit.interrupts import TimeIsUp
from smoothcruiser.problem.tabular import Ints
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
