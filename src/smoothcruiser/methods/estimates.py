"""The answers of ``plan_many`` as one object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, overload

from smoothcruiser.estimate import NOWHERE, Estimate
from smoothcruiser.records.data import Data
from smoothcruiser.records.frames import Framed
from smoothcruiser.records.shapes import Count
from smoothcruiser.shown import Shown, brief


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
