"""Inventory with lost sales and a lead time: the classical problem without a simple rule.

Zipkin 2008. An order arrives ``lead`` periods after it was made; demand that finds no
stock is lost. The state is (stock, orders that arrive after 1, …, lead - 1 periods). Let d
be the demand of a period, then

    cost = holding max(stock - d, 0) + penalty max(d - stock, 0),
    stock' = min(max(stock - d, 0) + the order that arrives, capacity),

and the reward is minus the cost. Demand is Poisson with mean ``demand``, cut at the
smallest number that it exceeds with probability at most 1e-5, which has the rest of the
mass; it is the quantile of one uniform number, so that equal streams mean equal demand.
Stock above the capacity is thrown away. Both change the published long-run costs in no
printed digit (``benchmarks/gap/truths.py``: 4.04, 4.40, 4.60 for lead times 1 to 3).

States come back, though there are 21 · 10^(lead - 1) of them: the model is small enough for
an independent solution, and along a path of noise orders merge.
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.problem.problem import MDP, Problem
from smoothcruiser.problem.zoo.literature import check_real, check_whole

DISCOUNT = 0.97
TAIL = 1e-5  # of the demand, moved to its largest number
MOST_DEMAND = 100.0  # in the mean: exp(-demand) must not vanish


def lost_sales(
    *,
    lead: int = 2,
    penalty: float = 4.0,
    holding: float = 1.0,
    demand: float = 5.0,
    capacity: int = 20,
    orders: int = 9,
    **rest: Any,
) -> Problem:
    """The shop, with ``demand`` units on hand and in every order; actions 0..orders."""
    lead = check_whole("lead", lead, 1, 8)
    penalty = check_real("penalty", penalty, 0.0)
    holding = check_real("holding", holding, 0.0)
    demand = check_real("demand", demand, 1e-3, MOST_DEMAND)
    capacity = check_whole("capacity", capacity, 1)
    orders = check_whole("orders", orders, 1)
    if rest["discount"] is None:
        rest["discount"] = DISCOUNT
    quantiles = demand_quantiles(demand)
    usual_order = min(round(demand), orders)
    largest_cost = max(holding * capacity, penalty * len(quantiles))
    return MDP(
        _ordering_step(lead, (holding, penalty), capacity, quantiles),
        num_actions=orders + 1,
        reward_range=(-largest_cost, 0.0),
        initial_state=(min(round(demand), capacity), *(usual_order,) * (lead - 1)),
        actions=[f"order {units}" for units in range(orders + 1)],
        **rest,
    )


def demand_quantiles(demand: float) -> tuple[float, ...]:
    """P(D <= k) for k = 0, 1, … below the largest demand, which is their number."""
    chance = total = math.exp(-demand)
    quantiles = []
    while 1.0 - total > TAIL:
        quantiles.append(total)
        chance *= demand / len(quantiles)
        total += chance
    return tuple(quantiles)


def _ordering_step(
    lead: int, costs: tuple[float, float], capacity: int, quantiles: tuple[float, ...]
) -> Any:
    """The compiled step."""
    from numba import njit

    holding, penalty = costs

    @njit
    def serve_demand(stock, sample):  # type: ignore[no-untyped-def]
        """The reward of a period, and the units that stay."""
        demand = 0
        for quantile in quantiles:
            demand += sample >= quantile
        left = max(stock - demand, 0)
        return -(holding * left + penalty * max(demand - stock, 0)), left

    if lead == 1:

        @njit
        def step_at_once(shop, action, rng):  # type: ignore[no-untyped-def]
            reward, left = serve_demand(shop[0], rng.random())
            return reward, (min(left + action, capacity),)

        return step_at_once

    @njit
    def step(shop, action, rng):  # type: ignore[no-untyped-def]
        reward, left = serve_demand(shop[0], rng.random())
        return reward, (min(left + shop[1], capacity), *shop[2:], action)

    return step
