"""Prices and times that ``auto`` knows before anything is run.

All of them are rough but the schedule's own price. They decide only on the method,
never on the promise. Constants stand in place of measurements, so that no decision
depends on the clock (measured: docs/evidence/portfolio.md).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Promise
from smoothcruiser.schedule.numbers import power_of_ten, short
from smoothcruiser.schedule.reach import OutOfReach, OutOfTime

if TYPE_CHECKING:
    from smoothcruiser.engines.pilot import Pilot

# The time of a call of certified search over that of a schedule. In plain Python the
# step itself takes most of the time.
COMPILED_RATIO, PYTHON_RATIO = 25, 1
# calls that a search may take in any case, if the schedule takes more: 0.1 s compiled
WORTH_A_TRY = 20_000
# calls per second, for the times that ``explain`` shows
COMPILED_SPEED = 2e7
PYTHON_OVERHEAD = 3e-6  # seconds per call, beside the step itself
LOG_LONGEST = 700.0  # of seconds: a longer time is no number of float64
MOST_CALLS = 1e300  # that are printed as a number


def call_ratio(problem: Problem) -> int:
    """The time of a call of certified search over that of a schedule."""
    return COMPILED_RATIO if problem.is_compiled else PYTHON_RATIO


def worth_a_try(problem: Problem) -> int:
    """Calls that a search may take whatever the schedule costs."""
    return WORTH_A_TRY if problem.is_compiled else 0


def least_of_search(problem: Problem, promise: Promise) -> int:
    """Calls that a search needs at the least to keep the promise, roughly.

    After n samples of one outcome another one may still have the probability
    l/n, l = log(1/(share of delta)), so a pair needs about l times its range over
    the requested width. A deterministic pair needs one.
    """
    facts = problem.facts
    if problem.deterministic:
        return facts.num_actions
    log_level = math.log(4.0 * facts.num_actions / promise.failure())
    calls_per_action = (
        log_level * facts.discount * facts.value_span() / (2.0 * promise.half_width())
    )
    return facts.num_actions * max(1, math.ceil(min(calls_per_action, MOST_CALLS)))


def steps_that_matter(problem: Problem, promise: Promise, most: int) -> int:
    """Steps after which all that follows moves the value by less than the promise.

    A search goes about as deep, so it is there that states have to come back.
    """
    facts = problem.facts
    if promise.epsilon is None or facts.discount >= 1.0:
        return most
    relative_width = (
        2.0 * promise.epsilon / max(facts.value_span(), 2.0 * promise.epsilon)
    )
    if facts.discount <= relative_width:
        return 1
    return min(most, math.ceil(math.log(relative_width) / math.log(facts.discount)))


def seconds_of(
    problem: Problem, pilot: Pilot | None, method: str, calls: int
) -> float | None:
    """The time of the calls of a method; None where it is unknown or no number."""
    if problem.is_compiled:
        call_seconds = 1.0 / COMPILED_SPEED
    elif pilot is not None and pilot.seconds is not None:
        call_seconds = pilot.seconds + PYTHON_OVERHEAD
    else:
        return None
    call_seconds *= call_ratio(problem) if method == "certified" else 1
    log_seconds = math.log(max(1, calls)) + math.log(call_seconds)
    return math.exp(log_seconds) if log_seconds < LOG_LONGEST else None


def suggestion(
    problem: Problem, promise: Promise, pilot: Pilot | None
) -> tuple[str, ...]:
    """The saving by declaring the step deterministic, if it looks so.

    With one outcome per pair, the pairs of a tree of depth d settle the value
    within gamma**d of its span.
    """
    facts = problem.facts
    if pilot is None or pilot.by_chance or problem.deterministic:
        return ()
    epsilon = promise.epsilon
    price_text = "one call for each pair that it meets"
    if epsilon is not None and 0.0 < facts.discount < 1.0:
        depth = steps_that_matter(problem, promise, 60)
        num_pairs = sum(facts.num_actions**d for d in range(1, depth + 1))
        price_text += f", here at most {short(num_pairs)}"
    return (
        f"No chance was seen in {pilot.calls:,} calls. If the step is "
        "deterministic, say so: with deterministic=True certified search takes "
        f"{price_text}.",
    )


def no_schedule(error: Exception) -> str:
    """Why there is no schedule, within a sentence."""
    if isinstance(error, OutOfTime):
        return "the time is too short to look for a schedule"
    if isinstance(error, OutOfReach):
        return f"a schedule would cost at least {power_of_ten(error.log_calls)} calls"
    first_line = str(error).splitlines()[0].rstrip(".:")
    return f"there is no schedule ({first_line})"
