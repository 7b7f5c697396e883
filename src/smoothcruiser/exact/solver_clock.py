"""Stops and reports of a solver: the clock, Ctrl-C, and the progress function.

The solver asks its ``Watch`` between two sweeps whether to stop, and the ``Watch``
reports the progress then. It changes no result. Seconds of compiling do not count.
``EXACT`` are the loops of the solver for built-in operators, interpreted or compiled.
"""

from __future__ import annotations

import time

from smoothcruiser.jit.forms import KernelFamily
from smoothcruiser.progress import Callback, Phase, Phases
from smoothcruiser.run_control.control import Control, Limits, StopReason
from smoothcruiser.run_control.stop_requests import StopRequest

REPORT_SECONDS = 0.1  # between two reports
EXACT = KernelFamily(compiling=9.0)


class Watch(Control):
    """The control of a solver: it reports whenever it is checked."""

    def __init__(
        self,
        progress: Callback | None = None,
        hold: StopRequest | None = None,
        seconds: float | None = None,
    ) -> None:
        hold = StopRequest() if hold is None else hold
        self.phases = Phases(progress, hold)
        super().__init__(Limits(seconds=seconds), hold, self.phases)
        self.sweeps = 0
        self.bound: float | None = None
        self._told = time.perf_counter()

    def __call__(self) -> StopReason | None:
        """The reason to stop now, after a report if one is due; None: go on."""
        if self._due:
            self._tell(done=self.sweeps or None)
        return self.check()

    def begin(self, phase: Phase, states: int | None = None) -> None:
        """Report that a phase begins."""
        self.phases.begin(phase, states=states, seconds=self.clock.elapsed())
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

    @property
    def _due(self) -> bool:
        if self.phases.callback is None:
            return False
        return time.perf_counter() - self._told >= REPORT_SECONDS

    def _tell(self, **facts: int | None) -> None:
        seconds_left = max(0.0, self.clock.left()) if self.clock.is_limited else None
        facts_now = {"seconds": self.clock.elapsed(), "seconds_left": seconds_left}
        self.phases.tell(half_width=self.bound, **facts_now, **facts)
        self._told = time.perf_counter()
