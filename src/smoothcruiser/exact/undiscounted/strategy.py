"""Strategy iteration at discount 1: policies that neither player can improve.

All states have 0 < V < infinity, or every play ends. One player after the other: the
min player's best reply to the max player's policy by policy iteration, then the rows
that improve on its value for the max player (Hoffman and Karp 1966). Only strict
improvements are made, so a policy that stalls is never switched to: on a set that a
play never leaves, the improvements would sum to the mean payment, which is 0 there
(docs/theory.md, section 13). It begins with a policy that makes progress towards
payments (max) or the outside (min), which is proper.

Improvements below rounding are not made, and nothing here is trusted: ``proof``
checks the result and says how far it can be from V.

Ends, zeros and infinities of a model at discount 1, decided by its graph.

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

from dataclasses import dataclass, replace

import numpy as np

from smoothcruiser.exact.model import EXACT
from smoothcruiser.exact.solution import UNIT
from smoothcruiser.exact.undiscounted import graph_kernel
from smoothcruiser.exact.undiscounted.chains import (
    Rows,
    SweepBudget,
    best_rows,
    components,
    policy_value,
    row_sums,
)
from smoothcruiser.problem.model.tabular import Bools, Floats, Ints

# of the size of a row's terms and of its state's value: a smaller improvement may be
# rounding
LEAST_GAIN = 64.0 * UNIT
MOST_STEPS = 10_000  # of policy iteration; tens are usual


@dataclass(frozen=True, eq=False)
class Play:
    """A policy of both players, one row for each state, and its value."""

    choice: Ints  # (n,)
    x: Floats  # (n + 1,), the last is 0


def best_play(
    rows: Rows, is_max: Bools, towards: Ints, work: SweepBudget
) -> Play | None:
    """Policies that neither player can improve, beginning at ``towards`` (max).

    None where no proper policy was found, which only rounding can cause.
    """
    choice = np.where(is_max, towards, rows.first_rows[:-1])
    current_play: Play | None = None
    seen_policies: set[bytes] = set()
    for _ in range(MOST_STEPS):
        choice, start_value = _reply_to(rows, is_max, choice, current_play, work)
        if start_value is None:
            return current_play
        reply_play = _improve_play(
            rows, ~is_max, -1.0, Play(choice, start_value), work
        )
        if current_play is not None and _repeats(reply_play.choice, seen_policies):
            return reply_play
        current_play = reply_play
        better_choice = _better_choice(rows, is_max, 1.0, current_play)
        if better_choice is None or work.over() is not None:
            return current_play
        choice = better_choice
    return current_play


def covering(
    rows: Rows, least: Floats, choice: Ints, work: SweepBudget
) -> Floats | None:
    """x >= least + W x for every row: a bound on totals of payments ``least`` (m,) > 0.

    Policy iteration from ``choice``, doubled, so that it need not end at the last
    digit. None where plays need not end.
    """
    paid_rows, near_value = replace(rows, reward=least), np.zeros(rows.size + 1)
    for _ in range(MOST_STEPS):
        x = policy_value(paid_rows, choice, near_value, work)
        if x is None:
            return None
        row_drift, term_size = paid_rows.drift(x)
        gain = row_drift - 8.0 * UNIT * (
            term_size + x[paid_rows.owner]
        )  # more may be rounding
        if not np.any(gain > 0.5 * least):
            return 2.0 * x
        best_choice = best_rows(
            paid_rows, np.where(gain > 0.25 * least, gain, -np.inf)
        )
        choice, near_value = (
            np.where(
                gain[best_choice] > 0.25 * least[best_choice], best_choice, choice
            ),
            x,
        )
    return None


def _reply_to(
    rows: Rows,
    is_max: Bools,
    choice: Ints,
    earlier_play: Play | None,
    work: SweepBudget,
) -> tuple[Ints, Floats | None]:
    """A proper policy with the max player's rows of ``choice``, and its value."""
    near_value = np.zeros(rows.size + 1) if earlier_play is None else earlier_play.x
    x = None if earlier_play is None else policy_value(rows, choice, near_value, work)
    if x is None:
        is_fixed = np.zeros(len(rows.owner), dtype=np.bool_)
        is_fixed[choice] = True
        is_alive = is_fixed | ~is_max[rows.owner]
        no_states = np.zeros(rows.size, dtype=np.bool_)
        leads_out = touches(rows, no_states, outside=True)
        way_out = attract_states(
            rows, wants=~is_max, hits=leads_out, alive=is_alive
        ).choice
        choice = np.where(is_max | (way_out < 0), choice, way_out)
        x = policy_value(rows, choice, near_value, work)
    return choice, x


def _improve_play(
    rows: Rows, mine: Bools, sign: float, play: Play, work: SweepBudget
) -> Play:
    """The best reply of the player that moves at ``mine``, by policy iteration."""
    seen_policies: set[bytes] = set()
    for _ in range(MOST_STEPS):
        better_choice = _better_choice(rows, mine, sign, play)
        if (
            better_choice is None
            or work.over() is not None
            or _repeats(better_choice, seen_policies)
        ):
            return play
        x = policy_value(rows, better_choice, play.x, work)
        if x is None:
            return play
        play = Play(better_choice, x)
    return play


def _better_choice(rows: Rows, mine: Bools, sign: float, play: Play) -> Ints | None:
    """The rows that are strictly better by the value of ``play``; None if none is."""
    if not mine.any():
        return None
    row_gain, term_size = rows.drift(play.x)
    best_choice = best_rows(rows, sign * row_gain)
    min_gain = LEAST_GAIN * (term_size[best_choice] + np.abs(play.x[:-1]))
    is_better = mine & (
        sign * (row_gain[best_choice] - row_gain[play.choice]) > min_gain
    )
    return np.where(is_better, best_choice, play.choice) if is_better.any() else None


def _repeats(choice: Ints, seen_policies: set[bytes]) -> bool:
    """Whether a policy was met before; it is added to ``seen_policies``."""
    key = choice.tobytes()
    if key in seen_policies:
        return True
    seen_policies.add(key)
    return False


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
    EXACT.kernel(graph_kernel.attract)(
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
