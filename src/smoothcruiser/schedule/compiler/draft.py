"""A draft: the rows that one root uses, before shifts and constants are known.

It is plain data that can be evaluated for many counts side by side and
tightened.

The frontier chooses structure and rough counts. Here the counts are moved
together by coordinate search on the price; the root's count is what the promise
then needs. After rounding, every count is lowered as long as the promise holds,
so that no slack is left.

What this file leaves out: which structure (``frontier``), the final table
(``optimizer``), and trust (``verify.sharp`` checks it again).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from smoothcruiser.schedule.kinds import KINDS
from smoothcruiser.schedule.kinds.chances import MOST_RUNGS, chances
from smoothcruiser.schedule.schedule import Level, Target, level_visits
from smoothcruiser.theory.betting import DEVIATION, likely_samples
from smoothcruiser.theory.ground import Ground
from smoothcruiser.theory.moments import Backup, Moments, backup, itself
from smoothcruiser.theory.stopping import best_rate, root_samples

Array = Any

_FIRST_STEP, _LAST_STEP = 1.25, 1.004  # of the coordinate search: factors on a count
_MAX_ROUNDS = 40
# The most rows that one search evaluates: about a fifth of a second, whatever the
# length of the table.
_WORK = 1200
_MORE_WORK = 4 * _WORK  # for a randomized table, of which there is one
_BALANCES = 5  # rounds of a fixed point that converges within a few


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
        return replace(self, rows=tuple(rows))

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
        return other

    def scale(self, row: int) -> Array | None:
        """The scale of the rungs of ``row``, None where they are fixed."""
        found = self.scales[row] if self.scales else None
        return None if found is None else np.array([found])

    def moments(
        self, counts: Array | None = None, known: Sequence[Moments] = ()
    ) -> list[Moments]:
        """Return the moments of every row.

        ``counts`` has shape (counted rows, M), one candidate per column. ``known``
        are the moments of the first rows, where these are known.
        """
        where = {row: k for k, row in enumerate(self.counted)}
        made: list[Moments] = list(known)
        backups: dict[int, Backup] = {}
        for i, row in list(enumerate(self.rows))[len(made) :]:
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
        return self.moments()

    def draws(self, counts: Array | None = None) -> tuple[Array, Array, Array, Array]:
        """Return (bias, spread, variance, log price) of one root sample, each (M,)."""
        last = self.made[-1] if counts is None else self.moments(counts)[-1]
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


def polish(draft: Draft) -> Draft:
    """Return the draft with its counts moved to a local minimum of the price.

    Rungs get the scales that are best for the whole table, before and after. The walk
    has chosen queries and numbers of rungs for less than the whole table, so randomized
    rows may change these as well.
    """
    if not any(KINDS[row.kind].randomized for row in draft.rows):
        return _moved(draft)
    for _ in range(2):
        draft = _reshaped(_moved(_cheaper(balanced(draft), draft)))
    draft = _moved(_cheaper(balanced(draft), draft))
    return fixed_rungs(_cheaper(balanced(draft), draft))


def _cheaper(one: Draft, other: Draft) -> Draft:
    return one if one.log_price()[0] < other.log_price()[0] else other


def _moved(draft: Draft) -> Draft:
    counted = draft.counted
    if not counted:
        return draft
    best = np.array([float(draft.rows[i].samples) for i in counted])
    price = float(draft.log_price(best[:, None])[0])
    step = _FIRST_STEP
    work = _WORK if not draft.scales else _MORE_WORK
    for _ in range(min(_MAX_ROUNDS, work // (2 * len(draft.rows)))):
        trial, moved = _neighbours(best, step)
        prices = draft.log_price(trial)
        winner = int(np.argmin(prices))
        if len(best) > 1:
            gains = (
                np.minimum(prices[: len(best)], prices[len(best) : 2 * len(best)])
                < price
            )
            up = prices[: len(best)] < prices[len(best) : 2 * len(best)]
            joint = np.where(gains, np.where(up, moved[0], moved[1]), best)
            joint_price = float(draft.log_price(joint[:, None])[0])
            if joint_price < prices[winner]:
                trial, prices, winner = joint[:, None], np.array([joint_price]), 0
        if prices[winner] < price - 1e-9:
            best, price = trial[:, winner], float(prices[winner])
        elif step <= _LAST_STEP:
            break
        else:
            step = max(_LAST_STEP, math.sqrt(step))
    return draft.with_counts(best)


def _neighbours(counts: Array, step: float) -> tuple[Array, tuple[Array, Array]]:
    """Return the candidates that raise or lower one count, and the changed counts.

    Columns: all raised ones, then all lowered ones.
    """
    up = np.maximum(counts + 1.0, np.round(counts * step))
    down = np.maximum(1.0, np.minimum(counts - 1.0, np.round(counts / step)))
    size = len(counts)
    trial = np.tile(counts[:, None], (1, 2 * size))
    trial[np.arange(size), np.arange(size)] = up
    trial[np.arange(size), size + np.arange(size)] = down
    return trial, (up, down)


def tighten(draft: Draft, draws: int) -> Draft:
    """Return the draft with every count as low as ``draws`` root samples allow.

    The most expensive rows come first.
    """
    counts = np.array([float(draft.rows[i].samples) for i in draft.counted])
    last = len(draft.rows) - 1
    visits = level_visits(draft.rows, last, 1, draft.base.facts.num_actions)
    order = sorted(
        range(len(counts)),
        key=lambda k: -(math.log(visits[draft.counted[k]]) + math.log(counts[k])),
    )
    waiting = [k for k in order if counts[k] > 1.0]
    while waiting:
        fewer = np.tile(counts[:, None], (1, len(waiting)))
        fewer[waiting, np.arange(len(waiting))] -= 1.0
        kept = draft.holds(draws, fewer)
        # slack only shrinks, so a count that cannot be lowered now never can
        waiting = [k for k, ok in zip(waiting, kept, strict=True) if ok]
        if waiting:
            counts[waiting[0]] = _lowest(draft, draws, counts, waiting[0])
            waiting = waiting[1:]
    return draft.with_counts(counts)


def _lowest(draft: Draft, draws: int, counts: Array, k: int) -> float:
    """Return the smallest count of the k-th counted row that keeps the promise.

    It relies on one less than the present count keeping it.
    """
    low, high = 1.0, counts[k] - 1.0  # invariant: high holds
    while low < high:
        tries = np.unique(np.floor(np.linspace(low, high - 1.0, 12)))
        trial = np.tile(counts[:, None], (1, len(tries)))
        trial[k] = tries
        kept = draft.holds(draws, trial)
        first = int(np.argmax(kept)) if kept.any() else len(tries)
        low = float(tries[first - 1]) + 1.0 if first > 0 else float(tries[0])
        high = float(tries[first]) if first < len(tries) else high
    return float(high)


def _reshaped(draft: Draft) -> Draft:
    """Return the draft with other queries and numbers of rungs, where these pay.

    Every randomized row tries one rung more and one less, and the plain rows next to
    its query; those next to the root come first.
    """
    if not draft.scales:
        return draft
    plain = [i for i, x in enumerate(draft.made) if not np.any(x.rare)]
    steps = draft.remaining
    rows = [i for i, row in enumerate(draft.rows) if KINDS[row.kind].randomized]
    price = float(draft.log_price()[0])
    for i in rows[::-1][: max(1, _MORE_WORK // (4 * len(draft.rows)))]:
        queries = [k for k in plain if steps[k] == steps[draft.rows[i].query]]
        for change in (_fewer_rungs, _more_rungs, _wider_query, _narrower_query):
            level = change(draft.rows[i], queries)
            if level is None or level.query >= i:
                continue
            trial = draft.with_row(i, level)
            found = float(trial.log_price()[0])
            if found < price - 1e-6:
                draft, price = trial, found
    return _pruned(draft)


def _pruned(draft: Draft) -> Draft:
    """Return the draft without the rows that nothing leads to."""
    used = {len(draft.rows) - 1}
    for i in range(len(draft.rows) - 1, -1, -1):
        if i in used:
            used |= {draft.rows[i].query, draft.rows[i].continuation} - {-1}
    kept = sorted(used)
    place = {-1: -1, **{i: k for k, i in enumerate(kept)}}
    rows = [
        replace(row, query=place[row.query], continuation=place[row.continuation])
        for row in (draft.rows[i] for i in kept)
    ]
    return replace(
        draft,
        rows=tuple(rows),
        remaining=tuple(draft.remaining[i] for i in kept),
        scales=tuple(draft.scales[i] for i in kept) if draft.scales else (),
    )


def _fewer_rungs(row: Level, queries: list[int]) -> Level | None:
    return replace(row, rungs=row.rungs[:-1]) if len(row.rungs) > 1 else None


def _more_rungs(row: Level, queries: list[int]) -> Level | None:
    if len(row.rungs) >= MOST_RUNGS:
        return None
    return replace(row, rungs=(*row.rungs, row.rungs[-1]))  # its scale sets the chance


def _wider_query(row: Level, queries: list[int]) -> Level | None:
    at = queries.index(row.query) - 1
    return replace(row, query=queries[at]) if at >= 0 else None


def _narrower_query(row: Level, queries: list[int]) -> Level | None:
    at = queries.index(row.query) + 1
    return replace(row, query=queries[at]) if at < len(queries) else None


# --- rungs ----------------------------------------------------------------------


def balanced(draft: Draft) -> Draft:
    """Return the draft with scales for its rungs that are best for the whole table.

    Where row i adds e_j/p_j to its own second moment, the root's S^2 grows by w_i times
    that, and where it adds p_j c_j calls, the price of a root sample C by n_i times
    those: p_j = sqrt(e_j/c_j) sqrt(w_i C/(S^2 n_i)) makes S^2 C smallest.
    """
    scales = draft.scales or (None,) * len(draft.rows)
    scales = tuple(
        (0.0 if known is None else known) if KINDS[row.kind].randomized else None
        for row, known in zip(draft.rows, scales, strict=True)
    )
    first = not draft.scales
    for _ in range(_BALANCES):
        # the first scales are those of the rungs that the walk has chosen
        now = draft if first else replace(draft, scales=scales)
        first = False
        weight, visits = _sensitivities(now)
        _, _, second, price = (float(x[0]) for x in now.draws())
        if draft.target == "q_values":  # of one action
            price -= math.log(draft.base.facts.num_actions)
        scales = tuple(
            None if old is None else 0.5 * (math.log(w / n) + price - math.log(second))
            for old, w, n in zip(scales, weight, visits, strict=True)
        )
    return replace(draft, scales=scales)


def _rungs(draft: Draft, row: int) -> tuple[Array, Array]:
    """Return (p_j, share of the continuation's second moment in e_j) of a row."""
    level = draft.rows[row]
    query, onward = (
        backup(draft.base, draft.made[child], draft.remaining[child])
        if child >= 0
        else None
        for child in (level.query, level.continuation)
    )
    assert query is not None
    n = np.array([float(level.samples)])
    terms = KINDS[level.kind].terms(draft.base, level, n, query, onward)
    rungs = chances(draft.base, level, terms, draft.scale(row), query, onward)
    return rungs[:, 0], np.max(terms.passed, axis=1)[:, 0]


def _sensitivities(draft: Draft) -> tuple[list[float], list[float]]:
    """Return (w_i, n_i) of every row on the path below the root."""
    size = len(draft.rows)
    weight, visits = [0.0] * size, [0.0] * size
    gamma = draft.base.facts.discount
    weight[-1] = 1.0 if draft.target == "value" else gamma * gamma
    visits[-1] = 1.0
    for i in range(size - 1, -1, -1):
        row = draft.rows[i]
        if visits[i] == 0.0 or row.continuation < 0:
            continue
        grown = more = 1.0
        if KINDS[row.kind].randomized:
            rungs, passed = _rungs(draft, i)
            used = rungs > 0.0
            grown += float(np.sum(passed[used] / rungs[used]))
            more += float(np.sum(rungs))
        weight[row.continuation] += gamma * gamma * weight[i] * grown
        visits[row.continuation] += visits[i] * more
    return weight, visits


def fixed_rungs(draft: Draft) -> Draft:
    """Return the draft with rungs in the place of scales."""
    rows = [
        replace(row, rungs=tuple(float(p) for p in _rungs(draft, i)[0]))
        if KINDS[row.kind].randomized
        else row
        for i, row in enumerate(draft.rows)
    ]
    return replace(draft, rows=tuple(rows), scales=())
