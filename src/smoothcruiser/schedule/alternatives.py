"""Alternatives that fit a budget when the requested promise does not.

They are a larger epsilon, a larger temperature, or another method. An
alternative is a sentence that a user can act on: a plan with the numbers in it,
as printed, fits the budget. Epsilon comes from the compiler's inverse.
Temperatures are raised in steps until the price fits, and each comes with its
effect on the value: |V_lambda - V_0| <= M/(1-gamma).
"""

from __future__ import annotations

import dataclasses
import math
from contextlib import suppress
from functools import lru_cache, partial
from typing import NamedTuple

from smoothcruiser.errors import SmoothcruiserError, Unpayable
from smoothcruiser.problem.facts import Facts
from smoothcruiser.run_control.clock import Clock
from smoothcruiser.schedule.compiler.optimizer import (
    ALL_KINDS,
    affordable_epsilon,
    compile_schedule,
    smallest_epsilon,
)
from smoothcruiser.schedule.kinds import Kinds
from smoothcruiser.schedule.number_text import power_of_ten, short
from smoothcruiser.schedule.reach import (
    MOST_ROWS,
    USEFUL,
    OutOfReach,
    OutOfTime,
    check_patience,
    patience,
)
from smoothcruiser.schedule.schedule import Schedule, Target
from smoothcruiser.theory.least_price import least_price

# Up to 16,000 times the temperature; beyond, the policy is practically uniform.
FACTOR, MOST_STEPS = 4.0, 7
# The frontier's epsilon for a budget is at most 1/0.85 of the smallest that a polished
# schedule pays (``optimizer.smallest_epsilon``); beyond this factor none is compiled.
BEYOND = 1.25
# A share of the value span: below it rounding, not sampling, limits an answer. A span
# of 0 counts as ``TINY``.
FINEST, TINY = 1e-7, 1e-3
OFFER_SECONDS = 2.0  # a refusal that comes later is no help
STEEPEST = 1e60  # times: no promise is widened by more at once
# A budget of which less than this share would be used is searched again, between the
# last epsilon that was too dear and the first that was not.
HALF = 0.5
# A quick search compiles at most so many schedules. A price falls like 1/epsilon**50 at
# discount 0.9; where one price is known, that is its slope.
MOST_TABLES, STEEP_PRICE, FARTHEST_STEP = 8, -50.0, math.log(2.0)


class PromiseRequest(NamedTuple):
    """A requested promise, and the method that should keep it."""

    method: str
    epsilon: float
    delta: float
    target: Target

    @classmethod
    def of(cls, schedule: Schedule) -> PromiseRequest:
        """The promise of a schedule."""
        return cls(
            schedule.method, schedule.epsilon, schedule.delta, schedule.root.target
        )


def refusal(
    facts: Facts, wish: PromiseRequest, price: str, budget: int, looks: int
) -> Unpayable:
    """The error for a promise that costs ``price``, with payable alternatives."""
    offer_lines = "".join(
        f"\n  - {sentence}"
        for sentence in list_alternatives(facts, wish, budget - looks)
    )
    return Unpayable(
        f"This promise costs {price} oracle calls, above the budget of {short(budget)} "
        f"(budget=). What can be paid:{offer_lines}"
    )


def out_of_reach(
    facts: Facts, wish: PromiseRequest, error: OutOfReach, budget: int, looks: int
) -> Unpayable:
    """The error for a promise for which no schedule is searched."""
    price = f"at least {power_of_ten(error.log_calls)}"
    if error.log_calls <= math.log(budget):  # its table is too long, not its price
        return error
    return refusal(facts, wish, price, budget, looks)


def list_alternatives(
    facts: Facts, schedule: Schedule | PromiseRequest, budget: int
) -> list[str]:
    """Return the alternatives as sentences, the nearest promise first.

    One that is not found within ``OFFER_SECONDS`` is left out.
    """
    with patience(OFFER_SECONDS, Clock().elapsed):
        return _offers(facts, schedule, budget)


