"""Time for an episode, divided over its decisions.

A decision gets the remaining time, divided by the number of decisions left, itself
included. That number is the steps left of a horizon (half of them, rounded up, where
players take turns), or ``EXPECTED`` without a horizon. So the total is never exceeded
by more than the least time that the last decision needs. Early decisions get more
time than late ones in long episodes, as is usual in games.
"""

from __future__ import annotations

from smoothcruiser.problem.arguments import check_seconds
from smoothcruiser.problem.problem import Problem

EXPECTED = 20  # decisions that may follow, where there is no horizon
LEAST = 1e-3  # seconds: a decision is made also when the time is over


class Clock:
    """The remaining part of ``seconds_total``, with a limit for each decision."""

    def __init__(
        self, problem: Problem, total: float, decision_limit: float | None
    ) -> None:
        check_seconds(total, "seconds_total")
        self.problem, self.total, self.most = problem, total, decision_limit
        self.left = total

    def begin(self) -> None:
        """Begin an episode: the whole time is available."""
        self.left = self.total

    def spend(self, seconds: float) -> None:
        """Subtract the seconds that a decision took."""
        self.left -= seconds

    def share(self, decided: int, remaining: int | None) -> float:
        """The seconds for a decision, after ``decided`` ones in this episode."""
        decisions_left, takes_turns = (
            remaining,
            bool(getattr(self.problem, "alternating", False)),
        )
        if decisions_left is None and self.problem.horizon is not None:
            decisions_left = self.problem.horizon - decided * (2 if takes_turns else 1)
        if decisions_left is None:
            decisions_left = EXPECTED
        elif takes_turns:
            decisions_left = -(-decisions_left // 2)
        seconds_share = max(LEAST, self.left / max(1, decisions_left))
        return seconds_share if self.most is None else min(seconds_share, self.most)
