"""Problems whose values are known: costs, discounts to .999, games, horizons, bad luck.

A ``World`` is one law, ``outcomes(state, action) -> [(probability, reward, next
state)]``, written here. The simulator samples the law by one uniform number, and
``table`` is the same world for compiled code. Exact values come from sweeps over the
law in this file, which share no code with the package; those of continuous states and
of constant rewards come from formulas. Planners see the simulator alone.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

import smoothcruiser as sc

State = Hashable
Outcomes = list[tuple[float, float, Any]]
Law = Callable[[Any, int], Outcomes]
PRECISION = 1e-10  # of exact values


@dataclass(frozen=True)
class Known:
    """A problem and V, or a policy and its value, at the initial state."""

    name: str
    problem: sc.Problem
    truth: float | Fraction  # a fraction has no rounding to forgive
    q_values: Any = ()
    policy: Any = None  # evaluated where there is one


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
    sparse: bool = False  # sparsemax at the temperature, else entropy
    ends: Callable[[Any], bool] | None = None
    player: Callable[[Any], int] | None = None
    horizon: int | None = None
    payoffs: str = "every step"

    @property
    def facts(self) -> dict[str, Any]:
        """What a user declares of the simulator and of the table."""
        operator: sc.Operator = sc.Max()
        if self.temperature:
            named = sc.Sparsemax if self.sparse else sc.Entropy
            operator = named(self.temperature)
        return {
            "discount": self.discount,
            "operator": operator,
            "reward_range": self.reward_range,
            "horizon": self.horizon,
            "payoffs": self.payoffs,
        }

    def simulator(self) -> sc.Problem:
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

        facts = self.facts | {
            "num_actions": self.num_actions,
            "initial_state": self.first,
            "terminal": self.ends,
        }
        if self.player is None:
            return sc.MDP(step, **facts)
        return sc.Game(step, player=self.player, **facts)

    def table(self) -> sc.Problem:
        """The world in compiled code; outcomes that share a state share their mean."""
        size, (starts, chances, targets, rewards) = len(self.states), self._law
        pair = np.repeat(np.arange(len(starts)), np.diff([*starts, len(chances)]))
        P, income = np.zeros((2, len(starts), size))
        np.add.at(P, (pair, targets), chances)
        np.add.at(income, (pair, targets), chances * rewards)
        R = np.clip(income / np.maximum(P, 1e-300), *self.reward_range)
        shape = (size, self.num_actions, size)
        return sc.tabular(
            P.reshape(shape),
            R.reshape(shape),
            terminal=self._over if self.ends else None,
            players=self._players if self.player else None,
            **self.facts,
        )

    @cached_property
    def states(self) -> list[Any]:
        """The states that can be reached, in the order of the table's rows."""
        seen, queue = {self.first}, [self.first]
        for state in queue:
            if self.ends is not None and self.ends(state):
                continue
            for action in range(self.num_actions):
                for _, _, following in self.outcomes(state, action):
                    if following not in seen:
                        seen.add(following)
                        queue.append(following)
        return queue

    @cached_property
    def _over(self) -> Any:
        return np.array([bool(self.ends and self.ends(s)) for s in self.states])

    @cached_property
    def _players(self) -> Any:
        return np.array([self.player(s) if self.player else 1 for s in self.states])

    @cached_property
    def _law(self) -> tuple[Any, Any, Any, Any]:
        """Start of each pair's outcomes; probabilities, targets, rewards of all."""
        number = {state: i for i, state in enumerate(self.states)}
        starts, law = [], []
        for state, over in zip(self.states, self._over, strict=True):
            for action in range(self.num_actions):
                starts.append(len(law))
                law += [(1.0, 0.0, state)] if over else self.outcomes(state, action)
        chances, rewards, targets = zip(*law, strict=True)
        rows = [number[state] for state in targets]
        return np.array(starts), np.array(chances), np.array(rows), np.array(rewards)

    def _swept(self, collapse: Callable[[Any], Any]) -> tuple[float, Any]:
        """V and Q of the first state, where ``collapse`` makes values of Q."""
        starts, chances, targets, rewards = self._law
        income, values = np.add.reduceat(chances * rewards, starts), self._over * 0.0
        for _ in range(self.horizon or 10**6):
            expected = np.add.reduceat(chances * values[targets], starts)
            q_values = income + self.discount * expected
            q_values = q_values.reshape(-1, self.num_actions)
            following = np.where(self._over, 0.0, collapse(q_values))
            change = np.abs(following - values).max()
            values = following
            if self.horizon is None and change <= PRECISION * (1.0 - self.discount):
                break
        return float(values[0]), q_values[0]

    def planned(self, *, compiled: bool = False) -> Known:
        """The problem with V and the action values of the first state."""
        sign = np.where(self._players == 1, 1.0, -1.0)
        scale = self.temperature

        def collapse(q_values: Any) -> Any:
            turned = q_values * sign[:, None]
            top = turned.max(axis=1)
            if scale:
                inner = np.exp((turned - top[:, None]) / scale).sum(axis=1)
                top = top + scale * np.log(inner)
            return sign * top

        assert not self.sparse
        value, q_values = self._swept(collapse)
        problem = self.table() if compiled else self.simulator()
        return Known(self.name, problem, value, q_values)

    def evaluated(self, policy: Any, *, compiled: bool = False) -> Known:
        """A policy with its value: a function state -> action, or probabilities
        (states, actions) for the table.
        """
        chances = policy
        if callable(policy):
            chances = np.eye(self.num_actions)[[policy(s) for s in self.states]]
        omega = 0.5 * (chances**2 - chances)
        if not self.sparse:
            omega = chances * np.log(np.maximum(chances, 1e-300))
        sign = np.where(self._players == 1, 1.0, -1.0)
        bonus = -sign * self.temperature * omega.sum(axis=1)
        value, _ = self._swept(
            lambda q_values: (chances * q_values).sum(axis=1) + bonus
        )
        problem = self.table() if compiled else self.simulator()
        return Known(self.name, problem, value, policy=chances if compiled else policy)


