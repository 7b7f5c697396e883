"""The adapter of OpenSpiel games.

``problem(game, …)`` and ``make("openspiel:tic_tac_toe", …)`` return problems.

  games   a game as a problem
  keys    which positions are one state

Only these modules import OpenSpiel. They are loaded when a problem is first
built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcruiser.operators import Operator
from smoothcruiser.problem.adapter import register
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from smoothcruiser.adapters.openspiel.games import problem

__all__ = ["problem"]


class OpenSpielAdapter:
    """Games by their names."""

    name = "openspiel"
    summary = "a game of OpenSpiel"
    example = "tic_tac_toe"
    needs = "smoothcruiser[openspiel]"
    modules = ("pyspiel",)

    def build(
        self,
        text: str,
        parameters: dict[str, Any],
        *,
        discount: float,
        operator: Operator,
    ) -> Problem:
        """The problem of ``openspiel:text``.

        Parameters that are not this adapter's own go to OpenSpiel.
        """
        from smoothcruiser.adapters.openspiel.games import named

        return named(text, parameters, discount=discount, operator=operator)


register(OpenSpielAdapter())


def __getattr__(name: str) -> Any:
    """``problem``, loaded when it is first needed: it imports OpenSpiel."""
    if name != "problem":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from smoothcruiser.adapters.openspiel.games import problem

    return problem
