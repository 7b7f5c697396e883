"""The adapter of Gymnasium environments.

``problem(env, …)`` and ``make("gym:FrozenLake-v1,map_name=8x8", …)`` return
problems.

  access      which way leads into an environment, and the problem it makes
  tables      environments that have their model: tabular problems
  oracles     environments that are put into a state, or copied
  observations  the observation of a state
  functional  environments with an explicit state
  meanings    names of actions
  families    packages that register environments
  known       known facts of environments: rewards, payoffs, ends
  copies      private copies, and the contents of an environment
  whole       a key of all that an environment holds
  trial       whether an environment put into a state continues as one never touched

Only these modules import Gymnasium. They are loaded when a problem is first
built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import MissingExtra
from smoothcruiser.problem.adapter_protocol import (
    LIVE_OPTIONS,
    LateAdapter,
    late_problem,
    register,
)
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from smoothcruiser.adapters.gymnasium.environments import problem

__all__ = ["problem"]


class GymnasiumAdapter(LateAdapter):
    """Environments by their registered names, and running ones."""

    name = "gym"
    summary = "an environment of Gymnasium"
    example = "FrozenLake-v1,map_name=8x8"
    needs = "smoothcruiser[gymnasium]"
    modules = ("gymnasium",)
    options = (*LIVE_OPTIONS, "reward", "access")

    def build(
        self, text: str, parameters: dict[str, Any], **build_options: Any
    ) -> Problem:
        """The problem of ``gym:text``; a missing package is named with its extra."""
        from smoothcruiser.adapters.gymnasium.tables import (
            find_family,
            missing_package,
        )

        try:
            return super().build(text, parameters, **build_options)
        except MissingExtra as error:
            family = find_family(text)
            if family is None:
                raise
            raise missing_package(text, *family) from error

    def accepts(self, simulator: Any) -> bool:
        """Whether ``simulator`` looks like an environment with one agent."""
        return all(
            hasattr(simulator, name) for name in ("step", "action_space", "unwrapped")
        ) and not hasattr(simulator, "possible_agents")


__getattr__ = late_problem(register(GymnasiumAdapter()))
