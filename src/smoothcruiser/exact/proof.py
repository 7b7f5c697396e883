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
come from does not matter: U = x + e + d g and L = x + e - d g for the value x of
``strategy``, its error of rounding, e, and a bound g on the sum of the roundings of all
rows that a nearly optimal play takes; d is doubled until the check succeeds. Functions
are sums of two float64 numbers: x alone is too coarse where plays are long, because its
last digit moves a difference by more than a rare outcome does. For U the states of an
end component have one value between them, and g is that of its quotient: there every
play ends.

Checks of the declared rewards and values against an exact solution.

The solution needs no declaration, so it stays right where one is wrong. But every other
method relies on them, and here an error can be seen: all rewards of the model are known,
and so are the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smoothcruiser.errors import OracleError
from smoothcruiser.exact.reachable import KnownModel
from smoothcruiser.exact.solution import SLACK, UNIT, Solution
from smoothcruiser.exact.undiscounted.chains import (
    Rows,
    SweepBudget,
    best_rows,
    policy_value,
    row_sums,
)
from smoothcruiser.exact.undiscounted.strategy import (
    Play,
    covering,
    end_components,
    never_ending,
)
from smoothcruiser.problem.bounds import bounds_at, bounds_slack
from smoothcruiser.problem.facts import AT_THE_END
from smoothcruiser.problem.model.known_outcomes import check_rewards
from smoothcruiser.problem.model.tabular import Bools, Floats, Ints
from smoothcruiser.problem.problem import Problem

# Rows with a value within this share of the best are "nearly optimal": fewer rows
# make g smaller, and the others must not exceed U by d g. The last takes all rows.
MARGINS = (1e-6, 1e-9, 1e-3, 1e-12, np.inf)
FIRST = 2.0**-80  # of the largest value: every row counts that much against a bound
DOUBLINGS = 40  # of d
REFINEMENTS = 2  # of the value of a policy: the second corrects LAPACK's own error
TINY = 1e-290  # numbers below are no digits: rewards are scaled to 1
UNDERFLOW = 1e-300  # more than a row's sums lose below the normal numbers


Attempt = Callable[[Floats], Floats | None]  # the proven bound, if there is one


@dataclass(frozen=True, eq=False)
class Arena:
    """The states F, their rows with and without self-loops, and their players."""

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
        raw, entry_row = self.raw, self.raw.entry_row
        value_steps, step_sizes = raw.steps(x)
        num_rows = len(raw.owner)
        mean_drift = row_sums(
            entry_row, raw.weight * (self.paid + value_steps), num_rows
        )
        term_size = row_sums(
            entry_row, raw.weight * (np.abs(self.paid) + step_sizes), num_rows
        )
        rounding_slack = SLACK * UNIT * (2.0 * np.diff(raw.start) + 10.0) * term_size
        # a row that pays nothing, between equal values, is 0 without any rounding
        rounding_slack[
            raw.pays | (row_sums(entry_row, step_sizes != 0.0, num_rows) > 0.0)
        ] += UNDERFLOW
        return mean_drift - rounding_slack, mean_drift + rounding_slack

    def chosen_rows(self, choice: Ints) -> Bools:
        """(m of raw,): the chosen rows of the model."""
        is_chosen = np.zeros(len(self.raw.owner), dtype=np.bool_)
        is_chosen[self.rows.row[choice]] = True
        return is_chosen


@dataclass(frozen=True, eq=False)
class ProvenBound:
    """A function that was proven to bound V, with the policy that keeps it."""

    x: Floats  # (2, n + 1): the sum of two rows; the last column is 0
    near: Floats  # (n + 1,): the value that it bounds, as far as that is known
    choice: Ints  # (n,): rows without self-loops


def is_above(arena: Arena, x: Floats, choice: Ints) -> bool:
    """Whether V <= ``x`` is proven, with the min player's rows of ``choice``."""
    if not np.all(np.isfinite(x)) or (not arena.signed and np.any(x.sum(axis=0) < 0)):
        return False
    is_needed = arena.chosen_rows(choice) | arena.is_max[arena.raw.owner]
    return not np.any(arena.signs(x)[1][is_needed] > 0.0)


def is_below(arena: Arena, x: Floats, choice: Ints) -> bool:
    """Whether ``x`` <= V is proven, with the max player's rows of ``choice``."""
    if not np.all(np.isfinite(x)):
        return False
    raw, is_max, x_total = arena.raw, arena.is_max, x.sum(axis=0)
    is_needed = arena.chosen_rows(choice) | ~is_max[raw.owner]
    if arena.signed:
        return not np.any(arena.signs(x)[0][is_needed] < 0.0)
    is_positive = x_total[:-1] > 0.0
    is_kept = is_needed & is_positive[raw.owner]
    if np.any(x_total < 0.0) or np.any(arena.signs(x)[0][is_kept] < 0.0):
        return False
    # the states where x is 0 are outside
    label = np.where(is_positive, np.cumsum(is_positive) - 1, int(is_positive.sum()))
    inside_rows = raw.select_rows(is_kept).renumber_states(
        label, int(is_positive.sum())
    )
    return not never_ending(inside_rows, unpaid=True).any()


