"""Ordinary problems with exact values: costs, discounts near 1, games, horizons.

A world is one law, ``outcomes(state, action) -> [(probability, reward, next state)]``,
written here. The simulator draws from the law by one uniform number; the exact value
comes from value iteration over the same law in this file, which shares no code with the
package. Planners see the simulator alone.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import smoothcruiser as sc

State = Hashable
Law = Callable[[Any, int], list[tuple[float, float, Any]]]
PRECISION = 1e-9  # of exact values


@dataclass(frozen=True)
class World:
    """A law, its discount and operator, and the facts that a user would declare."""

    name: str
    outcomes: Law
    first: Any
    num_actions: int
    discount: float
    reward_range: tuple[float, float]
    temperature: float = 0.0  # 0: plain max
    ends: Callable[[Any], bool] | None = None
    player: Callable[[Any], int] | None = None
    horizon: int | None = None

    @property
    def operator(self) -> sc.Operator:
        """Plain max, or entropy at a temperature."""
        return sc.Entropy(self.temperature) if self.temperature else sc.Max()

    def problem(self, **declared: Any) -> sc.Problem:
        """The world as a plain Python simulator."""
        cache: dict[tuple[Any, int], tuple[list[float], list[tuple[float, Any]]]] = {}

        def step(state: Any, action: int, rng: Any) -> tuple[float, Any]:
            pair = (state, int(action))
            if pair not in cache:
                law = self.outcomes(*pair)
                ladder = list(itertools.accumulate(p for p, _, _ in law))
                cache[pair] = (ladder[:-1], [(r, z) for _, r, z in law])
            ladder, results = cache[pair]
            return results[bisect.bisect_right(ladder, rng.random())]

        facts: dict[str, Any] = {
            "num_actions": self.num_actions,
            "discount": self.discount,
            "operator": self.operator,
            "reward_range": self.reward_range,
            "initial_state": self.first,
            "horizon": self.horizon,
            "terminal": self.ends,
        } | declared
        if self.player is None:
            return sc.MDP(step, **facts)
        return sc.Game(step, player=self.player, **facts)

    @cached_property
    def states(self) -> list[Any]:
        """The states that can be reached from the first one."""
        found, queue = {self.first: 0}, [self.first]
        for state in queue:
            if self.ends is not None and self.ends(state):
                continue
            for action in range(self.num_actions):
                for _, _, following in self.outcomes(state, action):
                    if following not in found:
                        found[following] = len(queue)
                        queue.append(following)
        return queue

    @cached_property
    def _rows(self) -> tuple[Any, Any, Any, Any]:
        """Start of each pair's outcomes, probabilities, targets, mean rewards."""
        number = {state: i for i, state in enumerate(self.states)}
        starts, chances, targets, rewards = [], [], [], []
        for state in self.states:
            over = self.ends is not None and self.ends(state)
            for action in range(self.num_actions):
                law = [(1.0, 0.0, state)] if over else self.outcomes(state, action)
                starts.append(len(chances))
                chances += [p for p, _, _ in law]
                targets += [number[z] for _, _, z in law]
                rewards.append(math.fsum(p * r for p, r, _ in law))
        return (*map(np.array, (starts, chances, targets, rewards)),)  # type: ignore[return-value]

    def _backed_up(self, values: Any) -> Any:
        """Action values (S, A) one step before ``values``."""
        starts, chances, targets, rewards = self._rows
        expected = np.add.reduceat(chances * values[targets], starts)
        return (rewards + self.discount * expected).reshape(-1, self.num_actions)

    def _iterated(self, collapse: Callable[[Any], Any]) -> tuple[float, Any]:
        """V and Q of the first state, where ``collapse`` makes values of Q."""
        over = np.array([self.ends is not None and self.ends(s) for s in self.states])
        values = np.zeros(len(self.states))
        for _ in range(self.horizon or 10**6):
            q_values = self._backed_up(values)
            following = np.where(over, 0.0, collapse(q_values))
            change = np.abs(following - values).max()
            values = following
            small = PRECISION * (1.0 - self.discount)
            if self.horizon is None and change <= small:
                break
        return float(values[0]), q_values[0]

    def truth(self) -> tuple[float, Any]:
        """V and the action values of the first state."""
        players = [1 if self.player is None else self.player(s) for s in self.states]
        sign = np.where(np.array(players) == 1, 1.0, -1.0)
        scale = self.temperature

        def collapse(q_values: Any) -> Any:
            turned = q_values * sign[:, None]
            top = turned.max(axis=1)
            if scale:
                inner = np.exp((turned - top[:, None]) / scale).sum(axis=1)
                top = top + scale * np.log(inner)
            return sign * top

        return self._iterated(collapse)

    def policy_truth(self, policy: Callable[[Any], int]) -> float:
        """The value of a policy that maps states to actions, without a regularizer."""
        actions = np.array([policy(state) for state in self.states])
        rows = np.arange(len(actions))
        return self._iterated(lambda q_values: q_values[rows, actions])[0]


def poisson(mean: float, most: int) -> list[float]:
    """Probabilities of 0 to ``most``, the tail in the last one."""
    law = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(most)]
    return [*law, 1.0 - math.fsum(law)]


def inventory(discount: float = 0.95) -> World:
    """Stock and the order under way, lost sales: costs of storing and of missing."""
    demand = poisson(3.0, 13)

    def outcomes(state: Any, order: int) -> list[tuple[float, float, Any]]:
        stock = min(state[0] + state[1], 15)
        return [
            (
                p,
                -(max(stock - d, 0) + 9.0 * max(d - stock, 0)),
                (max(stock - d, 0), order),
            )
            for d, p in enumerate(demand)
        ]

    name = f"inventory, costs, {discount:g}"
    return World(name, outcomes, (5, 3), 7, discount, (-117.0, 0.0))


