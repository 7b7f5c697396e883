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
of a few guesses of the price of the continuation relative to the query. A cell then
tries every continuation with the queries that fit, and takes the best.

All numbers are the worst over players: the level that is chosen gets its own moments.
This file leaves out the walk (``frontier``), and the last factor of two, which chances
get from the other levels of the table (``draft``).
"""

from __future__ import annotations

import itertools
import math
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcruiser.schedule.compiler.polishing import find_improvements
from smoothcruiser.schedule.kinds import Kind, estimator_of
from smoothcruiser.schedule.schedule import Level
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.moments import Backup, largest
from smoothcruiser.theory.noise import (
    bregman_ceiling,
    bregman_noise,
    plug_in_noise,
    plug_in_variance,
    regularizer_range,
)
from smoothcruiser.theory.randomized import correction, plug_in_correction

if TYPE_CHECKING:
    from smoothcruiser.schedule.compiler.draft import LevelTable

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


class _BestLadders(NamedTuple):
    """The best ladder of every cell of losses: one row per guess."""

    merit: Array  # (guesses, size)
    query: Array
    first: Array  # N0
    rungs: Array  # J

    @staticmethod
    def empty(guesses: int, size: int) -> _BestLadders:
        """No ladder yet."""
        shape = guesses, size
        return _BestLadders(
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
        log_stride = _STRIDE
        if gamma > _LEAST_DISCOUNT:
            log_stride = min(_STRIDE, -math.log(gamma) / 6.0)
        self.stride = max(1, round(log_stride / step))
        self.size = math.ceil(math.log(_LARGEST_OVER_SMALLEST_LOSS) / _LOSS_STEP)
        self.rollouts = _BestLadders.empty(len(_GUESSES), self.size)
        self.plug_ins = _BestLadders.empty(1, self.size)
        # by kind: query, price of asking all actions, spread, variance and bias span
        self.waiting: dict[IntEnum, list[tuple[float, ...]]] = {}

    def _cell(self, width: Array) -> Array:
        with np.errstate(divide="ignore"):
            cell = np.floor(np.log(self.top / width) / _LOSS_STEP + 1e-9)
        return np.clip(cell, 0, self.size - 1).astype(np.int64)

    # --- queries ---------------------------------------------------------------

    def add(self, kind: IntEnum, query: int, back: Backup) -> None:
        """Propose every ladder over one query, evaluated with the next level."""
        log_calls = float(back.log_calls[0])
        if log_calls > _LARGEST or not largest(back.variance) > 0.0:
            return  # nobody pays it, or there is no noise to remove
        query_calls = math.exp(log_calls) * self.base.facts.num_actions
        backup_numbers = (
            largest(x) for x in (back.spread, back.variance, back.bias_span)
        )
        self.waiting.setdefault(kind, []).append((query, query_calls, *backup_numbers))

    def _enter_waiting(self) -> None:
        """Enter the ladders over all waiting queries into the tables."""
        rule = self.base.rule
        guesses: tuple[float, ...]
        for kind, waiting_queries in self.waiting.items():
            # (queries, 1, 1) beside (first counts, rungs)
            query, *query_numbers = np.array(waiting_queries).T
            query_calls, spread, variance, bias_span = (
                x[:, None, None] for x in query_numbers
            )
            squared_half = spread * spread / 4.0
            if not estimator_of(kind).goes_on:  # plug-ins
                second_moments = (
                    plug_in_correction(rule, _MEANS, spread, variance) ** 2
                )
                loss = bias_span + plug_in_noise(rule, _LAST, spread, variance)
                base_moment = squared_half + plug_in_variance(
                    rule, _FIRST[:, None], spread, variance
                )
                table, guesses = self.plug_ins, (0.0,)
            else:
                correction_roots = correction(rule, _MEANS, spread, variance)
                second_moments = correction_roots.second(1.5 * bias_span, variance)
                loss = bregman_noise(rule, _LAST, spread, variance, bias_span)
                base_moment = np.maximum(squared_half, 1e-300)
                table, guesses = self.rollouts, _GUESSES
            self._keep_best(
                table,
                query,
                loss,
                second_moments,
                base_moment,
                _MEANS * query_calls,
                guesses,
            )
        self.waiting = {}

    def _keep_best(
        self,
        table: _BestLadders,
        query: Array,
        width: Array,
        second_moments: Array,
        base_moment: Array,
        query_calls: Array,
        guesses: tuple[float, ...],
    ) -> None:
        """Keep the ladders that beat those in their cells, for every guess.

        ``query`` has shape (queries,), the others (queries, first counts, rungs).
        """
        # for every query the guesses one after the other, and so their cells
        second_moments, base_moment, query_calls = (
            x[:, None] for x in (second_moments, base_moment, query_calls)
        )
        onward_calls = np.array(guesses)[:, None, None] * query_calls[..., :1]
        base_calls = query_calls[..., :1] + onward_calls
        correction_sums = np.cumsum(
            np.sqrt(second_moments * (2.0 * query_calls + onward_calls)), axis=3
        )
        merit = np.log(base_calls) + 2.0 * np.log1p(
            correction_sums / np.sqrt(base_moment * base_calls)
        )
        first_cells = self.size * np.arange(len(guesses))[:, None, None]
        cell = first_cells + self._cell(width)[:, None]
        # views of the same numbers
        flat_table = _BestLadders(*(x.ravel() for x in table))
        merit = merit.ravel()
        cells, candidate_index = find_improvements(
            cell.ravel(), merit, flat_table.merit
        )
        flat_table.merit[cells] = merit[candidate_index]
        flat_table.query[cells] = query[
            candidate_index // (len(guesses) * _MEANS.size)
        ]
        flat_table.first[cells] = _FIRST[candidate_index % _MEANS.size // _RUNGS]
        flat_table.rungs[cells] = candidate_index % _RUNGS + 1

    # --- levels ----------------------------------------------------------------

    def best(self, cell: int, edge: float, table: LevelTable) -> Level | None:
        """Return the best randomized level of width ``edge``, None if there is none."""
        if cell % self.stride or self.base.facts.discount < _LEAST_DISCOUNT:
            return None
        merit_levels: list[tuple[float, Level]] = []
        # ladders with a merit that is no number are left out
        with np.errstate(all="ignore"):
            self._enter_waiting()
            if Kind.RANDOM_ROLLOUT in self.kinds:
                merit_levels += self._rollouts(edge, table)
            if Kind.RANDOM_PLUGIN in self.kinds:
                merit_levels += self._plug_in(edge, table)
        if not merit_levels:
            return None
        return min(merit_levels, key=lambda pair: pair[0])[1]

    def _find_fitting(self, ladders: _BestLadders, loss_room: Array) -> Array:
        """Return the cell of the best ladder that fits, for each guess and loss room.

        It is -1 where none fits.
        """
        running_merit = np.minimum.accumulate(ladders.merit[:, ::-1], axis=1)[:, ::-1]
        best_cells = np.where(
            ladders.merit == running_merit, np.arange(self.size), self.size
        )
        best_cells = np.minimum.accumulate(best_cells[:, ::-1], axis=1)[:, ::-1]
        with np.errstate(divide="ignore"):
            cell = np.maximum(np.ceil(np.log(self.top / loss_room) / _LOSS_STEP), 0.0)
        is_inside = cell < self.size
        cell = np.minimum(cell, self.size - 1).astype(np.int64)
        return np.where(
            is_inside & np.isfinite(running_merit[:, cell]), best_cells[:, cell], -1
        )

    def _rollouts(self, edge: float, table: LevelTable) -> list[tuple[float, Level]]:
        """Return the best level for every guess, with its merit."""
        bias_span, best_ladders = table.bias_span, self.rollouts
        near_levels = (
            (bias_span < edge)
            & (bias_span > _NARROWEST * edge)
            & (table.log_calls < _LARGEST)
        )
        near_levels = np.nonzero(near_levels)[0]
        ladder_cells = self._find_fitting(best_ladders, edge - bias_span[near_levels])
        guess, near_column = np.nonzero(ladder_cells >= 0)  # by guess
        if len(guess) == 0:
            return []
        near_levels = near_levels[near_column]
        ladder_cells = ladder_cells[guess, near_column]
        query, first_counts, rungs = (
            x[guess, ladder_cells]
            for x in (best_ladders.query, best_ladders.first, best_ladders.rungs)
        )
        merit_terms = _merit_terms(
            self.base, table, near_levels, query, first_counts, rungs
        )
        merit_levels = []
        group_ends = np.searchsorted(guess, np.arange(len(_GUESSES) + 1))
        for group_start, group_end in itertools.pairwise(int(x) for x in group_ends):
            if group_start == group_end:
                continue
            most_rungs = int(np.max(rungs[group_start:group_end]))
            merit, chances = _merits(
                _MeritTerms(*(x[group_start:group_end] for x in merit_terms)),
                most_rungs,
            )
            best_index = int(np.argmin(merit))
            if not merit[best_index] < math.inf:
                continue
            best_row = group_start + best_index
            level = Level(
                Kind.RANDOM_ROLLOUT,
                int(first_counts[best_row]),
                int(query[best_row]),
                int(near_levels[best_row]),
                rungs=tuple(float(x) for x in chances[best_index, : rungs[best_row]]),
            )
            merit_here = float(merit[best_index]) + 2.0 * math.log(
                self.base.facts.discount
            )
            merit_levels.append((merit_here, level))
        return merit_levels

    def _plug_in(self, edge: float, table: LevelTable) -> list[tuple[float, Level]]:
        ladder_cell = int(self._find_fitting(self.plug_ins, np.array([edge]))[0, 0])
        if ladder_cell < 0:
            return []
        best_ladders = _BestLadders(*(x[0] for x in self.plug_ins))
        query = int(best_ladders.query[ladder_cell])
        first_count = best_ladders.first[ladder_cell]
        rungs = int(best_ladders.rungs[ladder_cell])
        rule = self.base.rule
        spread, variance = table.query_numbers(np.array([query]))[:2]
        query_calls = np.exp(table.log_calls[query]) * self.base.facts.num_actions
        mean_samples = first_count * 2.0 ** np.arange(rungs)
        second_moments = plug_in_correction(rule, mean_samples, spread, variance) ** 2
        gamma = self.base.facts.discount
        base_moment = (self.base.facts.reward_span / gamma + spread) ** 2 / 4.0
        base_calls = first_count * query_calls
        chances = np.minimum(
            np.sqrt(
                second_moments
                / (2.0 * mean_samples * query_calls)
                * base_calls
                / base_moment
            ),
            1.0,
        )
        chances = chances / max(1.0, 1.000001 * float(np.sum(chances)))
        mean_calls = (
            base_calls + float(np.sum(2.0 * chances * mean_samples)) * query_calls
        )
        merit = math.log(mean_calls + 1.0) + math.log(
            float(base_moment[0])
            + float(np.sum(second_moments / np.maximum(chances, 1e-300)))
        )
        merit += 2.0 * math.log(gamma)
        level = Level(
            Kind.RANDOM_PLUGIN,
            int(first_count),
            query,
            rungs=tuple(float(x) for x in chances),
        )
        return [(merit, level)]


class _MeritTerms(NamedTuple):
    """Terms of the merits of randomized rollouts: one row per level."""

    second_moments: Array  # (M, most rungs): of the corrections
    cost: Array  # (M, most rungs)
    base_calls: Array  # (M,): the price without corrections
    base_moment: Array  # (M,): the second moment without corrections
    chances: Array  # (M, most rungs): before all of them are scaled


def _merit_terms(
    base: Ground,
    table: LevelTable,
    onward: Array,
    query: Array,
    first_counts: Array,
    rungs: Array,
) -> _MeritTerms:
    rule, facts = base.rule, base.facts
    gamma, most_rungs = facts.discount, int(np.max(rungs))
    spread, variance, query_span = table.query_numbers(query)
    around_moment, core_spread, rare_moment, noise, onward_span = table.onward_numbers(
        onward
    )
    is_used = np.arange(most_rungs) < rungs[:, None]
    mean_samples = first_counts[:, None] * 2.0 ** np.arange(most_rungs)
    correction_roots = correction(
        rule, mean_samples, spread[:, None], variance[:, None]
    )
    second_moments = correction_roots.second(
        (onward_span + query_span)[:, None], around_moment[:, None]
    )
    second_moments = np.where(is_used, second_moments, 0.0)
    query_calls = facts.num_actions * np.exp(table.log_calls[query])
    onward_calls = np.exp(table.log_calls[onward])
    cost = 2.0 * mean_samples * query_calls[:, None] + onward_calls[:, None]
    base_calls = onward_calls + first_counts * query_calls
    last_counts = first_counts * 2.0**rungs
    q_span = float(np.max(base.q_box(None)))
    loss_ceiling = bregman_ceiling(rule, np.float64(q_span), spread)
    lost_mean, won_mean = (
        np.minimum(
            bregman_noise(
                rule, num_samples, spread, variance, onward_span + query_span
            ),
            loss_ceiling,
        )
        for num_samples in (last_counts, first_counts)
    )
    # about as ``theory.randomized`` has it, and then over a root's backup
    path_spread = core_spread + regularizer_range(rule, spread)
    capped_loss = np.minimum(won_mean, 0.5 * loss_ceiling)
    mean_variance = (
        np.sqrt(capped_loss * (loss_ceiling - capped_loss)) + 0.5 * onward_span
    ) ** 2
    within_variance = np.minimum(
        path_spread**2 / 4.0 + rare_moment, noise + mean_variance
    )
    value_low, value_high = base.values(None)
    value_span = (
        float(np.max(value_high - value_low)) + (onward_span + won_mean) / gamma
    )
    reward_span = facts.reward_span / gamma
    base_moment = np.minimum(
        (reward_span + path_spread + lost_mean + won_mean) ** 2 / 4.0 + rare_moment,
        (reward_span + value_span) ** 2 / 4.0 + within_variance,
    )
    with np.errstate(divide="ignore"):
        chances = np.sqrt(second_moments / cost * (base_calls / base_moment)[:, None])
    return _MeritTerms(
        second_moments, cost, base_calls, base_moment, np.minimum(chances, 1.0)
    )


def _merits(terms: _MeritTerms, most_rungs: int) -> tuple[Array, Array]:
    """Return (log merit, chances) of levels of at most ``most_rungs`` rungs.

    The chances have shape (M, most_rungs).
    """
    second_moments, cost, chances = (
        x[:, :most_rungs] for x in (terms.second_moments, terms.cost, terms.chances)
    )
    chances = chances / np.maximum(1.0, 1.000001 * np.sum(chances, axis=1))[:, None]
    added_moment = np.sum(
        np.where(
            chances > 0.0, second_moments / np.where(chances > 0.0, chances, 1.0), 0.0
        ),
        axis=1,
    )
    mean_calls = terms.base_calls + np.sum(chances * cost, axis=1)
    return np.log1p(mean_calls) + np.log(terms.base_moment + added_moment), chances
