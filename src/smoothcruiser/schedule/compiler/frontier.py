"""The cheapest estimator of every width: the walk that the schedule compiler
makes before it knows epsilon (docs/theory.md, section 6).

Widths are cut into cells, each a fixed factor narrower than the one before. The
walk goes from the widest (a constant) downwards; a cell keeps the cheapest
level whose width falls into it, with its exact moments. What is offered to a
cell is up to each kind (``schedule.kinds``); it has one of three shapes:

  asks            over any wider level, N on a geometric grid   price K N (1 + C')
  goes on         over any wider level                          price 1 + C''
  asks, goes on   over any wider continuation and query         the sum of both

A level costs more than its children, so wider cells are final when a cell is
reached (Bellman's principle on prices, as in a database's join optimizer). The
table does not depend on epsilon or delta: one walk serves every promise on the
same facts, and goes on from where it stopped. With a horizon there is one table
for each number of remaining steps, built over the one before.

Prices are logarithms here (they pass 10^1000); the schedule's own integers are
exact. What this file leaves out: the root, and the last percent
(``optimizer``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from smoothcruiser.schedule.kinds import KINDS, Kind, Kinds, Pairs, moments_of
from smoothcruiser.schedule.schedule import Level, Target
from smoothcruiser.theory.ground import Ground
from smoothcruiser.theory.moments import Backup, Moments, backup, constant

Array = Any

_MAX_SAMPLES = 1e13
BATCH = 24  # cells between two stops
# calls: four months at 1e8 a second; dearer levels are chosen coarsely, dearer
# plans not polished
LOG_HOPELESS = math.log(1e15)
# cells per factor 1/gamma: a level must be able to leave its child's cell
_CELLS_PER_STEP = 4.0
_FINEST, _COARSEST = 0.002, 0.02  # log-width of a cell
_LOSS_STEP = 0.02  # log-width of a cell of the table of queries by E D
# of the walk; promises below 1e-5 of the value span cost 10^10 calls at least
# (Hoeffding at the root)
_WIDEST_OVER_NARROWEST = 1e6
# a deviation that many times below a bias or a step makes no difference
_NEGLIGIBLE = 10.0
_LARGEST_OVER_SMALLEST_LOSS = 1e9
# levels kept in one cell while steps that ask nothing creep to their fixed point
_LABELS = 24


def sample_grid(ratio: float) -> Array:
    """Counts 1, 2, 3, ... then geometric."""
    counts = [1]
    while counts[-1] < _MAX_SAMPLES:
        counts.append(max(counts[-1] + 1, math.floor(counts[-1] * ratio)))
    return np.array(counts, dtype=np.float64)


SAMPLE_GRID = sample_grid(1.06)  # the optimizer moves N off the grid afterwards
_COARSE_GRID = sample_grid(1.3)


@dataclass
class LevelTable:
    """Finished levels in order of falling width, with their backups side by
    side; children are indices into the table that they were made over.
    """

    base: Ground
    remaining: int | None
    levels: list[Level] = field(default_factory=list)
    moments: list[Moments] = field(default_factory=list)
    backups: list[Backup] = field(default_factory=list)
    # per level: tilt, log(1 + C), and what a root draw of it is
    columns: Array = field(default_factory=lambda: np.empty((9, 0)))

    def add(self, level: Level, moments: Moments) -> int:
        """Append a level; returns its index."""
        back = backup(self.base, moments, self.remaining)
        index = len(self.levels)
        if index >= self.columns.shape[1]:
            self.columns = np.concatenate(
                [self.columns, np.empty((9, max(64, index)))], axis=1
            )
        self.columns[:, index] = (
            np.max(back.tilt),
            back.log_calls[0],
            *(back.bias[0], np.max(back.spread), np.max(back.variance)),
            *(
                moments.bias[0],
                np.max(moments.high - moments.low),
                np.max(moments.variance),
                moments.log_calls[0],
            ),
        )
        self.levels.append(level)
        self.moments.append(moments)
        self.backups.append(back)
        return index

    @property
    def tilt(self) -> Array:
        """Gamma w of every level, the largest over players."""
        return self.columns[0, : len(self.levels)]

    @property
    def log_calls(self) -> Array:
        """Log(1 + C) of every level."""
        return self.columns[1, : len(self.levels)]

    def root_draws(
        self, target: Target, levels: int
    ) -> tuple[Array, Array, Array, Array]:
        """(bias, spread, variance, log price) of one root draw over each of the
        first ``levels``: xi for all actions, or X itself.
        """
        used = self.columns[:, : min(levels, len(self.levels))]
        if target == "value":
            return used[5], used[6], used[7], used[8]
        return (
            used[2],
            used[3],
            used[4],
            used[1] + math.log(self.base.facts.num_actions),
        )

    def moments_over(self, below: LevelTable, level: Level) -> Moments:
        """The moments of ``level`` over the levels of ``below``."""
        return moments_of(
            self.base,
            level.kind,
            np.array([float(level.samples)]),
            below.backups[level.query] if level.query >= 0 else None,
            below.backups[level.continuation] if level.continuation >= 0 else None,
            self.remaining,
        )

    def __len__(self) -> int:
        return len(self.levels)


class Cells:
    """The cheapest candidate of every cell; cell c holds widths in (edge(c +
    1), edge(c)].
    """

    def __init__(self, top: float, step: float, size: int) -> None:
        self.top, self.step, self.size = max(top, 1e-300), step, size
        self.price = np.full(size + 1, math.inf)
        self.kind = np.zeros(size + 1, dtype=np.int64)
        self.samples = np.zeros(size + 1)
        self.query = np.full(size + 1, -1, dtype=np.int64)
        self.continuation = np.full(size + 1, -1, dtype=np.int64)

    def of(self, width: Array) -> Array:
        """The cells of ``width``; everything narrower than the last edge
        belongs to the last cell.
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
        """Keep the candidates that are cheaper than what their cells hold."""
        cells, first = _cheapest(cell, price)
        better = price[first] < self.price[cells]
        self.put(
            cells[better],
            price[first[better]],
            kind,
            samples[first[better]],
            _at(query, first[better]),
            _at(continuation, first[better]),
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
        """Overwrite what ``cell`` holds."""
        self.price[cell], self.kind[cell], self.samples[cell] = price, kind, samples
        self.query[cell], self.continuation[cell] = query, continuation

    def fill(
        self, cell: int, kind: IntEnum, queries: Queries, children: LevelTable
    ) -> None:
        """Keep the cheapest level of ``cell`` that asks one of ``queries`` and
        goes on with one of ``children``, if it is cheaper than what is there.
        """
        room = self.edge(cell) - children.tilt
        fits = np.nonzero(room > 0.0)[0]
        if len(fits) == 0:
            return
        price, where = queries.best(room[fits])
        total = np.logaddexp(price, children.log_calls[fits])
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

    def cheapest(self, cell: int) -> Level | None:
        """What ``cell`` holds, None if it is empty."""
        if self.price[cell] == math.inf:
            return None
        return Level(
            KINDS[int(self.kind[cell])].kind,
            int(self.samples[cell]),
            int(self.query[cell]),
            int(self.continuation[cell]),
        )


def _cheapest(cell: Array, price: Array) -> tuple[Array, Array]:
    """(cells, candidates): every cell that occurs, with its cheapest candidate."""
    if len(price) > 1 and np.any(price[1:] < price[:-1]):
        order = np.argsort(price, kind="stable")
        cells, first = np.unique(cell[order], return_index=True)
        return cells, order[first]
    cells, first = np.unique(cell, return_index=True)
    return cells, first


def _at(index: Array | int, where: Array) -> Array:
    return index if isinstance(index, int) else index[where]


class Queries:
    """The cheapest (query, N) for every loss: cell c holds losses in (edge(c),
    edge(c - 1)].
    """

    def __init__(self, top: float, step: float) -> None:
        self.top, self.step = max(top, 1e-300), step
        self.size = math.ceil(math.log(_LARGEST_OVER_SMALLEST_LOSS) / step)
        self.price = np.full(self.size, math.inf)
        self.query = np.full(self.size, -1, dtype=np.int64)
        self.samples = np.zeros(self.size)

    def offer(self, query: Array, samples: Array, loss: Array, price: Array) -> None:
        """Keep the candidates that are cheaper than what their cells hold."""
        with np.errstate(divide="ignore"):
            cell = np.clip(
                np.floor(np.log(self.top / loss) / self.step + 1e-9), 0, self.size - 1
            ).astype(np.int64)
        cells, first = _cheapest(cell, price)
        better = price[first] < self.price[cells]
        cells, first = cells[better], first[better]
        self.price[cells], self.query[cells], self.samples[cells] = (
            price[first],
            query[first],
            samples[first],
        )

    def best(self, room: Array) -> tuple[Array, Array]:
        """(price, cell): the cheapest query among the cells whose every loss
        fits in ``room``, and the first of those cells.
        """
        running = np.minimum.accumulate(self.price[::-1])[::-1]
        cell = np.maximum(np.ceil(np.log(self.top / room) / self.step), 0).astype(
            np.int64
        )
        inside = cell < self.size
        cell = np.minimum(cell, self.size - 1)
        return np.where(inside, running[cell], math.inf), cell

    def at(self, cell: int) -> int:
        """The cell, at ``cell`` or beyond, that holds the cheapest query."""
        return cell + int(np.argmin(self.price[cell:]))


@dataclass(frozen=True)
class Stop:
    """Where the walk may pause: how many levels are finished, and the log of
    the fewest calls that any later one can cost.
    """

    levels: int
    floor: float


def _useful(variance: float, noise: float, hopeless: bool) -> Array:
    """The counts at which the mean of draws still has a deviation above
    ``noise``, and at least the first dozen.
    """
    most = variance / (noise * noise) if noise > 1e-100 else math.inf
    grid = _COARSE_GRID if hopeless else SAMPLE_GRID
    return grid[: max(12, int(np.searchsorted(grid, most)) + 1)]


class Frontier:
    """Levels of falling width for problems without a horizon; grows on demand."""

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
            if estimator.asks and estimator.goes_on
        }
        self.cell = 0
        self.newest = (
            0  # the level that was finished last: the child of what is offered
        )
        self.waiting: list[Level] = []  # still in the cell of ``newest``
        self._finish(Level(Kind.CONSTANT))
        self.stops = [Stop(len(self.table), self._floor())]

    def stop(self, number: int) -> Stop | None:
        """The ``number``-th stop of the walk, walking on if need be; None
        beyond the end. The same whoever walked here before.
        """
        while len(self.stops) <= number:
            if not self._advance(BATCH):
                return None
            self.stops.append(Stop(len(self.table), self._floor()))
        return self.stops[number]

    def root_table(self, target: Target) -> LevelTable:
        """The levels that a root may draw from: the same for either target."""
        return self.table

    def child_table(self, table: LevelTable) -> LevelTable:
        """Where the children of a level of ``table`` stand: in the same table."""
        return table

    def _floor(self) -> float:
        """Log of the fewest calls that a level still to come can cost: a
        waiting candidate's, or a continuation's that leads further.
        """
        ahead = self.cell + 1
        if self.top <= 0.0 or ahead > self.cells.size:
            return math.inf
        leading = self.table.log_calls[self.table.tilt < self.cells.edge(ahead)]
        return min(
            float(np.min(self.cells.price[ahead:])),
            float(np.min(leading, initial=math.inf)),
        )

    def _advance(self, cells: int) -> bool:
        """Go on by ``cells`` cells; False when there are none left."""
        if self.top <= 0.0 or self.cell >= self.cells.size:
            return False
        for _ in range(min(cells, self.cells.size - self.cell)):
            self.cell += 1
            for kind, queries in self.queries.items():
                self.cells.fill(self.cell, kind, queries, self.table)
            level = self.cells.cheapest(self.cell)
            if level is not None:
                self._finish(level)
        return True

    def _finish(self, level: Level) -> None:
        """Add the level of a cell, and offer what can be made over it."""
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
                # as a query, the others are within the width of one cell of the first
                if label == 0 or not estimator.asks:
                    estimator.offer(self)

    # --- what kinds are offered to (``kinds.Walk``) ---------------------------

    def pairs(self, share: float) -> Pairs:
        """The newest level as a query, with the counts that make a difference."""
        back = self.table.backups[self.newest]
        calls = float(self.table.log_calls[self.newest])
        noise = float(np.max(back.tilt)) * share / _NEGLIGIBLE
        grid = _useful(float(np.max(back.variance)), noise, calls > LOG_HOPELESS)
        return Pairs(
            np.full(len(grid), self.newest),
            grid,
            back,
            np.log(grid) + (math.log(self.base.facts.num_actions) + calls),
        )

    def offer(self, kind: IntEnum, width: Array, pairs: Pairs) -> None:
        """Offer levels that ask the newest to narrower cells."""
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
        """Offer a level that goes on with the newest to its cell; where that is
        the cell at hand, keep both, so that chains of such steps get through.
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
        """Remember the newest level as a query; cells are filled as the walk
        comes to them.
        """
        self.queries[kind].offer(pairs.query, pairs.samples, loss, pairs.log_calls)
