"""``exact``: the solution of a model that is known, by no sampling at all."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import Interrupted, InvalidInput
from smoothcruiser.estimate import Estimate, unsampled_estimate
from smoothcruiser.methods.base import (
    BY_HAND,
    SAID_STOP,
    Forecast,
    Method,
    Prepared,
    Session,
)
from smoothcruiser.problem.declaration_checks import is_undiscounted
from smoothcruiser.problem.model.known_outcomes import check_model
from smoothcruiser.progress import skip_last_report
from smoothcruiser.query import Query, nearest_to_zero
from smoothcruiser.run_control.stop_requests import StopRequest, stoppable_run

if TYPE_CHECKING:
    from smoothcruiser.exact.reachable import KnownModel


@dataclass(frozen=True, kw_only=True)
class Exact(Method):
    """Solve the model: 0 calls, delta 0, a proven bound on the error of rounding.

    It keeps any promise and any limit of calls, so it takes those; it does not run
    anywhere else, and it keeps no runs.
    """

    name = "exact"
    because = ": it solves the model here, without sampling"
    compared = False
    sums_totals = True
    takes = frozenset(
        ("epsilon", "delta", "target", "budget", "seconds", "seed", "progress")
    )

    def prepare(self, query: Query) -> PreparedSolution:  # noqa: D102
        problem = query.problem
        check_model(problem)
        model_source = (
            "as tables"
            if problem.tables is not None
            else "by outcomes=, if its states can be listed"
        )
        sentence = (
            f"0 calls: the model is known {model_source}; the answer has a proven bound and "
            "no chance in it (delta 0)."
        )
        forecast = Forecast(self.name, 0, sentence, delta=0.0)
        return PreparedSolution(method=self, query=query, explanation=forecast)

    def session(self, query: Query) -> Session:
        """One solution for all decisions."""
        return SolutionSession(self, query)


@dataclass(frozen=True, kw_only=True, repr=False)
class PreparedSolution(Prepared):
    """A model about to be solved."""

    listed_model: KnownModel | None = (
        None  # the model, where its states are listed already
    )

    def answer(self) -> Estimate:
        """The row of the solution that belongs to the state.

        Where time or Ctrl-C ends it before, it is that of the sweeps so far. Where not
        all states were listed, it is the range that the rewards allow.
        """
        with stoppable_run() as hold:
            return self._solve_within(hold)

    def _solve_within(self, hold: StopRequest) -> Estimate:
        from smoothcruiser.exact.model import Watch
        from smoothcruiser.exact.proof import broken_claims
        from smoothcruiser.exact.reachable import TooLarge, known_model
        from smoothcruiser.exact.solution import exact_estimate
        from smoothcruiser.exact.solver import solve_model

        start_time = time.perf_counter()
        problem, state = self.query.problem, self.query.place
        solver_watch = Watch(self.query.progress, hold, self.query.limits.seconds)
        if problem.tables is None:
            problem = replace(problem, initial_state=state)

        try:
            with hold.opened():
                model = self.listed_model or known_model(problem, solver_watch)
        except (TooLarge, Interrupted, KeyboardInterrupt) as stop:
            # there are too many states for any time, or any total is possible
            if solver_watch() is None or is_undiscounted(problem):
                raise
            stop_reason = (
                str(stop) or "Stopped by hand while states were being listed."
            )
            answer = unsampled_estimate(problem, state, self.method.name, stop_reason)
            return self.annotated(
                replace(answer, seconds=time.perf_counter() - start_time)
            )
        solution = solve_model(problem, model, watch=solver_watch)
        bound = float(solution.residual_bound)
        stop_text = f"{BY_HAND}. " if hold.came else ""
        if solver_watch.phases.refused and not hold.came:
            stop_text = f"{SAID_STOP}. "
        solver_notes = (f"{stop_text}{solution.note}",) if solution.note else ()
        claim_notes = broken_claims(problem, model, solution, state)
        notes = (*self.notes, *solver_notes, *claim_notes)
        answer = exact_estimate(problem, solution, state, notes)
        promise = self.query.promise
        requested_epsilon: float | None = promise.epsilon
        epsilon_words: object = requested_epsilon
        if promise.relative is not None:
            nearest_value = nearest_to_zero(
                (answer.value - bound, answer.value + bound)
            )
            requested_epsilon = promise.relative * nearest_value
            epsilon_words = promise.words
        if (
            requested_epsilon is not None
            and answer.interval is not None
            and bound > requested_epsilon
        ):
            note = f"epsilon={epsilon_words} is below what double precision can prove here."
            if solver_watch() is not None:
                note = f"epsilon={epsilon_words} was not reached."
            answer = replace(answer, notes=(*answer.notes, note))
        compile_seconds = solution.compile_seconds
        elapsed = time.perf_counter() - start_time - compile_seconds
        return replace(answer, seconds=elapsed, compile_seconds=compile_seconds)


class SolutionSession(Session):
    """Decisions read from one solution, which is made when the first one is due.

    Where a state is not among those that the solution reaches, or its value is that
    with other steps left of a horizon, the decision is planned afresh.
    """

    _solution: Any = None

    def decide_fresh(self, state: Any) -> Estimate:  # noqa: D102
        return self.answer_query(self._at(state, self.query.seed, None))

    def answer_query(self, query: Query) -> Estimate:  # noqa: D102
        problem = query.problem
        is_timed = problem.horizon is not None and (
            problem.tables is None or problem is not self.query.problem
        )
        answer = None if is_timed else self._look_up(query)
        return super().answer_query(query) if answer is None else answer

    def _look_up(self, query: Query) -> Estimate | None:
        from smoothcruiser.exact import solve
        from smoothcruiser.exact.solution import exact_estimate

        start_time = time.perf_counter()
        if self._solution is None:
            problem = query.problem
            if problem.tables is None and problem.initial_state is None:
                problem = replace(problem, initial_state=query.state)
            self._solution = solve(problem, progress=skip_last_report(query.progress))
        try:
            answer = exact_estimate(query.problem, self._solution, query.state)
        except InvalidInput:
            return None
        return replace(answer, seconds=time.perf_counter() - start_time)
