"""Small games as PettingZoo environments: an honest one, one with dice, and liars.

Nim with one pile: a move takes one to three stones, who takes the last one wins. With
n stones the first player wins unless n is a multiple of four.
"""

import random
from typing import ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle
from pettingzoo import AECEnv
from pettingzoo.utils import AgentSelector

TAKEN = {"stones": 0}
TOLD = {"perfect_information": True, "reward_range": (-1.0, 1.0)}


class Nim(AECEnv, EzPickle):
    """Copies by ``deepcopy`` stand at the beginning: EzPickle forgets."""

    metadata: ClassVar = {"name": "nim_v0", "is_parallelizable": False}

    def __init__(self, stones=7):
        EzPickle.__init__(self, stones)
        super().__init__()
        self.stones = stones
        self.possible_agents = ["one", "two"]
        self.agents = self.possible_agents[:]
        self.pile = stones

    def observation_space(self, agent):
        return spaces.Dict(
            {"pile": spaces.Discrete(100), "action_mask": spaces.MultiBinary(3)}
        )

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        self.pile = self.stones
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {name: {} for name in self.agents}
        self.np_random = np.random.default_rng(seed)
        self._agent_selector = AgentSelector(self.agents)
        self.agent_selection = self._agent_selector.reset()

    def mask(self):
        return np.array([n <= self.pile for n in (1, 2, 3)], dtype=np.int8)

    def observe(self, agent):
        return {"pile": self.pile, "action_mask": self.mask()}

    def step(self, action):
        mover = self.agent_selection
        self._cumulative_rewards[mover] = 0
        self.pile -= self.taken(action)
        self._clear_rewards()
        if self.pile <= 0:
            self.win(mover)
        self.agent_selection = self._agent_selector.next()
        self._accumulate_rewards()

    def taken(self, action):
        return action + 1

    def win(self, mover):
        for name in self.agents:
            self.rewards[name] = 1 if name == mover else -1
        self.terminations = dict.fromkeys(self.agents, True)


class Dice(Nim):
    """Half of the time one stone less is taken, but one at least."""

    def roll(self):
        return self.np_random.random()

    def taken(self, action):
        return max(1, action + 1 - int(self.roll() < 0.5))


class Generous(Nim):
    """Not zero-sum: the loser keeps what it had."""

    def win(self, mover):
        super().win(mover)
        self.rewards = {name: max(0, paid) for name, paid in self.rewards.items()}


class LateGenerous(Generous):
    """Zero-sum until few are left in a long game: no trial sees it."""

    def win(self, mover):
        (Generous if self.stones > 50 else Nim).win(self, mover)


class ByModule(Nim):
    """The pile is a variable of the module."""

    def taken(self, action):
        TAKEN["stones"] += action + 1
        return action + 1


class ClassStream(Dice):
    """All copies draw from one generator of the class."""

    dice = np.random.default_rng(2)

    def roll(self):
        return self.dice.random()


class OwnRandom(Dice):
    def reset(self, seed=None, options=None):
        super().reset(seed)
        self.dice = random.Random(seed)

    def roll(self):
        return self.dice.random()


class ClosedStream(Dice):
    """A function that keeps the original: its copies would draw from the original's."""

    def __init__(self, stones=7):
        super().__init__(stones)
        self.roll = lambda: self.np_random.random()


class ChangingOrder(Nim):
    """After some moves a third agent is asked."""

    def step(self, action):
        super().step(action)
        if 0 < self.pile <= self.stones - 4:
            self.agent_selection = "three"


class ChangingMask(Nim):
    """A look at the mask changes it."""

    def __init__(self, stones=7):
        super().__init__(stones)
        self.looks = 0

    def mask(self):
        self.looks += 1
        return np.array([1, self.looks % 2, 0], dtype=np.int8)


class HiddenMask(Nim):
    """The mask depends on how often it was asked, which is counted elsewhere."""

    def mask(self):
        TAKEN["looks"] = TAKEN.get("looks", 0) + 1
        return np.array([1, TAKEN["looks"] % 2, 0], dtype=np.int8)


class LongMask(Nim):
    def mask(self):
        return np.ones(5, dtype=np.int8)


class ReusedMask(Nim):
    """One array for all masks, which every look writes into; nothing is wrong with it."""

    def __init__(self, stones=7):
        super().__init__(stones)
        self.kept = np.zeros(3, dtype=np.int8)

    def mask(self):
        self.kept[:] = [n <= self.pile for n in (1, 2, 3)]
        return self.kept


class PaysTwice(Nim):
    """What it pays by rewards is not what ``last`` returns."""

    def step(self, action):
        super().step(action)
        self._accumulate_rewards()


class OneLeaves(Nim):
    def win(self, mover):
        super().win(mover)
        self.terminations[mover] = False


class CutOff(Nim):
    """After three moves the game is cut off."""

    moves = 0

    def step(self, action):
        super().step(action)
        self.moves += 1
        if self.moves == 3 and not any(self.terminations.values()):
            self.truncations = dict.fromkeys(self.agents, True)


class ThreePlayers(Nim):
    def __init__(self):
        super().__init__()
        self.possible_agents = ["one", "two", "three"]


class AtOnce(Nim):
    metadata: ClassVar = {"name": "at_once_v0", "is_parallelizable": True}


class Pointing(Nim):
    """Whose favourite pile it is differs between positions that hold the same piles."""

    def reset(self, seed=None, options=None):
        super().reset(seed)
        self.piles = [[1], [2]]
        self.preferred = self.piles[0]

    def step(self, action):
        self.preferred = self.piles[action % 2]
        super().step(0)