def poisson(mean: float, most: int) -> list[float]:
    """Probabilities of 0 to ``most``, the tail in the last one."""
    law = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(most)]
    return [*law, 1.0 - math.fsum(law)]


def inventory(discount: float = 0.95) -> World:
    """Stock and the order under way, lost sales: costs of storing and of missing."""
    demand = poisson(3.0, 13)

    def outcomes(state: Any, order: int) -> Outcomes:
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

    def outcomes(state: Any, action: int) -> Outcomes:
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

    def outcomes(state: Any, action: int) -> Outcomes:
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
    law: dict[tuple[int, int], Outcomes] = {}
    for state, action in itertools.product(range(states), range(actions)):
        chances, pays = rng.dirichlet(np.ones(5)), rng.random(5) < rng.random()
        targets = rng.integers(states, size=5).tolist()
        law[state, action] = list(
            zip(chances.tolist(), pays.astype(float).tolist(), targets, strict=True)
        )
    name = f"garnet {states}x{actions}, {discount:g}"
    name = f"game of {name}" if "player" in more else name
    name += ", sparsemax" if "sparse" in more else ""
    name += ", entropy" if "temperature" in more and "sparse" not in more else ""
    name += f", horizon {more['horizon']}" if "horizon" in more else ""
    return World(
        name, lambda s, a: law[s, a], 0, actions, discount, (0.0, 1.0), **more
    )


def lake(size: int, discount: float, **more: Any) -> World:
    """A slippery walk to a goal that pays 1; holes end it."""
    rng = np.random.default_rng([37, size])
    holes = {(int(a), int(b)) for a, b in rng.integers(size, size=(size, 2))}
    goal = (size - 1, size - 1)
    holes -= {(0, 0), goal}
    moves = ((0, -1), (1, 0), (0, 1), (-1, 0))

    def outcomes(state: Any, action: int) -> Outcomes:
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
    more |= {"ends": ends.__contains__}
    return World(name, outcomes, (0, 0), 4, discount, (0.0, 1.0), **more)


def replacement(discount: float = 0.99) -> World:
    """A machine that ages: keep it (cost grows, it may fail) or buy a new one."""

    def outcomes(age: int, action: int) -> Outcomes:
        if action == 1:
            return [(1.0, -30.0, 0)]
        fails = 0.02 * age
        return [(fails, -60.0, 0), (1.0 - fails, -1.0 * age, min(age + 1, 12))]

    return World(f"replacement, {discount:g}", outcomes, 0, 2, discount, (-60.0, 0.0))


