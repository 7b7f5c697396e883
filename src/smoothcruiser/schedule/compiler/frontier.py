"""The cheapest estimator of every width, found before epsilon is known.

This is the walk of the schedule compiler (docs/theory.md, section 6).

Widths are cut into cells, each a fixed factor narrower than the one before. The
walk goes from the widest (a constant) downwards. A cell keeps the cheapest
level whose width lies in it, with its exact moments. Each kind proposes
candidates for a cell (``schedule.kinds``), of one of three shapes:

  query           over any wider level, N on a geometric grid   price K N (1 + C')
  continuation    over any wider level                          price 1 + C''
  both            over any wider continuation and query         the sum of both

A level costs more than its children, so wider cells are final when a cell is
reached (Bellman's principle on prices, as in a database's join optimizer). The
table does not depend on epsilon or delta: one walk serves every promise on the
same facts, and continues from where it stopped. With a horizon there is one
table for each number of remaining steps, built over the one before
(``frontier_horizon``).

Prices are logarithms here (they pass 10^1000); the schedule's own integers are
exact. What this file leaves out: the root (``candidates``), and the last
percent of the price (``draft``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from smoothcruiser.schedule.compiler.improving import improving
from smoothcruiser.schedule.compiler.ladders import Ladders
from smoothcruiser.schedule.compiler.level_table import LevelTable
from smoothcruiser.schedule.kinds import (
    KINDS,
    Kind,
    Kinds,
    Pairs,
    free_kinds,
)
from smoothcruiser.schedule.reach import check_patience
from smoothcruiser.schedule.schedule import Level, Target
from smoothcruiser.theory.ground import Ground
from smoothcruiser.theory.leaves import constant
from smoothcruiser.theory.moments import largest

Array = Any

_MAX_SAMPLES = 1e13
BATCH = 24  # cells between two stops
# Calls: four months at 1e8 per second. Dearer levels are chosen coarsely, and dearer
# plans are not polished.
LOG_HOPELESS = math.log(1e15)
# cells per factor 1/gamma: a level must be able to leave its child's cell
_CELLS_PER_STEP = 4.0
_FINEST, _COARSEST = 0.002, 0.02  # log-width of a cell
_LOSS_STEP = 0.02  # log-width of a cell of the table of queries by E D
# Of the walk. Promises below 1e-5 of the value span cost at least 10^10 calls
# (Hoeffding at the root).
_WIDEST_OVER_NARROWEST = 1e6
# a deviation this many times below a bias or a step makes no difference
_NEGLIGIBLE = 10.0
_LARGEST_OVER_SMALLEST_LOSS = 1e9
# levels kept in one cell while chains of blind steps approach their fixed point
_LABELS = 24


def sample_grid(ratio: float) -> Array:
    """Return the counts 1, 2, 3, ... and then a geometric sequence."""
    counts = [1]
    while counts[-1] < _MAX_SAMPLES:
        counts.append(max(counts[-1] + 1, math.floor(counts[-1] * ratio)))
    return np.array(counts, dtype=np.float64)


SAMPLE_GRID = sample_grid(1.06)  # the optimizer moves N off the grid afterwards
_COARSE_GRID = sample_grid(1.3)


class Cells:
    """The cheapest candidate of every cell.

    Cell c holds widths in (edge(c + 1), edge(c)].
    """

    def __init__(self, top: float, step: float, size: int) -> None:
        self.top, self.step, self.size = max(top, 1e-300), step, size
        self.price = np.full(size + 1, math.inf)
        self.kind = np.zeros(size + 1, dtype=np.int64)
        self.samples = np.zeros(size + 1)
        self.query = np.full(size + 1, -1, dtype=np.int64)
        self.continuation = np.full(size + 1, -1, dtype=np.int64)

    def of(self, width: Array) -> Array:
        """Return the cells of ``width``.

        Everything narrower than the last edge belongs to the last cell.
        """
        with np.errstate(divide="ignore"):
            cell = np.floor(np.log(self.top / width) / self.step + 1e-9)
        return np.clip(cell, 0, self.size).astype(np.int64)

    def edge(self, cell: int) -> float:
        """The widest width of ``cell``."""
        return self.top * math.exp(-self.step * cell)

    def offer(
        self,
        cell: Array,
        price: Array,
        kind: IntEnum,
        samples: Array,
        query: Array | int,
        continuation: Array | int,
    ) -> None:
        """Keep the candidates that are cheaper than those in their cells."""
        cells, first = improving(cell, price, self.price)
        self.put(
            cells,
            price[first],
            kind,
            samples[first],
            _at(query, first),
            _at(continuation, first),
        )

    def put(
        self,
        cell: Array,
        price: Array,
        kind: IntEnum,
        samples: Array,
        query: Array,
        continuation: Array,
    ) -> None:
        """Overwrite the candidate of ``cell``."""
        self.price[cell], self.kind[cell], self.samples[cell] = price, kind, samples
        self.query[cell], self.continuation[cell] = query, continuation

    def fill(
        self, cell: int, kind: IntEnum, queries: Queries, children: LevelTable
    ) -> None:
        """Keep the cheapest level of ``cell`` over ``queries`` and ``children``.

        Its query is one of ``queries``, its continuation one of ``children``.
        It replaces the candidate in the cell only if it is cheaper.
        """
        total, where, fits = self.paths(cell, queries, children)
        if len(fits) == 0:
            return
        best = int(np.argmin(total))
        if total[best] < self.price[cell]:
            at = queries.at(int(where[best]))
            self.put(
                cell,
                float(total[best]),
                kind,
                queries.samples[at],
                int(queries.query[at]),
                int(fits[best]),
            )

    def paths(
        self, cell: int, queries: Queries, children: LevelTable
    ) -> tuple[Array, Array, Array]:
        """Return (price, query, continuation) of the paths that end in ``cell``."""
        room = self.edge(cell) - children.tilt
        fits = np.nonzero((room > 0.0) & children.bounded)[0]
        price, where = queries.best(room[fits])
        return np.logaddexp(price, children.log_calls[fits]), where, fits

    def cheapest(self, cell: int) -> Level | None:
        """Return the candidate of ``cell``, None if it is empty."""
        if self.price[cell] == math.inf:
            return None
        return Level(
            KINDS[int(self.kind[cell])].kind,
            int(self.samples[cell]),
            int(self.query[cell]),
            int(self.continuation[cell]),
        )


def _at(index: Array | int, where: Array) -> Array:
    return index if isinstance(index, int) else index[where]


class Queries:
    """The cheapest (query, N) for every loss.

    Cell c holds losses in (edge(c), edge(c - 1)].
    """

    def __init__(self, top: float, step: float) -> None:
        self.top, self.step = max(top, 1e-300), step
        self.size = math.ceil(math.log(_LARGEST_OVER_SMALLEST_LOSS) / step)
        self.price = np.full(self.size, math.inf)
        self.query = np.full(self.size, -1, dtype=np.int64)
        self.samples = np.zeros(self.size)

    def offer(self, query: Array, samples: Array, loss: Array, price: Array) -> None:
        """Keep the candidates that are cheaper than those in their cells."""
        with np.errstate(divide="ignore"):
            cell = np.clip(
                np.floor(np.log(self.top / loss) / self.step + 1e-9), 0, self.size - 1
            ).astype(np.int64)
        cells, first = improving(cell, price, self.price)
        self.price[cells], self.query[cells], self.samples[cells] = (
            price[first],
            query[first],
            samples[first],
        )

    def best(self, room: Array) -> tuple[Array, Array]:
        """Return (price, cell) of the cheapest query whose loss fits in ``room``.

        Only cells whose every loss fits are searched; ``cell`` is the first of
        them.
        """
        running = np.minimum.accumulate(self.price[::-1])[::-1]
        cell = np.maximum(np.ceil(np.log(self.top / room) / self.step), 0).astype(
            np.int64
        )
        inside = cell < self.size
        cell = np.minimum(cell, self.size - 1)
        return np.where(inside, running[cell], math.inf), cell

    def at(self, cell: int) -> int:
        """Return the cell, at ``cell`` or beyond, that holds the cheapest query."""
        return cell + int(np.argmin(self.price[cell:]))


@dataclass(frozen=True)
class Stop:
    """Where the walk may pause.

    It holds the number of finished levels and the log of the fewest calls that
    any later level can cost, and any later level of plain kinds.
    """

    levels: int
    floor: float
    plain_floor: float


def _useful(variance: float, noise: float, hopeless: bool) -> Array:
    """Return the counts at which the mean still has a deviation above ``noise``.

    At least the first dozen counts are kept.
    """
    most = variance / (noise * noise) if noise > 1e-100 else math.inf
    grid = _COARSE_GRID if hopeless else SAMPLE_GRID
    return grid[: max(12, int(np.searchsorted(grid, most)) + 1)]


class Frontier:
    """Levels of decreasing width for problems without a horizon; it grows on demand."""

    def __init__(self, base: Ground, kinds: Kinds) -> None:
        self.base = base
        self.remaining: int | None = None
        self.estimators = [KINDS[kind] for kind in sorted(kinds)]
        self.table = LevelTable(base, None)
        top = constant(base, None)
        self.top = float(top.width[0])
        gamma = base.facts.discount
        step = -math.log(gamma) / _CELLS_PER_STEP if gamma > 0.0 else _COARSEST
        self.step = min(_COARSEST, max(_FINEST, step))
        size = max(1, math.ceil(math.log(_WIDEST_OVER_NARROWEST) / self.step))
        self.cells = Cells(self.top, self.step, size)
        self.queries = {
            estimator.kind: Queries(self.top, _LOSS_STEP)
            for estimator in self.estimators
            if estimator.asks and estimator.goes_on and not estimator.randomized
        }
        randomized = {e.kind for e in self.estimators if e.randomized}
        self.ladders = Ladders(base, randomized, self.top, self.step)
        self.cell = 0
        self.newest = 0  # the level finished last: the child of new candidates
        self.waiting: list[Level] = []  # still in the cell of ``newest``
        self._finish(Level(Kind.CONSTANT))
        for kind in free_kinds(base, kinds, None):
            level = Level(kind)
            width = self.table.moments_over(self.table, level).width
            cell, nothing = self.cells.of(width), np.array([0.0])
            self.cells.offer(cell, np.array([-math.inf]), kind, nothing, -1, -1)
        self.stops = [self._stop()]

    def stop(self, number: int) -> Stop | None:
        """Return the ``number``-th stop of the walk; None beyond the end.

        The walk continues if need be. The answer does not depend on earlier
        callers.
        """
        while len(self.stops) <= number:
            if not self._advance(BATCH * len(self.stops)):
                return None
            self.stops.append(self._stop())
        return self.stops[number]

    def root_table(self, target: Target) -> LevelTable:
        """Return the levels that a root may sample: the same for either target."""
        return self.table

    def child_table(self, table: LevelTable) -> LevelTable:
        """Return the table of a level's children, which is the same table."""
        return table

    def _stop(self) -> Stop:
        """Return where the walk is now.

        A level over a later one costs more than that one, so the cheapest later level
        is over finished ones: a waiting candidate, or a path along a continuation
        that leads to a narrower cell. A plain path asks a query whose loss fits as well,
        and there is less room for a loss in every cell that follows.
        """
        ahead = self.cell + 1
        if self.top <= 0.0 or ahead > self.cells.size:
            return Stop(len(self.table), math.inf, math.inf)
        waiting = float(np.min(self.cells.price[ahead:]))
        leading = self.table.log_calls[self.table.tilt < self.cells.edge(ahead)]
        paths = [
            float(
                np.min(
                    self.cells.paths(ahead, queries, self.table)[0], initial=math.inf
                )
            )
            for queries in self.queries.values()
        ]
        return Stop(
            len(self.table),
            min(waiting, float(np.min(leading, initial=math.inf))),
            min((waiting, *paths)),
        )

    def _advance(self, cell: int) -> bool:
        """Walk on to ``cell``, and return False when there are none left.

        A walk that had no time to come there goes on from where it was.
        """
        last = BATCH * (len(self.stops) - 1)
        if self.top <= 0.0 or last >= self.cells.size:
            return False
        for _ in range(min(cell, self.cells.size) - self.cell):
            check_patience()
            self.cell += 1
            for kind, queries in self.queries.items():
                self.cells.fill(self.cell, kind, queries, self.table)
            level = self.cells.cheapest(self.cell)
            if level is not None:
                self._finish(level)
            edge = self.cells.edge(self.cell)
            level = self.ladders.best(self.cell, edge, self.table)
            if level is not None:
                self.table.add(level, self.table.moments_over(self.table, level))
        return True

    def _finish(self, level: Level) -> None:
        """Add the level of a cell, and propose the candidates over it."""
        self.waiting = [level]
        for label in range(_LABELS):
            if not self.waiting:
                return
            level = self.waiting.pop(0)
            self.newest = self.table.add(
                level, self.table.moments_over(self.table, level)
            )
            if self.top <= 0.0:
                return
            for estimator in self.estimators:
                # as queries, later labels are within one cell's width of the first
                if label == 0 or not estimator.asks:
                    estimator.offer(self)

    # --- how kinds propose candidates (``kinds.Walk``) ------------------------

    def pairs(self, share: float) -> Pairs:
        """Return the newest level as a query, with the counts worth trying."""
        back = self.table.backups[self.newest]
        calls = float(self.table.log_calls[self.newest])
        noise = largest(back.tilt) * share / _NEGLIGIBLE
        grid = _useful(largest(back.variance), noise, calls > LOG_HOPELESS)
        return Pairs(
            np.full(len(grid), self.newest),
            grid,
            back,
            np.log(grid) + (math.log(self.base.facts.num_actions) + calls),
        )

    def offer(self, kind: IntEnum, width: Array, pairs: Pairs) -> None:
        """Propose levels with the newest level as query to narrower cells."""
        cell = self.cells.of(width)
        ahead = cell > self.cell
        self.cells.offer(
            cell[ahead],
            pairs.log_calls[ahead],
            kind,
            pairs.samples[ahead],
            self.newest,
            -1,
        )

    def offer_steps(self, kind: IntEnum, loss: float) -> None:
        """Propose a level that continues at the newest level, for its cell.

        Where that is the current cell, both levels are kept, so that chains of
        such steps can leave it.
        """
        width = float(self.table.tilt[self.newest]) + loss
        now = float(self.table.moments[self.newest].width[0])
        if not width < now * (1.0 - 0.02 * self.step):
            return
        cell = self.cells.of(np.array([width]))
        if cell[0] > self.cell:
            price = self.table.log_calls[self.newest : self.newest + 1]
            self.cells.offer(cell, price, kind, np.array([0.0]), -1, self.newest)
        else:
            self.waiting.append(Level(kind, continuation=self.newest))

    def offer_paths(self, kind: IntEnum, loss: Array, pairs: Pairs) -> None:
        """Remember the newest level as a query.

        Cells are filled as the walk comes to them.
        """
        self.queries[kind].offer(pairs.query, pairs.samples, loss, pairs.log_calls)

    def offer_ladders(self, kind: IntEnum) -> None:
        """Remember the newest level as a query of randomized levels."""
        self.ladders.add(kind, self.newest, self.table.backups[self.newest])
