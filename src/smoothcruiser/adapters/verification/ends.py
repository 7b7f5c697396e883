"""The ends of plays, by the graph and the probabilities of tables.

``circling``   states where some choice of rows keeps play inside forever
``ends_within``  (m, q): under every policy, play ends within m steps with probability q

Both are for tables that a file lists; neither is used by a search. The first reads only
which probabilities are above 0, so there is no rounding in it. The second is backward
induction, x_0 = [terminal], x_{n+1}(s) = min over a of the sum of p x_n: all terms are
nonnegative, so that after m sweeps of rows with k entries the relative error is below
m (k + 2) 2**-53, and q is lowered by ``ROUNDING``, which is more.
"""

from __future__ import annotations

import numpy as np

from smoothcruiser.problem.tabular import Bools, Ints, Tables

MAX_SWEEPS = 2000
MAX_ENTRIES_READ = 2e8  # entries that sweeps may read
ENOUGH_CHANCE = (
    0.5  # a larger q would bound the number of steps by less than half as many
)
# of q: 2000 sweeps over rows of 4,000 entries have a relative error below 9e-10
ROUNDING = 1e-9
LONGEST_ROW = 4000


def circling(tables: Tables, *, unpaid: bool) -> Bools:
    """(S,): states from which play can continue forever, if all players want it to.

    With ``unpaid`` rows that pay are left out: play can continue without a payment.
    """
    num_states, num_actions = tables.legal.shape
    entry_rows, entry_targets = _entries(tables)
    live_rows = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    if unpaid:
        live_rows = live_rows.copy()
        live_rows[entry_rows[tables.reward[tables.prob > 0.0] != 0.0]] = False
    inside = ~tables.terminal
    rows_left = np.where(
        inside, live_rows.reshape(num_states, num_actions).sum(axis=1), 0
    )
    by_target = np.argsort(entry_targets, kind="stable")
    first_entry = np.concatenate(
        [[0], np.cumsum(np.bincount(entry_targets, minlength=num_states))]
    )
    removed_states = np.flatnonzero(tables.terminal | (rows_left == 0))
    inside[removed_states] = False
    while len(removed_states):
        # rows that lead to a state that is gone go too, and states without rows
        entry_spans = [
            by_target[first_entry[s] : first_entry[s + 1]]
            for s in removed_states.tolist()
        ]
        lost_rows = np.unique(entry_rows[np.concatenate(entry_spans)])
        lost_rows = lost_rows[live_rows[lost_rows]]
        live_rows[lost_rows] = False
        np.subtract.at(rows_left, lost_rows // num_actions, 1)
        touched_states = np.unique(lost_rows // num_actions)
        removed_states = touched_states[
            (rows_left[touched_states] == 0) & inside[touched_states]
        ]
        inside[removed_states] = False
    return inside


def ends_within(tables: Tables) -> tuple[int, float] | None:
    """(m, q), or None where play may continue forever or no useful q is found soon."""
    if circling(tables, unpaid=False).any():
        return None
    num_states, num_actions = tables.legal.shape
    row_lengths = np.diff(tables.start)
    if row_lengths.max(initial=0) > LONGEST_ROW:
        return None
    usable_rows = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    entry_rows = np.repeat(np.arange(len(row_lengths)), row_lengths)
    end_chances = tables.terminal.astype(float)
    max_sweeps = int(min(MAX_SWEEPS, MAX_ENTRIES_READ // max(1, len(entry_rows))))
    for steps in range(1, max_sweeps + 1):
        row_means = np.bincount(
            entry_rows,
            weights=tables.prob * end_chances[tables.next_state],
            minlength=len(row_lengths),
        )
        worst_chances = (
            np.where(usable_rows, row_means, np.inf)
            .reshape(num_states, num_actions)
            .min(axis=1)
        )
        end_chances = np.where(tables.terminal, 1.0, np.minimum(worst_chances, 1.0))
        if end_chances.min() >= ENOUGH_CHANCE or steps == max_sweeps:
            q = float(end_chances.min()) * (1.0 - ROUNDING)
            return (steps, q) if q > 1e-6 else None
    return None


def _entries(tables: Tables) -> tuple[Ints, Ints]:
    """(row, next state) of every outcome that can happen."""
    entry_rows = np.repeat(np.arange(len(tables.start) - 1), np.diff(tables.start))
    is_used = tables.prob > 0.0
    return entry_rows[is_used], tables.next_state[is_used]
