"""The frontier with a horizon: one table of levels per number of remaining steps.

Each is built over the table of one step less.

Kinds and prices are those of ``frontier``. Here a level's children stand in the
table below, so all cells of a stage are filled at once, as matrices over
(child, N) and (cell, continuation). The stage with no steps left has one level,
the exact constant 0.

Cells are by w/steps(h), steps(h) = 1 + gamma + ... + gamma^(h-1): a level in
the cell of its continuation may spend phi <= edge, since gamma edge
steps(h-1) + edge = edge steps(h). So a chain of any length can stay in its
cell. Cells are fine. Of the levels in them, those are kept that no other beats
in both width and price. They are thinned evenly along the curve of log price
over log width, to a number that decreases with the number of stages. Widths and
moments stay exact in any case, only the choice is coarser.

A long horizon under a discount below 1 is truncated: below the depth at which
gamma^depth no longer matters, a stage starts with its constant alone.
"""

from __future__ import annotations

import math
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from smoothcruiser.schedule.compiler.draft import LevelTable
from smoothcruiser.schedule.compiler.frontier import Cells, Queries, Stop, sample_grid
from smoothcruiser.schedule.kinds import KINDS, Kind, Kinds, Pairs, free_kinds
from smoothcruiser.schedule.reach import MOST_ROWS, check_patience
from smoothcruiser.schedule.schedule import Level, Target
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.moments import Backup, constant

Array = Any

_WORK = 1200  # cells over all stages: some tenths of a second
_FEWEST, _MOST = 12, 120
_FINEST = 0.004  # log-width of the finest cells
_NARROWEST = 1e-4  # of the widest: promises down to a thousandth of the value span
_LOSS_STEP = 0.05  # log-width of a cell of the table of queries by loss
_SAMPLES = sample_grid(1.15)
_SAMPLES = _SAMPLES[_SAMPLES < 1e9]


