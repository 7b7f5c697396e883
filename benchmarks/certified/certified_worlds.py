"""The problems that certified search is measured on: a lake, and random families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.operators import KL, Entropy, Max, Operator, Sparsemax, SquareRoot
from smoothcruiser.problem.model.tabular import tabular
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.zoo import chain, garnet, gridworld, random_game

# Gymnasium's map
LAKE_8 = [
    "SFFFFFFF",
    "FFFFFFFF",
    "FFFHFFFF",
    "FFFFFHFF",
    "FFFHFFFF",
    "FHHFFFHF",
    "FHFFHFHF",
    "FFFHFFFG",
]


LAKE_4 = ["SFFF", "FHFH", "FFFH", "HFFG"]


def frozen_lake(lake: list[str], **rest: Any) -> Problem:
    """Slippery Frozen Lake without terminals.

    Holes and the goal absorb; entering the goal pays 1.
    """
    n = len(lake)
    moves = [(0, -1), (1, 0), (0, 1), (-1, 0)]
    P, R = np.zeros((n * n, 4, n * n)), np.zeros((n * n, 4, n * n))
    for row in range(n):
        for column in range(n):
            s = row * n + column
            if lake[row][column] in "HG":
                P[s, :, s] = 1.0
                continue
            for a in range(4):
                for b in (a - 1, a, a + 1):
                    down, right = moves[b % 4]
                    z_row, z_column = (
                        min(max(row + down, 0), n - 1),
                        min(max(column + right, 0), n - 1),
                    )
                    P[s, a, z_row * n + z_column] += 1.0 / 3.0
                    R[s, a, z_row * n + z_column] = float(lake[z_row][z_column] == "G")
    return tabular(P, R, initial_state=0, **rest)


def some_operator(rng: np.random.Generator) -> Operator:
    t = float(10.0 ** rng.uniform(-2.0, 0.5))
    return [Entropy(t), KL(t), Sparsemax(t), SquareRoot(t), Max()][
        int(rng.integers(5))
    ]


def coin(rng: np.random.Generator, **rest: Any) -> Problem:
    """Two states of fair and unfair coins: few pairs, so that no radius has slack."""
    P = np.zeros((2, 2, 2))
    P[:, :, 1] = rng.uniform(0.05, 0.95, size=(2, 2))
    P[:, :, 0] = 1.0 - P[:, :, 1]
    R = np.zeros((2, 2, 2))
    R[:, :, 1] = 1.0
    return tabular(P, R, **rest)


def nearly_deterministic(rng: np.random.Generator, **rest: Any) -> Problem:
    """A random graph whose moves fail once in a thousand, with rewards of 0 and 1."""
    n = int(rng.integers(3, 12))
    P = np.zeros((n, 2, n))
    for s in range(n):
        for a in range(2):
            P[s, a, rng.integers(n)] += 0.999
            P[s, a, rng.integers(n)] += 0.001
    return tabular(P, (rng.random((n, 2)) < 0.3).astype(float), **rest)


def with_ends(rng: np.random.Generator, **rest: Any) -> Problem:
    """Terminals, varying legal actions, rewards by next state, unreachable states."""
    n, reachable = 14, 9
    P = np.zeros((n, 3, n))
    for s in range(n):
        for a in range(3):
            targets = rng.choice(
                reachable if s < reachable else n, size=3, replace=False
            )
            P[s, a, targets] = rng.dirichlet(np.ones(3))
    legal = rng.random((n, 3)) < 0.7
    legal[np.arange(n), rng.integers(3, size=n)] = True
    terminal = np.arange(n) % 4 == 3
    return tabular(
        P,
        rng.random((n, 3, n)) * 2.0 - 1.0,
        terminal=terminal,
        legal=legal,
        reward_range=(-1.0, 1.0),
        **rest,
    )


def a_garnet(rng: np.random.Generator, **rest: Any) -> Problem:
    return garnet(
        states=int(rng.integers(2, 25)),
        actions=int(rng.integers(1, 5)),
        branching=3,
        seed=int(rng.integers(10**6)),
        **rest,
    )


def a_game(rng: np.random.Generator, **rest: Any) -> Problem:
    alternating = bool(rng.integers(2))
    return random_game(
        states=int(rng.integers(2, 20)),
        branching=2,
        seed=int(rng.integers(10**6)),
        alternating=alternating,
        **rest,
    )


FAMILIES: dict[str, Callable[..., Problem]] = {
    "garnet": a_garnet,
    "game": a_game,
    "grid": lambda rng, **rest: gridworld(n=int(rng.integers(3, 6)), **rest),
    "lake": lambda rng, **rest: frozen_lake(LAKE_4, **rest),
    "deterministic": lambda rng, **rest: chain(n=int(rng.integers(2, 12)), **rest),
    "nearly": nearly_deterministic,
    "ends": with_ends,
    "coin": coin,
}


def bernoulli(rng: np.random.Generator, discount: float) -> Problem:
    """A random MDP or game with 2 to 10 states, 2 to 4 actions and rewards 0 or 1.

    Half of them pay by where one arrives; in the others every state has a twin
    that pays, so that the reward is a coin of its own, in half of them nearly
    fair. A third are games, a quarter have terminal states, a fifth a horizon.
    """
    actions, twins = int(rng.integers(2, 5)), bool(rng.integers(2))
    places = int(rng.integers(1, 6) if twins else rng.integers(2, 11))
    moves = rng.dirichlet(
        np.full(places, rng.choice([0.5, 10.0])), size=(places, actions)
    )
    states = 2 * places if twins else places
    if twins:
        pays = 0.5 + rng.choice([0.02, 0.98]) * (
            rng.random((places, actions, 1)) - 0.5
        )
        rows = np.concatenate([moves * (1.0 - pays), moves * pays], axis=2)
        P, R = np.concatenate([rows, rows]), np.zeros((states, actions, states))
        R[:, :, places:] = 1.0
    else:
        P, R = moves, (rng.random((places, actions, places)) < 0.5).astype(float)
    rest: dict[str, Any] = {"operator": some_operator(rng), "discount": discount}
    if rng.random() < 1 / 3:
        rest["players"] = rng.integers(1, 3, size=states)
    if rng.random() < 1 / 4:
        rest["terminal"] = np.arange(states) == states - 1
    if rng.random() < 1 / 5:
        rest["horizon"] = int(rng.integers(2, 5))
    return tabular(P, R, reward_range=(0.0, 1.0), **rest)


def sparse_garnet(states: int, seed: int, discount: float) -> Problem:
    """A Garnet MDP too large for dense arrays: 2 actions, 3 successors per pair."""
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(seed)
    rows = 2 * states
    columns = rng.integers(states, size=(rows, 3))
    cuts = np.sort(rng.random((rows, 2)), axis=1)
    chances = np.diff(
        np.concatenate([np.zeros((rows, 1)), cuts, np.ones((rows, 1))], axis=1), axis=1
    )
    P = csr_matrix(
        (chances.reshape(-1), (np.repeat(np.arange(rows), 3), columns.reshape(-1))),
        shape=(rows, states),
    )
    return tabular(
        P, rng.random((states, 2)), discount=discount, operator=Entropy(0.1)
    )
