"""Bounds on V that the user knows: two numbers, or two functions of the state.

``value_bounds=(lower, upper)`` claims lower <= V <= upper in every state that is
not terminal and, with a horizon, for every number of steps left from 1 on with
which the state can be met. As functions they come with ``value_gap``, the most
that they are apart in any state.

They are intersected with the range that the rewards allow (``Facts.value_hull``). An
answer that proves the claim false is an error that names the state and the numbers:
bounds that exclude each other, that are farther apart than the gap, or that
leave nothing of the range that the rewards allow. Comparisons forgive ``bounds_slack``, the
rounding of a user's own sums.

This file leaves out the consequences of the bounds (docs/theory.md, section 2;
``theory.moments.middle``), and the loop over them in compiled code
(``engines.compiled.kernel``).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.problem.arguments import is_number
from smoothcruiser.problem.facts import BOUNDS_ROUNDING, Facts, largest
from smoothcruiser.problem.step_errors import failure

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import ProblemFields

MOST_STAGES = 10_000  # of a horizon at which declared bounds are checked

Interval = tuple[float, float]


@lru_cache(maxsize=64)  # it is asked at every leaf
def hull_and_slack(facts: Facts) -> tuple[Interval, float]:
    """The range that the rewards allow anywhere, and the rounding of an answer."""
    hull_low, hull_high = facts.value_hull()
    given_gap = facts.given_gap or 0.0
    return (hull_low, hull_high), BOUNDS_ROUNDING * (
        largest((hull_low, hull_high)) + given_gap
    )


def bounds_slack(facts: Facts) -> float:
    """How far rounding may move the answers of functions that bound V."""
    return hull_and_slack(facts)[1]


def bounds_at(
    problem: ProblemFields, state: Any, within: Interval | None = None
) -> Interval:
    """``within`` intersected with ``lower`` and ``upper`` at a state that is not over.

    ``within`` holds V of this state; by default it is the range that the rewards
    allow anywhere.
    """
    facts = problem.facts
    reward_hull, rounding_slack = hull_and_slack(facts)
    hull_low, hull_high = reward_hull if within is None else within
    lower, upper = (_call_bound(problem, side, state) for side in (0, 1))
    # nothing holds of NaN
    if not (
        -rounding_slack <= upper - lower <= (facts.given_gap or 0.0) + rounding_slack
        and lower <= hull_high + rounding_slack
        and upper >= hull_low - rounding_slack
    ):
        raise bad_bounds(state, lower, upper, facts, (hull_low, hull_high))
    lower, upper = max(lower, hull_low), min(upper, hull_high)
    # bounds that are tight to the last digit
    return (lower, upper) if lower <= upper else (upper, lower)


def middle_at(problem: ProblemFields, state: Any) -> float:
    """The middle of the bounds at a state that is not over."""
    lower, upper = bounds_at(problem, state)
    return 0.5 * (lower + upper)


def bad_bounds(
    state: Any,
    lower: float,
    upper: float,
    facts: Facts,
    within: Interval | None = None,
) -> OracleError:
    """The error for two answers that prove the claim false."""
    hull_low, hull_high = facts.value_hull() if within is None else within
    given_gap = facts.given_gap or 0.0
    if not (math.isfinite(lower) and math.isfinite(upper)):
        fault = "both have to be finite numbers"
    elif lower > upper:
        fault = "the lower bound has to be at most the upper one"
    elif upper - lower > given_gap:
        fault = (
            f"they are {upper - lower:g} apart, more than value_gap={given_gap:g}; "
            "declare the largest gap of all states"
        )
    else:
        fault = (
            f"the rewards allow values from {hull_low:g} to {hull_high:g}; fix "
            "value_bounds or reward_range"
        )
    return OracleError(
        f"value_bounds are {lower:.6g} and {upper:.6g} at state {state!r}, and {fault}."
    )


def _call_bound(problem: ProblemFields, side: int, state: Any) -> float:
    """The answer of one of the two functions for a state, as a float."""
    function: Any = problem.value_bounds[side]  # type: ignore[index]
    function_name = f"value_bounds[{side}]"
    try:
        answer = function(state)
    except BaseException as error:
        raise failure(function_name, error, state) from error
    try:
        return float(answer)
    except (TypeError, ValueError, OverflowError) as error:
        raise OracleError(
            f"{function_name} must return a number, got {answer!r} at state {state!r}."
        ) from error


def check_bounds(p: ProblemFields) -> None:
    """Refuse bounds that are neither two numbers in order nor two functions.

    Numbers must leave room for a value at every stage.
    """
    value_bounds: Any = p.value_bounds
    is_pair = isinstance(value_bounds, tuple | list) and len(value_bounds) == 2
    are_functions = is_pair and all(callable(bound) for bound in value_bounds)
    if value_bounds is not None and not are_functions:
        if not (
            is_pair
            and all(_is_finite(bound) for bound in value_bounds)
            and value_bounds[0] <= value_bounds[1]
        ):
            raise InvalidInput(
                "value_bounds must be two finite numbers (low, high) with low <= high, "
                f"or two functions of the state, got {value_bounds!r}."
            )
        _check_stages(p)
    value_gap: Any = p.value_gap
    if are_functions and value_gap is None:
        raise InvalidInput(
            "value_bounds that are functions of the state need value_gap=, the most "
            "that upper(state) - lower(state) is in any state."
        )
    if value_gap is not None and not are_functions:
        raise InvalidInput(
            "value_gap= belongs to value_bounds that are two functions of the state, "
            f"got value_bounds={value_bounds!r}; drop it."
        )
    if value_gap is not None and not (_is_finite(value_gap) and value_gap >= 0):
        raise InvalidInput(
            f"value_gap must be a finite number of at least 0, got {value_gap!r}."
        )


def _is_finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)


def _check_stages(p: ProblemFields) -> None:
    """Refuse bounds that leave no room for a value at some stage."""
    stages: list[int | None] = (
        [None]
        if p.horizon is None
        else list(range(1, min(p.horizon, MOST_STAGES) + 1))
    )
    for steps_left in stages:
        lower_bound, upper_bound = p.facts.plain_range(steps_left)
        stage_text = (
            ""
            if steps_left is None
            else f" with {steps_left} of {p.horizon} steps left"
        )
        if not lower_bound <= upper_bound:
            raise InvalidInput(
                f"value_bounds {p.value_bounds!r} exclude every value that the rewards "
                f"allow{stage_text}; they have to hold in every state that is not "
                "terminal, for every number of steps left: widen them."
            )
