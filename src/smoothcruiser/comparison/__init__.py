"""Planners beside each other: one problem, one budget, the exact answer.

``comparison_runs`` makes the runs, ``comparison_results`` holds them: data, tables, pictures.
"""

from smoothcruiser.comparison.comparison_results import (
    Comparison,
    NotRun,
    PlannedRun,
    PlannerRun,
    Truth,
    summaries,
)
from smoothcruiser.comparison.comparison_runs import (
    compare,
    each_run,
    jobs_of,
    ladder,
    planners,
    truth_of,
)

__all__ = [
    "Comparison",
    "NotRun",
    "PlannedRun",
    "PlannerRun",
    "Truth",
    "compare",
    "each_run",
    "jobs_of",
    "ladder",
    "planners",
    "summaries",
    "truth_of",
]
