"""Strategy iteration at discount 1: policies of both players that nobody can improve.

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

from smoothcruiser.exact.chains import Rows, Work, best_rows, policy_value
from smoothcruiser.exact.qualitative import attracted, touches
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


def best_play(rows: Rows, is_max: Bools, towards: Ints, work: Work) -> Play | None:
    """Policies that neither player can improve, beginning at ``towards`` (max).

    None where no proper policy was found, which only rounding can cause.
    """
    choice = np.where(is_max, towards, rows.first[:-1])
    found: Play | None = None
    seen: set[bytes] = set()
    for _ in range(MOST_STEPS):
        choice, start = _replied(rows, is_max, choice, found, work)
        if start is None:
            return found
        reply = _improved(rows, ~is_max, -1.0, Play(choice, start), work)
        if found is not None and _repeats(reply.choice, seen):
            return reply
        found = reply
        better = _better(rows, is_max, 1.0, found)
        if better is None or work.over() is not None:
            return found
        choice = better
    return found


def covering(rows: Rows, least: Floats, choice: Ints, work: Work) -> Floats | None:
    """x >= least + W x for every row: what payments of ``least`` (m,) > 0 may add up to.

    Policy iteration from ``choice``, doubled, so that it need not end at the last
    digit. None where plays need not end.
    """
    paid, near = replace(rows, reward=least), np.zeros(rows.size + 1)
    for _ in range(MOST_STEPS):
        x = policy_value(paid, choice, near, work)
        if x is None:
            return None
        drift, size = paid.drift(x)
        gain = drift - 8.0 * UNIT * (size + x[paid.owner])  # more may be rounding
        if not np.any(gain > 0.5 * least):
            return 2.0 * x
        best = best_rows(paid, np.where(gain > 0.25 * least, gain, -np.inf))
        choice, near = np.where(gain[best] > 0.25 * least[best], best, choice), x
    return None


def _replied(
    rows: Rows, is_max: Bools, choice: Ints, before: Play | None, work: Work
) -> tuple[Ints, Floats | None]:
    """A proper policy with the max player's rows of ``choice``, and its value."""
    near = np.zeros(rows.size + 1) if before is None else before.x
    x = None if before is None else policy_value(rows, choice, near, work)
    if x is None:
        fixed = np.zeros(len(rows.owner), dtype=np.bool_)
        fixed[choice] = True
        alive = fixed | ~is_max[rows.owner]
        nobody = np.zeros(rows.size, dtype=np.bool_)
        out = touches(rows, nobody, outside=True)
        way = attracted(rows, wants=~is_max, hits=out, alive=alive).choice
        choice = np.where(is_max | (way < 0), choice, way)
        x = policy_value(rows, choice, near, work)
    return choice, x


def _improved(rows: Rows, mine: Bools, sign: float, play: Play, work: Work) -> Play:
    """The best reply of the player who moves at ``mine``, by policy iteration."""
    seen: set[bytes] = set()
    for _ in range(MOST_STEPS):
        better = _better(rows, mine, sign, play)
        if better is None or work.over() is not None or _repeats(better, seen):
            return play
        x = policy_value(rows, better, play.x, work)
        if x is None:
            return play
        play = Play(better, x)
    return play


def _better(rows: Rows, mine: Bools, sign: float, play: Play) -> Ints | None:
    """The rows that are strictly better by the value of ``play``; None if none is."""
    if not mine.any():
        return None
    gain, size = rows.drift(play.x)
    best = best_rows(rows, sign * gain)
    least = LEAST_GAIN * (size[best] + np.abs(play.x[:-1]))
    switch = mine & (sign * (gain[best] - gain[play.choice]) > least)
    return np.where(switch, best, play.choice) if switch.any() else None


def _repeats(choice: Ints, seen: set[bytes]) -> bool:
    """Whether a policy was met before; it is noted."""
    key = choice.tobytes()
    if key in seen:
        return True
    seen.add(key)
    return False
