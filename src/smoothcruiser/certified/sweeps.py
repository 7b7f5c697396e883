"""How long a query sweeps: between two rounds, and before it ends.

``sweeps_kernel`` defines a sweep and proves that any number of them is right.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from smoothcruiser.certified.bounds.base import KEEP, SCAN, SWEPT, WALK
from smoothcruiser.certified.limits import QueryLimits
from smoothcruiser.certified.position import CLOSING, SETTLED, QueryProgress
from smoothcruiser.certified.region import Region
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.rows import has_rows

MANY_STEPS = 1e4  # no play is taken to be longer where nothing bounds it


class Sweeps:
    """Sweeps over the region of a query."""

    def __init__(
        self, problem: Problem, region: Region, crossed: Callable[[int], Exception]
    ) -> None:
        """``crossed`` makes the error for a node with bounds that cross."""
        self.region, self.memory, self.crossed = region, region.memory, crossed
        self.exact = problem.deterministic or has_rows(problem)
        self.steps = min(MANY_STEPS, problem.facts.steps(problem.horizon))
        self.seconds = 0.0  # of the last sweep

    def is_narrow(self, position: QueryProgress, limits: QueryLimits) -> bool:
        """Whether the query is answered."""
        goal = limits.goal_at(self.memory.interval(position.root))
        return (
            goal is not None
            and self.memory.half_width(position.root, limits.target) <= goal
        )

    def end_reason(self, position: QueryProgress, limits: QueryLimits) -> str:
        """The reason why a narrow query ends: epsilon, or the limit of rounding."""
        half_width = self.memory.half_width(position.root, limits.target)
        is_reached = limits.is_reached(half_width, self.memory.interval(position.root))
        return "epsilon" if is_reached else "rounding"

    def settle(
        self,
        position: QueryProgress,
        limits: QueryLimits,
        pause: Callable[[QueryProgress], None] | None = None,
    ) -> None:
        """Sweep until little moves, or the answer is narrow enough.

        Where time is up before, the position says which sweep is next.
        ``pause`` is called between two sweeps.
        """
        self.region.stop_reason = limits.stop_reason
        while position.swept != SETTLED and position.swept < self.region.most_sweeps:
            if position.swept == CLOSING:
                if not self._close():
                    return
                position.swept = SETTLED
            else:
                closed = self._sweep(WALK if position.swept == 0 else KEEP)
                position.swept += 1
                width = 2.0 * self.memory.half_width(position.root, limits.target)
                if self.is_narrow(position, limits):
                    position.swept = SETTLED
                elif closed <= self.region.little * width:
                    position.swept = CLOSING
                elif limits.stop_reason(self.seconds) is not None:
                    return
            if pause is not None:
                pause(position)

    def finish(self, position: QueryProgress, limits: QueryLimits) -> None:
        """Sweep all nodes in reach until a scan moves none of them, or time is up.

        Sweeps are cheap and make full use of the samples. The widest node then
        satisfies width <= gamma width + radii + the move of the last sweep, so stopping
        here adds at most ``SWEPT`` of the goal.
        """
        self.region.stop_reason = limits.stop_reason
        self.region.list_reach()
        tune = SCAN
        while (
            not self.is_narrow(position, limits)
            and limits.stop_reason(self.seconds) is None
        ):
            widths_before = self.region.widths
            self._sweep(tune)
            goal = limits.goal_at(self.memory.interval(position.root))
            if goal is None:
                goal = self.memory.half_width(position.root, limits.target)
            self._close(last=True)
            is_still = float((widths_before - self.region.widths).max()) <= (
                0.0 if self.exact else 2.0 * SWEPT * goal / self.steps
            )
            if is_still and tune == SCAN:
                return
            tune = SCAN if is_still else KEEP

    def _close(self, last: bool = False) -> bool:
        """Run ``Region.close``; bounds that exclude each other are an error."""
        is_closed, region = self.region.close(last), self.region
        crossed_places = np.flatnonzero(region.widths < 0.0)
        if len(crossed_places):
            raise self.crossed(int(region.listed_nodes[crossed_places[0]]))
        return is_closed

    def _sweep(self, tune: int) -> float:
        """Run ``Region.sweep``; bounds that exclude each other are an error."""
        start_time = time.perf_counter()
        closed = self.region.sweep(tune)
        self.seconds = time.perf_counter() - start_time
        if closed < 0.0:
            raise self.crossed(int(-1.0 - closed))
        return closed
