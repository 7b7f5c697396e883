"""The problems on which ``auto`` is measured against every single method.

They are what users bring: shops, stocks and queues in plain Python, a simulator that
takes two milliseconds per call, environments of Gymnasium, a puzzle, random MDPs,
dice, a world of real numbers, connect four. Each has a promise that at least one
method can pay within a minute, and where the model is known an exact value that no
method sees. "simulator" in a name says that the tables are hidden from the methods.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from benchmarks.certified.certified_worlds import LAKE_4, frozen_lake
from benchmarks.tree.board_games import Four, connect_four, four_legal, four_step
from numba import njit

import smoothcruiser as sc

SLOW = 0.002  # seconds per call of the slow simulators


@dataclass(frozen=True)
class World:
    """A problem, the promise asked of it, and what costs there."""

    name: str
    problem: sc.Problem
    epsilon: str = "5%"
    delta: float = 0.1
    # a call is what costs: plain Python and slow simulators; else seconds count
    calls_cost: bool = True
    # value and action values of the initial state, where they are known
    reference: Callable[[], tuple[float, tuple[float, ...]]] | None = None
    pause: float = 0.0  # seconds that the simulator sleeps in each call


def solved(problem: sc.Problem) -> Callable[[], tuple[float, tuple[float, ...]]]:
    """The exact answer of a problem whose model is known, when it is asked for."""

    @cache
    def found() -> tuple[float, tuple[float, ...]]:
        answer = sc.plan(problem, method="exact")
        return answer.value, answer.q_values

    return found


# --- the README's shop -----------------------------------------------------------


class Shop(NamedTuple):
    """Boxes on the shelf, and the day of the week."""

    stock: int
    day: int


def shop_step(shop, order, rng):
    """The README's step."""
    stock = min(shop.stock + order, 5)
    demand = rng.integers(6) if shop.day >= 5 else rng.integers(3)
    sold = min(stock, demand)
    return (sold - 0.4 * order + 0.8) / 5.8, Shop(stock - sold, (shop.day + 1) % 7)


def slow_shop_step(shop, order, rng):
    """The same step, two milliseconds later."""
    time.sleep(SLOW)
    return shop_step(shop, order, rng)


def shop_outcomes(shop, order):
    """The law behind the step."""
    stock, most = min(shop.stock + order, 5), 6 if shop.day >= 5 else 3
    following = (shop.day + 1) % 7
    return [
        (
            1 / most,
            (min(stock, demand) - 0.4 * order + 0.8) / 5.8,
            Shop(stock - min(stock, demand), following),
        )
        for demand in range(most)
    ]


def shop(step: Any, **rest: Any) -> sc.Problem:
    """The README's problem around a form of its step."""
    return sc.MDP(
        step,
        num_actions=3,
        discount=0.3,
        operator=sc.Entropy(0.1),
        initial_state=Shop(0, 5),
        name="shop",
        **rest,
    )


# --- an inventory with random deliveries ----------------------------------------


SHELF, ORDERS = 12, (0, 3, 6)
DEMAND = ((0.2, 0), (0.3, 1), (0.3, 2), (0.2, 4))


def _day(stock: int, order: int, wanted: int, late: bool) -> tuple[float, int]:
    """A day's profit on [0, 1] and what it leaves; a late order comes overnight."""
    here = stock if late else min(stock + ORDERS[order], SHELF)
    sold = min(here, wanted)
    left = min(here - sold + (ORDERS[order] if late else 0), SHELF)
    profit = sold - 0.1 * left - (0.5 if order else 0.0)
    return (profit + 1.8) / 5.8, left  # -1.7 at worst, 4 at best


def inventory_step(stock, order, rng):
    """One day of a stock whose deliveries are late once in four days."""
    late, u = rng.random() < 0.25, rng.random()
    wanted = DEMAND[-1][1]
    for chance, number in DEMAND:
        u -= chance
        if u < 0.0:
            wanted = number
            break
    return _day(stock, order, wanted, late)


def inventory_outcomes(stock, order):
    """The law behind the step."""
    return [
        (p * q, *_day(stock, order, wanted, late))
        for p, wanted in DEMAND
        for q, late in ((0.25, True), (0.75, False))
    ]


def inventory(**rest: Any) -> sc.Problem:
    """What to order tonight, at a discount of 0.8."""
    return sc.MDP(
        inventory_step,
        num_actions=3,
        discount=0.8,
        operator=sc.Entropy(0.05),
        initial_state=4,
        name="inventory",
        **rest,
    )


# --- a queue with two servers -----------------------------------------------------


ROOM = 10  # customers that fit into each of the two queues


