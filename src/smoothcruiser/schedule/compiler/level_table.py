"""Finished levels of a walk, with what later candidates read of them side by side.

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
    # per level: bias span, log(1 + C), the moments of a root sample over it, and what
    # randomized levels use of it
    columns: Array = field(default_factory=lambda: np.empty((14, 0)))

    def add(self, level: Level, moments: Moments) -> int:
        """Append a level, and return its index."""
        back = backup(self.base, moments, self.remaining)
        index = len(self.levels)
        if index >= self.columns.shape[1]:
            self.columns = np.concatenate(
                [self.columns, np.empty((14, max(64, index)))], axis=1
            )
        draws = (back.draw, itself(self.base, moments, self.remaining).draw)
        self.columns[:, index] = (
            largest(back.tilt),
            back.log_calls[0],
            *(x[0] for x in draws[0]),
            *(x[0] for x in draws[1]),
            moments.log_calls[0],
            largest(moments.rare),
            *(largest(x) for x in (back.spread, back.rare, back.variance)),
            largest(back.center_and_moment[1]),
        )
        self.levels.append(level)
        self.moments.append(moments)
        self.backups.append(back)
        return index

    @property
    def tilt(self) -> Array:
        """The bias span gamma w of every level, the largest over players."""
        return self.columns[0, : len(self.levels)]

    @property
    def log_calls(self) -> Array:
        """The logarithm log(1 + C) of every level."""
        return self.columns[1, : len(self.levels)]

    @property
    def bounded(self) -> Array:
        """Whether the samples of every level have a range."""
        return self.columns[9, : len(self.levels)] == 0.0

    def query_numbers(self, levels: Array) -> tuple[Array, Array, Array]:
        """Return (spread, variance, tilt) of the backups of ``levels``."""
        return self.columns[10, levels], self.columns[12, levels], self.tilt[levels]

    def onward_numbers(self, levels: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Return what randomized rollouts use of their continuations' backups.

        These are a second moment, the spread and the rest of Lemma V, the variance
        and the tilt.
        """
        core, rare, variance, around = self.columns[10:14, levels]
        return around, core, rare, variance, self.tilt[levels]

    def root_draws(
        self, target: Target, levels: int
    ) -> tuple[Array, Array, Array, Array]:
        """Return (bias, spread, variance, log price) of one root sample.

        There is one entry for each of the first ``levels``. A sample is xi for
        all actions, or X itself.
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
