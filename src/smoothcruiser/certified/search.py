"""Certified search: intervals that hold at any time, for states that come back.

The price depends on the problem itself. The problem: V(s0) and Q(s0, a) of a
regularized MDP or game, from samples of its oracle alone, with a promise that holds
for every state seen, every number of samples and every query on one memory at once,
with probability 1 - delta.
Each round sweeps the bounds L <= V <= U over the seen graph (``region``), stops
if the interval is narrow enough, and otherwise samples (``sampling``) where the
width of the answer comes from (``steering``). A bound says how far a mean can
be off (``bounds``); the data are in ``memory``.

    interval = [L, U],    q box = [Q_L(a), Q_U(a)],    policy = grad F(q values),
    value and q values: those of the counted model, in there (``counted_model``).

legend   symbol      public name
  delta              ``delta``: belongs to the memory, not to a query
  epsilon            half the width that a query is to reach

A query of ``epsilon`` steers its samples for as many calls as equal numbers of
samples would certainly need. After that it brings every pair that it can reach
to the equal share (``price_forecast``), so that its price has a bound. It also falls
back on equal numbers where steering finds nothing to do. It gives up only where
no pair in reach has a radius and sweeps no longer change anything.

Rounds: calls grow by a quarter each time. So a problem that takes n calls takes
about log(n)/log(1.25) rounds of sweeps, and at most a quarter of the calls came
too late to be steered. Nothing depends on the clock except a stop by
``seconds``.

This file decides rounds and stops. Proofs: docs/certified.md.

Which kind of region a problem has.

Which problems certified search refuses before it begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

from smoothcruiser.certified.bounds import bound_of, check_pool, default_bound
from smoothcruiser.certified.bounds.base import Bound
from smoothcruiser.certified.graph import END
from smoothcruiser.certified.query_limits import (
    FULL,
    MemoryFull,
    MemoryLimit,
    QueryLimits,
    Target,
    check_max_states,
    limits_for_rows,
    limits_for_samples,
    make_limits,
)
from smoothcruiser.certified.query_progress import History, QueryProgress
from smoothcruiser.certified.sample_batches import BatchEntry
from smoothcruiser.certified.sampling.choose_sampler import make_sampler
from smoothcruiser.certified.sampling.sampler import Sampler
from smoothcruiser.certified.sampling_rounds import (
    Autosave,
    SamplingRounds,
    SlicePace,
    StepInspections,
)
from smoothcruiser.certified.search_answer import answer, assumed_in_search
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.snapshot import to_bytes
from smoothcruiser.certified.snapshot_checks import Spelling
from smoothcruiser.certified.state_table import MemoryDisplays
from smoothcruiser.certified.steering import Jobs, Steering, with_checks
from smoothcruiser.certified.sweeps.layers import LayeredRegion
from smoothcruiser.certified.sweeps.pooled import PooledRegion
from smoothcruiser.certified.sweeps.region import Region, Sweeps
from smoothcruiser.certified.sweeps.total_sweeps import TotalRegion
from smoothcruiser.engines.watchdog import end_calls_at, warn_if_overdue
from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate, terminal_estimate
from smoothcruiser.jit.interrupts import pause_stopwatch, stoppable_run
from smoothcruiser.jit.random.streams import warm_up
from smoothcruiser.problem.action_sampler import refuse_sampled
from smoothcruiser.problem.declaration_checks import is_undiscounted, refuse_unbounded
from smoothcruiser.problem.model.known_outcomes import has_rows
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import copy_state
from smoothcruiser.problem.step_errors import contradiction
from smoothcruiser.progress import Callback, report_progress
from smoothcruiser.progress import progress_callback as read_progress
from smoothcruiser.query import Compute, ComputeKeywords, Promise, check_delta
from smoothcruiser.shown import Shown

STOPS = ("seconds", "hand", "callback")  # ends of a query that can go on as it was
ENOUGH = ("epsilon", "rounding")  # ends of a query that is answered


class Certified(Shown, MemoryDisplays):
    """A memory of one problem: counts, bounds, and one delta for all its queries.

    Args:
        problem: one with states that come back. Rows of ``outcomes=`` are read, and
            not sampled.
        delta: probability that any interval ever fails; 0 where ``outcomes=`` is whole.
        seed: of the samples; 0 by default.
        bound: how far a mean of samples can be off, a word of
            ``certified.bounds.BOUNDS``; by default the best one for the problem.
        max_states: most states to keep; by default as many as fit in half of the
            memory that is available. A query that meets more states ends with the
            interval it has.
        executor: "processes" or "dask" to spread samples; this and ``workers``,
            ``scheduler`` and ``tls`` (as in ``plan``) change no bit of the result.

    Example:
        >>> import smoothcruiser as sc
        >>> chain = sc.make("chain:n=5", discount=0.9, operator="max")
        >>> sc.Certified(chain, delta=0.1).query(0, epsilon=0.2).action_label
        'right'
    """

    steering = Steering  # chooses the pairs to sample; tests replace it by worse ones
    # whether every pair is sampled equally often, for comparisons in benchmarks
    uniform = False
    radius_scale = 1.0  # tests make radii wrong
    notes: tuple[str, ...] = ()  # on data that a store could not keep or compare
    keeper: Autosave | None = None  # where the search is saved while it runs

    def __init__(
        self,
        problem: Problem,
        *,
        delta: float | None = None,
        seed: int = 0,
        bound: str | None = None,
        max_states: int | None = None,
        **where: Unpack[ComputeKeywords],
    ) -> None:
        refuse_unfit(problem)
        self._compute = Compute.of("Certified", where)
        self.known = has_rows(problem)  # whether rows are read, where there are any
        promise = Promise(delta=check_delta(delta))
        # 0: none was given, and nothing may be sampled
        self.delta = promise.delta or 0.0 if self.known else promise.failure()
        self.problem, self.seed = problem, seed
        self.bound = bound_of(default_bound(problem) if bound is None else bound)
        check_pool(self.bound, problem)
        memory_limit = MemoryLimit.at_hand(check_max_states(max_states))
        self.memory = Memory(problem, self.bound, memory_limit)
        self.num_calls = 0  # of the step, and rows of outcomes= that were read
        self.num_rows = 0  # of these, the rows
        self._drawn_pairs = 0  # k: pairs that have a share of delta
        self.fault: str | None = None  # why no further query can be asked
        self._prepared = False  # whether the next five are there
        self._region: Region
        self._sweeps: Sweeps
        self._steering: Steering
        self._sampler: Sampler
        self._intake: BatchEntry
        self._pace = SlicePace()
        self._taking = SamplingRounds(self)
        self.history = History()
        self._at: QueryProgress | None = None  # the query under way, or the last one
        self._inspected = StepInspections()
        self._twice = 0  # pairs of a deterministic problem that were sampled twice
        self.reason: str | None = None  # why the last query ended
        self.spelled: list[bytes] = []  # states in the form of snapshots
        self.asked: dict[
            int, tuple[int, float | None]
        ] = {}  # node: calls, usual error

    @property
    def exact(self) -> bool:
        """Whether nothing is estimated: one sample of any pair met so far suffices."""
        only_rows = self.known and self._drawn_pairs == 0
        return self.problem.deterministic or only_rows

    def close(self) -> None:
        """End the workers, if there are any; the memory can still be read."""
        if self._prepared:
            self._sampler.close()

    # --- stores ---------------------------------------------------------------

    @cached_property
    def spelling(self) -> Spelling:
        """How a store writes the states of the problem."""
        return Spelling(self.problem)

    def save(self, path: str | Path) -> int:
        """Save the memory in the store ``path``; return its number there."""
        from smoothcruiser.certified.store_io import save

        self._check_whole()
        return save(self, path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        problem: Problem | None = None,
        *,
        run: int | None = None,
        trust: bool = False,
        max_states: int | None = None,
        **where: Unpack[ComputeKeywords],
    ) -> Certified:
        """Return a memory that a store keeps; further queries share its delta.

        Args:
            path: the file that ``save`` or a plan with ``store=`` wrote.
            problem: the same problem again, where ``make`` did not build it.
            run: its number there; by default that of the newest memory.
            trust: whether a module that the store names may be imported for it.
            max_states: as in ``Certified``; so are the other arguments.
        """
        from smoothcruiser.certified.store_io import find_memory, load_memory

        stored_search = find_memory(path, problem, run, trust)
        return load_memory(cls, *stored_search, max_states=max_states, **where)

    def keep(self, write: Callable[[bytes, int], None]) -> None:
        """Save every query while it runs; ``write`` takes a snapshot and its calls."""
        self.keeper = Autosave(write)
        self.memory.room = self.memory.room.in_store()

    # --- queries --------------------------------------------------------------

    @report_progress
    def query(
        self,
        state: Any = None,
        *,
        epsilon: float | None = None,
        relative: float | None = None,
        budget: float | None = None,
        seconds: float | None = None,
        progress: bool | Callback | None = None,
        target: Target = "q_values",
    ) -> Estimate:
        """Return the Estimate at ``state``, with half-widths of at most ``epsilon``.

        With ``relative`` in its place they are at most that share of |V|. They
        are larger where budget, seconds, progress, Ctrl-C or the room for states
        ended the query before. ``target`` says which intervals have to be
        narrow: those of all action values (and so that of the value), or the
        value's alone. ``budget`` counts the calls of this query (``num_calls``). All
        estimates of one memory hold together with probability 1 - delta. ``progress``
        is as in ``plan``.
        """
        start_time = time.perf_counter()
        limits = make_limits(
            epsilon,
            budget,
            seconds,
            read_progress(progress),
            target,
            start_time,
            relative,
        )
        state = self.problem.start(state)
        own_copy = copy_state(state)  # the caller may write into its own copy
        state = state if own_copy is None else own_copy
        if self.keeper is not None:
            self.spelling.check(state)
        with stoppable_run() as hold:
            limits = limits.stopped_by(hold).reserve_calls(self._inspected.reserve)
            compile_seconds = self._prepare(state, limits)
            limits = limits.postpone(self._loading)
            try:
                root = self.memory.node_of(state)
            except MemoryFull as error:
                raise InvalidInput(
                    f"State {state!r:.60} has no room in this memory ({error}); "
                    "start another one."
                ) from None
            if root == END:
                return terminal_estimate(self.problem, state, "certified", self.seed)
            self._taking.drop_round()  # of a snapshot that was taken in one
            self._at = QueryProgress.begin(root, self.num_calls, self.num_rows, limits)
            with self._faults():
                self._region.start(root)
                self._steering.start()
            return self._answer(limits, start_time, compile_seconds)

    def go_on(
        self,
        *,
        budget: float | None = None,
        seconds: float | None = None,
        callback: Callback | None = None,
    ) -> Estimate:
        """Return the Estimate of the query that was under way when this was saved.

        Its bits are those of a query that was never stopped. ``budget`` counts all
        calls of the query; with a larger one it goes on from where it was.
        """
        start_time, position = time.perf_counter(), self._at
        if position is None:
            raise InvalidInput("No query of this memory is under way; ask one.")
        limits = make_limits(
            position.epsilon,
            budget,
            seconds,
            callback,
            position.target,
            start_time,
            position.relative,
        )
        with stoppable_run() as hold:
            limits = limits.stopped_by(hold).reserve_calls(self._inspected.reserve)
            state = self.memory.states[position.root]
            compile_seconds = self._prepare(state, limits)
            limits = limits.postpone(self._loading)
            calls_left = limits.budget - (self.num_calls - position.first_call)
            # a smaller budget than before
            if position.num_waiting(self._intake.batch) > calls_left:
                self._taking.drop_round()
            return self._answer(limits, start_time, compile_seconds)

    def _answer(
        self, limits: QueryLimits, start_time: float, compile_seconds: float
    ) -> Estimate:
        """Search from the position on, and return the estimate."""
        if self.exact and self.known:
            limits = limits_for_rows(limits, self.problem.facts)
        elif not self.exact:
            limits = limits_for_samples(limits, self.bound, self.problem, self.delta)
        position = self._at
        assert position is not None
        state = self.memory.states[position.root]
        reason = limits.stop_reason()
        if self._prepared:
            self._sampler.hold = limits.hold
            self._sampler.deadline = limits.deadline
            late_stop = end_calls_at(limits.latest, limits.hold)
            with self._faults(), warn_if_overdue(limits.seconds), late_stop:
                reason = self._search(position, limits, start_time + compile_seconds)
                self._taking.end_query(limits, state)
        self.reason = reason
        self._remember(position)
        assert reason is not None
        compile_seconds += limits.watch.stood_still()
        estimate = answer(
            self,
            position.root,
            state,
            limits=limits,
            half_width=self.memory.half_width(position.root, limits.target),
            reason=reason,
            num_calls=self.num_calls - position.first_call,
            num_rows=self.num_rows - position.first_row,
            seconds=time.perf_counter() - start_time - compile_seconds,
            compile_seconds=compile_seconds,
        )
        self.asked[position.root] = (
            self.num_calls - position.first_call,
            estimate.standard_error,
        )
        return estimate

    def _check_whole(self) -> None:
        """Refuse to continue a memory that an error has left unfinished."""
        if self.fault is not None:
            problem_text = (
                f"This memory was left unfinished by an error ({self.fault})"
            )
            raise InvalidInput(f"{problem_text}; start a new one.")

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Remember that an error has left the memory unfinished."""
        try:
            yield
        except BaseException as error:
            self.fault = f"{type(error).__name__}: {error}"
            raise

    def _prepare(self, state: Any, limits: QueryLimits) -> float:
        """Compile the loops of the first query, and return the seconds spent."""
        self._check_whole()
        self._loading = 0.0  # of these seconds, those that count against no limit
        if self._prepared:
            return 0.0
        start_time = time.perf_counter()
        self._prepared = self._build(state, limits)
        seconds_spent = time.perf_counter() - start_time
        if self._prepared and not self._sampler.workers:  # they are waited for
            self._loading = seconds_spent
        return seconds_spent

    def _build(self, state: Any, limits: QueryLimits) -> bool:
        problem, memory = self.problem, self.memory
        is_refused = limits.phases.begin("compiling")
        with pause_stopwatch():
            self._region = make_region(problem, memory, self.bound, self.radius_scale)
            self._region.set_delta(self.delta)
            self._sweeps = Sweeps(problem, self._region, self._crossing_error)
            self._steering = self.steering(problem, self._region, exact=self.exact)
            if not self.exact:
                self._sweeps.exact = False
                self._region.note_samples()
        if is_refused:
            return False
        wait_limits = limits.hold, limits.due  # workers are waited for
        try:
            self._sampler = make_sampler(
                problem, memory, state, self.seed, self._compute, *wait_limits
            )
        except KeyboardInterrupt:  # or its time was up while it waited for workers
            return False
        self._intake = BatchEntry(
            self.problem, self.memory, self._sampler, self._region.loops, self.seed
        )
        with pause_stopwatch():
            self._region.warm()
            warm_up()
        return True

    def _search(
        self, position: QueryProgress, limits: QueryLimits, start_time: float
    ) -> str:
        """Run rounds until the query may end, and return why it did."""
        self._taking.start(start_time)
        while True:
            if self._steering.exact and not self.exact:
                limits = self._taking.begin_sampling(limits)
            calls_left = limits.budget - (self.num_calls - position.first_call)
            stop_reason = position.ended
            if stop_reason == "budget" and calls_left > 0:
                stop_reason = None
            if stop_reason in FULL and not self.memory.is_crowded(1):
                stop_reason = None  # it was given more room
            if stop_reason is None and not position.sampling:
                # samples of an earlier round come first
                stop_reason = self._taking.enter_waiting(limits)
            if stop_reason is None and not position.sampling:
                self._sweeps.settle(position, limits, self._save_if_due)
                self._remember(position)
                stop_reason = self._stop_reason(position, limits)
                if stop_reason in ENOUGH:
                    return stop_reason
                if stop_reason is None and calls_left > 0 and self._taking.is_first:
                    calls_left -= self._taking.inspect(position, calls_left, limits)
                    stop_reason = limits.stop_reason()
                if stop_reason is None:
                    stop_reason = (
                        "budget"
                        if calls_left <= 0
                        else self._begin_round(position, limits, calls_left)
                    )
            if stop_reason is None:
                stop_reason = self._taking.sample_round(position, limits)
            if stop_reason in STOPS:  # it was saved: the rest is for the answer alone
                self._sweeps.settle(position, limits.closing_limits())
                if self._sweeps.is_narrow(position, limits):
                    self._save(position)
                    return self._sweeps.end_reason(position, limits)
                return stop_reason
            if stop_reason is not None:
                self._save(position, stop_reason)
                self._sweeps.finish(position, limits)
                if self._sweeps.is_narrow(position, limits):
                    return self._sweeps.end_reason(position, limits)
                return limits.stop_reason() or stop_reason

    def _stop_reason(self, position: QueryProgress, limits: QueryLimits) -> str | None:
        """Return why a query ends between two rounds, if it does; it is saved then."""
        reason: str | None
        if self._sweeps.is_narrow(position, limits):
            reason = self._sweeps.end_reason(position, limits)
        else:
            reason = self._taking.said_stop(position, limits, least_seconds=0.0)
            reason = reason or limits.stop_reason(self._taking.ending_seconds(limits))
        if reason is not None:
            self._save(position)
        return reason

    def _save(self, position: QueryProgress, ended: str | None = None) -> None:
        """Save the search, if there is a keeper, at a point where it is whole."""
        position.ended = ended
        if self.keeper is not None and not self._sampler.torn:
            self.keeper.save(lambda: to_bytes(self), self.num_calls)

    def _save_if_due(self, position: QueryProgress) -> None:
        if self.keeper is not None and self.keeper.due:
            self._save(position)

    @property
    def in_round(self) -> bool:
        """Whether a round is under way: its samples change no interval before its end."""
        return self._at is not None and self._at.sampling

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions of this memory's certificates."""
        inspection_text = (
            self._inspected.describe(self._sampler) if self._prepared else ""
        )
        num_rows = self.num_rows if self.known else None
        return assumed_in_search(
            self.problem, num_rows, self.exact, self._twice, inspection_text
        )

    def _crossing_error(self, node: int) -> Exception:
        """The error for a node with bounds that exclude each other."""
        delta = 0.0 if self.known and self.exact else self.delta
        return contradiction(self.memory.states[node], delta, self.assumed)

    def _begin_round(
        self, position: QueryProgress, limits: QueryLimits, calls_left: int
    ) -> str | None:
        """Choose the pairs to sample; return None, or why there are none."""
        if self._intake.batch is None:  # else samples wait that were taken before
            self._region.mark_last()
        uniform_jobs = self._steering.uniform_jobs
        pairs, counts = (
            uniform_jobs(calls_left)
            if self.uniform
            else self._jobs(position, limits, calls_left)
        )
        if len(pairs) == 0:
            default_reason = "seconds" if self._region.unfinished else "exhausted"
            return limits.stop_reason() or default_reason
        self._taking.begin_round(position, pairs, counts)
        return None

    def _jobs(
        self, position: QueryProgress, limits: QueryLimits, calls_left: int
    ) -> Jobs:
        """Return which pairs to sample, and how often each."""
        steering, root = self._steering, position.root
        pairs_seen = self.num_rows if self.known else self._drawn_pairs
        num_calls = min(calls_left, steering.next_calls(root, limits, pairs_seen))
        steerable_calls = steering.num_steerable(limits, num_calls)
        if steerable_calls <= 0:
            pairs, counts = steering.equal_jobs(limits.equal, calls_left)
            if len(pairs):
                return pairs, counts
            # certainly narrow enough, unless rounding prevents it
            self._save(position)  # a stop in here is taken up from here
            self._sweeps.finish(position, limits)
            if (
                self._sweeps.is_narrow(position, limits)
                or limits.stop_reason() is not None
            ):
                return pairs, counts
            steerable_calls = num_calls
        pairs, counts = steering.steered_jobs(root, limits, steerable_calls)
        if len(pairs) == 0 and not self._region.unfinished:
            pairs, counts = steering.equal_jobs(None, steerable_calls)
        steering.num_steered += int(counts.sum())
        if self.problem.deterministic and not self.known:
            counts, num_checked = with_checks(counts, self._drawn_pairs, calls_left)
            self._twice += num_checked
        return pairs, counts


def make_region(
    problem: Problem, memory: Memory, bound: Bound, radius_scale: float
) -> Region:
    """The region that fits the problem: layers where there is a horizon."""
    region_class = Region if problem.horizon is None else LayeredRegion
    if bound.pool_share > 0.0:
        region_class = PooledRegion
    elif is_undiscounted(problem):
        region_class = TotalRegion
    return region_class(problem, memory, bound, radius_scale)


def refuse_unfit(problem: Problem) -> None:
    """Refuse totals without a bound, and actions that are sampled."""
    refuse_unbounded(problem, "certified")
    refuse_sampled(problem, "Certified search")
