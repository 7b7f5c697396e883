"""The part of the memory that matters for one query at discount 1 without a horizon.

Sweeps are those with a discount: from the bounds that the declarations give they move
towards V, and what they say holds. From above (rewards that are not negative) they can
stop short of V where play can go round for ever. Where every bound of a pair holds for
all functions and supports can be complete, ``close`` finds bounds that come down there
too, and proves them (``inductive_kernel``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.certified.bounds.base import KEEP, Bound
from smoothcruiser.certified.graph import SAMPLED, empty_graph
from smoothcruiser.certified.loops import make_closing_loops
from smoothcruiser.certified.memory import Memory
from smoothcruiser.certified.region import Region
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.rows import has_rows
from smoothcruiser.problem.tabular import Floats

# of the answer's width: what is added to f so that induction succeeds
SLACK_SHARE = 0.02
CELLS = 4096  # of the grid, in that slack
STILL = 1e-4  # of the slack: f has come to rest when a pass moves it less
MOST_PASSES = 20_000
PUSHES = 64  # passes between two sweeps that update only what decides a bound
PUSHED = 1e-6  # of the answer's width: less is not worth a further pass
# passes times pairs, at about 0.1 microseconds each: in all, and between two looks at
# the clock
MOST_WORK, LOOK_WORK = 1e7, 2e5
NARROWEST = 1e-7  # of the largest value in sight
MORE_SAMPLES = 1.5  # so many times those with which it was tried in vain


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
        self.failed_at = 0.0  # samples with which ``close`` took long in vain
        self._work = 0.0  # pairs that it has updated

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

    def start(self, root: int) -> None:
        """Begin the list with the requested node."""
        super().start(root)
        self.failed_at = 0.0

    def sections(self) -> dict[str, Any]:
        """When closing was tried in vain."""
        return {"failed_at": np.array([self.failed_at])}

    def read(self, parts: dict[str, Any], require: Callable[[bool, str], None]) -> None:
        """Take up what ``sections`` had written."""
        (self.failed_at,) = np.frombuffer(parts["failed_at"], np.float64).tolist()

    def sweep(self, tune: int) -> float:
        """Sweep once over the listed nodes, and push their bounds on in between."""
        # pushing and closing move bounds between two sweeps
        self.memory.graph.nodes["stale"][self.listed] |= SAMPLED
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

    def close(self) -> bool:
        """Bring the far bounds of all listed nodes down, as far as induction proves.

        Where that took more updates than there are samples, in vain, it is not tried
        again before there are many more samples.
        Returns False where it was left because ``over`` gave a reason.
        """
        samples = self.num_samples
        if not self.closes or samples < MORE_SAMPLES * self.failed_at:
            return True
        g, listed, upper = self.memory.graph, self.listed, self.upper
        far, near = ("upper", "lower") if upper else ("lower", "upper")
        known = g.nodes[far][listed].copy()
        width = abs(float(known[0] - g.nodes[near][listed[0]]))
        if width <= NARROWEST * self.rules.bound.scale:  # the grid would be rounding
            return True
        self._work = 0.0
        try:
            found = self._found(far, near, SLACK_SHARE * width, known)
        except TimeoutError:
            g.nodes[far][listed] = known
            return False
        g.nodes[far][listed] = known if found is None else found
        if found is not None:
            self.sweep(KEEP)
        gained = float(np.abs(known - g.nodes[far][listed]).max())
        vain = gained <= SLACK_SHARE * width and self._work > samples
        self.failed_at = samples if vain else 0.0
        return True

    def _found(self, far: str, near: str, slack: float, known: Floats) -> Floats | None:
        """Far bounds that hold by induction; None where none better were found."""
        g, listed, upper = self.memory.graph, self.listed, self.upper
        nearest, cell = np.minimum if upper else np.maximum, slack / CELLS
        g.nodes[far][listed] = g.nodes[near][listed]
        if not self._climb(known, 0.0, STILL * slack, slack):
            return None
        moved = g.nodes[far][listed] + (slack if upper else -slack)
        raised = cell * (np.ceil(moved / cell) if upper else np.floor(moved / cell))
        raised = np.maximum(raised, 0.0) if upper else np.minimum(raised, 0.0)
        g.nodes[far][listed] = nearest(raised, known)
        proved = self._climb(known, cell, 0.0, 0.0) and (
            self.closing_loops.is_inductive(
                g, self.order, self.count, known, upper, self.rules
            )
        )
        found: Floats = nearest(g.nodes[far][listed], known)
        return found if proved else None

    def _climb(self, known: Floats, cell: float, still: float, slack: float) -> bool:
        """Move f until a pass moves it by at most ``still``.

        Returns whether it came to rest, somewhere by more than ``slack`` within what is
        known. Raises TimeoutError where time is up.
        """
        g = self.memory.graph
        far = "upper" if self.upper else "lower"
        work = float(g.nodes["size"][self.listed].sum())
        every = int(max(1.0, LOOK_WORK / work))
        for number in range(int(min(MOST_PASSES, max(10.0, MOST_WORK / work)))):
            moved = self.closing_loops.climb(
                g, self.order, self.count, known, self.upper, cell, self.rules
            )
            self._work += work
            if moved <= still:
                return True
            if number % every == 0:
                if float(np.abs(known - g.nodes[far][self.listed]).max()) <= slack:
                    return False
                if self.over() is not None:
                    raise TimeoutError
        return False
