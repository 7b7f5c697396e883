"""A draft: the rows that one root uses, before shifts and constants are known.

It is plain data that can be evaluated for many counts side by side.

This file leaves out the structure (``frontier``), better counts (``polishing``), the
final table (``optimizer``), and trust (``verify.sharp`` checks it again).

Finished levels of a walk, with the numbers that later candidates read of them.

A row of ``LevelTable.columns`` holds one number of every level, so that thousands of
candidates are compared by array operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from smoothcruiser.schedule.kinds import KINDS
from smoothcruiser.schedule.schedule import Level, Target
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.bets import DEVIATION, likely_samples
from smoothcruiser.theory.moments import Backup, Moments, backup, itself, largest
from smoothcruiser.theory.stopping import best_rate, root_samples

Array = Any


@dataclass(frozen=True)
class Draft:
    """Rows, children first; the last is the root's child.

    ``level`` is log(2 actions/delta) of the fixed promise. With ``bets``, the level of
    bets on the data, the price is the likely one of a run instead of the largest.
    """

    base: Ground
    rows: tuple[Level, ...]
    remaining: tuple[int | None, ...]  # steps left at each row
    target: Target
    epsilon: float
    level: float
    bets: float | None = None
    # While rungs are searched, one number per row: the log of the factor of
    # ``kinds.chances``, None for rows without rungs. Empty where the rungs are fixed.
    scales: tuple[float | None, ...] = ()

    @property
    def counted_rows(self) -> list[int]:
        """The rows that have a count."""
        return [i for i, row in enumerate(self.rows) if KINDS[row.kind].asks]

    def with_counts(self, counts: Array) -> Draft:
        """The same draft with other counts for the counted rows."""
        new_rows = list(self.rows)
        for i, new_count in zip(self.counted_rows, counts, strict=True):
            new_rows[i] = replace(new_rows[i], samples=int(new_count))
        new_draft = replace(self, rows=tuple(new_rows))
        new_draft.__dict__["below"] = self.below
        return new_draft

    def with_scales(self, scales: tuple[float | None, ...]) -> Draft:
        """Return the same draft with other scales for its rungs."""
        new_draft = replace(self, scales=scales)
        new_draft.__dict__["below"] = self.below
        return new_draft

    def at_level(self, level: float) -> Draft:
        """Return the same draft for another delta; its moments do not depend on it."""
        new_draft = replace(self, level=level)
        if "row_moments" in self.__dict__:
            new_draft.__dict__["row_moments"] = self.row_moments
        return new_draft

    def with_row(self, row: int, level: Level) -> Draft:
        """Return the same draft with another row; those below it are not worked out."""
        new_rows = (*self.rows[:row], level, *self.rows[row + 1 :])
        new_draft = replace(self, rows=new_rows)
        new_draft.__dict__["row_moments"] = new_draft.moments(
            first_moments=self.row_moments[:row]
        )
        if row >= len(self.below):
            new_draft.__dict__["below"] = self.below
        return new_draft

    @cached_property
    def below(self) -> list[Moments]:
        """The moments of the rows before the first that has a count.

        They are those of every draft that differs in counts and scales alone.
        """
        first_counted = min(self.counted_rows, default=len(self.rows))
        return (
            self.row_moments[:first_counted]
            if "row_moments" in self.__dict__
            else self.moments(end=first_counted)
        )

    def scale(self, row: int) -> Array | None:
        """The scale of the rungs of ``row``, None where they are fixed."""
        log_scale = self.scales[row] if self.scales else None
        return None if log_scale is None else np.array([log_scale])

    def moments(
        self,
        counts: Array | None = None,
        first_moments: Sequence[Moments] = (),
        end: int | None = None,
    ) -> list[Moments]:
        """Return the moments of every row, or of those before ``end``.

        ``counts`` has shape (counted rows, M), one candidate per column.
        ``first_moments`` are the moments of the first rows, where these are known.
        """
        count_index = {row: position for position, row in enumerate(self.counted_rows)}
        row_moments: list[Moments] = list(first_moments)
        backups: dict[int, Backup] = {}
        for i, row in list(enumerate(self.rows))[len(row_moments) : end]:
            num_samples = (
                np.array([float(row.samples)])
                if counts is None or i not in count_index
                else counts[count_index[i]]
            )
            for child in (row.query, row.continuation):
                if child >= 0 and child not in backups:
                    backups[child] = backup(
                        self.base, row_moments[child], self.remaining[child]
                    )
            row_moments.append(
                KINDS[row.kind].of_row(
                    self.base,
                    row,
                    num_samples,
                    self.scale(i),
                    backups.get(row.query),
                    backups.get(row.continuation),
                    self.remaining[i],
                )
            )
        return row_moments

    @cached_property
    def row_moments(self) -> list[Moments]:
        """The moments of every row with the draft's own counts."""
        return self.moments(first_moments=self.below)

    def back(self, row: int) -> Backup | None:
        """Return the backup of ``row`` with the draft's own counts; None below 0."""
        if row < 0:
            return None
        row_backups: dict[int, Backup] = self.__dict__.setdefault("backs", {})
        if row not in row_backups:
            row_backups[row] = backup(
                self.base, self.row_moments[row], self.remaining[row]
            )
        return row_backups[row]

    def draws(self, counts: Array | None = None) -> tuple[Array, Array, Array, Array]:
        """Return (bias, spread, variance, log price) of one root sample, each (M,)."""
        if counts is None:
            last_moments = self.row_moments[-1]
        else:
            last_moments = self.moments(counts, first_moments=self.below)[-1]
        steps_left = self.remaining[-1]
        if self.target == "value":
            return *itself(
                self.base, last_moments, steps_left
            ).draw, last_moments.log_calls
        root_backup = backup(self.base, last_moments, steps_left)
        return *root_backup.draw, root_backup.log_calls + math.log(
            self.base.facts.num_actions
        )

    def log_price(self, counts: Array | None = None) -> Array:
        """Return the log of the price with a real number of root samples, shape (M,).

        It is infinite where the bias alone breaks the promise.
        """
        bias, spread, variance, log_cost = self.draws(counts)
        log_draws = paid_log_draws(
            self.epsilon - bias, spread, variance, self.level, self.bets
        )
        return total_log_price(log_draws, log_cost)

    def root(self, counts: Array | None = None) -> tuple[int, str] | None:
        """Return (samples, bound) at the root for one candidate.

        It is None where no number of samples is enough.
        """
        bias, spread, variance, _ = (float(x[0]) for x in self.draws(counts))
        if not self.epsilon - bias > 0.0:
            return None
        return root_samples(self.epsilon - bias, spread, variance, self.level)

    def holds(self, draws: int, counts: Array) -> Array:
        """Return whether ``draws`` root samples keep the promise, per candidate."""
        promise_holds = []
        for bias, spread, variance in zip(
            *(np.atleast_1d(x) for x in self.draws(counts)[:3]), strict=True
        ):
            rate = best_rate(
                self.epsilon - float(bias), float(spread), float(variance)
            )[0]
            promise_holds.append(draws * rate >= self.level)
        return np.array(promise_holds)


