"""The adapter of ``dm_env`` environments.

``problem(env, …)`` and ``make("dm_env:module:Class", …)`` return problems.

  steps    an environment as one of Gymnasium's, so that it is copied and tried as
           those are
  access   an environment by its class, and the problem that one makes

Only these modules import dm_env. They are loaded when a problem is first built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcruiser.operators import Operator
from smoothcruiser.problem.adapter import register
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from smoothcruiser.adapters.dm_env.access import problem

__all__ = ["problem"]


class DmEnvAdapter:
    """Environments by their classes, and running ones."""

    name = "dm_env"
    summary = "an environment of the interface dm_env"
    example = "my_module:MyEnv"
    needs = "smoothcruiser[dmenv]"
    modules = ("dm_env", "gymnasium")
    options = (
        "discount",
        "operator",
        "reward_range",
        "reward",
        "actions",
        "horizon",
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
        """The problem of ``dm_env:module:Class``.

        Parameters that are not this adapter's own go to the class.
        """
        from smoothcruiser.adapters.dm_env.access import made, named

        return named("dm_env", text, made, parameters, discount, operator)

    def accepts(self, simulator: Any) -> bool:
        """Whether ``simulator`` looks like an environment of dm_env."""
        return all(
            hasattr(simulator, name) for name in ("step", "reset", "action_spec")
        )

    def problem(self, simulator: Any, **options: Any) -> Problem:
        """The problem of an environment, starting where it is."""
        from smoothcruiser.adapters.dm_env.access import problem

        return problem(simulator, **options)


register(DmEnvAdapter())


def __getattr__(name: str) -> Any:
    """``problem``, loaded when it is first needed: it imports dm_env."""
    if name != "problem":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from smoothcruiser.adapters.dm_env.access import problem

    return problem
