"""The answer: value, action values, policy, and the certificate that says how
far they can be trusted.

An interval is printed only with the confidence it has. A planner without a
guarantee returns ``certificate=None``, never a fake one.

The answers of ``plan_many`` as one object.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, overload

from smoothcruiser.displayable import Shown, brief
from smoothcruiser.errors import choose_word
from smoothcruiser.operators.outward import sum_in_order
from smoothcruiser.problem.assumptions import DECLARED, assumptions
from smoothcruiser.problem.problem import Problem
from smoothcruiser.records.data import Data, Framed, draw_object, same_fields
from smoothcruiser.records.json_shapes import calls_flaw, index_flaw, length_flaw
from smoothcruiser.records.shapes import Count

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Interval = tuple[float, float]
NOWHERE: Interval = (math.nan, math.nan)  # of an illegal action
UNSAMPLED_BOUND = "what the rewards allow"  # of an interval that no sample narrowed
NO_SPREAD = 1e-6  # of the half-width: a standard error that is rounding alone
ADVICE = "Advice: "  # begins a note that says how to ask better


class Subject(TypedDict):
    """The fields of an Estimate that name its subject."""

    problem: str
    state: Any
    labels: tuple[str, ...] | None
    minimize: bool


def estimate_subject(problem: Problem, state: Any) -> Subject:
    """The subject of every Estimate at ``state``, names of actions included."""
    name, labels = problem.name, problem.labels(state)
    return Subject(
        problem=name, state=state, labels=labels, minimize=problem.minimizes
    )


@dataclass(frozen=True)
class Certificate(Shown):
    """A promise: all the intervals hold together with probability at least
    ``confidence``, under ``assumptions``.
    """

    kind: str  # "schedule", "search", "exact", "policy", "proof", "gap"
    interval: Interval  # for V(state)
    # one an action; (NaN, NaN) where illegal, empty where only the value was asked
    # for
    q_intervals: tuple[Interval, ...]
    confidence: float
    bound: str  # the inequality that closed it
    assumptions: tuple[str, ...] = ()
    # the regularized one-step loss of ``policy`` is at most this
    policy_loss: float | None = None
    best_actions: tuple[int, ...] | None = None  # actions not excluded as best

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Certificate):
            return NotImplemented
        return same_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.kind, self.bound, len(self.q_intervals)))

    def __repr__(self) -> str:
        return brief(
            "Certificate",
            kind=self.kind,
            interval=self.interval,
            confidence=self.confidence,
            bound=self.bound,
        )


@dataclass(frozen=True)
class Estimate(Shown, Data, Framed):
    """What a planner returns. Illegal actions have policy 0 and q NaN."""

    json_kind: ClassVar[str] = "estimate"
    json_when_set: ClassVar[tuple[str, ...]] = ("minimize",)
    json_more: ClassVar[Mapping[str, Any]] = {"action_label": str | None}
    frame_columns: ClassVar[tuple[str, ...]] = (
        *("action", "label", "value", "low", "high", "policy", "excluded"),
    )

    value: float
    interval: Interval | None
    q_values: tuple[float, ...]
    policy: tuple[float, ...]
    action: int | None  # the recommended action, None in a terminal state
    num_calls: int  # counted, not predicted
    epsilon: float | None
    delta: float | None
    method: str
    certificate: Certificate | None
    seconds: float
    compile_seconds: float
    problem: str = ""
    state: Any = None
    seed: int | None = None
    executor: str | None = None
    # calls made, those drawn ahead of an early stop included
    calls_spent: int | None = None
    price: Count | None = None  # the plan's cost without an early stop
    run: int | None = None  # its number in the run store, if one was given
    notes: tuple[str, ...] = ()  # how it was obtained, in sentences
    labels: tuple[str, ...] | None = None  # names of the actions, where they have any
    # the usual standard error of ``value``, not promised; None where there is none
    standard_error: float | None = None
    minimize: bool = False  # every number is a cost, which the policy keeps low

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Estimate):
            return NotImplemented
        return same_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.problem, self.method, self.action, self.num_calls))

    def label(self, action: int) -> str:
        """The name of an action: its label, or its number where it has none."""
        return str(action) if self.labels is None else self.labels[action]

    @property
    def action_label(self) -> str | None:
        """The name of the recommended action, None in a terminal state."""
        return None if self.action is None else self.label(self.action)

    def __repr__(self) -> str:
        label_field = {} if self.labels is None else {"label": self.action_label}
        return brief(
            "Estimate",
            value=self.value,
            interval=self.interval,
            action=self.action,
            **label_field,
            method=self.method,
            calls=self.num_calls,
        )

    def more_data(self) -> dict[str, Any]:
        """The name of the recommended action."""
        return {"action_label": self.action_label}

    def json_flaw(self) -> str | None:
        """Lists that differ in length, or an action that there is not."""
        num_actions, certificate = len(self.q_values), self.certificate
        num_labels = num_actions if self.labels is None else len(self.labels)
        q_intervals = () if certificate is None else certificate.q_intervals
        best_actions = () if certificate is None else certificate.best_actions or ()
        named_actions = (
            []
            if self.action is None
            else [("action", self.action, num_actions or num_labels)]
        )
        named_actions += [
            ("certificate.best_actions", a, len(q_intervals)) for a in best_actions
        ]
        flaws = [
            length_flaw("policy", len(self.policy), num_actions, "action"),
            length_flaw("labels", num_labels, num_actions or num_labels, "action"),
            length_flaw(
                "certificate.q_intervals",
                len(q_intervals),
                num_actions if q_intervals else 0,
                "action",
            ),
            *(
                index_flaw(name, a, num_allowed, "actions")
                for name, a, num_allowed in named_actions
            ),
            calls_flaw("num_calls", self.num_calls),
            calls_flaw("calls_spent", self.calls_spent or 0),
        ]
        return next((flaw for flaw in flaws if flaw is not None), None)

    def records(self) -> list[dict[str, Any]]:
        """One row per action: its value, interval and share of the policy.

        ``excluded`` says whether the certificate rules the action out as the best one;
        it is None where nothing is certified. Illegal actions have NaN and are
        excluded. There are no rows where only the value was asked for.
        """
        certificate = self.certificate
        q_intervals = () if certificate is None else certificate.q_intervals
        best_actions = None if certificate is None else certificate.best_actions
        action_rows = []
        for a, q in enumerate(self.q_values):
            lower_bound, upper_bound = q_intervals[a] if q_intervals else NOWHERE
            action_rows.append(
                {
                    "action": a,
                    "label": self.label(a),
                    "value": q,
                    "low": lower_bound,
                    "high": upper_bound,
                    "policy": self.policy[a],
                    "excluded": None
                    if best_actions is None
                    else a not in best_actions,
                }
            )
        return action_rows

    def frame_attrs(self) -> dict[str, Any]:
        """The estimate of V, its usual error (not promised) and its promise."""
        return {
            "value": self.value,
            "standard_error": self.standard_error,
            "interval": self.interval,
            "delta": self.delta,
            **({"minimize": True} if self.minimize else {}),
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw action values with their intervals, and the policy; return the Axes.

        It needs matplotlib (extra ``report``).

        Args:
            ax: where to draw; by default a figure of its own.
        """
        return draw_object("estimate", self, ax)


