"""CONSTANT: c, whatever the state. Free, and exact where no steps remain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.schedule.kinds.base import TOLERANCE, Estimator, Kind, Walk
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.moments import Backup, Moments, constant

if TYPE_CHECKING:
    from smoothcruiser.schedule.prices import Level
    from smoothcruiser.theory.paper_ladder import PaperConstants


class Constant(Estimator):
    """The middle of the bounds on V; in the paper, the constant 0 (Alg. 2, line 3)."""

    kind = Kind.CONSTANT
    word = "constant"
    asks = False
    goes_on = False
    in_paper = True

    def moments(
        self,
        base: Ground,
        samples: Any,
        query: Backup | None,
        onward: Backup | None,
        remaining: int | None,
    ) -> Moments:
        """The moments of the middle of the bounds."""
        return constant(base, remaining)

    def offer(self, walk: Walk) -> None:
        """Propose nothing: every walk begins with a constant, and others are wider."""

    def finish_row(self, row: Level, moments: Moments) -> Level:
        """Return ``row`` with its shift and its constant, which all players share."""
        return replace(
            super().finish_row(row, moments), constant=float(np.mean(moments.low))
        )

    def written_moments(
        self, base: Ground, level: Level, centred: Moments, remaining: int | None
    ) -> Moments:
        """The moments of the constant and the shift in ``level``."""
        return constant(base, remaining, level.constant, level.shift)

    def flaw(
        self, base: Ground, level: Level, centred: Moments, remaining: int | None
    ) -> str | None:
        """Return a sentence if the constant is off the middle, else None.

        The bias of a constant is smallest in the middle of the bounds.
        """
        row_moments = self.written_moments(base, level, centred, remaining)
        largest_offset = float(np.max(np.abs(centred.low - row_moments.low)))
        value_scale = float(np.max(np.abs(centred.low))) + float(centred.width[0])
        if largest_offset <= TOLERANCE * value_scale:
            return None
        return (
            f"is {largest_offset:g} off the middle of its bounds, constant "
            f"{float(np.mean(centred.low)):g} with shift {float(centred.shift[0]):g}, "
            "where its bias is smallest"
        )

    def paper_flaw(self, c: PaperConstants, level: Level) -> str | None:
        """Return a sentence if the constant lies beyond C_gamma, else None.

        Hoeffding's inequality needs outputs in that range.
        """
        flaw = super().paper_flaw(c, level)
        if flaw is None and abs(level.constant) > c.ceiling:
            flaw = f"returns {level.constant:g}, beyond C_gamma = {c.ceiling:g}"
        return flaw

    def paper_accuracy(
        self,
        c: PaperConstants,
        level: Level,
        query: float,
        onward: float,
        remaining: int | None,
    ) -> float:
        """Return |c| + sup |V|."""
        return abs(level.constant) + c.sup_value(remaining)
