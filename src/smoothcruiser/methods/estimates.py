"""The answers of ``plan_many`` as one object, and the answer where nothing is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from smoothcruiser.estimate import Estimate
from smoothcruiser.shown import Shown, brief


@dataclass(frozen=True)
class Estimates(Shown, Sequence[Estimate]):
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

    def __repr__(self) -> str:
        return brief(
            "Estimates",
            states=len(self),
            method=self.method,
            delta=self.delta,
            calls=self.num_calls,
        )