def _minute(
    lines: tuple[int, int], action: int, arrives: bool, first: bool, second: bool
) -> tuple[float, tuple[int, int]]:
    """A minute of two queues: a customer is sent to one, each server may finish."""
    a, b = lines
    refused = False
    if arrives and action == 0:
        a, refused = min(a + 1, ROOM), a == ROOM
    elif arrives:
        b, refused = min(b + 1, ROOM), b == ROOM
    a, b = max(a - first, 0), max(b - second, 0)
    return 1.0 - (a + b) / (2 * ROOM) * 0.8 - 0.2 * refused, (a, b)


def queue_step(lines, action, rng):
    """One minute; the first server is faster."""
    return _minute(
        lines, action, rng.random() < 0.7, rng.random() < 0.5, rng.random() < 0.3
    )


def queue_outcomes(lines, action):
    """The law behind the step."""
    return [
        (p * q * r, *_minute(lines, action, arrives, first, second))
        for p, arrives in ((0.7, True), (0.3, False))
        for q, first in ((0.5, True), (0.5, False))
        for r, second in ((0.3, True), (0.7, False))
    ]


def queue(**rest: Any) -> sc.Problem:
    """Where to send the next customer, at a discount of 0.9 and with plain max."""
    return sc.MDP(
        queue_step,
        num_actions=2,
        discount=0.9,
        operator=sc.Max(),
        initial_state=(3, 3),
        name="queue",
        **rest,
    )


# --- slow and continuous: states that never come back ----------------------------


def drift_step(x, action, rng):
    """A point on the line that is pushed and blown about; best near the origin."""
    x = 0.8 * x + (action - 1) * 0.5 + 0.3 * rng.normal()
    return math.exp(-x * x), x


def slow_drift_step(x, action, rng):
    """The same step, two milliseconds later."""
    time.sleep(SLOW)
    return drift_step(x, action, rng)


def drift(step: Any, discount: float, temperature: float) -> sc.Problem:
    """Keep a point near the origin; its position is a real number."""
    return sc.MDP(
        step,
        num_actions=3,
        discount=discount,
        operator=sc.Entropy(temperature),
        initial_state=0.7,
        name="drift",
    )


# --- a puzzle without chance ------------------------------------------------------


SIDE = 3
SOLVED = (1, 2, 3, 4, 5, 6, 7, 8, 0)
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # where the gap goes


def slide(board: tuple[int, ...], move: int) -> tuple[int, ...]:
    """The board after the gap went one way, or the same board at a wall."""
    gap = board.index(0)
    row, column = gap // SIDE + MOVES[move][0], gap % SIDE + MOVES[move][1]
    if not (0 <= row < SIDE and 0 <= column < SIDE):
        return board
    after, other = list(board), row * SIDE + column
    after[gap], after[other] = after[other], 0
    return tuple(after)


def puzzle_step(board, move, rng):
    """One move of the sliding puzzle; solving it pays 1 and ends it."""
    after = slide(board, move)
    return float(after == SOLVED), after


def puzzle_solved(board):
    """Whether nothing is left to do."""
    return board == SOLVED


def puzzle_outcomes(board, move):
    """The law behind the step: one outcome."""
    return [(1.0, *puzzle_step(board, move, None))]


SCRAMBLE = (2, 0, 2, 0, 3, 1)  # moves away from the solved board


def puzzle(**rest: Any) -> sc.Problem:
    """The sliding puzzle, some moves from its end."""
    board = SOLVED
    for move in SCRAMBLE:
        board = slide(board, move)
    return sc.MDP(
        puzzle_step,
        num_actions=4,
        discount=0.8,
        operator=sc.Max(),
        terminal=puzzle_solved,
        initial_state=board,
        value_bounds=(0.0, 1.0),
        name="8-puzzle",
        **rest,
    )


# --- models whose tables the methods do not see ----------------------------------


def hidden(problem: sc.Problem, *, compiled: bool) -> sc.Problem:
    """The same world as a simulator: a step function instead of tables."""
    tables = problem.tables
    actions = problem.num_actions
    start, target = tables.start, tables.next_state
    reward, ends = tables.reward, tables.terminal
    ladder = np.concatenate(
        [
            np.cumsum(tables.prob[start[row] : start[row + 1]])
            for row in range(len(start) - 1)
        ]
    )

    def step(state, action, rng):
        row = state * actions + action
        u, i = rng.random(), start[row]
        while i + 1 < start[row + 1] and u >= ladder[i]:
            i += 1
        return reward[i], target[i]

    def terminal(state):
        return ends[state]

    def plain(state, action, rng):
        paid, following = step(state, action, rng)
        return float(paid), int(following)

    def over(state):
        return bool(ends[state])

    rest: dict[str, Any] = {}
    if ends.any():
        rest["terminal"] = njit(terminal) if compiled else over
    return sc.MDP(
        njit(step) if compiled else plain,
        num_actions=actions,
        discount=problem.discount,
        operator=problem.operator,
        reward_range=problem.reward_range,
        initial_state=problem.initial_state,
        name=problem.name,
        **rest,
    )


