"""Prices of a plan and its rivals, in calls and in seconds.

This is the part of ``explain`` that is not in the plan's own table.

  the paper         K N(eps) n(eps/sqrt(gamma)) with the printed constants and
                    the delta' that keeps delta (``theory.paper_constants``)
  sparse sampling   the same promise by plug-in levels alone: with the sharp
                    analysis (a fair comparison) and with the printed constants
  seconds           calls / (calls per second): ``COMPILED_SPEED`` where nothing
                    was measured, the user's own speed after ``calibrate``

A price may be known exactly, in log10 only (beyond 10^4 levels or 4,000
digits), or not at all (an analysis that does not cover the problem). Then the
note says why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.alternatives import list_alternatives
from smoothcruiser.schedule.compiler.optimizer import compile_schedule, sparse_sampling
from smoothcruiser.schedule.level_moments import level_moments
from smoothcruiser.schedule.number_text import duration, rate, short
from smoothcruiser.schedule.paper_schedule import MAX_DIGITS
from smoothcruiser.schedule.schedule import Schedule, own_calls
from smoothcruiser.states.state_json import count_data, number_data
from smoothcruiser.theory import paper_constants as paper

# calls per second of one core: the compiled engine on a cheap tabular step, to
# within a factor of 5
COMPILED_SPEED = 5e7
ALTERNATIVES_ABOVE = 10**9  # calls: the default budget, above which plan would refuse


@dataclass(frozen=True)
class Price:
    """The price of the same promise by another method."""

    name: str
    num_calls: int | None  # exact, where it can be counted
    log10: float | None  # of the calls; an upper bound where ``num_calls`` is None
    note: str = ""

    def __str__(self) -> str:
        if self.num_calls is not None:
            return short(self.num_calls)
        return self.note if self.log10 is None else f"up to 10^{self.log10:,.0f}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data; ``log10_calls`` is a bound unless ``price_is_exact``."""
        is_exact = self.num_calls is not None
        call_fields = (
            {"num_calls": None, "log10_calls": self.log10}
            if self.num_calls is None
            else count_data("num_calls", self.num_calls)
        )
        return {
            "name": self.name,
            **call_fields,
            "price_is_exact": is_exact,
            "note": self.note or None,
        }


def rivals(schedule: Schedule) -> list[Price]:
    """Prices of other methods for the same promise, the closest relative first."""
    # delta' was set without a promise: there is nothing to compare
    if schedule.delta >= 1.0:
        return []
    facts, epsilon, delta = schedule.facts, schedule.epsilon, schedule.delta
    prices: list[Price] = []
    if schedule.method != "smoothcruiser":
        prices.append(_schedule_price("smoothcruiser", compile_schedule, schedule))
    if schedule.method != "sparse-sampling":
        prices.append(
            _schedule_price(
                "sparse sampling, same sharp analysis", sparse_sampling, schedule
            )
        )
    prices.append(
        paper_price(
            "sparse sampling, paper's constants",
            facts,
            epsilon,
            delta,
            linearize=False,
        )
    )
    if schedule.method != "paper":
        prices.append(
            paper_price("SmoothCruiser, paper's constants", facts, epsilon, delta)
        )
    return prices


def _schedule_price(name: str, compile_method: Any, schedule: Schedule) -> Price:
    try:
        rival_schedule = compile_method(
            schedule.facts,
            epsilon=schedule.epsilon,
            delta=schedule.delta,
            target=schedule.root.target,
        )
    except SmoothcruiserError as error:
        return Price(name, None, None, str(error))
    return Price(
        name, rival_schedule.num_calls, math.log10(max(1, rival_schedule.num_calls))
    )


def paper_price(
    name: str, facts: Facts, epsilon: float, delta: float, *, linearize: bool = True
) -> Price:
    """The paper's own price of a promise.

    With its linearization it is SmoothCruiser's, without it sparse sampling's.
    """
    log10 = None
    try:
        setting = paper.PaperSetting.of(facts)
        setting = setting if linearize else paper.sparse_sampling(setting)
        log_calls = paper.log_delta_prime(setting, epsilon, delta, facts.horizon)[1]
        log10 = log_calls / math.log(10.0)
        if log10 > MAX_DIGITS:
            return Price(name, None, log10)
        delta_prime = paper.delta_prime(setting, epsilon, delta, facts.horizon)
        count = paper.oracle_calls(setting, epsilon, delta_prime, facts.horizon)
        return Price(name, count.exact, count.log10)
    except SmoothcruiserError as error:
        return Price(name, None, log10, str(error))


# --- seconds ------------------------------------------------------------------


def time_sentence(num_calls: int, speed: float | None, *, measured: bool) -> str:
    """The duration of ``num_calls``, and the source of the speed behind it."""
    if speed is None:
        return "unknown for a plain Python simulator; --calibrate measures its speed"
    seconds = math.exp(min(700.0, math.log(max(1, num_calls)) - math.log(speed)))
    speed_source = (
        "as measured here" if measured else "compiled; --calibrate measures yours"
    )
    return (
        f"{'' if seconds < 0.095 else 'about '}{duration(seconds)} "
        f"on one core at {rate(speed)} ({speed_source})"
    )


# --- as data ------------------------------------------------------------------


def explain_dict(
    schedule: Schedule,
    *,
    problem: str,
    speed: float | None,
    measured: bool,
    budget: int | None,
) -> dict[str, Any]:
    """``Schedule.to_dict`` with the additions of ``explain``.

    These are moments and shares of levels, rivals, seconds and alternatives.
    """
    schedule_data = schedule.to_dict()
    price = max(1, schedule.num_calls)
    calls_by_level = own_calls(
        schedule.levels, schedule.root, schedule.facts.num_actions
    )
    for level_data, moments, level_calls in zip(
        schedule_data["levels"], level_moments(schedule), calls_by_level, strict=True
    ):
        level_data |= {
            "bias": number_data(moments.bias),
            "range": moments.spread if math.isfinite(moments.spread) else None,
            **count_data("own_calls", level_calls),
            "share": level_calls / price,
        }
    seconds = None
    if speed is not None:
        seconds = math.exp(min(700.0, math.log(price) - math.log(speed)))
    return {
        "problem": problem,
        **schedule_data,
        "value_span": number_data(schedule.facts.value_span()),
        "calls_per_second": speed,
        "calls_per_second_measured": measured,
        "seconds_estimate": seconds,
        "rivals": [rival.to_dict() for rival in rivals(schedule)],
        "offers": alternatives_for(schedule, budget),
    }


def alternatives_for(schedule: Schedule, budget: int | None) -> list[str]:
    """Payable alternatives, where the price is above the budget or the default."""
    call_limit = ALTERNATIVES_ABOVE if budget is None else budget
    return (
        list_alternatives(schedule.facts, schedule, call_limit)
        if schedule.num_calls > call_limit
        else []
    )
