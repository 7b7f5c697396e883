"""Certified search: intervals that hold at any time, for states that come back.

The price depends on the problem itself. The problem: V(s0) and Q(s0, a) of a
regularized MDP or game, from samples of its oracle alone, with a promise that holds
for every state seen, every number of samples and every query on one memory at once,
with probability 1 - delta.

    interval = [L, U],    q box = [Q_L(a), Q_U(a)],    policy = grad F(q values),
    value and q values: those of the counted model, in there (``counted_model``).

legend   symbol      public name
  delta              ``delta``: belongs to the memory, not to a query
  epsilon            half the width that a query is to reach

``Certified`` is the search as users see it. It has public collaborators: the data
(``search_memory``), the part of them that a query is about (``sweeps.region``), the
shares of delta (``price_forecast``), and the loop of rounds (``search_loop``), which is
there after the first query is prepared. A bound says how far a mean can be off
(``bounds``).

This file decides which problems are refused, how a query begins and is taken up, and how
it becomes an Estimate. Proofs: docs/certified.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from smoothcruiser.certified.bounds import bound_of, check_pool, default_bound
from smoothcruiser.certified.bounds.base import Bound
from smoothcruiser.certified.graph import END
from smoothcruiser.certified.price_forecast import DeltaShares
from smoothcruiser.certified.query_limits import (
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
from smoothcruiser.certified.sampling.step_inspections import StepInspections
from smoothcruiser.certified.search_answer import answer, assumed_in_search
from smoothcruiser.certified.search_loop import SearchLoop
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.snapshot_checks import Spelling
from smoothcruiser.certified.state_table import Table, table_of
from smoothcruiser.certified.steering import Steering
from smoothcruiser.certified.store_io import (
    Autosave,
    find_memory,
    load_memory,
    save_memory,
)
from smoothcruiser.certified.sweeps.layers import LayeredRegion
from smoothcruiser.certified.sweeps.pooled import PooledRegion
from smoothcruiser.certified.sweeps.region import Region, Sweeps
from smoothcruiser.certified.sweeps.total_sweeps import TotalRegion
from smoothcruiser.displayable import Shown, brief
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
from smoothcruiser.records.data import Framed, draw_object

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Certified(Shown, Framed):
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
    frame_columns = Table.frame_columns

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
        refuse_unbounded(problem, "certified")
        refuse_sampled(problem, "Certified search")
        self.compute = Compute.of("Certified", where)
        self.known = has_rows(problem)  # whether rows are read, where there are any
        promise = Promise(delta=check_delta(delta))
        # 0: none was given, and nothing may be sampled
        self.delta = promise.delta or 0.0 if self.known else promise.failure()
        self.problem, self.seed = problem, seed
        self.bound = bound_of(default_bound(problem) if bound is None else bound)
        check_pool(self.bound, problem)
        memory_limit = MemoryLimit.at_hand(check_max_states(max_states))
        self.memory = Memory(problem, self.bound, memory_limit)
        self.shares = DeltaShares(problem, self.bound, self.delta)
        self.inspections = StepInspections()
        self.history = History()  # how intervals narrowed; not kept in a store
        self.region: Region  # there once a query was requested
        self.loop: SearchLoop | None = None  # there once a query is prepared
        # the query under way, or the last one
        self.position: QueryProgress | None = None
        self.fault: str | None = None  # why no further query can be asked
        self.reason: str | None = None  # why the last query ended
        self.spelled: list[bytes] = []  # states in the form of snapshots
        self.asked: dict[
            int, tuple[int, float | None]
        ] = {}  # node: calls, usual error

    @property
    def exact(self) -> bool:
        """Whether nothing is estimated: one sample of any pair met so far suffices."""
        return self.shares.exact

    @property
    def num_calls(self) -> int:
        """The calls of the step so far, and the rows of ``outcomes=`` that were read."""
        return self.memory.num_calls

    @property
    def num_rows(self) -> int:
        """The rows of ``outcomes=`` that were read so far."""
        return self.memory.num_rows

    def close(self) -> None:
        """End the workers, if there are any; the memory can still be read."""
        if self.loop is not None:
            self.loop.sampler.close()

    # --- stores ---------------------------------------------------------------

    @cached_property
    def spelling(self) -> Spelling:
        """How a store writes the states of the problem."""
        return Spelling(self.problem)

    def save(self, path: str | Path) -> int:
        """Save the memory in the store ``path``; return its number there."""
        self._check_whole()
        return save_memory(self, path)

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
        stored_search = find_memory(path, problem, run, trust)
        return load_memory(cls, *stored_search, max_states=max_states, **where)

    def keep(self, write: Callable[[bytes, int], None]) -> None:
        """Save every query while it runs; ``write`` takes a snapshot and its calls."""
        self.keeper = Autosave(self, write)
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
            limits = limits.stopped_by(hold).reserve_calls(self.inspections.reserve)
            compile_seconds = self.prepare(state, limits)
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
            if self.loop is not None:  # a snapshot may have been taken in a round
                self.loop.drop_round(self.position)
            self.position = QueryProgress(
                root,
                self.memory.num_calls,
                limits.epsilon,
                limits.target,
                limits.relative,
                first_row=self.memory.num_rows,
            )
            with self._faults():
                self.region.start(root)
                if self.loop is not None:
                    self.loop.steering.num_steered = 0
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
        start_time, position = time.perf_counter(), self.position
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
            limits = limits.stopped_by(hold).reserve_calls(self.inspections.reserve)
            state = self.memory.states[position.root]
            compile_seconds = self.prepare(state, limits)
            limits = limits.postpone(self._loading)
            calls_left = limits.budget - (self.memory.num_calls - position.first_call)
            if (
                self.loop is not None  # a smaller budget than before
                and position.num_waiting(self.loop.batches.batch) > calls_left
            ):
                self.loop.drop_round(position)
            return self._answer(limits, start_time, compile_seconds)

    def _answer(
        self, limits: QueryLimits, start_time: float, compile_seconds: float
    ) -> Estimate:
        """Search from the position on, and return the estimate."""
        if self.shares.exact and self.known:
            limits = limits_for_rows(limits, self.problem.facts)
        elif not self.shares.exact:
            limits = limits_for_samples(limits, self.shares)
        position, loop = self.position, self.loop
        assert position is not None
        state = self.memory.states[position.root]
        reason = limits.stop_reason()
        if loop is not None:
            loop.keeper = self.keeper
            late_stop = end_calls_at(limits.latest, limits.hold)
            with self._faults(), warn_if_overdue(limits.seconds), late_stop:
                reason = loop.run(position, limits, start_time + compile_seconds)
                self.fault = loop.end_query(limits, state)
        self.reason = reason
        interval = self.memory.interval(position.root)
        self.history.add(position.root, self.memory.num_calls, interval)
        assert reason is not None
        compile_seconds += limits.watch.stood_still()
        estimate = answer(
            self,
            position.root,
            state,
            limits=limits,
            half_width=self.memory.half_width(position.root, limits.target),
            reason=reason,
            num_calls=self.memory.num_calls - position.first_call,
            num_rows=self.memory.num_rows - position.first_row,
            seconds=time.perf_counter() - start_time - compile_seconds,
            compile_seconds=compile_seconds,
        )
        self.asked[position.root] = (
            self.memory.num_calls - position.first_call,
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

    def prepare(self, state: Any, limits: QueryLimits) -> float:
        """Compile the loops of the first query, and return the seconds spent."""
        self._check_whole()
        self._loading = 0.0  # of these seconds, those that count against no limit
        if self.loop is not None:
            return 0.0
        start_time = time.perf_counter()
        self.loop = self._build_loop(state, limits)
        seconds_spent = time.perf_counter() - start_time
        # workers are waited for
        if self.loop is not None and not self.loop.sampler.workers:
            self._loading = seconds_spent
        return seconds_spent

    def _build_loop(self, state: Any, limits: QueryLimits) -> SearchLoop | None:
        """The loop with all that it needs; None if it was refused the time for that."""
        problem, memory = self.problem, self.memory
        is_refused = limits.phases.begin("compiling")
        with pause_stopwatch():
            region = make_region(problem, memory, self.bound, self.radius_scale)
            region.set_delta(self.delta)
            self.region = region
            sweeps = Sweeps(problem, region, self._crossing_error)
            steering = self.steering(problem, region, exact=self.shares.exact)
            steering.uniform = self.uniform
            if not self.shares.exact:
                sweeps.exact = False
                region.note_samples()
        if is_refused:
            return None
        wait_limits = limits.hold, limits.due  # workers are waited for
        try:
            sampler = make_sampler(
                problem, memory, state, self.seed, self.compute, *wait_limits
            )
        except KeyboardInterrupt:  # or its time was up while it waited for workers
            return None
        batches = BatchEntry(problem, memory, sampler, region.loops, self.seed)
        with pause_stopwatch():
            region.warm()
            warm_up()
        return SearchLoop(
            sweeps,
            steering,
            sampler,
            batches,
            self.shares,
            self.inspections,
            self.history,
        )

    @property
    def in_round(self) -> bool:
        """Whether a round is under way: its samples change no interval before its end."""
        return self.position is not None and self.position.sampling

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions of this memory's certificates."""
        num_checked, inspection_text = 0, ""
        if self.loop is not None:
            num_checked = self.loop.steering.num_checked
            inspection_text = self.inspections.describe(self.loop.sampler)
        num_rows = self.memory.num_rows if self.known else None
        return assumed_in_search(
            self.problem, num_rows, self.shares.exact, num_checked, inspection_text
        )

    def _crossing_error(self, node: int) -> Exception:
        """The error for a node with bounds that exclude each other."""
        delta = 0.0 if self.known and self.shares.exact else self.delta
        return contradiction(self.memory.states[node], delta, self.assumed)

    # --- displays -------------------------------------------------------------

    def __repr__(self) -> str:
        shown_fields = {"problem": self.problem.name, "delta": self.delta}
        return brief("Certified", **shown_fields, calls=self.memory.num_calls)

    def table(self) -> Table:
        """All states seen so far, with bounds that hold together (``table``)."""
        self._check_whole()
        return table_of(self)

    def records(self) -> list[dict[str, Any]]:
        """One row per state seen, with its bounds (``table``)."""
        return self.table().records()

    def plot(self, ax: Axes | None = None, state: Any = None) -> Axes:
        """Draw how the interval of a state narrowed with the calls; return the Axes.

        It needs matplotlib (extra ``report``). A store does not keep this history.

        Args:
            ax: where to draw; by default a figure of its own.
            state: one that was queried; by default the last one.
        """
        return draw_object("certified", self, ax, state=state)


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
