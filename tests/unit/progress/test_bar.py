"""The line of the progress bar."""

from __future__ import annotations

from dataclasses import replace

import pytest

import smoothcruiser as sc
from smoothcruiser.progress.bar import describe


@pytest.mark.compiles
def test_progress_shows_what_is_certified_so_far() -> None:
    """Reports carry an interval, and the bar's line names it."""

    problem = sc.make("chain:n=5", discount=0.5, temperature=1.0)
    reports = []
    estimate = sc.plan(
        problem,
        epsilon="5%",
        delta=0.1,
        method="smoothcruiser",
        progress=reports.append,
    )
    seen = [report for report in reports if report.interval is not None]
    assert seen
    assert all(
        report.interval[0] - 1e-9 <= estimate.value <= report.interval[1] + 1e-9
        for report in seen
    )
    assert " ± " in describe(seen[-1])
    assert " ± " not in describe(replace(seen[-1], interval=None))