def likeliest(estimate: Estimate, max_actions: int) -> list[int]:
    """At most ``max_actions`` actions to show: the legal ones of largest policy.

    They are in order; all of them where they fit.
    """
    all_actions = range(len(estimate.q_values))
    if len(all_actions) <= max_actions:
        return list(all_actions)
    legal_actions = [a for a in all_actions if not math.isnan(estimate.q_values[a])]
    likely_actions = sorted(
        legal_actions, key=lambda a: (a != estimate.action, -estimate.policy[a], a)
    )
    return sorted(likely_actions[:max_actions])


def best_action(
    policy: Sequence[float], q_values: Sequence[float], player: int
) -> int:
    """The action to take: the most likely one of the policy, ties broken by
    value for the mover, then by index.
    """
    sign = 1.0 if player == 1 else -1.0
    legal_actions = [a for a, q in enumerate(q_values) if not math.isnan(q)]
    return max(legal_actions, key=lambda a: (policy[a], sign * q_values[a], -a))


def not_excluded(q_intervals: Sequence[Interval], player: int) -> tuple[int, ...]:
    """Actions that in their best case reach the surest worst case of every other."""
    legal_actions = [
        a for a, interval in enumerate(q_intervals) if not math.isnan(interval[0])
    ]
    if player == 1:
        surest_value = max(q_intervals[a][0] for a in legal_actions)
        return tuple(a for a in legal_actions if q_intervals[a][1] >= surest_value)
    surest_cost = min(q_intervals[a][1] for a in legal_actions)
    return tuple(a for a in legal_actions if q_intervals[a][0] <= surest_cost)


