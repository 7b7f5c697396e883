"""Ends, zeros and infinities of a model at discount 1, decided by its graph.

Rewards are nonnegative here, or every play ends. All sets are attractors: one player
wants to reach a set, helped by chance, and the other does not. Only the
support of the probabilities is read, so there is no rounding in any of it.

legend   symbol      here
  Z                  ``zero``: states where the min player can prevent every payment
  I                  ``infinite``: states where the max player can be paid for ever
                     with positive probability, whatever the min player does
  F                  all others that are not terminal: 0 < V < infinity

V = 0 on Z: outside Z the max player, helped by chance, reaches a row that pays. V is
infinite exactly on I (docs/theory.md, section 13).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothcruiser.exact import graph_kernel
from smoothcruiser.exact.chains import Rows, components, row_sums
from smoothcruiser.jit.build import compile_function
from smoothcruiser.problem.tabular import Bools, Ints


@dataclass(frozen=True, eq=False)
class Attraction:
    """The states that joined, and the row by which each of them did."""

    member: Bools  # (n,)
    choice: Ints  # (n,), -1 where none did


def attract_states(
    rows: Rows,
    *,
    wants: Bools,
    seeds: Bools | None = None,
    hits: Bools | None = None,
    alive: Bools | None = None,
) -> Attraction:
    """States that reach ``seeds`` or a row of ``hits`` with positive probability.

    ``wants`` marks the states of the player that wants to; elsewhere every ``alive``
    row has to. The outside is no seed: rows that lead to it are named by ``hits``.
    """
    num_rows, backward_rows = len(rows.owner), rows.backward
    member = np.zeros(rows.size, dtype=np.bool_) if seeds is None else seeds.copy()
    is_hit = np.zeros(num_rows, dtype=np.bool_) if hits is None else hits.copy()
    is_alive = np.ones(num_rows, dtype=np.bool_) if alive is None else alive
    choice = np.full(rows.size, -1, dtype=np.int64)
    compile_function(graph_kernel.attract)(
        *backward_rows, rows.owner, is_alive, wants, member, is_hit, choice
    )
    return Attraction(member, choice)


def touches(rows: Rows, states: Bools, *, outside: bool = False) -> Bools:
    """(m,): whether a row may lead to one of ``states`` (or to the outside)."""
    is_named = np.append(states, outside)[rows.target]
    return row_sums(rows.entry_row, is_named, len(rows.owner)) > 0


def never_ending(rows: Rows, *, unpaid: bool = False) -> Bools:
    """(n,): states where some choice of rows keeps every play inside for ever.

    With ``unpaid`` rows that pay count as ways out. None are left if and only if
    there is no end component (of rows that do not pay).
    """
    no_states = np.zeros(rows.size, dtype=np.bool_)
    leads_out = touches(rows, no_states, outside=True)
    return ~attract_states(
        rows, wants=no_states, hits=leads_out | rows.pays if unpaid else leads_out
    ).member


def zero_states(rows: Rows, is_max: Bools) -> tuple[Bools, Ints]:
    """(Z, for each other state of the max player a row on the way to a payment)."""
    attraction = attract_states(rows, wants=is_max, hits=rows.pays)
    return ~attraction.member, attraction.choice


def infinite_states(rows: Rows, is_max: Bools, zero: Bools) -> Bools:
    """I, where the max player can be paid for ever with positive probability.

    ``_surely_paid`` finds where that is certain as long as the min player avoids the
    states found before; from there, and from wherever the max player may get there, it
    has positive probability. Repeat until nothing is found.
    """
    is_infinite = np.zeros(rows.size, dtype=np.bool_)
    while True:
        is_sure = _surely_paid(
            rows, is_max, zero | is_infinite, ~touches(rows, is_infinite)
        )
        if not is_sure.any():
            return is_infinite
        is_infinite = attract_states(
            rows, wants=is_max, seeds=is_infinite | is_sure
        ).member


def _surely_paid(rows: Rows, is_max: Bools, out: Bools, allowed: Bools) -> Bools:
    """Where the max player is paid for ever with probability 1, by ``allowed`` rows.

    Each round takes away the states that cannot reach a payment, and those from which
    the min player may get there.
    """
    is_lost = out
    while True:
        # rows of the max player that may lead out of the rest are of no use, those of the
        # min player are a way out
        may_leave = touches(rows, is_lost, outside=True)
        is_lost = attract_states(
            rows, wants=~is_max, seeds=is_lost, hits=may_leave, alive=allowed
        ).member
        is_inside = (
            allowed & ~touches(rows, is_lost, outside=True) & ~is_lost[rows.owner]
        )
        payment = attract_states(
            rows, wants=is_max, hits=rows.pays & is_inside, alive=is_inside
        )
        is_stuck = ~payment.member & ~is_lost
        if not is_stuck.any():
            return ~is_lost
        is_lost = is_lost | is_stuck


def end_components(rows: Rows) -> tuple[Ints, int]:
    """A number for each state, equal inside a maximal end component; and how many.

    An end component is a set of states that rows without payment keep inside and
    connect.
    """
    is_alive = never_ending(rows, unpaid=True)
    if not is_alive.any():
        return np.arange(rows.size), rows.size
    keep_row = (
        is_alive[rows.owner] & ~touches(rows, ~is_alive, outside=True) & ~rows.pays
    )
    while True:
        inner_rows = rows.select_rows(keep_row)
        label, num_components = components(inner_rows)
        same_label = (
            np.append(label, -1)[inner_rows.target]
            == label[inner_rows.owner[inner_rows.entry_row]]
        )
        is_closed = (
            row_sums(inner_rows.entry_row, ~same_label, len(inner_rows.owner)) == 0
        )
        if is_closed.all():
            return label, num_components
        keep_row[np.flatnonzero(keep_row)[~is_closed]] = False