def queues(discount: float = 0.98) -> World:
    """One server for two queues of at most eight."""

    def outcomes(state: Any, action: int) -> list[tuple[float, float, Any]]:
        law = []
        for first, second in itertools.product((0, 1), repeat=2):
            p = (0.3 if first else 0.7) * (0.25 if second else 0.75)
            x, y = min(state[0] + first, 8), min(state[1] + second, 8)
            served = [(0.7, x - 1, y), (0.3, x, y)] if action == 0 else []
            served = served or [(0.6, x, y - 1), (0.4, x, y)]
            for chance, u, v in served:
                u, v = max(u, 0), max(v, 0)
                law.append((p * chance, -(2.0 * u + v), (u, v)))
        return law

    return World(f"queues, {discount:g}", outcomes, (3, 3), 2, discount, (-24.0, 0.0))


def maintenance(discount: float = 0.95) -> World:
    """Three machines that wear out, one crew."""

    def outcomes(state: Any, action: int) -> list[tuple[float, float, Any]]:
        law = [(1.0, 0.0, ())]
        for i, wear in enumerate(state):
            worn = 0.15 + 0.05 * i
            futures = [(worn, wear + 1), (1.0 - worn, wear)]
            futures = [(1.0, wear)] if wear == 5 else futures
            futures = [(1.0, 0)] if i == action else futures
            law = [
                (p * q, r - _wear_cost(wear, z, repaired=i == action), (*done, z))
                for p, r, done in law
                for q, z in futures
            ]
        return law

    name = f"maintenance, {discount:g}"
    return World(name, outcomes, (1, 3, 2), 4, discount, (-32.0, 0.0))


def _wear_cost(before: int, after: int, *, repaired: bool) -> float:
    if repaired:
        return 5.0 if before < 5 else 12.0
    return 0.3 * after if after < 5 else 8.0


def garnet(states: int, actions: int, discount: float, **more: Any) -> World:
    """A random sparse model; each pair has five outcomes and coins as rewards."""
    rng = np.random.default_rng([35, states, actions])
    law: dict[tuple[int, int], list[tuple[float, float, int]]] = {}
    for state, action in itertools.product(range(states), range(actions)):
        chances, pays = rng.dirichlet(np.ones(5)), rng.random(5) < rng.random()
        targets = rng.integers(states, size=5).tolist()
        law[state, action] = list(
            zip(chances.tolist(), pays.astype(float).tolist(), targets, strict=True)
        )
    name = f"garnet {states}x{actions}, {discount:g}"
    if "player" in more:
        name = f"game of {name}"
    return World(name, lambda s, a: law[s, a], 0, actions, discount, (0.0, 1.0), **more)


def lake(size: int, discount: float) -> World:
    """A slippery walk to a goal; holes end it, and each step costs a little."""
    rng = np.random.default_rng([37, size])
    holes = {(int(a), int(b)) for a, b in rng.integers(size, size=(size, 2))}
    goal = (size - 1, size - 1)
    holes -= {(0, 0), goal}
    moves = ((0, -1), (1, 0), (0, 1), (-1, 0))

    def outcomes(state: Any, action: int) -> list[tuple[float, float, Any]]:
        law = []
        for turn, chance in ((-1, 0.1), (0, 0.8), (1, 0.1)):
            down, right = moves[(action + turn) % 4]
            place = (
                min(max(state[0] + down, 0), size - 1),
                min(max(state[1] + right, 0), size - 1),
            )
            law.append((chance, 1.0 if place == goal else 0.0, place))
        return law

    name = f"slippery lake {size}x{size}, {discount:g}"
    ends = frozenset({goal, *holes})
    return World(
        name, outcomes, (0, 0), 4, discount, (0.0, 1.0), ends=ends.__contains__
    )


def replacement(discount: float = 0.99) -> World:
    """A machine that ages: keep it (cost grows, it may fail) or buy a new one."""

    def outcomes(age: int, action: int) -> list[tuple[float, float, int]]:
        if action == 1:
            return [(1.0, -30.0, 0)]
        fails = 0.02 * age
        return [(fails, -60.0, 0), (1.0 - fails, -1.0 * age, min(age + 1, 12))]

    return World(f"replacement, {discount:g}", outcomes, 0, 2, discount, (-60.0, 0.0))


def rare_breakdown(discount: float = 0.99) -> World:
    """Nothing happens for long; then each step costs 90 until a slow repair."""

    def outcomes(state: int, action: int) -> list[tuple[float, float, int]]:
        if state == 1:
            repaired = 0.05 if action == 0 else 0.1
            return [(repaired, -90.0, 0), (1.0 - repaired, -90.0, 1)]
        breaks = 0.0008 if action == 1 else 0.002
        return [(breaks, -1.0, 1), (1.0 - breaks, -1.0, 0)]

    name = f"rare breakdown, {discount:g}"
    return World(name, outcomes, 0, 2, discount, (-90.0, 0.0))


def secretary(horizon: int = 12) -> World:
    """Stop at an offer of 0 to 9 before the last day; discount 1."""

    def outcomes(offer: int, action: int) -> list[tuple[float, float, int]]:
        if action == 1:
            return [(1.0, offer / 9.0, -1)]
        return [(0.1, 0.0, z) for z in range(10)]

    return World(
        f"offers, horizon {horizon}",
        outcomes,
        3,
        2,
        1.0,
        (0.0, 1.0),
        ends=lambda offer: offer == -1,
        horizon=horizon,
    )
