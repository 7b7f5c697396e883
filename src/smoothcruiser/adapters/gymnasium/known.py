"""Known facts of environments, read in their sources: rewards, payoffs, ends, keys.

A declaration that is false makes a false certificate. So each line below holds for the
class itself (a subclass of yours is another world), follows the parameters that change
it, and says nothing where wrappers may change rewards. Read in Gymnasium 1.4 and
MiniGrid 3.2; "only ends pay" is checked at every step.

  CartPole    pays 1 per step; with ``sutton_barto_reward`` -1 at the end alone
  Blackjack   pays at the end alone: -1, 0 or 1, and 1.5 for a natural with
              ``natural=True`` and ``sab=False``. A hit adds at least 1 to a hand of at
              least 2 that may hold 21: an episode has 20 steps at the most
  FrozenLake  by its table, where it is not planned in as one
  MiniGrid    pays 1 - 0.9 step/max_steps when it ends with success (-1 for a collision
              in DynamicObstacles), and 0 elsewhere; ``max_steps`` ends it. BabyAI's
              levels choose ``max_steps`` at each reset unless it is a parameter

Out of scope: time limits of the registry, which are no part of a state, and
environments that have tables (``tables``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from smoothcruiser.adapters.gymnasium.copies import WATCHERS, View, layers
from smoothcruiser.problem.totals import AT_THE_END

END_PAYS = {"payoffs": AT_THE_END}
# its cost: angle² + 0.1 speed² + 0.001 torque², at their limits
_PENDULUM = math.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2
RANGES = {
    "CartPoleEnv": (0.0, 1.0),
    "MountainCarEnv": (-1.0, 0.0),
    "Continuous_MountainCarEnv": (-0.1, 100.0),
    "AcrobotEnv": (-1.0, 0.0),
    "PendulumEnv": (-_PENDULUM, 0.0),
}
MAX_HAND_STEPS = 20  # steps of a hand of Blackjack
# steps of wrappers that pass rewards and ends on as they are
PASSING_STEPS = (
    gymnasium.Wrapper.step,
    gymnasium.ObservationWrapper.step,
    gymnasium.ActionWrapper.step,
)


@dataclass(frozen=True)
class KnownFacts:
    """Facts of an environment that hold under every policy."""

    rewards: tuple[float, float] | None = None  # (low, high)
    declared: dict[str, Any] = field(default_factory=dict)  # arguments of ``MDP``
    plain: bool = False  # all that it holds is plain Python, so its key is its contents


def keeps_rewards(env: Any) -> bool:
    """Whether an environment pays and ends as the one inside its wrappers does."""
    wrapper_types = [
        type(layer)
        for layer in layers(env)
        if type(layer) not in WATCHERS and isinstance(layer, gymnasium.Wrapper)
    ]
    return all(wrapper_type.step in PASSING_STEPS for wrapper_type in wrapper_types)


def look_up_facts(env: Any) -> KnownFacts | None:
    """The known facts of an environment without its wrappers; None without any."""
    env_class = type(env)
    if isinstance(env, View):
        return None
    if env_class.__module__.startswith("minigrid.envs."):
        return _minigrid(env)
    if not env_class.__module__.startswith("gymnasium.envs."):
        return None
    if env_class.__name__ == "BlackjackEnv":
        pays_natural = bool(getattr(env, "natural", True)) and not getattr(
            env, "sab", False
        )
        declarations = END_PAYS | {"episodes_end": (MAX_HAND_STEPS, 1.0)}
        return KnownFacts(
            (-1.0, 1.5 if pays_natural else 1.0), declarations, plain=True
        )
    if env_class.__name__ == "CartPoleEnv" and getattr(
        env, "_sutton_barto_reward", False
    ):
        return KnownFacts((-1.0, 0.0), END_PAYS)
    if env_class.__name__ == "FrozenLakeEnv":
        return _lake(env)
    rewards = RANGES.get(env_class.__name__)
    return None if rewards is None else KnownFacts(rewards)


def _lake(env: Any) -> KnownFacts:
    """A lake by the entries of its table."""
    entries = [
        entry
        for state_row in env.P.values()
        for action_entries in state_row.values()
        for entry in action_entries
    ]
    entry_rewards = [float(reward) for _, _, reward, _ in entries]
    pays_early = any(
        reward != 0 and not terminated for _, _, reward, terminated in entries
    )
    return KnownFacts(
        (min(entry_rewards), max(entry_rewards)), {} if pays_early else dict(END_PAYS)
    )


def _minigrid(env: Any) -> KnownFacts:
    class_names = [cls.__name__ for cls in type(env).__mro__]
    lowest_reward = -1.0 if "DynamicObstaclesEnv" in class_names else 0.0
    declarations: dict[str, Any] = dict(END_PAYS)
    max_steps = getattr(env, "max_steps", None)
    if (
        getattr(env, "fixed_max_steps", True)
        and isinstance(max_steps, int)
        and max_steps >= 1
    ):
        declarations["episodes_end"] = (max_steps, 1.0)
    return KnownFacts((lowest_reward, 1.0), declarations, plain=True)
