"""Stops and reports of a solver: the clock, Ctrl-C, and the progress function.

The solver asks its ``Watch`` between two sweeps whether to stop, and the ``Watch``
reports the progress then. It changes no result. Seconds of compiling do not count.
``EXACT`` are the loops of the solver for built-in operators, interpreted or compiled.
"""

from __future__ import annotations

import math
import time

from smoothcruiser.jit.forms import KernelFamily
from smoothcruiser.progress import Callback, Phase, Phases
from smoothcruiser.run_control.clock import Stopwatch
from smoothcruiser.run_control.stop_requests import StopRequest

REPORT_SECONDS = 0.1  # between two reports
EXACT = KernelFamily(compiling=9.0)


class Watch:
    """Says why to stop, if there is a reason, and reports."""

    def __init__(
        self,
        progress: Callback | None = None,
        hold: StopRequest | None = None,
        deadline: float = math.inf,
    ) -> None:
        """A watch that ends a solver at ``deadline``, by ``time.perf_counter()``."""
        self.hold = StopRequest() if hold is None else hold
        self.clock, self.limit = Stopwatch(), deadline - time.perf_counter()
        self.phases = Phases(progress, self.hold)
        self.sweeps = 0
        self.bound: float | None = None
        self._told = time.perf_counter()

    def __call__(self) -> str | None:
        """The reason to stop now: "hand", "callback", "seconds"; None: go on."""
        if self._due:
            self._tell(done=self.sweeps or None)
        if self.hold.came:
            return "hand"
        if self.phases.refused:
            return "callback"
        return "seconds" if self.clock.elapsed() > self.limit else None

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
    def compile_seconds(self) -> float:
        """The seconds of compiling so far, which do not count."""
        return self.clock.stood_still()

    @property
    def _due(self) -> bool:
        if self.phases.callback is None:
            return False
        return time.perf_counter() - self._told >= REPORT_SECONDS

    def _tell(self, **facts: int | None) -> None:
        seconds_left = None
        elapsed = self.clock.elapsed()
        if self.limit < math.inf:
            seconds_left = max(0.0, self.limit - elapsed)
        facts_now = {"seconds": elapsed, "seconds_left": seconds_left}
        self.phases.tell(half_width=self.bound, **facts_now, **facts)
        self._told = time.perf_counter()
