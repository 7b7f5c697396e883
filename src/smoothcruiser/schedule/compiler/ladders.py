"""Randomized levels for the walk: which query, first count and number of rungs.

A randomized level has no range, so it stands under the root or continues a path, and
never answers a query. The walk keeps one such level per cell beside the plain one.
Its merit is price times second moment, because both the root's samples and the
corrections above are paid in proportion to it:

  V0, C0      second moment and price without corrections
  e_j, c_j    second moment and price of a correction
  merit       min over p of (V0 + sum e_j/p_j)(C0 + sum p_j c_j)
              = (sqrt(V0 C0) + sum sqrt(e_j c_j))^2,  p_j = sqrt(e_j C0/(c_j V0))

For every loss E D a table keeps the query, N0 and J of the best merit, once for each
of a few guesses of what the continuation costs beside the query. A cell then tries
every continuation with the queries that fit, and takes the best.

All numbers are the worst over players: the level that is chosen gets its own moments.
What this file leaves out: the walk (``frontier``), and the last factor of two, which
chances get from the rest of the table (``draft``).
"""

from __future__ import annotations

import itertools
import math
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcruiser.schedule.compiler.improving import improving
from smoothcruiser.schedule.kinds import Kind, estimator_of
from smoothcruiser.schedule.schedule import Level
from smoothcruiser.theory.correction import (
    correction,
    plug_in_correction,
)
from smoothcruiser.theory.ground import Ground
from smoothcruiser.theory.moments import Backup, largest
from smoothcruiser.theory.noise import (
    bregman_ceiling,
    bregman_noise,
    plug_in_noise,
    plug_in_variance,
    regularizer_range,
)

if TYPE_CHECKING:
    from smoothcruiser.schedule.compiler.level_table import LevelTable

Array = Any

_FIRST = np.array(
    [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 50, 65, 85, 110, 150.0]
)
_RUNGS = 14  # 2^14 times the first count
# samples of one mean of every rung, and of the last rung, for every first count
_MEANS = _FIRST[:, None] * 2.0 ** np.arange(_RUNGS)
_LAST = _FIRST[:, None] * 2.0 ** np.arange(1, _RUNGS + 1)
_LOSS_STEP = 0.03  # log-width of a cell of the table by loss
_LARGEST_OVER_SMALLEST_LOSS = 1e9
# the price of a continuation, in prices of a base query
_GUESSES = (0.5, 2.0, 8.0, 32.0, 128.0)
_LARGEST = 60.0  # log of a price; dearer levels are chosen of plain kinds alone
_NARROWEST = 0.2  # of a level's width: narrower continuations are not tried
_LEAST_DISCOUNT = 1e-6  # below it one plug-in is all that there is to do
_STRIDE = 0.06  # largest log-width between two randomized levels of the walk


class _Best(NamedTuple):
    """The best ladder of every cell of losses: one row per guess."""

    merit: Array  # (guesses, size)
    query: Array
    first: Array  # N0
    rungs: Array  # J

    @staticmethod
    def empty(guesses: int, size: int) -> _Best:
        """No ladder yet."""
        shape = guesses, size
        return _Best(
            np.full(shape, math.inf),
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape),
            np.zeros(shape, dtype=np.int64),
        )


