"""The part of the memory that matters for one query, and sweeps over it.

The region is the list of nodes that the query has met, in the order of
discovery. A sweep moves their bounds (``sweeps_kernel`` defines it, and proves
that any number of them is right), so that only time decides how many there are.
Between two rounds a query sweeps until one closes little of the width; before
it ends, until a scan moves nothing.

This file decides which nodes are listed and when sweeps end. There is one loop
of sweeps (``Sweeps``) for all kinds of problems, with three rules for the end,
one per region:

  discount   (``Region``) a sweep closes little; what is left shrinks by gamma each time
  horizon    (``layers``) one pass over the layers, from the deepest up, is final
  totals     (``total_sweeps``) a sweep closes little, then ``close`` proves by induction
             bounds that sweeps alone do not reach

With ``bound="pooled"`` (``pooled``) sweeps are those of a discount, and
``close`` narrows the requested state by the unseen mass of all pairs together.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.certified.bounds.base import (
    KEEP,
    SCAN,
    SWEPT,
    WALK,
    Bound,
    BoundRules,
)
from smoothcruiser.certified.graph import SAMPLED, Graph, empty_graph
from smoothcruiser.certified.query_limits import QueryLimits
from smoothcruiser.certified.query_progress import CLOSING, SETTLED, QueryProgress
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.sweeps.compiled_loops import make_loops, not_compiled
from smoothcruiser.certified.sweeps.counted_model import CountedNodes
from smoothcruiser.certified.sweeps.ranges import checked_scale
from smoothcruiser.certified.sweeps.sweeps_kernel import SweepRules
from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.declaration_checks import is_undiscounted
from smoothcruiser.problem.model.known_outcomes import has_rows
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.problem.problem import Problem
from smoothcruiser.states.table import copy_larger

TIE = 0.04  # see ``SweepRules.tie``; between 0.02 and 0.06 it matters little


class Region:
    """The nodes that a query lists, and the loops that run over them."""

    # sweeps end when one closes less than this share of the width (weighted by visits)
    little = 0.01
    unfinished = False  # whether steering was left for want of time
    most_sweeps = 400  # of a round; the rest follows in the next one, or at the end
    closes = False  # whether sweeps leave gaps that ``close`` may close
    completes = False  # whether ``urgent_jobs`` may complete supports

    def __init__(
        self, problem: Problem, memory: Memory, bound: Bound, radius_scale: float
    ) -> None:
        self.problem, self.memory, self.bound = problem, memory, bound
        self.loops = make_loops(problem.operator, bound)
        self.rules = _rules(problem, radius_scale)
        # why to stop, if there are so many seconds of work ahead; None: go on
        self.stop_reason: Callable[..., object] = _never
        self.order: Ints = np.zeros(0, dtype=np.int64)
        self.count = 0
        self.counted = CountedNodes(self)

    def warm(self) -> None:
        """Compile the loops, or load them, by calls on an empty graph."""
        g, loops = empty_graph(self.bound.fields), self.loops
        no_places, no_values = np.zeros(0, dtype=np.int64), np.zeros(0)
        batch = no_places, no_places, no_places, no_values
        loops.record(g, *batch, 0, 0.0, 1.0, np.uint64(0))
        loops.rehash(g)
        loops.repack(g, g.entries)
        loops.allocate(g, no_places, 0, 0, 0.0, 1, no_places, no_places)
        try:
            self.warm_sweeps(g)
        except InvalidInput:
            raise
        except Exception as error:  # operators are compiled before they are put in
            raise not_compiled(self.bound, error) from error
        self.counted.warm(g)

    def warm_sweeps(self, g: Graph) -> None:
        """Compile the loops of this region alone."""
        no_places, no_values = np.zeros(0, dtype=np.int64), np.zeros(0)
        self.loops.sweep(g, no_places, 0, KEEP, self.rules)
        self.loops.reach(g, no_places, 0)
        self.loops.spread(g, no_places, 0, no_values, 0.0, 0, self.rules)

    def steer_far(self, wish: float | None) -> None:
        """Steer samples to the far end alone, or to both where ``wish`` is None.

        The far end is the upper one of the max player.
        """
        near, wish = (1.0, -math.inf) if wish is None else (0.0, wish)
        self.rules = self.rules._replace(near=near, wish=wish)

    @property
    def listed_nodes(self) -> Ints:
        """The nodes listed so far, the requested one first."""
        return self.order[: self.count]

    @property
    def widths(self) -> Floats:
        """U - L of the listed nodes."""
        nodes = self.memory.graph.nodes[self.listed_nodes]
        node_widths: Floats = nodes["upper"] - nodes["lower"]
        return node_widths

    @property
    def num_samples(self) -> float:
        """The number of samples of the pairs of listed nodes."""
        g, num_pairs = self.memory.graph, self.memory.num_pairs
        in_region = g.nodes["listed"][g.pairs["node"][:num_pairs]] == 1
        return float(g.pairs["total"][:num_pairs][in_region].sum())

    def close(self, last: bool = False) -> bool:
        """Close the gaps that sweeps leave; False where ``stop_reason`` gave one."""
        raise NotImplementedError

    def urgent_jobs(self, calls: int) -> tuple[Ints, Ints] | None:
        """Jobs that come before all others, of about ``calls`` samples; None: none."""
        raise NotImplementedError

    def sections(self) -> dict[str, Any]:
        """The sections of a snapshot beside the graph and the list of nodes."""
        return {}

    def read_sections(
        self, sections: dict[str, Any], require: Callable[[bool, str], None]
    ) -> None:
        """Restore the saved ``sections``; ``require`` refuses impossible contents."""

    def set_delta(self, delta: float) -> None:
        """Give the region its part of ``delta``; most have none."""

    def leave_round(self) -> None:
        """Note that a round was left before its end."""

    def note_samples(self) -> None:
        """Note that pairs are sampled: induction needs bounds for every function."""
        self.closes = self.closes and self.bound.every_function

    def mark_last(self) -> None:
        """Prepare pairs for the next round, where no samples wait; most need nothing."""

    def show_whole(self, node: int) -> bool:
        """Make a node and its pairs hold the bounds that a query about it has.

        Returns False where these are no narrower than those of the facts.
        """
        return True

    def start(self, root: int) -> None:
        """Begin the list with the requested node."""
        g, num_nodes = self.memory.graph, self.memory.num_nodes
        for field_name in ("listed", "mass", "residual"):
            g.nodes[field_name][:num_nodes] = 0
        g.nodes["listed"][root], g.nodes["stale"][:num_nodes] = 1, SAMPLED
        self.order = np.zeros(max(64, num_nodes), dtype=np.int64)
        self.order[0], self.count = root, 1

    def make_room(self) -> None:
        """Make room in the list for every node."""
        self.order = copy_larger(self.order, self.memory.num_nodes)

    def list_reach(self) -> None:
        """List every node that the requested one leads to, even those without flow."""
        self.make_room()
        self.count = int(self.loops.reach(self.memory.graph, self.order, self.count))

    def spread(self, source: Floats, least_width: float, passes: int) -> None:
        """Bring the flow up to date, and list the nodes that it meets.

        The flow starts with the requested node's actions in proportion to
        ``source``.
        """
        self.make_room()
        self.count = int(
            self.loops.spread(
                self.memory.graph,
                self.order,
                self.count,
                source,
                least_width,
                passes,
                self.rules,
            )
        )

    def allocate(
        self, calls: int, floor: float, first_batch: int, pairs: Ints, counts: Ints
    ) -> int:
        """Write the jobs of a round, and return their number."""
        jobs = calls, floor, first_batch, pairs, counts
        return int(self.loops.allocate(self.view, self.order, self.count, *jobs))

    @property
    def view(self) -> Graph:
        """The graph that samples are steered by."""
        return self.memory.graph

    def sweep(self, tune: int) -> float:
        """Sweep over the listed nodes that can change; return by how much they closed.

        The sum is weighted by visits. Where the bounds of a node exclude each
        other, it is -1 minus that node.
        """
        g = self.memory.graph
        return float(self.loops.sweep(g, self.order, self.count, tune, self.rules))


def _never(seconds_needed: float = 0.0) -> None:
    """No reason to stop."""


def _rules(problem: Problem, radius_scale: float) -> SweepRules:
    facts = problem.facts
    K = facts.num_actions
    num_steps = 1 if problem.horizon is None else problem.horizon
    return SweepRules(
        bound=BoundRules(
            discount=facts.discount,
            scale=checked_scale(facts),
            min_probability=problem.min_probability or 0.0,
            union=math.log(num_steps),
        ),
        operator=problem.operator.code,
        temperature=float(problem.operator.strength),
        shrink=float(radius_scale),
        # far bounds tie at the edge of the range until much is known
        tie=TIE if problem.horizon is not None or is_undiscounted(problem) else 0.0,
        near=1.0,
        wish=-math.inf,
        priors=np.array(problem.operator.weights(K)),
        q=np.zeros(K),
        w=np.ones(K),
        out=np.zeros(K),
    )


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

    def end_reason(self, position: QueryProgress, limits: QueryLimits) -> str | None:
        """The reason why a narrow query ends: epsilon, or the limit of rounding.

        None where it is not narrow enough.
        """
        interval = self.memory.interval(position.root)
        half_width = self.memory.half_width(position.root, limits.target)
        goal = limits.goal_at(interval)
        if goal is None or half_width > goal:
            return None
        return "epsilon" if limits.is_reached(half_width, interval) else "rounding"

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
        self.region.stop_reason = limits.control.check
        while position.swept != SETTLED and position.swept < self.region.most_sweeps:
            if position.swept == CLOSING:
                if self.region.closes and not self._close():
                    return
                position.swept = SETTLED
            else:
                closed = self._sweep(WALK if position.swept == 0 else KEEP)
                position.swept += 1
                width = 2.0 * self.memory.half_width(position.root, limits.target)
                if self.end_reason(position, limits) is not None:
                    position.swept = SETTLED
                elif closed <= self.region.little * width:
                    position.swept = CLOSING if self.region.closes else SETTLED
                elif limits.control.check(seconds_needed=self.seconds) is not None:
                    return
            if pause is not None:
                pause(position)

    def finish(self, position: QueryProgress, limits: QueryLimits) -> None:
        """Sweep all nodes in reach until a scan moves none of them, or time is up.

        Sweeps are cheap and make full use of the samples. The widest node then
        satisfies width <= gamma width + radii + the move of the last sweep, so stopping
        here adds at most ``SWEPT`` of the goal.
        """
        self.region.stop_reason = limits.control.check
        self.region.list_reach()
        tune = SCAN
        while (
            self.end_reason(position, limits) is None
            and limits.control.check(seconds_needed=self.seconds) is None
        ):
            widths_before = self.region.widths
            self._sweep(tune)
            goal = limits.goal_at(self.memory.interval(position.root))
            if goal is None:
                goal = self.memory.half_width(position.root, limits.target)
            if self.region.closes:
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
