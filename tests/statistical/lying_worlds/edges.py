"""Worlds that tell the truth where a promise is hard to keep. Nothing may be
refused here.

Rewards at the ends of their range, ends of episodes, large numbers, and states
of every form that an honest simulator may have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import smoothcruiser as sc

from .cores import (
    COIN,
    DISCOUNT,
    LADDER,
    SMOOTH,
    TEMPERATURE,
    TOP,
    climb,
    coin_outcomes,
    ladder_outcomes,
    mdp,
    true_value,
)
from .law import (
    AUTO,
    BOTH,
    CERTIFIED,
    COVERED,
    EVALUATE,
    EXACT,
    REFUSED,
    SCHEDULE,
    TREE,
    VALUE,
    Ask,
    Build,
    World,
)
from .mutation import Climber, SlottedClimber
from .truth import Truth, mellowmax, solve

KIND = "honest"
WIDE = Ask(epsilon=0.8)
REACHED = Ask("certified", epsilon=0.5, budget=400_000, reaches=True)
BILLION, TRILLIONS = 1e9, 1e13


def honest(
    fresh: Callable[[int], Any], read: Callable[[Any], int], **more: Any
) -> Build:
    """The ladder over some form of state, none of them written to."""

    def step(state: Any, action: int, rng: Any) -> tuple[float, Any]:
        rung = read(state)
        return rung / TOP, fresh(climb(rung, action, rng))

    return lambda: mdp(step, initial_state=fresh(0), **more)


@dataclass(frozen=True)
class Position:
    """A frozen dataclass."""

    rung: int


def coin_step(state: Any, action: int, rng: Any) -> tuple[float, Any]:
    return float(rng.random() < 0.5), state


def bernoulli(state: int, action: int, rng: Any) -> tuple[float, int]:
    """Two states that a fair coin chooses; the second pays."""
    after = int(rng.random() < 0.5)
    return float(after), after


def bernoulli_outcomes(state: int, action: int) -> list[tuple[float, float, int]]:
    return [(0.5, 0.0, 0), (0.5, 1.0, 1)]


def extreme(state: int, action: int, rng: Any) -> tuple[float, int]:
    """Exactly low under action 0, exactly high under action 1."""
    return (1.0 if action else -1.0), state


def offset_coin(offset: float, **more: Any) -> Build:
    """A coin that pays ``offset`` or one more."""
    step = lambda state, action, rng: (offset + float(rng.random() < 0.5), state)  # noqa: E731
    bounds = (offset, offset + 1.0)
    return lambda: mdp(step, initial_state=0, reward_range=bounds, **more)


def offset_truth(offset: float) -> Truth:
    """(offset + 1/2) / (1 - discount), exactly."""
    each = (offset + 0.5) / (1.0 - DISCOUNT)
    return Truth(each, (each, each))


def soft(q: Any) -> float:
    """A user's own log-mean-exp."""
    return mellowmax(TEMPERATURE)([float(x) for x in q])


def softmax(q: Any) -> Any:
    shares = np.exp((q - np.max(q)) / TEMPERATURE)
    return shares / np.sum(shares)


def ending(state: int, action: int, rng: Any) -> tuple[float, int]:
    """Pays 0.9 and ends (state 1)."""
    return 0.9, 1


def bounds_and_ends() -> sc.Problem:
    facts = {"reward_range": (0.5, 1.0), "value_bounds": BOUNDS}
    return mdp(ending, initial_state=0, terminal=over, **facts)


def half_ending(state: int, action: int, rng: Any) -> tuple[float, int]:
    """Pays a coin; ends half of the time."""
    return float(rng.random() < 0.5), int(rng.random() < 0.5)


def half_ending_outcomes(
    state: int, action: int
) -> list[tuple[float, float, int | None]]:
    return [(0.25, paid, after) for paid in (0.0, 1.0) for after in (0, None)]


def over(state: int) -> bool:
    return state == 1


def world(name: str, about: str, build: Build, truth: Truth, **more: Any) -> World:
    return World(
        name, KIND, about, build, truth, **{"asks": BOTH, "ends": (COVERED,), **more}
    )


