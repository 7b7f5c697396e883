"""The part of the memory that matters for one query at discount 1 without a horizon.

Sweeps are those with a discount: from the bounds that the declarations give
they move towards V, and they always hold. From above (rewards that are not
negative) they can stop short of V where play can go round for ever. Where every
bound of a pair holds for all functions and supports can be complete, ``close``
finds bounds that come down there too, and proves them (``layers_kernel``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.certified.bounds.base import WALK, Bound
from smoothcruiser.certified.bounds.counts import missing
from smoothcruiser.certified.graph import SAMPLED, Graph
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.sweeps.region import Region
from smoothcruiser.certified.sweeps.sweeps_kernel import Lines
from smoothcruiser.problem.model.known_outcomes import has_rows
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.problem.problem import Problem

Jobs = tuple[Ints, Ints]  # pairs, and the samples of each

# of the answer's width: added to f so that induction succeeds
SLACK_SHARE = 0.02
CELLS = 4096  # of the grid, in that slack
STILL = 1e-4  # of the slack: f has come to rest when a pass moves it less
MOST_PASSES = 20_000
PUSHES = 64  # passes between two sweeps that update only deciding pairs
PUSHED = 1e-6  # of the answer's width: less is not worth a further pass
# passes times pairs, at about 0.1 microseconds each: in all, and between two looks at
# the clock
MOST_WORK, LOOK_WORK = 1e7, 2e5
NARROWEST = 1e-7  # of the largest value in sight
# rounds of tangents, and passes over them times pairs, at about 0.01 microseconds
# each: in all, and between two looks at the clock
MOST_TANGENTS, MOST_LINES, LOOK_LINES = 12, 1e7, 2e6
# samples and width when it was last decided whether supports come first, by how much a
# steered sample narrowed the answer before (-1: not known), and the decision
UNPACED = 0.0, 0.0, -1.0, 0.0
LEAST_SPAN = 0.1  # of the samples: so many new ones tell how much they narrow
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
        is_exact = problem.deterministic or has_rows(problem)
        holds_always = is_exact or (
            bound.every_function and problem.min_probability is not None
        )
        # whether V is the least fixed point from 0 upwards, or the greatest downwards
        self.upper = low >= 0.0
        self.closes = (
            holds_always and (low >= 0.0 or high <= 0.0) and radius_scale == 1.0
        )
        # whether supports can be complete, and sampled until they are
        field_names = [field_name for field_name, _ in bound.fields]
        self.completes = self.closes and not is_exact and "law_found" in field_names
        self.failed_at = 0.0  # samples with which ``close`` took long in vain
        self._work = 0.0  # pairs that it has updated
        self.pace = UNPACED

    def warm_sweeps(self, g: Graph) -> None:  # noqa: D102
        super().warm_sweeps(g)
        order, no_values = np.zeros(0, dtype=np.int64), np.zeros(0)
        loops, rules = self.loops, self.rules
        loops.push(g, order, 0, True, rules)
        if self.closes:
            lines = Lines(no_values, no_values, order, no_values)
            loops.straighten(g, order, 0, True, True, lines, rules)
            loops.follow(g, order, 0, True, 0, 0.0, lines)
            loops.climb(g, order, 0, no_values, True, 1.0, rules)
            loops.is_inductive(g, order, 0, no_values, True, rules)

    def start(self, root: int) -> None:
        """Begin the list with the requested node."""
        super().start(root)
        self.failed_at, self.pace = 0.0, UNPACED

    def sections(self) -> dict[str, Any]:
        """When closing was tried in vain, and the pace that steering compares with."""
        return {"closing": np.array([self.failed_at, *self.pace])}

    def read_sections(
        self, sections: dict[str, Any], require: Callable[[bool, str], None]
    ) -> None:
        """Restore the numbers that ``sections`` had written."""
        saved_numbers = np.frombuffer(sections["closing"], np.float64)
        require(
            len(saved_numbers) == 5 and bool(np.isfinite(saved_numbers).all()),
            "it cannot close",
        )
        self.failed_at, *pace = saved_numbers.tolist()
        self.pace = (pace[0], pace[1], pace[2], pace[3])

    def sweep(self, tune: int) -> float:
        """Sweep once over the listed nodes, and push their bounds on in between."""
        # pushing and closing move bounds between two sweeps
        self.memory.graph.nodes["stale"][self.listed_nodes] |= SAMPLED
        closed = super().sweep(tune)
        if closed < 0.0:
            return closed
        g = self.memory.graph
        for upper in (True, False):
            for _ in range(PUSHES):
                node = g.nodes[self.order[0]]
                little_width = PUSHED * float(node["upper"] - node["lower"])
                largest_move = self.loops.push(
                    g, self.order, self.count, upper, self.rules
                )
                if largest_move <= little_width:
                    break
        crossed_places = np.flatnonzero(self.widths < 0.0)
        if len(crossed_places):
            return float(-1 - self.listed_nodes[crossed_places[0]])
        return closed

    def close(self, last: bool = False) -> bool:
        """Bring the far bounds of all listed nodes down, as far as induction proves.

        Where that took more updates than there are samples, in vain, it is not tried
        again before there are many more samples, or for the ``last`` time.
        Returns False where it was left because ``stop_reason`` gave one.
        """
        num_samples = self.num_samples
        must_wait = num_samples < MORE_SAMPLES * self.failed_at and not last
        if must_wait:
            return True
        g, listed, upper = self.memory.graph, self.listed_nodes, self.upper
        far_side, near_side = ("upper", "lower") if upper else ("lower", "upper")
        known_bounds = g.nodes[far_side][listed].copy()
        width = abs(float(known_bounds[0] - g.nodes[near_side][listed[0]]))
        if width <= NARROWEST * self.rules.bound.scale:  # the grid would be rounding
            return True
        self._work = 0.0
        field_names = [field_name for field_name, _ in self.bound.fields]
        kept_fields = g.pairs[field_names].copy()
        try:
            proved_bounds = self._prove_bounds(
                far_side, near_side, SLACK_SHARE * width, known_bounds
            )
        except TimeoutError:
            g.nodes[far_side][listed], g.pairs[field_names] = known_bounds, kept_fields
            return False
        g.nodes[far_side][listed] = (
            known_bounds if proved_bounds is None else proved_bounds
        )
        if proved_bounds is None:
            g.pairs[field_names] = kept_fields
        else:
            self.sweep(WALK)
        largest_gain = float(np.abs(known_bounds - g.nodes[far_side][listed]).max())
        in_vain = largest_gain <= SLACK_SHARE * width and self._work > num_samples
        self.failed_at = num_samples if in_vain else 0.0
        return True

    def urgent_jobs(self, calls: int) -> Jobs | None:
        """Samples that complete supports, where that narrows the answer faster.

        It is compared with the effect of the last steered samples. There are none, and
        it is ``unfinished``, where time is up before this is known.
        """
        g, num_pairs = self.memory.graph, self.memory.num_pairs
        node = g.nodes[self.order[0]]
        num_samples = float(g.pairs["total"][:num_pairs].sum())
        width = float(node["upper"] - node["lower"])
        samples_before, width_before, rate, completing = self.pace
        samples_listed = self.num_samples
        self.unfinished, jobs = False, None
        if num_samples - samples_before < LEAST_SPAN * samples_listed:
            return None
        if samples_before > 0.0:  # samples that complete may narrow it only in the end
            new_rate = max(0.0, width_before - width) / (num_samples - samples_before)
            rate = max(rate, new_rate) if completing else new_rate
        if rate >= 0.0:
            try:
                jobs = self._completing(calls, samples_listed, width, rate)
            except TimeoutError:
                self.unfinished = True
                return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.pace = num_samples, width, rate, float(jobs is not None)
        return jobs

    def _completing(
        self, calls: int, samples: float, width: float, rate: float
    ) -> Jobs | None:
        """The ``urgent_jobs`` where samples so far narrow the answer by ``rate``."""
        g, least_probability = self.memory.graph, self.problem.min_probability
        assert least_probability is not None
        owner_nodes = g.pairs["node"][: self.memory.num_pairs]
        pairs = np.flatnonzero(g.nodes["listed"][owner_nodes] == 1)
        samples_missing = missing(g.pairs[pairs], least_probability)
        pairs = pairs[samples_missing > 0.0]
        samples_missing = samples_missing[samples_missing > 0.0]
        samples_needed = float(samples_missing.sum())
        if (
            not 0.0 < samples_needed <= WORTH_MORE * samples
            or samples_needed * rate > width
        ):
            return None
        if self._if_complete() < samples_needed * rate + SLACK_SHARE * width:
            return None
        by_need = np.argsort(samples_missing, kind="stable")
        num_fitting = max(
            1, int(np.searchsorted(np.cumsum(samples_missing[by_need]), calls))
        )
        chosen_places = by_need[:num_fitting]
        return pairs[chosen_places], np.minimum(
            samples_missing[chosen_places], calls
        ).astype(np.int64)

    def _if_complete(self) -> float:
        """How much the far bound of the answer would move if all supports were complete.

        Raises TimeoutError where time is up.
        """
        g, listed, upper = self.memory.graph, self.listed_nodes, self.upper
        far_side, near_side = ("upper", "lower") if upper else ("lower", "upper")
        field_names = [field_name for field_name, _ in self.bound.fields]
        kept_fields = g.pairs[field_names].copy()
        known_bounds = g.nodes[far_side][listed].copy()
        is_incomplete = (g.pairs["law_complete"] == 0) & (g.pairs["total"] > 0.0)
        g.pairs["law_complete"][is_incomplete] = 1
        width = abs(float(known_bounds[0] - g.nodes[near_side][listed[0]]))
        g.nodes[far_side][listed] = g.nodes[near_side][listed]
        try:
            self._solve(far_side, STILL * SLACK_SHARE * width)
            return abs(float(g.nodes[far_side][listed[0]] - known_bounds[0]))
        finally:
            g.pairs[field_names], g.nodes[far_side][listed] = kept_fields, known_bounds

    def _prove_bounds(
        self, far: str, near: str, slack: float, known_bounds: Floats
    ) -> Floats | None:
        """Far bounds that hold by induction; None where none better were found."""
        g, listed, upper = self.memory.graph, self.listed_nodes, self.upper
        pick_nearest, cell_width = np.minimum if upper else np.maximum, slack / CELLS
        g.nodes[far][listed] = g.nodes[near][listed]
        self._solve(far, STILL * slack)
        moved_bounds = g.nodes[far][listed] + (slack if upper else -slack)
        if not np.any(
            moved_bounds < known_bounds if upper else moved_bounds > known_bounds
        ):
            return None
        away, pick_farthest = (
            (np.ceil, np.maximum) if upper else (np.floor, np.minimum)
        )
        grid_bounds = pick_farthest(cell_width * away(moved_bounds / cell_width), 0.0)
        g.nodes[far][listed] = pick_nearest(grid_bounds, known_bounds)
        is_proved = self._climb(known_bounds, cell_width) and (
            self.loops.is_inductive(
                g, self.order, self.count, known_bounds, upper, self.rules
            )
        )
        far_bounds: Floats = pick_nearest(g.nodes[far][listed], known_bounds)
        return far_bounds if is_proved else None

    def _solve(self, far: str, still: float) -> None:
        """Move f to where it comes to rest, by tangents (``sweeps_kernel``)."""
        g, listed, loops = self.memory.graph, self.listed_nodes, self.loops
        loop_arguments = (g, self.order, self.count, self.upper)
        num_pairs = float(g.nodes["size"][listed].sum())
        lines = Lines(
            np.zeros(len(g.pairs)),
            np.zeros(g.entries.size),
            np.zeros(g.entries.size, dtype=np.int64),
            g.nodes[far].copy(),
        )
        for turn in range(MOST_TANGENTS):
            loops.straighten(*loop_arguments, turn == 0, lines, self.rules)
            self._work += num_pairs
            passes_left = int(MOST_LINES / num_pairs) + 10
            passes_per_check = int(LOOK_LINES / num_pairs) + 1
            while passes_left > 0:
                num_passes = min(passes_per_check, passes_left)
                passes_done = loops.follow(
                    *loop_arguments, num_passes, 0.01 * still, lines
                )
                if self.stop_reason() is not None:
                    raise TimeoutError
                passes_left = (
                    0 if passes_done < num_passes else passes_left - num_passes
                )
            largest_move = float(
                np.abs(lines.value[listed] - g.nodes[far][listed]).max()
            )
            g.nodes[far][listed] = lines.value[listed]
            if turn > 0 and largest_move <= still:
                break

    def _climb(self, known_bounds: Floats, cell: float) -> bool:
        """Move f on the grid, away from V; whether it came to rest.

        Raises TimeoutError where time is up.
        """
        g = self.memory.graph
        pairs_per_pass = float(g.nodes["size"][self.listed_nodes].sum())
        check_every = int(max(1.0, LOOK_WORK / pairs_per_pass))
        for pass_number in range(
            int(min(MOST_PASSES, max(10.0, MOST_WORK / pairs_per_pass)))
        ):
            largest_move = self.loops.climb(
                g, self.order, self.count, known_bounds, self.upper, cell, self.rules
            )
            self._work += pairs_per_pass
            if largest_move == 0.0:
                return True
            if pass_number % check_every == 0 and self.stop_reason() is not None:
                raise TimeoutError
        return False