def upper(arena: Arena, play: Play, work: SweepBudget) -> ProvenBound | None:
    """A function above V, near the value of ``play``; None if no attempt succeeded."""
    rows = arena.rows
    keep_row = arena.is_max[rows.owner].copy()
    keep_row[play.choice] = True
    used_rows = rows.select_rows(keep_row)
    label, num_classes = end_components(used_rows)
    merged_rows = used_rows.merge_classes(label, num_classes)
    class_value = np.full(num_classes + 1, -np.inf)
    np.maximum.at(class_value, label, play.x[:-1])
    class_value[num_classes] = 0.0
    class_index = np.append(label, num_classes)

    def attempt(x: Floats) -> Floats | None:
        full_bound = x[:, class_index]
        if not arena.signed:
            full_bound = np.where(full_bound.sum(axis=0) < 0.0, 0.0, full_bound)
        return full_bound if is_above(arena, full_bound, play.choice) else None

    proven_bound = _try_margins(merged_rows, class_value, 1.0, attempt, work)
    return (
        None
        if proven_bound is None
        else ProvenBound(proven_bound[0], proven_bound[1][class_index], play.choice)
    )


def lower(arena: Arena, play: Play, work: SweepBudget) -> ProvenBound | None:
    """A function below V, near the value of ``play``; None if no attempt succeeded."""
    rows = arena.rows
    keep_row = ~arena.is_max[rows.owner]
    keep_row[play.choice] = True
    used_rows = rows.select_rows(keep_row)

    def attempt(x: Floats) -> Floats | None:
        full_bound = x if arena.signed else np.where(x.sum(axis=0) < TINY, 0.0, x)
        return full_bound if is_below(arena, full_bound, play.choice) else None

    proven_bound = _try_margins(used_rows, play.x, -1.0, attempt, work)
    return None if proven_bound is None else ProvenBound(*proven_bound, play.choice)


def zero_bound(arena: Arena, play: Play) -> ProvenBound:
    """0, which is below every total of rewards of at least 0."""
    return ProvenBound(np.zeros((2, arena.rows.size + 1)), play.x, play.choice)


def _try_margins(
    rows: Rows, x: Floats, sign: float, attempt: Attempt, work: SweepBudget
) -> tuple[Floats, Floats] | None:
    """x + e + sign d g that ``attempt`` accepts, and x + e; e is the error of ``x``.

    A row is nearly optimal if its ``excess`` over the bound to be proven is about 0.
    """
    choice = best_rows(rows, sign * rows.drift(x)[0])
    refined_value = _refine_value(rows, x, choice, work)
    row_drift, term_size = rows.drift(refined_value)
    excess, value_scale = sign * row_drift, max(float(np.max(np.abs(x))), TINY)
    # the rounding that the check counts against a row, and the last digit of the addend
    min_payment = UNIT * (2.0 * np.diff(rows.start) + 12.0) * term_size
    min_payment += (
        4.0 * UNIT * float(np.max(np.abs(refined_value[1])))
        + FIRST * value_scale
        + TINY
    )
    for margin in MARGINS:
        is_near = excess >= -margin * value_scale
        is_near[choice] = True
        near_rows = rows.select_rows(is_near)
        if never_ending(near_rows).any():
            continue
        choice_place = np.searchsorted(np.flatnonzero(is_near), choice)
        cover_value = covering(near_rows, min_payment[is_near], choice_place, work)
        if cover_value is None:
            continue
        d = max(float(np.max((excess / min_payment)[is_near])), 0.5)
        for _ in range(DOUBLINGS):
            proven_bound = attempt(
                np.stack([refined_value[0], refined_value[1] + sign * d * cover_value])
            )
            if proven_bound is not None:
                return proven_bound, refined_value.sum(axis=0)
            d *= 2.0
    return None


def _refine_value(rows: Rows, x: Floats, choice: Ints, work: SweepBudget) -> Floats:
    """(2, n + 1): ``x``, and its distance from the value of the policy ``choice``.

    The distance is itself a total: that of the policy's drift at ``x``.
    """
    refined_value = np.stack([x, np.zeros(len(x))])
    for _ in range(REFINEMENTS):
        missing_rows = replace(rows, reward=rows.drift(refined_value)[0])
        missing_value = policy_value(missing_rows, choice, np.zeros(len(x)), work)
        if missing_value is None:
            return refined_value
        refined_value[1] += missing_value
    return refined_value


