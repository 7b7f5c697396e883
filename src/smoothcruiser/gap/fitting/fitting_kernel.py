"""The loops of fitted values: samples of a step, a grid that is interpolated, a sum.

``field_of(state, k)`` is number k of a state. Data are flat arrays, so that one source
serves any form of state:

  grid     stages (T, C M), slots, combinations (C, D), the places of discrete and of
           continuous fields, the least value, the inverse step and the number of points
           of each continuous field, and the linear value of combinations not in the table
  linear   coefficients (T, F), center and scale of fields, bounds (2,)

Features of d fields z = (x - center) scale are 1, z, and all products of two. With every
``k``-th stage stored, values between two stages are interpolated in time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smoothcruiser.engines.compiled.kernel import load, store, transition
from smoothcruiser.jit.primitives import (
    address_of,
    put_int,
    tabular_legal,
    tabular_terminal,
)
from smoothcruiser.states.table_kernel import GOLDEN, mix_word

STEP, LEGAL, TERMINAL, LOAD, STORE = (
    transition,
    tabular_legal,
    tabular_terminal,
    load,
    store,
)
FREE = -1  # in the place of a row number, in a slot


def field_of(state: Any, k: int) -> float:
    """Number ``k`` of a state, which stands for a function of its form."""
    return state[k]  # type: ignore[no-any-return]


def call_features(state: Any) -> Any:
    """The user's features, which stand for a function of its form."""
    return state


def restart(rng: Any, words: Any, j: int) -> None:
    """Begin the stream anew with the words of row ``j``."""
    for k in range(4):
        put_int(address_of(rng), k, words[j, k])


def sample_pairs(
    data: Any, states: Any, count: int, num_actions: int, words: Any, rng: Any,
    rewards: Any, overs: Any, next_states: Any,
) -> None:  # fmt: skip
    """One sample per state, legal action and stream; streams are the same for all."""
    num_samples = len(words)
    for i in range(count):
        for action in range(num_actions):
            if not LEGAL(data, LOAD(states, i), action):
                continue
            for j in range(num_samples):
                restart(rng, words, j)
                reward, next_state, is_over = STEP(data, LOAD(states, i), action, rng)
                place = (i * num_actions + action) * num_samples + j
                rewards[place] = reward
                overs[place] = is_over or TERMINAL(data, next_state)
                STORE(next_states, place, next_state)


def find_combination(slots: Any, combinations: Any, places: Any, state: Any) -> int:
    """The row of the discrete fields of a state; FREE where it is not there."""
    word = np.uint64(GOLDEN)
    for d in range(len(places)):
        word = mix_word(word + np.uint64(np.int64(field_of(state, places[d]))))
    last_slot = len(slots) - 1
    slot = np.int64(word >> np.uint64(2)) & last_slot
    while slots[slot] != FREE:
        is_same = True
        for d in range(len(places)):
            if combinations[slots[slot], d] != field_of(state, places[d]):
                is_same = False
                break
        if is_same:
            return slots[slot]  # type: ignore[no-any-return]
        slot = (slot + 1) & last_slot
    return FREE