def _offers(
    facts: Facts, schedule: Schedule | PromiseRequest, budget: int
) -> list[str]:
    wish = (
        schedule
        if isinstance(schedule, PromiseRequest)
        else PromiseRequest.of(schedule)
    )
    target = wish.target
    sentences: list[str] = []
    if wish.method != "smoothcruiser":
        sentences += _sharp_alternative(facts, wish, budget)
    try:
        delta = wish.delta if wish.delta < 1.0 else 0.1
        _check_useful(facts, delta, target, budget)
        epsilon = payable_epsilon(facts, delta, target, budget)
        span_share = epsilon / facts.value_span() if facts.value_span() > 0 else 0.0
        sentences.append(
            f"epsilon {epsilon:g} ({100 * span_share:.3g}% of the value span) with "
            "method smoothcruiser, within this budget"
        )
    except SmoothcruiserError:
        pass
    warmer_plan = payable_temperature(
        facts, wish.epsilon, min(wish.delta, 0.5), target, budget
    )
    if warmer_plan is not None:
        temperature, num_calls, distance = warmer_plan
        sentences.append(
            f"temperature {temperature:g} at this epsilon: {num_calls:,} calls; its "
            f"value differs from that of plain max by at most {distance:.3g}"
        )
    sentences.append(
        "method certified, if states can be told apart (by == and hash, or key=): its "
        "price depends on the problem, not on the worst case"
    )
    return sentences


def _check_useful(facts: Facts, delta: float, target: Target, budget: int) -> None:
    """Refuse to search an epsilon where no informative one can be paid."""
    value_span = facts.value_span()
    lower_bound = least_price(facts, USEFUL * value_span or 1.0, delta, target)
    if lower_bound.log_calls > math.log(max(1, budget)):
        raise Unpayable("No schedule that is worth its price costs so little.")


def payable_epsilon(facts: Facts, delta: float, target: Target, budget: int) -> float:
    """An epsilon of three digits, near the smallest that fits the budget."""
    return payable_schedule(facts, delta, target, budget).epsilon


def payable_schedule(
    facts: Facts,
    delta: float,
    target: Target,
    budget: int,
    kinds: Kinds = ALL_KINDS,
    method: str = "smoothcruiser",
) -> Schedule:
    """The schedule that fits the budget with an epsilon near the smallest.

    The compiler's inverse does not count the share of bets on the data in the worst
    case (10 to 25%), so its answer is raised, by 1% or more, until that is paid too.
    """
    compile_at = partial(
        compile_schedule, facts, delta=delta, target=target, kinds=kinds, method=method
    )
    smallest_found = _smallest_epsilon(facts, delta, target, budget, kinds)
    epsilon_low, epsilon_high = (
        0.0,
        max(_round_up(smallest_found), FINEST * max(facts.value_span(), TINY)),
    )
    schedule = compile_at(epsilon=epsilon_high)
    while schedule.num_calls > budget:
        epsilon_low = epsilon_high
        raise_factor = math.exp(
            0.2 * (math.log(schedule.num_calls) - math.log(budget))
        )
        epsilon_high = _round_up(max(1.01, min(raise_factor, STEEPEST)) * epsilon_high)
        schedule = compile_at(epsilon=epsilon_high)
    # Where discounts are large a price falls as steeply as 1/epsilon**500, and the last
    # step went far beyond.
    with suppress(OutOfTime):
        while epsilon_low > 0.0 and schedule.num_calls < HALF * budget:
            middle_epsilon = _round_up(math.sqrt(epsilon_low * epsilon_high))
            if middle_epsilon >= epsilon_high:
                break
            finer_schedule = compile_at(epsilon=middle_epsilon)
            if finer_schedule.num_calls <= budget:
                schedule, epsilon_high = finer_schedule, middle_epsilon
            else:
                epsilon_low = middle_epsilon
    return schedule


def quick_schedule(
    facts: Facts,
    delta: float,
    target: Target,
    budget: int,
    kinds: Kinds = ALL_KINDS,
    method: str = "smoothcruiser",
) -> Schedule:
    """The dearest schedule within the budget that a short search finds.

    It begins with the frontier's answer and follows the logarithm of the price, as a
    line through the last two schedules, until one costs more than ``HALF`` of the
    budget. Where the time ends (``reach.patience``), the best so far is returned.
    """
    compile_at = partial(
        compile_schedule, facts, delta=delta, target=target, kinds=kinds, method=method
    )
    epsilon = _round_up(
        max(
            affordable_epsilon(
                facts, budget=budget, delta=delta, target=target, kinds=kinds
            ),
            FINEST * max(facts.value_span(), TINY),
        )
    )
    best_schedule, goal_price = None, math.log(max(1, budget)) + math.log(HALF) / 2.0
    log_prices: dict[float, float] = {}  # log price by log epsilon
    with suppress(OutOfTime):
        for _ in range(MOST_TABLES):
            schedule = compile_at(epsilon=epsilon)
            if schedule.num_calls <= budget:
                if (
                    best_schedule is None
                    or schedule.num_calls > best_schedule.num_calls
                ):
                    best_schedule = schedule
                if schedule.num_calls >= HALF * budget:
                    break
            log_prices[math.log(epsilon)] = math.log(schedule.num_calls)
            epsilon = _round_up(math.exp(_next_epsilon(log_prices, goal_price)))
            if math.log(epsilon) in log_prices:
                break
    if best_schedule is None:
        check_patience()
        raise Unpayable(f"No schedule of at most {budget:,} calls was found.")
    return best_schedule


