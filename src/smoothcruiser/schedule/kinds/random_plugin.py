"""RANDOM_PLUGIN: F(Q-hat) with N0 samples and rare corrections of its mean.

With probability p_j (``rungs``) it adds 1/p_j times F(q-bar) - F(q')/2 - F(q'')/2 over
two fresh means of 2^(j-1) N0 samples. Its width is gamma w' + phi(2^J N0), and its
price on average K (N0 + sum_j 2 p_j m_j)(1 + C') (docs/randomized.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import BrokenPromise
from smoothcruiser.schedule.kinds.base import Estimator, Kind, Walk, chances
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.moments import Backup, Moments, plug_in
from smoothcruiser.theory.randomized import Terms, plug_in_terms, random_plug_in

if TYPE_CHECKING:
    from smoothcruiser.schedule.prices import Level


class RandomPlugIn(Estimator):
    """A plug-in with corrections that remove noise from its mean; not in the paper."""

    kind = Kind.RANDOM_PLUGIN
    word = "random plug-in"
    asks = True
    goes_on = False
    randomized = True

    def moments(
        self,
        base: Ground,
        samples: Any,
        query: Backup | None,
        onward: Backup | None,
        remaining: int | None,
    ) -> Moments:
        """The moments of a plug-in: those without rungs."""
        assert query is not None
        return plug_in(base, query, samples)

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
        terms = self.terms(base, row, samples, query, None)
        rungs = chances(base, row, terms, scale, query, None)
        return random_plug_in(base, query, samples, rungs, terms)

    def terms(
        self,
        base: Ground,
        row: Level,
        samples: Any,
        query: Backup,
        onward: Backup | None,
    ) -> Terms:
        """Return the moments of the corrections of ``row``."""
        if not base.rule.convex:
            raise BrokenPromise(
                "Corrections of a plug-in need an operator that is convex, got "
                f"{base.facts.operator.name}."
            )
        return plug_in_terms(base, query, samples, len(row.rungs))

    def offer(self, walk: Walk) -> None:
        """Propose each new level as a query, with every ladder over it."""
        if walk.base.rule.convex:
            walk.offer_ladders(self.kind)
