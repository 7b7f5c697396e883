"""The answers of ``plan_many`` as one object, and the answer where nothing is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from smoothcruiser.estimate import (
    Certificate,
    Estimate,
    Spread,
    best_action,
    not_excluded,
)
from smoothcruiser.methods.base import Method
from smoothcruiser.query import Query


@dataclass(frozen=True)
class Estimates(Sequence[Estimate]):
    """The answers of ``plan_many``, in the order of its states.

    All their intervals hold together with probability at least 1 - ``delta``.
    """

    estimates: tuple[Estimate, ...]
    delta: float | None  # for all of them together; None where nothing is promised
    num_calls: int  # of all; a state that is listed twice is paid for once
    seconds: float
    method: str
    notes: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Estimate: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Estimate, ...]: ...

    def __getitem__(self, index: int | slice) -> Estimate | tuple[Estimate, ...]:
        """The answer at a place of the list of states."""
        return self.estimates[index]

    def __len__(self) -> int:
        return len(self.estimates)

    def to_dict(self) -> dict[str, Any]:
        """The answers and what they share, as plain data."""
        return {
            "method": self.method,
            "delta": self.delta,
            "num_calls": self.num_calls,
            "seconds": self.seconds,
            "notes": list(self.notes),
            "estimates": [estimate.to_dict() for estimate in self.estimates],
        }

    def to_json(self, **options: Any) -> str:
        """The answers and what they share, as JSON text."""
        return json.dumps(self.to_dict(), **options)

    def __str__(self) -> str:
        """One line per state, and one for all."""
        lines = [_line(estimate) for estimate in self.estimates]
        sure = ""
        if any(estimate.interval is not None for estimate in self.estimates):
            sure = (
                f", all intervals together with probability {1 - (self.delta or 0):g}"
            )
        count = len(self.estimates)
        lines.append(
            f"{count} {'state' if count == 1 else 'states'} by {self.method}: "
            f"{self.num_calls:,} calls{sure}"
        )
        return "\n".join(lines)


def _line(estimate: Estimate) -> str:
    box = estimate.interval
    where = "" if box is None else f" in [{box[0]:.6g}, {box[1]:.6g}]"
    what = "over" if estimate.action is None else f"action {estimate.action}"
    if estimate.action is None and not estimate.q_values:
        what = "value alone"
    return f"{estimate.state!r:.40}: {estimate.value:.6g}{where}, {what}"


def unreached(query: Query, state: Any, method: Method, why: str) -> Estimate:
    """The answer at a state that nothing is known about but the range of rewards."""
    problem = query.problem
    mover, actions = problem.mover(state), problem.legal_actions(state)
    facts, operator = problem.facts, problem.operator
    interval, box = facts.value_bounds(mover), facts.q_bounds(mover)
    middles = [0.5 * (box[0] + box[1])] * len(actions)
    weights = operator.weights(problem.num_actions)
    gradient = operator.gradient(
        middles, player=mover, weights=[weights[a] for a in actions]
    )
    spread = Spread.over(
        problem.num_actions, actions, middles, [box] * len(actions), gradient
    )
    why = why.rstrip(".")
    return Estimate(
        value=0.5 * (interval[0] + interval[1]),
        interval=interval,
        q_values=spread.q_values,
        policy=spread.policy,
        action=best_action(spread.policy, spread.q_values, mover),
        num_calls=0,
        epsilon=0.5 * max(interval[1] - interval[0], box[1] - box[0]),
        delta=0.0,
        method=method.name,
        certificate=Certificate(
            kind="exact",
            interval=interval,
            q_intervals=spread.q_intervals,
            confidence=1.0,
            bound="the range of rewards",
            best_actions=not_excluded(spread.q_intervals, mover),
        ),
        seconds=0.0,
        compile_seconds=0.0,
        problem=problem.name,
        state=state,
        seed=query.seed,
        notes=(f"{why}: the interval is what the rewards allow.",),
    )
