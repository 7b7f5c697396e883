"""A walk on six places as a Gymnasium environment, plain and with a copy that
forgets, and its value.
"""

import gymnasium as gym
import numpy as np

import smoothcruiser as sc

HERE = {"discount": 0.5, "operator": sc.Entropy(0.1), "reward_range": (0.0, 1.0)}


class Walk(gym.Env):
    """Six places in a row: action 1 moves on with probability 0.8, and place n
    pays n/5.
    """

    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Discrete(6)

    def __init__(self):
        self.place = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}

    def step(self, action):
        self.place = min(5, self.place + int(action == 1 and self.chance() < 0.8))
        return self.place, self.pay(), False, False, {}

    def chance(self):
        return self.np_random.random()

    def pay(self):
        return self.place / 5


def value_of_walk(place, steps=60):
    """V by value iteration, independent of the library."""
    value = np.zeros(6)
    for _ in range(steps):
        ahead = [min(5, n + 1) for n in range(6)]
        stay = np.arange(6) / 5 + 0.5 * value
        move = 0.8 * stay[ahead] + 0.2 * stay
        value = 0.1 * np.logaddexp(stay / 0.1, move / 0.1)
    return value[place]


class EzWalk(Walk, gym.utils.EzPickle):
    """``deepcopy`` builds it anew, at place 0."""

    def __init__(self):
        gym.utils.EzPickle.__init__(self)
        super().__init__()


def moved(env, steps):
    """The environment after a reset and some steps forward."""
    env.reset(seed=3)
    for _ in range(steps):
        env.step(1)
    return env
