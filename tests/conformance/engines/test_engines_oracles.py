"""``reference`` and ``compiled`` agree to the last bit on users' own njit
oracles, for every kind of state they may have.

Each oracle is compiled into its own machine (seconds), so everything that is
asked of one stands in one test: several operators, since these share the
machine, tables of all kinds, one thread and two.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest
from engine_agreement import (
    assert_engines_agree,
    assert_workers_do_not_matter,
    hand_made,
    paper_tables,
    random_table,
    randomized_table,
    sharp_tables,
)
from numba import njit

import smoothcruiser as sc

OPERATORS = (
    sc.Entropy(0.5),
    sc.KL(0.8, prior=(1, 2, 3)),
    sc.Sparsemax(0.3),
    sc.SquareRoot(0.7),
    sc.Max(),
)


# --- int (tests/golden compares a tuple too) ----------------------------------


# --- float: a noisy walk that ends far out ------------------------------------


@njit
def drift(state, action, rng):
    after = 0.8 * state + (action - 1) * 0.5 + 0.3 * rng.normal()
    return math.exp(-after * after), after


@njit
def drifted_away(state):
    return abs(state) > 1.2


# --- NamedTuple: a game in no order, ended by the step's own flag -------------


class Cell(NamedTuple):
    x: int
    y: int
    heat: float


@njit
def chase(state, action, rng):
    weights = np.array([0.5, 0.0, 0.3, 0.2])
    turn = (action + rng.categorical(weights)) % 4
    x, y = state.x, state.y
    if turn == 0:
        x = (x + 1) % 5
    elif turn == 1:
        y = (y + 1) % 5
    elif turn == 2:
        x = (x + 4) % 5
    heat = 0.5 * state.heat + rng.random()
    return heat / 2.0, Cell(x, y, heat), x == 3 and y < 3


@njit
def chase_mover(state):
    return 1 + (state.x + state.y) % 2


# --- nested tuple of small types: a horizon -----------------------------------


@njit
def climb(state, action, rng):
    (steps, tired), height, luck = state
    up = rng.random() < (0.2 if tired else 0.4) + 0.2 * action
    after = np.float32(0.7) * height + np.float32(rng.random())
    reward = 1.0 if up else min(1.0, float(after) / 4.0)
    return reward, (
        (np.int32(steps + action), not tired),
        after,
        np.uint64(luck + np.uint64(2**63 + 1)),
    )


# --- arrays of fixed shape ----------------------------------------------------


@njit
def queue(state, action, rng):
    after = state.copy()
    after[action] = max(0.0, after[action] - 1.0)
    after[rng.integers(3)] += rng.random()
    load = after[0] + after[1] + after[2]
    return 1.0 / (1.0 + load), after


@njit
def drop(state, action, rng):
    """Rewrites one array of the caller's: the engine must copy what it keeps."""
    board, turn = state
    after = board.copy()
    row = 0
    while row < 2 and after[row, action] != 0:
        row += 1
    after[row, action] = 1 + turn
    return rng.random() * 0.5 + 0.5 * (after[0, 0] == 1), (after, 1 - turn)


@njit
def drop_allowed(state, action):
    return state[0][2, action] == 0


@njit
def drop_full(state):
    return np.all(state[0][2] != 0)


@njit
def drop_mover(state):
    return 1 + state[1]


# kinds of state that are compiled as another kind of the list is: evidence alone
ALIKE = ("nested", "float", "board")
PROBLEMS = {
    "float": (0.25, sc.MDP, drift, {"terminal": drifted_away, "discount": 0.4}),
    "named": (
        Cell(0, 1, 0.0),
        sc.Game,
        chase,
        {"player": chase_mover, "terminal": True, "discount": 0.6},
    ),
    "nested": (
        ((np.int32(0), False), np.float32(0.5), np.uint64(1)),
        sc.MDP,
        climb,
        {"discount": 1.0, "horizon": 4},
    ),
    "array": (np.zeros(3), sc.MDP, queue, {"discount": 0.5}),
    "board": (
        (np.zeros((3, 3), np.int64), 0),
        sc.Game,
        drop,
        {
            **{"player": drop_mover, "legal": drop_allowed},
            **{"terminal": drop_full, "discount": 0.9},
        },
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in ALIKE else [])
        for name in PROBLEMS
    ],
)
def test_agreement_on_every_kind_of_state(name):
    state, kind, step, facts = PROBLEMS[name]
    for i, operator in enumerate(OPERATORS):
        problem = kind(step, num_actions=3, operator=operator, **facts)
        for schedule in (
            hand_made(problem.facts),
            random_table(problem.facts, i, target="value"),
            randomized_table(problem.facts, i, samples=3),
            *paper_tables(problem.facts),
        ):
            assert_engines_agree(problem, schedule, state)
        if i == 0:
            for schedule in (
                hand_made(problem.facts, target="value"),
                *sharp_tables(problem.facts),
            ):
                assert_workers_do_not_matter(problem, schedule, state)