def _next_epsilon(log_prices: dict[float, float], goal_price: float) -> float:
    """The log epsilon at which a line through two known prices reaches ``goal``.

    The line goes through the nearest price on each side, and stays away from both; from
    one side alone it goes ``FARTHEST_STEP`` at the most.
    """
    dear_epsilon = max(
        (x for x, y in log_prices.items() if y > goal_price), default=None
    )
    cheap_epsilon = min(
        (x for x, y in log_prices.items() if y <= goal_price), default=None
    )
    if dear_epsilon is not None and cheap_epsilon is not None:
        line_share = (log_prices[dear_epsilon] - goal_price) / (
            log_prices[dear_epsilon] - log_prices[cheap_epsilon]
        )
        return dear_epsilon + min(max(line_share, 0.1), 0.9) * (
            cheap_epsilon - dear_epsilon
        )
    nearest_epsilon = dear_epsilon if cheap_epsilon is None else cheap_epsilon
    assert nearest_epsilon is not None
    slope = STEEP_PRICE
    if len(log_prices) > 1:
        previous_epsilon = min(
            (x for x in log_prices if x != nearest_epsilon),
            key=lambda x: abs(x - nearest_epsilon),
        )
        slope = min(
            (log_prices[nearest_epsilon] - log_prices[previous_epsilon])
            / (nearest_epsilon - previous_epsilon),
            -1.0,
        )
    step = (goal_price - log_prices[nearest_epsilon]) / slope
    return nearest_epsilon + min(max(step, -FARTHEST_STEP), FARTHEST_STEP)


@lru_cache(maxsize=64)
def _smallest_epsilon(
    facts: Facts, delta: float, target: Target, budget: int, kinds: Kinds
) -> float:
    """The compiler's inverse, cached: it takes seconds, and ``explain`` repeats it."""
    return smallest_epsilon(
        facts, budget=budget, delta=delta, target=target, kinds=kinds
    )


def payable_temperature(
    facts: Facts, epsilon: float, delta: float, target: Target, budget: int
) -> tuple[float, int, float] | None:
    """Return the first raised temperature with a schedule within the budget.

    It comes as (temperature, calls, bound on |V_lambda - V_0|).
    """
    operator = facts.operator
    if operator.strength == 0.0 or not dataclasses.is_dataclass(operator):
        return None
    for exponent in range(1, MOST_STEPS + 1):
        try:
            temperature = operator.strength * FACTOR**exponent
            warmer = dataclasses.replace(operator, temperature=temperature)  # type: ignore[call-arg]
            warmer_facts = facts.under(warmer)
            lower_bound = least_price(warmer_facts, epsilon, delta, target)
            if (
                lower_bound.log_calls > math.log(budget)
                or lower_bound.depth > MOST_ROWS
            ):
                continue
            affordable = affordable_epsilon(
                warmer_facts, budget=budget, delta=delta, target=target
            )
            if affordable > BEYOND * epsilon:
                continue
            num_calls = compile_schedule(
                warmer_facts, epsilon=epsilon, delta=delta, target=target
            ).num_calls
        except (SmoothcruiserError, TypeError):
            continue
        if num_calls <= budget:
            return temperature, num_calls, warmer_facts.relaxation_bound()
    return None


def _sharp_alternative(facts: Facts, wish: PromiseRequest, budget: int) -> list[str]:
    if wish.delta >= 1.0:
        return []
    try:
        sharp_schedule = compile_schedule(
            facts, epsilon=wish.epsilon, delta=wish.delta, target=wish.target
        )
    except SmoothcruiserError:
        return []
    if sharp_schedule.num_calls > budget:
        return []
    return [
        "method smoothcruiser keeps this very promise for "
        f"{sharp_schedule.num_calls:,} calls"
    ]


def _round_up(epsilon: float) -> float:
    """Return epsilon rounded up to three digits, so that it is payable as printed."""
    from math import ceil, floor, log10

    if epsilon <= 0.0:
        return epsilon
    last_digit = 10.0 ** (floor(log10(epsilon)) - 2)
    return float(f"{ceil(epsilon / last_digit) * last_digit:.3g}")
