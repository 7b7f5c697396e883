"""The answers of ``plan_many`` as one object, and the answer where nothing is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, overload

from smoothcruiser.estimate import NOWHERE, Estimate
from smoothcruiser.records.data import Data
from smoothcruiser.records.frames import Framed


@dataclass(frozen=True)
class Estimates(Data, Framed, Sequence[Estimate]):
    """The answers of ``plan_many``, in the order of its states.

    All their intervals hold together with probability at least 1 - ``delta``.
    """

    json_kind: ClassVar[str] = "estimates"
    frame_columns: ClassVar[tuple[str, ...]] = (
        *("state", "value", "low", "high", "action", "label", "epsilon", "num_calls"),
        "method",
    )

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

    def records(self) -> list[dict[str, Any]]:
        """One row per state: its value, interval and recommended action."""
        rows = []
        for estimate in self.estimates:
            low, high = estimate.interval or NOWHERE
            rows.append(
                {
                    "state": estimate.state,
                    "value": estimate.value,
                    "low": low,
                    "high": high,
                    "action": estimate.action,
                    "label": estimate.action_label,
                    "epsilon": estimate.epsilon,
                    "num_calls": estimate.num_calls,
                    "method": estimate.method,
                }
            )
        return rows

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
