"""The adapter of ``dm_env`` environments.

``problem(env, …)`` and ``make("dm_env:module:Class", …)`` return problems.

  steps       an environment as one of Gymnasium's, so that it is copied and tried as
              those are
  timesteps   an environment by its class, and the problem that one makes

Only these modules import dm_env. They are loaded when a problem is first built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcruiser.problem.adapter_protocol import (
    LIVE_OPTIONS,
    LateAdapter,
    late_problem,
    register,
)

if TYPE_CHECKING:
    from smoothcruiser.adapters.dm_env.timesteps import problem

__all__ = ["problem"]


class DmEnvAdapter(LateAdapter):
    """Environments by their classes, and running ones."""

    module = "timesteps"
    name = "dm_env"
    summary = "an environment of the interface dm_env"
    example = "my_module:MyEnv"
    needs = "smoothcruiser[dmenv]"
    modules = ("dm_env", "gymnasium")
    options = (*LIVE_OPTIONS, "reward")

    def accepts(self, simulator: Any) -> bool:
        """Whether ``simulator`` looks like an environment of dm_env."""
        return all(
            hasattr(simulator, name) for name in ("step", "reset", "action_spec")
        )


__getattr__ = late_problem(register(DmEnvAdapter()))
