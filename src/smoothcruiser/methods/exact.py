"""``exact``: the solution of a model that is known, by no sampling at all."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import Interrupted, InvalidInput
from smoothcruiser.estimate import Estimate, unsampled_estimate
from smoothcruiser.jit.interrupts import Hold, held
from smoothcruiser.methods.base import (
    BY_HAND,
    SAID_STOP,
    Forecast,
    Method,
    Prepared,
    Session,
)
from smoothcruiser.problem.rows import check_model
from smoothcruiser.problem.undiscounted import is_undiscounted
from smoothcruiser.progress import part
from smoothcruiser.query import Query, nearest_to_zero

if TYPE_CHECKING:
    from smoothcruiser.exact.reachable import Known


@dataclass(frozen=True, kw_only=True)
class Exact(Method):
    """Solve the model: 0 calls, delta 0, a proven bound on what rounding leaves.

    It keeps any promise and any limit of calls, so it takes those; it does not run
    anywhere else, and it keeps no runs.
    """

    name = "exact"
    because = ": it solves the model here, without sampling"
    compared = False
    sums_totals = True

    @property
    def takes(self) -> frozenset[str]:  # noqa: D102
        promise = {"epsilon", "delta", "target"}
        return frozenset(promise | {"budget", "seconds", "seed", "progress"})

    def prepare(self, query: Query) -> Solving:  # noqa: D102
        problem = query.problem
        check_model(problem)
        known = (
            "as tables"
            if problem.tables is not None
            else "by outcomes=, if its states can be listed"
        )
        sentence = (
            f"0 calls: the model is known {known}; the answer has a proven bound and "
            "no chance in it (delta 0)."
        )
        forecast = Forecast(self.name, 0, sentence, delta=0.0)
        return Solving(method=self, query=query, explanation=forecast)

    def session(self, query: Query) -> Session:
        """One solution for all decisions."""
        return Lookup(self, query)


@dataclass(frozen=True, kw_only=True, repr=False)
class Solving(Prepared):
    """A model about to be solved."""

    known: Known | None = None  # the model, where its states are listed already

    def answer(self) -> Estimate:
        """The row of the solution that belongs to the state.

        Where time or Ctrl-C ends it before, it is that of the sweeps so far, or what
        the rewards allow where not all states were listed.
        """
        with held() as hold:
            return self._run(hold)

    def _run(self, hold: Hold) -> Estimate:
        from smoothcruiser.exact.claims import broken_claims
        from smoothcruiser.exact.estimate import exact_estimate
        from smoothcruiser.exact.reachable import TooLarge, known_model
        from smoothcruiser.exact.solver import solve_model
        from smoothcruiser.exact.watch import Watch

        begin = time.perf_counter()
        problem, state = self.query.problem, self.query.place
        seconds = self.query.limits.seconds
        deadline = math.inf if seconds is None else begin + seconds
        over = Watch(self.query.progress, hold, deadline)
        if problem.tables is None:
            problem = replace(problem, initial_state=state)

        try:
            with hold.opened():
                known = self.known or known_model(problem, deadline, over)
        except (TooLarge, Interrupted, KeyboardInterrupt) as stop:
            # there are too many states for any time, or any total is possible
            if over() is None or is_undiscounted(problem):
                raise
            told = str(stop) or "Stopped by hand while states were being listed."
            answer = unsampled_estimate(problem, state, self.method.name, told)
            return self.annotated(replace(answer, seconds=time.perf_counter() - begin))
        solution = solve_model(problem, known, watch=over)
        bound = float(solution.residual_bound)
        stopped = f"{BY_HAND}. " if hold.came else ""
        if over.phases.refused and not hold.came:
            stopped = f"{SAID_STOP}. "
        said = (f"{stopped}{solution.note}",) if solution.note else ()
        false = broken_claims(problem, known, solution, state)
        notes = (*self.notes, *said, *false)
        answer = exact_estimate(problem, solution, state, notes)
        promise = self.query.promise
        asked: float | None = promise.epsilon
        words: object = asked
        if promise.relative is not None:
            nearest = nearest_to_zero((answer.value - bound, answer.value + bound))
            asked, words = promise.relative * nearest, promise.words
        if asked is not None and answer.interval is not None and bound > asked:
            note = f"epsilon={words} is below what double precision can prove here."
            if over() is not None:
                note = f"epsilon={words} was not reached."
            answer = replace(answer, notes=(*answer.notes, note))
        compiling = solution.compile_seconds
        elapsed = time.perf_counter() - begin - compiling
        return replace(answer, seconds=elapsed, compile_seconds=compiling)


class Lookup(Session):
    """Decisions read from one solution, which is made when the first one is due.

    Where a state is not among those that the solution reaches, or its value is that
    with other steps left of a horizon, the decision is planned afresh.
    """

    _solution: Any = None

    def fixed(self, state: Any) -> Estimate:  # noqa: D102
        return self._decide(self._at(state, self.query.seed, None))

    def _decide(self, query: Query) -> Estimate:
        problem = query.problem
        timed = problem.horizon is not None and (
            problem.tables is None or problem is not self.query.problem
        )
        found = None if timed else self._found(query)
        return super()._decide(query) if found is None else found

    def _found(self, query: Query) -> Estimate | None:
        from smoothcruiser.exact import solve
        from smoothcruiser.exact.estimate import exact_estimate

        begin = time.perf_counter()
        if self._solution is None:
            problem = query.problem
            if problem.tables is None and problem.initial_state is None:
                problem = replace(problem, initial_state=query.state)
            self._solution = solve(problem, progress=part(query.progress))
        try:
            answer = exact_estimate(query.problem, self._solution, query.state)
        except InvalidInput:
            return None
        return replace(answer, seconds=time.perf_counter() - begin)
