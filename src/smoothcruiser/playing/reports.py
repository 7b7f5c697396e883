"""Progress reports of ``play``, and how a stop ends its episodes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from smoothcruiser.errors import Interrupted
from smoothcruiser.jit.interrupts import current_stops
from smoothcruiser.progress import Callback, Phases, finish


class Reports:
    """Progress reports on the episodes of one ``play``."""

    def __init__(self, callback: Callback | None, total: int) -> None:
        self.phases, self.total, self.done = Phases(callback), total, 0
        self.calls = 0
        self._last = ""
        self._begin, self._stops = time.perf_counter(), current_stops()
        self.phases.begin("playing", **self._facts())

    @property
    def is_stopped(self) -> bool:
        """Whether the progress function, or Ctrl-C in a decision, has ended it."""
        return self.phases.refused or current_stops() > self._stops

    def report_decision(self, calls: int) -> bool:
        """Report a decision; return whether to stop."""
        self.calls += calls
        self.phases.tell(**self._facts())
        return self.is_stopped

    def report_episode(self, plain_return: float) -> None:
        """Report the end of an episode with this return."""
        self.done += 1
        self._last = f", last return {plain_return:.4g}"
        self.phases.tell(**self._facts())

    @contextmanager
    def keep_finished(self) -> Iterator[None]:
        """Keep the finished episodes at a stop; without any, the stop is raised."""
        try:
            yield
        except KeyboardInterrupt:
            if self.done == 0:
                raise
        if self.done == 0 and current_stops() > self._stops:
            raise KeyboardInterrupt
        if self.done == 0:
            raise Interrupted(
                "The progress function returned False before an episode had ended."
            )

    def finish(self) -> None:
        """Send the last report."""
        finish(self.phases.callback, **self._facts() | {"label": ""})

    def _facts(self) -> dict[str, Any]:
        episode_number = min(self.done + 1, self.total)
        return {
            "calls": self.calls,
            "seconds": time.perf_counter() - self._begin,
            "done": self.done,
            "total": self.total,
            "label": f"episode {episode_number:,} of {self.total:,}{self._last}",
        }
