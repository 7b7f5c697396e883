"""Problems of costs and of long discounts, as compiled simulators with exact values.

The first five are those of the complaints: an inventory with lead time, two queues with
one server, four machines, a lake of 8 by 8, a random MDP. The others are of our own.
Every world is a list of outcomes per pair: the simulator samples from it, and an
independent solver (``solve``) gives the truth by policy iteration.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix, eye
from scipy.sparse.linalg import spsolve

import smoothcruiser as sc

END = -1
Outcome = tuple[float, float, int]  # probability, reward, next state


@dataclass
class World:
    """A simulator over states 0, ..., S - 1, with its exact values."""

    name: str
    rows: list[list[Outcome]]  # of pair s K + a
    num_actions: int
    discount: float
    rewards: tuple[float, float]
    start: int
    value_bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        ends, probabilities, rewards, targets = [0], [], [], []
        for row in self.rows:
            merged: dict[tuple[float, int], float] = {}
            for p, reward, target in row:
                if p > 0.0:
                    merged[reward, target] = merged.get((reward, target), 0.0) + p
            for (reward, target), p in merged.items():
                probabilities.append(p)
                rewards.append(reward)
                targets.append(target)
            ends.append(len(probabilities))
        self.rows = []
        self.ends, self.reward = np.array(ends), np.array(rewards)
        self.target = np.array(targets)
        self.shares = np.empty(len(probabilities))  # cumulated, ending in 1
        probability_array = np.array(probabilities)
        for first, last in itertools.pairwise(ends):
            cumulated = np.cumsum(probability_array[first:last])
            self.shares[first:last] = cumulated / cumulated[-1]
            self.shares[last - 1] = 1.0
            probability_array[first:last] = np.diff(self.shares[first:last], prepend=0)
        self.probability = probability_array

    @property
    def num_states(self) -> int:
        """S."""
        return (len(self.ends) - 1) // self.num_actions

    @property
    def truth(self) -> float:
        """V at the start."""
        return float(self.solution[0][self.start])

    @cached_property
    def solution(self) -> tuple[Any, Any]:
        """(V, Q) by policy iteration with sparse linear solves."""
        S, K, pairs = self.num_states, self.num_actions, len(self.ends) - 1
        rows = np.repeat(np.arange(pairs), np.diff(self.ends))
        lives = self.target >= 0
        data, columns = self.probability[lives], self.target[lives]
        model = csr_matrix((data, (rows[lives], columns)), shape=(pairs, S))
        income = np.bincount(rows, self.probability * self.reward, pairs)
        policy, values = np.zeros(S, np.int64), np.zeros(S)
        for _ in range(1_000):
            chosen = np.arange(S) * K + policy
            matrix = eye(S, format="csr") - self.discount * model[chosen]
            values = solve_sparse(matrix, income[chosen], values)
            q = (income + self.discount * (model @ values)).reshape(S, K)
            own = q[np.arange(S), policy]
            better = q.max(axis=1) > own + 1e-9 * (1.0 + np.abs(own))
            if not better.any():
                return values, q
            policy[better] = q[better].argmax(axis=1)
        raise RuntimeError("policy iteration has not ended")

    def problem(self) -> sc.MDP:
        """The simulator."""
        ends, shares, reward = self.ends, self.shares, self.reward
        target, K = self.target, self.num_actions

        @njit
        def step(state: Any, action: Any, rng: Any) -> Any:
            luck, pair = rng.random(), state * K + action
            low, high = ends[pair], ends[pair + 1] - 1
            while low < high:
                middle = (low + high) // 2
                if shares[middle] > luck:
                    high = middle
                else:
                    low = middle + 1
            return reward[low], target[low]

        @njit
        def is_over(state: Any) -> Any:
            return state < 0

        facts: dict[str, Any] = {}
        if (target < 0).any():
            facts["terminal"] = is_over
        if self.value_bounds is not None:
            facts["value_bounds"] = self.value_bounds
        return sc.MDP(
            step,
            num_actions=K,
            discount=self.discount,
            operator=sc.Max(),
            reward_range=self.rewards,
            initial_state=self.start,
            **facts,
        )


def solve_sparse(matrix: Any, right_side: Any, guess: Any) -> Any:
    """The solution of a linear system: direct, or by iteration where it is large."""
    if matrix.shape[0] <= 2_000:
        return spsolve(matrix.tocsc(), right_side)
    from scipy.sparse.linalg import bicgstab

    solution, status = bicgstab(matrix, right_side, x0=guess, rtol=1e-12, atol=1e-10)
    if status != 0:
        raise RuntimeError("the linear system was not solved")
    return solution


def poisson(mean: float, most: int = 40) -> list[float]:
    """The probabilities of 0, ..., most - 1."""
    return [math.exp(-mean) * mean**k / math.factorial(k) for k in range(most)]


# --- the problems of the complaints -------------------------------------------------


def inventory(discount: float = 0.95) -> World:
    """Up to 15 on hand, orders of up to 6 that arrive a step later, lost sales."""
    rows = []
    for on_hand, arriving, order in itertools.product(range(16), range(7), range(7)):
        stock, row = min(on_hand + arriving, 15), []
        for demand, p in enumerate(poisson(3.0)):
            rest = stock - min(stock, demand)
            lost = min(demand - min(stock, demand), 10)
            row.append((p, -rest - 9.0 * lost, rest * 7 + order))
        rows.append(row)
    return World("inventory", rows, 7, discount, (-90.0, 0.0), 5 * 7 + 3)


def queues(discount: float = 0.98) -> World:
    """Two queues of at most 12 and one server; waiting costs 2 and 1."""
    rows = []
    for first, second, served in itertools.product(range(13), range(13), range(2)):
        row = []
        for (more, p), (other, q) in itertools.product(
            ((1, 0.3), (0, 0.7)), ((1, 0.25), (0, 0.75))
        ):
            x, y = min(first + more, 12), min(second + other, 12)
            chance = (0.7, 0.6)[served] * ((x, y)[served] > 0)
            done = (x - 1, y) if served == 0 else (x, y - 1)
            for r, (u, v) in ((chance, done), (1.0 - chance, (x, y))):
                row.append((p * q * r, -(2.0 * u + v), max(u, 0) * 13 + max(v, 0)))
        rows.append(row)
    return World("queues", rows, 2, discount, (-36.0, 0.0), 3 * 13 + 3)


def maintenance(machines: int = 4, discount: float = 0.95) -> World:
    """Machines wear in ten stages; one of them, or none, is repaired per step."""
    rows, scale = [], 10 ** np.arange(machines)[::-1]
    for wear in itertools.product(range(10), repeat=machines):
        for action in range(machines + 1):
            base, parts = 0.0, []
            if action < machines:
                base = 5.0 if wear[action] < 9 else 12.0
            for i, stage in enumerate(wear):
                chance = 0.15 + 0.05 * i
                if i == action:
                    parts.append([(1.0, 0, 0.0)])
                elif stage == 9:
                    parts.append([(1.0, 9, 8.0)])
                else:
                    costs = [0.3 * s if s < 9 else 8.0 for s in (stage, stage + 1)]
                    parts.append(
                        [(chance, stage + 1, costs[1]), (1 - chance, stage, costs[0])]
                    )
            rows.append(
                [
                    (
                        math.prod(p for p, *_ in outcome),
                        -base - sum(cost for *_, cost in outcome),
                        int(
                            sum(
                                s * w
                                for (_, s, _), w in zip(outcome, scale, strict=False)
                            )
                        ),
                    )
                    for outcome in itertools.product(*parts)
                ]
            )
    start = int(
        sum(s * w for s, w in zip((3, 5, 2, 7)[:machines], scale, strict=False))
    )
    low = -12.0 - 8.0 * machines
    return World(
        f"maintenance {machines}", rows, machines + 1, discount, (low, 0.0), start
    )


LAKE = [
    "SFFFFFFF",
    "FFFFFFFF",
    "FFFHFFFF",
    "FFFFFHFF",
    "FFFHFFFF",
    "FHHFFFHF",
    "FHFFHFHF",
    "FFFHFFFG",
]


def lake(discount: float = 0.99) -> World:
    """Frozen Lake, 8 by 8; values in [0, 1]."""
    rows: list[list[Outcome]] = []
    moves = [(0, -1), (1, 0), (0, 1), (-1, 0)]
    for y, x, action in itertools.product(range(8), range(8), range(4)):
        row: list[Outcome] = []
        for move in (action - 1, action, action + 1):
            v = min(max(y + moves[move % 4][0], 0), 7)
            u = min(max(x + moves[move % 4][1], 0), 7)
            ends = LAKE[v][u] in "GH"
            row.append((1 / 3, float(LAKE[v][u] == "G"), END if ends else v * 8 + u))
        rows.append([(1.0, 0.0, END)] if LAKE[y][x] in "GH" else row)
    return World("lake 8x8", rows, 4, discount, (0.0, 1.0), 0, (0.0, 1.0))


def garnet(
    states: int = 50, actions: int = 4, discount: float = 0.99, seed: int = 1
) -> World:
    """A random MDP with three next states per pair and rewards 0 and 1."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(states * actions):
        targets = rng.choice(states, 3, replace=False)
        shares, mean = rng.dirichlet(np.ones(3)), rng.random()
        rows.append(
            [
                (shares[i] * p, reward, int(targets[i]))
                for i in range(3)
                for p, reward in ((mean, 1.0), (1.0 - mean, 0.0))
            ]
        )
    name = f"garnet {states}x{actions}"
    return World(name, rows, actions, discount, (0.0, 1.0), 0)


