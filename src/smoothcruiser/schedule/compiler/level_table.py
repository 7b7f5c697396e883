"""Finished levels of a walk, with the numbers that later candidates read of them.

A row of ``LevelTable.columns`` holds one number of every level, so that thousands of
candidates are compared by array operations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smoothcruiser.schedule.kinds import KINDS
from smoothcruiser.schedule.schedule import Level, Target
from smoothcruiser.theory.ground import Ground
from smoothcruiser.theory.moments import Backup, Moments, backup, itself, largest

Array = Any


@dataclass
class LevelTable:
    """Finished levels in order of decreasing width, with their backups side by side.

    Children are indices into the table that the levels were built over.
    """

    base: Ground
    remaining: int | None
    levels: list[Level] = field(default_factory=list)
    moments: list[Moments] = field(default_factory=list)
    backups: list[Backup] = field(default_factory=list)
    # per level: bias span, log(1 + C), the moments of a root sample over it, and the
    # numbers that randomized levels use
    columns: Array = field(default_factory=lambda: np.empty((14, 0)))

    def add(self, level: Level, moments: Moments) -> int:
        """Append a level, and return its index."""
        level_backup = backup(self.base, moments, self.remaining)
        index = len(self.levels)
        if index >= self.columns.shape[1]:
            self.columns = np.concatenate(
                [self.columns, np.empty((14, max(64, index)))], axis=1
            )
        root_numbers = (
            level_backup.draw,
            itself(self.base, moments, self.remaining).draw,
        )
        self.columns[:, index] = (
            largest(level_backup.bias_span),
            level_backup.log_calls[0],
            *(x[0] for x in root_numbers[0]),
            *(x[0] for x in root_numbers[1]),
            moments.log_calls[0],
            largest(moments.rare),
            *(
                largest(x)
                for x in (level_backup.spread, level_backup.rare, level_backup.variance)
            ),
            largest(level_backup.center_and_moment[1]),
        )
        self.levels.append(level)
        self.moments.append(moments)
        self.backups.append(level_backup)
        return index

    @property
    def bias_span(self) -> Array:
        """The bias span gamma w of every level, the largest over players."""
        return self.columns[0, : len(self.levels)]

    @property
    def log_calls(self) -> Array:
        """The logarithm log(1 + C) of every level."""
        return self.columns[1, : len(self.levels)]

    @property
    def has_range(self) -> Array:
        """Whether the samples of every level have a range."""
        return self.columns[9, : len(self.levels)] == 0.0

    def query_numbers(self, levels: Array) -> tuple[Array, Array, Array]:
        """Return (spread, variance, bias span) of the backups of ``levels``."""
        return (
            self.columns[10, levels],
            self.columns[12, levels],
            self.bias_span[levels],
        )

    def onward_numbers(self, levels: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Return the numbers that randomized rollouts use of continuations' backups.

        These are a second moment, the spread and the rare moment of Lemma V, the
        variance and the bias span.
        """
        core_spread, rare_moment, variance, around_moment = self.columns[10:14, levels]
        return around_moment, core_spread, rare_moment, variance, self.bias_span[levels]

    def root_draws(
        self, target: Target, levels: int
    ) -> tuple[Array, Array, Array, Array]:
        """Return (bias, spread, variance, log price) of one root sample.

        There is one entry for each of the first ``levels``. A sample is xi for
        all actions, or X itself.
        """
        used_columns = self.columns[:, : min(levels, len(self.levels))]
        if target == "value":
            return used_columns[5], used_columns[6], used_columns[7], used_columns[8]
        return (
            used_columns[2],
            used_columns[3],
            used_columns[4],
            used_columns[1] + math.log(self.base.facts.num_actions),
        )

    def moments_over(self, below: LevelTable, level: Level) -> Moments:
        """The moments of ``level`` over the levels of ``below``."""
        return KINDS[level.kind].of_row(
            self.base,
            level,
            np.array([float(level.samples)]),
            None,
            below.backups[level.query] if level.query >= 0 else None,
            below.backups[level.continuation] if level.continuation >= 0 else None,
            self.remaining,
        )

    def __len__(self) -> int:
        return len(self.levels)
