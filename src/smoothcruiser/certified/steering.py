"""Which pairs to sample next, and how often.

Samples go where they narrow the answer most, and in equal numbers where
steering cannot tell.

A job is a pair with a number of samples; a round is a list of jobs. The loops
behind it are in ``steering_kernel``. Nothing here can break a bound.
"""

from __future__ import annotations

import math

import numpy as np

from smoothcruiser.certified.price_forecast import EqualSamples
from smoothcruiser.certified.query_limits import QueryLimits
from smoothcruiser.certified.sweeps.region import Region
from smoothcruiser.certified.sweeps.steering_kernel import FIRST_BATCH, MOST_GROWTH
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.problem.problem import Problem

Jobs = tuple[Ints, Ints]  # pairs, and the samples of each

GROWTH = 0.25  # calls of a round, as a share of those the query's pairs have
# Near the goal. Widths decrease no faster than 1/n, so the share width/epsilon - 1
# does not overshoot.
LEAST_GROWTH = 0.04
# Above this share of the widest interval there is nothing to steer by yet, and calls
# double.
UNTOLD = 0.8
# A sample has to narrow the answer by this share of width / (samples so far). In a
# balanced allocation the marginal gain is width/n (radii that decrease like 1/n) or
# width/(2n) (like 1/sqrt(n)). A pair with a far smaller gain has more samples than it
# needs.
WORTH = 0.25
LEAST_CALLS = 256  # of a round, so that the first levels are not met one by one
LEAST_NEW = 32  # pairs that a round tries where one sample is exact
# per round; masses are kept from round to round, so they converge over a few of them
SPREAD_PASSES = 6
# with deterministic=True the first 8 pairs and every 16th are sampled twice
CHECKED_FIRST, CHECKED_EVERY = 8, 16
SPREAD_SHARE = 0.02  # of the width: flow that matters less in all is not passed on