COMPLAINTS: dict[str, tuple[Callable[[], World], int, float]] = {
    # calls of the complaint, and the prototype's lower end there (cost.md, section 3)
    "inventory": (inventory, 300_000, -91.8),
    "inventory, later": (inventory, 620_000, -89.2),
    "queues": (queues, 480_000, -232.0),
    "maintenance": (maintenance, 3_100_000, -64.94),
    "garnet": (garnet, 300_000, 81.26),
    "lake": (lake, 300_000, 0.400),
}


# --- further problems ---------------------------------------------------------------


def replacement(discount: float = 0.999) -> World:
    """A machine of age 0 to 99: running costs grow, a new one costs 60."""
    rows = []
    for age in range(100):
        for action in range(2):
            used, price = (0, 60.0) if action == 1 else (age, 0.0)
            running = 0.02 * used**1.5
            older = min(used + 1, 99)
            breaks = min(0.5, 0.002 * used)
            rows.append(
                [
                    (1.0 - breaks, -price - running, older),
                    (breaks, -price - running - 90.0, 0),
                ]
            )
    return World("replacement", rows, 2, discount, (-170.0, 0.0), 10)


def admission(discount: float = 0.98) -> World:
    """A queue of at most 199 and a door: refusing costs 12, waiting 0.2 each."""
    rows = []
    for length in range(200):
        for is_closed in range(2):
            row = []
            for arrivals, p in enumerate(poisson(1.0, 8)):
                refused = arrivals if is_closed else max(0, length + arrivals - 199)
                held = min(length + (0 if is_closed else arrivals), 199)
                for served, q in ((0, 0.3), (1, 0.4), (2, 0.3)):
                    rest = max(0, held - served)
                    row.append((p * q, -0.2 * held - 12.0 * refused, rest))
            rows.append(row)
    return World("admission", rows, 2, discount, (-140.0, 0.0), 20)


