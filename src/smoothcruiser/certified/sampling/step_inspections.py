"""Inspections of the step before the first sample of a memory and after each query.

A certificate assumes that a step samples one law for each state and action. A step that
answers from its own memory, or writes into its states, breaks that. So some pairs are
stepped twice before anything is sampled, and again after each query (``engines.
inspection``); the certificate says what was compared.

Both inspections count as calls of the query and take part of its time. This file decides
how much: at most an eighth of the budget, a tenth of the seconds before the first sample
and a twentieth after the last. It leaves out what is compared (``Sampler.look``).
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from smoothcruiser.certified.query_limits import QueryLimits
from smoothcruiser.certified.sampling.sampler import Sampler
from smoothcruiser.engines.inspection import LOOK_SECONDS, Looks, describe_inspections
from smoothcruiser.errors import Interrupted
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.run_control.call_seconds import end_calls_at

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
        ledger = CallLedger(calls_left // INSPECTED_SHARE)
        seconds_share = BEFORE_SHARE * limits.control.clock.left()
        seconds = min(LOOK_SECONDS, max(LEAST_SECONDS, seconds_share))
        try:
            with limits.control.hold.opened():
                self.looked = sampler.look(state, ledger, None, seconds)
        except (KeyboardInterrupt, Interrupted):
            return ledger.total
        self._each = (time.perf_counter() - start_time) / max(1, ledger.total)
        return ledger.total + len(self.looked)

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
        control, ledger = limits.control, CallLedger()
        seconds_left = max(LEAST_SECONDS, control.clock.left())
        if sampler.ready and self._each <= seconds_left:
            with (
                suppress(KeyboardInterrupt, Interrupted),
                end_calls_at(control.latest, control.hold),
                control.hold.opened(),
            ):
                seconds = min(LOOK_SECONDS, seconds_left)
                sampler.look(state, ledger, pairs, seconds)
        calls_counted = 0 if self.asked else len(self.looked)
        self.asked = ledger.total
        return self.asked - calls_counted

    def describe(self, sampler: Sampler) -> str:
        """A sentence on the inspections for a certificate; empty before the first."""
        if self.looked is None:
            return ""
        doubts = sampler.guard.doubts
        return describe_inspections(
            len(self.looked), self.asked, sampler.looks, doubts
        )
