"""What was seen of the step before the first sample and after each query."""

from __future__ import annotations

from typing import Any

from smoothcruiser.certified.sampling import Sampler
from smoothcruiser.engines.inspection import Looks, seen

INSPECTED_SHARE = 8  # at most an eighth of the budget goes into inspecting the step


class Inspected:
    """The inspections of one memory; both return the calls to count."""

    def __init__(self) -> None:
        self.looked: Looks | None = None  # seen before the first sample
        self.asked = 0  # calls of the last inspection after a query

    def begin(self, sampler: Sampler, state: Any, left: int) -> int:
        """Inspect the step; the calls include those of the inspection afterwards."""
        calls, self.looked = sampler.look(state, None, left // INSPECTED_SHARE)
        return calls + len(self.looked)

    def again(self, sampler: Sampler, state: Any) -> int:
        """Repeat the inspection after a query."""
        if not self.looked:
            return 0
        calls, _ = sampler.look(state, self.looked, 0)
        counted = 0 if self.asked else len(self.looked)
        self.asked = calls
        return calls - counted

    def words(self, sampler: Sampler) -> str:
        """What was seen, as a sentence for a certificate; empty before the first."""
        if self.looked is None:
            return ""
        doubts = sampler.guard.doubts
        return seen(len(self.looked), self.asked, sampler.looks, doubts)
