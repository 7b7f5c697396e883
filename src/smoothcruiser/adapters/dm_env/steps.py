"""A ``dm_env`` environment as one of Gymnasium's.

  dm_env                         Gymnasium
  LAST with discount 0           terminated
  LAST with a discount above 0   truncated; nothing is paid after either
  MID with discount 1            goes on
  MID with another discount      an error: a planner has one discount for all steps
  FIRST                          an error: the environment restarted by itself, since it
                                 was never reset or its episode was over
  reward None                    0, as in a FIRST step

Out of scope: how it is copied and tried (``adapters.gymnasium``).

Stored states hold the name of this module: it cannot move.
"""

from __future__ import annotations

from typing import Any

import dm_env
import gymnasium
import numpy as np

from smoothcruiser.adapters.gymnasium.copies import View
from smoothcruiser.errors import InvalidInput, OracleError


class StepsView(View):
    """An environment of dm_env that is stepped as one of Gymnasium's."""

    def __init__(self, env: Any) -> None:
        self.inside = env
        self.action_space = _action_space(env.action_spec(), type(env).__name__)

    def like(self, other: Any) -> Any:
        """A view of another environment of dm_env; anything else as it is."""
        return StepsView(other) if isinstance(other, dm_env.Environment) else other

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        return self.inside.reset().observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step."""
        time_step = self.inside.step(action)
        env_name = type(self.inside).__name__
        if time_step.step_type == dm_env.StepType.FIRST:
            raise OracleError(
                f"{env_name} began anew in place of a step: it was not reset, or its "
                "episode was over; reset it, then plan."
            )
        is_last = time_step.step_type == dm_env.StepType.LAST
        step_discount = (
            1.0
            if time_step.discount is None
            else float(np.asarray(time_step.discount))
        )
        if not is_last and step_discount != 1.0:
            raise OracleError(
                f"{env_name} has a discount of its own ({step_discount:g}) in the "
                "middle of an episode; only 1, and 0 at the end, can be planned with."
            )
        reward = (
            0.0 if time_step.reward is None else float(np.asarray(time_step.reward))
        )
        return (
            time_step.observation,
            reward,
            is_last and step_discount == 0.0,
            is_last and step_discount > 0,
            {},
        )


def _action_space(spec: Any, name: str) -> Any:
    """The space of an action spec."""
    if isinstance(spec, dm_env.specs.DiscreteArray):
        return gymnasium.spaces.Discrete(int(spec.num_values))
    whole_numbers = np.issubdtype(getattr(spec, "dtype", object), np.integer)
    if (
        isinstance(spec, dm_env.specs.BoundedArray)
        and spec.shape == ()
        and whole_numbers
    ):
        first_action = int(spec.minimum)
        return gymnasium.spaces.Discrete(
            int(spec.maximum) - first_action + 1, start=first_action
        )
    if isinstance(spec, dm_env.specs.BoundedArray):
        lower_bound = np.broadcast_to(spec.minimum, spec.shape)
        upper_bound = np.broadcast_to(spec.maximum, spec.shape)
        return gymnasium.spaces.Box(lower_bound, upper_bound, dtype=spec.dtype)
    raise InvalidInput(
        f"The actions of {name} are {spec!r}; a DiscreteArray or a BoundedArray is "
        "needed."
    )
