"""Which problems certified search refuses before it begins."""

from __future__ import annotations

from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.sampled import refuse_sampled
from smoothcruiser.problem.undiscounted import refuse_unbounded


def refuse_unfit(problem: Problem) -> None:
    """Refuse totals without a bound, and actions that are sampled."""
    refuse_unbounded(problem, "certified")
    refuse_sampled(problem, "Certified search")
