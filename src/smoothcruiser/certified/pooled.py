"""Outcomes that were never seen, paid for once by all pairs together.

A pair's own bound allows for outcomes that it never showed, and along a path these
allowances add up. Pooled over all pairs, only the worst pair pays. A pair joins the
pool between two rounds, when its outcomes seem to be known. From then on each of its
samples is predicted to be "new" or "seen", by one exchangeable law for all pairs: Beta
mixtures, with T samples of the pool and D discoveries among them. With probability
1 - alpha, at all times,

    sum over r of m_r u_r <= B = log(1/alpha) - log of the mixture's probability,

u_r the mass that pair r has never shown, m_r its pooled samples that were no discovery.
``pooled_kernel`` turns this into bounds on V and Q of the requested state.

This file decides who joins, B, which pairs are looked at, and how samples are steered
(no part of the promise). It is for one player with a discount, and has to be asked for:
``POOLED`` is the bound ``law`` with an eighth of delta kept for the pool. Proofs:
docs/pooled.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.certified.bounds.base import UNIT, Bound
from smoothcruiser.certified.bounds.law import POOLED_UNION
from smoothcruiser.certified.graph import MOVED, Graph, empty_graph
from smoothcruiser.certified.loops import make_pooled_loops
from smoothcruiser.certified.memory import Memory
from smoothcruiser.certified.memory_kernel import MANY_OUTCOMES
from smoothcruiser.certified.pooled_kernel import PoolWork
from smoothcruiser.certified.region import Region
from smoothcruiser.certified.steering_kernel import MOST_GROWTH
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import Floats, Ints

# A pair joins with so many samples, and if each of its outcomes came so often: then a
# discovery is unlikely. Each one costs about log(T).
JOIN_SAMPLES, JOIN_WEIGHT = 24.0, 3.0
# Solving for every pair takes seconds beyond; pairs have their own bounds then.
MOST_POOLED = 500
# With so many samples it joins in any case: what came twice in them is rare.
JOIN_ANYWAY = 8.0 * JOIN_SAMPLES
# Beta(a, 1) laws of the rate of discoveries, and their weights. None in 1e5 samples
# costs 0.6, one 15, ten 95.
RATES: Floats = np.array([0.01, 0.1, 1.0, 10.0])
RATE_LOGS: Floats = np.log([0.7, 0.15, 0.1, 0.05])
B_ROUNDING = 1e-13
STILL = 0.002  # of the width: what policy iteration may leave, times 1 - gamma
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
# of M - m: a pair whose bonus is larger keeps its own bound
MOST_BONUS = 0.25
CHUNK = 32  # pairs between two looks at the clock


def log_price(samples: float, discoveries: float) -> float:
    """Return -log of the probability of ``discoveries`` among ``samples``, rounded up."""
    logs, terms = [], 1.0
    for rate, weight in zip(RATES.tolist(), RATE_LOGS.tolist(), strict=True):
        parts = (
            math.lgamma(rate + discoveries),
            math.lgamma(1.0 + samples - discoveries),
            -math.lgamma(rate + 1.0 + samples),
            math.log(rate),
        )
        logs.append(weight + math.fsum(parts))
        terms = max(terms, sum(abs(x) for x in parts))
    top = max(logs)
    found = top + math.log(math.fsum(math.exp(x - top) for x in logs))
    return float(B_ROUNDING * (1.0 + terms) - found)


class PooledRegion(Region):
    """The nodes that a query lists, with what all pairs together never showed."""

    def __init__(
        self, problem: Problem, memory: Memory, bound: Bound, radius_scale: float
    ) -> None:
        super().__init__(problem, memory, bound, radius_scale)
        self.pooled_loops = make_pooled_loops()
        wide = self.rules.bound._replace(union=POOLED_UNION)
        self.rules = self.rules._replace(bound=wide)
        self.joined_total: Floats = np.zeros(0)  # by pair: samples when it joined, or 0
        self.joined_length: Ints = np.zeros(0, dtype=np.int64)
        self.was_left = self.void = False
        self.cost = math.inf  # log(1/alpha) of the pool
        facts = problem.facts
        steps = 1.0 / (1.0 - facts.discount)
        one = facts.reward_bound + facts.regularizer_bound
        self.scale = self.rules.bound.scale + steps * one
        # by side and pair: what its unseen mass may add
        self.effects: dict[float, Floats] = {}
        self.inner: dict[float, tuple[Floats, Floats]] = {}  # by side: W, Q
        self.num_helped = 0  # times that the requested interval was narrowed
        self.pays = False  # whether samples are steered by the pool
        self._seen_at = 0.0
        self._view: Graph | None = None

    # --- the pool -------------------------------------------------------------

    def allow(self, delta: float) -> None:
        """Give the pool its part of ``delta``."""
        self.cost = -math.log(self.bound.pool_share * delta)

    def leave(self) -> None:
        """Note that a round was left before its end: the pool takes no more samples."""
        self.was_left = True

    def mark_last(self) -> None:
        """Let pairs join before the next round; everything up to now is known."""
        self.void = self.void or self.was_left
        self._grow()
        if self.memory.num_pairs > MOST_POOLED:
            return
        g, size = self.memory.graph, self.memory.num_pairs
        pairs = g.pairs[:size]
        free = (self.joined_total[:size] == 0.0) & (pairs["total"] >= JOIN_SAMPLES)
        for p in np.flatnonzero(free & (pairs["length"] < MANY_OUTCOMES)).tolist():
            start = pairs["start"][p]
            weights = g.entries["weight"][start : start + pairs["length"][p]]
            if weights.min() >= JOIN_WEIGHT or pairs["total"][p] >= JOIN_ANYWAY:
                self.joined_total[p] = pairs["total"][p]
                self.joined_length[p] = pairs["length"][p]

    def _grow(self) -> None:
        """Make room for every pair."""
        more = self.memory.num_pairs - len(self.joined_total)
        if more > 0:
            self.joined_total = np.append(self.joined_total, np.zeros(more))
            none = np.zeros(more, dtype=np.int64)
            self.joined_length = np.append(self.joined_length, none)

    def pool(self) -> tuple[float, Floats]:
        """B, and m_r of every pair: 0 where it is not in the pool."""
        self._grow()
        size = self.memory.num_pairs
        pairs = self.memory.graph.pairs[:size]
        joined = self.joined_total > 0.0
        samples = np.where(joined, pairs["total"] - self.joined_total, 0.0)
        found = np.where(joined, pairs["length"] - self.joined_length, 0)
        if self.void or np.any(joined & (pairs["length"] >= MANY_OUTCOMES)):
            return math.inf, np.zeros(size)
        total, discoveries = float(samples.sum()), float(found.sum())
        return self.cost + log_price(total, discoveries), samples - found

    # --- bounds of the requested state ----------------------------------------

    def warm(self) -> None:
        """Compile the loops, or load them."""
        super().warm()
        g, loops, rules = empty_graph(self.bound.fields), self.pooled_loops, self.rules
        none, listed = np.zeros(0), np.zeros(0, dtype=np.int64)
        work = PoolWork(none, none, none, none, listed, none, none, none, none)
        tuned = (1.0, 1.0, 1.0, work, rules)
        loops.prepare(g, listed, 0, work, rules)
        loops.gaps(g, listed, 1.0, 0.5, none)
        loops.means(g, 0, True, rules.bound, none)
        loops.fix_policy(g, listed, 0, work, rules)
        loops.solve(g, listed, 0, -1, 0.0, *tuned)
        one = np.zeros(1, dtype=np.int64)  # the end, which has no actions
        loops.worst_pair(g, one, 0, listed, *(none,) * 6, *tuned)

    def start(self, root: int) -> None:
        """Begin the list with the requested node."""
        super().start(root)
        self.inner, self.effects, self.pays, self._seen_at = {}, {}, False, 0.0

    def sections(self) -> dict[str, Any]:
        """Who joined and when, and what samples are steered by."""
        found: dict[str, Any] = {
            "joined_total": self.joined_total,
            "joined_length": self.joined_length,
            "pool_state": np.array(
                [self.was_left, self.void, self.pays, self._seen_at], dtype=np.float64
            ),
        }
        for side in (1.0, -1.0):
            values, q = self.inner.get(side, (np.zeros(0), np.zeros(0)))
            effects = self.effects.get(side, np.zeros(0))
            for name, part in (("values", values), ("q", q), ("effects", effects)):
                found[f"pool_{name}_{side:+.0f}"] = part
        return found

    def read(self, parts: dict[str, Any], require: Callable[[bool, str], None]) -> None:
        """Take up what ``sections`` had written."""
        self.joined_total = np.frombuffer(parts["joined_total"], np.float64).copy()
        self.joined_length = np.frombuffer(parts["joined_length"], np.int64).copy()
        size = len(self.joined_total)
        require(
            size == len(self.joined_length) and size <= self.memory.num_pairs,
            "its pool is none",
        )
        pairs = self.memory.graph.pairs[:size]
        inside = (self.joined_total >= 0.0) & (self.joined_total <= pairs["total"])
        inside &= (self.joined_length >= 0) & (self.joined_length <= pairs["length"])
        require(bool(np.all(inside)), "a pair joined its pool before it had samples")
        state = np.frombuffer(parts["pool_state"], np.float64).tolist()
        require(len(state) == 4, "its pool is none")
        self.was_left, self.void, self.pays = (x != 0.0 for x in state[:3])
        self._seen_at = state[3]
        self.inner, self.effects = {}, {}
        for side in (1.0, -1.0):
            values, q, effects = (
                np.frombuffer(parts[f"pool_{name}_{side:+.0f}"], np.float64).copy()
                for name in ("values", "q", "effects")
            )
            fits = len(values) <= self.memory.num_nodes
            require(
                fits and max(len(q), len(effects)) <= self.memory.num_pairs,
                "its pool is none",
            )
            if len(values):
                self.inner[side], self.effects[side] = (values, q), effects

    def close(self, last: bool = False) -> bool:
        """Bring the bounds of the requested state to what the pool proves."""
        price, repeats = self.pool()
        samples = self.num_samples
        often = 1.0 if self.pays else SELDOM
        many = self.memory.num_pairs > MOST_POOLED
        if many or not price < math.inf or samples <= often * self._seen_at:
            return True
        self.list_reach()
        g, root = self.memory.graph, self.order[0]
        node, mine = g.nodes[root], self.memory.pairs_of(root)
        tops = {}
        for side in (1.0, -1.0):
            found = self._side(side, price, repeats)
            if found is None:
                return False
            tops[side] = found
        self._seen_at = samples
        upper = np.minimum(tops[1.0], np.append(node["upper"], mine["q_upper"]))
        lower = np.maximum(-tops[-1.0], np.append(node["lower"], mine["q_lower"]))
        if np.all(lower <= upper):
            self.num_helped += bool(
                upper[0] < node["upper"] or lower[0] > node["lower"]
            )
            node["upper"], node["lower"] = upper[0], lower[0]
            mine["q_upper"], mine["q_lower"] = upper[1:], lower[1:]
            node["stale"] |= MOVED
        return True

    def _work(self, side: float, pooled: Ints) -> PoolWork:
        """Arrays for one side, beginning with what was found last."""
        g, n, p = self.memory.graph, self.memory.num_nodes, self.memory.num_pairs
        known = g.nodes["upper"] if side > 0.0 else -g.nodes["lower"]
        values = known[:n].copy()
        q = (g.pairs["q_upper"] if side > 0.0 else -g.pairs["q_lower"])[:p].copy()
        values[0] = 0.0
        return PoolWork(
            values=values,
            backed=np.zeros(n),
            constant=np.zeros(n),
            q=q,
            pooled=pooled,
            offsets=np.zeros(p),
            policy=np.zeros(p),
            tangent=np.zeros(n),
            weights=np.zeros(int(g.sizes[0])),
        )

    def _side(self, side: float, price: float, repeats: Floats) -> Floats | None:
        """Side * V of the requested node and side * Q of its pairs, as bounded.

        None where ``over`` gave a reason.
        """
        g, size, loops = self.memory.graph, self.memory.num_pairs, self.pooled_loops
        rules, discount = self.rules, self.rules.bound.discount
        listed = g.nodes["listed"][g.pairs["node"][:size]] == 1
        could = np.flatnonzero(listed & (repeats >= 1.0))
        gaps = np.zeros(size)
        loops.gaps(g, could, side, discount, gaps)
        bonus = rules.shrink * gaps * price * (1.0 + 8.0 * UNIT)
        bonus /= np.maximum(repeats, 1.0)
        node = g.pairs["node"][:size]
        span = g.nodes["q_high"][node] - g.nodes["q_low"][node]
        could = could[bonus[could] <= MOST_BONUS * span[could]]
        pooled = np.zeros(size, dtype=np.int64)
        pooled[could] = 1
        work, known = self._work(side, pooled), (self.order, self.count)
        loops.prepare(g, *known, work, rules)
        root = int(self.order[0])
        width = float(g.nodes["upper"][root] - g.nodes["lower"][root])
        still = STILL * width * (1.0 - discount)
        tuned = (side, self.scale, still, work, rules)
        away = 0.0
        for _ in range(1 if side > 0.0 else POLICIES):
            if side < 0.0:
                loops.fix_policy(g, *known, work, rules)
            away = loops.solve(g, *known, -1, 0.0, *tuned)
        self.inner[side] = work.values.copy(), work.q.copy()
        first, num = int(g.nodes["first"][root]), int(g.nodes["size"][root])
        base = np.append(work.values[root], work.q[first : first + num])
        base += away + 4.0 * UNIT * self.scale
        return self._worst(side, could, bonus, base, tuned)

    def _worst(
        self,
        side: float,
        could: Ints,
        bonus: Floats,
        base: Floats,
        tuned: tuple[Any, ...],
    ) -> Floats | None:
        """What the worst pair makes of ``base``."""
        g = self.memory.graph
        values = self.inner[side][0]
        tops, effects = base.copy(), np.zeros(self.memory.num_pairs)
        self.effects[side] = effects
        far, q_far = ("upper", "q_upper") if side > 0.0 else ("lower", "q_lower")
        root = int(self.order[0])
        node, mine = g.nodes[root], self.memory.pairs_of(root)
        enough = side * np.append(node[far], mine[q_far])
        little = LITTLE * float(node["upper"] - node["lower"])
        if np.all(base >= enough - little):
            return base
        could = could[np.argsort(-bonus[could], kind="stable")]
        enough = np.full(len(base), math.inf)
        for begin in range(0, max(1, len(could)), CHUNK):
            part = could[begin : begin + CHUNK]
            found = np.full(len(part), -math.inf)
            self.pooled_loops.worst_pair(
                g,
                self.order,
                self.count,
                part,
                bonus[part],
                values,
                base,
                enough,
                tops,
                found,
                *tuned,
            )
            done = found > -math.inf
            effects[part[done]] = np.maximum(0.0, found[done] - base[0])
            if self.over() is not None:
                return None
        return tops

    # --- where samples pay ----------------------------------------------------

    @property
    def view(self) -> Graph:
        """The graph that samples are steered by."""
        return self.memory.graph if self._view is None else self._view

    def spread(self, source: Floats, least: float, passes: int) -> None:
        """Bring the flow up to date, and choose what samples are steered by."""
        super().spread(source, least, passes)
        price, repeats = self.pool()
        self._view = None
        self.pays = False
        if not price < MOST_PRICE or not self.inner:
            return
        g, n, p = self.memory.graph, self.memory.num_nodes, self.memory.num_pairs
        before = g.pairs["gain"][:p] * np.maximum(g.pairs["total"][:p], FIRST) ** 2
        view = self._seen_view(repeats)
        self.make_room()
        self.count = int(
            self.loops.spread(
                view, self.order, self.count, source, least, 4 * passes, self.rules
            )
        )
        g.nodes["listed"][:n] = view.nodes["listed"][:n]
        self.pays = self._forecast(view, price, repeats) < float(np.sqrt(before).sum())
        if not self.pays:
            return
        self._view = view
        waiting = (repeats < 1.0) & (g.pairs["total"][:p] < 2.0 * JOIN_SAMPLES)
        unjoined = waiting.astype(np.float64)
        open_ended = float((view.pairs["gain"][:p] * unjoined).sum()) * JOIN_SAMPLES
        if open_ended > UNJOINED * self._inner_width:
            view.pairs["gain"][:p] *= unjoined

    def _seen_view(self, repeats: Floats) -> Graph:
        """The graph with the bounds of what was seen in the place of those that hold."""
        g = self.memory.graph
        view = g._replace(nodes=g.nodes.copy(), pairs=g.pairs.copy())
        for side, far, q_far, slope in (
            (1.0, "upper", "q_upper", "slope_up"),
            (-1.0, "lower", "q_lower", "slope_down"),
        ):
            values, q = self.inner[side]
            nearer = np.minimum if side > 0.0 else np.maximum
            k, j = len(values), len(q)
            view.nodes[far][:k] = nearer(side * values, g.nodes[far][:k])
            view.pairs[q_far][:j] = nearer(side * q, g.pairs[q_far][:j])
            self._set_slopes(view, side, slope, repeats)
        view.nodes["upper"][0] = view.nodes["lower"][0] = 0.0
        return view

    def _forecast(self, view: Graph, price: float, repeats: Floats) -> float:
        """The root of the calls for a width of 1 with the pool, as far as can be told.

        Radii like slope/n and flows take (sum of sqrt(flow slope))**2 calls for a
        width of 1. The pool takes sum of m_r x_r, x_r what pair r may add now; a pair
        that has not joined is taken to be like the others with its flow.
        """
        size = self.memory.num_pairs
        pairs = view.pairs[:size]
        effect = self._effect()
        joined = repeats >= 1.0
        node = pairs["node"]
        span = view.nodes["q_high"][node] - view.nodes["q_low"][node]
        mass = np.maximum(0.0, view.nodes["mass"] + view.nodes["residual"])[node]
        mass[node == self.order[0]] += 1.0
        flow = mass * pairs["policy"]
        linear = flow * span * price
        known = float((effect * repeats)[joined].sum())
        ratio = max(1.0, known / max(float(linear[joined].sum()), 1e-300))
        left = ratio * float(linear[~joined].sum())
        slopes = np.where(joined, pairs["gain"] * pairs["total"] ** 2, 0.0)
        return float(np.sqrt(slopes).sum() + math.sqrt(known + left)) * MARGIN

    def _effect(self) -> Floats:
        """What the unseen mass of every pair may add to either side."""
        effect = np.zeros(self.memory.num_pairs)
        for found in self.effects.values():
            effect[: len(found)] = np.maximum(effect[: len(found)], found)
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
        high = float(effect.max(initial=0.0))
        if high <= 0.0:
            return super().allocate(calls, floor, first_batch, pairs, counts)
        low = 1e-3 * high
        for _ in range(30):
            level = math.sqrt(low * high)
            if float(_extra(effect, level, repeats).sum()) > calls:
                low = level
            else:
                high = level
        extra = _extra(effect, high, repeats)
        jobs = np.flatnonzero(extra)
        if len(jobs) == 0:
            return super().allocate(calls, floor, first_batch, pairs, counts)
        pairs[: len(jobs)], counts[: len(jobs)] = jobs, extra[jobs]
        return len(jobs)

    def _set_slopes(
        self, view: Graph, side: float, slope: str, repeats: Floats
    ) -> None:
        """Write slopes of the radii that remain when all outcomes are known."""
        g, p = self.memory.graph, self.memory.num_pairs
        means = np.zeros(p)
        self.pooled_loops.means(view, p, side > 0.0, self.rules.bound, means)
        q = view.pairs["q_upper" if side > 0.0 else "q_lower"][:p]
        radius = np.maximum(0.0, side * (q - means))
        pooled = repeats >= 1.0
        n = g.pairs["total"][:p]
        unjoined = 0.5 * (view.pairs["q_upper"] - view.pairs["q_lower"])[:p]
        unjoined *= n * n / JOIN_SAMPLES
        unjoined = np.where(n < 2.0 * JOIN_SAMPLES, unjoined, g.pairs[slope][:p])
        view.pairs[slope][:p] = np.where(pooled, 0.5 * radius * n, unjoined)


def _extra(effect: Floats, level: float, repeats: Floats) -> Ints:
    """Samples that bring what every pair may add down to ``level``."""
    grown = np.minimum(effect / level - 1.0, MOST_GROWTH)
    extra: Ints = (repeats * np.maximum(grown, 0.0)).astype(np.int64)
    return np.where(extra >= np.maximum(4.0, LEAST_SHARE * repeats), extra, 0)