def root_log_draws(t: Array, spread: Array, variance: Array, level: float) -> Array:
    """Return the log of about how many samples close a radius t.

    It is a vectorized approximation of ``stopping.root_samples``.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        tau = np.clip(t / np.maximum(spread, 1e-300), 1e-150, 1.0 - 1e-12)
        variance_ratio = np.clip(
            variance / np.maximum(spread, 1e-300) ** 2, 1e-300, 0.25
        )
        p = np.minimum(
            2.0 * variance_ratio / (1.0 + np.sqrt(1.0 - 4.0 * variance_ratio)),
            0.5 * (1.0 - tau),
        )
        q = p + tau
        rate = q * np.log(q / p) + (1.0 - q) * np.log1p(-tau / (1.0 - p))
        rate = np.maximum(
            np.where(tau < 1e-6 * p, 0.0, rate),
            tau * tau / (2.0 * variance_ratio + 2.0 * tau / 3.0),
        )
        log_draws = np.where(t >= spread, 0.0, np.log(level) - np.log(rate))
        second_draws = np.log(2.0 * level * variance) - 2.0 * np.log(t)
        log_draws = np.where(np.isinf(spread), second_draws, log_draws)
    return np.where(t > 0.0, np.maximum(log_draws, 0.0), math.inf)


def paid_log_draws(
    t: Array, spread: Array, variance: Array, level: float, bets: float | None
) -> Array:
    """Return the log of the samples to price: the most, or with ``bets`` the likely.

    The likely number assumes a deviation that is ``DEVIATION`` of its bound.
    """
    most_draws = root_log_draws(t, spread, variance, level)
    if bets is None:
        return most_draws
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        likely_draws = likely_samples(t, spread, DEVIATION**2 * variance, bets)
        return np.where(
            t > 0.0, np.minimum(most_draws, np.log(likely_draws)), most_draws
        )


def total_log_price(log_draws: Array, log_cost: Array) -> Array:
    """Return the log of samples times price.

    It is infinite where no number of samples is enough, whatever one costs.
    """
    return np.where(
        log_draws == math.inf,
        math.inf,
        np.where(log_draws == math.inf, 0.0, log_draws) + log_cost,
    )


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
                for x in (
                    level_backup.spread,
                    level_backup.rare,
                    level_backup.variance,
                )
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

    def onward_numbers(
        self, levels: Array
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Return the numbers that randomized rollouts use of continuations' backups.

        These are a second moment, the spread and the rare moment of Lemma V, the
        variance and the bias span.
        """
        core_spread, rare_moment, variance, around_moment = self.columns[10:14, levels]
        return (
            around_moment,
            core_spread,
            rare_moment,
            variance,
            self.bias_span[levels],
        )

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
