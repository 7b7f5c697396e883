"""The problems that ``gap`` is shown on beside those of the zoo.

Four with continuous states, and two games. The steps are written from the same
descriptions as the solvers of ``benchmarks.gap.truths``, which import nothing from here.

  house      A battery with seven levels for a house. The log price x and the log load y
             revert to their means: x' = clip(0.9 x + 0.2 N, ±1.2), y' = clip(0.8 y + 0.3 M,
             ±1.5). The house takes 0.6 exp(y) and pays exp(x) per unit; the battery gives
             up to one unit, or takes one for 1.1. Discount 0.97.
  machine    Its wear grows by exponential amounts of mean 0.15, up to 3. Running pays
             1 - 0.2 wear, and the machine breaks with chance 1 - exp(-0.15 wear²), which
             costs 4 and brings a new one. Replacing it costs 1.5. Discount 0.95.
  market     Eight units to sell, one per period, at 1, 1.5, 2 or 2.5; the chance of a sale
             is logistic in 3 + 1.5 x - 2 price, and x' = clip(0.9 x + 0.25 N, ±1.5). It
             ends with the last unit. Discount 0.97.
  put        The American put of Longstaff and Schwartz (2001): spot 36, strike 40, rate
             6%, volatility 20%, a year with 50 dates. The first date is one of them here,
             at which nobody exercises.
  dice race  A game with chance for two: keep the points of the turn, or throw a die and
             lose them with a one. First to 12 wins 1. Max, discount 0.95, ends.
  blackjack  Gymnasium's Blackjack-v1 as its player sees it: (sum, dealer's card, usable
             ace), cards from an infinite deck. The dealer's second card is drawn when the
             player stands. In the environment it lies there from the beginning, so that a
             planner that copies the environment would know it. Discount 1, ends.
  garnet     A random turn-based game of the zoo with 30 states and entropy 0.2, discount
             0.9, sampled as a black box.

Every reward range is true for every state. The exact values of the games come from
``sc.solve`` on the same laws written as lists of outcomes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

import smoothcruiser as sc

# --- continuous states --------------------------------------------------------


class House(NamedTuple):
    """Units in the battery, log price, log load."""

    level: int
    price: float
    load: float


@njit
def house_step(state: Any, action: int, rng: Any) -> Any:
    """Actions give, keep, take."""
    price = min(1.2, max(-1.2, 0.9 * state.price + 0.2 * rng.normal()))
    load = min(1.5, max(-1.5, 0.8 * state.load + 0.3 * rng.normal()))
    need, level = 0.6 * math.exp(state.load), state.level
    if action == 0 and level > 0:
        level, need = level - 1, max(need - 1.0, 0.0)
    elif action == 2 and level < 6:
        level, need = level + 1, need + 1.1
    return -math.exp(state.price) * need, House(level, price, load)


def make_house() -> sc.MDP:
    """The battery, half full."""
    most = math.exp(1.2) * (0.6 * math.exp(1.5) + 1.1) * (1.0 + 1e-12)
    return sc.MDP(
        house_step,
        discount=0.97,
        operator=sc.Max(),
        reward_range=(-most, 0.0),
        initial_state=House(3, 0.0, 0.0),
        actions=("give", "keep", "take"),
        name="battery of a house",
    )


class Machine(NamedTuple):
    """The wear of the machine, 0 to 3."""

    wear: float


@njit
def machine_step(state: Any, action: int, rng: Any) -> Any:
    """Actions run, replace. Running takes two numbers: luck, and growth."""
    if action == 1:
        return -1.5, Machine(0.0)
    reward = 1.0 - 0.2 * state.wear
    if rng.random() >= math.exp(-0.15 * state.wear * state.wear):
        return reward - 4.0, Machine(0.0)
    return reward, Machine(min(state.wear + rng.exponential(0.15), 3.0))


def make_machine() -> sc.MDP:
    """The new machine."""
    return sc.MDP(
        machine_step,
        discount=0.95,
        operator=sc.Max(),
        reward_range=(-3.6, 1.0),
        initial_state=Machine(0.0),
        actions=("run", "replace"),
        name="machine that wears",
    )


class Market(NamedTuple):
    """Units left, and the state of the market."""

    units: int
    mood: float


@njit
def market_step(state: Any, action: int, rng: Any) -> Any:
    """Action a asks 1 + a/2 for a unit."""
    price = 1.0 + 0.5 * action
    mood = min(1.5, max(-1.5, 0.9 * state.mood + 0.25 * rng.normal()))
    chance = 1.0 / (1.0 + math.exp(2.0 * price - 3.0 - 1.5 * state.mood))
    if rng.random() < chance:
        return price, Market(state.units - 1, mood), state.units == 1
    return 0.0, Market(state.units, mood), False


def make_market() -> sc.MDP:
    """Eight units in a market as usual."""
    return sc.MDP(
        market_step,
        discount=0.97,
        operator=sc.Max(),
        reward_range=(0.0, 2.5),
        terminal=True,
        initial_state=Market(8, 0.0),
        actions=("1.00", "1.50", "2.00", "2.50"),
        name="selling in a market",
    )


class Share(NamedTuple):
    """The price of a share."""

    price: float


PUT_DRIFT = (0.06 - 0.2**2 / 2.0) / 50.0
PUT_NOISE = 0.2 * math.sqrt(1.0 / 50.0)


@njit
def put_step(state: Any, action: int, rng: Any) -> Any:
    """Actions exercise, hold."""
    if action == 0:
        return max(40.0 - state.price, 0.0), state, True
    return (
        0.0,
        Share(state.price * math.exp(PUT_DRIFT + PUT_NOISE * rng.normal())),
        False,
    )


def make_put() -> sc.MDP:
    """The put at 36."""
    return sc.MDP(
        put_step,
        discount=math.exp(-0.06 / 50.0),
        operator=sc.Max(),
        reward_range=(0.0, 40.0),
        terminal=True,
        payoffs="end",
        horizon=51,
        initial_state=Share(36.0),
        actions=("exercise", "hold"),
        name="American put",
    )


class Hand(NamedTuple):
    """The player's sum, with an ace as 11 where that fits; the dealer's card."""

    total: int
    dealer: int
    ace: bool


@njit
def add_card(total: int, ace: bool, card: int) -> Any:
    """The sum and whether an ace counts as 11, after a card."""
    total += card
    if card == 1 and total + 10 <= 21:
        return total + 10, True
    if ace and total > 21:
        return total - 10, False
    return total, ace


@njit
def draw_card(rng: Any) -> int:
    """Ten to king count ten."""
    return min(rng.integers(13) + 1, 10)


@njit
def blackjack_step(state: Any, action: int, rng: Any) -> Any:
    """Actions stand, hit."""
    if action == 1:
        total, ace = add_card(state.total, state.ace, draw_card(rng))
        if total > 21:
            return -1.0, state, True
        return 0.0, Hand(total, state.dealer, ace), False
    total, ace = add_card(0, False, state.dealer)
    while total < 17:
        total, ace = add_card(total, ace, draw_card(rng))
    if total > 21 or state.total > total:
        return 1.0, state, True
    return (0.0 if total == state.total else -1.0), state, True


def make_blackjack() -> sc.MDP:
    """Blackjack with a hard 12 against a three."""
    return sc.MDP(
        blackjack_step,
        discount=1.0,
        operator=sc.Max(),
        reward_range=(-1.0, 1.0),
        terminal=True,
        payoffs="end",
        episodes_end=(20, 1.0),
        horizon=22,
        initial_state=Hand(12, 3, False),
        actions=("stand", "hit"),
        name="blackjack",
    )


# --- games --------------------------------------------------------------------


class Race(NamedTuple):
    """Points of both players, those of this turn, and the mover, 1 or 2."""

    mine: int
    theirs: int
    turn: int
    mover: int


GOAL = 12


@njit
def race_move(state: Any, action: int, die: int) -> Any:
    """The move with a known die: actions keep, throw."""
    points = state.mine if state.mover == 1 else state.theirs
    turn = state.turn
    if action == 1 and die > 1:
        turn += die
        if points + turn < GOAL:
            return 0.0, Race(state.mine, state.theirs, turn, state.mover), False
        return (1.0 if state.mover == 1 else -1.0), state, True
    gain = turn if action == 0 else 0
    if state.mover == 1:
        return 0.0, Race(state.mine + gain, state.theirs, 0, 2), False
    return 0.0, Race(state.mine, state.theirs + gain, 0, 1), False


@njit
def race_step(state: Any, action: int, rng: Any) -> Any:
    """A move with a die of the stream."""
    return race_move(state, action, rng.integers(6) + 1)


@njit
def race_player(state: Any) -> int:
    """Who moves."""
    return int(state.mover)


RACE_OVER = Race(GOAL, GOAL, 0, 1)


@njit
def is_race_over(state: Any) -> bool:
    """Whether a state is the one that stands for all ends in the known model."""
    return bool(state.mine == GOAL)


def race_outcomes(state: Race, action: int) -> list[tuple[float, float, Race]]:
    """The same law as a list."""
    moves = (
        [race_move(state, 0, 1)]
        if action == 0
        else [race_move(state, 1, die) for die in range(1, 7)]
    )
    return [
        (1.0 / len(moves), reward, RACE_OVER if is_over else next_state)
        for reward, next_state, is_over in moves
    ]


def make_race(*, is_known: bool = False) -> sc.Game:
    """The race from the start: a black box, or with its outcomes."""
    return sc.Game(
        race_step,
        player=race_player,
        discount=0.95,
        operator=sc.Max(),
        reward_range=(-1.0, 1.0),
        terminal=is_race_over if is_known else True,
        payoffs="end",
        initial_state=Race(0, 0, 0, 1),
        actions=("keep", "throw"),
        outcomes=race_outcomes if is_known else None,
        name="dice race",
    )


def hide_tables(problem: sc.Problem) -> sc.Problem:
    """The same law as a black box: a compiled step that samples the tables."""
    tables = problem.tables
    assert tables is not None
    start, next_state = tables.start, tables.next_state
    ends = np.concatenate(
        [
            np.cumsum(tables.prob[first:last])
            for first, last in itertools.pairwise(start)
        ]
    )
    reward, players = tables.reward, tables.player
    num_actions = problem.num_actions

    @njit
    def step(state: int, action: int, rng: Any) -> Any:
        entry = start[state * num_actions + action]
        last = start[state * num_actions + action + 1] - 1
        sample = rng.random()
        while entry < last and sample >= ends[entry]:
            entry += 1
        return reward[entry], next_state[entry]

    @njit
    def player(state: int) -> int:
        return players[state]

    return replace(
        problem, oracle=step, player=player, tables=None, outcomes=None, spec=None
    )


def make_garnet(*, is_known: bool = False) -> sc.Problem:
    """The random game: a black box, or its tables."""
    known = sc.make(
        "random-game:states=30,seed=5", discount=0.9, operator=sc.Entropy(0.2)
    )
    return known if is_known else hide_tables(known)


# --- the list -----------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """A problem, and the most that its certified width may be, as a share of |V|."""

    name: str
    make: Callable[[], sc.Problem]
    most_width: float | None = None


OWN_WORLDS = (
    World("battery of a house", make_house),
    World("machine that wears", make_machine),
    World("selling in a market", make_market),
    World("American put", make_put),
)


def zoo_worlds() -> tuple[World, ...]:
    """The problems of the zoo with the limits of issue 38."""

    def named(text: str, **words: Any) -> Callable[[], sc.Problem]:
        return lambda: sc.make(text, **words)

    calls = [
        World(
            f"max-call, {assets} assets, {spot}",
            named(f"max-call:assets={assets},spot={spot}"),
            0.015,
        )
        for assets in (2, 3, 5)
        for spot in (90, 100, 110)
    ]
    entropy = sc.Entropy(0.1)
    undiscounted = {"discount": 1.0, "horizon": 100}
    stores = [
        World("storage, H = 100, max", named("storage", **undiscounted), 0.025),
        World(
            "storage, H = 100, entropy 0.1",
            named("storage", operator=entropy, **undiscounted),
            0.025,
        ),
        World("storage, 0.99, max", named("storage"), 0.025),
        World("storage, 0.99, entropy 0.1", named("storage", operator=entropy), 0.025),
    ]
    shops = [
        World(
            f"lost sales, lead {lead}, H = 50",
            named(f"lost-sales:lead={lead}", discount=1.0, horizon=50),
            0.06,
        )
        for lead in (1, 2, 3)
    ]
    return (*calls, *stores, *shops, World("two queues, 0.99", named("two-queues")))


def zoo_world(name: str) -> World:
    """The world of a name."""
    return next(world for world in zoo_worlds() if world.name == name)
