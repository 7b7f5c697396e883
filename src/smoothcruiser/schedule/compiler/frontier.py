"""The cheapest estimator of every width, found before epsilon is known.

This is the walk of the schedule compiler (docs/theory.md, section 6).

Widths are cut into cells, each a fixed factor narrower than the one before. The
walk goes from the widest (a constant) downwards. A cell keeps the cheapest
level with a width in it, and its exact moments. Each kind proposes candidates
for a cell (``schedule.kinds``), of one of three shapes:

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
exact. This file leaves out the root (``candidates``), and the last percent of
the price (``draft``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from smoothcruiser.schedule.compiler.draft import LevelTable
from smoothcruiser.schedule.compiler.ladders import Ladders
from smoothcruiser.schedule.compiler.polishing import find_improvements
from smoothcruiser.schedule.kinds import KINDS, Kind, Kinds, Pairs, free_kinds
from smoothcruiser.schedule.reach import check_patience
from smoothcruiser.schedule.schedule import Level, Target
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.moments import constant, largest

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
    grid_counts = [1]
    while grid_counts[-1] < _MAX_SAMPLES:
        grid_counts.append(
            max(grid_counts[-1] + 1, math.floor(grid_counts[-1] * ratio))
        )
    return np.array(grid_counts, dtype=np.float64)


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
        cells, best_candidates = find_improvements(cell, price, self.price)
        self.set_candidate(
            cells,
            price[best_candidates],
            kind,
            samples[best_candidates],
            _pick_entries(query, best_candidates),
            _pick_entries(continuation, best_candidates),
        )

    def set_candidate(
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
        path_prices, query_cells, fitting_levels = self.paths(cell, queries, children)
        if len(fitting_levels) == 0:
            return
        best_path = int(np.argmin(path_prices))
        if path_prices[best_path] < self.price[cell]:
            query_cell = queries.at(int(query_cells[best_path]))
            self.set_candidate(
                cell,
                float(path_prices[best_path]),
                kind,
                queries.samples[query_cell],
                int(queries.query[query_cell]),
                int(fitting_levels[best_path]),
            )

    def paths(
        self, cell: int, queries: Queries, children: LevelTable
    ) -> tuple[Array, Array, Array]:
        """Return (price, query, continuation) of the paths that end in ``cell``."""
        loss_room = self.edge(cell) - children.bias_span
        fitting_levels = np.nonzero((loss_room > 0.0) & children.has_range)[0]
        query_price, query_cells = queries.best(loss_room[fitting_levels])
        return (
            np.logaddexp(query_price, children.log_calls[fitting_levels]),
            query_cells,
            fitting_levels,
        )

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


def _pick_entries(index: Array | int, where: Array) -> Array:
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
        cells, best_candidates = find_improvements(cell, price, self.price)
        self.price[cells], self.query[cells], self.samples[cells] = (
            price[best_candidates],
            query[best_candidates],
            samples[best_candidates],
        )

    def best(self, loss_room: Array) -> tuple[Array, Array]:
        """Return (price, cell) of the cheapest query with a loss within ``loss_room``.

        Only cells in which every loss fits are searched; ``cell`` is the first of
        them.
        """
        price_below = np.minimum.accumulate(self.price[::-1])[::-1]
        cell = np.maximum(np.ceil(np.log(self.top / loss_room) / self.step), 0).astype(
            np.int64
        )
        is_inside = cell < self.size
        cell = np.minimum(cell, self.size - 1)
        return np.where(is_inside, price_below[cell], math.inf), cell

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


def _useful_counts(variance: float, noise: float, hopeless: bool) -> Array:
    """Return the counts at which the mean still has a deviation above ``noise``.

    At least the first dozen counts are kept.
    """
    largest_count = variance / (noise * noise) if noise > 1e-100 else math.inf
    sample_counts = _COARSE_GRID if hopeless else SAMPLE_GRID
    return sample_counts[
        : max(12, int(np.searchsorted(sample_counts, largest_count)) + 1)
    ]


class Frontier:
    """Levels of decreasing width for problems without a horizon; it grows on demand."""

    def __init__(self, base: Ground, kinds: Kinds) -> None:
        self.base = base
        self.remaining: int | None = None
        self.estimators = [KINDS[kind] for kind in sorted(kinds)]
        self.table = LevelTable(base, None)
        top_moments = constant(base, None)
        self.top = float(top_moments.width[0])
        gamma = base.facts.discount
        cell_step = -math.log(gamma) / _CELLS_PER_STEP if gamma > 0.0 else _COARSEST
        self.step = min(_COARSEST, max(_FINEST, cell_step))
        num_cells = max(1, math.ceil(math.log(_WIDEST_OVER_NARROWEST) / self.step))
        self.cells = Cells(self.top, self.step, num_cells)
        self.queries = {
            estimator.kind: Queries(self.top, _LOSS_STEP)
            for estimator in self.estimators
            if estimator.asks and estimator.goes_on and not estimator.randomized
        }
        randomized_kinds = {e.kind for e in self.estimators if e.randomized}
        self.ladders = Ladders(base, randomized_kinds, self.top, self.step)
        self.cell = 0
        self.newest = 0  # the level finished last: the child of new candidates
        self.waiting: list[Level] = []  # still in the cell of ``newest``
        self._finish(Level(Kind.CONSTANT))
        for kind in free_kinds(base, kinds, None):
            level = Level(kind)
            width = self.table.moments_over(self.table, level).width
            start_cell, no_samples = self.cells.of(width), np.array([0.0])
            self.cells.offer(
                start_cell, np.array([-math.inf]), kind, no_samples, -1, -1
            )
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
        that leads to a narrower cell. A plain path also has a query with a loss that
        fits, and there is less room for a loss in every cell that follows.
        """
        next_cell = self.cell + 1
        if self.top <= 0.0 or next_cell > self.cells.size:
            return Stop(len(self.table), math.inf, math.inf)
        waiting_price = float(np.min(self.cells.price[next_cell:]))
        leading_prices = self.table.log_calls[
            self.table.bias_span < self.cells.edge(next_cell)
        ]
        path_prices = [
            float(
                np.min(
                    self.cells.paths(next_cell, queries, self.table)[0],
                    initial=math.inf,
                )
            )
            for queries in self.queries.values()
        ]
        return Stop(
            len(self.table),
            min(waiting_price, float(np.min(leading_prices, initial=math.inf))),
            min((waiting_price, *path_prices)),
        )

    def _advance(self, cell: int) -> bool:
        """Walk on to ``cell``, and return False when there are none left.

        A walk that ran out of time continues where it was.
        """
        last_stop = BATCH * (len(self.stops) - 1)
        if self.top <= 0.0 or last_stop >= self.cells.size:
            return False
        for _ in range(min(cell, self.cells.size) - self.cell):
            check_patience()
            self.cell += 1
            for kind, queries in self.queries.items():
                self.cells.fill(self.cell, kind, queries, self.table)
            level = self.cells.cheapest(self.cell)
            if level is not None:
                self._finish(level)
            cell_edge = self.cells.edge(self.cell)
            level = self.ladders.best(self.cell, cell_edge, self.table)
            if level is not None:
                self.table.add(level, self.table.moments_over(self.table, level))
        return True

    def _finish(self, level: Level) -> None:
        """Add the level of a cell, and propose the candidates over it."""
        self.waiting = [level]
        for label_index in range(_LABELS):
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
                if label_index == 0 or not estimator.asks:
                    estimator.offer(self)

    # --- how kinds propose candidates (``kinds.Walk``) ------------------------

    def pairs(self, share: float) -> Pairs:
        """Return the newest level as a query, with the counts worth trying."""
        back = self.table.backups[self.newest]
        log_calls = float(self.table.log_calls[self.newest])
        smallest_noise = largest(back.bias_span) * share / _NEGLIGIBLE
        sample_counts = _useful_counts(
            largest(back.variance), smallest_noise, log_calls > LOG_HOPELESS
        )
        return Pairs(
            np.full(len(sample_counts), self.newest),
            sample_counts,
            back,
            np.log(sample_counts)
            + (math.log(self.base.facts.num_actions) + log_calls),
        )

    def offer(self, kind: IntEnum, width: Array, pairs: Pairs) -> None:
        """Propose levels with the newest level as query to narrower cells."""
        cell = self.cells.of(width)
        is_ahead = cell > self.cell
        self.cells.offer(
            cell[is_ahead],
            pairs.log_calls[is_ahead],
            kind,
            pairs.samples[is_ahead],
            self.newest,
            -1,
        )

    def offer_steps(self, kind: IntEnum, loss: float) -> None:
        """Propose a level that continues at the newest level, for its cell.

        Where that is the current cell, both levels are kept, so that chains of
        such steps can leave it.
        """
        width = float(self.table.bias_span[self.newest]) + loss
        present_width = float(self.table.moments[self.newest].width[0])
        if not width < present_width * (1.0 - 0.02 * self.step):
            return
        cell = self.cells.of(np.array([width]))
        if cell[0] > self.cell:
            log_price = self.table.log_calls[self.newest : self.newest + 1]
            self.cells.offer(cell, log_price, kind, np.array([0.0]), -1, self.newest)
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
