"""The adapter of Gymnasium environments.

``problem(env, …)`` and ``make("gym:FrozenLake-v1,map_name=8x8", …)`` return
problems.

  access      which way leads into an environment, and the problem it makes
  tables      environments that have their model: tabular problems
  oracles     environments that are put into a state, or copied
  functional  environments whose state is explicit
  meanings    what actions are called
  families    packages that register environments, and what is known of them
  copies      private copies, and what an environment holds
  whole       a key of all that an environment holds
  trial       whether an environment put into a state continues as one never touched

Only these modules import Gymnasium. They are loaded when a problem is first
built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import MissingExtra
from smoothcruiser.operators import Operator
from smoothcruiser.problem.adapter import register
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from smoothcruiser.adapters.gymnasium.access import problem

__all__ = ["problem"]


class GymnasiumAdapter:
    """Environments by their registered names, and running ones."""

    name = "gym"
    summary = "an environment of Gymnasium"
    example = "FrozenLake-v1,map_name=8x8"
    needs = "smoothcruiser[gymnasium]"
    modules = ("gymnasium",)
    options = (
        "discount",
        "operator",
        "reward_range",
        "reward",
        "actions",
        "horizon",
        "access",
        "deterministic",
        "key",
        "call_seconds",
    )

    def build(
        self,
        text: str,
        parameters: dict[str, Any],
        *,
        discount: float,
        operator: Operator,
    ) -> Problem:
        """The problem of ``gym:text``.

        Parameters that are not this adapter's own go to ``gymnasium.make``.
        """
        from smoothcruiser.adapters.gymnasium.families import missing, package

        try:
            from smoothcruiser.adapters.gymnasium.access import named
        except MissingExtra as error:
            family = package(text)
            if family is None:
                raise
            raise missing(text, *family) from error
        return named(text, parameters, discount=discount, operator=operator)

    def accepts(self, simulator: Any) -> bool:
        """Whether ``simulator`` looks like an environment with one agent."""
        return all(
            hasattr(simulator, name) for name in ("step", "action_space", "unwrapped")
        ) and not hasattr(simulator, "possible_agents")

    def problem(self, simulator: Any, **options: Any) -> Problem:
        """The problem of an environment, starting where it is."""
        from smoothcruiser.adapters.gymnasium.access import problem

        return problem(simulator, **options)


register(GymnasiumAdapter())


def __getattr__(name: str) -> Any:
    """``problem``, loaded when it is first needed: it imports Gymnasium."""
    if name != "problem":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from smoothcruiser.adapters.gymnasium.access import problem

    return problem
