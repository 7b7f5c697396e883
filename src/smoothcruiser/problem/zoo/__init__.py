"""Built-in problems: the paper's chain and gridworld, Garnet MDPs, random games.

The problems of tree searches have a file (``literature``), and so has each problem whose
states never come back or are too many to list (``max_call``, ``storage``,
``lost_sales``, ``two_queues``). The latter are steps, not tables, and have a discount of
their own.

``chain`` and ``gridworld`` are exactly those of the paper's consistency table
(theory, section 2, item 7). Garnet (Archibald et al.): every (s, a) has
``branching`` distinct successors, probabilities from uniform cuts of [0, 1],
rewards uniform on [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import Operator
from smoothcruiser.problem.arguments import shorten_value
from smoothcruiser.problem.declarations import declare, pop_declarations
from smoothcruiser.problem.model.tabular import tabular
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.zoo.literature import (
    LAKE,
    NUMBER,
    check_memory,
    check_whole,
    d_chain,
    frozen_lake,
    sailing,
    synthetic_tree,
)
from smoothcruiser.problem.zoo.lost_sales import lost_sales
from smoothcruiser.problem.zoo.max_call import max_call
from smoothcruiser.problem.zoo.storage import storage
from smoothcruiser.problem.zoo.two_queues import two_queues


def chain(*, n: int = 5, **rest: Any) -> Problem:
    """Chain(n): left or right; reward 1 on the step n-2 -> n-1; the end loops."""
    n = check_whole("n", n, 2)
    check_memory(f"n={shorten_value(n)}", 2 * n * (n + 1) * NUMBER)
    P, R = np.zeros((n, 2, n)), np.zeros((n, 2))
    for s in range(n - 1):
        P[s, 0, max(s - 1, 0)] = 1.0
        P[s, 1, s + 1] = 1.0
    P[n - 1, :, n - 1] = 1.0
    R[n - 2, 1] = 1.0
    return tabular(P, R, initial_state=0, actions=("left", "right"), **rest)


def gridworld(*, n: int = 5, **rest: Any) -> Problem:
    """An n x n grid with reward 1 on every arrival in the far corner.

    A wall fills column n//2, with a gap at row n//2.
    """
    n = check_whole("n", n, 3)
    check_memory(f"n={shorten_value(n)}", 2 * 4 * n**4 * NUMBER)

    def valid(row: int, column: int) -> bool:
        return 0 <= row < n and 0 <= column < n and (column != n // 2 or row == n // 2)

    move_steps = [(0, -1), (0, 1), (-1, 0), (1, 0)]  # left, right, up, down
    P, R = np.zeros((n * n, 4, n * n)), np.zeros((n * n, 4, n * n))
    for row in range(n):
        for column in range(n):
            s = row * n + column
            neighbours = [
                (row + dr) * n + column + dc
                for dr, dc in move_steps
                if valid(row + dr, column + dc)
            ]
            for a, (dr, dc) in enumerate(move_steps):
                if not valid(row, column) or not valid(row + dr, column + dc):
                    P[s, a, s] = 1.0
                    continue
                target = (row + dr) * n + column + dc
                slip_targets = [z for z in neighbours if z != target]
                P[s, a, target] = 0.75 if slip_targets else 1.0
                for z in slip_targets:
                    P[s, a, z] = 0.25 / len(slip_targets)
    R[:, :, n * n - 1] = 1.0
    action_names = ("left", "right", "up", "down")
    return tabular(P, R, initial_state=0, actions=action_names, **rest)


def _random_row(
    rng: np.random.Generator, targets: np.ndarray[Any, Any], branching: int, size: int
) -> np.ndarray[Any, Any]:
    row = np.zeros(size)
    chosen_targets = rng.choice(targets, size=branching, replace=False)
    sorted_cuts = np.sort(rng.random(branching - 1))
    row[chosen_targets] = np.diff(np.concatenate([[0.0], sorted_cuts, [1.0]]))
    return row


def _check_rows(states: int, actions: int) -> None:
    """Refuse tables that are too large: a row is made (128 bytes more), then copied."""
    size_text = f"states={shorten_value(states)}, actions={shorten_value(actions)}"
    check_memory(size_text, states * actions * (2 * states * NUMBER + 128))


def garnet(
    *,
    states: int = 20,
    actions: int = 3,
    branching: int = 3,
    seed: int = 0,
    **rest: Any,
) -> Problem:
    """A random MDP with ``branching`` successors per pair."""
    states, actions = (
        check_whole("states", states, 1),
        check_whole("actions", actions, 1),
    )
    branching = min(check_whole("branching", branching, 1), states)
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    _check_rows(states, actions)
    all_states = np.arange(states)
    P = np.array(
        [
            [_random_row(rng, all_states, branching, states) for _ in range(actions)]
            for _ in range(states)
        ]
    )
    return tabular(P, rng.random((states, actions)), initial_state=0, **rest)


def random_game(
    *,
    states: int = 20,
    actions: int = 3,
    branching: int = 3,
    seed: int = 0,
    alternating: bool = False,
    **rest: Any,
) -> Problem:
    """A random turn-based game.

    With ``alternating`` every move passes the turn: even states are max, odd
    ones min.
    """
    states, actions, branching = (
        check_whole("states", states, 2),
        check_whole("actions", actions, 1),
        check_whole("branching", branching, 1),
    )
    if not isinstance(alternating, bool):
        raise InvalidInput(
            f"alternating must be true or false, got {shorten_value(alternating)}."
        )
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    _check_rows(states, actions)
    players = (
        np.arange(states) % 2 + 1 if alternating else rng.integers(1, 3, size=states)
    )
    all_states = np.arange(states)
    P = np.zeros((states, actions, states))
    for s in range(states):
        targets = all_states[players != players[s]] if alternating else all_states
        for a in range(actions):
            P[s, a] = _random_row(rng, targets, min(branching, len(targets)), states)
    return tabular(
        P,
        rng.random((states, actions)),
        players=players,
        alternating=alternating,
        initial_state=0,
        **rest,
    )


@dataclass(frozen=True)
class Entry:
    """A built-in problem: how to build it, its defaults, and one line about it."""

    build: Callable[..., Problem]
    defaults: dict[str, Any]
    summary: str
    # (rows, columns) for so many states, where the first states are a grid:
    # state row * columns + column
    grid: Callable[[int], tuple[int, int]] | None = None
    # whether it has a discount of its own; its operator is then max where none is named
    has_discount: bool = False


ZOO: dict[str, Entry] = {
    "chain": Entry(
        chain, {"n": 5}, "the paper's n-chain: walk right, one reward at the far end"
    ),
    "gridworld": Entry(
        gridworld,
        {"n": 5},
        "the paper's n x n grid with a wall, a gap and slippery moves",
        grid=lambda states: (math.isqrt(states), math.isqrt(states)),
    ),
    "garnet": Entry(
        garnet,
        {"states": 20, "actions": 3, "branching": 3, "seed": 0},
        "a random MDP with few successors per move",
    ),
    "random-game": Entry(
        random_game,
        {"states": 20, "actions": 3, "branching": 3, "seed": 0, "alternating": False},
        "a random turn-based zero-sum game",
    ),
    "d-chain": Entry(
        d_chain,
        {"d": 10, "final": 1.0},
        (
            "tree-search literature: small rewards first, the best at the end "
            "(--discount 1)"
        ),
    ),
    "frozen-lake": Entry(
        frozen_lake,
        {},
        "tree-search literature: deterministic 8 x 8 lake, 100 steps (--discount 1)",
        grid=lambda states: (len(LAKE), len(LAKE[0])),  # at time 0
    ),
    "sailing": Entry(
        sailing,
        {"n": 6, "wind": 3},
        (
            "tree-search literature: 6 x 6 sailing in changing wind, 50 steps "
            "(--discount 1)"
        ),
    ),
    "synthetic-tree": Entry(
        synthetic_tree,
        {"k": 4, "d": 3, "seed": 0},
        "tree-search literature: a k-ary tree with noisy leaves",
    ),
    "max-call": Entry(
        max_call,
        {
            "assets": 2,
            "spot": 100.0,
            "strike": 100.0,
            "rate": 0.05,
            "dividend": 0.1,
            "volatility": 0.2,
            "years": 3.0,
            "periods": 9,
        },
        "finance: a Bermudan option on the largest of some prices, 10 dates",
        has_discount=True,
    ),
    "storage": Entry(
        storage,
        {"levels": 10, "loss": 0.05, "keep": 0.9, "noise": 0.2, "most": 1.2},
        "energy: buy, keep or sell while the price reverts to its mean (discount 0.99)",
        has_discount=True,
    ),
    "lost-sales": Entry(
        lost_sales,
        {
            "lead": 2,
            "penalty": 4.0,
            "holding": 1.0,
            "demand": 5.0,
            "capacity": 20,
            "orders": 9,
        },
        "inventory: orders that arrive late, demand that does not wait (discount 0.97)",
        has_discount=True,
    ),
    "two-queues": Entry(
        two_queues,
        {
            "most": 15,
            "arrival_1": 0.3,
            "arrival_2": 0.25,
            "work": 0.8,
            "weight_1": 1.0,
            "weight_2": 2.0,
            "over": 10.0,
        },
        "queues: one server, two queues, a period to go over (discount 0.99)",
        has_discount=True,
    ),
}


def grid_of(problem: Problem) -> tuple[int, int] | None:
    """The (rows, columns) that the first states of a built-in problem are laid out in.

    None where there is no grid, or nothing is known of one.
    """
    spec = problem.spec
    entry = None if spec is None else ZOO.get(spec["problem"].partition(":")[0])
    if entry is None or entry.grid is None or problem.tables is None:
        return None
    num_states: int = problem.tables.legal.shape[0]
    num_rows, num_columns = entry.grid(num_states)
    return (num_rows, num_columns) if num_rows * num_columns <= num_states else None


def build(
    name: str,
    parameters: dict[str, Any],
    *,
    discount: float | None,
    operator: Operator,
    spec: dict[str, Any],
) -> Problem:
    """The zoo problem ``name`` with ``parameters`` over its defaults.

    Declarations among them are made of it.
    """
    entry = ZOO[name]
    own_parameters = {k: parameters.pop(k) for k in entry.defaults if k in parameters}
    declared = pop_declarations(parameters)
    horizon_option = {k: declared.pop(k) for k in ("horizon",) if k in declared}
    unknown_names = sorted(parameters)
    if unknown_names:
        allowed_text = ", ".join(f"{k}={v}" for k, v in entry.defaults.items())
        raise InvalidInput(
            f"{name} has no parameter {unknown_names[0]!r}; "
            + (
                f"its parameters and defaults are {allowed_text}."
                if allowed_text
                else "drop it."
            )
        )
    parameter_text = ",".join(
        f"{k}={v}"
        for k, v in {**entry.defaults, **own_parameters, **horizon_option}.items()
    )
    problem = entry.build(
        **own_parameters,
        **horizon_option,
        discount=discount,
        operator=operator,
        name=f"{name}:{parameter_text}",
        spec=spec,
    )
    if horizon_option and horizon_option["horizon"] != problem.horizon:
        raise InvalidInput(
            f"{name} is a problem of {problem.horizon} steps; give horizon= a number, "
            "or drop it."
        )
    return declare(problem, declared)
