"""The loop of certified search: rounds of sweeps and samples, until a query may end.

Each round sweeps the bounds L <= V <= U over the seen graph
(``sweeps.region``), stops if the interval is narrow enough, and otherwise
samples where the width of the answer comes from (``steering``).

    sweep  ->  narrow enough? stop : choose jobs  ->  sample them in slices  ->  enter

A query of ``epsilon`` steers its samples for as many calls as equal numbers of
samples would certainly need. After that it brings every pair that it can reach
to the equal share (``price_forecast``), so that its price has a bound. It also
falls back on equal numbers where steering finds nothing to do. It gives up only
where no pair in reach has a radius and sweeps no longer change anything.

Rounds: calls grow by a quarter each time. So a problem that takes n calls takes
about log(n)/log(1.25) rounds of sweeps, and at most a quarter of the calls came
too late to be steered.

Stops: a round may be left by the clock, by Ctrl-C, by a callback that returns
False, and where the memory is full. Whatever ends it, the entered samples of a
pair are the beginning of its stream, and nothing more is sampled until the
waiting samples are entered (docs/certified.md, section 9). So a round is left
between two slices, or inside a slice that is then sampled again from where it
began. The search is saved there, and then does the work that only its answer
needs. Entering samples, the last sweeps and the inspection afterwards take time
too: their last durations are reserved (``ending_seconds``), so that the answer
is there when the time is up.

This file decides rounds, slices and stops. Its collaborators are public: the
memory and its region, the sweeps, the steering, the sampler, the batches of
samples, the shares of delta, and the inspections of the step. Nothing depends
on the clock but a stop by ``seconds`` and the size of slices, which changes no
bit.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import Any

import numpy as np

from smoothcruiser.certified.batch_entry import BatchEntry
from smoothcruiser.certified.price_forecast import DeltaShares
from smoothcruiser.certified.query_limits import (
    FULL,
    MemoryFull,
    QueryLimits,
    limits_for_samples,
)
from smoothcruiser.certified.query_progress import (
    Autosave,
    History,
    PathHelper,
    QueryProgress,
)
from smoothcruiser.certified.sample_batches import SlicePace
from smoothcruiser.certified.sampling.sampler import Sampler
from smoothcruiser.certified.sampling.step_inspections import (
    LEAST_SECONDS,
    StepInspections,
)
from smoothcruiser.certified.steering import Jobs, Steering
from smoothcruiser.certified.sweeps.region import Sweeps
from smoothcruiser.certified.sweeps.steering_kernel import FIRST_BATCH
from smoothcruiser.errors import Interrupted, InvalidInput
from smoothcruiser.problem.model.tabular import Ints
from smoothcruiser.progress import Progress, says_stop
from smoothcruiser.run_control.stop_requests import TimeIsUp

log = logging.getLogger(__name__)

STOPS = ("seconds", "hand", "callback")  # ends of a query that can go on as it was
ENOUGH = ("epsilon", "rounding")  # ends of a query that is answered
LAST_SWEEPS = 2  # for which the clock leaves room
SLICE_SHARE = 0.25  # of the time that is left
# of a slice: Ctrl-C and time limits are seen between two of them
SLICE_SECONDS = 0.1
POOL_SECONDS = 1.0  # of a slice that workers share
REPORT_SECONDS = 0.5  # between two reports to a callback within a round


class SearchLoop:
    """Runs the queries of one memory."""

    keeper: Autosave | None = None  # where the search is saved while it runs

    def __init__(
        self,
        sweeps: Sweeps,
        steering: Steering,
        sampler: Sampler,
        batches: BatchEntry,
        shares: DeltaShares,
        inspections: StepInspections,
        history: History,
    ) -> None:
        self.sweeps, self.region, self.memory = sweeps, sweeps.region, sweeps.memory
        self.steering, self.sampler, self.batches = steering, sampler, batches
        self.shares, self.inspections, self.history = shares, inspections, history
        self.problem = shares.problem
        self.pace = SlicePace()
        self.helper: PathHelper | None = None  # plays paths between two rounds
        self.lost_calls = 0  # of dropped samples, in a slice that was left
        # when the query was requested, and when the callback had its last report
        self._start_time = self._report_time = 0.0

    # --- a query --------------------------------------------------------------

    def run(
        self, position: QueryProgress, limits: QueryLimits, start_time: float
    ) -> str:
        """Run rounds until the query may end, and return why it did.

        It was requested at ``start_time``.
        """
        self._start_time = self._report_time = start_time
        self.sampler.hold, self.sampler.deadline = (
            limits.control.hold,
            limits.control.deadline,
        )
        while True:
            if self.steering.exact and not self.shares.exact:
                limits = self._begin_sampling(limits)
            calls_left = limits.budget - (self.memory.num_calls - position.first_call)
            stop_reason = position.ended
            if stop_reason == "budget" and calls_left > 0:
                stop_reason = None
            if stop_reason in FULL and not self.memory.is_crowded(1):
                stop_reason = None  # it was given more room
            is_waiting = self.batches.batch is not None
            if stop_reason is None and not position.sampling and is_waiting:
                # samples of an earlier round come first
                stop_reason = self._enter_waiting(limits)
            if stop_reason is None and not position.sampling:
                self.sweeps.settle(position, limits, self._save_if_due)
                self.history.add(
                    position.root,
                    self.memory.num_calls,
                    self.memory.interval(position.root),
                )
                stop_reason = self._stop_reason(position, limits)
                if stop_reason in ENOUGH:
                    return stop_reason
                if stop_reason is None and calls_left > 0 and self._is_helped:
                    assert self.helper is not None
                    stop_reason, num_played = self.helper.take_turn(
                        position, limits, calls_left
                    )
                    if num_played > 0 and stop_reason is None:
                        continue
                if stop_reason is None and calls_left > 0 and self.is_first:
                    calls_left -= self._inspect_step(position, calls_left, limits)
                    stop_reason = limits.control.check()
                if stop_reason is None and calls_left <= 0:
                    stop_reason = "budget"
                elif stop_reason is None:
                    stop_reason = self._begin_round(position, limits, calls_left)
            if stop_reason is None:
                stop_reason = self._sample_round(position, limits)
            if stop_reason is not None:
                return self._finish_query(position, limits, stop_reason)

    def _finish_query(
        self, position: QueryProgress, limits: QueryLimits, stop_reason: str
    ) -> str:
        """Sweep for the answer of a query that ended, and return why it did."""
        is_stopped = stop_reason in STOPS
        if is_stopped:  # it was saved: the rest is for the answer alone
            self.sweeps.settle(position, limits.closing_limits())
        else:
            self.save(position, stop_reason)
            self.sweeps.finish(position, limits)
        end_reason = self.sweeps.end_reason(position, limits)
        if end_reason is not None:
            if is_stopped:
                self.save(position)
            return end_reason
        return stop_reason if is_stopped else limits.control.check() or stop_reason

    def end_query(self, limits: QueryLimits, state: Any) -> str | None:
        """Inspect the step, the rows and the states again, after a query.

        Returns why the memory takes no further query, if it does not.
        """
        if self.sampler.torn:
            fault = "a step that was stopped in the middle has left its state changed"
            if self.keeper is not None:
                self.keeper.unkept = f"{fault}."
            return fault
        closing_limits = limits.closing_limits()
        self.memory.check_untouched(
            max(closing_limits.control.deadline, time.perf_counter() + LEAST_SECONDS)
        )
        self.memory.num_calls += self.sampler.read_again(closing_limits)
        self.memory.num_calls += self.inspections.inspect_again(
            self.sampler, state, closing_limits
        )
        return None

    def drop_round(self, position: QueryProgress | None) -> None:
        """Forget the jobs of the round under way, if there is one."""
        if position is not None and position.sampling:
            self.region.leave_round()
            position.end_round()

    @property
    def _is_helped(self) -> bool:
        """Whether paths may be played now: the step was inspected, and is sampled."""
        return self.helper is not None and not self.is_first

    @property
    def is_first(self) -> bool:
        """Whether nothing was sampled so far, and something has to be."""
        only_rows = self.shares.has_rows and self.shares.exact
        return self.inspections.looked is None and not only_rows

    def _begin_sampling(self, limits: QueryLimits) -> QueryLimits:
        """Go on with samples beside rows, and return the limits for that.

        It follows the round in which the first pair without a row was met.
        """
        self.steering.begin_sampling()
        self.sweeps.exact = False
        self.region.note_samples()
        return limits_for_samples(limits, self.shares)

    def _inspect_step(
        self, position: QueryProgress, calls_left: int, limits: QueryLimits
    ) -> int:
        """Inspect the step before the first sample, and return the calls."""
        memory = self.memory
        if limits.phases.begin(
            "inspecting", calls=memory.num_calls - position.first_call
        ):
            self.save(position)
            return 0
        num_calls = self.inspections.inspect_first(
            self.sampler, memory.states[position.root], calls_left, limits
        )
        memory.num_calls += num_calls
        self.save(position)
        limits.phases.begin("sampling", calls=memory.num_calls - position.first_call)
        return num_calls

    # --- stops ----------------------------------------------------------------

    def _stop_reason(self, position: QueryProgress, limits: QueryLimits) -> str | None:
        """Return why a query ends between two rounds, if it does; it is saved then."""
        reason = self.sweeps.end_reason(position, limits)
        reason = reason or self.report_to_callback(position, limits, 0.0)
        reason = reason or limits.control.check(
            seconds_needed=self.ending_seconds(limits)
        )
        if reason is not None:
            self.save(position)
        return reason

    def report_to_callback(
        self,
        position: QueryProgress,
        limits: QueryLimits,
        least_seconds: float = REPORT_SECONDS,
    ) -> str | None:
        """Report to the callback, if the last report is old; return whether it stops."""
        memory, now = self.memory, time.perf_counter()
        if limits.callback is None or now - self._report_time < least_seconds:
            return None
        if self.is_first:  # nothing is known yet; the inspection is reported next
            return None
        progress_report = Progress(
            calls=memory.num_calls - position.first_call,
            seconds=now - self._start_time,
            seconds_left=max(0.0, limits.control.clock.left())
            if limits.control.clock.is_limited
            else None,
            interval=memory.interval(position.root),
            half_width=memory.half_width(position.root, limits.target),
            states=memory.num_nodes - 1,
        )
        try:
            with limits.control.hold.opened():
                callback_answer = limits.callback(progress_report)
        except TimeIsUp:
            return "seconds"
        except KeyboardInterrupt:
            return "hand"
        self._report_time = time.perf_counter()
        return "callback" if says_stop(callback_answer) else None

    def ending_seconds(self, limits: QueryLimits) -> float:
        """The seconds between the last sample and the answer."""
        if not limits.control.clock.is_limited:
            return 0.0
        return (
            self.batches.num_waiting * self.batches.entry_seconds
            + LAST_SWEEPS * self.sweeps.seconds
            + self.inspections.reserved_seconds(limits)
        )

    def save(self, position: QueryProgress, ended: str | None = None) -> None:
        """Save the search, if there is a keeper, at a point where it is whole."""
        position.ended = ended
        if self.keeper is not None and not self.sampler.torn:
            self.keeper.save()

    def _save_if_due(self, position: QueryProgress) -> None:
        if self.keeper is not None and self.keeper.due:
            self.save(position)

    # --- the jobs of a round --------------------------------------------------

    def _begin_round(
        self, position: QueryProgress, limits: QueryLimits, calls_left: int
    ) -> str | None:
        """Choose the pairs to sample; return None, or why there are none.

        Rows come first, then the pairs to sample, with their shares of delta.
        """
        if self.batches.batch is None:  # else samples wait that were taken before
            self.region.mark_last()
        if self.helper is not None:  # it has a turn in time
            calls_left = min(calls_left, self.helper.most_calls(position, limits))
        pairs, counts = self._choose_jobs(position, limits, calls_left)
        if len(pairs) == 0:
            default_reason = "seconds" if self.region.unfinished else "exhausted"
            return limits.control.check() or default_reason
        are_rows = self.sampler.are_rows(pairs)
        row_places = np.flatnonzero(are_rows)
        self.shares.assign(self.memory.graph, pairs[~are_rows])
        position.begin_round(
            np.concatenate([pairs[row_places], pairs[~are_rows]]),
            np.concatenate(
                [np.ones(len(row_places), dtype=np.int64), counts[~are_rows]]
            ),
        )
        return None

    def _choose_jobs(
        self, position: QueryProgress, limits: QueryLimits, calls_left: int
    ) -> Jobs:
        """Return which pairs to sample, and how often each."""
        steering, shares, root = self.steering, self.shares, position.root
        pairs_seen = self.memory.num_rows if shares.has_rows else shares.num_pairs
        num_calls = min(calls_left, steering.next_calls(root, limits, pairs_seen))
        steerable_calls = steering.num_steerable(limits, num_calls)
        if steerable_calls <= 0:
            pairs, counts = steering.equal_jobs(limits.equal, calls_left)
            if len(pairs):
                return pairs, counts
            # certainly narrow enough, unless rounding prevents it
            self.save(position)  # a stop in here is taken up from here
            self.sweeps.finish(position, limits)
            if self.sweeps.end_reason(position, limits) or limits.control.check():
                return pairs, counts
            steerable_calls = num_calls
        pairs, counts = steering.steered_jobs(root, limits, steerable_calls)
        if len(pairs) == 0 and not self.region.unfinished:
            pairs, counts = steering.equal_jobs(None, steerable_calls)
        steering.num_steered += int(counts.sum())
        if self.problem.deterministic and not shares.has_rows:
            counts = steering.add_checks(counts, shares.num_pairs, calls_left)
        return pairs, counts

    # --- the samples of a round -----------------------------------------------

    def _sample_round(
        self, position: QueryProgress, limits: QueryLimits
    ) -> str | None:
        """Sample the jobs of the round; return None, or why it was left.

        A search that was left by the clock or by hand is saved before its samples are
        entered.
        """
        memory, batches = self.memory, self.batches
        try:
            while batches.batch is not None or len(position.pairs):
                if batches.batch is None:
                    self.begin_batch(position)
                reason = self._fill_batch(position, limits)
                reason = reason or batches.enter_batch(limits.control.check)
                if reason is None:
                    self._save_if_due(position)
                    reason = limits.control.check(
                        seconds_needed=self.ending_seconds(limits)
                    )
                if reason is not None:
                    self.save(position)
                    self.region.leave_round()
                    memory.num_calls += self.lost_calls
                    batches.enter_batch(limits.closing_limits().control.check)
                    position.end_round()
                    return reason
        except MemoryFull as error:
            memory.num_calls += error.calls
            self.region.leave_round()
            self._enter_waiting(limits)
            return error.reason
        position.end_round()
        return None

    def begin_batch(self, position: QueryProgress) -> None:
        """Make a batch of the first jobs, all of them rows, or none."""
        num_rows = int(self.sampler.are_rows(position.pairs).sum())
        num_jobs = num_rows or len(position.pairs)
        pairs, counts = self.batches.begin_batch(
            position.pairs[:num_jobs], position.counts[:num_jobs]
        )
        position.pairs = np.concatenate([pairs, position.pairs[num_jobs:]])
        position.counts = np.concatenate([counts, position.counts[num_jobs:]])

    def _fill_batch(self, position: QueryProgress, limits: QueryLimits) -> str | None:
        """Sample the batch in slices; return None, or why it is not full."""
        sampler, batch, pace = self.sampler, self.batches.batch, self.pace
        memory, self.lost_calls = self.memory, 0
        assert batch is not None
        while batch.drawn < batch.size:
            ending_seconds = self.ending_seconds(limits)
            reason = limits.control.check(
                seconds_needed=ending_seconds
            ) or self.report_to_callback(position, limits)
            if reason is not None:
                return reason
            seconds_left = limits.control.clock.left() - ending_seconds
            slice_seconds = POOL_SECONDS if sampler.workers else SLICE_SECONDS
            max_samples = pace.samples_within(
                min(slice_seconds, SLICE_SHARE * seconds_left),
                self.batches.entry_seconds,
            )
            start_time, drawn_before = time.perf_counter(), batch.drawn
            rows_before, num_missing = sampler.num_rows, len(sampler.missing)
            try:
                sampler.draw(batch, max(max_samples, sampler.workers))
            except Interrupted as stop:
                self.lost_calls = stop.calls
                log.info("a slice was broken off: %d calls are dropped", stop.calls)
                return limits.control.check() or "seconds"
            finally:
                memory.num_calls += batch.drawn - drawn_before
                memory.num_calls -= len(sampler.missing) - num_missing
                memory.num_rows += sampler.num_rows - rows_before
                if sampler.missing:
                    self._add_missing(position)
            pace.learn(batch.drawn - drawn_before, time.perf_counter() - start_time)
            if batch.drawn < batch.size:
                self._save_if_due(position)
        return None

    def _add_missing(self, position: QueryProgress) -> None:
        """Give the pairs that had no row their shares of delta, and sample them.

        That is in this round, or in the next one if the step was not inspected yet.
        """
        pairs: Ints = np.array(self.sampler.missing, dtype=np.int64)
        self.sampler.missing = []
        if self.shares.delta == 0.0:
            raise self._without_delta(int(pairs[0]))
        self.shares.assign(self.memory.graph, pairs)
        if self.inspections.looked is not None:
            first_counts = np.full(len(pairs), FIRST_BATCH, dtype=np.int64)
            position.pairs = np.concatenate([position.pairs, pairs])
            position.counts = np.concatenate([position.counts, first_counts])

    def _without_delta(self, pair: int) -> InvalidInput:
        """The refusal to sample a pair without a row where no delta was given."""
        pair_row = self.memory.graph.pairs[pair]
        state = self.memory.states[int(pair_row["node"])]
        return InvalidInput(
            f"outcomes({state!r}, {int(pair_row['action'])}) is None, so that pair has "
            "to be sampled; give delta, the allowed probability of failure (delta=0.1), "
            "or list that row."
        )

    def _enter_waiting(self, limits: QueryLimits) -> str | None:
        """Enter the samples of a round that was left, as far as there is room.

        Returns why some still wait, if it was for want of time.
        """
        reason = None
        with suppress(MemoryFull):
            reason = self.batches.enter_batch(limits.control.check)
        return reason