def garnet(discount: float, states: int = 20) -> sc.Problem:
    """A random MDP of the zoo with its tables."""
    return sc.make(
        f"garnet:states={states},actions=3", discount=discount, temperature=0.5
    )


# --- a lottery: each state has hundreds of successors ----------------------------


def lottery(
    tickets: int, discount: float, temperature: float, *, compiled: bool = False
) -> sc.Problem:
    """Any of ``tickets`` states may follow any other, all equally likely."""

    def step(state, action, rng):
        following = rng.integers(tickets)
        return (state * 7 + action * 13 + following) % 11 / 10, following

    return sc.MDP(
        njit(step) if compiled else step,
        num_actions=3,
        discount=discount,
        operator=sc.Entropy(temperature),
        initial_state=0,
        name="lottery",
    )


def lottery_model(problem: sc.Problem, tickets: int) -> sc.Problem:
    """The same lottery with its tables."""
    here, action, following = np.ogrid[:tickets, :3, :tickets]
    reward = (here * 7 + action * 13 + following) % 11 / 10
    return sc.tabular(
        np.full(reward.shape, 1.0 / tickets),
        reward,
        discount=problem.discount,
        operator=problem.operator,
    )


# --- dice -------------------------------------------------------------------------


class Pig(NamedTuple):
    """A game of Pig: what is banked by each, the turn's sum, who is at turn."""

    mine: int
    theirs: int
    turn: int
    mover: int


GOAL = 12


@njit
def pig_step(state, action, rng):
    """Hold (0) or roll (1): a 1 loses the turn's sum; ``GOAL`` points win."""
    if action == 0:
        if state.mover == 0:
            after = Pig(min(state.mine + state.turn, GOAL), state.theirs, 0, 1)
        else:
            after = Pig(state.mine, min(state.theirs + state.turn, GOAL), 0, 0)
    else:
        die = 1 + rng.integers(6)
        if die == 1:
            after = Pig(state.mine, state.theirs, 0, 1 - state.mover)
        else:
            after = Pig(
                state.mine, state.theirs, min(state.turn + die, GOAL), state.mover
            )
    paid = 0.0
    if after.mine == GOAL:
        paid = 1.0
    elif after.theirs == GOAL:
        paid = -1.0
    return paid, after


@njit
def pig_over(state):
    """Whether somebody has won."""
    return state.mine == GOAL or state.theirs == GOAL


@njit
def pig_player(state):
    """1 for the player whose value it is, 2 for the other."""
    return 1 + state.mover


def pig_outcomes(state, action):
    """The law behind the step: one outcome, or six faces."""

    class Die:
        def __init__(self, face: int) -> None:
            self.face = face

        def integers(self, sides: int) -> int:
            return self.face

    if action == 0:
        return [(1.0, *pig_step.py_func(state, 0, None))]
    return [(1 / 6, *pig_step.py_func(state, 1, Die(face))) for face in range(6)]


def pig(**rest: Any) -> sc.Problem:
    """Pig for two with a discount of 0.9 and value bounds of one win."""
    return sc.Game(
        pig_step,
        player=pig_player,
        num_actions=2,
        discount=0.9,
        operator=sc.Max(),
        reward_range=(-1.0, 1.0),
        terminal=pig_over,
        initial_state=Pig(0, 0, 0, 0),
        value_bounds=(-1.0, 1.0),
        name="pig",
        **rest,
    )


# --- connect four -----------------------------------------------------------------


OPENING = (2, 0, 3, 4, 3, 4, 2, 2, 4, 3, 3, 4, 0, 6, 3, 5, 0, 0, 0, 3, 4, 6, 0, 5)


def four(moves: tuple[int, ...] = OPENING) -> sc.Problem:
    """Connect four after some moves, with plain max, to the end of the game."""
    state: Any = Four(0, 0, 0)
    for move in moves:
        _, state, over = four_step.py_func(state, move, None)
        assert not over, "the opening ends the game"
    return replace(
        connect_four(),
        initial_state=state,
        horizon=42 - len(moves),
        value_bounds=(-1.0, 1.0),
        name="connect four",
    )


def four_value(state: Any) -> float:
    """What a game of connect four is worth to X, by plain backward induction."""

    @cache
    def value(state: Any) -> float:
        found = []
        for move in range(7):
            if four_legal.py_func(state, move):
                paid, after, over = four_step.py_func(state, move, None)
                found.append(paid if over else value(after))
        return max(found) if state.turn == 0 else min(found)

    return value(state)


