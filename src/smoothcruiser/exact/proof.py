"""Proofs of bounds at discount 1: two functions that inequalities place around V.

(TX)(s) is the best r + E X over the rows of s, X = 0 where a play is over or nothing
more is paid. With rewards of at least 0, V is the least fixed point of T.

  Above: U >= 0 and, with one fixed row of each min state and all rows of max states,
  r + E U <= U. Then V <= U (Park induction), and that policy of the min player keeps
  every total at most U in the mean.

  Below: L >= 0 and, with one fixed row of each max state and all rows of min states,
  r + E L >= L where L > 0, and no end component without payment among these rows
  where L > 0. Then L <= V, and that policy of the max player earns at least L.

If every play ends, whatever is played, both hold for rewards of both signs. Proofs
are in docs/theory.md, section 13.

The inequalities are checked on the rows of the model, as sums of differences
p (r + U(z) - U(s)), with all roundings counted against them. Where the candidates
come from does not matter: U = x + e + d g and L = x + e - d g for the value x that
``strategy`` found, what rounding took from it, e, and a bound g on what the roundings
of all rows that a nearly optimal play takes add up to; d is doubled until the check
succeeds. Functions are
sums of two float64 numbers: x alone is too coarse where plays are long, because its
last digit moves a difference by more than a rare outcome does. For U the states of an end component
have one value between them, and g is that of its quotient: there every play ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from smoothcruiser.exact.chains import Rows, Work, best_rows, policy_value, sums
from smoothcruiser.exact.qualitative import end_components, never_ending
from smoothcruiser.exact.stopped import SLACK, UNIT
from smoothcruiser.exact.strategy import Play, covering
from smoothcruiser.problem.tabular import Bools, Floats, Ints

# Rows whose value is within this share of the best are "nearly optimal": fewer rows
# make g smaller, and the others must not exceed U by d g. The last takes all rows.
MARGINS = (1e-6, 1e-9, 1e-3, 1e-12, np.inf)
FIRST = 2.0**-80  # of the largest value: every row counts that much against a bound
DOUBLINGS = 40  # of d
REFINEMENTS = 2  # of the value of a policy: the second corrects LAPACK's own error
TINY = 1e-290  # numbers below are no digits: rewards are scaled to 1
UNDERFLOW = 1e-300  # more than a row's sums lose below the normal numbers


Attempt = Callable[[Floats], Floats | None]  # what was proven, if it was


@dataclass(frozen=True, eq=False)
class Arena:
    """The states F, their rows with and without self-loops, and who moves."""

    raw: Rows  # of the model: probabilities, as they are
    rows: Rows  # the same rows without self-loops; ``rows.row`` numbers those of raw
    paid: Floats  # (nnz of raw,): the reward of each outcome
    is_max: Bools  # (n,)
    signed: bool  # rewards of both signs: every play ends

    def signs(self, x: Floats) -> tuple[Floats, Floats]:
        """(low, high) of sum p (r + x(z) - x(s)) of each raw row, rounding included.

        For n outcomes, in units of 2**-53 of the terms' sizes: n + 2 for the
        normalization of stored rows (their exact sums are 1, so that x(s) may be
        subtracted inside), 3 for differences, their sum and that with r, 1 for the
        product, n for the sum, and 4 to spare.
        """
        raw, row = self.raw, self.raw.entry_row
        step, wide = raw.steps(x)
        count = len(raw.owner)
        mean = sums(row, raw.weight * (self.paid + step), count)
        size = sums(row, raw.weight * (np.abs(self.paid) + wide), count)
        room = SLACK * UNIT * (2.0 * np.diff(raw.start) + 10.0) * size
        # a row that pays nothing, between equal values, is 0 without any rounding
        room[raw.pays | (sums(row, wide != 0.0, count) > 0.0)] += UNDERFLOW
        return mean - room, mean + room

    def fixed(self, choice: Ints) -> Bools:
        """(m of raw,): the chosen rows of the model."""
        found = np.zeros(len(self.raw.owner), dtype=np.bool_)
        found[self.rows.row[choice]] = True
        return found


@dataclass(frozen=True, eq=False)
class Proven:
    """A function that was proven to bound V, with the policy that keeps it."""

    x: Floats  # (2, n + 1): the sum of two rows; the last column is 0
    near: Floats  # (n + 1,): the value that it bounds, as far as that is known
    choice: Ints  # (n,): rows without self-loops


def is_above(arena: Arena, x: Floats, choice: Ints) -> bool:
    """Whether V <= ``x`` is proven, with the min player's rows of ``choice``."""
    if not np.all(np.isfinite(x)) or (not arena.signed and np.any(x.sum(axis=0) < 0)):
        return False
    needed = arena.fixed(choice) | arena.is_max[arena.raw.owner]
    return not np.any(arena.signs(x)[1][needed] > 0.0)


