"""A comparison as data: its runs, the exact answer beside them, means over seeds.

Not in this file: making the runs and measuring them (``comparison_runs``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, overload

from smoothcruiser.displayable import Shown, brief
from smoothcruiser.estimate import NOWHERE
from smoothcruiser.methods.base import Method
from smoothcruiser.operators import Operator
from smoothcruiser.operators.outward import sum_in_order
from smoothcruiser.problem.problem import Problem
from smoothcruiser.records.data import Data, Framed, draw_object
from smoothcruiser.records.json_shapes import DataclassShape, calls_flaw
from smoothcruiser.states.state_json import number_data
from smoothcruiser.tree.search_rules import Search

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    estimates: str = ""  # the operator that it estimates the value of
    # error of the exact values: ``error`` is known up to this, regrets up to twice
    truth_bound: float | None = None
    standard_error: float | None = None  # the usual one of ``value``, not promised

    def json_flaw(self) -> str | None:
        """Calls that nobody can have made."""
        return calls_flaw("num_calls", self.num_calls)


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
        """The loss of the action, from the mover's point of view.

        None where a prior decides beside the values.
        """
        if self.operator.has_prior:
            return None
        sign = 1.0 if self.player == 1 else -1.0
        return (
            max(sign * q for q in self.q_values.values())
            - sign * self.q_values[action]
        )

    def policy_regret(self, policy: Sequence[float]) -> float | None:
        """The loss of one step of the policy; None for operators without Omega."""
        operator = self.operator
        if not operator.has_omega:
            return None
        sign = 1.0 if self.player == 1 else -1.0
        actions = sorted(self.q_values)
        weights = operator.weights(self.num_actions)
        action_shares, prior_weights = (
            [policy[action] for action in actions],
            [weights[action] for action in actions],
        )
        policy_value = sum_in_order(
            share * sign * self.q_values[action]
            for share, action in zip(action_shares, actions, strict=True)
        )
        return sign * self.value - (
            policy_value - operator.omega(action_shares, prior_weights)
        )


@dataclass(frozen=True)
class Mean:
    """The row of ``summaries`` for one method and budget, as JSON has it."""

    method: str
    budget: int
    runs: int
    failed: int
    note: str
    estimates: str
    value: float | None
    value_range: tuple[float, float] | None
    standard_error: float | None  # the usual one of a single run, not promised
    error: float | None
    error_range: tuple[float, float] | None
    action_regret: float | None
    action_regret_range: tuple[float, float] | None
    policy_regret: float | None
    policy_regret_range: tuple[float, float] | None
    num_calls: float | None
    seconds: float | None
    compile_seconds: float | None


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
    json_when_set: ClassVar[tuple[str, ...]] = ("minimize",)
    json_names: ClassVar[Mapping[str, str]] = {"runs": "rows"}
    json_more: ClassVar[Mapping[str, Any]] = {
        "exact": float | None,
        "exact_bound": float | None,
        "means": tuple[Mean, ...],
        "stopped": bool,
    }
    frame_columns: ClassVar[tuple[str, ...]] = (
        *("method", "budget", "seed", "value", "standard_error", "low", "high"),
        *("action", "error", "action_regret", "policy_regret", "num_calls", "seconds"),
        *("compile_seconds", "note", "estimates", "truth_bound"),
    )

    runs: tuple[PlannerRun, ...]
    truth: Truth | None  # None where the model is not known
    problem: str
    state: Any = None
    operator: str = ""  # the label of the problem's own
    not_run: tuple[NotRun, ...] = ()
    minimize: bool = False  # values are costs

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
        problem_facts = problem.name, state, problem.operator.label
        runs_left = tuple(
            NotRun(planned_run.name, planned_run.budget, planned_run.seed)
            for planned_run in not_run
        )
        costs = problem.minimizes
        return cls(tuple(runs), truth, *problem_facts, runs_left, costs)

    @overload
    def __getitem__(self, index: int) -> PlannerRun: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[PlannerRun, ...]: ...

    def __getitem__(self, index: int | slice) -> PlannerRun | tuple[PlannerRun, ...]:
        """The run at an index, or the runs of a slice."""
        return self.runs[index]

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def repeats(self) -> int:
        """Runs of each planner with each budget: one per seed."""
        seeds_left = {run_left.seed for run_left in self.not_run}
        return len(seeds_left | {run.seed for run in self.runs})

    def means(self) -> list[dict[str, Any]]:
        """Means and ranges over seeds for each method and budget, in the runs' order."""
        return list(summaries(self.runs))

    def more_data(self) -> dict[str, Any]:
        """The exact value, and means over seeds for each method and budget."""
        mean_shape = DataclassShape(Mean)
        truth = self.truth
        return {
            "exact": None if truth is None else number_data(truth.value),
            "exact_bound": None if truth is None else number_data(truth.bound),
            "means": [mean_shape.data(Mean(**mean_row)) for mean_row in self.means()],
            "stopped": bool(self.not_run),
        }

    def records(self) -> list[dict[str, Any]]:
        """One row per run: its answer, its error and its price."""
        frame_rows = []
        for run in self.runs:
            lower_end, upper_end = run.interval or NOWHERE
            interval_ends = {"low": lower_end, "high": upper_end}
            run_fields = [
                name for name in self.frame_columns if name not in interval_ends
            ]
            run_data = {
                name: getattr(run, name) for name in run_fields
            } | interval_ends
            frame_rows.append({name: run_data[name] for name in self.frame_columns})
        return frame_rows

    def plot(self, ax: Axes | None = None, *, of: str = "error") -> Axes:
        """Draw a curve per planner against the calls it made; return the Axes.

        It needs matplotlib (extra ``report``).

        Args:
            ax: where to draw; by default a figure of its own.
            of: "error", "policy_regret", "action_regret" or "value"; without an exact
                solution only "value" is known, and is drawn in place of "error".
        """
        return draw_object("comparison", self, ax, of=of)

    def __repr__(self) -> str:
        return brief(
            "Comparison",
            problem=self.problem,
            planners=len({run.method for run in self.runs}),
            runs=len(self.runs),
        )


def summaries(rows: Sequence[PlannerRun]) -> Iterator[dict[str, Any]]:
    """Means and ranges over seeds for each method and budget, in the rows' order."""
    run_groups: dict[tuple[str, int], list[PlannerRun]] = {}
    for row in rows:
        run_groups.setdefault((row.method, row.budget), []).append(row)
    for (method, budget), group_runs in run_groups.items():
        finished_runs = [row for row in group_runs if row.value is not None]
        failed_runs = [row for row in group_runs if row.value is None]
        summary: dict[str, Any] = {
            "method": method,
            "budget": budget,
            "runs": len(finished_runs),
            "failed": len(failed_runs),
            "note": failed_runs[0].note if failed_runs else "",
            "estimates": finished_runs[0].estimates if finished_runs else "",
        }
        for name in (
            "value",
            "standard_error",
            "error",
            "action_regret",
            "policy_regret",
            "num_calls",
            "seconds",
            "compile_seconds",
        ):
            column_values = [getattr(row, name) for row in finished_runs]
            known_values = [value for value in column_values if value is not None]
            summary[name] = (
                sum(known_values) / len(known_values) if known_values else None
            )
            if name in ("value", "error", "action_regret", "policy_regret"):
                summary[f"{name}_range"] = (
                    (min(known_values), max(known_values)) if known_values else None
                )
        yield summary
