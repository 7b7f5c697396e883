"""A draft: the rows that one root uses, before shifts and constants are known.

It is plain data that can be evaluated for many counts side by side.

What this file leaves out: which structure (``frontier``), better counts
(``polishing``), the final table (``optimizer``), and trust (``verify.sharp`` checks
it again).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from smoothcruiser.schedule.kinds import KINDS
from smoothcruiser.schedule.schedule import Level, Target
from smoothcruiser.theory.betting import DEVIATION, likely_samples
from smoothcruiser.theory.ground import Ground
from smoothcruiser.theory.moments import Backup, Moments, backup, itself
from smoothcruiser.theory.stopping import best_rate, root_samples

Array = Any


@dataclass(frozen=True)
class Draft:
    """Rows, children first; the last is the root's child.

    ``level`` is log(2 actions/delta) of the fixed promise. With ``bets``, the level of
    bets on the data, the price is what a run likely pays instead of the most it can.
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
    def counted(self) -> list[int]:
        """The rows that have a count."""
        return [i for i, row in enumerate(self.rows) if KINDS[row.kind].asks]

    def with_counts(self, counts: Array) -> Draft:
        """The same draft with other counts for the counted rows."""
        rows = list(self.rows)
        for i, n in zip(self.counted, counts, strict=True):
            rows[i] = replace(rows[i], samples=int(n))
        other = replace(self, rows=tuple(rows))
        other.__dict__["below"] = self.below
        return other

    def with_scales(self, scales: tuple[float | None, ...]) -> Draft:
        """Return the same draft with other scales for its rungs."""
        other = replace(self, scales=scales)
        other.__dict__["below"] = self.below
        return other

    def at_level(self, level: float) -> Draft:
        """Return the same draft for another delta; its moments do not depend on it."""
        other = replace(self, level=level)
        if "made" in self.__dict__:
            other.__dict__["made"] = self.made
        return other

    def with_row(self, row: int, level: Level) -> Draft:
        """Return the same draft with another row; those below it are not worked out."""
        rows = (*self.rows[:row], level, *self.rows[row + 1 :])
        other = replace(self, rows=rows)
        other.__dict__["made"] = other.moments(known=self.made[:row])
        if row >= len(self.below):
            other.__dict__["below"] = self.below
        return other

    @cached_property
    def below(self) -> list[Moments]:
        """The moments of the rows before the first that has a count.

        They are those of every draft that differs in counts and scales alone.
        """
        first = min(self.counted, default=len(self.rows))
        return self.made[:first] if "made" in self.__dict__ else self.moments(end=first)

    def scale(self, row: int) -> Array | None:
        """The scale of the rungs of ``row``, None where they are fixed."""
        found = self.scales[row] if self.scales else None
        return None if found is None else np.array([found])

    def moments(
        self,
        counts: Array | None = None,
        known: Sequence[Moments] = (),
        end: int | None = None,
    ) -> list[Moments]:
        """Return the moments of every row, or of those before ``end``.

        ``counts`` has shape (counted rows, M), one candidate per column. ``known``
        are the moments of the first rows, where these are known.
        """
        where = {row: k for k, row in enumerate(self.counted)}
        made: list[Moments] = list(known)
        backups: dict[int, Backup] = {}
        for i, row in list(enumerate(self.rows))[len(made) : end]:
            n = (
                np.array([float(row.samples)])
                if counts is None or i not in where
                else counts[where[i]]
            )
            for child in (row.query, row.continuation):
                if child >= 0 and child not in backups:
                    backups[child] = backup(
                        self.base, made[child], self.remaining[child]
                    )
            made.append(
                KINDS[row.kind].of_row(
                    self.base,
                    row,
                    n,
                    self.scale(i),
                    backups.get(row.query),
                    backups.get(row.continuation),
                    self.remaining[i],
                )
            )
        return made

    @cached_property
    def made(self) -> list[Moments]:
        """The moments of every row with the draft's own counts."""
        return self.moments(known=self.below)

    def back(self, row: int) -> Backup | None:
        """Return the backup of ``row`` with the draft's own counts; None below 0."""
        if row < 0:
            return None
        found: dict[int, Backup] = self.__dict__.setdefault("backs", {})
        if row not in found:
            found[row] = backup(self.base, self.made[row], self.remaining[row])
        return found[row]

    def draws(self, counts: Array | None = None) -> tuple[Array, Array, Array, Array]:
        """Return (bias, spread, variance, log price) of one root sample, each (M,)."""
        if counts is None:
            last = self.made[-1]
        else:
            last = self.moments(counts, known=self.below)[-1]
        steps = self.remaining[-1]
        if self.target == "value":
            return *itself(self.base, last, steps).draw, last.log_calls
        back = backup(self.base, last, steps)
        return *back.draw, back.log_calls + math.log(self.base.facts.num_actions)

    def log_price(self, counts: Array | None = None) -> Array:
        """Return the log of the price with a real number of root samples, shape (M,).

        It is infinite where the bias alone breaks the promise.
        """
        bias, spread, variance, price = self.draws(counts)
        draws = paid_log_draws(
            self.epsilon - bias, spread, variance, self.level, self.bets
        )
        return priced(draws, price)

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
        kept = []
        for bias, spread, variance in zip(
            *(np.atleast_1d(x) for x in self.draws(counts)[:3]), strict=True
        ):
            rate = best_rate(
                self.epsilon - float(bias), float(spread), float(variance)
            )[0]
            kept.append(draws * rate >= self.level)
        return np.array(kept)


def root_log_draws(t: Array, spread: Array, variance: Array, level: float) -> Array:
    """Return the log of about how many samples close a radius t.

    It is a vectorized approximation of ``stopping.root_samples``.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        tau = np.clip(t / np.maximum(spread, 1e-300), 1e-150, 1.0 - 1e-12)
        ratio = np.clip(variance / np.maximum(spread, 1e-300) ** 2, 1e-300, 0.25)
        p = np.minimum(
            2.0 * ratio / (1.0 + np.sqrt(1.0 - 4.0 * ratio)), 0.5 * (1.0 - tau)
        )
        q = p + tau
        rate = q * np.log(q / p) + (1.0 - q) * np.log1p(-tau / (1.0 - p))
        rate = np.maximum(
            np.where(tau < 1e-6 * p, 0.0, rate),
            tau * tau / (2.0 * ratio + 2.0 * tau / 3.0),
        )
        draws = np.where(t >= spread, 0.0, np.log(level) - np.log(rate))
        second = np.log(2.0 * level * variance) - 2.0 * np.log(t)
        draws = np.where(np.isinf(spread), second, draws)
    return np.where(t > 0.0, np.maximum(draws, 0.0), math.inf)


def paid_log_draws(
    t: Array, spread: Array, variance: Array, level: float, bets: float | None
) -> Array:
    """Return the log of the samples to price: the most, or with ``bets`` the likely.

    What is likely rests on a deviation that is ``DEVIATION`` of its bound.
    """
    most = root_log_draws(t, spread, variance, level)
    if bets is None:
        return most
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        likely = likely_samples(t, spread, DEVIATION**2 * variance, bets)
        return np.where(t > 0.0, np.minimum(most, np.log(likely)), most)


def priced(draws: Array, price: Array) -> Array:
    """Return the log of samples times price.

    It is infinite where no number of samples is enough, whatever one costs.
    """
    return np.where(
        draws == math.inf, math.inf, np.where(draws == math.inf, 0.0, draws) + price
    )