def bring_inside(
    value: float, interval: Interval, within: float | None = None
) -> float:
    """The point of an interval nearest to a value; NaN, of an illegal action, stays.

    Where ``within`` is given, a point at most so far from either end, or the middle
    where there is none.
    """
    lower_bound, upper_bound = interval
    if within is not None and not math.isnan(value):
        # rounding takes none of it
        lower_limit = math.nextafter(upper_bound - within, math.inf)
        upper_limit = math.nextafter(lower_bound + within, -math.inf)
        lower_bound, upper_bound = (
            max(lower_bound, lower_limit),
            min(upper_bound, upper_limit),
        )
        if lower_bound > upper_bound:
            return 0.5 * (interval[0] + interval[1])
    return (
        lower_bound
        if value < lower_bound
        else upper_bound
        if value > upper_bound
        else value
    )


def error_if_near(
    error: float | None, estimated: float | None, value: float
) -> float | None:
    """The usual error of an estimate where the value shown is that estimate.

    A value that the promise has moved by more than its usual error has none.
    """
    if error is None or estimated is None or not abs(value - estimated) <= error:
        return None
    return error


def note_agreement(
    samples: str, error: float | None, half_width: float
) -> tuple[str, ...]:
    """A note on the limits of a standard error, where all ``samples`` agreed."""
    if error is None or error > NO_SPREAD * half_width:
        return ()
    return (
        f"All {samples} agreed: the standard error knows nothing of events that none "
        "of them met; the interval does.",
    )


@dataclass(frozen=True)
class Spread:
    """Values, intervals and policy of the legal actions, over all K actions."""

    q_values: tuple[float, ...]
    q_intervals: tuple[Interval, ...]
    policy: tuple[float, ...]

    @classmethod
    def over(
        cls,
        num_actions: int,
        actions: Sequence[int],
        values: Sequence[float],
        boxes: Sequence[Interval],
        gradient: Sequence[float],
    ) -> Spread:
        """Illegal actions get NaN and 0; the gradient is scaled to a policy."""
        gradient_sum = sum_in_order(gradient)
        q_values = [math.nan] * num_actions
        intervals, policy = [NOWHERE] * num_actions, [0.0] * num_actions
        for a, q, interval, share in zip(
            actions, values, boxes, gradient, strict=True
        ):
            q_values[a], intervals[a], policy[a] = q, interval, share / gradient_sum
        return cls(tuple(q_values), tuple(intervals), tuple(policy))


def terminal_estimate(
    problem: Problem, state: Any, method: str, seed: int | None = None
) -> Estimate:
    """A terminal state is worth 0, exactly."""
    worth = choose_word("value", problem.minimizes)
    certificate = Certificate(
        kind="exact",
        interval=(0.0, 0.0),
        q_intervals=(NOWHERE,) * problem.num_actions,
        confidence=1.0,
        bound="terminal state",
    )
    return Estimate(
        value=0.0,
        interval=(0.0, 0.0),
        q_values=(math.nan,) * problem.num_actions,
        policy=(0.0,) * problem.num_actions,
        action=None,
        num_calls=0,
        epsilon=0.0,
        delta=0.0,
        method=method,
        certificate=certificate,
        seconds=0.0,
        compile_seconds=0.0,
        **estimate_subject(problem, state),
        seed=seed,
        notes=(f"The state is terminal: its {worth} is 0 by definition.",),
    )


