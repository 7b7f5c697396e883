"""The Bermudan max-call: the option that duality was first tried on.

Broadie and Glasserman 1997, Andersen and Broadie 2004. The owner of the option may
exercise it at one of the dates 0, T/n, …, T, which pays max(max_i S_i - K, 0) once. The
prices S_i are independent, each with

    S(t + dt) = S(t) exp((rate - dividend - volatility²/2) dt + volatility sqrt(dt) N),

N a standard normal number, and payments weigh exp(-rate dt) per period, which is the
discount unless another one is named. The state is the tuple of prices, none of which
comes back; time is the number of steps left.

A lognormal price has no largest value, and a range of rewards must be true. Prices are
therefore clipped at

    cap = spot exp((rate - dividend - volatility²/2) T + 5.5 volatility sqrt(T)).

Let D be a price minus its clipped form. The discounted D is a supermartingale but for the
overshoots at the cap, so that a clipped price costs any rule of exercise at most the sum
over dates of exp(-rate t) E(S(t) - cap)+: less than 2e-7 of the value for each of the
published options (``benchmarks/gap/truths.py`` computes it).

This file leaves out the published values (``benchmarks/gap/truths.py``).
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.problem.facts import AT_THE_END
from smoothcruiser.problem.problem import MDP, Problem
from smoothcruiser.problem.zoo.literature import check_real, check_whole

CAP_DEVIATIONS = 5.5  # of the log-price over the whole life; see the module's head
MOST_ASSETS = 20


def max_call(
    *,
    assets: int = 2,
    spot: float = 100.0,
    strike: float = 100.0,
    rate: float = 0.05,
    dividend: float = 0.1,
    volatility: float = 0.2,
    years: float = 3.0,
    periods: int = 9,
    **rest: Any,
) -> Problem:
    """The option on ``assets`` prices; actions exercise, hold; periods + 1 dates."""
    assets = check_whole("assets", assets, 1, MOST_ASSETS)
    periods = check_whole("periods", periods, 1)
    spot, strike = check_real("spot", spot, 1e-9), check_real("strike", strike, 0.0)
    rate, dividend = check_real("rate", rate), check_real("dividend", dividend)
    volatility = check_real("volatility", volatility, 0.0)
    years = check_real("years", years, 1e-9)
    period = years / periods
    growth = rate - dividend - volatility**2 / 2.0
    spread = CAP_DEVIATIONS * volatility * math.sqrt(years)
    cap = spot * math.exp(max(growth * years + spread, 0.0))
    law = growth * period, volatility * math.sqrt(period), cap
    if rest["discount"] is None:
        rest["discount"] = math.exp(-rate * period)
    rest.pop("horizon", None)  # the dates are the horizon
    return MDP(
        _exercise_step(assets, strike, law),
        num_actions=2,
        reward_range=(0.0, max(cap - strike, 0.0)),
        payoffs=AT_THE_END,
        terminal=True,
        horizon=periods + 1,
        initial_state=(spot,) * assets,
        actions=("exercise", "hold"),
        **rest,
    )


def _exercise_step(assets: int, strike: float, law: tuple[float, float, float]) -> Any:
    """The compiled step."""
    from numba import njit

    drift, deviation, cap = law

    @njit
    def next_price(price, rng):  # type: ignore[no-untyped-def]
        return min(price * math.exp(drift + deviation * rng.normal()), cap)

    next_prices = _price_moves(assets, next_price)

    @njit
    def step(prices, action, rng):  # type: ignore[no-untyped-def]
        if action == 0:
            return max(max(prices) - strike, 0.0), prices, True
        return 0.0, next_prices(prices, rng), False

    return step


def _price_moves(assets: int, next_price: Any) -> Any:
    """A compiled function that moves every price of a tuple, the first one first."""
    from numba import njit

    if assets == 1:

        @njit
        def move_one(prices, rng):  # type: ignore[no-untyped-def]
            return (next_price(prices[0], rng),)

        return move_one
    move_first = _price_moves(assets - 1, next_price)

    @njit
    def move_all(prices, rng):  # type: ignore[no-untyped-def]
        return (*move_first(prices[:-1], rng), next_price(prices[-1], rng))

    return move_all
