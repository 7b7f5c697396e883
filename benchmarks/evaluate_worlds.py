"""Policies whose value is known: what ``evaluate_paths.py`` evaluates.

The first are costs as simulators in Python, with the value of a rule of thumb from
sweeps over all states that share no code with the package. The others are tables made
to break an estimate: a breakdown that few paths see, a fine that is paid once in a
thousand steps, costs at discounts up to .999, ends, a game, regularizers, a horizon.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import smoothcruiser as sc
from smoothcruiser.exact import policy_value

Outcomes = list[tuple[float, float, Any]]  # (probability, reward, next state)


@dataclass(frozen=True)
class Evaluated:
    """A policy of a problem, and its value at the initial state."""

    name: str
    problem: sc.Problem
    policy: Any
    truth: float


def swept(
    start: Any, discount: float, outcomes: Callable[[Any], Outcomes], states: list[Any]
) -> float:
    """V_pi(start) by sweeps; ``outcomes(state)`` is the law under the policy."""
    rows = {state: number for number, state in enumerate(states)}
    law = [outcomes(state) for state in states]
    width = max(len(row) for row in law)
    chance, reward = np.zeros((len(law), width)), np.zeros((len(law), width))
    after = np.zeros((len(law), width), int)
    for number, row in enumerate(law):
        for k, (p, r, z) in enumerate(row):
            chance[number, k], reward[number, k], after[number, k] = p, r, rows[z]
    income, values = (chance * reward).sum(1), np.zeros(len(law))
    for _ in range(math.ceil(math.log(1e-13) / math.log(discount))):
        values = income + discount * (chance * values[after]).sum(1)
    return float(values[rows[start]])


def constant_cost() -> Evaluated:
    """Every reward is -1, and a hundred times that may be lost."""
    problem = sc.MDP(
        lambda state, action, rng: (-1.0, state),
        num_actions=2,
        discount=0.95,
        operator=sc.Max(),
        initial_state=0,
        reward_range=(-100.0, 0.0),
    )
    return Evaluated("cost of 1 a step", problem, lambda state: [0.5, 0.5], -20.0)


CAPACITY, LARGEST_ORDER, WANTED = 15, 6, 10
DEMAND = [math.exp(-3.0) * 3.0**k / math.factorial(k) for k in range(40)]


def sell(stock: int, coming: int, order: int, demand: int) -> tuple[float, Any]:
    """Goods arrive, demand takes what is there; lost sales cost nine times stock."""
    stock = min(stock + coming, CAPACITY)
    left = max(0, stock - demand)
    lost = min(max(0, demand - stock), 10)
    return -float(left) - 9.0 * lost, (left, order)


def base_stock(state: tuple[int, int]) -> int:
    """Order up to ten."""
    return min(LARGEST_ORDER, max(0, WANTED - state[0] - state[1]))


def inventory() -> Evaluated:
    """Lost sales with a lead time of two periods."""

    def step(state: Any, order: int, rng: Any) -> Any:
        return sell(*state, order, int(rng.poisson(3.0)))

    def outcomes(state: Any) -> Outcomes:
        return [(p, *sell(*state, base_stock(state), d)) for d, p in enumerate(DEMAND)]

    problem = sc.MDP(
        step,
        num_actions=LARGEST_ORDER + 1,
        discount=0.95,
        operator=sc.Max(),
        initial_state=(5, 3),
        reward_range=(-105.0, 0.0),
    )
    states = list(itertools.product(range(CAPACITY + 1), range(LARGEST_ORDER + 1)))
    truth = swept((5, 3), 0.95, outcomes, states)
    return Evaluated("inventory", problem, one_hot(base_stock, 7), truth)


def one_hot(choice: Callable[[Any], int], count: int) -> Callable[[Any], list[float]]:
    """A rule as a function state -> probabilities."""
    rows = [[float(a == b) for b in range(count)] for a in range(count)]
    return lambda state: rows[choice(state)]


def queues() -> Evaluated:
    """One server, two queues of up to 12; the longer one is served."""

    def served(first: int, second: int, action: int, luck: bool) -> tuple[int, int]:
        if action == 0:
            return max(0, first - luck), second
        return first, max(0, second - luck)

    def step(state: Any, action: int, rng: Any) -> Any:
        first = min(12, state[0] + (rng.random() < 0.3))
        second = min(12, state[1] + (rng.random() < 0.25))
        luck = rng.random() < (0.7, 0.6)[action]
        after = served(first, second, action, luck)
        return -2.0 * after[0] - after[1], after

    def longer(state: Any) -> int:
        return int(state[1] > state[0])

    def outcomes(state: Any) -> Outcomes:
        action, found = longer(state), []
        for x, y, luck in itertools.product((0, 1), repeat=3):
            chance = (0.7, 0.3)[x] * (0.75, 0.25)[y]
            hit = (0.7, 0.6)[action]
            after = served(min(12, state[0] + x), min(12, state[1] + y), action, luck)
            chance *= hit if luck else 1.0 - hit
            found.append((chance, -2.0 * after[0] - after[1], after))
        return found

    problem = sc.MDP(
        step,
        num_actions=2,
        discount=0.98,
        operator=sc.Max(),
        initial_state=(3, 3),
        reward_range=(-36.0, 0.0),
    )
    states = list(itertools.product(range(13), repeat=2))
    truth = swept((3, 3), 0.98, outcomes, states)
    return Evaluated("queues", problem, one_hot(longer, 2), truth)


def wear(state: Any, action: int, worse: tuple[int, ...]) -> tuple[float, Any]:
    """Machines from 0 (new) to 9 (broken); one may be repaired in a period."""
    cost = 0.0
    if action < 4:
        cost = 5.0 if state[action] < 9 else 12.0
    after = []
    for i, (condition, harm) in enumerate(zip(state, worse, strict=True)):
        condition = 0 if i == action else min(9, condition + harm)
        if i != action:
            cost += 0.3 * condition if condition < 9 else 8.0
        after.append(condition)
    return -cost, tuple(after)


def maintenance() -> Evaluated:
    """Four machines, ten thousand states: repair the worst from condition 6 on."""

    def step(state: Any, action: int, rng: Any) -> Any:
        return wear(
            state, action, tuple(rng.random() < 0.15 + 0.05 * i for i in range(4))
        )

    def worst(state: Any) -> int:
        bad = max(state)
        return 4 if bad < 6 else state.index(bad)

    def outcomes(state: Any) -> Outcomes:
        found = []
        for worse in itertools.product((0, 1), repeat=4):
            chance = 1.0
            for i, harm in enumerate(worse):
                odds = 0.15 + 0.05 * i
                chance *= odds if harm else 1.0 - odds
            found.append((chance, *wear(state, worst(state), worse)))
        return found

    problem = sc.MDP(
        step,
        num_actions=5,
        discount=0.95,
        operator=sc.Max(),
        initial_state=(3, 5, 2, 7),
        reward_range=(-44.0, 0.0),
    )
    states = list(itertools.product(range(10), repeat=4))
    truth = swept((3, 5, 2, 7), 0.95, outcomes, states)
    return Evaluated("maintenance", problem, one_hot(worst, 5), truth)


# --- tables -------------------------------------------------------------------


def tabled(name: str, problem: sc.Problem, policy: Any) -> Evaluated:
    """A stationary policy of a table; a Solution with a horizon is one by stages."""
    if hasattr(policy, "values"):
        return Evaluated(name, problem, policy, float(policy.values[start(problem)]))
    truth = policy_value(problem, policy)[start(problem)]
    return Evaluated(name, problem, policy, float(truth))


def start(problem: sc.Problem) -> int:
    """The row of the initial state."""
    return int(problem.initial_state or 0)


def blind(problem: sc.Problem) -> Any:
    """The uniform policy over legal actions."""
    legal = problem.tables.legal.astype(float)
    return legal / np.maximum(legal.sum(1, keepdims=True), 1.0)


def rare() -> Evaluated:
    """A breakdown with probability .0008 a step, repaired with .1, at 90 a step."""
    P = np.array([[[0.9992, 0.0008]], [[0.1, 0.9]]])
    problem = sc.tabular(
        P, np.array([[-1.0], [-90.0]]), discount=0.99, operator=sc.Max()
    )
    return tabled("rare breakdowns", problem, np.ones((2, 1)))


def fines() -> Evaluated:
    """A thousandth of the steps cost 1000, the others 0 to 1: heavy tails."""
    P = np.zeros((4, 1, 4))
    P[:, 0] = [0.499, 0.3, 0.2, 0.001]
    R = np.tile([0.0, -0.5, -1.0, -1000.0], (4, 1))[:, None, :]
    problem = sc.tabular(P, R, discount=0.99, operator=sc.Max())
    return tabled("fines", problem, np.ones((4, 1)))


def slow_costs() -> Evaluated:
    """Two regimes that last a hundred steps, at discount .999."""
    P = np.array([[[0.99, 0.01]], [[0.01, 0.99]]])
    R = np.array([[-1.0], [-3.0]])
    problem = sc.tabular(
        P, R, discount=0.999, operator=sc.Max(), reward_range=(-10.0, 0.0)
    )
    return tabled("regimes at .999", problem, np.ones((2, 1)))


def cycle() -> Evaluated:
    """A round of four sure rewards: only the coins of killed paths are random."""
    P = np.zeros((4, 1, 4))
    for s in range(4):
        P[s, 0, (s + 1) % 4] = 1.0
    R = np.array([[10.0], [0.0], [-5.0], [1.0]])
    problem = sc.tabular(P, R, discount=0.9, operator=sc.Max())
    return tabled("round of four", problem, np.ones((4, 1)))


SEA = ("......", "..o...", "....o.", ".o....", "...o..", "o....g")


def lake() -> Evaluated:
    """A slippery walk past holes to a goal: one reward of 1, at the end."""
    size, moves = len(SEA), ((0, -1), (1, 0), (0, 1), (-1, 0))
    P, R = np.zeros((36, 4, 36)), np.zeros((36, 4, 36))
    cells = "".join(SEA)
    for s, action, slip in itertools.product(range(36), range(4), (-1, 0, 1)):
        down, right = moves[(action + slip) % 4]
        row = min(max(s // size + down, 0), size - 1)
        column = min(max(s % size + right, 0), size - 1)
        P[s, action, row * size + column] += 1.0 / 3.0
    R[:, :, cells.index("g")] = 1.0
    problem = sc.tabular(
        P,
        R,
        discount=0.99,
        operator=sc.Max(),
        terminal=[cell in "og" for cell in cells],
        payoffs="end",
    )
    return tabled("lake", problem, sc.solve(problem).policy)


def errands() -> Evaluated:
    """A cost of 1 a step until an end comes, after thirty steps or so."""
    P = np.zeros((3, 2, 3))
    P[0] = [[0.95, 0.05, 0.0], [0.9, 0.1, 0.0]]
    P[1] = [[0.3, 0.6, 0.1], [0.5, 0.5, 0.0]]
    P[2, :, 2] = 1.0
    problem = sc.tabular(
        P,
        -np.ones((3, 2)),
        discount=0.99,
        operator=sc.Max(),
        terminal=[False, False, True],
    )
    return tabled("errands", problem, np.full((3, 2), 0.5))


def garnet(states: int, discount: float, operator: str, seed: int) -> Evaluated:
    """A random MDP, the optimal policy."""
    spec = f"garnet:states={states},actions=4,seed={seed}"
    problem = sc.make(spec, discount=discount, temperature=0.3, operator=operator)
    best = sc.solve(problem).policy
    return tabled(f"garnet {states}, {operator}, {discount}", problem, best)


def game() -> Evaluated:
    """Two players that follow random policies, with an entropy each."""
    problem = sc.make(
        "random-game:states=8,actions=2,seed=6", discount=0.9, temperature=0.4
    )
    shares = np.random.default_rng(6).random((8, 2)) ** 3
    return tabled("game, entropy, 0.9", problem, shares / shares.sum(1, keepdims=True))


def horizon() -> Evaluated:
    """Twenty steps of a random world at discount 1: nothing is killed."""
    rng = np.random.default_rng(9)
    P, R = rng.dirichlet(np.full(8, 0.3), (8, 3)), rng.uniform(-1.0, 1.0, (8, 3))
    problem = sc.tabular(P, R, discount=1.0, operator=sc.Max(), horizon=20)
    return tabled("twenty steps", problem, blind(problem))


SIMULATORS = (constant_cost, inventory, queues, maintenance)


def tables() -> Iterator[Evaluated]:
    """The worlds in compiled code."""
    yield rare()
    yield fines()
    yield slow_costs()
    yield cycle()
    yield lake()
    yield errands()
    yield garnet(50, 0.99, "max", 1)
    yield garnet(8, 0.9, "entropy", 2)
    yield garnet(8, 0.8, "sparsemax", 3)
    yield game()
    yield horizon()
