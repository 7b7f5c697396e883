"""Names of the actions of a Gymnasium environment.

  ``get_action_meanings()``   where the environment has it (ALE: NOOP, FIRE, …)
  ``actions``                 an enumeration 0, 1, … (MiniGrid: left, right, forward, …)
  MEANINGS                    the names in Gymnasium's documentation of its own discrete
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
        actions: the environment's actions for the problem's numbers 0, 1, and so on.
    """
    action_space = env.action_space
    if isinstance(action_space, gymnasium.spaces.Box):
        action_names = [_format_value(action) for action in actions]
    elif isinstance(action_space, gymnasium.spaces.Discrete):
        known_names = _look_up_names(
            getattr(env, "unwrapped", env), int(action_space.n)
        )
        if known_names is None:
            return None
        action_names = [
            known_names[int(action) - int(action_space.start)] for action in actions
        ]
    else:
        return None
    are_printable = all(
        isinstance(action_name, str)
        and action_name.strip()
        and action_name.isprintable()
        for action_name in action_names
    )
    return (
        tuple(action_names)
        if are_printable and len(set(action_names)) == len(action_names)
        else None
    )


def _look_up_names(inner: Any, num_actions: int) -> Sequence[str] | None:
    """A name for each action of the environment; None where there are not as many."""
    action_names: Any = None
    if callable(getattr(inner, "get_action_meanings", None)):
        with suppress(Exception):  # of a name, no problem should fail
            action_names = list(inner.get_action_meanings())
    elif isinstance(getattr(inner, "actions", None), enum.EnumMeta):
        enum_members: Any = list(inner.actions)
        if [member.value for member in enum_members] == list(range(len(enum_members))):
            action_names = [member.name for member in enum_members]
    elif type(inner).__module__.startswith("gymnasium.envs."):
        action_names = MEANINGS.get(type(inner).__name__)
    return (
        action_names
        if action_names is not None and len(action_names) == num_actions
        else None
    )


def _format_value(action: Any) -> str:
    """A continuous action as its value: [-2], or [0.5, 1]."""
    return f"[{', '.join(f'{number:g}' for number in np.ravel(action).tolist())}]"