def unsampled_estimate(
    problem: Problem, state: Any, method: str, why: str, seed: int | None = None
) -> Estimate:
    """The estimate of a state without a sample: its interval follows from the facts.

    ``why`` is a sentence on the reason.
    """
    mover, actions = problem.mover(state), problem.legal_actions(state)
    operator = problem.operator
    interval = problem.facts.value_bounds(mover)
    q_bounds = problem.facts.q_bounds(mover)
    middle_values = [0.5 * (q_bounds[0] + q_bounds[1])] * len(actions)
    weights = operator.weights(problem.num_actions)
    gradient = operator.gradient(
        middle_values, player=mover, weights=[weights[a] for a in actions]
    )
    q_boxes = [q_bounds] * len(actions)
    spread = Spread.over(
        problem.num_actions, actions, middle_values, q_boxes, gradient
    )
    certificate = Certificate(
        kind="exact",
        interval=interval,
        q_intervals=spread.q_intervals,
        confidence=1.0,
        bound=UNSAMPLED_BOUND,
        assumptions=assumptions(problem, DECLARED, ""),
        best_actions=not_excluded(spread.q_intervals, mover),
    )
    return Estimate(
        value=0.5 * (interval[0] + interval[1]),
        interval=interval,
        q_values=spread.q_values,
        policy=spread.policy,
        action=best_action(spread.policy, spread.q_values, mover),
        num_calls=0,
        epsilon=0.5 * max(interval[1] - interval[0], q_bounds[1] - q_bounds[0]),
        delta=0.0,
        method=method,
        certificate=certificate,
        seconds=0.0,
        compile_seconds=0.0,
        **estimate_subject(problem, state),
        seed=seed,
        notes=(
            f"{why.rstrip('.')}: nothing was sampled. The interval is what the "
            f"{choose_word('reward', problem.minimizes)}s allow, and the "
            f"{choose_word('value', problem.minimizes)} only its middle, no estimate.",
        ),
    )


@dataclass(frozen=True)
class Estimates(Shown, Data, Framed, Sequence[Estimate]):
    """The answers of ``plan_many``, in the order of its states.

    All their intervals hold together with probability at least 1 - ``delta``.
    """

    json_kind: ClassVar[str] = "estimates"
    frame_columns: ClassVar[tuple[str, ...]] = (
        *("state", "value", "standard_error", "low", "high", "action", "label"),
        *("epsilon", "num_calls", "method"),
    )

    estimates: tuple[Estimate, ...]
    delta: float | None  # for all of them together; None where nothing is promised
    num_calls: int  # of all; a state that is listed twice is paid for once
    seconds: float
    method: str
    notes: tuple[str, ...] = ()
    price: Count | None = (
        None  # of all calls, at the most; None where nothing bounds them
    )

    @overload
    def __getitem__(self, index: int) -> Estimate: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Estimate, ...]: ...

    def __getitem__(self, index: int | slice) -> Estimate | tuple[Estimate, ...]:
        """The answer at a place of the list of states."""
        return self.estimates[index]

    def __len__(self) -> int:
        return len(self.estimates)

    def records(self) -> list[dict[str, Any]]:
        """One row per state: its value, interval and recommended action."""
        table_rows = []
        for estimate in self.estimates:
            lower_bound, upper_bound = estimate.interval or NOWHERE
            table_rows.append(
                {
                    "state": estimate.state,
                    "value": estimate.value,
                    "standard_error": estimate.standard_error,
                    "low": lower_bound,
                    "high": upper_bound,
                    "action": estimate.action,
                    "label": estimate.action_label,
                    "epsilon": estimate.epsilon,
                    "num_calls": estimate.num_calls,
                    "method": estimate.method,
                }
            )
        return table_rows

    def __repr__(self) -> str:
        return brief(
            "Estimates",
            states=len(self),
            method=self.method,
            delta=self.delta,
            calls=self.num_calls,
        )
