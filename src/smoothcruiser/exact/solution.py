"""``Solution``: the values of all states that the exact solver found.

One row of an exact solution as an Estimate.

It makes no calls and has confidence 1; the solver's proven bound is half the
width of every interval.

The bound of an exact solution that was stopped.

With a discount, any sweep has a bound of its own (``solver``). With a horizon H, the
first h stages bound the last one, V_H = T^h V_(H-h):

    V_n <= max(T0, 0) (1 + gamma + ... + gamma^(n-1)) = c_n,

by induction from T(V + c) <= TV + gamma c for c >= 0, and the same from below. So
V_h + gamma^h b <= V_H <= V_h + gamma^h c, where c = c_(H-h) and b is its counterpart
below; action values lie as far from those of stage h.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from smoothcruiser.displayable import Shown, brief
from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Certificate, Estimate, best_action, estimate_subject
from smoothcruiser.exact.loops import Model
from smoothcruiser.problem.assumptions import adapter_assumptions
from smoothcruiser.problem.model.tabular import Floats
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.zoo import grid_of
from smoothcruiser.records.data import Data, Framed, draw_object, same_fields
from smoothcruiser.records.json_shapes import length_flaw
from smoothcruiser.states.identity import state_key

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Solution(Shown, Data, Framed):
    """Exact values with a proven bound on their error; S states, A actions.

    JSON does not hold ``key_of``: a solution that was read again tells states apart by
    their values.
    """

    json_kind: ClassVar[str] = "solution"
    json_when_set: ClassVar[tuple[str, ...]] = ("minimize",)
    json_left_out: ClassVar[tuple[str, ...]] = ("key_of",)
    frame_columns: ClassVar[tuple[str, ...]] = ("state", "value", "action", "label")

    # (S,), with all steps left where there is a horizon; 0 in terminal states, NaN
    # where unknown (``stages``), infinite where totals are (discount 1)
    values: Floats
    q_values: Floats  # (S, A), NaN where illegal and in terminal states
    # (S, A), the gradient of F at q_values; 0 where illegal and in terminal states, NaN
    # where the value is unknown or infinite. At discount 1 without a horizon it is one
    # best action that makes progress: others of equal value may stall for ever
    policy: Floats
    # max |values - V*| is at most this where they are finite, rounding included; so are
    # errors of q_values
    residual_bound: float
    method: str
    # passes over the transitions, with those of policy evaluation, without linear
    # solves
    sweeps: int
    seconds: float
    compile_seconds: float = 0.0
    # (horizon + 1, S): row h is the value with h steps left, NaN where it depends on
    # states that were not explored
    stages: Floats | None = None
    # the state of row i, where the states were explored from ``outcomes``
    states: tuple[Any, ...] | None = None
    # the key that distinguishes states
    key_of: Callable[[Any], Hashable] = field(default=state_key, repr=False)
    note: str = ""  # why residual_bound is larger than the default aim, if it is
    problem: str = ""  # its name
    # (rows, columns): state row * columns + column lies there, in built-in problems
    grid: tuple[int, int] | None = None
    labels: tuple[str, ...] | None = None  # names of the actions, where they have any
    minimize: bool = False  # values are the least costs

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Solution):
            return NotImplemented
        return same_fields(self, other, but=("key_of",))

    def __hash__(self) -> int:
        return hash((self.problem, self.method, self.sweeps, self.q_values.shape))

    def json_flaw(self) -> str | None:
        """Arrays, states or labels with lengths that differ."""
        num_states = self.values.size
        if self.values.ndim != 1 or num_states == 0:
            return "values must be a list of numbers, one per state"
        for name, table in (("q_values", self.q_values), ("policy", self.policy)):
            if table.ndim != 2 or table.shape != self.q_values.shape:
                return f"{name} must be lists of equal lengths, one number per action"
        stages, states = self.stages, self.states
        length_flaws = [
            length_flaw("q_values", len(self.q_values), num_states, "state"),
            None
            if states is None
            else length_flaw("states", len(states), num_states, "state"),
            None
            if self.labels is None
            else length_flaw(
                "labels", len(self.labels), self.q_values.shape[1], "action"
            ),
        ]
        if stages is not None and (stages.ndim != 2 or stages.shape[1] != num_states):
            return "stages must be lists of one number per state"
        return next((flaw for flaw in length_flaws if flaw is not None), None)

    def label(self, action: int) -> str:
        """The name of an action: its number where it has none."""
        return str(action) if self.labels is None else self.labels[action]

    def records(self) -> list[dict[str, Any]]:
        """One row per state: its value, the most likely action, ``policy_0``, ``q_0``…

        ``action`` is None in terminal states, and where the policy is not known.
        """
        states = range(len(self.values)) if self.states is None else self.states
        has_action = np.nan_to_num(self.policy).sum(axis=1) > 0.0
        best_actions = np.where(
            has_action, np.nan_to_num(self.policy).argmax(axis=1), -1
        )
        table_rows = []
        for i, state in enumerate(states):
            state_row = {"state": state, "value": float(self.values[i])}
            action = int(best_actions[i]) if best_actions[i] >= 0 else None
            state_row["action"] = action
            state_row["label"] = None if action is None else self.label(action)
            for name, table in (("policy", self.policy), ("q", self.q_values)):
                state_row |= {f"{name}_{a}": float(x) for a, x in enumerate(table[i])}
            table_rows.append(state_row)
        return table_rows

    def plot(
        self, ax: Axes | None = None, shape: tuple[int, int] | None = None
    ) -> Axes:
        """Draw the values, over a grid where there is one; return the Axes.

        A grid is known where states are pairs of whole numbers, and where ``solve`` got
        a built-in problem that has one. It needs matplotlib (extra ``report``).

        Args:
            ax: where to draw; by default a figure of its own.
            shape: (rows, columns) of a grid; its states are row * columns + column.
        """
        return draw_object("solution", self, ax, shape=shape)

    def __repr__(self) -> str:
        return brief(
            "Solution",
            states=self.q_values.shape[0],
            actions=self.q_values.shape[1],
            residual_bound=float(self.residual_bound),
            method=self.method,
        )

    @cached_property
    def _rows(self) -> dict[Any, int]:
        return {self.key_of(state): i for i, state in enumerate(self.states or ())}

    def index(self, state: Any) -> int:
        """The row of ``state`` in the arrays."""
        if self.states is None:
            is_whole = isinstance(state, int | np.integer) and not isinstance(
                state, bool
            )
            if not is_whole or not 0 <= state < len(self.values):
                raise InvalidInput(
                    "state must be a whole number from 0 to "
                    f"{len(self.values) - 1}, got {state!r}."
                )
            return int(state)
        state_row = self._rows.get(self.key_of(state))
        if state_row is None:
            raise InvalidInput(
                f"State {state!r} is not among the {len(self.states):,} states that "
                "this solution explored, those that can follow "
                f"{self.states[0]!r}; solve the problem with initial_state= set to it, "
                "or plan there with method 'exact'."
            )
        return state_row


def names_of(problem: Problem, states: tuple[Any, ...] | None) -> dict[str, Any]:
    """The fields of a Solution that name its rows."""
    return {
        "states": states,
        "key_of": state_key if states is None else problem.key_of,
        "problem": problem.name,
        "grid": grid_of(problem),
        "labels": None if problem.actions is None else tuple(problem.actions),
        "minimize": problem.minimizes,
    }


def exact_estimate(
    problem: Problem, solution: Solution, state: Any, notes: tuple[str, ...] = ()
) -> Estimate:
    """The Estimate of ``state`` that an exact solution holds.

    Args:
        problem: the problem that was solved.
        solution: the result of ``solve(problem)``.
        state: a state of the solution; another one is refused.
        notes: sentences for the reader, such as why this method was chosen.
    """
    state_row = solution.index(state)
    value, bound = float(solution.values[state_row]), float(solution.residual_bound)
    if math.isinf(value):
        raise InvalidInput(
            f"State {state!r} is worth {value:+} at discount 1: rewards go on for ever "
            "with positive probability; give horizon=, a discount below 1, or terminal=."
        )
    q_values = tuple(float(q) for q in solution.q_values[state_row])
    policy = tuple(float(p) for p in solution.policy[state_row])
    certificate = Certificate(
        kind="exact",
        interval=(value - bound, value + bound),
        q_intervals=tuple((q - bound, q + bound) for q in q_values),
        confidence=1.0,
        bound=f"residual of {solution.method}",
        assumptions=(
            "the tables are the model"
            if problem.tables is not None
            else "outcomes= is the model",
            *adapter_assumptions(problem),
        ),
        best_actions=None,
    )
    return Estimate(
        value=value,
        interval=certificate.interval,
        q_values=q_values,
        policy=policy,
        action=best_action(policy, q_values, problem.mover(state)),
        num_calls=0,
        epsilon=bound,
        delta=0.0,
        method="exact",
        certificate=certificate,
        seconds=0.0,
        compile_seconds=0.0,
        **estimate_subject(problem, state),
        notes=notes,
    )


UNIT = 2.0**-53  # unit roundoff of float64
SLACK = 1.0 + 2.0**-20  # covers the roundings in the evaluation of a bound itself


def last_stage(model: Model, stages: Floats, horizon: int, bound: float) -> float:
    """The bound on the last stage's values, which it puts in the place of V_h.

    ``stages`` are V_0 to V_h, with rounding up to ``bound``; ``model.q`` holds the
    action values of stage h, and then those of the last one.
    """
    discount_sum = sum(model.discount**i for i in range(len(stages) - 1, horizon))
    lower_shift = discount_sum * min(float(stages[1].min()), 0.0)
    upper_shift = discount_sum * max(float(stages[1].max()), 0.0)
    max_size = float(np.abs(stages[-1]).max()) + abs(lower_shift) + abs(upper_shift)
    shift, half_spread = (
        0.5 * (lower_shift + upper_shift),
        0.5 * (upper_shift - lower_shift),
    )
    model.q[:] += shift
    stages[-1] = np.where(model.sign == 0.0, 0.0, stages[-1] + shift)
    # a sum of so many terms, the shift of values and that of action values
    rounding = UNIT * (4.0 * horizon * half_spread + 8.0 * max_size)
    return SLACK * (bound + half_spread + rounding)


def left_early(sweeps: int, bound: float) -> str:
    """The note of a solution that was stopped before its aim."""
    return (
        f"The sweeps were stopped after {sweeps:,}, which prove {bound:.3g}; more of "
        "them prove less."
    )
