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
in the same way, because the problem states what the user wants. Their rows say
whose value they estimate (``estimates``). The sharp schedule spends the budget
on the smallest epsilon that it can pay; where even half of the value span is
out of reach, its row says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from smoothcruiser import api
from smoothcruiser.errors import Interrupted, InvalidInput, SmoothcruiserError
from smoothcruiser.estimate import Estimate
from smoothcruiser.jit.interrupts import heard, stoppable
from smoothcruiser.methods import METHODS, resolve
from smoothcruiser.methods.base import Method
from smoothcruiser.methods.tree import NOTHING_GROWN, TreeSearch
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback, Phases, Progress, finish, read, shown
from smoothcruiser.query import check_problem, named_keywords
from smoothcruiser.tree.searches import Search

if TYPE_CHECKING:
    pass

from smoothcruiser.comparison.results import Comparison, PlannedRun, PlannerRun, Truth

DELTA = 0.1  # of the planners that promise


def planners() -> tuple[str, ...]:
    """The methods that are compared where none is named, registered ones included."""
    return tuple(name for name, method in METHODS.items() if method.compared)


def truth_of(
    problem: Problem, state: Any, progress: Callback | None = None
) -> Truth | None:
    """The exact solution, None where the model is not known.

    ``progress`` hears of it as the first part of a comparison. Ctrl-C and False from it
    raise Interrupted: what a stopped solver knows is no truth to measure with.
    """
    if problem.tables is None and problem.outcomes is None:
        return None
    stops, telling = heard(), _Telling(progress, label="the exact solution")
    try:
        estimate = api.plan(problem, state, method="exact", progress=telling.inside())
    except InvalidInput as error:
        if telling.raised is error:
            raise
        return None
    if telling.refused or heard() > stops:
        raise Interrupted("The exact solution was stopped: there is no truth.")
    q = {a: q for a, q in enumerate(estimate.q_values) if not math.isnan(q)}
    assert estimate.epsilon is not None
    return Truth(
        value=estimate.value,
        q_values=q,
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

    A planner that refuses a budget leaves a run without a value, whose ``note``
    gives the reason. Ctrl-C, and False from ``progress``, end it with the runs that
    are done; ``not_run`` has the others.

    Args:
        problem: The MDP or game.
        state: The state to plan in; the problem's initial state by default.
        budgets: Oracle calls that each run may make.
        methods: Names or method objects; ``planners()`` by default.
        seeds: One run per seed; 0 alone by default.
        truth: What ``truth_of`` returns, if it was computed before; by default
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
    for name, several in (("budgets", budgets), ("methods", methods), ("seeds", seeds)):
        one = isinstance(several, str) or not isinstance(several, Iterable)
        if one and several is not None:
            raise InvalidInput(
                f"{name} is a list, got {several!r:.60}; write {name}=[{several!r:.60}]."
            )
    jobs = jobs_of(planners() if methods is None else methods, budgets, seeds)
    callback = read(progress)
    state = problem.start(state)
    rows: list[PlannerRun] = []
    begin = time.perf_counter()
    with shown(callback):
        with stoppable(), suppress(KeyboardInterrupt, Interrupted):
            if truth is None and not problem.is_terminal(state):
                truth = truth_of(problem, state, callback)
            for row in each_run(problem, state, jobs, truth=truth, progress=callback):
                rows.append(row)
        finish(
            callback,
            calls=sum(row.num_calls for row in rows),
            seconds=time.perf_counter() - begin,
            done=len(rows),
            total=len(jobs),
        )
    return Comparison.of(problem, state, truth, rows, jobs[len(rows) :])


def jobs_of(
    methods: Sequence[str | Method | Search],
    budgets: Sequence[int],
    seeds: Sequence[int],
) -> list[PlannedRun]:
    """Every method with every budget and every seed, in this order."""
    return [
        PlannedRun(m, calls, seed)
        for m in methods
        for calls in budgets
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
    telling = _Telling(progress, len(jobs))
    for job in jobs:
        stops = heard()
        if telling.begin(job):
            return
        row = _run(problem, state, job, truth, telling)
        if telling.refused or heard() > stops:
            return
        telling.end(row)
        yield row


class _Telling:
    """Reports on a run as one of many, or on what comes before them (no ``total``)."""

    def __init__(
        self, callback: Callback | None, total: int | None = None, label: str = ""
    ) -> None:
        self.phases, self.total, self.label = Phases(callback), total, label
        self.calls = self.done = 0  # of the runs that ended
        self.raised: Exception | None = None  # by the progress function itself
        self._began = time.perf_counter()

    @property
    def refused(self) -> bool:
        """Whether the progress function returned False."""
        return self.phases.refused

    def begin(self, job: PlannedRun) -> bool:
        """Report that a run begins; return whether to stop."""
        self.label = f"run {self.done + 1:,} of {self.total or 0:,}: {job.name}"
        return self.phases.begin("comparing", **self._facts(0))

    def inside(self) -> Callback | None:
        """What hears of the run that has begun."""
        return None if self.phases.callback is None else self._tell

    def end(self, row: PlannerRun) -> None:
        """Count a run that has ended."""
        self.calls, self.done = self.calls + row.num_calls, self.done + 1

    def _tell(self, seen: Progress) -> object:
        if seen.phase in ("preparing", "done"):
            return None
        facts = {"states": seen.states, "nodes": seen.nodes}
        facts |= self._facts(seen.calls)
        try:
            stop = self.phases.tell(phase=seen.phase, **facts)
        except Exception as error:
            self.raised = error
            raise
        return False if stop else None

    def _facts(self, calls: int) -> dict[str, Any]:
        return {
            "calls": self.calls + calls,
            "seconds": time.perf_counter() - self._began,
            "done": self.done,
            "total": self.total,
            "label": self.label,
        }


def _run(
    problem: Problem,
    state: Any,
    job: PlannedRun,
    truth: Truth | None,
    telling: _Telling,
) -> PlannerRun:
    name, budget, seed = job.name, job.budget, job.seed
    try:
        estimate = _planned(problem, state, job, telling.inside())
    except SmoothcruiserError as error:
        if telling.raised is error:
            raise
        return PlannerRun(name, budget, seed, note=str(error).split("\n")[0])
    except Exception as error:  # of a method that is not ours: the others go on
        if telling.raised is error:
            raise
        note = f"{type(error).__name__}: {error}".split("\n")[0]
        return PlannerRun(name, budget, seed, note=note)
    if estimate.notes and estimate.notes[0].startswith(NOTHING_GROWN):
        return PlannerRun(name, budget, seed, note=estimate.notes[0])
    row = measured(name, budget, seed, estimate, truth)
    return replace(row, estimates=objective(problem, job.method))


def objective(problem: Problem, method: str | Method | Search) -> str:
    """The operator whose value a planner estimates.

    It is the problem's own, except for tree searches that have their own.
    """
    found = resolve(method)
    if isinstance(found, TreeSearch):
        return found.search.estimates(problem.operator)
    return problem.operator.label


def measured(
    name: str, budget: int, seed: int, estimate: Estimate, truth: Truth | None
) -> PlannerRun:
    """One answer beside the exact one."""
    error = action = policy = None
    if truth is not None:
        error = abs(estimate.value - truth.value)
        action = (
            None if estimate.action is None else truth.action_regret(estimate.action)
        )
        policy = truth.policy_regret(estimate.policy) if estimate.policy else None
    return PlannerRun(
        name,
        budget,
        seed,
        value=estimate.value,
        interval=estimate.interval,
        action=estimate.action,
        error=error,
        action_regret=action,
        policy_regret=policy,
        num_calls=estimate.num_calls,
        seconds=estimate.seconds,
        compile_seconds=estimate.compile_seconds,
        note=estimate.notes[0] if estimate.notes else "",
        truth_bound=None if truth is None else truth.bound,
        standard_error=estimate.standard_error,
    )


def _planned(
    problem: Problem, state: Any, job: PlannedRun, progress: Callback | None
) -> Estimate:
    found = resolve(job.method)
    asked = found.spending(problem, job.budget, DELTA)
    if "seed" in found.takes:
        asked["seed"] = job.seed
    if "progress" in found.takes:
        asked["progress"] = progress
    return api.plan(problem, state, method=found, **asked)


def ladder(budget: int, points: int) -> tuple[int, ...]:
    """Budgets from a thousandth of ``budget`` up to it, even on a logarithmic scale."""
    if points == 1:
        return (budget,)
    powers = [i / (points - 1) - 1.0 for i in range(points)]
    return tuple(sorted({max(1, round(budget * 1000.0**x)) for x in powers}))
