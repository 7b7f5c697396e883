"""Certified search: intervals that hold at any time, for states that come back.

The price depends on the problem itself.

The problem: V(s0) and Q(s0, a) of a regularized MDP or game, from samples of
its oracle alone, with a promise that holds for every state seen, every number
of samples and every query on one memory at once, with probability 1 - delta.
Each round sweeps the bounds L <= V <= U over the seen graph (``region``), stops
if the interval is narrow enough, and otherwise samples (``sampling``) where the
width of the answer comes from (``steering``). A bound says how far a mean can
be off (``bounds``); the data are in ``memory``.

    value = (L + U)/2,            interval = [L, U],
    q box = [Q_L(a), Q_U(a)],     policy = grad F at the middle of the box.

legend   symbol      public name
  delta              ``delta``: belongs to the memory, not to a query
  epsilon            half the width that a query is to reach

A query of ``epsilon`` steers its samples for as many calls as equal numbers of
samples would certainly need. After that it brings every pair that it can reach
to the equal share (``price``), so that its price has a bound. It also falls
back on equal numbers where steering finds nothing to do. It gives up only where
no pair in reach has a radius and sweeps no longer change anything.

Rounds: calls grow by a quarter each time. So a problem that takes n calls takes
about log(n)/log(1.25) rounds of sweeps, and at most a quarter of the calls came
too late to be steered. Nothing depends on the clock except a stop by
``seconds``.

What this file decides: rounds and stops. Proofs: docs/certified.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.certified.bounds import DEFAULT, bound_of
from smoothcruiser.certified.bounds.base import KEEP, SCAN, SWEPT, WALK
from smoothcruiser.certified.estimate import (
    SAME_LAW,
    answer,
    assumptions,
    one_outcome,
)
from smoothcruiser.certified.graph import END
from smoothcruiser.certified.limits import (
    Ends,
    Target,
    estimated,
    make_limits,
)
from smoothcruiser.certified.memory import Memory
from smoothcruiser.certified.region import Region
from smoothcruiser.certified.sampling import Sampler, make_sampler
from smoothcruiser.certified.steering import Jobs, Steering
from smoothcruiser.engines.inspection import Looks, seen
from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.estimate import Estimate, terminal_estimate
from smoothcruiser.jit.keys import SALT, Key
from smoothcruiser.problem.answers import contradiction
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import copied
from smoothcruiser.problem.tabular import Ints
from smoothcruiser.progress import Progress
from smoothcruiser.query import Compute, Promise, check_delta

INSPECTED_SHARE = 8  # at most an eighth of the budget goes into inspecting the step
CHUNK = 1 << 20  # samples held in buffers at a time: 16 MB
# sweeps end when one closes less than this share of the width (weighted by visits)
SETTLED = 0.01
MOST_SWEEPS = 400  # of a round; the rest follows in the next one, or at the end
# with deterministic=True the first 8 pairs and every 16th are sampled twice
CHECKED_FIRST, CHECKED_EVERY = 8, 16


class Certified:
    """A memory of one problem: counts, bounds, and one delta for all its queries."""

    steering = Steering  # chooses what to sample; tests replace it by worse ones
    # whether every pair is sampled equally often: what benchmarks compare with
    uniform = False

    def __init__(
        self,
        problem: Problem,
        *,
        delta: float,
        seed: int = 0,
        bound: str = DEFAULT,
        executor: str | None = None,
        workers: int | None = None,
        scheduler: str | None = None,
        radius_scale: float = 1.0,
    ) -> None:
        """Start an empty memory for ``problem``.

        ``bound`` is a word of ``certified.bounds.BOUNDS``; it says how far a
        mean of samples can be from what it estimates, and certificates name it.
        ``executor`` ("processes", "dask") and ``workers`` spread a round's
        samples and change no bit of the result. ``radius_scale`` makes radii
        wrong, for tests.
        """
        self._compute = Compute(executor=executor, workers=workers, scheduler=scheduler)
        self.delta = Promise(delta=check_delta(delta)).failure()
        self.problem, self.seed = problem, seed
        self.bound = bound_of(bound)
        self.memory = Memory(problem, self.bound)
        self.num_calls = 0
        self.exact = problem.deterministic  # whether one sample is the exact outcome
        self._radius_scale = radius_scale
        self._drawn_pairs = 0  # k: pairs that have a share of delta
        self._fault: str | None = None
        self._salt = np.random.SeedSequence(
            seed, spawn_key=(Key.CERTIFIED, SALT)
        ).generate_state(1, np.uint64)[0]
        self._prepared = False  # whether the next three are there
        self._region: Region
        self._steering: Steering
        self._sampler: Sampler
        self._looked: Looks | None = None  # seen before the first sample
        self._twice = 0  # pairs of a deterministic problem that were sampled twice
        self._asked = 0  # calls of the last inspection after a query

    def close(self) -> None:
        """End the workers, if there are any; the memory can still be read."""
        if self._prepared:
            self._sampler.close()

    # --- queries --------------------------------------------------------------

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
        """Return the Estimate at ``state``, with half-widths of at most ``epsilon``.

        They are larger where budget, seconds or callback ended the query
        before. ``target`` says which intervals have to be narrow: those of all
        action values (and so that of the value), or the value's alone.
        ``budget`` counts the calls of this query. All estimates of one memory
        hold together with probability 1 - delta.
        """
        begin = time.perf_counter()
        limits = make_limits(epsilon, budget, seconds, callback, target, begin)
        if not self.exact:
            limits = estimated(limits, self.bound, self.problem.facts, self.delta)
        if self._fault is not None:
            raise InvalidInput(
                f"This memory was left unfinished by an error ({self._fault}); "
                "start a new one."
            )
        state = self.problem.start(state)
        kept = copied(state)  # the caller may write into its own copy
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
            reached=self.memory.half_width(root, target),
            reason=reason,
            num_calls=self.num_calls - before,
            seconds=time.perf_counter() - begin - compile_seconds,
            compile_seconds=compile_seconds,
        )

    def _prepare(self, state: Any) -> float:
        """Compile what the first query needs, and return the seconds spent."""
        if self._prepared:
            return 0.0
        begin = time.perf_counter()
        self._region = Region(self.problem, self.memory, self.bound, self._radius_scale)
        self._steering = self.steering(self.problem, self._region, exact=self.exact)
        self._sampler = make_sampler(
            self.problem, self.memory, state, self.seed, self._compute
        )
        self._region.warm()
        self._prepared = True
        return time.perf_counter() - begin

    def _search(self, root: int, limits: Ends, begin: float) -> str:
        """Run rounds until the query may end, and return why it did."""
        self._region.start(root)
        self._steering.start()
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
                    half_width=self.memory.half_width(root, limits.target),
                    states=self.memory.num_nodes - 1,
                )
                if limits.callback(report) is False:
                    return "callback"
            if time.perf_counter() > limits.deadline:
                return "seconds"
            if self._looked is None and left > 0:  # nothing was sampled so far
                left -= self._look(self.memory.states[root], left)
            nothing = "budget" if left <= 0 else self._round(root, limits, left)
            if nothing is not None:
                self._finish(root, limits)
                if self._narrow(root, limits):
                    return self._reached(root, limits)
                return "seconds" if time.perf_counter() > limits.deadline else nothing

    def _look(self, state: Any, left: int) -> int:
        """Inspect the step before its first sample, and return the calls.

        They include those of the inspection after the query.
        """
        calls, self._looked = self._sampler.look(state, None, left // INSPECTED_SHARE)
        self.num_calls += calls + len(self._looked)
        return calls + len(self._looked)

    def _look_again(self, state: Any) -> None:
        """Repeat the inspection after a query, and check that no state has changed."""
        self.memory.check_untouched()
        if self._looked:
            calls, _ = self._sampler.look(state, self._looked, 0)
            self.num_calls += calls - (0 if self._asked else len(self._looked))
            self._asked = calls

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions of this memory's certificates."""
        looked = (
            ""
            if self._looked is None
            else seen(
                len(self._looked),
                self._asked,
                self._sampler.looks,
                self._sampler.guard.doubts,
            )
        )
        law = one_outcome(self._twice) if self.problem.deterministic else SAME_LAW
        return assumptions(self.problem, law, looked=looked)

    def _narrow(self, root: int, limits: Ends) -> bool:
        return (
            limits.goal is not None
            and self.memory.half_width(root, limits.target) <= limits.goal
        )

    def _reached(self, root: int, limits: Ends) -> str:
        assert limits.epsilon is not None
        return (
            "epsilon"
            if self.memory.half_width(root, limits.target) <= limits.epsilon
            else "rounding"
        )

    # --- one round ------------------------------------------------------------

    def _sweep(self, tune: int) -> float:
        """Run ``Region.sweep``; bounds that exclude each other are an error."""
        closed = self._region.sweep(tune)
        if closed < 0.0:
            raise contradiction(
                self.memory.states[int(-closed)], self.delta, self.assumed
            )
        return closed

    def _settle(self, root: int, limits: Ends) -> None:
        """Sweep until little moves, or the answer is narrow enough."""
        for i in range(MOST_SWEEPS):
            closed = self._sweep(WALK if i == 0 else KEEP)
            little = SETTLED * 2.0 * self.memory.half_width(root, limits.target)
            if (
                self._narrow(root, limits)
                or closed <= little
                or time.perf_counter() > limits.deadline
            ):
                return

    def _finish(self, root: int, limits: Ends) -> None:
        """Sweep all nodes in reach until a scan moves none of them.

        Sweeps are cheap and make full use of the samples. The widest node then
        satisfies width <= gamma width + radii + what the last sweep moved, so
        stopping here adds at most ``SWEPT`` of the goal.
        """
        self._region.list_reach()
        steps = self.problem.facts.steps(self.problem.horizon)
        tune = SCAN
        while not self._narrow(root, limits) and time.perf_counter() <= limits.deadline:
            before = self._region.widths
            self._sweep(tune)
            goal = (
                self.memory.half_width(root, limits.target)
                if limits.goal is None
                else limits.goal
            )
            still = float((before - self._region.widths).max()) <= (
                0.0 if self.exact else 2.0 * SWEPT * goal / steps
            )
            if still and tune == SCAN:
                return
            tune = SCAN if still else KEEP

    def _round(self, root: int, limits: Ends, left: int) -> str | None:
        """Choose pairs, sample and record; None, or why there was nothing to sample."""
        pairs, counts = (
            self._steering.uniform(left)
            if self.uniform
            else self._jobs(root, limits, left)
        )
        if len(pairs) == 0:
            return "exhausted"
        self._give_shares(pairs)
        done = 0
        while done < len(pairs):
            chunk = _chunk(counts, done)
            if chunk == 0:  # one job larger than the buffers: sample a part
                self._draw(pairs[done : done + 1], np.array([CHUNK]))
                counts[done] -= CHUNK
                continue
            self._draw(pairs[done : done + chunk], counts[done : done + chunk])
            done += chunk
            if time.perf_counter() > limits.deadline:
                break
        return None

    def _jobs(self, root: int, limits: Ends, left: int) -> Jobs:
        """Return which pairs to sample, and how often each."""
        choose = self._steering
        calls = min(left, choose.calls(root, limits, self._drawn_pairs))
        steered = choose.allowed(limits, calls)
        if steered <= 0:
            pairs, counts = choose.equal(limits.equal, left)
            if len(pairs):
                return pairs, counts
            # certainly narrow enough, unless rounding prevents it
            self._finish(root, limits)
            if self._narrow(root, limits):
                return pairs, counts
            steered = calls
        pairs, counts = choose.steered(root, limits, steered)
        if len(pairs) == 0:
            pairs, counts = choose.equal(None, steered)
        choose.num_steered += int(counts.sum())
        return (
            (pairs, self._with_checks(counts, left)) if self.exact else (pairs, counts)
        )

    def _give_shares(self, pairs: Ints) -> None:
        """Assign the next k to every new pair, before its first sample."""
        g = self.memory.graph
        new = pairs[g.pairs["total"][pairs] == 0.0]
        if not self.exact:
            g.pairs["cost"][new] = self.bound.cost(
                self._drawn_pairs + 1 + np.arange(len(new)), self.delta
            )
        self._drawn_pairs += len(new)

    def _draw(self, pairs: Ints, counts: Ints) -> None:
        memory = self.memory
        raws, rewards = self._sampler.draw(pairs, counts)
        low, high = self.problem.facts.reward_range
        resolved, done = self._sampler.resolved, 0
        while True:
            done = int(
                self._region.loops.record(
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
            memory.make_room(rehash_with=self._region.loops.rehash)
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


def _chunk(counts: Ints, done: int) -> int:
    """Return how many of the jobs from ``done`` on fit in the buffers."""
    return int(np.searchsorted(np.cumsum(counts[done:]), CHUNK, side="right"))
