"""RANDOM_ROLLOUT: a rollout with N0 samples and rare corrections of its mean.

With probability p_j (``rungs``) it adds 1/p_j times an estimate of the difference of
rollouts with 2^j N0 samples and with half of them (docs/randomized.md). So its width is
gamma w'' + E D(q, 2^J N0), and its price on average

  K (N0 + sum_j 2 p_j m_j)(1 + C_q) + (1 + sum_j p_j)(1 + C''),   m_j = 2^(j-1) N0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.errors import BrokenPromise
from smoothcruiser.schedule.kinds.base import TOLERANCE, Estimator, Kind, Walk, chances
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.moments import Backup, Moments, rollout
from smoothcruiser.theory.randomized import Terms, random_rollout, rollout_terms

if TYPE_CHECKING:
    from smoothcruiser.schedule.prices import Level


def is_correctable(base: Ground) -> bool:
    """Whether the corrections of a rollout have a known size."""
    return base.rule.convex and base.rule.curvature < np.inf


class RandomRollout(Estimator):
    """A rollout with corrections that remove noise from its mean; not in the paper."""

    kind = Kind.RANDOM_ROLLOUT
    word = "random rollout"
    asks = True
    goes_on = True
    randomized = True

    def moments(
        self,
        base: Ground,
        samples: Any,
        query: Backup | None,
        onward: Backup | None,
        remaining: int | None,
    ) -> Moments:
        """The moments of a rollout: those without rungs."""
        assert query is not None
        assert onward is not None
        plain_moments = rollout(base, query, samples, onward, remaining)
        return replace(plain_moments, baseline=onward.center)

    def of_row(
        self,
        base: Ground,
        row: Level,
        samples: Any,
        scale: Any,
        query: Backup | None,
        onward: Backup | None,
        remaining: int | None,
    ) -> Moments:
        """The moments with the rungs of ``row``, or with the best ones at ``scale``."""
        assert query is not None
        assert onward is not None
        terms = self.terms(base, row, samples, query, onward)
        rungs = chances(base, row, terms, scale, query, onward)
        return random_rollout(base, query, samples, onward, remaining, rungs, terms)

    def terms(
        self,
        base: Ground,
        row: Level,
        samples: Any,
        query: Backup,
        onward: Backup | None,
    ) -> Terms:
        """Return the moments of the corrections of ``row``."""
        assert onward is not None
        if not is_correctable(base):
            raise BrokenPromise(
                f"Corrections of a rollout need an operator that is smooth and convex, "
                f"got {base.facts.operator.name}."
            )
        return rollout_terms(base, query, samples, onward, len(row.rungs))

    def offer(self, walk: Walk) -> None:
        """Propose each new level as a query, with every ladder over it."""
        if is_correctable(walk.base):
            walk.offer_ladders(self.kind)

    def finish_row(self, row: Level, moments: Moments) -> Level:
        """Return ``row`` with its shift and the baseline of its corrections."""
        baseline = float(np.atleast_1d(moments.baseline)[0])
        return replace(super().finish_row(row, moments), constant=baseline)

    def flaw(
        self, base: Ground, level: Level, centred: Moments, remaining: int | None
    ) -> str | None:
        """Return a sentence if the baseline or the shift is off, else None."""
        right_baseline = float(np.atleast_1d(centred.baseline)[0])
        value_scale = abs(right_baseline) + float(np.max(centred.high - centred.low))
        if abs(level.constant - right_baseline) > TOLERANCE * value_scale:
            return (
                f"has constant {level.constant:g}, and its corrections are bounded "
                f"about {right_baseline:g}"
            )
        return super().flaw(base, level, centred, remaining)
