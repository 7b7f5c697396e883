"""ROLLOUT: F(Q-hat) - <Q-hat, g> + |g|_1 (r(s, A) + gamma X''(z)), g = grad F(Q-hat).

The action A is sampled from g/|g|_1 (Alg. 2, line 13).

Width gamma w'' + E D(q, N), price 1 + C'' + K N (1 + C_q): the Bregman
remainder D is all that the linearization loses.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.schedule.kinds.base import Estimator, Kind, Walk
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.moments import Backup, Moments, rollout, rollout_loss

if TYPE_CHECKING:
    from smoothcruiser.schedule.prices import Level
    from smoothcruiser.theory.paper_ladder import PaperConstants


class Rollout(Estimator):
    """SmoothCruiser's step: estimate coarsely, follow one action, correct for both."""

    kind = Kind.ROLLOUT
    word = "rollout"
    asks = True
    goes_on = True
    in_paper = True

    def moments(
        self,
        base: Ground,
        samples: Any,
        query: Backup | None,
        onward: Backup | None,
        remaining: int | None,
    ) -> Moments:
        """The moments of the linearization at Q-hat."""
        assert query is not None
        assert onward is not None
        return rollout(base, query, samples, onward, remaining)

    def offer(self, walk: Walk) -> None:
        """Propose each new level as a query, with the loss of a rollout over it."""
        # beyond those counts, noise adds less to E D than the distance to the next cell
        pairs = walk.pairs(1.0)
        loss = rollout_loss(walk.base, pairs.over, pairs.samples, walk.remaining)[0]
        walk.offer_paths(self.kind, np.max(loss, axis=0), pairs)

    def paper_flaw(self, c: PaperConstants, level: Level) -> str | None:
        """Return a sentence if F is not smooth, else None.

        A linearization needs a smooth F.
        """
        flaw = super().paper_flaw(c, level)
        if flaw is None and c.curve == math.inf:
            flaw = f"linearizes {c.operator}, which is not smooth (L is infinite)"
        return flaw

    def paper_accuracy(
        self,
        c: PaperConstants,
        level: Level,
        query: float,
        onward: float,
        remaining: int | None,
    ) -> float:
        """Return gamma e_c + K L (gamma e_q + t(N))^2 (Lemma 2, i, case 2).

        It holds since |D| <= L norm2^2 <= K L sup^2.
        """
        q_error = c.gamma * query + c.noise(level.samples)
        return c.gamma * onward + c.curve * q_error * q_error
