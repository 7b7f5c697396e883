"""Time for an episode, dealt out over its decisions.

A decision gets what is left of the total, divided by the decisions that may follow it
and itself: the steps left of a horizon (half of them, rounded up, where players take
turns), or ``EXPECTED`` where nobody knows. So the total is never exceeded by more than
the last decision needs at the least, and early decisions get more than late ones where
an episode goes on for long, as is usual in games.
"""

from __future__ import annotations

from smoothcruiser.problem.arguments import check_seconds
from smoothcruiser.problem.problem import Problem

EXPECTED = 20  # decisions that may follow, where there is no horizon
LEAST = 1e-3  # seconds: a decision is made also when the time is over


class Clock:
    """What is left of ``seconds_total``; ``most`` is the limit of one decision."""

    def __init__(self, problem: Problem, total: float, most: float | None) -> None:
        check_seconds(total, "seconds_total")
        self.problem, self.total, self.most = problem, total, most
        self.left = total

    def begin(self) -> None:
        """An episode begins."""
        self.left = self.total

    def spend(self, seconds: float) -> None:
        """Take off what a decision has taken."""
        self.left -= seconds

    def share(self, decided: int, remaining: int | None) -> float:
        """The seconds for a decision, after so many in this episode."""
        left, alternating = remaining, bool(getattr(self.problem, "alternating", False))
        if left is None and self.problem.horizon is not None:
            left = self.problem.horizon - decided * (2 if alternating else 1)
        if left is None:
            left = EXPECTED
        elif alternating:
            left = -(-left // 2)
        found = max(LEAST, self.left / max(1, left))
        return found if self.most is None else min(found, self.most)
