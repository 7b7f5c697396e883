"""The answers of ``plan_many`` as one object, and the answer where nothing is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from smoothcruiser.estimate import (
    Estimate,
)


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
