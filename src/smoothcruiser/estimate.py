"""The answer: value, action values, policy, and the certificate that says how
far they can be trusted.

An interval is printed only with the confidence it has. A planner without a
guarantee returns ``certificate=None``, never a fake one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from smoothcruiser.schedule.schedule import counted

Interval = tuple[float, float]


@dataclass(frozen=True)
class Certificate:
    """What is promised: all the intervals hold together with probability at
    least ``confidence``, under ``assumptions``.
    """

    kind: str  # "schedule", "search", "exact"
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


@dataclass(frozen=True)
class Estimate:
    """What a planner returns. Illegal actions have policy 0 and q NaN."""

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
    price: int | None = None  # what the plan would have cost without an early stop
    run: int | None = None  # its number in the run store, if one was given
    notes: tuple[str, ...] = ()  # how it was obtained, in sentences

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data: NaN, infinity and a price beyond 2**53
        become None; ``log10_price`` is beside the price.
        """
        found: dict[str, Any] = plain(self)
        return found | (
            {"log10_price": None}
            if self.price is None
            else counted("price", self.price)
        )

    def to_json(self, **options: Any) -> str:
        """The fields as JSON text."""
        return json.dumps(self.to_dict(), **options)


def best_action(policy: Sequence[float], q_values: Sequence[float], player: int) -> int:
    """The action to take: the most likely one of the policy, ties broken by
    value for the mover, then by index.
    """
    sign = 1.0 if player == 1 else -1.0
    usable = [a for a, q in enumerate(q_values) if not math.isnan(q)]
    return max(usable, key=lambda a: (policy[a], sign * q_values[a], -a))


def plain(value: Any) -> Any:
    """Data that JSON can hold: numbers, words, lists; anything else as it is
    printed.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in fields(value)
        }
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return repr(value)
