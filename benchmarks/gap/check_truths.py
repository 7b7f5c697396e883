"""The solvers of ``truths`` against the steps of the problems, by simulation.

A value table V of the solver must be a fixed point of the step: at states along a random
play, the best mean over actions of r + gamma V(s') is V(s). Each mean is over 20,000 calls
of the compiled step; printed is, over 24 states, the largest distance in standard errors
(grids add their own error) and the mean distance as a share of V. A solver that reads the
description otherwise than the step, by a sign, a cap or an order of events, is off by many
errors.

``python -m benchmarks.gap.check_truths`` takes a minute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.gap import truths, worlds
from numba import njit

import smoothcruiser as sc
from smoothcruiser.jit.random.streams import stream

CALLS, STATES = 20_000, 24


def place_of(x: float, low: float, high: float, points: int) -> tuple[int, float]:
    """The cell of a number on a grid, and its place in it."""
    position = (x - low) / (high - low) * (points - 1)
    cell = min(int(position), points - 2)
    return cell, position - cell


def on_line(row: Any, x: float, low: float, high: float) -> float:
    """The linear interpolant of a row of values."""
    cell, part = place_of(x, low, high, len(row))
    return float(row[cell] * (1.0 - part) + row[cell + 1] * part)


def on_plane(values: Any, house: Any) -> float:
    """The bilinear interpolant at a house."""
    i, a = place_of(house.price, -1.2, 1.2, values.shape[1])
    j, b = place_of(house.load, -1.5, 1.5, values.shape[2])
    corner = values[house.level, i : i + 2, j : j + 2]
    return float(np.array([1.0 - a, a]) @ corner @ np.array([1.0 - b, b]))


def sample_outcomes(problem: sc.Problem) -> Callable[[Any, int, Any], list[Any]]:
    """Many calls of the step in machine code."""
    step = problem.oracle

    @njit
    def sample(state: Any, action: int, rng: Any) -> Any:
        return [step(state, action, rng) for _ in range(CALLS)]

    return sample


def check_table(
    problem: sc.Problem, before: Callable[[Any], float], after: Callable[[Any], float]
) -> tuple[float, float]:
    """The largest distance of V from its backup, in errors; the mean one, as a share.

    ``after`` is V with a step less to go; the same without a horizon.
    """
    sample = sample_outcomes(problem)
    rng, state = stream(17), problem.start()
    largest, distances, sizes = 0.0, 0.0, 0.0
    for _ in range(STATES):
        means, errors = [], []
        outcomes: list[Any] = []
        for action in range(problem.num_actions):
            outcomes = sample(state, action, rng)
            ends = [len(outcome) > 2 and outcome[2] for outcome in outcomes]
            numbers = np.array(
                [
                    outcome[0]
                    + (0.0 if over else problem.discount * after(outcome[1]))
                    for outcome, over in zip(outcomes, ends, strict=True)
                ]
            )
            means.append(float(numbers.mean()))
            errors.append(float(numbers.std()) / math.sqrt(CALLS) + 1e-9)
        best = int(np.argmax(means))
        distance = means[best] - before(state)
        largest = max(largest, abs(distance) / errors[best])
        distances += distance
        sizes += abs(before(state))
        moves = sample(state, int(rng.integers(problem.num_actions)), rng)
        alive = [move for move in moves if not (len(move) > 2 and move[2])]
        state = alive[0][1] if alive else problem.start()
    return largest, distances / sizes


def main() -> None:
    """Print a line for every problem."""
    tables: dict[str, tuple[sc.Problem, Any, Any]] = {}
    store = truths.storage_table(0.99, None, 0.0, 401)

    def store_value(state: Any) -> float:
        return on_line(store[state.level], state.log_price, -1.2, 1.2)

    tables["storage, 0.99"] = sc.make("storage"), store_value, store_value
    for lead in (1, 2, 3):
        ends = [truths.lost_sales_table(lead, 1.0, steps) for steps in (30, 29)]
        shop = sc.make(f"lost-sales:lead={lead}", discount=1.0, horizon=50)
        tables[f"lost sales, lead {lead}"] = (shop, *(end.__getitem__ for end in ends))
    queues = truths.two_queues_table()

    def queue_value(state: Any) -> float:
        return float(queues[state.server, state.first, state.second])

    tables["two queues"] = sc.make("two-queues"), queue_value, queue_value
    plane = truths.battery_table(121)
    line = truths.wear_table(2001)
    stairs = truths.selling_table(401)
    own: dict[str, Callable[[Any], float]] = {
        "battery of a house": lambda state: on_plane(plane, state),
        "machine that wears": lambda state: on_line(line, state.wear, 0.0, 3.0),
        "selling in a market": lambda state: on_line(
            stairs[state.units], state.mood, -1.5, 1.5
        ),
    }
    for world in worlds.OWN_WORLDS:
        if world.name in own:
            tables[world.name] = world.make(), own[world.name], own[world.name]
    for name, (problem, before, after) in tables.items():
        largest, share = check_table(problem, before, after)
        print(f"{name:24s} at most {largest:.2f} errors, in the mean {share:+.1e}")


if __name__ == "__main__":
    main()
