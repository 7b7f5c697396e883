"""Worlds that tell the truth where a promise is hard to keep. Nothing may be
refused here.

Rewards at the ends of their range, ends of episodes, large numbers, and states
of every form that an honest simulator may have.
"""

import math
from dataclasses import dataclass

import numpy as np

import smoothcruiser as sc

from . import cores, law
from .mutation import Climber
from .truth import Truth, mellowmax, solve

REACHED = law.Ask("certified", epsilon=0.5, budget=400_000, reaches=True)
BILLION, TRILLIONS = 1e9, 1e13


def honest(fresh, read, **more):
    """The ladder over some form of state, none of them written to."""

    def step(state, action, rng):
        rung = read(state)
        return rung / cores.TOP, fresh(cores.climb(rung, action, rng))

    return lambda: cores.mdp(step, initial_state=fresh(0), **more)


@dataclass(frozen=True)
class Position:
    """A frozen dataclass."""

    rung: int


def coin_step(state, action, rng):
    return float(rng.random() < 0.5), state


def bernoulli(state, action, rng):
    """Two states that a fair coin chooses; the second pays."""
    after = int(rng.random() < 0.5)
    return float(after), after


def bernoulli_outcomes(state, action):
    return [(0.5, 0.0, 0), (0.5, 1.0, 1)]


def extreme(state, action, rng):
    """Exactly low under action 0, exactly high under action 1."""
    return (1.0 if action else -1.0), state


def offset_coin(offset, **more):
    """A coin that pays ``offset`` or one more."""
    step = lambda state, action, rng: (offset + float(rng.random() < 0.5), state)  # noqa: E731
    bounds = (offset, offset + 1.0)
    return lambda: cores.mdp(step, reward_range=bounds, **more)


def offset_truth(offset):
    """(offset + 1/2) / (1 - discount), exactly."""
    each = (offset + 0.5) / (1.0 - cores.DISCOUNT)
    return Truth(each, (each, each))


def soft(q):
    """A user's own log-mean-exp."""
    return mellowmax(cores.TEMPERATURE)([float(x) for x in q])


def softmax(q):
    shares = np.exp((q - np.max(q)) / cores.TEMPERATURE)
    return shares / np.sum(shares)


def ending(state, action, rng):
    """Pays 0.9 and ends (state 1)."""
    return 0.9, 1


def bounds_and_ends():
    facts = {"reward_range": (0.5, 1.0), "value_bounds": BOUNDS}
    return cores.mdp(ending, terminal=over, **facts)


def half_ending(state, action, rng):
    """Pays a coin; ends half of the time."""
    return float(rng.random() < 0.5), int(rng.random() < 0.5)


def half_ending_outcomes(state, action):
    return [(0.25, paid, after) for paid in (0.0, 1.0) for after in (0, None)]


def over(state):
    return state == 1


world = law.worlds_of("honest", ends=(law.COVERED,))


def form(name, fresh, read, asks=law.BOTH, **more):
    build = honest(fresh, read, **more)
    return world(f"{name}: an honest ladder", build, cores.LADDER, asks=asks)


def rung(state):
    return int(state.rung)


def first(state):
    return int(state[0])


CUSTOM = sc.CustomOperator(soft, softmax, 0.5 / cores.TEMPERATURE, sums_to_one=True)
BOUNDS = (0.9, 1.0)  # of every state with a step left
WORLDS = (
    form("tuple", lambda n: (n,), first, asks=law.ALL_WAYS),
    form("list with key", lambda n: [n], first, key=first),
    form("list without key", lambda n: [n], first, asks=(law.SCHEDULE, law.EVALUATE)),
    form("array of numbers", lambda n: np.array([float(n)]), first, asks=law.GROWN),
    form("frozen dataclass", Position, rung),
    form("object with key", Climber, rung, key=rung),
    form("NaN beside the state", lambda n: (n, math.nan), first, key=first),
    form(
        "outcomes that are true",
        lambda n: n,
        int,
        outcomes=cores.ladder_outcomes,
        asks=(law.SCHEDULE, law.CERTIFIED, law.EXACT),
    ),
    world(
        "deterministic, truly: every step is sure",
        lambda: cores.mdp(extreme, reward_range=(-1, 1), deterministic=True),
        cores.true_value(lambda s, a: [(1.0, 1.0 if a else -1.0, s)], 0),
        asks=law.ALL_WAYS,
    ),
    world(
        "rewards at both ends: exactly low and high",
        lambda: cores.mdp(extreme, reward_range=(-1, 1)),
        cores.true_value(lambda s, a: [(1.0, 1.0 if a else -1.0, s)], 0),
    ),
    world(
        "a coin at the ends: 0 or 1",
        lambda: cores.mdp(coin_step),
        cores.COIN,
        asks=law.EVALUATED,
    ),
    world(
        "Bernoulli, discount 0.9: 0/1 rewards; certified search has to reach epsilon",
        lambda: cores.mdp(bernoulli, discount=0.9),
        solve(bernoulli_outcomes, 0, discount=0.9, smooth=cores.SMOOTH),
        asks=(REACHED,),
    ),
    world(
        "a billion and a coin: rewards in [1e9, 1e9 + 1]",
        offset_coin(BILLION),
        offset_truth(BILLION),
        asks=law.EVALUATED,
    ),
    world(
        "trillions and a coin: rewards in [1e13, 1e13 + 1]",
        offset_coin(TRILLIONS, num_actions=1, discount=0.0),
        Truth(TRILLIONS + 0.5, (TRILLIONS + 0.5,)),
        asks=(law.Ask(epsilon=0.015), law.CERTIFIED, law.EVALUATE),
        ends=(law.COVERED, law.REFUSED),
        says="too fine for rewards",  # neighbouring doubles are 0.002 apart there
    ),
    form(
        "an operator of one's own",
        lambda n: n,
        int,
        operator=CUSTOM,
        asks=(*law.BOTH, law.AUTO),
    ),
    world(
        "bounds and ends: value_bounds= of states with a step left, and an end that is worth 0",
        bounds_and_ends,
        Truth(0.9, (0.9, 0.9)),
        asks=(*law.BOTH, law.VALUE, law.TREE),
    ),
    world(
        "ends half of the time: a coin decides the end",
        lambda: cores.mdp(half_ending, terminal=over),
        cores.true_value(half_ending_outcomes, 0),
        asks=law.EVALUATED,
    ),
    world(
        "a horizon of 3: time is part of the state",
        lambda: cores.mdp(coin_step, horizon=3, discount=0.9),
        solve(cores.coin_outcomes, 0, discount=0.9, smooth=cores.SMOOTH, horizon=3),
    ),
)
