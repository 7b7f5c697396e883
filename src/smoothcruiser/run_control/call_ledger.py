"""All calls of the user's step in one request, by purpose, on one ledger.

A request calls the step to inspect it, to time it, to see whether states come back, and
to sample. Each of these calls is entered where it is made, so a stop in the middle
loses none, and no error has to carry a count:

  price       all calls that the request may make; None where nothing bounds them
  total       those made:              Estimate.calls_spent
  used_calls  those behind the answer: Estimate.num_calls
  left        those that the price still allows, which is the room of the next part

A query has the ledger of its preparation, which times the simulator; each run of what
was prepared goes on from a copy of it.

Some loops count by themselves: engines and their workers, trees, rollouts and certified
searches count in their own memory, which machine code writes and a snapshot keeps, and
another process has no part in this one. Their totals are entered at the one place where
they come back (``add``, or ``spend``).
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum


class CallRole(StrEnum):
    """The purpose of a call."""

    INSPECTION = "inspection"  # whether the step keeps its contract
    TIMING = "timing"  # how fast it is
    PILOT = "pilot"  # whether states come back; its own inspection too
    SAMPLES = "samples"  # behind the answer
    AHEAD = "ahead"  # samples of workers beyond an early stop, behind no answer


class CallLedger:
    """The calls made for one request, at most ``price`` where that is known."""

    def __init__(self, price: int | None = None) -> None:
        self.price = price
        self._calls: Counter[CallRole] = Counter()

    def spend(self, role: CallRole, calls: int) -> None:
        """Enter calls that were made."""
        self._calls[role] += calls

    def add(self, other: CallLedger) -> None:
        """Enter the calls of a part of the request, or of a worker."""
        for role in CallRole:
            self.spend(role, other.count(role))

    def move_to(self, other: CallLedger) -> None:
        """Enter all calls on another ledger, and none of them here any more."""
        other.add(self)
        self._calls.clear()

    def copy(self, price: int | None = None) -> CallLedger:
        """The same calls under another price."""
        ledger = CallLedger(price)
        ledger.add(self)
        return ledger

    def count(self, role: CallRole) -> int:
        """The calls of one purpose."""
        return self._calls[role]

    @property
    def total(self) -> int:
        """All calls that were made."""
        return self._calls.total()

    @property
    def used_calls(self) -> int:
        """The calls behind the answer."""
        return self.total - self.count(CallRole.AHEAD)

    @property
    def left(self) -> int | None:
        """The calls that the price still allows; None where there is none."""
        return None if self.price is None else self.price - self.total