def stage_value(every: int, num_stages: int, steps_left: int) -> tuple[int, float]:
    """(the stored stage below, the share of the next one) for so many steps left."""
    if steps_left <= 0 or num_stages == 1:
        return 0, 0.0
    stage = min(steps_left // every, num_stages - 1)
    if stage == num_stages - 1:
        return stage, 0.0
    return stage, (steps_left - stage * every) / every


def basis_value(coefficients: Any, centers: Any, scales: Any, state: Any) -> float:
    """The sum of the features of a state, each with its coefficient."""
    total, place, num_fields = coefficients[0], 1, len(centers)
    for i in range(num_fields):
        z = (field_of(state, i) - centers[i]) * scales[i]
        total += coefficients[place] * z
        place += 1
        for j in range(i + 1):
            product = z * ((field_of(state, j) - centers[j]) * scales[j])
            total += coefficients[place] * product
            place += 1
    return total  # type: ignore[no-any-return]


def clip_value(value: float, bounds: Any) -> float:
    """A value, brought into its bounds; NaN stays."""
    if value < bounds[0]:
        return bounds[0]  # type: ignore[no-any-return]
    if value > bounds[1]:
        return bounds[1]  # type: ignore[no-any-return]
    return value


def linear_value(data: Any, steps_left: int, state: Any) -> float:
    """The value of a state by default features."""
    stages, every, centers, scales, bounds = data
    stage, share = stage_value(every, len(stages), steps_left)
    value = basis_value(stages[stage], centers, scales, state)
    if share > 0.0:
        next_value = basis_value(stages[stage + 1], centers, scales, state)
        value += share * (next_value - value)
    return clip_value(value, bounds)


def feature_value(data: Any, steps_left: int, state: Any) -> float:
    """The value of a state by the user's features."""
    stages, every, bounds = data
    stage, share = stage_value(every, len(stages), steps_left)
    features = call_features(state)
    value = next_value = 0.0
    for k in range(stages.shape[1]):
        value += stages[stage, k] * features[k]
    if share > 0.0:
        for k in range(stages.shape[1]):
            next_value += stages[stage + 1, k] * features[k]
        value += share * (next_value - value)
    return clip_value(value, bounds)


def corner_value(
    values: Any, base: int, places: Any, lows: Any, steps: Any, sizes: Any, state: Any
) -> float:
    """Multilinear interpolation from the grid points of one combination."""
    total, num_corners = 0.0, 1 << len(places)
    for corner in range(num_corners):
        weight, index = 1.0, 0
        for d in range(len(places)):
            position = (field_of(state, places[d]) - lows[d]) * steps[d]
            position = min(max(position, 0.0), float(sizes[d] - 1))
            lower = min(int(position), max(sizes[d] - 2, 0))
            share = position - lower
            if (corner >> d) & 1:
                weight *= share
                lower = min(lower + 1, sizes[d] - 1)
            else:
                weight *= 1.0 - share
            index = index * sizes[d] + lower
        if weight > 0.0:
            total += weight * values[base + index]
    return total


def evaluate_grid(data: Any, steps_left: int, rows: Any, values: Any) -> None:
    """``grid_value`` of rows of fields."""
    for i in range(len(rows)):
        values[i] = grid_value(data, steps_left, rows[i])


def evaluate_linear(data: Any, steps_left: int, rows: Any, values: Any) -> None:
    """``linear_value`` of rows of fields."""
    for i in range(len(rows)):
        values[i] = linear_value(data, steps_left, rows[i])


def enter_combinations(slots: Any, combinations: Any) -> None:
    """Fill the hash table of the rows of discrete fields."""
    last_slot = len(slots) - 1
    for i in range(len(combinations)):
        slot = hash_slot(combinations[i]) & last_slot
        while slots[slot] != FREE:
            slot = (slot + 1) & last_slot
        slots[slot] = i


def hash_slot(numbers: Any) -> int:
    """A hash of whole numbers, in 62 bits."""
    word = np.uint64(GOLDEN)
    for d in range(len(numbers)):
        word = mix_word(word + np.uint64(np.int64(numbers[d])))
    return np.int64(word >> np.uint64(2))  # type: ignore[return-value]


def grid_value(data: Any, steps_left: int, state: Any) -> float:
    """The value of a state by the grid, or by the linear value off the table."""
    stages, every, table, places, axes, off_table = data
    slots, combinations = table
    lows, steps, sizes = axes
    coefficients, centers, scales, bounds = off_table
    for d in range(len(places[1])):
        number = field_of(state, places[1][d])
        if number != number:
            return math.nan
    stage, share = stage_value(every, len(stages), steps_left)
    row = find_combination(slots, combinations, places[0], state)
    value = next_value = 0.0
    if row == FREE:
        value = basis_value(coefficients[stage], centers, scales, state)
        if share > 0.0:
            next_value = basis_value(coefficients[stage + 1], centers, scales, state)
    else:
        num_points = 1
        for d in range(len(sizes)):
            num_points *= sizes[d]
        base = row * num_points
        value = corner_value(stages[stage], base, places[1], lows, steps, sizes, state)
        if share > 0.0:
            next_value = corner_value(
                stages[stage + 1], base, places[1], lows, steps, sizes, state
            )
    if share > 0.0:
        value += share * (next_value - value)
    return clip_value(value, bounds)
