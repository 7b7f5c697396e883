"""The adapter of OpenSpiel games.

``problem(game, …)`` and ``make("openspiel:tic_tac_toe", …)`` return problems.

  games   a game as a problem
  keys    which positions are one state

Only these modules import OpenSpiel. They are loaded when a problem is first
built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcruiser.problem.adapter_protocol import LateAdapter, late_problem, register

if TYPE_CHECKING:
    from smoothcruiser.adapters.openspiel.games import problem

__all__ = ["problem"]


class OpenSpielAdapter(LateAdapter):
    """Games by their names."""

    name = "openspiel"
    summary = "a game of OpenSpiel"
    example = "tic_tac_toe"
    needs = "smoothcruiser[openspiel]"
    modules = ("pyspiel",)
    module = "games"


__getattr__ = late_problem(register(OpenSpielAdapter()))
