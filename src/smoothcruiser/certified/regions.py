"""Which kind of region a problem has."""

from __future__ import annotations

from smoothcruiser.certified.bounds.base import Bound
from smoothcruiser.certified.layers import LayeredRegion
from smoothcruiser.certified.memory import Memory
from smoothcruiser.certified.pooled import PooledRegion
from smoothcruiser.certified.region import Region
from smoothcruiser.certified.totals import TotalRegion
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.undiscounted import is_undiscounted


def make_region(
    problem: Problem, memory: Memory, bound: Bound, radius_scale: float
) -> Region:
    """The region that fits the problem: layers where there is a horizon."""
    region_class = Region if problem.horizon is None else LayeredRegion
    if bound.pool_share > 0.0:
        region_class = PooledRegion
    elif is_undiscounted(problem):
        region_class = TotalRegion
    return region_class(problem, memory, bound, radius_scale)
