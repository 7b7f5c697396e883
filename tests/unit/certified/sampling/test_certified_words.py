"""Compiled steps over tuples, NamedTuples and arrays: the bits of plain Python.

Law: where states are rows of words, which compiled code looks up, everything that a
search returns is what ``PythonSampler`` makes of the same step and seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified.sampling.compiled_sampler import RowSampler
from smoothcruiser.certified.sampling.sampler import PythonSampler
from smoothcruiser.certified.sampling.step_loops import STEP_LOOPS
from smoothcruiser.certified.search import Certified
from smoothcruiser.errors import OracleError

SIZE = 6


class Place(NamedTuple):
    """Fields of three types."""

    x: int
    height: float
    lit: bool


@numba.njit
def named(state, action, rng):
    """Three fields, and an end that the step reports."""
    x = (state.x + action + int(3 * rng.random())) % SIZE
    height = 0.5 * int(3 * rng.random())
    return height, Place(x, height, x % 2 == 0), x == 5 and height == 1.0


@numba.njit
def bytes_of(state, action, rng):
    """Three bytes: less than one word."""
    after = state.copy()
    after[action] = (after[action] + 1 + int(2 * rng.random())) % 4
    return after[action] / 4.0, after


@numba.njit
def nested(state, action, rng):
    """A number beside an array of floats, some of whose zeros are negative."""
    count, held = state
    after = held.copy()
    after[action] = (after[action] + 1.0) % 3.0
    if rng.random() < 0.01:
        after[1 - action] *= -1.0
    return 0.5, ((count + action) % 4, np.abs(after) if rng.random() < 0.5 else after)


@numba.njit
def growing(state, action, rng):
    """Arrays of another shape now and then."""
    if rng.random() < 0.005:
        return 1.0, np.zeros(3, np.int64)
    after = state.copy()
    after[0] = (after[0] + action + int(2 * rng.random())) % SIZE
    return after[0] / SIZE, after


def problem(oracle: Any, state: Any, **changes: Any) -> sc.MDP:
    given = {"discount": 0.7, "operator": sc.Entropy(0.1), "initial_state": state}
    return mdp(oracle, **given | changes)


WORLDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "NamedTuple": (
        named,
        Place(0, 0.0, True),
        {"terminal": lambda s: s.x == 3 and s.lit is False and s.height > 0.0},
    ),
    "bytes": (bytes_of, np.zeros(3, np.int8), {}),
    "nested": (nested, (0, np.zeros(2)), {}),
    "shapes": (growing, np.zeros(2, np.int64), {}),
}


def search_all(world: sc.MDP, changes: Any = None, **limits: Any) -> list[Certified]:
    """Memories after the same query: compiled loop, called step, plain Python."""
    memories = []
    for executor, kind, is_compiled in (
        (None, RowSampler, True),
        (None, RowSampler, False),
        ("python", PythonSampler, False),
    ):
        with STEP_LOOPS.use_form(compiled=is_compiled):
            memory = Certified(
                world, delta=0.1, seed=4, executor=executor, **changes or {}
            )
            memory.query(**limits)
        assert type(memory.loop.sampler) is kind
        if kind is RowSampler:
            assert (memory.loop.sampler.loop is not None) == is_compiled
        memories.append(memory)
    return memories


def check_same(one: Certified, *others: Certified) -> None:
    """All states in their order, all arrays, all streams."""
    for other in others:
        check_two(one, other)


def check_two(one: Certified, other: Certified) -> None:
    assert one.num_calls == other.num_calls
    assert repr(one.memory.states) == repr(other.memory.states)
    for mine, theirs in zip(one.memory.graph, other.memory.graph, strict=True):
        is_whole = isinstance(mine, np.ndarray)
        columns = ([mine], [theirs]) if is_whole else (mine, theirs)
        for column, other_column in zip(*columns, strict=True):
            assert column.tobytes() == other_column.tobytes()
    size = one.memory.num_pairs
    assert np.array_equal(
        one.loop.sampler.words[:size], other.loop.sampler.words[:size]
    )


@pytest.mark.compiles
@pytest.mark.parametrize("name", WORLDS)
def test_the_bits_are_those_of_plain_python(name: str) -> None:
    """Some worlds leave samples to plain Python: -0.0, and arrays of other shapes."""
    oracle, state, changes = WORLDS[name]
    fast, *others = search_all(problem(oracle, state, **changes), budget=6_000)
    check_same(fast, *others)
    assert fast.memory.num_nodes > 10
    misfits = fast.loop.sampler._misfits  # type: ignore[attr-defined]
    assert (misfits > 0) == (name in ("nested", "shapes"))


@pytest.mark.compiles
def test_the_bits_are_the_same_with_a_horizon_and_without_room() -> None:
    """The last step has rewards only; a full memory ends before the same sample."""
    oracle, state, changes = WORLDS["NamedTuple"]
    world = problem(oracle, state, **changes | {"horizon": 3, "discount": 1.0})
    check_same(*search_all(world, budget=3_000))
    world = problem(oracle, state, **changes)
    memories = search_all(world, {"max_states": 9}, budget=3_000)
    assert {memory.reason for memory in memories} == {"max_states"}
    check_same(*memories)


@pytest.mark.compiles
def test_a_search_is_taken_up_with_its_states(tmp_path: Path) -> None:
    """A snapshot of a compiled search goes on as one that was never stopped."""
    oracle, state, changes = WORLDS["NamedTuple"]
    world = problem(oracle, state, **changes)
    first, whole = (sc.Certified(world, delta=0.1, seed=2) for _ in range(2))
    for memory in (first, whole):
        memory.query(budget=1_000)
    first.save(tmp_path / "runs.db")
    again = sc.Certified.load(tmp_path / "runs.db", world)
    for memory in (whole, again):
        memory.query(budget=2_000)
    assert whole.table().to_json() == again.table().to_json()
    assert type(again.loop.sampler).__name__ == "RowSampler"


@numba.njit
def writing(state, action, rng):
    """Changes its argument, and puts it back only sometimes."""
    after = state.copy()
    after[0] = (after[0] + action + 1) % 9
    if rng.random() < 0.01:
        state[1] += 1
    return 0.5, after


@numba.njit
def too_much(state, action, rng):
    return 1.5 if rng.random() < 0.001 else 0.5, ((state[0] + action) % 5, 0)


@numba.njit
def failing(state, action, rng):
    if rng.random() < 0.001:
        raise ValueError("a lamp broke")
    return 0.5, ((state[0] + action) % 5, 0)


@pytest.mark.compiles
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    ("oracle", "state", "message"),
    [
        (writing, np.zeros(2, np.int64), "changed the state"),
        (too_much, (0, 0), r"reward 1.5 .*reward_range"),
        (failing, (0, 0), "a lamp broke"),
    ],
)
def test_errors_say_what_plain_python_says(
    oracle: Any, state: Any, message: str, compiled: bool
):
    with (
        STEP_LOOPS.use_form(compiled=compiled),
        pytest.raises(OracleError, match=message),
    ):
        Certified(problem(oracle, state), delta=0.1, seed=1).query(budget=50_000)


@pytest.mark.compiles
def test_other_numbers_and_keys_are_left_to_plain_python() -> None:
    """Python would return a float32 as another type, and calls a key itself."""

    @numba.njit
    def light(state, action, rng):
        return 0.5, (np.float32((state[0] + action) % 3),)

    @numba.njit
    def whole(state, action, rng):
        return 0.5, ((state[0] + action) % 3,)

    for world in (
        problem(light, (np.float32(0),)),
        problem(whole, (0,), key=lambda s: s[0]),
    ):
        memory = sc.Certified(world, delta=0.1)
        memory.query(budget=100)
        assert type(memory.loop.sampler).__name__ == "PythonSampler"
