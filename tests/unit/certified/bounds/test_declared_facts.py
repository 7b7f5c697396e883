"""Facts that a user declares make certified search cheaper, and its bounds still hold:
symmetries through ``key=``, ``value_bounds`` by state, ``deterministic=``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from worlds import mdp

import smoothcruiser as sc

Pair = tuple[int, int]
SIZE = 4
START = (2, 1)


def row(state: Pair, action: int) -> list[tuple[float, float, Pair]]:
    """Two shelves that nothing tells apart: the action fills the fuller or the emptier."""
    fuller = int(state[1] > state[0])
    chosen = fuller if action == 0 else 1 - fuller
    found = []
    for share, more in ((0.6, 1), (0.4, -1)):
        shelves = list(state)
        shelves[chosen] = min(SIZE, max(0, shelves[chosen] + more))
        swapped = (shelves[1], shelves[0])
        paid = abs(shelves[0] - shelves[1]) / SIZE
        # the shelves may change places, so that both orders are met
        found += [(share / 2, paid, tuple(shelves)), (share / 2, paid, swapped)]
    return found


def step(state: Pair, action: int, rng: Any) -> tuple[float, Pair]:
    listed = row(state, action)
    _, reward, after = listed[rng.categorical([p for p, _, _ in listed])]
    return reward, after


problem = partial(
    mdp, step, discount=0.7, operator=sc.Entropy(0.1), initial_state=START
)


@pytest.fixture(scope="module")
def exact() -> sc.Solution:
    return sc.solve(problem(outcomes=row))


def searched(world: sc.MDP, exact: sc.Solution) -> tuple[sc.Certified, sc.Estimate]:
    """A memory after a query, all of whose bounds hold the exact values."""
    memory = sc.Certified(world, delta=0.1, seed=3)
    found = memory.query(epsilon=0.2)
    assert found.epsilon <= 0.2
    for bound in memory.table():
        value = float(exact.values[exact.index(bound.state)])
        assert bound.interval[0] <= value <= bound.interval[1]
    return memory, found


@pytest.mark.compiles
def test_a_symmetry_through_key_needs_fewer_states_and_calls(
    exact: sc.Solution,
) -> None:
    """25 states are 15 without their order."""
    every, plain = searched(problem(), exact)
    some, keyed = searched(problem(key=lambda s: (min(s), max(s))), exact)
    assert (len(every.table()), len(some.table())) == (25, 15)
    assert keyed.num_calls < 0.7 * plain.num_calls
    assert any("one key=" in line for line in keyed.certificate.assumptions)


@pytest.mark.compiles
def test_bounds_by_state_need_fewer_calls(exact: sc.Solution) -> None:
    """A critic that is right within 0.15: only the first step has to be sampled."""
    _, plain = searched(problem(), exact)

    def critic(sign: float) -> Any:
        return lambda s: float(exact.values[exact.index(s)]) + 0.15 * sign

    bounds = (critic(-1.0), critic(1.0))
    _, told = searched(problem(value_bounds=bounds, value_gap=0.31), exact)
    assert told.num_calls < 0.5 * plain.num_calls
    assert any("value_bounds" in line for line in told.certificate.assumptions)


@pytest.mark.compiles
def test_one_call_of_a_pair_is_enough_where_there_is_no_chance() -> None:
    """Every pair that was called is called once, or twice as a test."""

    def certain(state: int, action: int, rng: Any) -> tuple[float, int]:
        after = (3 * state + action) % 40
        return after / 40.0, after

    world = mdp(
        certain,
        discount=0.7,
        operator=sc.Entropy(0.1),
        initial_state=1,
        deterministic=True,
    )
    memory = sc.Certified(world, delta=0.1)
    found = memory.query(epsilon=1e-3)
    pairs = memory.memory.graph.pairs[: memory.memory.num_pairs]
    assert found.delta == 0.0
    assert pairs["total"].max() == 2.0
    assert found.num_calls < 3 * len(pairs)
