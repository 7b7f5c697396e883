"""A PettingZoo game without its wrappers, its name and its progress."""

from __future__ import annotations

from typing import Any

import pettingzoo
from pettingzoo.utils import wrappers

from smoothcruiser.errors import InvalidInput

# PettingZoo's own wrappers that change nothing in legal play
WATCHERS = (
    wrappers.BaseWrapper,
    wrappers.OrderEnforcingWrapper,
    wrappers.AssertOutOfBoundsWrapper,
    wrappers.TerminateIllegalWrapper,
    wrappers.CaptureStdoutWrapper,
)
ACCEPTED_GAMES = (
    "two-player, zero-sum games of perfect information in which players take turns can"
)


def planning_refusal(title: str, reason: str) -> InvalidInput:
    """The refusal of a game that is not of the kind this library plans in."""
    return InvalidInput(f"{title} cannot be planned in: {reason}; {ACCEPTED_GAMES}.")


def strip_wrappers(game: Any) -> Any:
    """A game without PettingZoo's own wrappers that only watch."""
    if isinstance(game, pettingzoo.ParallelEnv):
        raise planning_refusal(type(game).__name__, "players move at the same time")
    if not isinstance(game, pettingzoo.AECEnv):
        raise InvalidInput(
            f"A PettingZoo game (AECEnv) was expected, got {type(game).__name__}; for "
            "its name use make('pettingzoo:tictactoe_v3', discount=1, operator='max')."
        )
    while isinstance(game, wrappers.BaseWrapper):
        if type(game) not in WATCHERS:
            raise InvalidInput(
                f"{title_of(game)} is wrapped in {type(game).__name__}, which may "
                "change what a move does; give the game that it wraps (env.unwrapped)."
            )
        game = game.env
    return game


def title_of(game: Any) -> str:
    """The name that a game gives itself."""
    metadata = getattr(game, "metadata", None) or {}
    return str(metadata.get("name") or type(game).__name__)


def has_begun(game: Any) -> bool:
    """Whether a game was reset: then it is in a position."""
    mover = getattr(game, "agent_selection", None)
    reward_sums = getattr(game, "_cumulative_rewards", None)  # made by reset
    return (
        mover is not None and bool(reward_sums) and bool(getattr(game, "agents", ()))
    )
