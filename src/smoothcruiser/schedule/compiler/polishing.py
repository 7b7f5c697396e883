"""Better counts, queries and rungs for a draft.

The frontier chooses structure and rough counts. Here the counts are moved
together by coordinate search on the price; the root's count is what the promise
then needs. After rounding, every count is lowered as long as the promise holds,
so that no slack is left.

What this file leaves out: what a draft promises (``draft``), and trust
(``verify.sharp`` checks the table again).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from smoothcruiser.schedule.compiler.draft import Draft
from smoothcruiser.schedule.kinds import KINDS
from smoothcruiser.schedule.kinds.chances import MOST_RUNGS, chances
from smoothcruiser.schedule.reach import check_patience
from smoothcruiser.schedule.schedule import Level, level_visits

Array = Any

_FIRST_STEP, _LAST_STEP = 1.25, 1.004  # of the coordinate search: factors on a count
_MAX_ROUNDS = 40
# The most rows that one search evaluates: about a fifth of a second, whatever the
# length of the table.
_WORK = 1200
_MORE_WORK = 4 * _WORK  # for a randomized table, of which there is one
# Counts that are worked out before they are asked for: rows times candidates. The
# arrays of 20 rows still cost what an empty one costs.
_FEW = 2 * 20 * 20
_BALANCES = 5  # rounds of a fixed point that converges within a few


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
    known = _Prices(draft)
    price = float(known.of(best[:, None])[0])
    step = _FIRST_STEP
    work = _WORK if not draft.scales else _MORE_WORK
    for _ in range(min(_MAX_ROUNDS, work // (2 * len(draft.rows)))):
        check_patience()
        trial, moved = _neighbours(best, step)
        # the next step looks at the same counts if this one changes nothing
        prices = known.of(trial, _neighbours(best, _smaller(step))[0])
        winner = int(np.argmin(prices))
        if len(best) > 1:
            gains = (
                np.minimum(prices[: len(best)], prices[len(best) : 2 * len(best)])
                < price
            )
            up = prices[: len(best)] < prices[len(best) : 2 * len(best)]
            joint = np.where(gains, np.where(up, moved[0], moved[1]), best)
            # the next step looks around the joint move, if that wins
            around = _neighbours(joint, step)[0]
            joint_price = float(known.of(joint[:, None], around, needed=True)[0])
            if joint_price < prices[winner]:
                trial, prices, winner = joint[:, None], np.array([joint_price]), 0
        if prices[winner] < price - 1e-9:
            best, price = trial[:, winner], float(prices[winner])
        elif step <= _LAST_STEP:
            break
        else:
            step = _smaller(step)
    return draft.with_counts(best)


def _smaller(step: float) -> float:
    return max(_LAST_STEP, math.sqrt(step))


class _Prices:
    """The prices of counts, each worked out once.

    Working out many costs little more than working out one, as long as the arrays are
    small. So counts that the search is likely to ask for next are worked out as well.
    """

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.found: dict[bytes, float] = {}

    def of(
        self, counts: Array, next_ones: Array | None = None, *, needed: bool = False
    ) -> Array:
        """Return the log price of every column of ``counts``.

        Those of ``next_ones`` are worked out if any other has to be. Unless they are
        ``needed`` it is not done for many of them.
        """
        columns = [column.tobytes() for column in counts.T]
        if not all(column in self.found for column in columns):
            if next_ones is not None and (needed or next_ones.size <= _FEW):
                counts = np.concatenate([counts, next_ones], axis=1)
            self._work_out(counts)
        return np.array([self.found[column] for column in columns])

    def _work_out(self, counts: Array) -> None:
        columns = {column.tobytes(): i for i, column in enumerate(counts.T)}
        new = {name: i for name, i in columns.items() if name not in self.found}
        prices = self.draft.log_price(counts[:, list(new.values())])
        self.found.update(zip(new, prices.tolist(), strict=True))


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
        check_patience()
        # the first scales are those of the rungs that the walk has chosen
        now = draft if first else draft.with_scales(scales)
        first = False
        weight, visits = _sensitivities(now)
        _, _, second, price = (float(x[0]) for x in now.draws())
        if draft.target == "q_values":  # of one action
            price -= math.log(draft.base.facts.num_actions)
        scales = tuple(
            None if old is None else 0.5 * (math.log(w / n) + price - math.log(second))
            for old, w, n in zip(scales, weight, visits, strict=True)
        )
    return draft.with_scales(scales)


def _rungs(draft: Draft, row: int) -> tuple[Array, Array]:
    """Return (p_j, share of the continuation's second moment in e_j) of a row."""
    level = draft.rows[row]
    query, onward = draft.back(level.query), draft.back(level.continuation)
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
