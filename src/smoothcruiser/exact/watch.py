"""Who watches a solver: the clock, Ctrl-C, and the progress function.

A ``Watch`` is asked between two sweeps whether to stop, and reports how far the solver
is while it is asked. It changes nothing of what is computed.
"""

from __future__ import annotations

import math
import time

from smoothcruiser.jit.interrupts import Hold
from smoothcruiser.progress import Callback, Phase, Phases

REPORT_SECONDS = 0.1  # between two reports


class Watch:
    """Says why to stop, if there is a reason, and reports."""

    def __init__(
        self,
        progress: Callback | None = None,
        hold: Hold | None = None,
        deadline: float = math.inf,
    ) -> None:
        """A watch that ends a solver at ``deadline``, by ``time.perf_counter()``."""
        self.hold, self.deadline = Hold() if hold is None else hold, deadline
        self.phases = Phases(progress, self.hold)
        self.sweeps = 0
        self.bound: float | None = None
        self._begin = self._told = time.perf_counter()

    def __call__(self) -> str | None:
        """Why to stop now: "hand", "callback", "seconds"; None: go on."""
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

    def found(self, states: int) -> bool:
        """Report how many states are listed, now and then; return whether to stop."""
        if self._due:
            self._tell(states=states)
        return self.phases.refused

    def swept(self, sweeps: int) -> None:
        """Count passes over the transitions."""
        self.sweeps += sweeps

    def proved(self, bound: float) -> None:
        """Keep the error that the sweeps have proven, for the next report."""
        self.bound = bound

    def compiled(self, seconds: float) -> None:
        """Count no seconds that compiling took."""
        self._begin += seconds
        self.deadline += seconds

    @property
    def _due(self) -> bool:
        if self.phases.callback is None:
            return False
        return time.perf_counter() - self._told >= REPORT_SECONDS

    def _tell(self, **facts: int | None) -> None:
        left = None
        if self.deadline < math.inf:
            left = max(0.0, self.deadline - time.perf_counter())
        facts_now = {"seconds": self._seconds(), "seconds_left": left}
        self.phases.tell(half_width=self.bound, **facts_now, **facts)
        self._told = time.perf_counter()

    def _seconds(self) -> float:
        return max(0.0, time.perf_counter() - self._begin)