def four_reference() -> tuple[float, tuple[float, ...]]:
    """Value and action values of the position."""
    state = four().initial_state
    q_values = []
    for move in range(7):
        if not four_legal.py_func(state, move):
            q_values.append(math.nan)
            continue
        paid, after, over = four_step.py_func(state, move, None)
        q_values.append(paid if over else four_value(after))
    best = max if state.turn == 0 else min
    return best(q for q in q_values if not math.isnan(q)), tuple(q_values)


def cart_pole() -> sc.Problem:
    """Gymnasium's CartPole, through its adapter."""
    return sc.make("gym:CartPole-v1", discount=0.5, temperature=0.5)


def lotteries(tickets: int, discount: float, temperature: float, **how: bool) -> World:
    """A lottery and its exact answer."""
    problem = lottery(tickets, discount, temperature, **how)
    return World(
        f"lottery of {tickets:,}, {discount:g}{', compiled' if how else ''}",
        problem,
        calls_cost=not how,
        reference=solved(lottery_model(problem, tickets)),
    )


def worlds() -> list[World]:
    """All of them; what they need of Gymnasium is made here."""
    known_shop = solved(shop(shop_step, outcomes=shop_outcomes))
    known_inventory = solved(inventory(outcomes=inventory_outcomes))
    known_queue = solved(queue(outcomes=queue_outcomes))
    known_puzzle = solved(puzzle(outcomes=puzzle_outcomes))
    lake = sc.make("gym:FrozenLake-v1", discount=0.9, temperature=0.01)
    taxi = sc.make("gym:Taxi-v4", discount=0.9, temperature=0.01)
    own_lake = frozen_lake(LAKE_4, discount=0.9, operator=sc.Entropy(0.01))
    mild, steep = garnet(0.5), garnet(0.95)
    large = garnet(0.3, 2000)
    return [
        World("shop, compiled", shop(njit(shop_step)), "5%", 0.1, False, known_shop),
        World("shop, plain", shop(shop_step), reference=known_shop),
        World(
            "shop, outcomes",
            shop(shop_step, outcomes=shop_outcomes),
            reference=known_shop,
        ),
        World(
            "shop, 2 ms per call",
            shop(slow_shop_step),
            reference=known_shop,
            pause=SLOW,
        ),
        World("inventory, plain", inventory(), reference=known_inventory),
        World(
            "inventory, outcomes",
            inventory(outcomes=inventory_outcomes),
            reference=known_inventory,
        ),
        World("queue, plain", queue(), reference=known_queue),
        World(
            "queue, outcomes", queue(outcomes=queue_outcomes), reference=known_queue
        ),
        World(
            "drift, 2 ms per call", drift(slow_drift_step, 0.2, 1.0), "10%", pause=SLOW
        ),
        World("drift, plain", drift(drift_step, 0.3, 0.5)),
        World("drift, compiled", drift(njit(drift_step), 0.5, 0.5), "5%", 0.1, False),
        World("FrozenLake", lake, calls_cost=False, reference=solved(lake)),
        World(
            "FrozenLake, simulator",
            hidden(own_lake, compiled=False),
            reference=solved(own_lake),
        ),
        World("Taxi", taxi, calls_cost=False, reference=solved(taxi)),
        World(
            "Taxi, simulator",
            hidden(taxi, compiled=True),
            calls_cost=False,
            reference=solved(taxi),
        ),
        World("CartPole", cart_pole(), "10%"),
        World(
            "8-puzzle, deterministic",
            puzzle(deterministic=True),
            reference=known_puzzle,
        ),
        World("8-puzzle", puzzle(), "10%", reference=known_puzzle),
        World("garnet 0.5, tables", mild, calls_cost=False, reference=solved(mild)),
        World(
            "garnet 0.5, simulator",
            hidden(mild, compiled=True),
            calls_cost=False,
            reference=solved(mild),
        ),
        World("garnet 0.95, tables", steep, calls_cost=False, reference=solved(steep)),
        World(
            "garnet 0.95, simulator",
            hidden(steep, compiled=True),
            calls_cost=False,
            reference=solved(steep),
        ),
        World(
            "garnet 0.3, 2,000 states, simulator",
            hidden(large, compiled=True),
            calls_cost=False,
            reference=solved(large),
        ),
        World(
            "garnet 0.3, 2,000 states, plain",
            hidden(large, compiled=False),
            reference=solved(large),
        ),
        World(
            "dice (Pig)",
            pig(),
            calls_cost=False,
            reference=solved(pig(outcomes=pig_outcomes)),
        ),
        lotteries(300, 0.3, 0.5),
        lotteries(1000, 0.5, 10.0),
        lotteries(1000, 0.5, 0.5, compiled=True),
        World("connect four", four(), calls_cost=False, reference=four_reference),
    ]
