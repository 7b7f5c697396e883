"""Certified search: intervals that hold at any time, for states that come back,
paid for by the problem at hand.

The problem: V(s0) and Q(s0, a) of a regularized MDP or game, from draws of its
oracle alone, with a promise that holds for every state seen, every number of
draws and every query on one memory at once, with probability 1 - delta. Each
round sweeps the bounds L <= V <= U over the seen graph (``certified_sweeps``),
stops if the interval is narrow enough, and otherwise draws where the width of
the answer comes from (``certified_sampling``); the radii are those of
``certified_radii``, the data lie in ``certified_memory``.

    value = (L + U)/2,  interval = [L, U],  q box = [Q_L(a), Q_U(a)],  policy = grad F at the middle of the box.

legend   symbol      public name
  delta              ``delta``: belongs to the memory, not to a query
  epsilon            half the width that a query is to reach

A query of ``epsilon`` steers its draws for as many calls as equal draws would
certainly need. After that it brings every pair that it can reach to the equal
share (``certified_price``), so that its price has a bound. It also falls back
on equal draws where steering finds nothing to do. It gives up only where no
pair in reach has a radius and every sweep was made.

Rounds: calls grow by a quarter each time, so that a problem that takes n calls
takes about log(n)/log(1.25) rounds of sweeps and at most a quarter of the calls
came too late to be steered. Nothing depends on the clock but a stop that
``seconds`` asks for.

What this file decides: rounds, stops, and what an Estimate says. Proofs:
docs/certified.md.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.certified.bounds.betting import POLE_COSTS, POLE_OFFSETS, pair_cost
from smoothcruiser.certified.estimate import (
    KNOWN,
    SAME_LAW,
    answer,
    assumptions,
    one_outcome,
)
from smoothcruiser.certified.kernels import Kernels, make_kernels, warmed
from smoothcruiser.certified.limits import (
    Ends,
    Target,
    estimated,
    make_limits,
)
from smoothcruiser.certified.memory import END, Memory
from smoothcruiser.certified.price import SWEPT, EqualDraws, largest_value
from smoothcruiser.certified.sampling import STREAM_KEY, Help, Sampler, make_sampler
from smoothcruiser.certified.sweeps import FIRST_BATCH, KEEP, SCAN, WALK, Rules
from smoothcruiser.engines.inspection import Looks, seen
from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.estimate import Estimate, terminal_estimate
from smoothcruiser.problem.answers import contradiction
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import copied
from smoothcruiser.problem.tabular import Floats, Ints
from smoothcruiser.progress import Progress

INSPECTED_SHARE = 8  # at most an eighth of the budget goes into looking at the step
GROWTH = 0.25  # calls of a round, as a share of those the query's pairs have
# near the goal: widths fall at least like 1/n, so width/epsilon - 1 is a share that
# does not overshoot
LEAST_GROWTH = 0.04
# above this share of the widest interval there is nothing to steer by yet: calls
# double
UNTOLD = 0.8
# A draw has to narrow the answer by this share of width / (draws so far). Where
# draws are given out in balance the marginal gain is width/n (radii that fall like
# 1/n) or width/(2n) (like 1/sqrt(n)): what is worth far less is a pair that has
# more than it needs.
WORTH = 0.25
LEAST_CALLS = 256  # of a round, so that the first levels are not met one by one
LEAST_NEW = 32  # pairs that a round tries where one draw is exact
CHUNK = 1 << 20  # draws held in buffers at a time: 16 MB
# sweeps end when one closes less than this share of the width (weighed by visits)
SETTLED = 0.01
MOST_SWEEPS = 400  # of a round; the rest is made up in the next one, or at the end
# a round; masses are kept from round to round, so they converge over a few of them
SPREAD_PASSES = 6
SPREAD_SHARE = 0.02  # of the width: flow that matters less in all is not passed on
# with deterministic=True the first 8 pairs and every 16th are drawn twice and
# compared
CHECKED_FIRST, CHECKED_EVERY = 8, 16


class Certified:
    """A memory of one problem: counts, bounds, and a delta that all its queries
    share.
    """

    sampled = True  # whether outcomes are drawn from the oracle

    def __init__(
        self,
        problem: Problem,
        *,
        delta: float,
        seed: int = 0,
        executor: str | None = None,
        workers: int | None = None,
        scheduler: str | None = None,
        radius_scale: float = 1.0,
        uniform: bool = False,
    ) -> None:
        """``executor`` ("processes", "dask") and ``workers`` spread a round's
        draws and change no bit of the result.

        ``radius_scale`` and ``uniform`` are for tests and benchmarks: wrong
        radii, and the same number of draws for every pair.
        """
        self._help = Help(executor, workers, scheduler)
        if (
            isinstance(delta, bool)
            or not isinstance(delta, int | float)
            or not 0.0 < delta < 1.0
        ):
            raise InvalidInput(
                f"delta must be a probability strictly between 0 and 1, got {delta!r}."
            )
        self.problem, self.delta, self.seed = problem, float(delta), seed
        self.memory = Memory(problem)
        self.num_calls = 0
        self.exact = problem.deterministic  # whether the first draw of a pair tells all
        self._uniform = uniform
        self._drawn_pairs = 0  # k: pairs that have been given a share of delta
        self._fault: str | None = None
        self._salt = np.random.SeedSequence(
            seed, spawn_key=(STREAM_KEY, 1)
        ).generate_state(1, np.uint64)[0]
        self._rules = _rules(problem, radius_scale)
        self._kernels: Kernels | None = None
        self._sampler: Sampler | None = None
        self._order: Ints = np.zeros(0, dtype=np.int64)
        self._count = 0
        self._looked: Looks | None = None  # what the look before the first draw saw
        self._twice = 0  # pairs of a deterministic problem that were drawn twice
        self._asked = 0  # calls of the last look after a query
        # calls of the query at hand that went where they seemed to pay
        self._steered = 0

    def close(self) -> None:
        """End the workers, if any were asked for; the memory can still be read."""
        if self._sampler is not None:
            self._sampler.close()

    # --- asking ---------------------------------------------------------------

    def query(
        self,
        state: Any = None,
        *,
        epsilon: float | None = None,
        budget: float | None = None,
        seconds: float | None = None,
        callback: Callable[[Progress], object] | None = None,
        target: Target = "q_values",
    ) -> Estimate:
        """The Estimate at ``state``: its intervals have half-width at most
        ``epsilon``, or what budget, seconds or callback allowed.

        ``target`` says which intervals have to be narrow: those of all action
        values (and so that of the value), or the value's alone. ``budget``
        counts the calls of this query. All estimates of one memory hold
        together with probability 1 - delta.
        """
        begin = time.perf_counter()
        limits = make_limits(epsilon, budget, seconds, callback, target, begin)
        if not self.exact:
            limits = estimated(limits, self.problem.facts, self.delta)
        if self._fault is not None:
            raise InvalidInput(
                f"This memory was left unfinished by an error ({self._fault}); "
                "start a new one."
            )
        state = self.problem.start(state)
        kept = copied(state)  # the caller may write into its own
        state = state if kept is None else kept
        compile_seconds = self._prepare(state)
        root = self.memory.node_of(state, self.problem.horizon or 0)
        if root == END:
            return terminal_estimate(self.problem, state, "certified", self.seed)
        before = self.num_calls
        try:
            reason = self._search(root, limits, begin)
            self._look_again(state)
        except BaseException as error:
            self._fault = f"{type(error).__name__}: {error}"
            raise
        return answer(
            self,
            root,
            state,
            epsilon=limits.epsilon,
            reached=self._half_width(root, target),
            reason=reason,
            num_calls=self.num_calls - before,
            seconds=time.perf_counter() - begin - compile_seconds,
            compile_seconds=compile_seconds,
        )

    def _prepare(self, state: Any) -> float:
        """Seconds spent on compiling what the first query needs."""
        if self._kernels is not None:
            return 0.0
        begin = time.perf_counter()
        self._kernels = make_kernels(self.problem.operator)
        self._sampler = make_sampler(
            self.problem, self.memory, state, self.seed, self._help
        )
        warmed(self._kernels, self.memory.graph, self._rules)
        return time.perf_counter() - begin

    def _search(self, root: int, limits: Ends, begin: float) -> str:
        """Rounds until the query may end; why it did."""
        self._start(root)
        first_call = self.num_calls
        while True:
            self._settle(root, limits)
            if self._narrow(root, limits):
                return self._reached(root, limits)
            left = limits.budget - (self.num_calls - first_call)
            if limits.callback is not None:
                node = self.memory.graph.nodes[root]
                report = Progress(
                    calls=self.num_calls - first_call,
                    seconds=time.perf_counter() - begin,
                    interval=(float(node["lower"]), float(node["upper"])),
                    half_width=self._half_width(root, limits.target),
                    states=self.memory.num_nodes - 1,
                )
                if limits.callback(report) is False:
                    return "callback"
            if time.perf_counter() > limits.deadline:
                return "seconds"
            if self._looked is None and left > 0:  # nothing was drawn so far
                left -= self._look(self.memory.states[root], left)
            nothing = "budget" if left <= 0 else self._round(root, limits, left)
            if nothing is not None:
                self._finish(root, limits)
                if self._narrow(root, limits):
                    return self._reached(root, limits)
                return "seconds" if time.perf_counter() > limits.deadline else nothing

    def _look(self, state: Any, left: int) -> int:
        """Look at the step before its first draw; calls counted, those after
        the query among them.
        """
        assert self._sampler is not None
        calls, self._looked = self._sampler.look(state, None, left // INSPECTED_SHARE)
        self.num_calls += calls + len(self._looked)
        return calls + len(self._looked)

    def _look_again(self, state: Any) -> None:
        """Ask the same questions after each query, and see that no state was
        written into.
        """
        self.memory.check_untouched()
        if self._looked:
            assert self._sampler is not None
            calls, _ = self._sampler.look(state, self._looked, 0)
            self.num_calls += calls - (0 if self._asked else len(self._looked))
            self._asked = calls

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the certificates of this memory take on trust."""
        looks, doubts = (
            (0, "")
            if self._sampler is None
            else (self._sampler.looks, self._sampler.guard.doubts)
        )
        looked = (
            ""
            if self._looked is None
            else seen(len(self._looked), self._asked, looks, doubts)
        )
        law = one_outcome(self._twice) if self.problem.deterministic else SAME_LAW
        return assumptions(
            self.problem,
            law if self.sampled else KNOWN,
            sampled=self.sampled,
            looked=looked,
        )

    def _narrow(self, root: int, limits: Ends) -> bool:
        return (
            limits.goal is not None
            and self._half_width(root, limits.target) <= limits.goal
        )

    def _reached(self, root: int, limits: Ends) -> str:
        assert limits.epsilon is not None
        return (
            "epsilon"
            if self._half_width(root, limits.target) <= limits.epsilon
            else "rounding"
        )

    # --- one round ------------------------------------------------------------

    def _start(self, root: int) -> None:
        """Begin the list of nodes that matter for this query."""
        g, n = self.memory.graph, self.memory.num_nodes
        for name in ("listed", "mass", "residual"):
            g.nodes[name][:n] = 0
        g.nodes["listed"][root] = 1
        self._order = np.zeros(max(64, 2 * n), dtype=np.int64)
        self._order[0], self._count = root, 1
        self._steered = 0

    def _sweep(self, tune: int) -> float:
        """One sweep over the listed nodes; by how much, weighed by visits, they
        closed.
        """
        assert self._kernels is not None
        closed = float(
            self._kernels.sweep(
                self.memory.graph, self._order, self._count, tune, self._rules
            )
        )
        if closed < 0.0:
            raise contradiction(
                self.memory.states[int(-closed)], self.delta, self.assumed
            )
        return closed

    def _settle(self, root: int, limits: Ends) -> None:
        """Sweep until little moves, or the answer is narrow enough."""
        for i in range(MOST_SWEEPS):
            closed = self._sweep(WALK if i == 0 else KEEP)
            little = SETTLED * 2.0 * self._half_width(root, limits.target)
            if (
                self._narrow(root, limits)
                or closed <= little
                or time.perf_counter() > limits.deadline
            ):
                return

    def _finish(self, root: int, limits: Ends) -> None:
        """Sweep all nodes in reach until trying every pole moves none of them:
        sweeps are cheap, use what was bought.

        The widest node then satisfies width <= gamma width + radii + what the
        last sweep moved, so that stopping here adds ``SWEPT`` of the goal at
        the most.
        """
        self._list_reach()
        listed, steps = (
            self._order[: self._count],
            self.problem.facts.steps(self.problem.horizon),
        )
        tune = SCAN
        while not self._narrow(root, limits) and time.perf_counter() <= limits.deadline:
            before = self._widths(listed)
            self._sweep(tune)
            goal = (
                self._half_width(root, limits.target)
                if limits.goal is None
                else limits.goal
            )
            still = float((before - self._widths(listed)).max()) <= (
                0.0 if self.exact else 2.0 * SWEPT * goal / steps
            )
            if still and tune == SCAN:
                return
            tune = SCAN if still else KEEP

    def _widths(self, listed: Ints) -> Floats:
        nodes = self.memory.graph.nodes[listed]
        widths: Floats = nodes["upper"] - nodes["lower"]
        return widths

    def _list_reach(self) -> None:
        """Let the list hold every node that the asked state leads to, also
        those that no flow was passed on to.
        """
        assert self._kernels is not None
        self._order = _fitted(self._order, self.memory.num_nodes)
        self._count = int(
            self._kernels.reach(self.memory.graph, self._order, self._count)
        )

    def _round(self, root: int, limits: Ends, left: int) -> str | None:
        """Choose pairs, draw and record; None, or why there was nothing to draw."""
        pairs, counts = (
            self._jobs_uniform(left)
            if self._uniform
            else self._jobs(root, limits, left)
        )
        if len(pairs) == 0:
            return "exhausted"
        self._give_shares(pairs)
        done = 0
        while done < len(pairs):
            chunk = _chunk(counts, done)
            if chunk == 0:  # one job larger than the buffers: draw a part of it
                self._draw(pairs[done : done + 1], np.array([CHUNK]))
                counts[done] -= CHUNK
                continue
            self._draw(pairs[done : done + chunk], counts[done : done + chunk])
            done += chunk
            if time.perf_counter() > limits.deadline:
                break
        return None

    def _jobs(self, root: int, limits: Ends, left: int) -> tuple[Ints, Ints]:
        """Which pairs to draw from, and how often each."""
        growth = self._growth(root, self._half_width(root, limits.target), limits.goal)
        new = max(LEAST_NEW, int(GROWTH * self._drawn_pairs))
        calls = min(
            left,
            new if self.exact else max(LEAST_CALLS, int(growth * self._query_draws())),
        )
        steered = self._allowed(limits, calls)
        if steered <= 0:
            pairs, counts = self._jobs_equal(limits.equal, left)
            if len(pairs):
                return pairs, counts
            # certainly narrow enough, unless rounding is in the way
            self._finish(root, limits)
            if self._narrow(root, limits):
                return pairs, counts
            steered = calls
        pairs, counts = self._jobs_steered(root, limits, steered)
        if len(pairs) == 0:
            pairs, counts = self._jobs_equal(None, steered)
        self._steered += int(counts.sum())
        return (
            (pairs, self._with_checks(counts, left)) if self.exact else (pairs, counts)
        )

    def _jobs_steered(self, root: int, limits: Ends, calls: int) -> tuple[Ints, Ints]:
        """At most ``calls`` draws, where they narrow the answer most."""
        assert self._kernels is not None
        memory, g = self.memory, self.memory.graph
        self._order = _fitted(self._order, memory.num_nodes)
        source = self._source(root, limits)
        width = 2.0 * self._half_width(root, limits.target)
        share = SPREAD_SHARE * width / self._count
        self._count = int(
            self._kernels.spread(
                g, self._order, self._count, source, share, SPREAD_PASSES, self._rules
            )
        )
        pairs, counts = (
            np.zeros(memory.num_pairs, dtype=np.int64),
            np.zeros(memory.num_pairs, dtype=np.int64),
        )
        floor = 0.0 if self.exact else WORTH * width / max(1.0, self._query_draws())
        first = 1 if self.exact else FIRST_BATCH
        jobs = self._kernels.allocate(
            g, self._order, self._count, calls, floor, first, pairs, counts
        )
        return pairs[:jobs], counts[:jobs]

    def _allowed(self, limits: Ends, calls: int) -> int:
        """As many of the calls as may be steered: with those before, no more
        than equal draws would certainly need.
        """
        known = self.memory.num_pairs
        if limits.equal is None or not limits.equal.enough(
            (self._steered + calls) / known, known
        ):
            return calls
        return min(calls, known * limits.equal.draws(known) - self._steered)

    def _jobs_equal(self, enough: EqualDraws | None, left: int) -> tuple[Ints, Ints]:
        """Draws for the pairs in reach that have fewest, up to twice as many as
        those have.

        They go on up to the number that is certainly enough, or, where that is
        None, for pairs that have a radius.
        """
        self._list_reach()
        g, size = self.memory.graph, self.memory.num_pairs
        known = g.pairs[:size]
        n, first = known["total"], 1 if self.exact else FIRST_BATCH
        level = math.inf if enough is None else float(enough.draws(size))
        span = g.nodes["q_high"][known["node"]] - g.nodes["q_low"][known["node"]]
        open_ended = (
            np.where(n == 0.0, span, known["slope_up"] + known["slope_down"]) > 0.0
        )
        short = (g.nodes["listed"][known["node"]] == 1) & (
            open_ended if enough is None else n < level
        )
        if not short.any():
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        level = min(level, max(float(first), 2.0 * float(n[short].min())))
        pairs = np.flatnonzero(short & (n < level))
        counts = (level - n[pairs]).astype(np.int64)
        fit = max(1, int(np.searchsorted(np.cumsum(counts), left, side="right")))
        return pairs[:fit], np.minimum(counts[:fit], left)

    def _growth(self, root: int, half_width: float, goal: float | None) -> float:
        """Calls of the next round, as a share of those so far."""
        node = self.memory.graph.nodes[root]
        if half_width > UNTOLD * 0.5 * float(node["q_high"] - node["q_low"]):
            return 1.0
        return (
            GROWTH
            if goal is None
            else min(GROWTH, max(LEAST_GROWTH, half_width / goal - 1.0))
        )

    def _jobs_uniform(self, left: int) -> tuple[Ints, Ints]:
        """Every pair seen, as many draws as the others: what certified search
        is compared with.
        """
        n = self.memory.graph.pairs["total"][: self.memory.num_pairs]
        pairs = np.flatnonzero(n == 0.0) if np.any(n == 0.0) else np.arange(len(n))
        least = max(FIRST_BATCH, int(n.max(initial=0.0)))
        each = least if np.any(n == 0.0) else max(1, int(LEAST_GROWTH * least))
        pairs = pairs[: max(1, left // each)] if len(pairs) * each > left else pairs
        g, count = self.memory.graph, self.memory.num_nodes - 1
        self._order = _fitted(self._order, count + 1)
        others = [node for node in range(1, count + 1) if node != self._order[0]]
        self._order[1 : 1 + len(others)], self._count = others, 1 + len(others)
        g.nodes["mass"][1 : count + 1] = 1.0
        return pairs, np.full(len(pairs), min(each, left), dtype=np.int64)

    def _query_draws(self) -> float:
        """Draws of the pairs that this query has met."""
        g = self.memory.graph
        nodes = g.pairs["node"][: self.memory.num_pairs]
        return float(
            g.pairs["total"][: self.memory.num_pairs][
                g.nodes["listed"][nodes] == 1
            ].sum()
        )

    def _source(self, root: int, limits: Ends) -> Floats:
        """With which weights the asked state's actions matter: as F weighs
        them, or those whose intervals are too wide.
        """
        pairs, player = (
            self._root_pairs(root),
            1 if self.memory.graph.nodes["sign"][root] > 0 else 2,
        )
        if limits.target == "value":
            ends = pairs["q_upper"] if player == 1 else pairs["q_lower"]
            return np.array(
                self.problem.operator.gradient(
                    ends.tolist(), player=player, weights=pairs["prior"].tolist()
                )
            )
        widths = pairs["q_upper"] - pairs["q_lower"]
        goal = 0.5 * float(widths.max()) if limits.goal is None else 2.0 * limits.goal
        wide = (widths > goal).astype(np.float64)
        share: Floats = wide / max(1.0, wide.sum())
        return share

    def _give_shares(self, pairs: Ints) -> None:
        """The next k for every pair that is drawn for the first time, before
        its first draw.
        """
        g = self.memory.graph
        new = pairs[g.pairs["total"][pairs] == 0.0]
        if not self.exact:
            g.pairs["cost"][new] = pair_cost(
                self._drawn_pairs + 1 + np.arange(len(new)), self.delta
            )
        self._drawn_pairs += len(new)

    def _draw(self, pairs: Ints, counts: Ints) -> None:
        assert self._kernels is not None
        assert self._sampler is not None
        memory = self.memory
        raws, rewards = self._sampler.draw(pairs, counts)
        low, high = self.problem.facts.reward_range
        resolved, done = self._sampler.resolved, 0
        while True:
            done = int(
                self._kernels.record(
                    memory.graph,
                    pairs,
                    counts,
                    raws,
                    rewards,
                    done,
                    resolved,
                    low,
                    high,
                    self._salt,
                )
            )
            if done == len(raws):
                break
            memory.make_room(rehash_with=self._kernels.rehash)
        if not resolved:
            memory.resolve()
        self.num_calls += len(raws)
        if self.problem.deterministic:
            self._compare(pairs)

    # --- deterministic problems -----------------------------------------------

    def _with_checks(self, counts: Ints, left: int) -> Ints:
        k = self._drawn_pairs + 1 + np.arange(len(counts))
        twice = (k <= CHECKED_FIRST) | (k % CHECKED_EVERY == 0)
        more: Ints = counts + twice
        if more.sum() > left:
            return counts
        self._twice += int(twice.sum())
        return more

    def _compare(self, pairs: Ints) -> None:
        g = self.memory.graph
        bad = pairs[g.pairs["length"][pairs] > 1]
        if len(bad):
            pair = g.pairs[bad[0]]
            raise OracleError(
                f"deterministic=True, but action {pair['action']} in state "
                f"{self.memory.states[pair['node']]!r} gave two outcomes; "
                "drop deterministic=, or mend the simulator."
            )

    def _root_pairs(self, root: int) -> Any:
        node = self.memory.graph.nodes[root]
        return self.memory.graph.pairs[node["first"] : node["first"] + node["size"]]

    def _half_width(self, root: int, target: Target) -> float:
        if target == "value":
            node = self.memory.graph.nodes[root]
            return 0.5 * float(node["upper"] - node["lower"])
        pairs = self._root_pairs(root)
        return 0.5 * float((pairs["q_upper"] - pairs["q_lower"]).max())


def _rules(problem: Problem, radius_scale: float) -> Rules:
    facts = problem.facts
    K = facts.num_actions
    return Rules(
        discount=facts.discount,
        operator=problem.operator.code,
        temperature=float(problem.operator.strength),
        poles=np.stack([POLE_OFFSETS, POLE_COSTS], axis=1),
        shrink=float(radius_scale),
        scale=largest_value(facts),
        q=np.zeros(K),
        w=np.ones(K),
        out=np.zeros(K),
    )


def _chunk(counts: Ints, done: int) -> int:
    """How many of the jobs from ``done`` on fit in the buffers."""
    return int(np.searchsorted(np.cumsum(counts[done:]), CHUNK, side="right"))


def _fitted(order: Ints, size: int) -> Ints:
    if len(order) >= size:
        return order
    larger = np.zeros(max(size, 2 * len(order)), dtype=np.int64)
    larger[: len(order)] = order
    return larger
