"""The data of a certified search: one memory, and the collaborators of its queries.

``SearchState`` has the problem and its one delta, the data (``search_memory``),
the part of them that a query is about (``sweeps.region``), the shares of delta
(``price_forecast``), and the loop of rounds (``search_loop``), which is there
after the first query is prepared. Answers, tables and snapshots read it; the
verbs of users are those of ``search.Certified``.

This file decides which problems are refused, and how the loop is put together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from smoothcruiser.certified.batch_entry import BatchEntry
from smoothcruiser.certified.bounds import bound_of, check_pool, default_bound
from smoothcruiser.certified.bounds.base import Bound
from smoothcruiser.certified.price_forecast import DeltaShares
from smoothcruiser.certified.query_limits import (
    MemoryLimit,
    QueryLimits,
    check_max_states,
)
from smoothcruiser.certified.query_progress import (
    Autosave,
    History,
    PathHelper,
    QueryProgress,
)
from smoothcruiser.certified.sampling.choose_sampler import make_sampler
from smoothcruiser.certified.sampling.step_inspections import StepInspections
from smoothcruiser.certified.search_loop import SearchLoop
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.steering import Steering
from smoothcruiser.certified.sweeps.compiled_loops import expect_calls
from smoothcruiser.certified.sweeps.region import Region, Sweeps
from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.action_sampler import refuse_sampled
from smoothcruiser.problem.assumptions import search_assumptions
from smoothcruiser.problem.declaration_checks import is_undiscounted, refuse_unbounded
from smoothcruiser.problem.model.known_outcomes import has_rows
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import contradiction
from smoothcruiser.query import Compute, ComputeKeywords, Promise, check_delta
from smoothcruiser.run_control.clock import pause_clock

if TYPE_CHECKING:
    from smoothcruiser.states.state_json import ExactJson


class SearchState:
    """A search as its collaborators see it; arguments are those of ``Certified``."""

    steering = Steering  # chooses the pairs to sample; tests replace it by worse ones
    radius_scale = 1.0  # tests make radii wrong
    notes: tuple[str, ...] = ()  # on data that a store could not keep or compare
    helper: PathHelper | None = None  # plays paths beside it
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
        refuse_unbounded(problem, "certified")
        refuse_sampled(problem, "Certified search")
        self.compute = Compute.of("Certified", where)
        self.known = has_rows(problem)  # whether rows are read, where there are any
        promise = Promise(delta=check_delta(delta))
        # 0: none was given, and nothing may be sampled
        self.delta = promise.delta or 0.0 if self.known else promise.failure()
        self.problem, self.seed = problem, seed
        self.bound = bound_of(default_bound(problem) if bound is None else bound)
        if self.bound.pool_share > 0.0:
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
        if self.helper is not None:
            self.helper.close()

    @cached_property
    def state_json(self) -> ExactJson:
        """How a store writes the states of the problem."""
        from smoothcruiser.states.state_json import ExactJson

        return ExactJson(self.problem)

    def check_whole(self) -> None:
        """Refuse to continue a memory that an error has left unfinished."""
        if self.fault is not None:
            problem_text = (
                f"This memory was left unfinished by an error ({self.fault})"
            )
            raise InvalidInput(f"{problem_text}; start a new one.")

    @contextmanager
    def note_fault(self) -> Iterator[None]:
        """Remember that an error has left the memory unfinished."""
        try:
            yield
        except BaseException as error:
            self.fault = f"{type(error).__name__}: {error}"
            raise

    def prepare(self, state: Any, limits: QueryLimits) -> float:
        """Compile the loops of the first query, and return the seconds spent."""
        self.check_whole()
        self.loading_seconds = (
            0.0  # of these seconds, those that count against no limit
        )
        if self.loop is not None:
            return 0.0
        start_time = time.perf_counter()
        self.loop = self._build_loop(state, limits)
        if self.loop is not None:
            self.loop.helper = self.helper
        seconds_spent = time.perf_counter() - start_time
        # workers are waited for
        if self.loop is not None and not self.loop.sampler.workers:
            self.loading_seconds = seconds_spent
        return seconds_spent

    def _build_loop(self, state: Any, limits: QueryLimits) -> SearchLoop | None:
        """The loop with all that it needs; None if it was refused the time for that."""
        problem, memory = self.problem, self.memory
        is_refused = limits.phases.begin("compiling")
        with pause_clock():
            region = make_region(problem, memory, self.bound, self.radius_scale)
            region.set_delta(self.delta)
            self.region = region
            sweeps = Sweeps(problem, region, self.crossing_error)
            steering = self.steering(problem, region, exact=self.shares.exact)
            if not self.shares.exact:
                sweeps.exact = False
                region.note_samples()
        if is_refused:
            return None
        wait_limits = (
            limits.control.hold,
            limits.control.deadline,
        )  # workers are waited for
        try:
            sampler = make_sampler(
                problem, memory, state, self.seed, self.compute, *wait_limits
            )
        except KeyboardInterrupt:  # or its time was up while it waited for workers
            return None
        batches = BatchEntry(problem, memory, sampler, region.loops, self.seed)
        if limits.epsilon is None and limits.relative is None and not sweeps.exact:
            expect_calls(limits.budget, limits.seconds)
        if region.loops.is_compiled:
            with pause_clock():
                region.warm()
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
        if self.loop is not None and self.problem.tables is None:
            inspection_text = self.inspections.describe(self.loop.sampler)
        num_rows = self.memory.num_rows if self.known else None
        return search_assumptions(
            self.problem, num_rows, self.shares.exact, num_checked, inspection_text
        )

    def crossing_error(self, node: int) -> Exception:
        """The error for a node with bounds that exclude each other."""
        delta = 0.0 if self.known and self.shares.exact else self.delta
        return contradiction(self.memory.states[node], delta, self.assumed)


def make_region(
    problem: Problem, memory: Memory, bound: Bound, radius_scale: float
) -> Region:
    """The region that fits the problem; the modules of the others stay unread."""
    arguments = problem, memory, bound, radius_scale
    if bound.pool_share > 0.0:
        from smoothcruiser.certified.sweeps.pooled import PooledRegion

        return PooledRegion(*arguments)
    if problem.horizon is not None:
        from smoothcruiser.certified.sweeps.layers import LayeredRegion

        return LayeredRegion(*arguments)
    if is_undiscounted(problem):
        from smoothcruiser.certified.sweeps.total_sweeps import TotalRegion

        return TotalRegion(*arguments)
    return Region(*arguments)
