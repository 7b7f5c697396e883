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

from smoothcruiser.certified.bounds.base import WALK, Bound
from smoothcruiser.certified.bounds.counts import missing
from smoothcruiser.certified.graph import SAMPLED, empty_graph
from smoothcruiser.certified.loops import make_closing_loops
from smoothcruiser.certified.memory import Memory
from smoothcruiser.certified.region import Region
from smoothcruiser.certified.solving_kernel import Lines
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.rows import has_rows
from smoothcruiser.problem.tabular import Floats, Ints

Jobs = tuple[Ints, Ints]  # pairs, and the samples of each

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
# rounds of tangents, and passes over them times pairs, at about 0.01 microseconds
# each: in all, and between two looks at the clock
MOST_TANGENTS, MOST_LINES, LOOK_LINES = 12, 1e7, 2e6
# samples and width when it was last decided whether supports come first, by how much a
# steered sample narrowed the answer before (-1: not known), and what was decided
UNPACED = 0.0, 0.0, -1.0, 0.0
LEAST_SPAN = 0.1  # of the samples: what tells how much they narrow
WORTH_MORE = 8.0  # so many times the samples so far may be spent on complete supports
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
        # whether supports can be complete, and sampled until they are
        fields = [name for name, _ in bound.fields]
        self.completes = self.closes and not exact and "law_found" in fields
        self.closing_loops = make_closing_loops(bound)
        self.failed_at = 0.0  # samples with which ``close`` took long in vain
        self._work = 0.0  # pairs that it has updated
        self.pace = UNPACED

    def warm(self) -> None:
        """Compile the loops, or load them."""
        super().warm()
        g, none = empty_graph(self.bound.fields), np.zeros(0)
        order = np.zeros(0, dtype=np.int64)
        loops, rules = self.closing_loops, self.rules
        loops.push(g, order, 0, True, rules)
        if self.closes:
            lines = Lines(none, none, order, none)
            loops.straighten(g, order, 0, True, True, lines, rules)
            loops.follow(g, order, 0, True, 0, 0.0, lines)
            loops.climb(g, order, 0, none, True, 1.0, rules)
            loops.is_inductive(g, order, 0, none, True, rules)

    def sample(self) -> None:
        """Note that pairs are sampled: induction needs bounds for every function."""
        self.closes = self.closes and self.bound.every_function

    def start(self, root: int) -> None:
        """Begin the list with the requested node."""
        super().start(root)
        self.failed_at, self.pace = 0.0, UNPACED

    def sections(self) -> dict[str, Any]:
        """When closing was tried in vain, and what steering compares with."""
        return {"closing": np.array([self.failed_at, *self.pace])}

    def read(self, parts: dict[str, Any], require: Callable[[bool, str], None]) -> None:
        """Take up what ``sections`` had written."""
        found = np.frombuffer(parts["closing"], np.float64)
        require(len(found) == 5 and bool(np.isfinite(found).all()), "it cannot close")
        self.failed_at, *pace = found.tolist()
        self.pace = (pace[0], pace[1], pace[2], pace[3])

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
        crossed = np.flatnonzero(self.widths < 0.0)
        return closed if len(crossed) == 0 else float(-1 - self.listed[crossed[0]])

    def close(self, last: bool = False) -> bool:
        """Bring the far bounds of all listed nodes down, as far as induction proves.

        Where that took more updates than there are samples, in vain, it is not tried
        again before there are many more samples, or for the ``last`` time.
        Returns False where it was left because ``over`` gave a reason.
        """
        samples = self.num_samples
        waits = samples < MORE_SAMPLES * self.failed_at and not last
        if not self.closes or waits:
            return True
        g, listed, upper = self.memory.graph, self.listed, self.upper
        far, near = ("upper", "lower") if upper else ("lower", "upper")
        known = g.nodes[far][listed].copy()
        width = abs(float(known[0] - g.nodes[near][listed[0]]))
        if width <= NARROWEST * self.rules.bound.scale:  # the grid would be rounding
            return True
        self._work = 0.0
        names = [name for name, _ in self.bound.fields]
        kept = g.pairs[names].copy()
        try:
            found = self._found(far, near, SLACK_SHARE * width, known)
        except TimeoutError:
            g.nodes[far][listed], g.pairs[names] = known, kept
            return False
        g.nodes[far][listed] = known if found is None else found
        if found is None:
            g.pairs[names] = kept
        else:
            self.sweep(WALK)
        gained = float(np.abs(known - g.nodes[far][listed]).max())
        vain = gained <= SLACK_SHARE * width and self._work > samples
        self.failed_at = samples if vain else 0.0
        return True

    def urgent(self, calls: int) -> Jobs | None:
        """Samples that complete supports, where that narrows the answer faster.

        It is compared with what the last samples that were steered did. There are
        none, and it is ``unfinished``, where time is up before this is known.
        """
        g, size = self.memory.graph, self.memory.num_pairs
        node, samples = g.nodes[self.order[0]], float(g.pairs["total"][:size].sum())
        width = float(node["upper"] - node["lower"])
        before, was, rate, completing = self.pace
        listed = self.num_samples
        self.unfinished, jobs = False, None
        if not self.completes or samples - before < LEAST_SPAN * listed:
            return None
        if before > 0.0:  # samples that complete may narrow it only in the end
            found = max(0.0, was - width) / (samples - before)
            rate = max(rate, found) if completing else found
        if rate >= 0.0:
            try:
                jobs = self._completing(calls, listed, width, rate)
            except TimeoutError:
                self.unfinished = True
                return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.pace = samples, width, rate, float(jobs is not None)
        return jobs

    def _completing(
        self, calls: int, samples: float, width: float, rate: float
    ) -> Jobs | None:
        """The jobs of ``urgent`` where samples so far narrow the answer by ``rate``."""
        g, least = self.memory.graph, self.problem.min_probability
        assert least is not None
        owner = g.pairs["node"][: self.memory.num_pairs]
        pairs = np.flatnonzero(g.nodes["listed"][owner] == 1)
        short = missing(g.pairs[pairs], least)
        pairs, short = pairs[short > 0.0], short[short > 0.0]
        need = float(short.sum())
        if not 0.0 < need <= WORTH_MORE * samples or need * rate > width:
            return None
        if self._if_complete() < need * rate + SLACK_SHARE * width:
            return None
        first = np.argsort(short, kind="stable")
        fit = max(1, int(np.searchsorted(np.cumsum(short[first]), calls)))
        chosen = first[:fit]
        return pairs[chosen], np.minimum(short[chosen], calls).astype(np.int64)

    def _if_complete(self) -> float:
        """How much the far bound of the answer would move if all supports were complete.

        Raises TimeoutError where time is up.
        """
        g, listed, upper = self.memory.graph, self.listed, self.upper
        far, near = ("upper", "lower") if upper else ("lower", "upper")
        names = [name for name, _ in self.bound.fields]
        kept, known = g.pairs[names].copy(), g.nodes[far][listed].copy()
        seen = (g.pairs["law_complete"] == 0) & (g.pairs["total"] > 0.0)
        g.pairs["law_complete"][seen] = 1
        width = abs(float(known[0] - g.nodes[near][listed[0]]))
        g.nodes[far][listed] = g.nodes[near][listed]
        try:
            self._solve(far, STILL * SLACK_SHARE * width)
            return abs(float(g.nodes[far][listed[0]] - known[0]))
        finally:
            g.pairs[names], g.nodes[far][listed] = kept, known

    def _found(self, far: str, near: str, slack: float, known: Floats) -> Floats | None:
        """Far bounds that hold by induction; None where none better were found."""
        g, listed, upper = self.memory.graph, self.listed, self.upper
        nearest, cell = np.minimum if upper else np.maximum, slack / CELLS
        g.nodes[far][listed] = g.nodes[near][listed]
        self._solve(far, STILL * slack)
        moved = g.nodes[far][listed] + (slack if upper else -slack)
        if not np.any(moved < known if upper else moved > known):
            return None
        raised = cell * (np.ceil(moved / cell) if upper else np.floor(moved / cell))
        raised = np.maximum(raised, 0.0) if upper else np.minimum(raised, 0.0)
        g.nodes[far][listed] = nearest(raised, known)
        proved = self._climb(known, cell) and (
            self.closing_loops.is_inductive(
                g, self.order, self.count, known, upper, self.rules
            )
        )
        found: Floats = nearest(g.nodes[far][listed], known)
        return found if proved else None

    def _solve(self, far: str, still: float) -> None:
        """Move f to where it comes to rest, by tangents (``solving_kernel``)."""
        g, listed, loops = self.memory.graph, self.listed, self.closing_loops
        args = (g, self.order, self.count, self.upper)
        pairs = float(g.nodes["size"][listed].sum())
        lines = Lines(
            np.zeros(len(g.pairs)),
            np.zeros(len(g.entries)),
            np.zeros(len(g.entries), dtype=np.int64),
            g.nodes[far].copy(),
        )
        for turn in range(MOST_TANGENTS):
            loops.straighten(*args, turn == 0, lines, self.rules)
            self._work += pairs
            left, some = int(MOST_LINES / pairs) + 10, int(LOOK_LINES / pairs) + 1
            while left > 0:
                passes = min(some, left)
                done = loops.follow(*args, passes, 0.01 * still, lines)
                if self.over() is not None:
                    raise TimeoutError
                left = 0 if done < passes else left - passes
            moved = float(np.abs(lines.value[listed] - g.nodes[far][listed]).max())
            g.nodes[far][listed] = lines.value[listed]
            if turn > 0 and moved <= still:
                break

    def _climb(self, known: Floats, cell: float) -> bool:
        """Move f on the grid, away from V; whether it came to rest.

        Raises TimeoutError where time is up.
        """
        g = self.memory.graph
        work = float(g.nodes["size"][self.listed].sum())
        every = int(max(1.0, LOOK_WORK / work))
        for number in range(int(min(MOST_PASSES, max(10.0, MOST_WORK / work)))):
            moved = self.closing_loops.climb(
                g, self.order, self.count, known, self.upper, cell, self.rules
            )
            self._work += work
            if moved == 0.0:
                return True
            if number % every == 0 and self.over() is not None:
                raise TimeoutError
        return False
