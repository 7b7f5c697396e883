"""What the graph of a model at discount 1 decides: ends, zeros and infinities.

Rewards are nonnegative here, or every play ends. All sets are attractors: a player
who wants to reach a set, helped by chance, against one who does not. Only the
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
from smoothcruiser.exact.chains import Rows, components, sums
from smoothcruiser.jit.build import compiled
from smoothcruiser.problem.tabular import Bools, Ints


@dataclass(frozen=True, eq=False)
class Attracted:
    """The states that joined, and the row by which each of them did."""

    member: Bools  # (n,)
    choice: Ints  # (n,), -1 where none did


def attracted(
    rows: Rows,
    *,
    wants: Bools,
    seeds: Bools | None = None,
    hits: Bools | None = None,
    alive: Bools | None = None,
) -> Attracted:
    """States that reach ``seeds`` or a row of ``hits`` with positive probability.

    ``wants`` marks the states of the player who wants to; elsewhere every ``alive``
    row has to. The outside is no seed: rows that lead to it are named by ``hits``.
    """
    count, back = len(rows.owner), rows.backward
    member = np.zeros(rows.size, dtype=np.bool_) if seeds is None else seeds.copy()
    hit = np.zeros(count, dtype=np.bool_) if hits is None else hits.copy()
    live = np.ones(count, dtype=np.bool_) if alive is None else alive
    choice = np.full(rows.size, -1, dtype=np.int64)
    compiled(graph_kernel.attract)(*back, rows.owner, live, wants, member, hit, choice)
    return Attracted(member, choice)


def touches(rows: Rows, states: Bools, *, outside: bool = False) -> Bools:
    """(m,): whether a row may lead to one of ``states`` (or to the outside)."""
    named = np.append(states, outside)[rows.target]
    return sums(rows.entry_row, named, len(rows.owner)) > 0


def never_ending(rows: Rows, *, unpaid: bool = False) -> Bools:
    """(n,): states where some choice of rows keeps every play inside for ever.

    With ``unpaid`` rows that pay count as ways out. None are left if and only if
    there is no end component (of rows that do not pay).
    """
    nobody = np.zeros(rows.size, dtype=np.bool_)
    out = touches(rows, nobody, outside=True)
    return ~attracted(
        rows, wants=nobody, hits=out | rows.pays if unpaid else out
    ).member


def zero_states(rows: Rows, is_max: Bools) -> tuple[Bools, Ints]:
    """(Z, for each other state of the max player a row on the way to a payment)."""
    found = attracted(rows, wants=is_max, hits=rows.pays)
    return ~found.member, found.choice


def infinite_states(rows: Rows, is_max: Bools, zero: Bools) -> Bools:
    """I, where the max player can be paid for ever with positive probability.

    ``_surely`` finds where that is certain as long as the min player avoids what was
    found before; from there, and from wherever the max player may get there, it has
    positive probability. Repeat until nothing is found.
    """
    found = np.zeros(rows.size, dtype=np.bool_)
    while True:
        sure = _surely(rows, is_max, zero | found, ~touches(rows, found))
        if not sure.any():
            return found
        found = attracted(rows, wants=is_max, seeds=found | sure).member


def _surely(rows: Rows, is_max: Bools, out: Bools, allowed: Bools) -> Bools:
    """Where the max player is paid for ever with probability 1, by ``allowed`` rows.

    Each round takes away the states that cannot reach a payment, and those from which
    the min player may get there.
    """
    lost = out
    while True:
        # rows of the max player that may lead out of what is left are of no use, those
        # of the min player are a way out
        leave = touches(rows, lost, outside=True)
        lost = attracted(
            rows, wants=~is_max, seeds=lost, hits=leave, alive=allowed
        ).member
        inside = allowed & ~touches(rows, lost, outside=True) & ~lost[rows.owner]
        paid = attracted(rows, wants=is_max, hits=rows.pays & inside, alive=inside)
        stuck = ~paid.member & ~lost
        if not stuck.any():
            return ~lost
        lost = lost | stuck


def end_components(rows: Rows) -> tuple[Ints, int]:
    """A number for each state, equal inside a maximal end component; and how many.

    An end component is a set of states that rows without payment keep inside and
    connect.
    """
    alive = never_ending(rows, unpaid=True)
    if not alive.any():
        return np.arange(rows.size), rows.size
    keep = alive[rows.owner] & ~touches(rows, ~alive, outside=True) & ~rows.pays
    while True:
        inner = rows.only(keep)
        label, count = components(inner)
        same = np.append(label, -1)[inner.target] == label[inner.owner[inner.entry_row]]
        closed = sums(inner.entry_row, ~same, len(inner.owner)) == 0
        if closed.all():
            return label, count
        keep[np.flatnonzero(keep)[~closed]] = False