class Steering:
    """Chooses the jobs of one memory, and counts the calls that it steered."""

    def __init__(self, problem: Problem, region: Region, *, exact: bool) -> None:
        self.problem, self.region, self.memory = problem, region, region.memory
        self.exact = exact
        self.first_batch = 1 if exact else FIRST_BATCH
        self.num_steered = 0  # calls of the current query
        self.num_checked = 0  # pairs of a deterministic problem, sampled twice

    def begin_sampling(self) -> None:
        """Go on with samples beside rows of a known model."""
        self.exact, self.first_batch = False, FIRST_BATCH

    def next_calls(self, root: int, limits: QueryLimits, drawn_pairs: int) -> int:
        """Return the number of calls of the next round, a share of those so far."""
        if self.exact:
            return max(LEAST_NEW, int(GROWTH * drawn_pairs))
        node = self.memory.graph.nodes[root]
        goal = limits.goal_at(self.memory.interval(root))
        half_width = self.memory.half_width(root, limits.target)
        if half_width > UNTOLD * 0.5 * float(node["q_high"] - node["q_low"]):
            growth = 1.0
        elif not goal:
            growth = GROWTH
        else:
            growth = min(GROWTH, max(LEAST_GROWTH, half_width / goal - 1.0))
        return max(LEAST_CALLS, int(growth * self.region.num_samples))

    def num_steerable(self, limits: QueryLimits, calls: int) -> int:
        """Return how many of the calls may be steered.

        With those before, they are no more than equal samples would certainly
        need.
        """
        if limits.equal is None:
            return calls
        return limits.equal.steerable(self.num_steered, calls, self.memory.num_pairs)

    def steered_jobs(self, root: int, limits: QueryLimits, calls: int) -> Jobs:
        """Return at most ``calls`` samples, where they narrow the answer most."""
        region, memory = self.region, self.memory
        width = 2.0 * memory.half_width(root, limits.target)
        if region.completes:
            urgent_jobs = region.urgent_jobs(calls)
            if urgent_jobs is not None:
                return urgent_jobs
        region.spread(
            self._source(root, limits),
            SPREAD_SHARE * width / region.count,
            SPREAD_PASSES,
        )
        if region.unfinished:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        jobs = np.zeros((2, memory.num_pairs), dtype=np.int64)
        gain_floor = 0.0 if self.exact else self._floor(root, limits)
        num_jobs = region.allocate(calls, gain_floor, self.first_batch, *jobs)
        return jobs[0, :num_jobs], jobs[1, :num_jobs]

    def _floor(self, root: int, limits: QueryLimits) -> float:
        """Return the least gain of a sample that is worth a call, where any is.

        Radii of slope/n, weighted by flow, add up to the goal where every gain
        flow * slope/n**2 is (goal / sum of sqrt(flow * slope))**2. While some pair
        cannot catch up with that in one round, those that have it wait.
        """
        width = 2.0 * self.memory.half_width(root, limits.target)
        gain_floor = WORTH * width / max(1.0, self.region.num_samples)
        goal = limits.goal_at(self.memory.interval(root))
        if goal is None:
            return gain_floor
        g, num_pairs = self.region.view, self.memory.num_pairs
        pairs = g.pairs[:num_pairs]
        in_region = g.nodes["listed"][pairs["node"]] == 1
        gains, n = pairs["gain"][in_region], pairs["total"][in_region]
        gain_roots = np.sqrt(np.maximum(gains, 0.0)) * np.maximum(n, 2.0 * FIRST_BATCH)
        roots_sum = float(gain_roots.sum())
        enough_gain = (2.0 * goal / roots_sum) ** 2 if roots_sum > 0.0 else 0.0
        is_late = (
            float(gains.max(initial=0.0)) > (1.0 + MOST_GROWTH) ** 2 * enough_gain
        )
        return max(gain_floor, enough_gain) if is_late else gain_floor

    def equal_jobs(self, equal_samples: EqualSamples | None, calls_left: int) -> Jobs:
        """Return samples for the pairs in reach that have fewest, up to twice as many.

        They continue up to the number that is certainly enough or, where that
        is None, for pairs that have a radius.
        """
        self.region.list_reach()
        g, num_pairs = self.memory.graph, self.memory.num_pairs
        known_pairs = g.pairs[:num_pairs]
        n = known_pairs["total"]
        target_count = math.inf
        if equal_samples is not None:
            target_count = float(equal_samples.samples_per_pair(num_pairs))
        owners = g.nodes[known_pairs["node"]]
        slopes = known_pairs["slope_up"] + known_pairs["slope_down"]
        open_ended = (
            np.where(n == 0.0, owners["q_high"] - owners["q_low"], slopes) > 0.0
        )
        # a row of a known model is read once
        is_exact = (known_pairs["cost"] == 0.0) & (n > 0.0)
        is_short = (owners["listed"] == 1) & (
            open_ended if equal_samples is None else (n < target_count) & ~is_exact
        )
        if not is_short.any():
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        target_count = min(
            target_count, max(float(self.first_batch), 2.0 * float(n[is_short].min()))
        )
        pairs = np.flatnonzero(is_short & (n < target_count))
        counts = (target_count - n[pairs]).astype(np.int64)
        num_fitting = max(
            1, int(np.searchsorted(np.cumsum(counts), calls_left, side="right"))
        )
        return pairs[:num_fitting], np.minimum(counts[:num_fitting], calls_left)

    def add_checks(self, counts: Ints, drawn_pairs: int, calls_left: int) -> Ints:
        """Return the samples of new pairs where one is exact, some of them checked.

        A checked pair is sampled twice; none is where ``calls_left`` calls do not
        suffice for it.
        """
        k = drawn_pairs + 1 + np.arange(len(counts))
        sampled_twice = (k <= CHECKED_FIRST) | (k % CHECKED_EVERY == 0)
        checked_counts: Ints = counts + sampled_twice
        if checked_counts.sum() > calls_left:
            return counts
        self.num_checked += int(sampled_twice.sum())
        return checked_counts

    def _source(self, root: int, limits: QueryLimits) -> Floats:
        """Return the weights with which the requested state's actions matter.

        They are those of F, or those of the actions with intervals that are too wide.
        """
        pairs = self.memory.pairs_of(root)
        player = 1 if self.memory.graph.nodes["sign"][root] > 0 else 2
        if limits.target == "value":
            q_ends = pairs["q_upper"] if player == 1 else pairs["q_lower"]
            priors = self.memory.weights[pairs["action"]].tolist()
            return np.array(
                self.problem.operator.gradient(
                    q_ends.tolist(), player=player, weights=priors
                )
            )
        widths = pairs["q_upper"] - pairs["q_lower"]
        half_width = limits.goal_at(self.memory.interval(root))
        goal = 0.5 * float(widths.max()) if half_width is None else 2.0 * half_width
        is_wide = (widths > goal).astype(np.float64)
        action_shares: Floats = is_wide / max(1.0, is_wide.sum())
        return action_shares
