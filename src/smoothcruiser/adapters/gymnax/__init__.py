"""The adapter of gymnax environments (JAX).

``problem(env, …)`` and ``make("gymnax:CartPole-v1", …)`` return problems.

  task_ranges   known facts of gymnax's own environments: rewards, names of actions
  tasks         an environment as a problem

Only ``tasks`` imports gymnax and JAX. It is loaded when a problem is first built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcruiser.adapters.gymnax.task_ranges import refuse
from smoothcruiser.problem.adapter_protocol import LateAdapter, late_problem, register
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from smoothcruiser.adapters.gymnax.tasks import problem

__all__ = ["problem"]


class GymnaxAdapter(LateAdapter):
    """Environments by their registered names."""

    module = "tasks"
    name = "gymnax"
    summary = "an environment of gymnax, in JAX"
    example = "CartPole-v1"
    needs = "smoothcruiser[gymnax]"
    modules = ("gymnax",)

    def build(
        self, text: str, parameters: dict[str, Any], **build_options: Any
    ) -> Problem:
        """The problem of ``gymnax:text``, if that can be one."""
        refuse(text)
        return super().build(text, parameters, **build_options)


__getattr__ = late_problem(register(GymnaxAdapter()))
