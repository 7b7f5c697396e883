"""BLIND: F(0) + r(s, A) + gamma X''(z), A ~ grad F(0).

It is a rollout without estimates. Width gamma w'' + D(Q, 0), price 1 + C''.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.schedule.kinds.base import Estimator, Kind, Walk
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.moments import Backup, Moments, blind


class Blind(Estimator):
    """A step by grad F(0), for strong regularization; not part of the paper."""

    kind = Kind.BLIND
    word = "blind"
    asks = False
    goes_on = True

    def moments(
        self,
        base: Ground,
        samples: Any,
        query: Backup | None,
        onward: Backup | None,
        remaining: int | None,
    ) -> Moments:
        """The moments of the linearization at 0."""
        assert onward is not None
        return blind(base, onward, remaining)

    def offer(self, walk: Walk) -> None:
        """Propose a blind step over each new level."""
        walk.offer_steps(self.kind, float(np.max(walk.base.blind(walk.remaining))))
