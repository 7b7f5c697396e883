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
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from smoothcruiser.certified.graph import END
from smoothcruiser.certified.query_limits import (
    MemoryFull,
    QueryLimits,
    Target,
    limits_for_rows,
    limits_for_samples,
    make_limits,
)
from smoothcruiser.certified.query_progress import Autosave, QueryProgress
from smoothcruiser.certified.search_answer import STATE_COLUMNS, answer
from smoothcruiser.certified.search_state import SearchState
from smoothcruiser.certified.snapshots.snapshot import to_bytes
from smoothcruiser.certified.snapshots.store_io import (
    find_memory,
    load_memory,
    save_memory,
)
from smoothcruiser.displayable import Shown, brief
from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate, terminal_estimate
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback, report_progress
from smoothcruiser.progress import progress_callback as read_progress
from smoothcruiser.query import ComputeKeywords
from smoothcruiser.records.data import Framed, draw_object
from smoothcruiser.run_control.call_seconds import end_calls_at, warn_if_overdue
from smoothcruiser.run_control.stop_requests import stoppable_run
from smoothcruiser.states.state_copies import copy_state

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from smoothcruiser.certified.state_table import Table


class Certified(SearchState, Shown, Framed):
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

    frame_columns = STATE_COLUMNS

    # --- stores ---------------------------------------------------------------

    def save(self, path: str | Path) -> int:
        """Save the memory in the store ``path``; return its number there."""
        self.check_whole()
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

        def write_snapshot() -> None:
            write(to_bytes(self), self.memory.num_calls)

        self.keeper = Autosave(write_snapshot)
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
            epsilon, budget, seconds, read_progress(progress), target, relative
        )
        state = self.problem.start(state)
        own_copy = copy_state(state)  # the caller may write into its own copy
        state = state if own_copy is None else own_copy
        if self.keeper is not None:
            self.state_json.check(state)
        with stoppable_run() as hold:
            limits = limits.in_run(hold, self.inspections.reserve(limits.budget))
            compile_seconds = self.prepare(state, limits)
            limits.control.restart_clock(
                time.perf_counter() - start_time - self.loading_seconds
            )
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
            with self.note_fault():
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
            position.relative,
        )
        with stoppable_run() as hold:
            limits = limits.in_run(hold, self.inspections.reserve(limits.budget))
            state = self.memory.states[position.root]
            compile_seconds = self.prepare(state, limits)
            limits.control.restart_clock(
                time.perf_counter() - start_time - self.loading_seconds
            )
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
        reason: str | None = limits.control.check()
        if loop is not None:
            loop.keeper = self.keeper
            late_stop = end_calls_at(limits.control.latest, limits.control.hold)
            with self.note_fault(), warn_if_overdue(limits.seconds), late_stop:
                reason = loop.run(position, limits, start_time + compile_seconds)
                self.fault = loop.end_query(limits, state)
        self.reason = reason
        interval = self.memory.interval(position.root)
        self.history.add(position.root, self.memory.num_calls, interval)
        assert reason is not None
        compile_seconds += limits.control.clock.compile_seconds()
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
        if self.helper is not None:
            estimate = self.helper.annotate(estimate, position.root)
        self.asked[position.root] = (
            self.memory.num_calls - position.first_call,
            estimate.standard_error,
        )
        return estimate

    # --- displays -------------------------------------------------------------

    def __repr__(self) -> str:
        shown_fields = {"problem": self.problem.name, "delta": self.delta}
        return brief("Certified", **shown_fields, calls=self.memory.num_calls)

    def table(self) -> Table:
        """All states seen so far, with bounds that hold together (``table``)."""
        from smoothcruiser.certified.state_table import table_of

        self.check_whole()
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
