"""Outcomes that were never seen, paid for once by all pairs together.

A pair's own bound allows for outcomes that it never showed, and along a path
these allowances add up. Pooled over all pairs, only the worst pair pays. A pair
joins the pool between two rounds, when its outcomes seem to be known. From then
on each of its samples is predicted to be "new" or "seen", by one exchangeable
law for all pairs: Beta mixtures, with T samples of the pool and D discoveries
among them. With probability 1 - alpha, at all times,

    sum over r of m_r u_r <= B = log(1/alpha) - log of the mixture's probability,

u_r the mass that pair r has never shown, m_r its pooled samples that were no
discovery. ``pooled_kernel`` turns this into bounds on V and Q of the requested
state.

This file decides which pairs join, B, which pairs are considered, and how
samples are steered (no part of the promise). It is for one player with a
discount, and has to be requested: ``POOLED`` is the bound ``law`` with an
eighth of delta kept for the pool. Proofs: docs/pooled.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.certified.bounds.base import UNIT, Bound
from smoothcruiser.certified.bounds.law import POOLED_UNION
from smoothcruiser.certified.graph import MOVED, Graph
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.sweeps.memory_kernel import MANY_OUTCOMES
from smoothcruiser.certified.sweeps.pooled_kernel import PoolWork
from smoothcruiser.certified.sweeps.region import Region
from smoothcruiser.certified.sweeps.steering_kernel import MOST_GROWTH
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.problem.problem import Problem

# A pair joins with so many samples, and if each of its outcomes came so often: then a
# discovery is unlikely. Each one costs about log(T).
JOIN_SAMPLES, JOIN_WEIGHT = 24.0, 3.0
# Solving for every pair takes seconds beyond; pairs have their own bounds then.
MOST_POOLED = 500
# With so many samples it joins in any case: an outcome that came twice in them is rare.
JOIN_ANYWAY = 8.0 * JOIN_SAMPLES
# Beta(a, 1) laws of the rate of discoveries, and their weights. None in 1e5 samples
# costs 0.6, one 15, ten 95.
RATES: Floats = np.array([0.01, 0.1, 1.0, 10.0])
RATE_LOGS: Floats = np.log([0.7, 0.15, 0.1, 0.05])
B_ROUNDING = 1e-13
STILL = (
    0.002  # of the width: the part that policy iteration may leave, times 1 - gamma
)
INNER = 0.3  # of the width: the pool is steered by once known outcomes leave less
UNJOINED = 0.5  # of that: above it, only pairs that have not joined are sampled
LEAST_SHARE = 1.0 / 32.0  # of a pair's samples: a smaller job is not worth its time
POLICIES = 3  # tried for the lower bound
SELDOM = 1.3  # times the samples of the last time, where the pool does not pay
# of B: with two or three discoveries after pairs joined, more will come
MOST_PRICE = 25.0
MARGIN = 1.1  # by which it has to pay, in the root of calls
FIRST = 8.0 * math.sqrt(3.0)  # the samples that a pair without any is forecast with
LITTLE = 0.01  # of the width: a side that can gain no more is left alone
# of M - m: a pair with a larger bonus keeps its own bound
MOST_BONUS = 0.25
CHUNK = 32  # pairs between two looks at the clock


def log_price(samples: float, discoveries: float) -> float:
    """Return -log of the probability of ``discoveries`` among ``samples``, rounded up."""
    mixture_logs, largest_terms = [], 1.0
    for rate, weight in zip(RATES.tolist(), RATE_LOGS.tolist(), strict=True):
        log_terms = (
            math.lgamma(rate + discoveries),
            math.lgamma(1.0 + samples - discoveries),
            -math.lgamma(rate + 1.0 + samples),
            math.log(rate),
        )
        mixture_logs.append(weight + math.fsum(log_terms))
        largest_terms = max(largest_terms, sum(abs(x) for x in log_terms))
    largest_log = max(mixture_logs)
    log_mixture = largest_log + math.log(
        math.fsum(math.exp(x - largest_log) for x in mixture_logs)
    )
    return float(B_ROUNDING * (1.0 + largest_terms) - log_mixture)


class PooledRegion(Region):
    """The nodes that a query lists, with the unseen mass of all pairs together."""

    closes = True

    def __init__(
        self, problem: Problem, memory: Memory, bound: Bound, radius_scale: float
    ) -> None:
        super().__init__(problem, memory, bound, radius_scale)
        pooled_rules = self.rules.bound._replace(union=POOLED_UNION)
        self.rules = self.rules._replace(bound=pooled_rules)
        self.joined_total: Floats = np.zeros(
            0
        )  # by pair: samples when it joined, or 0
        self.joined_length: Ints = np.zeros(0, dtype=np.int64)
        self.was_left = self.void = False
        self.cost = math.inf  # log(1/alpha) of the pool
        facts = problem.facts
        num_steps = 1.0 / (1.0 - facts.discount)
        largest_step = facts.reward_bound + facts.regularizer_bound
        self.scale = self.rules.bound.scale + num_steps * largest_step
        # by side and pair: the most that its unseen mass may add
        self.effects: dict[float, Floats] = {}
        self.inner: dict[float, tuple[Floats, Floats]] = {}  # by side: W, Q
        self.num_helped = 0  # times that the requested interval was narrowed
        self.pays = False  # whether samples are steered by the pool
        self._seen_at = 0.0
        self._view: Graph | None = None

    # --- the pool -------------------------------------------------------------

    def set_delta(self, delta: float) -> None:
        """Give the pool its part of ``delta``."""
        self.cost = -math.log(self.bound.pool_share * delta)

    def leave_round(self) -> None:
        """Note that a round was left before its end: the pool takes no more samples."""
        self.was_left = True

    def mark_last(self) -> None:
        """Let pairs join before the next round; everything up to now is known."""
        self.void = self.void or self.was_left
        self._grow()
        if self.memory.num_pairs > MOST_POOLED:
            return
        g, num_pairs = self.memory.graph, self.memory.num_pairs
        pairs = g.pairs[:num_pairs]
        may_join = (self.joined_total[:num_pairs] == 0.0) & (
            pairs["total"] >= JOIN_SAMPLES
        )
        for p in np.flatnonzero(may_join & (pairs["length"] < MANY_OUTCOMES)).tolist():
            start = pairs["start"][p]
            weights = g.entries.weight[start : start + pairs["length"][p]]
            if weights.min() >= JOIN_WEIGHT or pairs["total"][p] >= JOIN_ANYWAY:
                self.joined_total[p] = pairs["total"][p]
                self.joined_length[p] = pairs["length"][p]

    def _grow(self) -> None:
        """Make room for every pair."""
        new_pairs = self.memory.num_pairs - len(self.joined_total)
        if new_pairs > 0:
            self.joined_total = np.append(self.joined_total, np.zeros(new_pairs))
            new_lengths = np.zeros(new_pairs, dtype=np.int64)
            self.joined_length = np.append(self.joined_length, new_lengths)

    def pool(self) -> tuple[float, Floats]:
        """B, and m_r of every pair: 0 where it is not in the pool."""
        self._grow()
        num_pairs = self.memory.num_pairs
        pairs = self.memory.graph.pairs[:num_pairs]
        joined = self.joined_total > 0.0
        samples = np.where(joined, pairs["total"] - self.joined_total, 0.0)
        discovered = np.where(joined, pairs["length"] - self.joined_length, 0)
        if self.void or np.any(joined & (pairs["length"] >= MANY_OUTCOMES)):
            return math.inf, np.zeros(num_pairs)
        total_samples, discoveries = float(samples.sum()), float(discovered.sum())
        return self.cost + log_price(total_samples, discoveries), samples - discovered

    # --- bounds of the requested state ----------------------------------------

    def warm_sweeps(self, g: Graph) -> None:  # noqa: D102
        super().warm_sweeps(g)
        loops, rules = self.loops, self.rules
        no_values, no_nodes = np.zeros(0), np.zeros(0, dtype=np.int64)
        pool_work = PoolWork(*(no_values,) * 4, no_nodes, *(no_values,) * 4)
        solve_arguments = (1.0, 1.0, 1.0, pool_work, rules)
        loops.prepare(g, no_nodes, 0, pool_work, rules)
        loops.gaps(g, no_nodes, 1.0, 0.5, no_values)
        loops.means(g, 0, True, rules.bound, no_values)
        loops.fix_policy(g, no_nodes, 0, pool_work, rules)
        loops.solve(g, no_nodes, 0, -1, 0.0, *solve_arguments)
        end_node = np.zeros(1, dtype=np.int64)  # the end, which has no actions
        loops.worst_pair(g, end_node, 0, no_nodes, *(no_values,) * 6, *solve_arguments)

    def start(self, root: int) -> None:
        """Begin the list with the requested node."""
        super().start(root)
        self.inner, self.effects, self.pays, self._seen_at = {}, {}, False, 0.0

    def sections(self) -> dict[str, Any]:
        """The pairs that joined and when, and the values that steer samples."""
        saved_arrays: dict[str, Any] = {
            "joined_total": self.joined_total,
            "joined_length": self.joined_length,
            "pool_state": np.array(
                [self.was_left, self.void, self.pays, self._seen_at], dtype=np.float64
            ),
        }
        for side in (1.0, -1.0):
            values, q = self.inner.get(side, (np.zeros(0), np.zeros(0)))
            effects = self.effects.get(side, np.zeros(0))
            for array_name, array in (
                ("values", values),
                ("q", q),
                ("effects", effects),
            ):
                saved_arrays[f"pool_{array_name}_{side:+.0f}"] = array
        return saved_arrays

    def read_sections(
        self, sections: dict[str, Any], require: Callable[[bool, str], None]
    ) -> None:
        """Restore the arrays that ``sections`` had written."""
        self.joined_total = np.frombuffer(sections["joined_total"], np.float64).copy()
        self.joined_length = np.frombuffer(sections["joined_length"], np.int64).copy()
        num_joined = len(self.joined_total)
        require(
            num_joined == len(self.joined_length)
            and num_joined <= self.memory.num_pairs,
            "its pool is none",
        )
        pairs = self.memory.graph.pairs[:num_joined]
        is_inside = (self.joined_total >= 0.0) & (self.joined_total <= pairs["total"])
        is_inside &= (self.joined_length >= 0) & (
            self.joined_length <= pairs["length"]
        )
        require(
            bool(np.all(is_inside)), "a pair joined its pool before it had samples"
        )
        pool_state = np.frombuffer(sections["pool_state"], np.float64).tolist()
        require(len(pool_state) == 4, "its pool is none")
        self.was_left, self.void, self.pays = (x != 0.0 for x in pool_state[:3])
        self._seen_at = pool_state[3]
        self.inner, self.effects = {}, {}
        for side in (1.0, -1.0):
            values, q, effects = (
                np.frombuffer(
                    sections[f"pool_{array_name}_{side:+.0f}"], np.float64
                ).copy()
                for array_name in ("values", "q", "effects")
            )
            values_fit = len(values) <= self.memory.num_nodes
            require(
                values_fit and max(len(q), len(effects)) <= self.memory.num_pairs,
                "its pool is none",
            )
            if len(values):
                self.inner[side], self.effects[side] = (values, q), effects

    def close(self, last: bool = False) -> bool:
        """Narrow the bounds of the requested state to those that the pool proves."""
        price, repeats = self.pool()
        num_samples = self.num_samples
        sample_factor = 1.0 if self.pays else SELDOM
        too_many = self.memory.num_pairs > MOST_POOLED
        if (
            too_many
            or not price < math.inf
            or num_samples <= sample_factor * self._seen_at
        ):
            return True
        self.list_reach()
        g, root = self.memory.graph, self.order[0]
        node, root_pairs = g.nodes[root], self.memory.pairs_of(root)
        bounds_by_side = {}
        for side in (1.0, -1.0):
            side_bounds = self._side(side, price, repeats)
            if side_bounds is None:
                return False
            bounds_by_side[side] = side_bounds
        self._seen_at = num_samples
        upper = np.minimum(
            bounds_by_side[1.0], np.append(node["upper"], root_pairs["q_upper"])
        )
        lower = np.maximum(
            -bounds_by_side[-1.0], np.append(node["lower"], root_pairs["q_lower"])
        )
        if np.all(lower <= upper):
            self.num_helped += bool(
                upper[0] < node["upper"] or lower[0] > node["lower"]
            )
            node["upper"], node["lower"] = upper[0], lower[0]
            root_pairs["q_upper"], root_pairs["q_lower"] = upper[1:], lower[1:]
            node["stale"] |= MOVED
        return True

    def _work(self, side: float, pooled: Ints) -> PoolWork:
        """Arrays for one side, beginning with the last bounds."""
        g, num_nodes, num_pairs = (
            self.memory.graph,
            self.memory.num_nodes,
            self.memory.num_pairs,
        )
        node_bounds = g.nodes["upper"] if side > 0.0 else -g.nodes["lower"]
        values = node_bounds[:num_nodes].copy()
        q = (g.pairs["q_upper"] if side > 0.0 else -g.pairs["q_lower"])[
            :num_pairs
        ].copy()
        values[0] = 0.0
        return PoolWork(
            values=values,
            backed=np.zeros(num_nodes),
            constant=np.zeros(num_nodes),
            q=q,
            pooled=pooled,
            offsets=np.zeros(num_pairs),
            policy=np.zeros(num_pairs),
            tangent=np.zeros(num_nodes),
            weights=np.zeros(int(g.sizes[0])),
        )

    def _side(self, side: float, price: float, repeats: Floats) -> Floats | None:
        """Side * V of the requested node and side * Q of its pairs, as bounded.

        None where ``stop_reason`` gave one.
        """
        g, num_pairs, loops = (self.memory.graph, self.memory.num_pairs, self.loops)
        rules, discount = self.rules, self.rules.bound.discount
        in_region = g.nodes["listed"][g.pairs["node"][:num_pairs]] == 1
        poolable_pairs = np.flatnonzero(in_region & (repeats >= 1.0))
        gaps = np.zeros(num_pairs)
        loops.gaps(g, poolable_pairs, side, discount, gaps)
        bonus = rules.shrink * gaps * price * (1.0 + 8.0 * UNIT)
        bonus /= np.maximum(repeats, 1.0)
        node = g.pairs["node"][:num_pairs]
        q_span = g.nodes["q_high"][node] - g.nodes["q_low"][node]
        poolable_pairs = poolable_pairs[
            bonus[poolable_pairs] <= MOST_BONUS * q_span[poolable_pairs]
        ]
        is_pooled = np.zeros(num_pairs, dtype=np.int64)
        is_pooled[poolable_pairs] = 1
        pool_work, region_nodes = self._work(side, is_pooled), (self.order, self.count)
        loops.prepare(g, *region_nodes, pool_work, rules)
        root = int(self.order[0])
        width = float(g.nodes["upper"][root] - g.nodes["lower"][root])
        still_width = STILL * width * (1.0 - discount)
        solve_arguments = (side, self.scale, still_width, pool_work, rules)
        distance_left = 0.0
        for _ in range(1 if side > 0.0 else POLICIES):
            if side < 0.0:
                loops.fix_policy(g, *region_nodes, pool_work, rules)
            distance_left = loops.solve(g, *region_nodes, -1, 0.0, *solve_arguments)
        self.inner[side] = pool_work.values.copy(), pool_work.q.copy()
        first_pair, num_actions = (
            int(g.nodes["first"][root]),
            int(g.nodes["size"][root]),
        )
        base_bounds = np.append(
            pool_work.values[root], pool_work.q[first_pair : first_pair + num_actions]
        )
        base_bounds += distance_left + 4.0 * UNIT * self.scale
        return self._add_worst_pair(
            side, poolable_pairs, bonus, base_bounds, solve_arguments
        )

    def _add_worst_pair(
        self,
        side: float,
        poolable_pairs: Ints,
        bonus: Floats,
        base_bounds: Floats,
        solve_arguments: tuple[Any, ...],
    ) -> Floats | None:
        """The ``base_bounds`` with the bonus of the worst pair."""
        g = self.memory.graph
        values = self.inner[side][0]
        largest_bounds, effects = base_bounds.copy(), np.zeros(self.memory.num_pairs)
        self.effects[side] = effects
        far_side, q_far = ("upper", "q_upper") if side > 0.0 else ("lower", "q_lower")
        root = int(self.order[0])
        node, root_pairs = g.nodes[root], self.memory.pairs_of(root)
        enough_bounds = side * np.append(node[far_side], root_pairs[q_far])
        little_width = LITTLE * float(node["upper"] - node["lower"])
        if np.all(base_bounds >= enough_bounds - little_width):
            return base_bounds
        poolable_pairs = poolable_pairs[
            np.argsort(-bonus[poolable_pairs], kind="stable")
        ]
        enough_bounds = np.full(len(base_bounds), math.inf)
        for chunk_start in range(0, max(1, len(poolable_pairs)), CHUNK):
            chunk_pairs = poolable_pairs[chunk_start : chunk_start + CHUNK]
            pair_values = np.full(len(chunk_pairs), -math.inf)
            self.loops.worst_pair(
                g,
                self.order,
                self.count,
                chunk_pairs,
                bonus[chunk_pairs],
                values,
                base_bounds,
                enough_bounds,
                largest_bounds,
                pair_values,
                *solve_arguments,
            )
            is_done = pair_values > -math.inf
            effects[chunk_pairs[is_done]] = np.maximum(
                0.0, pair_values[is_done] - base_bounds[0]
            )
            if self.stop_reason() is not None:
                return None
        return largest_bounds

    # --- where samples pay ----------------------------------------------------

    @property
    def view(self) -> Graph:
        """The graph that samples are steered by."""
        return self.memory.graph if self._view is None else self._view

    def spread(self, source: Floats, least_width: float, passes: int) -> None:
        """Bring the flow up to date, and choose the graph that steers samples."""
        super().spread(source, least_width, passes)
        price, repeats = self.pool()
        self._view = None
        self.pays = False
        if not price < MOST_PRICE or not self.inner:
            return
        g, num_nodes, num_pairs = (
            self.memory.graph,
            self.memory.num_nodes,
            self.memory.num_pairs,
        )
        own_slopes = (
            g.pairs["gain"][:num_pairs]
            * np.maximum(g.pairs["total"][:num_pairs], FIRST) ** 2
        )
        view = self._seen_view(repeats)
        self.make_room()
        self.count = int(
            self.loops.spread(
                view,
                self.order,
                self.count,
                source,
                least_width,
                4 * passes,
                self.rules,
            )
        )
        g.nodes["listed"][:num_nodes] = view.nodes["listed"][:num_nodes]
        self.pays = self._forecast(view, price, repeats) < float(
            np.sqrt(own_slopes).sum()
        )
        if not self.pays:
            return
        self._view = view
        is_waiting = (repeats < 1.0) & (
            g.pairs["total"][:num_pairs] < 2.0 * JOIN_SAMPLES
        )
        unjoined = is_waiting.astype(np.float64)
        open_ended = (
            float((view.pairs["gain"][:num_pairs] * unjoined).sum()) * JOIN_SAMPLES
        )
        if open_ended > UNJOINED * self._inner_width:
            view.pairs["gain"][:num_pairs] *= unjoined

    def _seen_view(self, repeats: Floats) -> Graph:
        """The graph with the bounds of seen outcomes in place of those that hold."""
        g = self.memory.graph
        view = g._replace(nodes=g.nodes.copy(), pairs=g.pairs.copy())
        for side, far_side, q_far, slope in (
            (1.0, "upper", "q_upper", "slope_up"),
            (-1.0, "lower", "q_lower", "slope_down"),
        ):
            values, q = self.inner[side]
            pick_nearer = np.minimum if side > 0.0 else np.maximum
            num_nodes, num_pairs = len(values), len(q)
            view.nodes[far_side][:num_nodes] = pick_nearer(
                side * values, g.nodes[far_side][:num_nodes]
            )
            view.pairs[q_far][:num_pairs] = pick_nearer(
                side * q, g.pairs[q_far][:num_pairs]
            )
            self._set_slopes(view, side, slope, repeats)
        view.nodes["upper"][0] = view.nodes["lower"][0] = 0.0
        return view

    def _forecast(self, view: Graph, price: float, repeats: Floats) -> float:
        """An estimate of the root of the calls for a width of 1 with the pool.

        Radii like slope/n and flows take (sum of sqrt(flow slope))**2 calls for a width
        of 1. The pool takes sum of m_r x_r, with x_r the effect that pair r may have
        now; a pair that has not joined is taken to be like the others with its flow.
        """
        num_pairs = self.memory.num_pairs
        pairs = view.pairs[:num_pairs]
        effect = self._effect()
        has_joined = repeats >= 1.0
        node = pairs["node"]
        q_span = view.nodes["q_high"][node] - view.nodes["q_low"][node]
        mass = np.maximum(0.0, view.nodes["mass"] + view.nodes["residual"])[node]
        mass[node == self.order[0]] += 1.0
        flow = mass * pairs["policy"]
        linear_effect = flow * q_span * price
        pooled_sum = float((effect * repeats)[has_joined].sum())
        effect_ratio = max(
            1.0, pooled_sum / max(float(linear_effect[has_joined].sum()), 1e-300)
        )
        unjoined_sum = effect_ratio * float(linear_effect[~has_joined].sum())
        slopes = np.where(has_joined, pairs["gain"] * pairs["total"] ** 2, 0.0)
        return (
            float(np.sqrt(slopes).sum() + math.sqrt(pooled_sum + unjoined_sum))
            * MARGIN
        )

    def _effect(self) -> Floats:
        """The most that the unseen mass of every pair may add to either side."""
        effect = np.zeros(self.memory.num_pairs)
        for side_effects in self.effects.values():
            effect[: len(side_effects)] = np.maximum(
                effect[: len(side_effects)], side_effects
            )
        return effect

    @property
    def _inner_width(self) -> float:
        """The width of the requested state if all outcomes were known."""
        root = int(self.order[0])
        return float(self.view.nodes["upper"][root] - self.view.nodes["lower"][root])

    def allocate(
        self, calls: int, floor: float, first_batch: int, pairs: Ints, counts: Ints
    ) -> int:
        """Write the jobs of a round, and return their number."""
        g, root = self.memory.graph, int(self.order[0])
        width = float(g.nodes["upper"][root] - g.nodes["lower"][root])
        if self._view is None or self._inner_width > INNER * width:
            return super().allocate(calls, floor, first_batch, pairs, counts)
        _, repeats = self.pool()
        effect = self._effect()
        upper_level = float(effect.max(initial=0.0))
        if upper_level <= 0.0:
            return super().allocate(calls, floor, first_batch, pairs, counts)
        lower_level = 1e-3 * upper_level
        for _ in range(30):
            level = math.sqrt(lower_level * upper_level)
            if float(_extra(effect, level, repeats).sum()) > calls:
                lower_level = level
            else:
                upper_level = level
        extra_samples = _extra(effect, upper_level, repeats)
        jobs = np.flatnonzero(extra_samples)
        if len(jobs) == 0:
            return super().allocate(calls, floor, first_batch, pairs, counts)
        pairs[: len(jobs)], counts[: len(jobs)] = jobs, extra_samples[jobs]
        return len(jobs)

    def _set_slopes(
        self, view: Graph, side: float, slope: str, repeats: Floats
    ) -> None:
        """Write slopes of the radii that remain when all outcomes are known."""
        g, num_pairs = self.memory.graph, self.memory.num_pairs
        means = np.zeros(num_pairs)
        self.loops.means(view, num_pairs, side > 0.0, self.rules.bound, means)
        q = view.pairs["q_upper" if side > 0.0 else "q_lower"][:num_pairs]
        radius = np.maximum(0.0, side * (q - means))
        is_pooled = repeats >= 1.0
        n = g.pairs["total"][:num_pairs]
        unjoined = 0.5 * (view.pairs["q_upper"] - view.pairs["q_lower"])[:num_pairs]
        unjoined *= n * n / JOIN_SAMPLES
        unjoined = np.where(
            n < 2.0 * JOIN_SAMPLES, unjoined, g.pairs[slope][:num_pairs]
        )
        view.pairs[slope][:num_pairs] = np.where(is_pooled, 0.5 * radius * n, unjoined)


def _extra(effect: Floats, level: float, repeats: Floats) -> Ints:
    """Samples that bring the effect of every pair down to ``level``."""
    sample_growth = np.minimum(effect / level - 1.0, MOST_GROWTH)
    extra_samples: Ints = (repeats * np.maximum(sample_growth, 0.0)).astype(np.int64)
    return np.where(
        extra_samples >= np.maximum(4.0, LEAST_SHARE * repeats), extra_samples, 0
    )
