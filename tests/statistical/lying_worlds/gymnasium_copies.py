"""Gymnasium environments whose copies forget, that are somewhere, or that draw
from elsewhere.
"""

import random

import gymnasium
from gymnasium.utils import EzPickle

import smoothcruiser as sc

from . import cores
from .law import COVERED, Ask, worlds_of

SAYS = r"cop(y|ied|ies)|snapshot|differ|random|forget|fresh"
ASKS = (Ask(epsilon=0.4),)  # copies are slow


class Ladder(gymnasium.Env):  # type: ignore[misc,type-arg]
    """The ladder as an environment; its rung is private."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(cores.TOP + 1)

    def __init__(self):
        self._rung = 0

    def uniform(self):
        return float(self.np_random.random())

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._rung = 0
        return self._rung, {}

    def step(self, action):
        paid = self._rung / cores.TOP
        if self.uniform() < cores.chance(int(action)):
            self._rung = min(self._rung + 1, cores.TOP)
        return self._rung, paid, False, False, {}


class Sprinter(Ladder):
    """Climbs four rungs with every step, for sure."""

    def step(self, action):
        paid = self._rung / cores.TOP
        self._rung = min(self._rung + 4, cores.TOP)
        return self._rung, paid, False, False, {}


class Forgetful(Sprinter, EzPickle):
    """A copy is a new environment, made with the arguments of the old one: at
    rung 0.
    """

    def __init__(self, first=0):
        Sprinter.__init__(self)
        EzPickle.__init__(self, first)


class Inverted(Ladder):
    """Begins at the top and pays there, but a deep copy is at rung 0."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._rung = cores.TOP
        return self._rung, {}

    def __deepcopy__(self, memo):
        return type(self)()


class Outsider(Ladder):
    """Draws from Python's global generator."""

    def uniform(self):
        return random.random()


def planned(env):
    return sc.adapters.gymnasium.problem(
        env,
        discount=cores.DISCOUNT,
        operator=sc.KL(cores.TEMPERATURE),
        reward_range=(0.0, 1.0),
    )


def climbed(env, rung):
    """The environment, some way up."""
    env.reset(seed=3)
    while env._rung < rung:
        env.step(1)
    return env


def sprint(rung, action):
    return [(1.0, rung / cores.TOP, min(rung + 4, cores.TOP))]


def outsider():
    random.seed(7)
    return planned(Outsider())


world = worlds_of("copies", says=SAYS, asks=ASKS)
honest = worlds_of("honest", asks=ASKS, ends=(COVERED,))
WORLDS = (
    world(
        "copies that forget: EzPickle builds a new environment",
        lambda: planned(Forgetful()),
        cores.true_value(sprint, 0),
    ),
    world(
        "copies elsewhere: __deepcopy__ builds a new environment",
        lambda: planned(Inverted()),
        cores.true_value(cores.ladder_outcomes, cores.TOP),
    ),
    world(
        "a live environment: is at rung 4 when it is given",
        lambda: planned(climbed(Ladder(), 4)),
        cores.true_value(cores.ladder_outcomes, 4),
    ),
    world(
        "an environment that draws elsewhere: random.random in its step",
        outsider,
        cores.LADDER,
    ),
    honest(
        "an honest environment: copies are copies",
        lambda: planned(Ladder()),
        cores.LADDER,
    ),
)
