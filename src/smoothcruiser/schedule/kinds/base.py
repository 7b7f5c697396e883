"""A kind of estimator, described by one object.

The object holds everything that the compiler, the verifiers and the text need
to know of the kind.

A level of a schedule may have a query (``asks``: N samples per action, with next
states valued by the query) and a continuation (``goes_on``: one path, which the
continuation follows). Its price follows from that alone (``schedule.schedule``).
The promise of its samples depends on the kind:

  sharp analysis   ``moments``: bias, range and variance from those of the children
  paper            ``paper_accuracy``: Lemma 2, for the kinds that the paper has
  compiler         ``offer``: which candidates to propose to the frontier

A kind has a number and a name. Numbers stand in compiled code and in arrays,
names in stores and JSON. The kinds of this package are the members of ``Kind``,
numbered from 0 without gaps, because kernels branch on them. A kind from
elsewhere is a member of an ``IntEnum`` of its own, numbered from
``FIRST_FOREIGN`` on: then a kind that this package adds later cannot meet it,
and nobody has to reopen a closed enumeration.

This package leaves out running a level (``engines`` declare which kinds they
run), and the search for a cheap table (``compiler``).

The chances of the corrections of a randomized level.

Corrections add sum_j e_j/p_j to the variance and sum_j p_j cost_j to the price. The
product of both is smallest where p_j is proportional to sqrt(e_j/cost_j); the factor
depends on the other levels of the table (``schedule.compiler.draft``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from smoothcruiser.errors import BrokenPromise
from smoothcruiser.problem.facts import Facts
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.moments import Backup, Moments, replace_shift
from smoothcruiser.theory.randomized import Terms

if TYPE_CHECKING:
    from smoothcruiser.schedule.prices import Level
    from smoothcruiser.theory.paper_ladder import PaperConstants


Array = Any

FIRST_FOREIGN = 100  # the smallest number of a kind that this package does not have
# relative: well above the rounding of some hundred operations in double precision
TOLERANCE = 1e-9


class Kind(IntEnum):
    """The kinds of estimator a level can be."""

    CONSTANT = 0
    PLUGIN = 1
    ROLLOUT = 2
    BLIND = 3
    MIDDLE = 4
    RANDOM_PLUGIN = 5
    RANDOM_ROLLOUT = 6


class Pairs(NamedTuple):
    """Queries that a candidate may have: for each a child, a count and a price."""

    query: Array  # (M,): index of the child
    samples: Array  # (M,): N
    over: Backup  # of those children; one column, or M
    log_calls: Array  # (M,): log of the calls that the query takes


class Walk(Protocol):
    """A frontier with newly finished levels, to which kinds propose candidates.

    These levels are the children of the candidates. A candidate needs no exact
    width, because the one that is chosen gets its own moments.
    """

    base: Ground
    remaining: int | None
    step: float  # the log-width of a cell

    def pairs(self, share: float) -> Pairs:
        """Return the new levels as queries, each with every count worth trying.

        Counts go up to where the deviation of the mean is far below ``share``
        of the bias.
        """

    def offer(self, kind: IntEnum, width: Array, pairs: Pairs) -> None:
        """Propose levels with a query: one of ``width`` over each of ``pairs``."""

    def offer_steps(self, kind: IntEnum, loss: float) -> None:
        """Propose levels with a continuation alone: one over each new level.

        The candidate is by ``loss`` wider than its continuation.
        """

    def offer_paths(self, kind: IntEnum, loss: Array, pairs: Pairs) -> None:
        """Propose levels with a query and a continuation, over every continuation.

        The candidate is wider than its continuation by the ``loss`` of the
        query in ``pairs``.
        """

    def offer_ladders(self, kind: IntEnum) -> None:
        """Propose randomized levels that ask the newest levels.

        They differ in the first count, in the number of rungs and in their
        continuations.
        """


class Estimator(ABC):
    """One kind of estimator; objects of this class have no state."""

    kind: ClassVar[IntEnum]
    word: ClassVar[str]  # in text: "plug-in"
    asks: ClassVar[bool]  # has a query and a count
    goes_on: ClassVar[bool]  # has a continuation
    in_paper: ClassVar[bool] = False  # one of the three cases of Alg. 2
    randomized: ClassVar[bool] = False  # has rungs, and samples without a range

    @property
    def is_leaf(self) -> bool:
        """Whether a level of this kind has no children: it returns its constant."""
        return not self.asks and not self.goes_on

    def missing(self, facts: Facts) -> str | None:
        """Return the requirement of this kind that ``facts`` do not meet, or None."""
        return None

    def ends_chain(self, base: Ground, remaining: int | None) -> bool:
        """Whether a table may end in this kind instead of a constant."""
        return False

    @abstractmethod
    def moments(
        self,
        base: Ground,
        samples: Array,
        query: Backup | None,
        onward: Backup | None,
        remaining: int | None,
    ) -> Moments:
        """Return the moments of one sample of a level.

        The shift is the one that centres the bias. ``samples`` may hold many
        candidates side by side.
        """

    def of_row(
        self,
        base: Ground,
        row: Level,
        samples: Array,
        scale: Array | None,
        query: Backup | None,
        onward: Backup | None,
        remaining: int | None,
    ) -> Moments:
        """Return the moments of ``row`` with ``samples`` in the place of its count.

        ``scale`` stands for the rungs of a randomized kind while they are searched.
        """
        return self.moments(base, samples, query, onward, remaining)

    def terms(
        self,
        base: Ground,
        row: Level,
        samples: Array,
        query: Backup,
        onward: Backup | None,
    ) -> Terms:
        """Return the moments of the corrections of ``row``, for a randomized kind."""
        raise BrokenPromise(f"A {self.word} level makes no corrections.")

    @abstractmethod
    def offer(self, walk: Walk) -> None:
        """Propose candidates of this kind over the newest levels of ``walk``."""

    def finish_row(self, row: Level, moments: Moments) -> Level:
        """Return ``row`` with the shift (and the constant) that its moments rely on."""
        return replace(row, shift=float(moments.shift[0]))

    def written_moments(
        self, base: Ground, level: Level, centred: Moments, remaining: int | None
    ) -> Moments:
        """Return the moments of ``level`` with the shift and constant written in it."""
        return replace_shift(base, centred, level.shift)

    def flaw(
        self, base: Ground, level: Level, centred: Moments, remaining: int | None
    ) -> str | None:
        """Return the fault of the numbers in ``level``, None if there is none."""
        right_shift = float(centred.shift[0])
        tolerance = TOLERANCE * (abs(right_shift) + float(centred.width[0]))
        if abs(right_shift - level.shift) <= tolerance:
            return None
        return (
            f"has shift {level.shift:g}, and the one that centres its bias is "
            f"{right_shift:g}"
        )

    def paper_flaw(self, c: PaperConstants, level: Level) -> str | None:
        """Return why Lemma 2 does not cover ``level``, None if it does."""
        if self.in_paper and level.shift == 0.0:
            return None
        feature = "shifts" if self.in_paper else f"{self.word} levels"
        return f"is not part of the paper's algorithm: no {feature} there, got {level}"

    def paper_accuracy(
        self,
        c: PaperConstants,
        level: Level,
        query: float,
        onward: float,
        remaining: int | None,
    ) -> float:
        """Return the accuracy of ``level`` by Lemma 2, from those of its children.

        A child's accuracy is nan where there is no such child.
        """
        raise BrokenPromise(
            f"A {self.word} level is not part of the paper's algorithm."
        )


MOST_RUNGS = 40  # 2^40 samples: far beyond any count that is ever made
_ROOM = (
    1.0 - 1e-9
)  # the sum of all chances stays below 1 in whatever order it is taken


def chances(
    base: Ground,
    row: Level,
    terms: Terms,
    scale: Array | None,
    query: Backup,
    onward: Backup | None,
) -> Array:
    """Return p_j, shape (J, M): those of ``row``, or exp(scale) sqrt(e_j/cost_j)."""
    if scale is None:
        return np.array(row.rungs)[:, None]
    log_costs = rung_costs(base, terms, query, onward)
    with np.errstate(divide="ignore"):
        log_moments = np.log(np.max(terms.second, axis=1))
    rungs = np.exp(np.minimum(0.5 * (log_moments - log_costs) + scale, 0.0))
    return rungs / np.maximum(1.0, np.sum(rungs, axis=0) / _ROOM)


def rung_costs(
    base: Ground, terms: Terms, query: Backup, onward: Backup | None
) -> Array:
    """Return the logs of the calls that corrections make on average, shape (J, M)."""
    query_costs = (
        np.log(2.0 * base.facts.num_actions * terms.samples) + query.log_calls
    )
    return (
        query_costs if onward is None else np.logaddexp(query_costs, onward.log_calls)
    )


def rung_flaw(level: Level) -> str | None:
    """Return the fault of the rungs of ``level``, None if there is none."""
    rungs = level.rungs
    if len(rungs) > MOST_RUNGS:
        return f"has {len(rungs)} rungs, more than {MOST_RUNGS}"
    if not all(math.isfinite(p) and 0.0 <= p <= 1.0 for p in rungs):
        return f"has rungs that are no chances: {rungs}"
    if not math.fsum(rungs) <= 1.0:
        return f"has rungs whose chances add up to {math.fsum(rungs):g}, above 1"
    return None
