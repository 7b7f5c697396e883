"""Environments that draw from NumPy's older RandomState, or through a function.

Laws: their copies draw from the planner's stream, equal streams give equal steps, no
number of one stream comes out of another, and the environment itself draws what it
would have drawn without a planner.
"""

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.jit.random.generator import legacy, stream_generator
from smoothcruiser.jit.random.streams import stream

gym = pytest.importorskip("gymnasium")
from smoothcruiser.adapters import gymnasium as adapter  # noqa: E402

OPTIONS = {"discount": 0.5, "operator": sc.Max(), "reward_range": (-9.0, 9.0)}


class Older(gym.Env):
    """Pays a normal number: RandomState keeps every second one for its next call."""

    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.RandomState(seed)
        self.sum = 0.0
        return 0, {}

    def step(self, action):
        self.sum += self.draw()
        return 0, self.sum, False, False, {}

    def draw(self):
        return self.rng.normal()


class Closed(Older):
    """Draws through a function that holds the environment."""

    def reset(self, *, seed=None, options=None):
        self.roll = lambda: self.rng.normal()
        return super().reset(seed=seed)

    def draw(self):
        return self.roll()


class Deep(Older):
    """The function lies deeper, where no copy of it is made."""

    def reset(self, *, seed=None, options=None):
        found = super().reset(seed=seed)
        self.rolls = [lambda: self.rng.normal()]
        return found

    def draw(self):
        return self.rolls[0]()


@pytest.mark.parametrize("world", [Older, Closed])
def test_copies_draw_from_the_planner_and_leave_the_original_alone(world):
    env, twin = world(), world()
    for each in (env, twin):
        each.reset(seed=4)
        each.step(0)
    problem = adapter.problem(env, **OPTIONS)
    start = problem.initial_state

    def paid(k):
        return problem.oracle(start, 0, stream(k))[0]

    alone = [paid(k) for k in range(400)]
    assert [paid(k) for k in reversed(range(400))] == alone[::-1]
    assert len(set(alone)) == 400
    assert abs(np.mean(alone) - env.sum) < 5 / np.sqrt(400)
    assert [env.step(0)[1] for _ in range(5)] == [twin.step(0)[1] for _ in range(5)]


def test_a_function_that_all_copies_would_share_is_refused():
    env = Deep()
    env.reset(seed=1)
    sentence = r"Deep keeps a function in rolls\.0 that holds a Deep, which all copies"
    with pytest.raises(sc.InvalidInput, match=sentence):
        adapter.problem(env, **OPTIONS)


def test_a_kept_number_is_forgotten_when_a_stream_is_bound():
    generator, bits = stream_generator()
    older = legacy(generator)
    assert legacy(generator) is older
    bits.bind(stream(1))
    first = older.normal(), older.normal()
    bits.bind(stream(1))
    assert older.normal() == first[0]  # and keeps first[1]
    bits.bind(stream(2))
    second = older.normal()
    bits.bind(stream(2))
    assert older.normal() == second != first[1]
