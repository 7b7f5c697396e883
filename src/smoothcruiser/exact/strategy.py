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
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from smoothcruiser.exact.chains import Rows, SweepBudget, best_rows, policy_value
from smoothcruiser.exact.qualitative import attract_states, touches
from smoothcruiser.exact.stopped import UNIT
from smoothcruiser.problem.tabular import Bools, Floats, Ints

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
        reply_play = _improve_play(rows, ~is_max, -1.0, Play(choice, start_value), work)
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
        best_choice = best_rows(paid_rows, np.where(gain > 0.25 * least, gain, -np.inf))
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
