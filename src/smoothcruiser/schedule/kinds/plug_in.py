"""PLUGIN: F(Q-hat), Q-hat(a) the mean of N samples of r + gamma X'(z).

Width gamma w' + phi(N), price K N (1 + C').
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.schedule.kinds.base import Estimator, Kind, Walk
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.moments import Backup, Moments, plug_in
from smoothcruiser.theory.noise import plug_in_noise

if TYPE_CHECKING:
    from smoothcruiser.schedule.prices import Level
    from smoothcruiser.theory.paper_ladder import PaperConstants


class PlugIn(Estimator):
    """Sparse sampling's step (Alg. 2, lines 5-6)."""

    kind = Kind.PLUGIN
    word = "plug-in"
    asks = True
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
        """The moments of F(Q-hat)."""
        assert query is not None
        return plug_in(base, query, samples)

    def offer(self, walk: Walk) -> None:
        """Propose a plug-in over each new level, for every count worth trying."""
        pairs = walk.pairs(walk.step)
        if walk.remaining is not None:
            width = plug_in(walk.base, pairs.over, pairs.samples).width
        else:
            # Without a horizon this runs once for each of thousands of levels. To
            # save time, the worst over players stands for both when choosing a cell.
            spread, variance, bias_span = (
                float(np.max(x))
                for x in (pairs.over.spread, pairs.over.variance, pairs.over.bias_span)
            )
            plug_in_bias = plug_in_noise(
                walk.base.rule, pairs.samples, spread, variance
            )
            width = bias_span + plug_in_bias * (1.0 if walk.base.rule.convex else 2.0)
        walk.offer(self.kind, width, pairs)

    def paper_accuracy(
        self,
        c: PaperConstants,
        level: Level,
        query: float,
        onward: float,
        remaining: int | None,
    ) -> float:
        """Return gamma e_q + t(N) (Lemma 2, i, case 1).

        It holds since F is 1-Lipschitz in the sup norm.
        """
        return c.gamma * query + c.noise(level.samples)
