"""Gymnasium's functional environments as problems.

Laws: the problem's samples are those of the environment's own functions; a plan's
interval holds the value of the same model written by hand; all randomness is the
planner's; ``gym:module:Class`` names such an environment; what cannot be stepped is
refused in one sentence. The classes in JAX are Gymnasium's own (they need JAX and flax).
"""

import copy
from typing import NamedTuple

import numpy as np
import pytest
from worlds import given_streams

import smoothcruiser as sc

gym = pytest.importorskip("gymnasium")
functional = pytest.importorskip("gymnasium.experimental.functional")

pytestmark = pytest.mark.compiles

OPTIONS = {"discount": 0.6, "operator": sc.Max(), "reward_range": (0.0, 1.0)}


class Place(NamedTuple):
    at: int


class Walk(functional.FuncEnv):
    """A walk on 0..3: right with chance 0.8 (left 0.3); 3 is the end and pays 1."""

    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Discrete(4)

    def __init__(self, length=3):
        super().__init__()
        self.length = length

    def initial(self, rng, params=None):
        return Place(int(rng.integers(2)))

    def transition(self, state, action, rng, params=None):
        ahead = rng.random() < (0.8 if action == 1 else 0.3)
        return Place(max(0, state.at + (1 if ahead else -1)))

    def reward(self, state, action, next_state, params=None):  # takes no rng
        return float(next_state.at == self.length)

    def terminal(self, state, rng, params=None):
        return state.at == self.length


def walk_tables():
    P, R = np.zeros((4, 2, 4)), np.zeros((4, 2, 4))
    for s in range(3):
        for a, p in enumerate((0.3, 0.8)):
            P[s, a, s + 1] += p
            P[s, a, max(0, s - 1)] += 1.0 - p
    R[:, :, 3] = 1.0
    return sc.tabular(P, R, terminal=np.arange(4) == 3, **OPTIONS)


def problem(env, **changes):
    return sc.adapters.gymnasium.problem(env, **{**OPTIONS, **changes})


def test_the_plan_is_that_of_the_model():
    walk = problem(Walk())
    truth = sc.solve(walk_tables()).values
    assert walk.initial_state in (Place(0), Place(1))
    for state in (Place(0), Place(2)):
        answer = sc.plan(walk, state, method="certified", epsilon=0.1, delta=0.05)
        assert answer.interval[0] <= truth[state.at] <= answer.interval[1]
        assert answer.action == 1


def test_samples_are_those_of_the_functions():
    env = Walk()
    walk = problem(env)
    for i, rng in enumerate(given_streams(20)):
        twin, third = copy.deepcopy(rng), copy.deepcopy(rng)
        reward, after, ended = walk.oracle(Place(2), i % 2, rng)
        expected = env.transition(Place(2), i % 2, twin.numpy())
        assert after == expected
        assert reward == env.reward(Place(2), i % 2, after)
        assert ended is (after.at == 3)
        assert walk.oracle(Place(2), i % 2, third) == (reward, after, ended)


def test_the_seed_decides_where_it_starts():
    starts = {problem(Walk(), seed=seed).initial_state for seed in range(20)}
    assert starts == {Place(0), Place(1)}
    agent = sc.Agent(problem(Walk()), "uct", budget=100)
    assert sc.play(agent, episodes=3, steps=50).ended == 3


def test_a_name_of_its_module():
    name = f"gym:{__name__}:Walk,length=2,reward_range=[0,1],seed=3"
    named = sc.make(name, discount=0.6, operator="max")
    assert named.oracle.step.env.length == 2
    assert named.reward_range == (0, 1)
    assert named.name == f"gym:{__name__}:Walk,length=2"


class Chosen(Walk):
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def transition(self, state, action, rng, params=None):
        return super().transition(state, int(action[0] > 0), rng)


def test_continuous_actions_are_chosen():
    chosen = problem(Chosen(), actions=3)
    answer = sc.plan(chosen, Place(2), method="uct", budget=500, seed=1)
    assert answer.labels == ("[-1]", "[0]", "[1]")
    assert answer.action_label == "[1]"


class Endless(Walk):
    terminal = functional.FuncEnv.terminal


class Broken(Walk):
    def transition(self, state, action, rng, params=None):
        return rng.fold_in(state)  # as if the Generator were something else


class Hidden(Walk):
    """Takes its randomness from elsewhere."""

    def reward(self, state, action, next_state, params=None):
        return np.random.default_rng().random()


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: problem(Endless()), "has no terminal; add it"),
        (lambda: problem(Broken()), "give access='jax'"),
        (lambda: problem(Walk(), access="snapshot"), "must be auto, numpy or jax"),
        (lambda: problem(Walk(), reward_range=None), "in which range its rewards lie"),
        (lambda: problem(Chosen()), "are not a short list"),
        (lambda: problem("Walk"), "make('gym:CartPole-v1', discount=0.9"),
    ],
)
def test_what_cannot_be_planned_in_is_refused(make, said):
    with pytest.raises(sc.InvalidInput) as caught:
        make()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_hidden_randomness_is_refused_by_the_run():
    with pytest.raises(sc.SmoothcruiserError, match="rng"):
        sc.plan(problem(Hidden()), method="certified", epsilon=0.2, delta=0.1)


class TestJax:
    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip("jax")
        pytest.importorskip("flax")

    def test_steps_are_those_of_the_environment(self):
        import jax
        from gymnasium.envs.phys2d.cartpole import CartPoleFunctional

        env = CartPoleFunctional()
        cart = problem(env)
        assert cart.actions == ("push left", "push right")
        reward, after, ended = cart.oracle(cart.initial_state, 1, *given_streams(1))
        expected = env.transition(cart.initial_state, 1, jax.random.key(0))
        np.testing.assert_allclose(after, np.asarray(expected), rtol=1e-6)
        assert (reward, ended) == (1.0, False)
        promise = {"epsilon": "40%", "delta": 0.1, "target": "value"}
        answer = sc.plan(cart, method="smoothcruiser", **promise)
        assert answer.executor == "batched"

    def test_functions_without_a_key(self):
        from gymnasium.envs.tabular.cliffwalking import CliffWalkingFunctional

        paid = {"actions": [0, 1, 2, 3], "reward_range": (-100, -1)}
        cliff = problem(CliffWalkingFunctional(), **paid)
        start = cliff.initial_state
        up, right = (
            cliff.oracle(start, action, *given_streams(1)) for action in (0, 1)
        )
        assert (up[0], right[0]) == (-1.0, -100.0)
        assert up[1].player_position.tolist() == [2, 0]
        assert right[1].player_position.tolist() == [3, 0]  # back to the start


def test_jax_is_named_where_it_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(sc.MissingExtra, match=r"smoothcruiser\[jax\]"):
        problem(Walk(), access="jax")
