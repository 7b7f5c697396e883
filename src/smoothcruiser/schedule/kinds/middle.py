"""MIDDLE: (lower(s) + upper(s))/2, for bounds on V that depend on the state.

Free, with width ``value_gap`` in place of the span of V. Its samples differ from
state to state, so a backup over it has the range of r + gamma V.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.errors import BrokenPromise
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.kinds.base import TOLERANCE, Estimator, Kind, Walk
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.moments import Backup, Moments, middle

if TYPE_CHECKING:
    from smoothcruiser.schedule.prices import Level


class Middle(Estimator):
    """The middle of the user's own bounds in a state; not part of the paper.

    The constant of its row only tells the center of its samples.
    """

    kind = Kind.MIDDLE
    word = "middle"
    asks = False
    goes_on = False

    def missing(self, facts: Facts) -> str | None:
        """Return a sentence's end unless the bounds are functions."""
        if facts.given_gap is not None:
            return None
        return "value_bounds that are functions of the state"

    def ends_chain(self, base: Ground, remaining: int | None) -> bool:
        """Whether the bounds are functions and some steps are left.

        The bounds claim nothing where no steps are left.
        """
        return self.missing(base.facts) is None and remaining != 0

    def moments(
        self,
        base: Ground,
        samples: Any,
        query: Backup | None,
        onward: Backup | None,
        remaining: int | None,
    ) -> Moments:
        """The moments of the middle of the bounds."""
        if remaining == 0:
            raise BrokenPromise(
                "A middle level stands where no steps remain; a value there is 0, so "
                "a constant 0 belongs there."
            )
        return middle(base, remaining)

    def offer(self, walk: Walk) -> None:
        """Propose nothing: a walk has it from the beginning (``free_kinds``)."""

    def finish_row(self, row: Level, moments: Moments) -> Level:
        """Return ``row`` with the number that its samples lie around."""
        return replace(row, shift=0.0, constant=_around(moments))

    def written_moments(
        self, base: Ground, level: Level, centred: Moments, remaining: int | None
    ) -> Moments:
        """The moments of the middle: no number of the row enters them."""
        return centred

    def flaw(
        self, base: Ground, level: Level, centred: Moments, remaining: int | None
    ) -> str | None:
        """Return a sentence if the row has a shift, or lies around another number."""
        if level.shift != 0.0:
            return f"has shift {level.shift:g}, and the middle of bounds has none"
        right_constant = _around(centred)
        value_scale = abs(right_constant) + float(np.max(centred.high - centred.low))
        if abs(level.constant - right_constant) <= TOLERANCE * value_scale:
            return None
        return f"has constant {level.constant:g}, and lies around {right_constant:g}"


def _around(moments: Moments) -> float:
    return float(np.mean(0.5 * (moments.low + moments.high)))
