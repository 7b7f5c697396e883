"""What certified search refuses: oracles that misbehave, declarations that are
false, and bad input.
"""

from __future__ import annotations

import math

import numba
import pytest
from worlds import mdp

import smoothcruiser as sc


def ring(size=6, slip=0.2):
    """A plain Python simulator over tuples: two moves around a ring, with
    slips, and a reward at one place.
    """

    def step(state, action, rng):
        if rng.random() < slip:
            action = 1 - action
        place = (state[1] + (1 if action else -1)) % size
        return float(place == 2), ("at", place)

    return step


@pytest.mark.compiles
def test_a_lie_about_determinism_is_found():
    """Two outcomes of one pair raise, and name it."""
    problem = mdp(
        ring(slip=0.5),
        discount=0.9,
        operator=sc.Max(),
        initial_state=("at", 0),
        deterministic=True,
    )
    with pytest.raises(
        sc.OracleError, match=r"two outcomes|drop deterministic="
    ):  # each of the pairs drawn twice gives it away with probability 1/2
        sc.Certified(problem, delta=0.1, seed=2).query(epsilon=1e-6)


@pytest.mark.compiles
def test_a_state_that_hides_something_is_found_out():
    """A simulator whose hash leaves out what matters breaks assumption 1;
    bounds that cross say so.
    """
    hidden = {"n": 0}

    def step(state, action, rng):
        hidden["n"] += 1
        return float(hidden["n"] > 3_000), state

    problem = sc.MDP(
        step, num_actions=1, discount=0.5, operator=sc.Max(), initial_state=0
    )
    with pytest.raises(sc.OracleError, match=r"exclude each other.*hash tells all"):
        sc.Certified(problem, delta=0.01).query(epsilon=1e-4, budget=200_000)


@pytest.mark.compiles
def test_bad_oracles_are_named():
    """Rewards outside the range, NaN, exceptions, wrong tuples: the message has
    the state and the action; the memory is closed.
    """

    def wrong(answer):
        def step(state, action, rng):
            if state == 2 and action == 1:
                return answer()
            return 0.5, min(state + 1, 2)

        return step

    def raising():
        raise RuntimeError("boom")

    cases = [
        (lambda: (1.5, 0), "1.5"),
        (lambda: (math.nan, 0), "nan"),
        (raising, "boom"),
        (lambda: 3.0, "state 2, action 1"),
    ]
    for answer, words in cases:
        memory = sc.Certified(
            mdp(wrong(answer), discount=0.9, operator=sc.Max()), delta=0.1
        )
        with pytest.raises(sc.OracleError, match=words) as caught:
            memory.query(epsilon=0.01)
        assert "state 2, action 1" in str(caught.value)
        with pytest.raises(sc.InvalidInput, match="start a new one"):
            memory.query(epsilon=0.01)

    @numba.njit
    def compiled_wrong(state, action, rng):
        return (2.0 if state == 2 and action == 1 else 0.5), min(state + 1, 2)

    with pytest.raises(sc.OracleError, match=r"2\.0 at state 2, action 1"):
        sc.Certified(
            mdp(compiled_wrong, discount=0.9, operator=sc.Max()), delta=0.1
        ).query(epsilon=0.01)


@pytest.mark.compiles
def test_false_declarations_are_found():
    """Turns that do not alternate, and fewer legal actions than declared."""

    def step(state, action, rng):
        return 0.0, (state + 1) % 3

    game = sc.Game(
        step,
        player=lambda s: 1 + s % 2,
        alternating=True,
        num_actions=2,
        discount=0.9,
        operator=sc.Entropy(0.1),
        initial_state=0,
    )
    with pytest.raises(sc.OracleError, match=r"keeps the turn|of the same player"):
        sc.Certified(game, delta=0.1).query(epsilon=0.1)
    few = mdp(
        step,
        discount=0.9,
        operator=sc.Entropy(0.1),
        legal=lambda s, a: a == 0 or s != 2,
        min_actions=2,
    )
    with pytest.raises(sc.InvalidInput, match="min_actions"):
        sc.Certified(few, delta=0.1).query(epsilon=0.1)


def test_bad_input_is_refused():
    """Delta, epsilon, budget, target, and nothing to stop at."""
    problem = sc.make("chain:n=3", discount=0.5, operator=sc.Max())
    for delta in (0.0, 1.0, True, "0,1"):
        with pytest.raises(sc.InvalidInput, match="delta"):
            sc.Certified(problem, delta=delta)
    memory = sc.Certified(problem, delta=0.1)
    for bad in (
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"budget": -1},
        {"seconds": 0},
        {"epsilon": 0.1, "target": "v"},
        {},
    ):
        with pytest.raises(sc.InvalidInput):
            memory.query(**bad)
    with pytest.raises(sc.InvalidInput, match="whole number from 0 to 2"):
        memory.query(7, epsilon=0.1)


@pytest.mark.compiles
def test_visits_just_below_zero_are_no_contradiction():
    """Rounding leaves masses of -1e-17: what they weigh must not read as a node."""
    problem = sc.make("chain:n=4", discount=0.9, operator=sc.Max())
    search = sc.Certified(problem, delta=0.1)
    search.query(epsilon=2.0, budget=2_000)
    nodes, region = search.memory.graph.nodes, search.region
    root, rest = region.order[0], region.order[1 : region.count]
    low, high = problem.facts.value_bounds()
    nodes["mass"][rest] = -1e-3
    nodes["lower"][rest], nodes["upper"][rest] = low, high  # they will close again
    nodes["mass"][root] = -1.0
    assert region.sweep(0) == 0.0
    assert (nodes["upper"][rest] < high).any()
    search.memory.graph.pairs["q_lower"][nodes["first"][rest[0]]] = high + 1.0
    assert region.sweep(0) == -1.0 - rest[0]
