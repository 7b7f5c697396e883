"""Environments whose states are copies: what needs a key, what inspection costs,
and an environment that was never reset.
"""

from __future__ import annotations

import math

import pytest

import smoothcruiser as sc

gym = pytest.importorskip("gymnasium")


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


def snapshots(env: gym.Env, discount: float, operator: sc.Operator) -> sc.MDP:
    env.reset(seed=0)
    about = {"discount": discount, "operator": operator, "reward_range": (0.0, 1.0)}
    return sc.adapters.gymnasium.problem(env, **about)


@pytest.mark.compiles
def test_certified_search_refuses_snapshots_without_a_key() -> None:
    made = snapshots(Three(), 0.9, sc.Max())
    with pytest.raises(sc.InvalidInput, match="key="):
        sc.plan(made, epsilon=0.5, delta=0.1, method="certified", budget=1000)


@pytest.mark.compiles
def test_looks_at_snapshots_stay_within_the_budget() -> None:
    made = snapshots(Three(), 0.3, sc.Entropy(1.0))
    promise = {"epsilon": 0.3, "delta": 0.1, "method": "smoothcruiser"}
    budget = sc.explain(made, **promise).num_calls + made.inspection_calls
    assert sc.plan(made, budget=budget, **promise).num_calls <= budget


@pytest.mark.compiles
def test_an_environment_that_was_not_reset_is_refused_in_a_sentence() -> None:
    made = sc.make("gym:FrozenLake-v1", discount=0.9, operator="max")
    with pytest.raises(sc.InvalidInput, match="reset"):
        sc.plan(made, gym.make("FrozenLake-v1"))


@pytest.mark.compiles
def test_an_environment_may_keep_a_module() -> None:
    """As those of gymnasium-robotics do: ``self._mujoco = mujoco``."""

    class Keeping(Three):
        def __init__(self) -> None:
            super().__init__()
            self.libraries = {"math": math}

        def step(self, action):
            action = self.libraries["math"].floor(action + 0.5)
            return super().step(action)

    made = snapshots(Keeping(), 0.9, sc.Max())
    found = sc.plan(made, method="uct", budget=300, options={"depth": 3})
    assert found.action == 1
