"""Every planner on one problem with the same budget of oracle calls.

Each answer is measured against the exact solution of the problem itself (its
operator, its discount), where the model is known:

  error            |value - V(state)|
  action regret    max Q(state, .) - Q(state, recommended action)
                   (with the opposite sign for the min player)
  policy regret    V(state) - (<pi, Q(state, .)> - Omega(pi))
                   (the one-step loss of the recommended policy)

The exact solution has a proven error of its own, ``truth_bound``: an error is
known up to it and a regret, a difference of two exact values, up to twice that.
Smaller ones are indistinguishable from 0.

Methods with another objective (UCT on a regularized problem, say) are measured
in the same way, because the problem states the user's goal. Their rows name the
operator that they estimate the value of (``estimates``). The sharp schedule spends
the budget on the smallest epsilon that it can pay; where even half of the value
span is out of reach, its row says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from smoothcruiser import api
from smoothcruiser.comparison.comparison_results import (
    Comparison,
    PlannedRun,
    PlannerRun,
    Truth,
)
from smoothcruiser.errors import Interrupted, InvalidInput, SmoothcruiserError
from smoothcruiser.estimate import Estimate
from smoothcruiser.methods import METHODS, resolve
from smoothcruiser.methods.base import Method
from smoothcruiser.methods.tree_search import NOTHING_GROWN, TreeSearch
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import (
    Callback,
    Phases,
    Progress,
    finish,
    progress_callback,
    show_bar,
)
from smoothcruiser.query import check_problem, named_keywords
from smoothcruiser.run_control.stop_requests import current_stops, stoppable
from smoothcruiser.tree.search_rules import Search

DELTA = 0.1  # of the planners that promise


def planners() -> tuple[str, ...]:
    """The methods that are compared where none is named, registered ones included."""
    return tuple(name for name, method in METHODS.items() if method.compared)


def truth_of(
    problem: Problem, state: Any, progress: Callback | None = None
) -> Truth | None:
    """The exact solution, None where the model is not known.

    ``progress`` hears of it as the first part of a comparison. Ctrl-C and False from it
    raise Interrupted: the values of a stopped solver are no truth to measure with.
    """
    if problem.tables is None and problem.outcomes is None:
        return None
    stops_before, reporter = (
        current_stops(),
        _RunReporter(progress, label="the exact solution"),
    )
    try:
        estimate = api.plan(
            problem, state, method="exact", progress=reporter.inner_callback()
        )
    except InvalidInput as error:
        if reporter.raised is error:
            raise
        return None
    if reporter.is_refused or current_stops() > stops_before:
        raise Interrupted("The exact solution was stopped: there is no truth.")
    q_values = {
        action: q_value
        for action, q_value in enumerate(estimate.q_values)
        if not math.isnan(q_value)
    }
    assert estimate.epsilon is not None
    return Truth(
        value=estimate.value,
        q_values=q_values,
        player=problem.mover(estimate.state),
        operator=problem.operator,
        num_actions=problem.num_actions,
        bound=estimate.epsilon,
    )


@named_keywords
def compare(
    problem: Problem,
    state: Any = None,
    *,
    budgets: Sequence[int],
    methods: Sequence[str | Method | Search] | None = None,
    seeds: Sequence[int] = (0,),
    truth: Truth | None = None,
    progress: bool | Callback | None = None,
) -> Comparison:
    """One run for each method, budget and seed, in this order.

    A planner that refuses a budget leaves a run without a value; its ``note`` gives
    the reason. Ctrl-C, and False from ``progress``, end it with the runs that are
    done; ``not_run`` has the others.

    Args:
        problem: The MDP or game.
        state: The state to plan in; the problem's initial state by default.
        budgets: Oracle calls that each run may make.
        methods: Names or method objects; ``planners()`` by default.
        seeds: One run per seed; 0 alone by default.
        truth: The result of ``truth_of``, if it was computed before; by default
            it is computed here.
        progress: As in ``plan``: True for a bar, or a function that gets a
            ``Progress`` when a run begins and while it lasts. ``done`` of ``total``
            runs have ended, ``label`` names the one under way.

    Example:
        >>> import smoothcruiser as sc
        >>> problem = sc.make("chain:n=5", discount=0.5, temperature=1.0)
        >>> runs = sc.compare(problem, budgets=[2000], methods=["certified", "uct"])
        >>> [(run.method, run.num_calls <= 2000) for run in runs]
        [('certified', True), ('uct', True)]
    """
    check_problem(problem)
    for name, argument in (
        ("budgets", budgets),
        ("methods", methods),
        ("seeds", seeds),
    ):
        is_single = isinstance(argument, str) or not isinstance(argument, Iterable)
        if is_single and argument is not None:
            raise InvalidInput(
                f"{name} is a list, got {argument!r:.60}; write "
                f"{name}=[{argument!r:.60}]."
            )
    planned_runs = jobs_of(planners() if methods is None else methods, budgets, seeds)
    callback = progress_callback(progress)
    state = problem.start(state)
    finished_runs: list[PlannerRun] = []
    start_time = time.perf_counter()
    with show_bar(callback):
        with stoppable(), suppress(KeyboardInterrupt, Interrupted):
            if truth is None and not problem.is_terminal(state):
                truth = truth_of(problem, state, callback)
            for planner_run in each_run(
                problem, state, planned_runs, truth=truth, progress=callback
            ):
                finished_runs.append(planner_run)
        finish(
            callback,
            calls=sum(planner_run.num_calls for planner_run in finished_runs),
            seconds=time.perf_counter() - start_time,
            done=len(finished_runs),
            total=len(planned_runs),
        )
    return Comparison.of(
        problem, state, truth, finished_runs, planned_runs[len(finished_runs) :]
    )


def jobs_of(
    methods: Sequence[str | Method | Search],
    budgets: Sequence[int],
    seeds: Sequence[int],
) -> list[PlannedRun]:
    """Every method with every budget and every seed, in this order."""
    return [
        PlannedRun(method, budget, seed)
        for method in methods
        for budget in budgets
        for seed in seeds
    ]


def each_run(
    problem: Problem,
    state: Any,
    jobs: Sequence[PlannedRun],
    *,
    truth: Truth | None = None,
    progress: Callback | None = None,
) -> Iterator[PlannerRun]:
    """The rows of ``compare``, each as soon as its run has ended.

    They end with a run that was stopped, which has no row: it did not have its
    budget. Without ``truth`` (``truth_of``) they have no errors and no regrets.
    """
    state = problem.start(state)
    if problem.is_terminal(state):
        raise InvalidInput(
            f"State {state!r} is terminal: its value "
            "is 0 and there is nothing to compare."
        )
    reporter = _RunReporter(progress, len(jobs))
    for planned_run in jobs:
        stops_before = current_stops()
        if reporter.begin(planned_run):
            return
        planner_run = _run_planner(problem, state, planned_run, truth, reporter)
        if reporter.is_refused or current_stops() > stops_before:
            return
        reporter.end(planner_run)
        yield planner_run


class _RunReporter:
    """Reports on a run as one of many, or on the work before them (no ``total``)."""

    def __init__(
        self, callback: Callback | None, total: int | None = None, label: str = ""
    ) -> None:
        self.phases, self.total, self.label = Phases(callback), total, label
        self.calls = self.done = 0  # of the runs that ended
        self.raised: Exception | None = None  # by the progress function itself
        self._began = time.perf_counter()

    @property
    def is_refused(self) -> bool:
        """Whether the progress function returned False."""
        return self.phases.refused

    def begin(self, planned_run: PlannedRun) -> bool:
        """Report that a run begins; return whether to stop."""
        self.label = (
            f"run {self.done + 1:,} of {self.total or 0:,}: {planned_run.name}"
        )
        return self.phases.begin("comparing", **self._facts(0))

    def inner_callback(self) -> Callback | None:
        """The function that hears of the run that has begun."""
        return None if self.phases.callback is None else self._tell

    def end(self, planner_run: PlannerRun) -> None:
        """Count a run that has ended."""
        self.calls, self.done = self.calls + planner_run.num_calls, self.done + 1

    def _tell(self, run_progress: Progress) -> object:
        if run_progress.phase in ("preparing", "done"):
            return None
        facts = {"states": run_progress.states, "nodes": run_progress.nodes}
        facts |= self._facts(run_progress.calls)
        try:
            must_stop = self.phases.tell(phase=run_progress.phase, **facts)
        except Exception as error:
            self.raised = error
            raise
        return False if must_stop else None

    def _facts(self, calls: int) -> dict[str, Any]:
        return {
            "calls": self.calls + calls,
            "seconds": time.perf_counter() - self._began,
            "done": self.done,
            "total": self.total,
            "label": self.label,
        }


def _run_planner(
    problem: Problem,
    state: Any,
    planned_run: PlannedRun,
    truth: Truth | None,
    reporter: _RunReporter,
) -> PlannerRun:
    method_name, budget, seed = planned_run.name, planned_run.budget, planned_run.seed
    try:
        estimate = _plan_with_budget(
            problem, state, planned_run, reporter.inner_callback()
        )
    except SmoothcruiserError as error:
        if reporter.raised is error:
            raise
        return PlannerRun(method_name, budget, seed, note=str(error).split("\n")[0])
    except Exception as error:  # of a method that is not ours: the others go on
        if reporter.raised is error:
            raise
        error_note = f"{type(error).__name__}: {error}".split("\n")[0]
        return PlannerRun(method_name, budget, seed, note=error_note)
    if estimate.notes and estimate.notes[0].startswith(NOTHING_GROWN):
        return PlannerRun(method_name, budget, seed, note=estimate.notes[0])
    planner_run = measure_run(method_name, budget, seed, estimate, truth)
    return replace(planner_run, estimates=objective(problem, planned_run.method))


def objective(problem: Problem, method: str | Method | Search) -> str:
    """The label of the operator that a planner estimates the value of.

    It is the problem's own, except for tree searches that have their own.
    """
    planner = resolve(method)
    if isinstance(planner, TreeSearch):
        return planner.search.estimates(problem.operator)
    return problem.operator.label


def measure_run(
    method_name: str, budget: int, seed: int, estimate: Estimate, truth: Truth | None
) -> PlannerRun:
    """The run of one answer, with its errors against the exact one."""
    error = action_regret = policy_regret = None
    if truth is not None:
        error = abs(estimate.value - truth.value)
        action_regret = (
            None if estimate.action is None else truth.action_regret(estimate.action)
        )
        policy_regret = (
            truth.policy_regret(estimate.policy) if estimate.policy else None
        )
    return PlannerRun(
        method_name,
        budget,
        seed,
        value=estimate.value,
        interval=estimate.interval,
        action=estimate.action,
        error=error,
        action_regret=action_regret,
        policy_regret=policy_regret,
        num_calls=estimate.num_calls,
        seconds=estimate.seconds,
        compile_seconds=estimate.compile_seconds,
        note=estimate.notes[0] if estimate.notes else "",
        truth_bound=None if truth is None else truth.bound,
        standard_error=estimate.standard_error,
    )


def _plan_with_budget(
    problem: Problem, state: Any, planned_run: PlannedRun, progress: Callback | None
) -> Estimate:
    planner = resolve(planned_run.method)
    plan_arguments = planner.spending(problem, planned_run.budget, DELTA)
    if "seed" in planner.takes:
        plan_arguments["seed"] = planned_run.seed
    if "progress" in planner.takes:
        plan_arguments["progress"] = progress
    return api.plan(problem, state, method=planner, **plan_arguments)


def ladder(budget: int, points: int) -> tuple[int, ...]:
    """Budgets from a thousandth of ``budget`` up to it, even on a logarithmic scale."""
    if points == 1:
        return (budget,)
    budget_exponents = [point / (points - 1) - 1.0 for point in range(points)]
    return tuple(
        sorted(
            {max(1, round(budget * 1000.0**exponent)) for exponent in budget_exponents}
        )
    )
