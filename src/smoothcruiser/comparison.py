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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, overload

from smoothcruiser import api
from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.estimate import NOWHERE, Estimate
from smoothcruiser.jit.interrupts import heard, stoppable
from smoothcruiser.methods import METHODS, resolve
from smoothcruiser.methods.base import Method
from smoothcruiser.methods.tree import NOTHING_GROWN, TreeSearch
from smoothcruiser.operators import Operator
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback, Phases, Progress, finish, read, shown
from smoothcruiser.records.data import Data
from smoothcruiser.records.fields import Fields
from smoothcruiser.records.frames import Framed, drawn
from smoothcruiser.records.numbers import number_data
from smoothcruiser.shown import Shown, brief
from smoothcruiser.tree.searches import Search

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DELTA = 0.1  # of the planners that promise


def planners() -> tuple[str, ...]:
    """The methods that are compared where none is named, registered ones included."""
    return tuple(name for name, method in METHODS.items() if method.compared)


@dataclass(frozen=True)
class PlannerRun:
    """One planner's run; regrets and errors are None without an exact solution."""

    method: str
    budget: int
    seed: int
    value: float | None = None  # None where the planner refused; ``note`` says why
    interval: tuple[float, float] | None = None
    action: int | None = None
    error: float | None = None
    action_regret: float | None = None
    policy_regret: float | None = None
    num_calls: int = 0
    seconds: float = 0.0
    compile_seconds: float = 0.0
    note: str = ""
    estimates: str = ""  # the operator whose value it estimates
    # error of the exact values: ``error`` is known up to this, regrets up to twice
    truth_bound: float | None = None


@dataclass(frozen=True)
class Truth:
    """The exact solution at one state."""

    value: float
    q_values: dict[int, float]  # of the legal actions
    player: int
    operator: Operator
    num_actions: int
    bound: float = 0.0  # value and q_values are known up to this

    def action_regret(self, action: int) -> float | None:
        """What the action loses, from the mover's point of view.

        None where a prior decides beside the values.
        """
        if self.operator.has_prior:
            return None
        sign = 1.0 if self.player == 1 else -1.0
        return (
            max(sign * q for q in self.q_values.values()) - sign * self.q_values[action]
        )

    def policy_regret(self, policy: Sequence[float]) -> float | None:
        """What one step of the policy loses; None for operators without Omega."""
        operator = self.operator
        if not operator.has_omega:
            return None
        sign = 1.0 if self.player == 1 else -1.0
        actions = sorted(self.q_values)
        weights = operator.weights(self.num_actions)
        p, w = [policy[a] for a in actions], [weights[a] for a in actions]
        worth = sum(
            share * sign * self.q_values[a] for share, a in zip(p, actions, strict=True)
        )
        return sign * self.value - (worth - operator.omega(p, w))


def truth_of(problem: Problem, state: Any) -> Truth | None:
    """The exact solution, None where the model is not known."""
    if problem.tables is None and problem.outcomes is None:
        return None
    try:
        estimate = api.plan(problem, state, method="exact")
    except InvalidInput:
        return None
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


@dataclass(frozen=True)
class Mean:
    """What ``summaries`` says of one method and budget, as JSON has it."""

    method: str
    budget: int
    runs: int
    failed: int
    note: str
    estimates: str
    value: float | None
    value_range: tuple[float, float] | None
    error: float | None
    error_range: tuple[float, float] | None
    action_regret: float | None
    action_regret_range: tuple[float, float] | None
    policy_regret: float | None
    policy_regret_range: tuple[float, float] | None
    num_calls: float | None
    seconds: float | None
    compile_seconds: float | None


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
    jobs = jobs_of(planners() if methods is None else methods, budgets, seeds)
    callback = read(progress)
    state = problem.start(state)
    rows: list[PlannerRun] = []
    begin = time.perf_counter()
    with shown(callback):
        with stoppable(), suppress(KeyboardInterrupt):
            if truth is None and not problem.is_terminal(state):
                truth = truth_of(problem, state)
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


@dataclass(frozen=True)
class PlannedRun:
    """A run that is to be made."""

    method: str | Method | Search
    budget: int
    seed: int

    @property
    def name(self) -> str:
        """The method's name in tables."""
        return self.method if isinstance(self.method, str) else str(self.method)


@dataclass(frozen=True)
class NotRun:
    """A run that a stop by hand left out."""

    method: str
    budget: int
    seed: int


