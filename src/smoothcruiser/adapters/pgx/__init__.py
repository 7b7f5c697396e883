"""The adapter of Pgx games (JAX).

``problem(env, …)`` and ``make("pgx:tic_tac_toe", …)`` return problems.

  known   what is known of Pgx's own games: rewards, lengths, names of actions, refusals
  games   a game as a problem

Only ``games`` imports Pgx and JAX. It is loaded when a problem is first built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcruiser.adapters.pgx.known import refuse
from smoothcruiser.operators import Operator
from smoothcruiser.problem.adapter import register
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from smoothcruiser.adapters.pgx.games import problem

__all__ = ["problem"]


class PgxAdapter:
    """Games by their names."""

    name = "pgx"
    summary = "a game of Pgx, in JAX"
    example = "tic_tac_toe"
    needs = "smoothcruiser[pgx]"
    modules = ("pgx",)

    def build(
        self,
        text: str,
        parameters: dict[str, Any],
        *,
        discount: float,
        operator: Operator,
    ) -> Problem:
        """The problem of ``pgx:text``."""
        refuse(text)
        from smoothcruiser.adapters.pgx.games import named

        return named(text, parameters, discount=discount, operator=operator)


register(PgxAdapter())


def __getattr__(name: str) -> Any:
    """``problem``, loaded when it is first needed: it imports Pgx."""
    if name != "problem":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from smoothcruiser.adapters.pgx.games import problem

    return problem