class StagedFrontier:
    """Tables of levels for ``horizon`` - depth .. ``horizon`` remaining steps."""

    def __init__(self, base: Ground, kinds: Kinds) -> None:
        facts = base.facts
        assert facts.horizon is not None
        self.base, self.kinds = base, kinds
        self.estimators = [KINDS[kind] for kind in sorted(kinds)]
        depth = facts.horizon
        # beyond it, gamma^depth B is narrower than the narrowest cell
        if facts.discount < 1.0:
            depth = min(
                depth,
                math.ceil(math.log(_NARROWEST) / math.log(max(facts.discount, 1e-9)))
                + 1,
            )
        self.num_kept = min(_MOST, max(_FEWEST, _WORK // max(1, depth)))
        cell_step = -math.log(_NARROWEST) / self.num_kept
        if facts.discount < 1.0:
            cell_step = min(
                cell_step, max(_FINEST, -math.log(max(facts.discount, 1e-9)) / 4.0)
            )
        self.step, self.size = cell_step, math.ceil(-math.log(_NARROWEST) / cell_step)
        stage_range = range(max(1, facts.horizon - depth), facts.horizon + 1)
        self.widest = max(
            float(constant(base, stage).width[0]) / facts.steps(stage)
            for stage in stage_range
        )
        self.tables: dict[int, LevelTable] = {}
        depth = min(depth, MOST_ROWS + 1)  # no table is longer
        for stage in range(facts.horizon - depth, facts.horizon + 1):
            check_patience()
            self.tables[stage] = self._stage(stage)

    def root_table(self, target: Target) -> LevelTable:
        """Return the levels that a root may sample.

        They are X at the requested state, or at the state after it.
        """
        horizon = self.base.facts.horizon
        assert horizon is not None
        return self.tables[horizon if target == "value" else horizon - 1]

    def stop(self, number: int) -> Stop | None:
        """Return the only stop: all levels of all stages."""
        return (
            Stop(max(len(table) for table in self.tables.values()), math.inf, math.inf)
            if number == 0
            else None
        )

    def child_table(self, table: LevelTable) -> LevelTable:
        """Return the table of a level's children, which is one step later."""
        assert table.remaining is not None
        return self.tables[table.remaining - 1]

    def _stage(self, remaining: int) -> LevelTable:
        table = LevelTable(self.base, remaining)
        first_level = Level(Kind.CONSTANT)
        table.add(first_level, table.moments_over(table, first_level))
        for kind in free_kinds(self.base, self.kinds, remaining):
            table.add(Level(kind), table.moments_over(table, Level(kind)))
        table_below = self.tables.get(remaining - 1)
        if table_below is None or self.widest <= 0.0:
            return table
        cells = Cells(
            self.widest * self.base.facts.steps(remaining), self.step, self.size
        )
        stage = Stage(self.base, remaining, cells, table_below)
        for estimator in self.estimators:
            estimator.offer(stage)
        tried_cells = np.linspace(0, cells.size, 2 * self.num_kept).astype(np.int64)
        for kind, queries in stage.queries.items():
            for cell in np.unique(tried_cells):
                cells.fill(int(cell), kind, queries, table_below)
        for cell in _thin_cells(cells, self.num_kept):
            level = cells.cheapest(int(cell))
            assert level is not None  # only filled cells are kept
            table.add(level, table.moments_over(table_below, level))
        return table


class Stage:
    """Where kinds propose levels with ``remaining`` steps left (``kinds.Walk``).

    All levels of the stage below are new at once.
    """

    def __init__(
        self, base: Ground, remaining: int, cells: Cells, below: LevelTable
    ) -> None:
        self.base = base
        self.remaining: int | None = remaining
        self.cells, self.below, self.step = cells, below, cells.step
        self.queries: dict[IntEnum, Queries] = {}

    @cached_property
    def _every_pair(self) -> Pairs:
        """Return every child with every N of the grid, flat."""
        child_backups = _side_by_side(self.below)
        num_children = child_backups.log_calls.shape[0]
        query = np.repeat(np.arange(num_children), len(_SAMPLES))
        samples = np.tile(_SAMPLES, num_children)
        return Pairs(
            query,
            samples,
            child_backups.pick(query),
            np.log(samples * self.base.facts.num_actions)
            + child_backups.log_calls[query],
        )

    def pairs(self, share: float) -> Pairs:
        """Return every child with every count: there are few enough."""
        return self._every_pair

    def offer(self, kind: IntEnum, width: Array, pairs: Pairs) -> None:
        """Propose levels with a query."""
        self.cells.offer(
            self.cells.of(width), pairs.log_calls, kind, pairs.samples, pairs.query, -1
        )

    def offer_steps(self, kind: IntEnum, loss: float) -> None:
        """Propose levels that continue at a child and have no query."""
        num_children = len(self.below)
        self.cells.offer(
            self.cells.of(self.below.bias_span + loss),
            self.below.log_calls,
            kind,
            np.zeros(num_children),
            -1,
            np.arange(num_children),
        )

    def offer_paths(self, kind: IntEnum, loss: Array, pairs: Pairs) -> None:
        """Collect queries; the stage fills its cells after all kinds are through."""
        queries = self.queries.setdefault(kind, Queries(self.cells.top, _LOSS_STEP))
        queries.offer(pairs.query, pairs.samples, loss, pairs.log_calls)

    def offer_ladders(self, kind: IntEnum) -> None:
        """Propose nothing: with few steps left, tables are of plain kinds."""


def _thin_cells(cells: Cells, num_kept: int) -> Array:
    """Return at most ``kept`` cells, wide to narrow.

    They are those not beaten in width and price, taken evenly along log width
    and log price.
    """
    from_narrow = np.minimum.accumulate(cells.price[::-1])[::-1]
    is_beaten = np.append(from_narrow[1:], math.inf) <= cells.price
    good_cells = np.nonzero(np.isfinite(cells.price) & ~is_beaten)[0]
    if len(good_cells) <= num_kept:
        return good_cells
    good_prices = cells.price[good_cells]
    curve_length = np.concatenate(
        [
            [0.0],
            np.cumsum(
                np.diff(good_cells) * cells.step
                + np.minimum(np.diff(good_prices), 1.0)
            ),
        ]
    )
    return good_cells[
        np.unique(
            np.searchsorted(
                curve_length,
                np.linspace(0.0, curve_length[-1], num_kept) * (1.0 - 1e-12),
            )
        )
    ]


def _side_by_side(table: LevelTable) -> Backup:
    """Return all backups of ``table`` as one, with one candidate per column."""

    def column(name: str) -> Array:
        return np.concatenate([getattr(b, name) for b in table.backups], axis=-1)

    return Backup(
        column("bias_low"),
        column("bias_high"),
        column("low"),
        column("high"),
        column("variance"),
        column("log_calls"),
        column("mean_low"),
        column("mean_high"),
        column("within"),
        np.concatenate(
            [b.rare + np.zeros_like(b.variance) for b in table.backups], -1
        ),
    )
