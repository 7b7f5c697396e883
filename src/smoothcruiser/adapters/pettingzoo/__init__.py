"""The adapter of PettingZoo games (AEC: agents take turns).

``problem(game, …)`` and ``make("pettingzoo:connect_four_v3", …)`` return problems.

  access   which games are taken, and the problem that one makes
  bare     a game without its wrappers
  known    what is known of PettingZoo's own games
  turns    a game as an environment of Gymnasium, so that it is copied and tried as
           those are; its positions and its oracle

Only these modules import PettingZoo. They are loaded when a problem is first built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcruiser.operators import Operator
from smoothcruiser.problem.adapter import register
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from smoothcruiser.adapters.pettingzoo.access import problem

__all__ = ["problem"]


class PettingZooAdapter:
    """Games by their names, and running ones."""

    name = "pettingzoo"
    summary = "a two-player game of PettingZoo"
    example = "connect_four_v3"
    needs = "smoothcruiser[pettingzoo]"
    modules = ("pettingzoo", "pygame")
    options = (
        "discount",
        "operator",
        "reward_range",
        "horizon",
        "payoffs",
        "deterministic",
        "perfect_information",
        "merge",
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
        """The problem of ``pettingzoo:text``.

        Parameters that are not this adapter's own go to the game.
        """
        from smoothcruiser.adapters.pettingzoo.access import named

        return named(text, parameters, discount=discount, operator=operator)

    def accepts(self, simulator: Any) -> bool:
        """Whether ``simulator`` looks like a game in which agents take turns."""
        return all(
            hasattr(simulator, name)
            for name in ("step", "observe", "last", "possible_agents")
        )

    def problem(self, simulator: Any, **options: Any) -> Problem:
        """The problem of a running game, starting where it is."""
        from smoothcruiser.adapters.pettingzoo.access import problem

        return problem(simulator, **options)


register(PettingZooAdapter())


def __getattr__(name: str) -> Any:
    """``problem``, loaded when it is first needed: it imports PettingZoo."""
    if name != "problem":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from smoothcruiser.adapters.pettingzoo.access import problem

    return problem
