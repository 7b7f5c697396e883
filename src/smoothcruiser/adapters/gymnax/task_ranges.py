"""Known facts of gymnax's own environments, read in the source of gymnax 1.0.1.

``RANGES`` holds every reward of an environment, by its own name (``env.name``): a pair,
or a function of its parameters. The grounds are the lines that compute the reward:

  flags and counts      CartPole, Pong: 1 or 0 by whether it is over. Acrobot: -1 or 0,
                        MountainCar: -1. Catch, MemoryChain, UmbrellaChain: -1, 0 or 1.
                        Breakout, Freeway, FourRooms, BernoulliBandit: 1 or 0.
                        Asterix: 8 entities, each met at most once before and once after
                        it moves. SpaceInvaders: aliens on a board of 10 x 10.
  tables                SimpleBandit: numbers from 0 to 1. DiscountingChain: 1 or the
                        best one. FrozenLake: its schedule.
  formulas              Pendulum: angle**2 + 0.1 speed**2 + 0.001 torque**2, each at its
                        limit. MountainCarContinuous: -0.1 action**2, + 100 at the goal.
                        Reacher, Swimmer: exp of a number that is not positive, times
                        factors between 0 and 1. DeepSea: 1 at the end, less the cost of
                        a move. MetaMaze: the goal's, a wall's, or both.

Formulas are computed in float32, so their ranges are widened by ``ROUNDED``. The others
have no known range (normal noise: GaussianBandit, DeepSea with chance; distances:
PointRobot if dense; Seaquest): it has to be declared. Out of scope: gymnax itself,
which is not imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from smoothcruiser.errors import InvalidInput

Range = tuple[float, float]
# of a formula of some ten float32 operations, each off by 2**-24 at most: 6e-7
ROUNDED = 1e-5


def _pendulum(env: Any, params: Any, actions: Any) -> Range:
    worst_cost = math.pi**2 + 0.1 * float(params.max_speed) ** 2
    worst_cost += 0.001 * float(params.max_torque) ** 2
    return -worst_cost * (1.0 + ROUNDED), 0.0


def _continuous_car(env: Any, params: Any, actions: Sequence[Any]) -> Range:
    largest_action = max(abs(float(_number(action))) for action in actions)
    return -0.1 * largest_action**2 * (1.0 + ROUNDED), 100.0


def _number(action: Any) -> Any:
    return action.reshape(-1)[0] if hasattr(action, "reshape") else action


def _deep_sea(env: Any, params: Any, actions: Any) -> Range | None:
    if not bool(params.deterministic):
        return None
    move_cost = float(params.unscaled_move_cost) / int(env.size)
    return min(0.0, -move_cost) - ROUNDED, max(1.0, 1.0 - move_cost) + ROUNDED


def _chain(env: Any, params: Any, actions: Any) -> Range:
    best_return = float(params.optimal_return)
    return min(0.0, best_return) - ROUNDED, max(1.0, best_return) + ROUNDED


def _maze(env: Any, params: Any, actions: Any) -> Range:
    possible_rewards = [0.0, float(params.reward), float(params.punishment)]
    possible_rewards.append(possible_rewards[1] + possible_rewards[2])
    return min(possible_rewards) - ROUNDED, max(possible_rewards) + ROUNDED


def _robot(env: Any, params: Any, actions: Any) -> Range | None:
    return None if bool(params.dense_reward) else (0.0, 1.0)


def _lake(env: Any, params: Any, actions: Any) -> Range:
    scheduled_rewards = [float(x) for x in env.reward_schedule]
    return min(scheduled_rewards), max(scheduled_rewards)


RANGES: dict[str, Range | Callable[[Any, Any, Any], Range | None]] = {
    "CartPole-v1": (0.0, 1.0),
    "Pendulum-v1": _pendulum,
    "Acrobot-v1": (-1.0, 0.0),
    "MountainCar-v0": (-1.0, 0.0),
    "MountainCarContinuous-v0": _continuous_car,
    "Asterix-MinAtar": (0.0, 16.0),
    "Breakout-MinAtar": (0.0, 1.0),
    "Freeway-MinAtar": (0.0, 1.0),
    "SpaceInvaders-MinAtar": (0.0, 100.0),
    "Catch-bsuite": (-1.0, 1.0),
    "DeepSea-bsuite": _deep_sea,
    "MemoryChain-bsuite": (-1.0, 1.0),
    "UmbrellaChain-bsuite": (-1.0, 1.0),
    "DiscountingChain-v0": _chain,
    "SimpleBandit-bsuite": (0.0, 1.0),
    "FourRooms-misc": (0.0, 1.0),
    "MetaMaze-misc": _maze,
    "PointRobot-misc": _robot,
    "BernoulliBandit-misc": (0.0, 1.0),
    "Reacher-misc": (0.0, 1.0 + ROUNDED),
    "Swimmer-misc": (0.0, 1.0 + ROUNDED),
    "Pong-misc": (0.0, 1.0),
    "FrozenLake-misc": _lake,
}

# rewards are whole numbers for all parameters: nothing is rounded
WHOLE = frozenset(
    {
        "CartPole-v1",
        "Acrobot-v1",
        "MountainCar-v0",
        "Asterix-MinAtar",
        "Breakout-MinAtar",
        "Freeway-MinAtar",
        "SpaceInvaders-MinAtar",
        "Catch-bsuite",
        "MemoryChain-bsuite",
        "UmbrellaChain-bsuite",
        "FourRooms-misc",
        "BernoulliBandit-misc",
        "Pong-misc",
    }
)

_MINATAR = ("no-op", "left", "up", "right", "down", "fire")
# in the order of their numbers; MinAtar's games use those that their action_set lists
MEANINGS: dict[str, tuple[str, ...]] = {
    "CartPole-v1": ("push left", "push right"),
    "Acrobot-v1": ("torque -1", "torque 0", "torque 1"),
    "MountainCar-v0": ("accelerate left", "coast", "accelerate right"),
    "Catch-bsuite": ("left", "stay", "right"),
    "FourRooms-misc": ("up", "right", "down", "left"),
    "MetaMaze-misc": ("up", "right", "down", "left"),
    "FrozenLake-misc": ("left", "down", "right", "up"),
}
REFUSED = {"MNISTBandit-bsuite": "it downloads its pictures when it is made"}


def refuse(name: str) -> None:
    """Refuse an environment that cannot be planned in, by its name."""
    if name in REFUSED:
        raise InvalidInput(
            f"{name} of gymnax cannot be planned in: {REFUSED[name]}; choose another "
            "environment."
        )


def known_range(
    name: str, env: Any, params: Any, actions: Sequence[Any]
) -> Range | None:
    """(low, high) of all rewards of one of gymnax's own; None where it is not known."""
    reward_range = RANGES.get(name)
    return (
        reward_range(env, params, actions) if callable(reward_range) else reward_range
    )


def meanings(name: str, env: Any, num_actions: int) -> tuple[str, ...] | None:
    """The names of the actions of one of gymnax's own; None where they have none."""
    if name.endswith("-MinAtar") and hasattr(env, "action_set"):
        action_numbers = [int(x) for x in env.action_set]
        action_names = tuple(_MINATAR[x] for x in action_numbers if x < len(_MINATAR))
    else:
        action_names = MEANINGS.get(name, ())
    return (
        action_names
        if len(action_names) == num_actions and len(set(action_names)) == num_actions
        else None
    )
