"""What an attack on "truth at the door" found: each test states a law that did
not hold.
"""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import numba
import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.adapters.gymnasium import problem as gym_problem
from smoothcruiser.jit.streams import stream


def pays(state, action, rng):
    return 0.9 if rng.random() < 0.5 else 0.8, state


@pytest.mark.parametrize("method", ["smoothcruiser", "sparse-sampling", "certified"])
@pytest.mark.parametrize("bounds", [(1.5, 3.0), (1.2, 3.0)])
def test_bounds_that_a_stage_contradicts_are_refused(
    method: str, bounds: tuple[float, float]
) -> None:
    """One step before the end V <= 1 < 1.2: no draw is needed to see it. The
    truth is 2.55.
    """
    facts = {
        "num_actions": 1,
        "discount": 1.0,
        "operator": sc.Max(),
        "initial_state": 0,
    }
    try:
        made = sc.MDP(pays, horizon=3, value_bounds=bounds, **facts)
        low, high = sc.plan(made, epsilon=0.3, delta=0.1, method=method).interval
    except sc.SmoothcruiserError as error:
        assert "value_bounds" in str(error)  # noqa: PT017 - either a refusal or an answer is right
    else:
        assert low <= 2.55 <= high


@pytest.mark.parametrize(("discount", "value"), [(0.7, 1.0), (0.99, 30.0)])
def test_tight_bounds_survive_rounding(discount: float, value: float) -> None:
    """0.3 / (1 - 0.7) = 1 is what the rewards allow, whichever way the last bit
    falls.
    """
    sc.MDP(
        lambda state, action, rng: (0.3, state),
        num_actions=1,
        discount=discount,
        operator=sc.Max(),
        initial_state=0,
        reward_range=(0.1, 0.3),
        value_bounds=(value, value),
    )


@pytest.mark.parametrize("name", ["chain", "frozen-lake"])
def test_check_survives_an_astronomic_price(name: str) -> None:
    assert sc.check(sc.make(name, discount=0.99, operator="max"))


def test_check_does_not_read_past_a_terminal_row() -> None:
    """State 1 is an end with an empty row; a step from it reads the row of state 2."""
    chances = np.zeros((3, 1, 3))
    chances[0, 0, 1], chances[0, 0, 2], chances[2, 0, 2] = 0.5, 0.5, 1.0
    rewards = np.array([[0.1], [0.0], [0.7]])
    made = sc.tabular(
        chances,
        rewards,
        discount=0.5,
        operator=sc.Entropy(1.0),
        terminal=[False, True, False],
    )
    assert not [
        f for f in sc.check(made).findings if f.name == "ends" and f.verdict != "ok"
    ]


class Three(gym.Env):
    """Three states, drawn anew at every step; it has nothing but copies for states."""

    observation_space = gym.spaces.Discrete(3)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.place = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action):
        self.place = int(self.np_random.integers(3))
        return self.place, 0.5 * action, False, False, {}


def snapshots(discount: float, operator: sc.Operator) -> sc.MDP:
    env = Three()
    env.reset(seed=0)
    return gym_problem(
        env, discount=discount, operator=operator, reward_range=(0.0, 1.0)
    )


def test_certified_search_refuses_snapshots_without_a_key() -> None:
    with pytest.raises(sc.InvalidInput, match="key="):
        sc.plan(
            snapshots(0.9, sc.Max()),
            epsilon=0.5,
            delta=0.1,
            method="certified",
            budget=1000,
        )


def test_looks_at_snapshots_stay_within_the_budget() -> None:
    made = snapshots(0.3, sc.Entropy(1.0))
    budget = sc.explain(made, epsilon=0.3, delta=0.1).num_calls + made.inspection_calls
    found = sc.plan(made, epsilon=0.3, delta=0.1, method="smoothcruiser", budget=budget)
    assert found.num_calls <= budget


def test_an_environment_that_was_not_reset_is_refused_in_a_sentence() -> None:
    made = sc.make("gym:FrozenLake-v1", discount=0.9, operator="max")
    with pytest.raises(sc.InvalidInput, match="reset"):
        sc.plan(made, gym.make("FrozenLake-v1"))


def test_an_unpayable_epsilon_is_called_unpayable() -> None:
    """It was "The root's 59311707951422423040 draws do not keep epsilon; raise
    the samples".
    """
    made = sc.MDP(
        lambda state, action, rng: (rng.random(), state),
        num_actions=1,
        discount=0.0,
        operator=sc.Max(),
        initial_state=0,
    )
    with pytest.raises(sc.Unpayable):
        sc.plan(made, epsilon=1e-10, delta=0.1, method="smoothcruiser")


def test_explain_auto_explains_what_plan_auto_does() -> None:
    def step(state, action, rng):
        return (0.1, 0.7)[action], (state + action) % 3

    made = sc.MDP(
        step,
        num_actions=2,
        discount=0.5,
        operator=sc.Entropy(1.0),
        initial_state=0,
        deterministic=True,
    )
    assert sc.plan(made, epsilon=1e-8, delta=0.1).method == "certified"
    assert (
        sc.explain(made, epsilon=1e-8, delta=0.1, method="auto").method == "certified"
    )


def test_single_precision_arguments_give_the_same_bits() -> None:
    def draw(rng, low, high):
        return rng.uniform(low, high)

    ends = np.float32(0.1), np.float32(0.3)
    compiled: Callable[..., float] = numba.njit(draw)
    assert [draw(s, *ends) for s in [stream(3)] * 9] == [
        compiled(s, *ends) for s in [stream(3)] * 9
    ]
