"""Energy storage: buy, keep or sell one unit while the price reverts to its mean.

The state is (level, log price x), the level from 0 to ``levels``. Buying pays exp(x) for
one unit, selling returns (1 - loss) exp(x); at the ends of the store they do nothing. Then

    x' = keep x + noise N, clipped to [-most, most], N a standard normal number.

The action does not move the price: along one path of noise only the levels differ, and
states merge. The price itself never comes back, so nothing can be counted. It is the
smallest problem in which a schedule and certified search have nothing to say and a dual
bound has everything.

Rewards lie in [-exp(most), (1 - loss) exp(most)], widened by 1e-12 of them since Python
and machine code may round exp in two ways.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from smoothcruiser.problem.problem import MDP, Problem
from smoothcruiser.problem.zoo.literature import check_real, check_whole

DISCOUNT = 0.99


class StoreState(NamedTuple):
    """Units in the store, and the logarithm of the price."""

    level: int
    log_price: float


def storage(
    *,
    levels: int = 10,
    loss: float = 0.05,
    keep: float = 0.9,
    noise: float = 0.2,
    most: float = 1.2,
    **rest: Any,
) -> Problem:
    """The store, half full at the mean price; actions sell, keep, buy."""
    levels = check_whole("levels", levels, 1)
    loss = check_real("loss", loss, 0.0, 1.0)
    keep, noise = check_real("keep", keep, -1.0, 1.0), check_real("noise", noise, 0.0)
    most = check_real("most", most, 0.0, 100.0)
    if rest["discount"] is None:
        rest["discount"] = DISCOUNT
    largest_price = math.exp(most) * (1.0 + 1e-12)
    return MDP(
        _trading_step(levels, 1.0 - loss, (keep, noise, most)),
        num_actions=3,
        reward_range=(-largest_price, (1.0 - loss) * largest_price),
        initial_state=StoreState(levels // 2, 0.0),
        actions=("sell", "keep", "buy"),
        **rest,
    )


def _trading_step(levels: int, share: float, law: tuple[float, float, float]) -> Any:
    """The compiled step; ``share`` of a unit that is sold is paid."""
    from numba import njit

    keep, noise, most = law

    @njit
    def step(state, action, rng):  # type: ignore[no-untyped-def]
        moved_price = keep * state.log_price + noise * rng.normal()
        next_price = min(most, max(-most, moved_price))
        price = math.exp(state.log_price)
        if action == 0 and state.level > 0:
            return price * share, StoreState(state.level - 1, next_price)
        if action == 2 and state.level < levels:
            return -price, StoreState(state.level + 1, next_price)
        return 0.0, StoreState(state.level, next_price)

    return step
