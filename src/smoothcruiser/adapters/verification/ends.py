"""What the graph and the probabilities of tables say of the ends of plays.

``circling``   states where some choice of rows keeps play inside for ever
``ends_within``  (m, q): whatever is played, play ends within m steps with probability q

Both are for tables that a file lists; neither is used by a search. The first reads only
which probabilities are above 0, so there is no rounding in it. The second is backward
induction, x_0 = [terminal], x_{n+1}(s) = min over a of the sum of p x_n: all terms are
nonnegative, so that after m sweeps of rows with k entries the relative error is below
m (k + 2) 2**-53, and q is lowered by ``ROUNDING``, which is more.
"""

from __future__ import annotations

import numpy as np

from smoothcruiser.problem.tabular import Bools, Ints, Tables

MOST_SWEEPS = 2000
MOST_WORK = 2e8  # entries that sweeps may read
ENOUGH = 0.5  # a larger q would bound the number of steps by less than half as many
# of q: 2000 sweeps over rows of 4,000 entries have a relative error below 9e-10
ROUNDING = 1e-9
LONGEST_ROW = 4000


def circling(tables: Tables, *, unpaid: bool) -> Bools:
    """(S,): states from where play can be kept going for ever, whoever moves.

    With ``unpaid`` rows that pay are left out: play can be kept going without a payment.
    """
    size, width = tables.legal.shape
    row, target = _entries(tables)
    live = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    if unpaid:
        live = live.copy()
        live[row[tables.reward[tables.prob > 0.0] != 0.0]] = False
    inside = ~tables.terminal
    left = np.where(inside, live.reshape(size, width).sum(axis=1), 0)
    order = np.argsort(target, kind="stable")
    begin = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=size))])
    gone = np.flatnonzero(tables.terminal | (left == 0))
    inside[gone] = False
    while len(gone):
        # rows that lead to a state that is gone go too, and states without rows
        spans = [order[begin[s] : begin[s + 1]] for s in gone.tolist()]
        rows = np.unique(row[np.concatenate(spans)])
        rows = rows[live[rows]]
        live[rows] = False
        np.subtract.at(left, rows // width, 1)
        states = np.unique(rows // width)
        gone = states[(left[states] == 0) & inside[states]]
        inside[gone] = False
    return inside


def ends_within(tables: Tables) -> tuple[int, float] | None:
    """(m, q), or None where play may go on for ever or nothing useful is found soon."""
    if circling(tables, unpaid=False).any():
        return None
    size, width = tables.legal.shape
    lengths = np.diff(tables.start)
    if lengths.max(initial=0) > LONGEST_ROW:
        return None
    usable = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    row = np.repeat(np.arange(len(lengths)), lengths)
    over = tables.terminal.astype(float)
    sweeps = int(min(MOST_SWEEPS, MOST_WORK // max(1, len(row))))
    for steps in range(1, sweeps + 1):
        mean = np.bincount(
            row, weights=tables.prob * over[tables.next_state], minlength=len(lengths)
        )
        worst = np.where(usable, mean, np.inf).reshape(size, width).min(axis=1)
        over = np.where(tables.terminal, 1.0, np.minimum(worst, 1.0))
        if over.min() >= ENOUGH or steps == sweeps:
            q = float(over.min()) * (1.0 - ROUNDING)
            return (steps, q) if q > 1e-6 else None
    return None


def _entries(tables: Tables) -> tuple[Ints, Ints]:
    """(row, next state) of every outcome that can happen."""
    row = np.repeat(np.arange(len(tables.start) - 1), np.diff(tables.start))
    used = tables.prob > 0.0
    return row[used], tables.next_state[used]
