"""Better counts, queries and rungs for a draft.

The frontier chooses structure and rough counts. Here the counts are moved
together by coordinate search on the price; the root's count follows from the
promise. After rounding, every count is lowered as long as the promise holds, so
that no slack is left.

This file leaves out the promise of a draft (``draft``), and trust
(``verify.sharp`` checks the table again).

Candidates that become the cheapest ones of their cells.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from smoothcruiser.schedule.compiler.draft import Draft
from smoothcruiser.schedule.kinds import KINDS
from smoothcruiser.schedule.kinds.base import MOST_RUNGS, chances
from smoothcruiser.schedule.reach import check_patience
from smoothcruiser.schedule.schedule import Level, level_visits

Array = Any

_FIRST_STEP, _LAST_STEP = 1.25, 1.004  # of the coordinate search: factors on a count
_MAX_ROUNDS = 40
# The most rows that one search evaluates: about a fifth of a second, whatever the
# length of the table.
_WORK = 1200
_MORE_WORK = 4 * _WORK  # for a randomized table, of which there is one
# Counts that are priced before they are requested: rows times candidates. Arrays of 20
# rows cost no more than empty ones.
_FEW = 2 * 20 * 20
_BALANCES = 5  # rounds of a fixed point that converges within a few


def polish(draft: Draft) -> Draft:
    """Return the draft with its counts moved to a local minimum of the price.

    Rungs get the scales that are best for the whole table, before and after. The walk
    has chosen queries and numbers of rungs for less than the whole table, so randomized
    rows may change these as well.
    """
    if not any(KINDS[row.kind].randomized for row in draft.rows):
        return _move_counts(draft)
    for _ in range(2):
        draft = _reshape_rungs(
            _move_counts(_cheaper_draft(balance_rungs(draft), draft))
        )
    draft = _move_counts(_cheaper_draft(balance_rungs(draft), draft))
    return fix_rungs(_cheaper_draft(balance_rungs(draft), draft))


def _cheaper_draft(draft: Draft, other_draft: Draft) -> Draft:
    return draft if draft.log_price()[0] < other_draft.log_price()[0] else other_draft


def _move_counts(draft: Draft) -> Draft:
    counted_rows = draft.counted_rows
    if not counted_rows:
        return draft
    best_counts = np.array([float(draft.rows[i].samples) for i in counted_rows])
    price_cache = _PriceCache(draft)
    best_price = float(price_cache.of(best_counts[:, None])[0])
    step_factor = _FIRST_STEP
    work_limit = _WORK if not draft.scales else _MORE_WORK
    for _ in range(min(_MAX_ROUNDS, work_limit // (2 * len(draft.rows)))):
        check_patience()
        trial_counts, changed_counts = _neighbours(best_counts, step_factor)
        # the next step looks at the same counts if this one changes nothing
        trial_prices = price_cache.of(
            trial_counts, _neighbours(best_counts, _smaller_step(step_factor))[0]
        )
        winner = int(np.argmin(trial_prices))
        if len(best_counts) > 1:
            has_gain = (
                np.minimum(
                    trial_prices[: len(best_counts)],
                    trial_prices[len(best_counts) : 2 * len(best_counts)],
                )
                < best_price
            )
            raise_wins = (
                trial_prices[: len(best_counts)]
                < trial_prices[len(best_counts) : 2 * len(best_counts)]
            )
            joint_counts = np.where(
                has_gain,
                np.where(raise_wins, changed_counts[0], changed_counts[1]),
                best_counts,
            )
            # the next step looks around the joint move, if that wins
            next_trials = _neighbours(joint_counts, step_factor)[0]
            joint_price = float(
                price_cache.of(joint_counts[:, None], next_trials, needed=True)[0]
            )
            if joint_price < trial_prices[winner]:
                trial_counts, trial_prices, winner = (
                    joint_counts[:, None],
                    np.array([joint_price]),
                    0,
                )
        if trial_prices[winner] < best_price - 1e-9:
            best_counts, best_price = (
                trial_counts[:, winner],
                float(trial_prices[winner]),
            )
        elif step_factor <= _LAST_STEP:
            break
        else:
            step_factor = _smaller_step(step_factor)
    return draft.with_counts(best_counts)


def _smaller_step(step: float) -> float:
    return max(_LAST_STEP, math.sqrt(step))


class _PriceCache:
    """The prices of counts, each computed once.

    Computing many costs little more than computing one, as long as the arrays are
    small. So counts that the search is likely to request next are priced as well.
    """

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.log_prices: dict[bytes, float] = {}

    def of(
        self, counts: Array, next_counts: Array | None = None, *, needed: bool = False
    ) -> Array:
        """Return the log price of every column of ``counts``.

        Those of ``next_counts`` are priced if any other has to be. Unless they are
        ``needed`` it is not done for many of them.
        """
        column_keys = [column_key.tobytes() for column_key in counts.T]
        if not all(column_key in self.log_prices for column_key in column_keys):
            if next_counts is not None and (needed or next_counts.size <= _FEW):
                counts = np.concatenate([counts, next_counts], axis=1)
            self._work_out(counts)
        return np.array([self.log_prices[column_key] for column_key in column_keys])

    def _work_out(self, counts: Array) -> None:
        column_index = {
            column_key.tobytes(): i for i, column_key in enumerate(counts.T)
        }
        new_columns = {
            column_key: i
            for column_key, i in column_index.items()
            if column_key not in self.log_prices
        }
        new_prices = self.draft.log_price(counts[:, list(new_columns.values())])
        self.log_prices.update(zip(new_columns, new_prices.tolist(), strict=True))


def _neighbours(counts: Array, step: float) -> tuple[Array, tuple[Array, Array]]:
    """Return the candidates that raise or lower one count, and the changed counts.

    Columns: all raised ones, then all lowered ones.
    """
    raised_counts = np.maximum(counts + 1.0, np.round(counts * step))
    lowered_counts = np.maximum(1.0, np.minimum(counts - 1.0, np.round(counts / step)))
    num_counts = len(counts)
    trial_counts = np.tile(counts[:, None], (1, 2 * num_counts))
    trial_counts[np.arange(num_counts), np.arange(num_counts)] = raised_counts
    trial_counts[np.arange(num_counts), num_counts + np.arange(num_counts)] = (
        lowered_counts
    )
    return trial_counts, (raised_counts, lowered_counts)


def tighten(draft: Draft, draws: int) -> Draft:
    """Return the draft with every count as low as ``draws`` root samples allow.

    The most expensive rows come first.
    """
    counts = np.array([float(draft.rows[i].samples) for i in draft.counted_rows])
    last_row = len(draft.rows) - 1
    visits = level_visits(draft.rows, last_row, 1, draft.base.facts.num_actions)
    row_order = sorted(
        range(len(counts)),
        key=lambda k: -(math.log(visits[draft.counted_rows[k]]) + math.log(counts[k])),
    )
    open_rows = [k for k in row_order if counts[k] > 1.0]
    while open_rows:
        lower_counts = np.tile(counts[:, None], (1, len(open_rows)))
        lower_counts[open_rows, np.arange(len(open_rows))] -= 1.0
        promise_holds = draft.holds(draws, lower_counts)
        # slack only shrinks, so a count that cannot be lowered now never can
        open_rows = [
            k
            for k, still_holds in zip(open_rows, promise_holds, strict=True)
            if still_holds
        ]
        if open_rows:
            counts[open_rows[0]] = _lowest_count(draft, draws, counts, open_rows[0])
            open_rows = open_rows[1:]
    return draft.with_counts(counts)


def _lowest_count(draft: Draft, draws: int, counts: Array, k: int) -> float:
    """Return the smallest count of the k-th counted row that keeps the promise.

    It relies on one less than the present count keeping it.
    """
    lower_count, upper_count = 1.0, counts[k] - 1.0  # invariant: high holds
    while lower_count < upper_count:
        tried_counts = np.unique(
            np.floor(np.linspace(lower_count, upper_count - 1.0, 12))
        )
        trial_counts = np.tile(counts[:, None], (1, len(tried_counts)))
        trial_counts[k] = tried_counts
        promise_holds = draft.holds(draws, trial_counts)
        first_holding = (
            int(np.argmax(promise_holds)) if promise_holds.any() else len(tried_counts)
        )
        lower_count = (
            float(tried_counts[first_holding - 1]) + 1.0
            if first_holding > 0
            else float(tried_counts[0])
        )
        upper_count = (
            float(tried_counts[first_holding])
            if first_holding < len(tried_counts)
            else upper_count
        )
    return float(upper_count)


def _reshape_rungs(draft: Draft) -> Draft:
    """Return the draft with other queries and numbers of rungs, where these pay.

    Every randomized row tries one rung more and one less, and the plain rows next to
    its query; those next to the root come first.
    """
    if not draft.scales:
        return draft
    plain_rows = [i for i, x in enumerate(draft.row_moments) if not np.any(x.rare)]
    steps_left = draft.remaining
    random_rows = [i for i, row in enumerate(draft.rows) if KINDS[row.kind].randomized]
    best_price = float(draft.log_price()[0])
    for i in random_rows[::-1][: max(1, _MORE_WORK // (4 * len(draft.rows)))]:
        query_rows = [
            k for k in plain_rows if steps_left[k] == steps_left[draft.rows[i].query]
        ]
        for change_row in (_fewer_rungs, _more_rungs, _wider_query, _narrower_query):
            level = change_row(draft.rows[i], query_rows)
            if level is None or level.query >= i:
                continue
            trial_draft = draft.with_row(i, level)
            trial_price = float(trial_draft.log_price()[0])
            if trial_price < best_price - 1e-6:
                draft, best_price = trial_draft, trial_price
    return _prune_rows(draft)


def _prune_rows(draft: Draft) -> Draft:
    """Return the draft without the rows that nothing leads to."""
    used_rows = {len(draft.rows) - 1}
    for i in range(len(draft.rows) - 1, -1, -1):
        if i in used_rows:
            used_rows |= {draft.rows[i].query, draft.rows[i].continuation} - {-1}
    kept_rows = sorted(used_rows)
    row_index = {-1: -1, **{i: k for k, i in enumerate(kept_rows)}}
    new_rows = [
        replace(
            row, query=row_index[row.query], continuation=row_index[row.continuation]
        )
        for row in (draft.rows[i] for i in kept_rows)
    ]
    return replace(
        draft,
        rows=tuple(new_rows),
        remaining=tuple(draft.remaining[i] for i in kept_rows),
        scales=tuple(draft.scales[i] for i in kept_rows) if draft.scales else (),
    )


def _fewer_rungs(row: Level, queries: list[int]) -> Level | None:
    return replace(row, rungs=row.rungs[:-1]) if len(row.rungs) > 1 else None


def _more_rungs(row: Level, queries: list[int]) -> Level | None:
    if len(row.rungs) >= MOST_RUNGS:
        return None
    return replace(row, rungs=(*row.rungs, row.rungs[-1]))  # its scale sets the chance


def _wider_query(row: Level, queries: list[int]) -> Level | None:
    query_index = queries.index(row.query) - 1
    return replace(row, query=queries[query_index]) if query_index >= 0 else None


def _narrower_query(row: Level, queries: list[int]) -> Level | None:
    query_index = queries.index(row.query) + 1
    return (
        replace(row, query=queries[query_index])
        if query_index < len(queries)
        else None
    )


# --- rungs ----------------------------------------------------------------------


def balance_rungs(draft: Draft) -> Draft:
    """Return the draft with scales for its rungs that are best for the whole table.

    Where row i adds e_j/p_j to its own second moment, the root's S^2 grows by w_i times
    that, and where it adds p_j c_j calls, the price of a root sample C by n_i times
    those: p_j = sqrt(e_j/c_j) sqrt(w_i C/(S^2 n_i)) makes S^2 C smallest.
    """
    scales = draft.scales or (None,) * len(draft.rows)
    scales = tuple(
        (0.0 if old_scale is None else old_scale)
        if KINDS[row.kind].randomized
        else None
        for row, old_scale in zip(draft.rows, scales, strict=True)
    )
    is_first = not draft.scales
    for _ in range(_BALANCES):
        check_patience()
        # the first scales are those of the rungs that the walk has chosen
        scaled_draft = draft if is_first else draft.with_scales(scales)
        is_first = False
        row_weights, row_visits = _sensitivities(scaled_draft)
        _, _, second_moment, log_cost = (float(x[0]) for x in scaled_draft.draws())
        if draft.target == "q_values":  # of one action
            log_cost -= math.log(draft.base.facts.num_actions)
        scales = tuple(
            None
            if old_scale is None
            else 0.5 * (math.log(w / n) + log_cost - math.log(second_moment))
            for old_scale, w, n in zip(scales, row_weights, row_visits, strict=True)
        )
    return draft.with_scales(scales)


def _row_rungs(draft: Draft, row: int) -> tuple[Array, Array]:
    """Return (p_j, share of the continuation's second moment in e_j) of a row."""
    level = draft.rows[row]
    query, onward = draft.back(level.query), draft.back(level.continuation)
    assert query is not None
    num_samples = np.array([float(level.samples)])
    terms = KINDS[level.kind].terms(draft.base, level, num_samples, query, onward)
    rungs = chances(draft.base, level, terms, draft.scale(row), query, onward)
    return rungs[:, 0], np.max(terms.passed, axis=1)[:, 0]


def _sensitivities(draft: Draft) -> tuple[list[float], list[float]]:
    """Return (w_i, n_i) of every row on the path below the root."""
    num_rows = len(draft.rows)
    row_weights, row_visits = [0.0] * num_rows, [0.0] * num_rows
    gamma = draft.base.facts.discount
    row_weights[-1] = 1.0 if draft.target == "value" else gamma * gamma
    row_visits[-1] = 1.0
    for i in range(num_rows - 1, -1, -1):
        row = draft.rows[i]
        if row_visits[i] == 0.0 or row.continuation < 0:
            continue
        moment_factor = visit_factor = 1.0
        if KINDS[row.kind].randomized:
            rungs, passed_share = _row_rungs(draft, i)
            is_used = rungs > 0.0
            moment_factor += float(np.sum(passed_share[is_used] / rungs[is_used]))
            visit_factor += float(np.sum(rungs))
        row_weights[row.continuation] += gamma * gamma * row_weights[i] * moment_factor
        row_visits[row.continuation] += row_visits[i] * visit_factor
    return row_weights, row_visits


def fix_rungs(draft: Draft) -> Draft:
    """Return the draft with rungs in the place of scales."""
    new_rows = [
        replace(row, rungs=tuple(float(p) for p in _row_rungs(draft, i)[0]))
        if KINDS[row.kind].randomized
        else row
        for i, row in enumerate(draft.rows)
    ]
    return replace(draft, rows=tuple(new_rows), scales=())


def find_improvements(
    cell: Array, price: Array, cell_prices: Array
) -> tuple[Array, Array]:
    """Return (cells, candidates): the cells that get cheaper, and by which candidate.

    ``cell_prices`` has the price of every cell so far. Of equal candidates the first
    counts.
    """
    cheaper = np.flatnonzero(price < cell_prices[cell])
    if len(cheaper) == 0:
        return cheaper, cheaper
    price_order = np.lexsort((price[cheaper], cell[cheaper]))
    cells = cell[cheaper][price_order]
    is_first = np.ones(len(cells), dtype=np.bool_)
    np.not_equal(cells[1:], cells[:-1], out=is_first[1:])
    return cells[is_first], cheaper[price_order[is_first]]
