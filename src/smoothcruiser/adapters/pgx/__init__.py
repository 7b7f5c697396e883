"""The adapter of Pgx games (JAX).

``problem(env, …)`` and ``make("pgx:tic_tac_toe", …)`` return problems.

  known_games   known facts of Pgx's own games: rewards, lengths, names of actions,
                refusals
  boards        a game as a problem

Only ``boards`` imports Pgx and JAX. It is loaded when a problem is first built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcruiser.adapters.pgx.known_games import refuse
from smoothcruiser.problem.adapter_protocol import LateAdapter, late_problem, register
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from smoothcruiser.adapters.pgx.boards import problem

__all__ = ["problem"]


class PgxAdapter(LateAdapter):
    """Games by their names."""

    name = "pgx"
    summary = "a game of Pgx, in JAX"
    example = "tic_tac_toe"
    needs = "smoothcruiser[pgx]"
    modules = ("pgx",)
    module = "boards"

    def build(
        self, text: str, parameters: dict[str, Any], **build_options: Any
    ) -> Problem:
        """The problem of ``pgx:text``, if that can be one."""
        refuse(text)
        return super().build(text, parameters, **build_options)


__getattr__ = late_problem(register(PgxAdapter()))