def rare_breakdown(discount: float = 0.99) -> World:
    """Nothing happens for long; then each step costs 90 until a slow repair."""

    def outcomes(state: int, action: int) -> Outcomes:
        if state == 1:
            repaired = 0.05 if action == 0 else 0.1
            return [(repaired, -90.0, 0), (1.0 - repaired, -90.0, 1)]
        breaks = 0.0008 if action == 1 else 0.002
        return [(breaks, -1.0, 1), (1.0 - breaks, -1.0, 0)]

    name = f"rare breakdown, {discount:g}"
    return World(name, outcomes, 0, 2, discount, (-90.0, 0.0))


def secretary(horizon: int = 12) -> World:
    """Stop at an offer of 0 to 9 before the last day; discount 1."""

    def outcomes(offer: int, action: int) -> Outcomes:
        if action == 1:
            return [(1.0, offer / 9.0, -1)]
        return [(0.1, 0.0, z) for z in range(10)]

    more = {"ends": lambda offer: offer == -1, "horizon": horizon}
    name = f"offers, horizon {horizon}"
    return World(name, outcomes, 3, 2, 1.0, (0.0, 1.0), **more)


# --- worlds made to break an estimate or a bound ------------------------------


def fines(discount: float = 0.99) -> World:
    """A thousandth of the steps cost 1000, the others 0 to 1: heavy tails."""
    law = [(0.499, 0.0, 0), (0.3, -0.5, 1), (0.2, -1.0, 2), (0.001, -1000.0, 3)]
    name = f"fines, {discount:g}"
    return World(name, lambda s, a: law, 0, 1, discount, (-1000.0, 0.0))


def regimes(discount: float = 0.999) -> World:
    """Two regimes that last a hundred steps; far more could be lost than is."""

    def outcomes(state: int, action: int) -> Outcomes:
        return [
            (0.99, -1.0 - 2.0 * state, state),
            (0.01, -1.0 - 2.0 * state, 1 - state),
        ]

    return World(f"regimes, {discount:g}", outcomes, 0, 1, discount, (-10.0, 0.0))


def cycle(discount: float = 0.9) -> World:
    """A round of four sure rewards: only the coins of killed paths are random."""
    pays = (10.0, 0.0, -5.0, 1.0)

    def outcomes(state: int, action: int) -> Outcomes:
        return [(1.0, pays[state], (state + 1) % 4)]

    return World(
        f"round of four, {discount:g}", outcomes, 0, 1, discount, (-5.0, 10.0)
    )


def errands(discount: float = 0.99) -> World:
    """A cost of 1 a step until an end comes, after thirty steps or so."""
    chances = {0: [(0.95, 0.05, 0.0), (0.9, 0.1, 0.0)]}
    chances[1] = [(0.3, 0.6, 0.1), (0.5, 0.5, 0.0)]

    def outcomes(state: int, action: int) -> Outcomes:
        return [(p, -1.0, z) for z, p in enumerate(chances[state][action]) if p]

    name, ends = f"errands, {discount:g}", (2).__eq__
    return World(name, outcomes, 0, 2, discount, (-1.0, 0.0), ends=ends)


def lottery(discount: float = 0.95) -> World:
    """A ticket that wins 1 once in 500, against a sure 0.0015: the mean is 0.002."""
    tickets = [(0.002, 1.0, 0), (0.998, 0.0, 0)]

    def outcomes(state: int, action: int) -> Outcomes:
        return tickets if action == 0 else [(1.0, 0.0015, 0)]

    return World(f"lottery, {discount:g}", outcomes, 0, 2, discount, (0.0, 1.0))


def range_ends(discount: float = 0.5) -> World:
    """Every reward is an end of the range, by a coin of the next state."""

    def outcomes(state: int, action: int) -> Outcomes:
        good = 0.45 + 0.05 * action + 0.2 * state
        return [(good, 1.0, 1), (1.0 - good, -1.0, 0)]

    return World(
        f"coins at the ends, {discount:g}", outcomes, 0, 2, discount, (-1.0, 1.0)
    )


def constant(
    reward: float, discount: float, ends: tuple[float, float], policy: Any = None
) -> Known:
    """The same reward for ever: reward / (1 - discount), without any rounding."""
    problem = sc.MDP(
        lambda state, action, rng: (reward, state),
        num_actions=2,
        discount=discount,
        operator=sc.Max(),
        initial_state=0,
        reward_range=ends,
    )
    truth = Fraction(reward) / (1 - Fraction(discount))
    name = f"always {reward:g} of [{ends[0]:g}, {ends[1]:g}], {discount:g}"
    return Known(name, problem, truth, (truth, truth), policy)