@dataclass(frozen=True)
class Comparison(Shown, Data, Framed, Sequence[PlannerRun]):
    """Planners on one problem: their runs, in order, and the exact answer beside them.

    It is a sequence of its runs.
    """

    json_kind: ClassVar[str] = "comparison"
    json_names: ClassVar[Mapping[str, str]] = {"runs": "rows"}
    json_more: ClassVar[Mapping[str, Any]] = {
        "exact": float | None,
        "exact_bound": float | None,
        "means": tuple[Mean, ...],
        "stopped": bool,
    }
    frame_columns: ClassVar[tuple[str, ...]] = (
        *("method", "budget", "seed", "value", "low", "high", "action", "error"),
        *("action_regret", "policy_regret", "num_calls", "seconds", "compile_seconds"),
        *("note", "estimates", "truth_bound"),
    )

    runs: tuple[PlannerRun, ...]
    truth: Truth | None  # None where the model is not known
    problem: str
    state: Any = None
    operator: str = ""  # the label of the problem's own
    not_run: tuple[NotRun, ...] = ()

    @classmethod
    def of(
        cls,
        problem: Problem,
        state: Any,
        truth: Truth | None,
        runs: Sequence[PlannerRun],
        not_run: Sequence[PlannedRun] = (),
    ) -> Comparison:
        """The comparison of planners at a state of ``problem``."""
        about = problem.name, state, problem.operator.label
        left = tuple(NotRun(job.name, job.budget, job.seed) for job in not_run)
        return cls(tuple(runs), truth, *about, left)

    @overload
    def __getitem__(self, index: int) -> PlannerRun: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[PlannerRun, ...]: ...

    def __getitem__(self, index: int | slice) -> PlannerRun | tuple[PlannerRun, ...]:
        """The run at a place."""
        return self.runs[index]

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def repeats(self) -> int:
        """Runs of each planner with each budget: one per seed."""
        left = {job.seed for job in self.not_run}
        return len(left | {run.seed for run in self.runs})

    def means(self) -> list[dict[str, Any]]:
        """Means and ranges over seeds for each method and budget, in the runs' order."""
        return list(summaries(self.runs))

    def more_data(self) -> dict[str, Any]:
        """The exact value, and means over seeds for each method and budget."""
        shape = Fields(Mean)
        truth = self.truth
        return {
            "exact": None if truth is None else number_data(truth.value),
            "exact_bound": None if truth is None else number_data(truth.bound),
            "means": [shape.data(Mean(**found)) for found in self.means()],
            "stopped": bool(self.not_run),
        }

    def records(self) -> list[dict[str, Any]]:
        """One row per run: its answer, its error and its price."""
        rows = []
        for run in self.runs:
            low, high = run.interval or NOWHERE
            beside = {"low": low, "high": high}
            names = [name for name in self.frame_columns if name not in beside]
            found = {name: getattr(run, name) for name in names} | beside
            rows.append({name: found[name] for name in self.frame_columns})
        return rows

    def plot(self, ax: Axes | None = None, *, of: str = "error") -> Axes:
        """Draw a curve per planner against the calls it made; return the Axes.

        It needs matplotlib (extra ``report``).

        Args:
            ax: where to draw; by default a figure of its own.
            of: "error", "policy_regret", "action_regret" or "value"; without an exact
                solution only "value" is known, and is drawn in place of "error".
        """
        return drawn("comparison", self, ax, of=of)

    def __repr__(self) -> str:
        return brief(
            "Comparison",
            problem=self.problem,
            planners=len({run.method for run in self.runs}),
            runs=len(self.runs),
        )


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
    budget.
    """
    state = problem.start(state)
    if problem.is_terminal(state):
        raise InvalidInput(
            f"State {state!r} is terminal: its value "
            "is 0 and there is nothing to compare."
        )
    truth = truth or truth_of(problem, state)
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
    """Reports on a run as one of many."""

    def __init__(self, callback: Callback | None, total: int) -> None:
        self.phases, self.total = Phases(callback), total
        self.calls = self.done = 0  # of the runs that ended
        self.raised: Exception | None = None  # by the progress function itself
        self._began = time.perf_counter()

    @property
    def refused(self) -> bool:
        """Whether the progress function returned False."""
        return self.phases.refused

    def begin(self, job: PlannedRun) -> bool:
        """Report that a run begins; return whether to stop."""
        self.label = f"run {self.done + 1:,} of {self.total:,}: {job.name}"
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


def summaries(rows: Sequence[PlannerRun]) -> Iterator[dict[str, Any]]:
    """Means and ranges over seeds for each method and budget, in the rows' order."""
    groups: dict[tuple[str, int], list[PlannerRun]] = {}
    for row in rows:
        groups.setdefault((row.method, row.budget), []).append(row)
    for (method, budget), group in groups.items():
        ran = [row for row in group if row.value is not None]
        failed = [row for row in group if row.value is None]
        summary: dict[str, Any] = {
            "method": method,
            "budget": budget,
            "runs": len(ran),
            "failed": len(failed),
            "note": failed[0].note if failed else "",
            "estimates": ran[0].estimates if ran else "",
        }
        for name in (
            "value",
            "error",
            "action_regret",
            "policy_regret",
            "num_calls",
            "seconds",
            "compile_seconds",
        ):
            cells = [getattr(row, name) for row in ran]
            found = [cell for cell in cells if cell is not None]
            summary[name] = sum(found) / len(found) if found else None
            if name in ("value", "error", "action_regret", "policy_regret"):
                summary[f"{name}_range"] = (min(found), max(found)) if found else None
        yield summary
