"""The adapter of gymnax environments (JAX).

``problem(env, …)`` and ``make("gymnax:CartPole-v1", …)`` return problems.

  known    what is known of gymnax's own environments: rewards, names of actions
  access   an environment as a problem

Only ``access`` imports gymnax and JAX. It is loaded when a problem is first built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcruiser.adapters.gymnax.known import refuse
from smoothcruiser.operators import Operator
from smoothcruiser.problem.adapter import register
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from smoothcruiser.adapters.gymnax.access import problem

__all__ = ["problem"]


class GymnaxAdapter:
    """Environments by their registered names."""

    name = "gymnax"
    summary = "an environment of gymnax, in JAX"
    example = "CartPole-v1"
    needs = "smoothcruiser[gymnax]"
    modules = ("gymnax",)

    def build(
        self,
        text: str,
        parameters: dict[str, Any],
        *,
        discount: float,
        operator: Operator,
    ) -> Problem:
        """The problem of ``gymnax:text``.

        Parameters that are not this adapter's own are the environment's.
        """
        refuse(text)
        from smoothcruiser.adapters.gymnax.access import named

        return named(text, parameters, discount=discount, operator=operator)


register(GymnaxAdapter())


def __getattr__(name: str) -> Any:
    """``problem``, loaded when it is first needed: it imports gymnax."""
    if name != "problem":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from smoothcruiser.adapters.gymnax.access import problem

    return problem