def form(
    name: str, fresh: Callable[[int], Any], read: Callable[[Any], int], **more: Any
) -> World:
    asks = more.pop("asks", BOTH)
    return world(
        name, "an honest ladder", honest(fresh, read, **more), LADDER, asks=asks
    )


def rung(state: Any) -> int:
    return int(state.rung)


def first(state: Any) -> int:
    return int(state[0])


CUSTOM = sc.CustomOperator(soft, softmax, 0.5 / TEMPERATURE, sums_to_one=True)
BOUNDS = (0.9, 1.0)  # of every state with a step left
WORLDS = (
    form("tuple", lambda n: (n,), first, asks=(*BOTH, EVALUATE, TREE)),
    form("list with key", lambda n: [n], first, key=first),
    form("list without key", lambda n: [n], first, asks=(SCHEDULE, EVALUATE)),
    form(
        "array of numbers", lambda n: np.array([float(n)]), first, asks=(*BOTH, TREE)
    ),
    form("frozen dataclass", Position, rung),
    form("object with key", Climber, rung, key=rung),
    form("object with slots", SlottedClimber, rung, key=rung),
    form("NaN beside the state", lambda n: (n, math.nan), first, key=first),
    form(
        "outcomes that are true",
        lambda n: n,
        int,
        outcomes=ladder_outcomes,
        asks=(SCHEDULE, CERTIFIED, EXACT),
    ),
    world(
        "deterministic, truly",
        "every step is sure",
        lambda: mdp(
            extreme, initial_state=0, reward_range=(-1, 1), deterministic=True
        ),
        true_value(lambda s, a: [(1.0, 1.0 if a else -1.0, s)], 0),
        asks=(*BOTH, EVALUATE, TREE),
    ),
    world(
        "rewards at both ends",
        "exactly low and high",
        lambda: mdp(extreme, initial_state=0, reward_range=(-1, 1)),
        true_value(lambda s, a: [(1.0, 1.0 if a else -1.0, s)], 0),
    ),
    world(
        "a coin at the ends",
        "0 or 1",
        lambda: mdp(coin_step, initial_state=0),
        COIN,
        asks=(*BOTH, EVALUATE),
    ),
    world(
        "Bernoulli, discount 0.9",
        "0/1 rewards; certified search has to reach epsilon",
        lambda: mdp(bernoulli, initial_state=0, discount=0.9),
        solve(bernoulli_outcomes, 0, discount=0.9, smooth=SMOOTH),
        asks=(REACHED,),
    ),
    world(
        "a billion and a coin",
        "rewards in [1e9, 1e9 + 1]",
        offset_coin(BILLION),
        offset_truth(BILLION),
        asks=(*BOTH, EVALUATE),
    ),
    world(
        "trillions and a coin",
        "rewards in [1e13, 1e13 + 1]",
        offset_coin(TRILLIONS, num_actions=1, discount=0.0),
        Truth(TRILLIONS + 0.5, (TRILLIONS + 0.5,)),
        asks=(Ask(epsilon=0.015), CERTIFIED, EVALUATE),
        ends=(COVERED, REFUSED),
        says="too fine for rewards",  # neighbouring doubles are 0.002 apart there
    ),
    form(
        "an operator of one's own",
        lambda n: n,
        int,
        operator=CUSTOM,
        asks=(*BOTH, AUTO),
    ),
    world(
        "bounds and ends",
        "value_bounds= of states with a step left, and an end that is worth 0",
        bounds_and_ends,
        Truth(0.9, (0.9, 0.9)),
        asks=(*BOTH, VALUE, TREE),
    ),
    world(
        "ends half of the time",
        "a coin decides the end",
        lambda: mdp(half_ending, initial_state=0, terminal=over),
        true_value(half_ending_outcomes, 0),
        asks=(*BOTH, EVALUATE),
    ),
    world(
        "a horizon of 3",
        "time is part of the state",
        lambda: mdp(coin_step, initial_state=0, horizon=3, discount=0.9),
        solve(coin_outcomes, 0, discount=0.9, smooth=SMOOTH, horizon=3),
        asks=BOTH,
    ),
)
