"""Rows of a known model: the outcomes that ``outcomes(state, action)`` lists, checked.

A row is [(probability, reward, next_state), ...]. Its probabilities must sum to 1
within ``ROW_SUM_TOLERANCE``, and are divided by their sum; outcomes of probability
0 are left out. The sum is correctly rounded (``math.fsum``), so that each returned
probability is within two roundings of the exact quotient. None in the place of a row
says that the model is not known there.

Rows are read by the exact solver, which explores all states and needs all rows, and
certified search, which reads them where it would sample, and samples where there is
none. Sampling methods never do.
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.errors import (
    Hung,
    InvalidInput,
    OracleError,
    SmoothcruiserError,
    choose_word,
    describe_error,
)
from smoothcruiser.problem.declaration_checks import rarest, too_rare
from smoothcruiser.problem.model.tabular import ROW_SUM_TOLERANCE
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import at_pair
from smoothcruiser.problem.totals import pays_early
from smoothcruiser.problem.wary_actions import (
    InsistsOnInt,
    call_warily,
    make_wary,
    takes_wary,
)

Row = list[tuple[float, float, Any]]
Outcomes = list[tuple[int, float, float]]  # next state's number, reward, probability
READ_AGAIN = 64  # rows that are read a second time


class BadRow(InvalidInput):
    """A malformed list of outcomes: an error for every method, also a sampling one."""


class NoRow(InvalidInput):
    """The model is not known at a pair, and the caller needs all of it."""

    def __init__(self, state: Any, action: int) -> None:
        self.where = f"{_call_text(state, action)} is None"
        super().__init__(
            f"{self.where}, so the model is not known there, and exact needs all of "
            "it; list that row, or use certified search, which samples where there is "
            "none."
        )


def has_rows(problem: Problem) -> bool:
    """Whether certified search reads ``outcomes``, where these have a row.

    Tables are sampled: they are there to be solved, and to test searches with.
    """
    return problem.outcomes is not None and problem.tables is None


def check_ends(problem: Problem) -> None:
    """Refuse a model that does not say where episodes end."""
    if problem.terminal is True:
        raise InvalidInput(
            "outcomes= cannot say where an episode ends; give terminal= as a "
            "function of the state instead of True."
        )


def read_row(problem: Problem, state: Any, action: int) -> Row:
    """The outcomes of one pair, for a caller that needs every row."""
    row = known_row(problem, state, action)
    if row is None:
        raise NoRow(state, action)
    return row


def known_row(problem: Problem, state: Any, action: int) -> Row | None:
    """The outcomes of one pair, checked and normalized; None if they are not known."""
    assert problem.outcomes is not None
    try:
        listed_row = _list_outcomes(problem, state, action)
        if listed_row is None:
            return None
        entries = [(float(p), float(r), z) for p, r, z in listed_row]
    except (TypeError, ValueError) as error:
        raise BadRow(
            f"{_call_text(state, action)} must list (probability, reward, next_state): "
            f"{error}."
        ) from error
    except (SmoothcruiserError, KeyboardInterrupt, Hung):
        raise
    except BaseException as error:
        raise OracleError(
            f"outcomes raised {describe_error(error)} {at_pair(state, action)}; fix it there."
        ) from error
    probabilities = [p for p, _, _ in entries]
    in_range = all(0.0 <= p <= 2.0 for p in probabilities)
    probability_sum = math.fsum(probabilities) if in_range else math.nan
    if not abs(probability_sum - 1.0) <= ROW_SUM_TOLERANCE:
        raise BadRow(
            f"{_call_text(state, action)} must hold probabilities that sum to 1, got "
            f"{probabilities!r:.200}."
        )
    if not all(math.isfinite(r) for _, r, _ in entries):
        raise BadRow(
            f"{_call_text(state, action)} must hold finite rewards, got "
            f"{[r for _, r, _ in entries]!r:.200}."
        )
    row = [(p / probability_sum, r, z) for p, r, z in entries if p > 0.0]
    _check_chances(problem, row, state, action)
    if problem.deterministic and len(row) > 1:
        _check_single(problem, row, state, action)
    return row


def _list_outcomes(problem: Problem, state: Any, action: int) -> Any:
    """The list that ``outcomes`` returns; comparing actions with names is refused."""
    assert problem.outcomes is not None
    try:
        if problem.tables is None and takes_wary(problem.outcomes):
            wary_action = make_wary(problem, action, "outcomes")
            return call_warily(problem.outcomes, state, wary_action)
    except InsistsOnInt:
        pass
    return problem.outcomes(state, action)


def _check_single(problem: Problem, row: Row, state: Any, action: int) -> None:
    """Refuse two outcomes where one was declared; the same may be listed twice."""
    outcomes = {(reward, problem.key_of(next_state)) for _, reward, next_state in row}
    if len(outcomes) > 1 and not problem.is_terminal(state):
        raise BadRow(
            f"{_call_text(state, action)} lists {len(outcomes)} outcomes, but "
            "deterministic=True says that there is one; drop deterministic=, or fix "
            "outcomes."
        )


def _check_chances(problem: Problem, row: Row, state: Any, action: int) -> None:
    """Refuse an outcome that is rarer than ``min_probability`` allows."""
    min_probability = problem.min_probability
    if min_probability is None or problem.is_terminal(state):
        return
    probabilities = [p for p, _, _ in row]
    if min(probabilities) >= min_probability:
        return
    outcomes = [(r, problem.key_of(z)) for _, r, z in row]
    rarest_share = rarest(min_probability, probabilities, outcomes)
    if rarest_share is not None:
        raise BadRow(
            too_rare(problem, f"state {state!r}, action {action}", rarest_share)
        )


def check_rewards(problem: Problem, row: Row, state: Any, action: int) -> None:
    """Refuse rewards outside ``reward_range``, or before the end if only ends pay.

    Bounds on states with unread rows rest on that. The exact solver reads
    all rows, and needs no range.
    """
    reward_low, reward_high = problem.facts.reward_range
    for _, reward, next_state in row:
        if pays_early(problem, reward, next_state, ended=False):
            raise OracleError(
                f"{_call_text(state, action)} lists reward {reward!r} with "
                f"{next_state!r}, where the episode goes on, but payoffs='end' is "
                "declared; drop payoffs= (total_reward_range= may hold), or fix "
                "outcomes."
            )
        if not reward_low <= reward <= reward_high:
            paid = choose_word("reward", problem.minimizes)
            raise OracleError(
                f"{_call_text(state, action)} lists {paid} {reward!r}, outside "
                f"reward_range ({reward_low:g}, {reward_high:g}); declare the range "
                f"that holds every {paid}, or fix outcomes."
            )


def same_rows(row: Outcomes, other_row: Outcomes) -> bool:
    """Whether two rows hold the same (next state's number, reward, probability).

    They may come in any order. Probabilities may differ by the rounding of sums in
    another order.
    """
    return len(row) == len(other_row) and all(
        x[:2] == y[:2] and math.isclose(x[2], y[2], rel_tol=1e-9)
        for x, y in zip(sorted(row), sorted(other_row), strict=True)
    )


def answered_again(state: Any, action: int) -> OracleError:
    """A model does not depend on the state and the action alone."""
    return OracleError(
        f"outcomes answered differently when asked again {at_pair(state, action)}; let it "
        "depend on the state and the action alone."
    )


def _call_text(state: Any, action: int) -> str:
    return f"outcomes({state!r}, {action})"


def check_model(problem: Problem) -> None:
    """Refuse a problem without a known model."""
    if problem.tables is None and problem.outcomes is None:
        raise InvalidInput(
            f"{problem.name} has no model, so it cannot be solved exactly: build the "
            "problem with tabular(), or give outcomes=, a function of (state, action) "
            "that lists (probability, reward, next_state)."
        )
