"""Stops and reports of a solver: the clock, Ctrl-C, and the progress function.

The solver asks its ``Watch`` between two sweeps whether to stop, and the ``Watch``
reports the progress then. It changes no result.
"""

from __future__ import annotations

import math
import time

from smoothcruiser.jit.interrupts import StopRequest
from smoothcruiser.progress import Callback, Phase, Phases

REPORT_SECONDS = 0.1  # between two reports


class Watch:
    """Says why to stop, if there is a reason, and reports."""

    def __init__(
        self,
        progress: Callback | None = None,
        hold: StopRequest | None = None,
        deadline: float = math.inf,
    ) -> None:
        """A watch that ends a solver at ``deadline``, by ``time.perf_counter()``."""
        self.hold, self.deadline = StopRequest() if hold is None else hold, deadline
        self.phases = Phases(progress, self.hold)
        self.sweeps = 0
        self.bound: float | None = None
        self._begin = self._told = time.perf_counter()

    def __call__(self) -> str | None:
        """The reason to stop now: "hand", "callback", "seconds"; None: go on."""
        if self._due:
            self._tell(done=self.sweeps or None)
        if self.hold.came:
            return "hand"
        if self.phases.refused:
            return "callback"
        return "seconds" if time.perf_counter() > self.deadline else None

    def begin(self, phase: Phase, states: int | None = None) -> None:
        """Report that a phase begins."""
        self.phases.begin(phase, states=states, seconds=self._seconds())
        self._told = time.perf_counter()

    def report_states(self, states: int) -> bool:
        """Report the number of listed states, now and then; return whether to stop."""
        if self._due:
            self._tell(states=states)
        return self.phases.refused

    def count_sweeps(self, sweeps: int) -> None:
        """Count passes over the transitions."""
        self.sweeps += sweeps

    def note_bound(self, bound: float) -> None:
        """Keep the error that the sweeps have proven, for the next report."""
        self.bound = bound

    def skip_compiling(self, seconds: float) -> None:
        """Leave out the seconds that compiling took."""
        self._begin += seconds
        self.deadline += seconds

    @property
    def _due(self) -> bool:
        if self.phases.callback is None:
            return False
        return time.perf_counter() - self._told >= REPORT_SECONDS

    def _tell(self, **facts: int | None) -> None:
        seconds_left = None
        if self.deadline < math.inf:
            seconds_left = max(0.0, self.deadline - time.perf_counter())
        facts_now = {"seconds": self._seconds(), "seconds_left": seconds_left}
        self.phases.tell(half_width=self.bound, **facts_now, **facts)
        self._told = time.perf_counter()

    def _seconds(self) -> float:
        return max(0.0, time.perf_counter() - self._begin)
