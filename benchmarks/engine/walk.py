"""A user's own oracle in four forms, the same walk to the last bit.

The forms are NamedTuple, int and array states, and tables.

Four moves on a ring of 32 x 32 cells with a slip; the reward is the distance to
the corner, scaled. ``kernel.c`` has its C twin (-DWALK).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

import smoothcruiser as sc

SIDE = 32
START = (3, 5)


class Cell(NamedTuple):
    x: int
    y: int


@njit(inline="always")
def move(x: int, y: int, action: int, rng: Any) -> tuple[int, int]:
    """The next cell: every tenth move slips to the next direction."""
    if rng.random() < 0.1:
        action = (action + 1) % 4
    if action == 0:
        return (x + 1) % 32, y
    if action == 1:
        return (x + 31) % 32, y
    if action == 2:
        return x, (y + 1) % 32
    return x, (y + 31) % 32


@njit
def walk(state: Any, action: int, rng: Any) -> Any:
    x, y = move(state.x, state.y, action, rng)
    return (x + y) / 62.0, Cell(x, y)


@njit
def walk_int(state: int, action: int, rng: Any) -> Any:
    x, y = move(state // 32, state % 32, action, rng)
    return (x + y) / 62.0, 32 * x + y


@njit
def walk_array(state: Any, action: int, rng: Any) -> Any:
    after = state.copy()
    after[0], after[1] = move(state[0], state[1], action, rng)
    return (after[0] + after[1]) / 62.0, after


def walk_tables(discount: float, operator: sc.Operator) -> sc.Problem:
    """The same law as tables (another use of the stream, so other bits)."""
    from scipy import sparse

    moves = np.array([(1, 0), (31, 0), (0, 1), (0, 31)])
    rows, columns, weights, rewards = [], [], [], []
    for x in range(SIDE):
        for y in range(SIDE):
            for action in range(4):
                for turn, weight in ((action, 0.9), ((action + 1) % 4, 0.1)):
                    u, v = (np.array([x, y]) + moves[turn]) % SIDE
                    rows.append((SIDE * x + y) * 4 + action)
                    columns.append(SIDE * u + v)
                    weights.append(weight)
                    rewards.append((u + v) / 62.0)
    shape = (4 * SIDE * SIDE, SIDE * SIDE)
    P, R = (
        sparse.csr_matrix((weights, (rows, columns)), shape=shape),
        sparse.csr_matrix((rewards, (rows, columns)), shape=shape),
    )
    return sc.tabular(P, R, discount=discount, operator=operator)


def problems(
    discount: float, operator: sc.Operator
) -> dict[str, tuple[sc.Problem, Any]]:
    """(problem, start) in each form."""

    def problem_of(step: Any) -> sc.Problem:
        return sc.MDP(step, num_actions=4, discount=discount, operator=operator)

    return {
        "NamedTuple": (problem_of(walk), Cell(*START)),
        "int": (problem_of(walk_int), SIDE * START[0] + START[1]),
        "array": (problem_of(walk_array), np.array(START, np.int64)),
        "tabular": (walk_tables(discount, operator), SIDE * START[0] + START[1]),
    }