class Ladders:
    """Ladders over the queries of a walk, and the randomized levels made of them."""

    def __init__(self, base: Ground, kinds: set[IntEnum], top: float, step: float):
        self.base, self.kinds = base, kinds
        self.top = max(top, 1e-300)
        gamma = base.facts.discount
        stride = _STRIDE
        if gamma > _LEAST_DISCOUNT:
            stride = min(_STRIDE, -math.log(gamma) / 6.0)
        self.stride = max(1, round(stride / step))
        self.size = math.ceil(math.log(_LARGEST_OVER_SMALLEST_LOSS) / _LOSS_STEP)
        self.rollouts = _Best.empty(len(_GUESSES), self.size)
        self.plug_ins = _Best.empty(1, self.size)
        # by kind: query, price of asking all actions, spread, variance and tilt
        self.waiting: dict[IntEnum, list[tuple[float, ...]]] = {}

    def _cell(self, width: Array) -> Array:
        with np.errstate(divide="ignore"):
            cell = np.floor(np.log(self.top / width) / _LOSS_STEP + 1e-9)
        return np.clip(cell, 0, self.size - 1).astype(np.int64)

    # --- queries ---------------------------------------------------------------

    def add(self, kind: IntEnum, query: int, back: Backup) -> None:
        """Propose every ladder over one query; they are looked at when a level is."""
        log_calls = float(back.log_calls[0])
        if log_calls > _LARGEST or not largest(back.variance) > 0.0:
            return  # nobody pays it, or there is no noise to remove
        calls = math.exp(log_calls) * self.base.facts.num_actions
        numbers = (largest(x) for x in (back.spread, back.variance, back.tilt))
        self.waiting.setdefault(kind, []).append((query, calls, *numbers))

    def _look(self) -> None:
        """Put the ladders over all queries that wait into the tables."""
        rule = self.base.rule
        guesses: tuple[float, ...]
        for kind, waiting in self.waiting.items():
            # (queries, 1, 1) beside (first counts, rungs)
            query, *numbers = np.array(waiting).T
            calls, spread, variance, tilt = (x[:, None, None] for x in numbers)
            square = spread * spread / 4.0
            if not estimator_of(kind).goes_on:  # plug-ins
                second = plug_in_correction(rule, _MEANS, spread, variance) ** 2
                loss = tilt + plug_in_noise(rule, _LAST, spread, variance)
                still = square + plug_in_variance(
                    rule, _FIRST[:, None], spread, variance
                )
                table, guesses = self.plug_ins, (0.0,)
            else:
                parts = correction(rule, _MEANS, spread, variance)
                second = parts.second(1.5 * tilt, variance)
                loss = bregman_noise(rule, _LAST, spread, variance, tilt)
                still = np.maximum(square, 1e-300)
                table, guesses = self.rollouts, _GUESSES
            self._keep(table, query, loss, second, still, _MEANS * calls, guesses)
        self.waiting = {}

    def _keep(
        self,
        table: _Best,
        query: Array,
        width: Array,
        second: Array,
        still: Array,
        asked: Array,
        guesses: tuple[float, ...],
    ) -> None:
        """Keep the ladders that beat those in their cells, for every guess.

        ``query`` has shape (queries,), the others (queries, first counts, rungs).
        """
        # for every query the guesses one after the other, and so their cells
        second, still, asked = (x[:, None] for x in (second, still, asked))
        onward = np.array(guesses)[:, None, None] * asked[..., :1]
        before = asked[..., :1] + onward
        corrections = np.cumsum(np.sqrt(second * (2.0 * asked + onward)), axis=3)
        merit = np.log(before) + 2.0 * np.log1p(corrections / np.sqrt(still * before))
        first_cells = self.size * np.arange(len(guesses))[:, None, None]
        cell = first_cells + self._cell(width)[:, None]
        known = _Best(*(x.ravel() for x in table))  # views of the same numbers
        merit = merit.ravel()
        cells, where = improving(cell.ravel(), merit, known.merit)
        known.merit[cells] = merit[where]
        known.query[cells] = query[where // (len(guesses) * _MEANS.size)]
        known.first[cells] = _FIRST[where % _MEANS.size // _RUNGS]
        known.rungs[cells] = where % _RUNGS + 1

    # --- levels ----------------------------------------------------------------

    def best(self, cell: int, edge: float, table: LevelTable) -> Level | None:
        """Return the best randomized level of width ``edge``, None if there is none."""
        if cell % self.stride or self.base.facts.discount < _LEAST_DISCOUNT:
            return None
        found: list[tuple[float, Level]] = []
        # ladders with a merit that is no number are left out
        with np.errstate(all="ignore"):
            self._look()
            if Kind.RANDOM_ROLLOUT in self.kinds:
                found += self._rollouts(edge, table)
            if Kind.RANDOM_PLUGIN in self.kinds:
                found += self._plug_in(edge, table)
        if not found:
            return None
        return min(found, key=lambda pair: pair[0])[1]

    def _fitting(self, best: _Best, room: Array) -> Array:
        """Return the cell of the best ladder that fits, for each guess and room.

        It is -1 where none fits.
        """
        running = np.minimum.accumulate(best.merit[:, ::-1], axis=1)[:, ::-1]
        here = np.where(best.merit == running, np.arange(self.size), self.size)
        here = np.minimum.accumulate(here[:, ::-1], axis=1)[:, ::-1]
        with np.errstate(divide="ignore"):
            cell = np.maximum(np.ceil(np.log(self.top / room) / _LOSS_STEP), 0.0)
        inside = cell < self.size
        cell = np.minimum(cell, self.size - 1).astype(np.int64)
        return np.where(inside & np.isfinite(running[:, cell]), here[:, cell], -1)

    def _rollouts(self, edge: float, table: LevelTable) -> list[tuple[float, Level]]:
        """Return the best level for every guess, with its merit."""
        tilt, best = table.tilt, self.rollouts
        near = (tilt < edge) & (tilt > _NARROWEST * edge) & (table.log_calls < _LARGEST)
        near = np.nonzero(near)[0]
        at = self._fitting(best, edge - tilt[near])
        guess, column = np.nonzero(at >= 0)  # by guess
        if len(guess) == 0:
            return []
        near, at = near[column], at[guess, column]
        query, first, rungs = (
            x[guess, at] for x in (best.query, best.first, best.rungs)
        )
        parts = _parts(self.base, table, near, query, first, rungs)
        found = []
        ends = np.searchsorted(guess, np.arange(len(_GUESSES) + 1))
        for start, end in itertools.pairwise(int(x) for x in ends):
            if start == end:
                continue
            most = int(np.max(rungs[start:end]))
            merit, p = _merits(_Parts(*(x[start:end] for x in parts)), most)
            i = int(np.argmin(merit))
            if not merit[i] < math.inf:
                continue
            k = start + i
            level = Level(
                Kind.RANDOM_ROLLOUT,
                int(first[k]),
                int(query[k]),
                int(near[k]),
                rungs=tuple(float(x) for x in p[i, : rungs[k]]),
            )
            merit_here = float(merit[i]) + 2.0 * math.log(self.base.facts.discount)
            found.append((merit_here, level))
        return found

    def _plug_in(self, edge: float, table: LevelTable) -> list[tuple[float, Level]]:
        at = int(self._fitting(self.plug_ins, np.array([edge]))[0, 0])
        if at < 0:
            return []
        best, rule = _Best(*(x[0] for x in self.plug_ins)), self.base.rule
        query, first, rungs = int(best.query[at]), best.first[at], int(best.rungs[at])
        spread, variance = table.query_numbers(np.array([query]))[:2]
        calls = np.exp(table.log_calls[query]) * self.base.facts.num_actions
        m = first * 2.0 ** np.arange(rungs)
        second = plug_in_correction(rule, m, spread, variance) ** 2
        gamma = self.base.facts.discount
        still = (self.base.facts.reward_span / gamma + spread) ** 2 / 4.0
        before = first * calls
        p = np.minimum(np.sqrt(second / (2.0 * m * calls) * before / still), 1.0)
        p = p / max(1.0, 1.000001 * float(np.sum(p)))
        price = before + float(np.sum(2.0 * p * m)) * calls
        merit = math.log(price + 1.0) + math.log(
            float(still[0]) + float(np.sum(second / np.maximum(p, 1e-300)))
        )
        merit += 2.0 * math.log(gamma)
        level = Level(
            Kind.RANDOM_PLUGIN,
            int(first),
            query,
            rungs=tuple(float(x) for x in p),
        )
        return [(merit, level)]


class _Parts(NamedTuple):
    """What the merits of randomized rollouts are made of: one row per level."""

    second: Array  # (M, most rungs): of the corrections
    cost: Array  # (M, most rungs)
    before: Array  # (M,): the price without corrections
    still: Array  # (M,): the second moment without corrections
    p: Array  # (M, most rungs): the chances before all of them are scaled


def _parts(
    base: Ground,
    table: LevelTable,
    onward: Array,
    query: Array,
    first: Array,
    rungs: Array,
) -> _Parts:
    rule, facts = base.rule, base.facts
    gamma, most = facts.discount, int(np.max(rungs))
    spread, variance, tilt = table.query_numbers(query)
    around, core, rare, noise, apart = table.onward_numbers(onward)
    used = np.arange(most) < rungs[:, None]
    m = first[:, None] * 2.0 ** np.arange(most)
    parts = correction(rule, m, spread[:, None], variance[:, None])
    second = parts.second((apart + tilt)[:, None], around[:, None])
    second = np.where(used, second, 0.0)
    asked = facts.num_actions * np.exp(table.log_calls[query])
    path = np.exp(table.log_calls[onward])
    cost = 2.0 * m * asked[:, None] + path[:, None]
    before = path + first * asked
    last = first * 2.0**rungs
    box = float(np.max(base.q_box(None)))
    ceiling = bregman_ceiling(rule, np.float64(box), spread)
    lost, won = (
        np.minimum(bregman_noise(rule, n, spread, variance, apart + tilt), ceiling)
        for n in (last, first)
    )
    # about as ``theory.randomized`` has it, and then over a root's backup
    part = core + regularizer_range(rule, spread)
    share = np.minimum(won, 0.5 * ceiling)
    own = (np.sqrt(share * (ceiling - share)) + 0.5 * apart) ** 2
    within = np.minimum(part**2 / 4.0 + rare, noise + own)
    low, high = base.values(None)
    span = float(np.max(high - low)) + (apart + won) / gamma
    reward = facts.reward_span / gamma
    still = np.minimum(
        (reward + part + lost + won) ** 2 / 4.0 + rare,
        (reward + span) ** 2 / 4.0 + within,
    )
    with np.errstate(divide="ignore"):
        p = np.sqrt(second / cost * (before / still)[:, None])
    return _Parts(second, cost, before, still, np.minimum(p, 1.0))


def _merits(parts: _Parts, most: int) -> tuple[Array, Array]:
    """Return (log merit, p) of levels of at most ``most`` rungs, p of shape (M, most)."""
    second, cost, p = (x[:, :most] for x in (parts.second, parts.cost, parts.p))
    p = p / np.maximum(1.0, 1.000001 * np.sum(p, axis=1))[:, None]
    added = np.sum(np.where(p > 0.0, second / np.where(p > 0.0, p, 1.0), 0.0), axis=1)
    price = parts.before + np.sum(p * cost, axis=1)
    return np.log1p(price) + np.log(parts.still + added), p
