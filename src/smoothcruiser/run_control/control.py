"""When a run ends before its goal: what was requested, what counts, and why it stops.

``Limits`` are what a caller requested. A ``Control`` watches a run under them:
its clock, on which compiling never counts, a Ctrl-C, and the answer of the
progress function. A run calls ``check`` between two parts of its work and stops
where that gives a reason.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from smoothcruiser.run_control.clock import Clock
from smoothcruiser.run_control.stop_requests import StopRequest

# how long after the time limit a call that is under way is ended
GRACE_SHARE, GRACE_SECONDS = 0.05, 0.2


class StopReason(StrEnum):
    """The cause of a stop before a run's goal."""

    HAND = "hand"
    CALLBACK = "callback"
    SECONDS = "seconds"
    BUDGET = "budget"
    OUTSIDE = "outside"  # a worker or a wait failed

    def describe(self) -> str:
        """The end of a sentence: "the run was stopped …"."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    StopReason.HAND: "by hand",
    StopReason.CALLBACK: "by the progress function, which returned False",
    StopReason.SECONDS: "by its time limit (seconds)",
    StopReason.BUDGET: "at its budget",
    StopReason.OUTSIDE: "from outside",
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits on an answer's cost; None is no limit of the caller's."""

    calls: int | None = None  # budget=
    seconds: float | None = None
    simulations: int | None = None  # of a tree search
    max_states: int | None = None  # that certified search keeps


NO_LIMITS = Limits()


class Reporter(Protocol):
    """Reports to a progress function (``progress.Phases``)."""

    @property
    def refused(self) -> bool:
        """Whether the function has returned False."""


class Control:
    """The reasons to stop one run, in the thread that makes it."""

    def __init__(
        self,
        limits: Limits = NO_LIMITS,
        hold: StopRequest | None = None,
        reporter: Reporter | None = None,
        *,
        spent: float = 0.0,
    ) -> None:
        """``spent``: seconds of the limit that an earlier part of the run took."""
        self.limits, self.reporter = limits, reporter
        self.hold = StopRequest() if hold is None else hold
        self.clock = Clock(limits.seconds, spent)

    def check(
        self, calls: int = 0, *, seconds_needed: float = 0.0
    ) -> StopReason | None:
        """The reason to stop after so many calls; None: go on.

        ``seconds_needed`` are those that the answer takes.
        """
        if self.hold.came:
            return StopReason.HAND
        if self.reporter is not None and self.reporter.refused:
            return StopReason.CALLBACK
        if self.clock.left() < seconds_needed:
            return StopReason.SECONDS
        if self.limits.calls is not None and calls >= self.limits.calls > 0:
            return StopReason.BUDGET
        return None

    def restart_clock(self, spent: float) -> None:
        """Begin the clock anew, after ``spent`` seconds that count."""
        self.clock = Clock(self.limits.seconds, spent)

    @property
    def deadline(self) -> float:
        """When the time is up, by ``time.perf_counter()``: compiling puts it off."""
        return time.perf_counter() + self.clock.left()

    @property
    def grace(self) -> float:
        """How long a call may last beyond the limit before it is ended."""
        return GRACE_SHARE * (self.limits.seconds or 0.0) + GRACE_SECONDS

    @property
    def latest(self) -> float:
        """When a call of the oracle that is still under way is ended."""
        return self.deadline + self.grace