def cost_garnet(states: int, actions: int, discount: float, seed: int) -> World:
    """A random MDP whose costs are rare and large."""
    rng, rows = np.random.default_rng(seed), []
    targets = rng.integers(states, size=(states * actions, 3))
    shares = rng.dirichlet(np.ones(3), size=states * actions)
    rare = 0.1 * rng.random(states * actions)
    for pair in range(states * actions):
        rows.append(
            [
                (float(shares[pair, i]) * p, reward, int(targets[pair, i]))
                for i in range(3)
                for p, reward in ((rare[pair], -50.0), (1.0 - rare[pair], -1.0))
            ]
        )
    return World(f"costs {states}", rows, actions, discount, (-50.0, 0.0), 0)


FURTHER: dict[str, tuple[Callable[[], World], int]] = {
    "inventory, .99": (lambda: inventory(0.99), 500_000),
    "queues, .995": (lambda: queues(0.995), 1_000_000),
    "replacement, .999": (replacement, 1_000_000),
    "admission, .98": (admission, 500_000),
    "three machines, .97": (lambda: maintenance(3, 0.97), 1_000_000),
    "costs, 10,000 states, .95": (lambda: cost_garnet(10_000, 3, 0.95, 2), 1_000_000),
    "costs, 100,000 states, .97": (
        lambda: cost_garnet(100_000, 2, 0.97, 3),
        2_000_000,
    ),
}