MOST_STATES = 1000  # that are compared, spread over all
UNUSED = "This answer does not rely on it; other methods do."


def broken_claims(
    problem: Problem, known: KnownModel, solution: Solution, state: Any
) -> tuple[str, ...]:
    """Notes on declarations that do not hold, as far as that was seen."""
    reward_note = broken_rewards(problem, known)
    # where rewards are not as declared, totals follow from nothing
    total_note = "" if reward_note else broken_total(problem, solution, state)
    claim_notes = reward_note, total_note, broken_bounds(problem, solution, state)
    return tuple(note for note in claim_notes if note)


def broken_rewards(problem: Problem, known: KnownModel) -> str:
    """A note that names a reward outside its range, or paid before the end."""
    tables, (lower_bound, upper_bound) = known.tables, problem.facts.reward_range
    is_wrong = ~((lower_bound <= tables.reward) & (tables.reward <= upper_bound))
    if problem.payoffs == AT_THE_END:
        is_wrong |= (tables.reward != 0.0) & ~_ends(problem, known)[tables.next_state]
    is_live = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    is_wrong &= np.repeat(is_live, np.diff(tables.start))  # nobody steps from an end
    for entry_index in np.flatnonzero(is_wrong & (tables.prob > 0.0))[:1].tolist():
        pair = int(np.searchsorted(tables.start, entry_index, side="right")) - 1
        row, action = divmod(pair, problem.num_actions)
        next_state = int(tables.next_state[entry_index])
        if known.states is not None:
            row, next_state = known.states[row], known.states[next_state]
        outcome = (
            float(tables.prob[entry_index]),
            float(tables.reward[entry_index]),
            next_state,
        )
        try:
            check_rewards(problem, [outcome], row, action)
        except OracleError as error:
            return f"{error} {UNUSED}"
    return ""


def _ends(problem: Problem, known: KnownModel) -> Bools:
    """(S,): where episodes end. A horizon that cuts them off does not end them."""
    is_end: Bools = known.tables.terminal.copy()
    if known.states is not None:
        end_rows = np.flatnonzero(is_end)
        is_end[end_rows] = [problem.is_terminal(known.states[row]) for row in end_rows]
    return is_end


def broken_total(problem: Problem, solution: Solution, state: Any) -> str:
    """A note that names a state with a value that the declared totals do not allow."""
    facts = replace(problem.facts, given_bounds=None, given_gap=None)
    claim_names = (
        [] if facts.known_total is None else ["total_reward_range or payoffs="]
    )
    if facts.episodes_end is not None:
        claim_names.append("episodes_end=")
    if not claim_names:
        return ""
    lower_bound, upper_bound = facts.value_hull()
    rounding_slack = solution.residual_bound + bounds_slack(problem.facts)
    for compared_state, value in _compared_values(problem, solution, state):
        if not lower_bound - rounding_slack <= value <= upper_bound + rounding_slack:
            return (
                f"{' or '.join(claim_names)} do not hold: with them values lie in "
                f"[{lower_bound:.6g}, {upper_bound:.6g}], and state {compared_state!r} is "
                f"worth {value:.6g}. {UNUSED}"
            )
    return ""


def broken_bounds(problem: Problem, solution: Solution, state: Any) -> str:
    """A note that names a state with a value outside ``value_bounds``.

    It is empty where none was seen.
    """
    if problem.value_bounds is None:
        return ""
    rounding_slack = solution.residual_bound + bounds_slack(problem.facts)
    for compared_state, value in _compared_values(problem, solution, state):
        try:
            lower_bound, upper_bound = (
                problem.value_bounds
                if problem.value_gap is None
                else bounds_at(problem, compared_state)
            )
        except OracleError as error:
            return f"{error} This answer does not rely on value_bounds."
        if not lower_bound - rounding_slack <= value <= upper_bound + rounding_slack:
            return (
                f"value_bounds do not hold: state {compared_state!r} is worth {value:.6g}, "
                f"and they say {lower_bound:.6g} to {upper_bound:.6g}. This answer does "
                "not rely on them; every method that samples does."
            )
    return ""


def _compared_values(
    problem: Problem, solution: Solution, state: Any
) -> Iterator[tuple[Any, float]]:
    """States that are not over, and their values: the requested one, and some more.

    With a horizon it is the requested state alone: only its number of steps left is
    certain.
    """
    compared_rows = [solution.index(state)]
    if problem.horizon is None:
        spread_rows = np.linspace(0, len(solution.values) - 1, MOST_STATES)
        compared_rows += np.unique(spread_rows.astype(np.int64)).tolist()
    for row in compared_rows:
        compared_state = row if solution.states is None else solution.states[row]
        value = float(solution.values[row])
        if not np.isnan(value) and not problem.is_terminal(compared_state):
            yield compared_state, value
