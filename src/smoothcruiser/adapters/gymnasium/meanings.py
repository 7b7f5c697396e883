"""What the actions of a Gymnasium environment are called.

  ``get_action_meanings()``   where the environment has it (ALE: NOOP, FIRE, …)
  ``actions``                 an enumeration 0, 1, … (MiniGrid: left, right, forward, …)
  MEANINGS                    what Gymnasium's documentation says of its own discrete
                              environments, by class
  a value                     of a continuous action that was chosen, such as [-2]

Others have no names: their actions are shown by number.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import gymnasium
import numpy as np

# Gymnasium 1.x, the section "Action Space" of each environment's page
MEANINGS: dict[str, tuple[str, ...]] = {
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("south", "north", "east", "west", "pick up", "drop off"),
    "BlackjackEnv": ("stick", "hit"),
    "CartPoleEnv": ("push left", "push right"),
    "CartPoleFunctional": ("push left", "push right"),
    "MountainCarEnv": ("accelerate left", "coast", "accelerate right"),
    "AcrobotEnv": ("torque -1", "torque 0", "torque 1"),
    "LunarLander": ("nothing", "left engine", "main engine", "right engine"),
}


def meanings(env: Any, actions: Sequence[Any]) -> tuple[str, ...] | None:
    """The names of the problem's actions; None where some have none.

    Args:
        env: the environment, wrapped or not.
        actions: what the problem's actions 0, 1, … are in the environment.
    """
    space = env.action_space
    if isinstance(space, gymnasium.spaces.Box):
        found = [_value(action) for action in actions]
    elif isinstance(space, gymnasium.spaces.Discrete):
        known = _known(getattr(env, "unwrapped", env), int(space.n))
        if known is None:
            return None
        found = [known[int(action) - int(space.start)] for action in actions]
    else:
        return None
    words = all(isinstance(x, str) and x.strip() and x.isprintable() for x in found)
    return tuple(found) if words and len(set(found)) == len(found) else None


def _known(inner: Any, size: int) -> Sequence[str] | None:
    """A name for each action of the environment; None where there are not as many."""
    found: Any = None
    if callable(getattr(inner, "get_action_meanings", None)):
        with suppress(Exception):  # of a name, no problem should fail
            found = list(inner.get_action_meanings())
    elif isinstance(getattr(inner, "actions", None), enum.EnumMeta):
        listed: Any = list(inner.actions)
        if [member.value for member in listed] == list(range(len(listed))):
            found = [member.name for member in listed]
    elif type(inner).__module__.startswith("gymnasium.envs."):
        found = MEANINGS.get(type(inner).__name__)
    return found if found is not None and len(found) == size else None


def _value(action: Any) -> str:
    """A continuous action as its value: [-2], or [0.5, 1]."""
    return f"[{', '.join(f'{x:g}' for x in np.ravel(action).tolist())}]"
