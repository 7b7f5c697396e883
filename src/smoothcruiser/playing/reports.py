"""What ``play`` tells of its episodes, and how a stop ends them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from smoothcruiser.errors import Interrupted
from smoothcruiser.jit.interrupts import heard
from smoothcruiser.progress import Callback, Phases, finish


class Reports:
    """What ``play`` tells of its episodes."""

    def __init__(self, callback: Callback | None, total: int) -> None:
        self.phases, self.total, self.done = Phases(callback), total, 0
        self.calls = 0
        self._last = ""
        self._begin, self._stops = time.perf_counter(), heard()
        self.phases.begin("playing", **self._facts())

    @property
    def stopped(self) -> bool:
        """Whether the progress function, or Ctrl-C in a decision, has ended it."""
        return self.phases.refused or heard() > self._stops

    def decided(self, calls: int) -> bool:
        """Report a decision; return whether to stop."""
        self.calls += calls
        self.phases.tell(**self._facts())
        return self.stopped

    def ended(self, won: float) -> None:
        """Report the end of an episode that returned ``won``."""
        self.done += 1
        self._last = f", last return {won:.4g}"
        self.phases.tell(**self._facts())

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Episodes that a stop ends: those before it are kept, if there are any."""
        try:
            yield
        except KeyboardInterrupt:
            if self.done == 0:
                raise
        if self.done == 0 and heard() > self._stops:
            raise KeyboardInterrupt
        if self.done == 0:
            raise Interrupted(
                "The progress function returned False before an episode had ended."
            )

    def finish(self) -> None:
        """Send the last report."""
        finish(self.phases.callback, **self._facts() | {"label": ""})

    def _facts(self) -> dict[str, Any]:
        number = min(self.done + 1, self.total)
        return {
            "calls": self.calls,
            "seconds": time.perf_counter() - self._begin,
            "done": self.done,
            "total": self.total,
            "label": f"episode {number:,} of {self.total:,}{self._last}",
        }