def is_below(arena: Arena, x: Floats, choice: Ints) -> bool:
    """Whether ``x`` <= V is proven, with the max player's rows of ``choice``."""
    if not np.all(np.isfinite(x)):
        return False
    raw, is_max, total = arena.raw, arena.is_max, x.sum(axis=0)
    needed = arena.fixed(choice) | ~is_max[raw.owner]
    if arena.signed:
        return not np.any(arena.signs(x)[0][needed] < 0.0)
    positive = total[:-1] > 0.0
    kept = needed & positive[raw.owner]
    if np.any(total < 0.0) or np.any(arena.signs(x)[0][kept] < 0.0):
        return False
    # the states where x is 0 are outside
    label = np.where(positive, np.cumsum(positive) - 1, int(positive.sum()))
    inside = raw.only(kept).renamed(label, int(positive.sum()))
    return not never_ending(inside, unpaid=True).any()


def upper(arena: Arena, play: Play, work: Work) -> Proven | None:
    """A function above V, near the value of ``play``; None if no attempt succeeded."""
    rows = arena.rows
    kept = arena.is_max[rows.owner].copy()
    kept[play.choice] = True
    used = rows.only(kept)
    label, count = end_components(used)
    merged = used.merged(label, count)
    top = np.full(count + 1, -np.inf)
    np.maximum.at(top, label, play.x[:-1])
    top[count] = 0.0
    every = np.append(label, count)

    def attempt(x: Floats) -> Floats | None:
        full = x[:, every]
        if not arena.signed:
            full = np.where(full.sum(axis=0) < 0.0, 0.0, full)
        return full if is_above(arena, full, play.choice) else None

    found = _attempts(merged, top, 1.0, attempt, work)
    return None if found is None else Proven(found[0], found[1][every], play.choice)


def lower(arena: Arena, play: Play, work: Work) -> Proven | None:
    """A function below V, near the value of ``play``; None if no attempt succeeded."""
    rows = arena.rows
    kept = ~arena.is_max[rows.owner]
    kept[play.choice] = True
    used = rows.only(kept)

    def attempt(x: Floats) -> Floats | None:
        full = x if arena.signed else np.where(x.sum(axis=0) < TINY, 0.0, x)
        return full if is_below(arena, full, play.choice) else None

    found = _attempts(used, play.x, -1.0, attempt, work)
    return None if found is None else Proven(*found, play.choice)


def nothing(arena: Arena, play: Play) -> Proven:
    """0, which is below every total of rewards of at least 0."""
    return Proven(np.zeros((2, arena.rows.size + 1)), play.x, play.choice)


def _attempts(
    rows: Rows, x: Floats, sign: float, attempt: Attempt, work: Work
) -> tuple[Floats, Floats] | None:
    """x + e + sign d g that ``attempt`` accepts, and x + e; e is what ``x`` lacks.

    A row is nearly optimal if its ``excess`` is about 0: by how much it exceeds what
    is to be proven.
    """
    choice = best_rows(rows, sign * rows.drift(x)[0])
    fine = _refined(rows, x, choice, work)
    drift, size = rows.drift(fine)
    excess, scale = sign * drift, max(float(np.max(np.abs(x))), TINY)
    # what the check counts against a row, and the last digit of what is added to x
    least = UNIT * (2.0 * np.diff(rows.start) + 12.0) * size
    least += 4.0 * UNIT * float(np.max(np.abs(fine[1]))) + FIRST * scale + TINY
    for margin in MARGINS:
        near = excess >= -margin * scale
        near[choice] = True
        some = rows.only(near)
        if never_ending(some).any():
            continue
        at = np.searchsorted(np.flatnonzero(near), choice)
        cover = covering(some, least[near], at, work)
        if cover is None:
            continue
        d = max(float(np.max((excess / least)[near])), 0.5)
        for _ in range(DOUBLINGS):
            found = attempt(np.stack([fine[0], fine[1] + sign * d * cover]))
            if found is not None:
                return found, fine.sum(axis=0)
            d *= 2.0
    return None


def _refined(rows: Rows, x: Floats, choice: Ints, work: Work) -> Floats:
    """(2, n + 1): ``x``, and what it lacks to be the value of the policy ``choice``.

    What it lacks is itself a total: that of the policy's drift at ``x``.
    """
    fine = np.stack([x, np.zeros(len(x))])
    for _ in range(REFINEMENTS):
        missing = replace(rows, reward=rows.drift(fine)[0])
        more = policy_value(missing, choice, np.zeros(len(x)), work)
        if more is None:
            return fine
        fine[1] += more
    return fine
