"""The part of the memory that matters for one query at discount 1 without a horizon.

Sweeps are those with a discount: from the bounds that the declarations give they move
towards V, and what they say holds. From above (rewards that are not negative) they can
stop short of V where play can go round for ever. Where every bound of a pair holds for
all functions and supports can be complete, ``close`` finds bounds that come down there
too, and proves them (``inductive_kernel``).
"""

from __future__ import annotations

import numpy as np

from smoothcruiser.certified.bounds.base import KEEP, Bound
from smoothcruiser.certified.graph import empty_graph
from smoothcruiser.certified.loops import make_closing_loops
from smoothcruiser.certified.memory import Memory
from smoothcruiser.certified.region import Region
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.rows import has_rows

# of the answer's width: what is added to f so that induction succeeds
SLACK_SHARE = 0.02
CELLS = 4096  # of the grid, in that slack
STILL = 1e-4  # of the slack: f has come to rest when a pass moves it less
MOST_PASSES = 20_000
PUSHES = 64  # passes between two sweeps that update only what decides a bound
PUSHED = 1e-6  # of the answer's width: less is not worth a further pass
# passes times pairs, at about 0.1 microseconds each
MOST_WORK = 3e7


class TotalRegion(Region):
    """The nodes that a query lists, at discount 1 without a horizon."""

    # a play may be long, and samples cannot make up for sweeps that were left out
    little, most_sweeps = 1e-3, 400

    def __init__(
        self, problem: Problem, memory: Memory, bound: Bound, radius_scale: float
    ) -> None:
        super().__init__(problem, memory, bound, radius_scale)
        low, high = problem.reward_range
        exact = problem.deterministic or has_rows(problem)
        every = exact or (bound.every_function and problem.min_probability is not None)
        # whether V is the least fixed point from 0 upwards, or the greatest downwards
        self.upper = low >= 0.0
        self.closes = every and (low >= 0.0 or high <= 0.0) and radius_scale == 1.0
        self.closing_loops = make_closing_loops(bound)

    def warm(self) -> None:
        """Compile the loops, or load them."""
        super().warm()
        g, none = empty_graph(self.bound.fields), np.zeros(0)
        order = np.zeros(0, dtype=np.int64)
        loops, rules = self.closing_loops, self.rules
        loops.push(g, order, 0, True, rules)
        if self.closes:
            loops.climb(g, order, 0, none, True, 0.0, rules)
            loops.is_inductive(g, order, 0, none, True, rules)

    def sweep(self, tune: int) -> float:
        """Sweep once over the listed nodes, and push their bounds on in between."""
        closed = super().sweep(tune)
        if closed < 0.0:
            return closed
        g = self.memory.graph
        for upper in (True, False):
            for _ in range(PUSHES):
                node = g.nodes[self.order[0]]
                little = PUSHED * float(node["upper"] - node["lower"])
                moved = self.closing_loops.push(
                    g, self.order, self.count, upper, self.rules
                )
                if moved <= little:
                    break
        return closed

    def close(self) -> None:
        """Bring the far bounds of all listed nodes down, as far as induction proves."""
        if not self.closes:
            return
        g, listed, upper = self.memory.graph, self.listed, self.upper
        far, near = ("upper", "lower") if upper else ("lower", "upper")
        known = g.nodes[far][listed].copy()
        width = abs(float(known[0] - g.nodes[near][listed[0]]))
        if width == 0.0:
            return
        g.nodes[far][listed] = g.nodes[near][listed]
        slack = SLACK_SHARE * width
        work = float(g.nodes["size"][listed].sum())
        passes = int(min(MOST_PASSES, max(10.0, MOST_WORK / work)))
        self._climb(known, 0.0, STILL * slack, passes)
        cell = slack / CELLS
        moved = g.nodes[far][listed] + (slack if upper else -slack)
        raised = cell * (np.ceil(moved / cell) if upper else np.floor(moved / cell))
        nearest = np.minimum if upper else np.maximum
        g.nodes[far][listed] = nearest(raised, known)
        still = self._climb(known, cell, 0.0, passes)
        proved = still and self.closing_loops.is_inductive(
            g, self.order, self.count, known, upper, self.rules
        )
        found = g.nodes[far][listed].copy()
        g.nodes[far][listed] = nearest(found, known) if proved else known
        if proved:
            self.sweep(KEEP)

    def _climb(self, known: np.ndarray, cell: float, still: float, passes: int) -> bool:
        """Move f until a pass moves it by at most ``still``; whether it came to rest."""
        for _ in range(passes):
            moved = self.closing_loops.climb(
                self.memory.graph,
                self.order,
                self.count,
                known,
                self.upper,
                cell,
                self.rules,
            )
            if moved <= still:
                return True
        return False
