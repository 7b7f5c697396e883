"""Readings of ``value=``: each form gives the numbers that it says, in Python and in
machine code, and refuses what is no number.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit, typeof
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation.critics import ROUNDED_BITS, check_purity, read_critic


class Place(NamedTuple):
    x: int
    y: float


def walk(state, action, rng):
    return rng.random(), (state + action) % 5


def compiled_values(critic, states, steps_left=-1):
    """The values of machine code, from a loop of its own."""
    function, data = critic.compiled_parts(typeof(states[0]))

    @njit
    def ask(state):
        return function(data, steps_left, state)

    return [ask(state) for state in states]


def test_numbers_functions_and_regressors():
    world = mdp(walk, horizon=3)

    class Regressor:
        def predict(self, rows):
            return rows @ np.array([2.0, -1.0])

    assert read_critic(world, 3).values([0, 1]).tolist() == [3.0, 3.0]
    assert read_critic(world, lambda s: 2 * s).value_at(4) == 8.0
    timed = read_critic(world, lambda s, steps_left: s + 10 * steps_left)
    assert timed.uses_steps
    assert timed.values([1, 2], 3).tolist() == [31.0, 32.0]
    batch = sc.batched(lambda states, steps_left: np.asarray(states) * steps_left)
    assert read_critic(world, batch).values([1, 2], 3).tolist() == [3.0, 6.0]
    assert read_critic(world, Regressor()).value_at((1.0, 5)) == -3.0
    for value, words in (
        (math.inf, "finite number"),
        (object(), "value must be a number"),
        (Regressor, "value must be a number"),
        ({}, "empty dict"),
        ({0: "a"}, "one number per state"),
        ({0: math.nan}, "finite number"),
        (
            [[1.0, 2.0]] * 2,
            r"one row per number of steps left, from 0 to .* \(4 rows\)",
        ),
        ([1.0, math.nan], "nan at state 1"),
    ):
        with pytest.raises(InvalidInput, match=words):
            read_critic(world, value)
    with pytest.raises(InvalidInput, match="has no entry for 2"):
        read_critic(world, [1.0, 2.0]).value_at(2)
    with pytest.raises(InvalidInput, match=r"finite number .* nan at state 7"):
        read_critic(world, lambda s: math.nan).value_at(7)


@pytest.mark.compiles
def test_solutions_and_memories_with_and_without_a_horizon():
    chain = sc.make("chain:n=5", discount=0.9, operator="max")
    solution, memory = sc.solve(chain), sc.Certified(chain, delta=0.1)
    memory.query(0, epsilon=0.2)
    for value in (memory, memory.table()):
        row = memory.table().at(2)
        assert read_critic(chain, value).value_at(2) == row.value
    assert read_critic(chain, solution).values(range(5)).tolist() == list(
        solution.values
    )
    ending = sc.make("chain:n=5", discount=1.0, operator="max", horizon=4)
    stages = sc.solve(ending)
    critic = read_critic(ending, stages)
    assert [critic.value_at(3, n) for n in range(5)] == list(stages.stages[:, 3])
    assert [compiled_values(critic, [3], n)[0] for n in range(5)] == list(
        stages.stages[:, 3]
    )


@pytest.mark.compiles
def test_dicts_are_hashed_in_machine_code():
    """One of forty states is left out: it gets the mean."""
    states = [(float(i % 8), -i) for i in range(40)]
    numbers = np.random.default_rng(0).normal(size=len(states)).tolist()
    critic = read_critic(mdp(walk), dict(zip(states[1:], numbers[1:], strict=True)))
    expected = [critic.value_at(state) for state in states]
    assert expected[1:] == numbers[1:]
    assert expected[0] == pytest.approx(np.mean(numbers[1:]))
    assert compiled_values(critic, states) == expected


@pytest.mark.compiles
def test_a_tree_of_a_compiled_step_reads_critics_in_machine_code():
    """NamedTuples by a dict of values; numba.njit in the reference has the same bits."""

    @njit
    def step(state, action, rng):
        x = (state.x + (1 if rng.random() < 0.7 else 2) * (1 + action)) % 7
        return np.cos(state.x) + 0.1 * state.y, Place(x, 1.0 - state.y)

    @njit
    def guess(state):
        return 3.0 * np.cos(state.x)

    world = sc.MDP(
        step,
        num_actions=2,
        discount=0.9,
        operator=sc.Max(),
        reward_range=(-2.0, 2.0),
        initial_state=Place(0, 0.0),
    )
    tree = sc.Tree(world, method=sc.UCT(), seed=1)
    tree.grow(simulations=50)
    known = {Place(x, y): guess(Place(x, y)) for x in range(7) for y in (0.0, 1.0)}
    facts = {"budget": 2000}
    answers = [
        sc.evaluate(world, tree, value=known, **facts),
        sc.evaluate(world, tree, value=guess, executor="reference", **facts),
    ]
    assert [a.executor for a in answers] == ["compiled", "reference"]
    assert len({a.interval for a in answers}) == 1


def test_an_impure_critic_is_refused_and_a_rounding_one_is_rounded():
    asked = []
    with pytest.raises(InvalidInput, match="different answers at state 1"):
        check_purity(
            read_critic(mdp(walk), lambda s: asked.append(s) or len(asked)), [1, 2]
        )
    shaky = read_critic(
        mdp(walk), sc.batched(lambda s: np.asarray(s) / 3.0 * (1.0 + 1e-12 * len(s)))
    )
    values = check_purity(shaky, [1, 2, 4])
    assert values.tolist() == shaky.values([1, 2, 4]).tolist()
    assert values.tolist() == [shaky.value_at(s) for s in (1, 2, 4)]
    assert values == pytest.approx([1 / 3, 2 / 3, 4 / 3], rel=2.0**-ROUNDED_BITS)
    assert "rounded" in shaky.notes[-1]


def test_a_horizon_with_discount_kills_paths_with_a_critic_of_time():
    """W_t = V_t of a ring at discount .8 and 60 steps: narrower than whole returns."""
    world = mdp(
        lambda s, a, rng: (float(s % 5), s + 1 if rng.random() < 0.9 else s),
        discount=0.8,
        horizon=60,
        operator=sc.Max(),
        reward_range=(0.0, 4.0),
    )
    stages = np.zeros((61, 5))
    for n in range(1, 61):
        after = 0.9 * np.roll(stages[n - 1], -1) + 0.1 * stages[n - 1]
        stages[n] = np.arange(5) + 0.8 * after
    facts = {"budget": 6000, "seed": 1}
    bare = sc.evaluate(world, lambda s: 0, **facts)
    narrow = sc.evaluate(
        world, lambda s: 0, value=lambda s, n: stages[n, s % 5], **facts
    )
    truth = stages[60, 0]
    assert narrow.interval[0] <= truth <= narrow.interval[1]
    assert narrow.epsilon < 0.7 * bare.epsilon
