"""The adapter of PettingZoo games (AEC: agents take turns).

``problem(game, …)`` and ``make("pettingzoo:connect_four_v3", …)`` return problems.

  access   which games are accepted, and the problem that one makes
  bare     a game without its wrappers
  known    known facts of PettingZoo's own games
  turns    a game as an environment of Gymnasium, so that it is copied and tried as
           those are; its positions and its oracle

Only these modules import PettingZoo. They are loaded when a problem is first built.
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
    from smoothcruiser.adapters.pettingzoo.agent_cycles import problem

__all__ = ["problem"]


class PettingZooAdapter(LateAdapter):
    """Games by their names, and running ones."""

    module = "agent_cycles"
    name = "pettingzoo"
    summary = "a two-player game of PettingZoo"
    example = "connect_four_v3"
    needs = "smoothcruiser[pettingzoo]"
    modules = ("pettingzoo", "pygame")
    options = (*LIVE_OPTIONS, "perfect_information", "merge")

    def accepts(self, simulator: Any) -> bool:
        """Whether ``simulator`` looks like a game in which agents take turns."""
        return all(
            hasattr(simulator, name)
            for name in ("step", "observe", "last", "possible_agents")
        )


__getattr__ = late_problem(register(PettingZooAdapter()))