def selling(discount: float, least: float | None = None) -> Known:
    """Offers uniform in [0, 1]: take one (1) and end, or wait (0).

    Who takes offers of at least c gets m = (1 - c^2)/2 + discount c m before an offer
    is seen. The best c is discount m. The first offer is 0.25, below all c used here.
    """
    best = (1.0 - math.sqrt(1.0 - discount**2)) / discount
    c = best if least is None else least
    wait = discount * 0.5 * (1.0 - c * c) / (1.0 - discount * c)
    problem = sc.MDP(
        lambda x, action, rng: (x, -1.0) if action == 1 else (0.0, rng.random()),
        num_actions=2,
        discount=discount,
        operator=sc.Max(),
        initial_state=0.25,
        reward_range=(0.0, 1.0),
        terminal=lambda x: x < 0.0,
    )
    name = f"selling, continuous, {discount:g}"
    if least is not None:
        return Known(name, problem, wait, policy=lambda x: int(x >= c))
    return Known(name, problem, wait, (wait, 0.25))


def drift(discount: float, policy: Any = None) -> Known:
    """x' = 0.8 x + 0.2 U^(2 - action), worth x - 0.05 action: values are linear.

    V(x) = a x + b with a = 1/(1 - 0.8 discount), and E U^(2 - action) = 1/3 or 1/2.
    """
    slope = 1.0 / (1.0 - 0.8 * discount)
    gains = [discount * slope * 0.2 / 3.0, discount * slope * 0.1 - 0.05]
    best = max(gains) if policy is None else gains[policy(0.5)]
    value = 0.5 * slope + best / (1.0 - discount)
    problem = sc.MDP(
        lambda x, action, rng: (
            x - 0.05 * action,
            0.8 * x + 0.2 * rng.random() ** (2 - action),
        ),
        num_actions=2,
        discount=discount,
        operator=sc.Max(),
        initial_state=0.5,
        reward_range=(-0.05, 1.0),
    )
    q_values = [value - best + gain for gain in gains] if policy is None else ()
    return Known(f"drift, continuous, {discount:g}", problem, value, q_values, policy)


# --- policies -----------------------------------------------------------------


def order_up_to(state: Any) -> int:
    """A rule of thumb for the inventory."""
    return min(max(10 - state[0] - state[1], 0), 6)


def longest_queue(state: Any) -> int:
    """Serve the longer queue."""
    return 0 if state[0] >= state[1] else 1


def worst_machine(state: Any) -> int:
    """Repair the most worn machine once it is bad."""
    worst = max(range(3), key=lambda i: state[i])
    return worst if state[worst] >= 3 else 3


def turns(state: Any) -> int:
    """Players alternate by the number of the state."""
    return 1 + state % 2


def best_of(world: World) -> Known:
    """The optimal policy, as the package finds it; its value as sweeps find it."""
    return world.evaluated(sc.solve(world.table()).policy, compiled=True)


def random_of(world: World) -> Known:
    """A random policy of a world in compiled code."""
    shares = (
        np.random.default_rng(6).random((len(world.states), world.num_actions)) ** 3
    )
    return world.evaluated(shares / shares.sum(1, keepdims=True), compiled=True)


def blind_of(world: World) -> Known:
    """The uniform policy of a world in compiled code."""
    shape = (len(world.states), world.num_actions)
    return world.evaluated(np.full(shape, 1.0 / world.num_actions), compiled=True)


def evaluated_simulators() -> Iterator[Known]:
    """Policies of simulators in Python, all of them costs."""
    yield constant(-1.0, 0.95, (-100.0, 0.0), lambda state: 0)
    yield inventory(0.95).evaluated(order_up_to)
    yield queues(0.98).evaluated(longest_queue)
    yield maintenance(0.95).evaluated(worst_machine)


def evaluated_tables() -> Iterator[Known]:
    """Policies in compiled code; ``evaluate`` has to hold on all of them."""
    yield rare_breakdown().evaluated(lambda state: 1, compiled=True)
    yield from map(blind_of, (fines(), regimes(), cycle(), errands()))
    yield best_of(lake(6, 0.99, payoffs="end"))
    yield best_of(garnet(50, 4, 0.99))
    yield best_of(garnet(8, 4, 0.9, temperature=0.3))
    yield best_of(garnet(8, 4, 0.8, temperature=0.3, sparse=True))
    yield random_of(garnet(8, 2, 0.9, temperature=0.4, player=turns))
    yield blind_of(garnet(8, 3, 1.0, horizon=20))
