"""Known facts of PettingZoo's own games, read in their source, PettingZoo 1.27.

PettingZoo does not say whether a game hides anything, whether chance plays, how much it
pays and how long it lasts. This file says so for the games of ``pettingzoo.classic``;
for other games the user declares it. Out of scope: third parties' games.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from smoothcruiser.errors import OracleError

# of every game below: 1 and -1 for a win, 0 and 0 for a draw
REWARD_RANGE = (-1.0, 1.0)
# attributes that a constructor sets and nothing changes; copies of a copy share them
FIXED_FIELDS = (
    "action_spaces",
    "observation_spaces",
    "possible_agents",
    "_ezpickle_args",
    "_ezpickle_kwargs",
)


@dataclass(frozen=True)
class KnownGame:
    """A game of perfect information without chance that pays at its end."""

    longest: int | None = None  # moves; None where the rules do not bound them
    label: Callable[[Any, int], str] | None = None
    fixed: tuple[str, ...] = FIXED_FIELDS
    guard: Callable[[Any], None] | None = None  # before every step


def _column(game: Any, action: int) -> str:
    return f"column {action}"


def _square(game: Any, action: int) -> str:
    return f"row {action % 3}, column {action // 3}"


def _chess_move(game: Any, action: int) -> str:
    from pettingzoo.classic.chess import chess_utils

    mover_index = game.agents.index(game.agent_selection)
    return str(chess_utils.action_to_move(game.board, action, mover_index).uci())


def _go_point(game: Any, action: int) -> str:
    board_size = game._N
    if action == board_size * board_size:
        return "pass"
    return f"row {action // board_size}, column {action % board_size}"


def _one_go_board(game: Any) -> None:
    """PettingZoo keeps the size of the board in variables of a module."""
    from pettingzoo.classic.go import go_base

    if go_base.N != game._N:
        raise OracleError(
            f"PettingZoo keeps the size of all Go boards in one place, and it is now "
            f"{go_base.N} in place of {game._N}; play boards of different sizes in "
            "separate processes."
        )


KNOWN: dict[str, KnownGame] = {
    "tictactoe": KnownGame(
        longest=9, label=_square, fixed=(*FIXED_FIELDS, "board.winning_combinations")
    ),
    "connect_four": KnownGame(longest=42, label=_column),
    "chess": KnownGame(label=_chess_move),
    "go": KnownGame(label=_go_point, guard=_one_go_board),
}
HIDDEN = frozenset(
    (
        *("bridge", "dou_dizhu", "gin_rummy", "hanabi", "leduc_holdem", "mahjong"),
        *("texas_holdem", "texas_holdem_no_limit", "uno"),
    )
)
AT_ONCE = frozenset(("rps", "rpsls"))
# families in which all players move at the same time
FAMILIES_AT_ONCE = ("atari", "butterfly", "mpe", "sisl")


def strip_version(name: str) -> str:
    """A game's name without its version: ``connect_four_v3`` is ``connect_four``."""
    return re.sub(r"_v\d+$", "", name)


def look_up_game(game: Any) -> KnownGame | None:
    """The known facts of a game, by the module of its class; None for other games."""
    module_path = type(game).__module__.split(".")
    if module_path[:2] != ["pettingzoo", "classic"] or len(module_path) < 3:
        return None
    return KNOWN.get(module_path[2])


def hides_information(game: Any) -> bool:
    """Whether a game is known to hide something from its players."""
    module_path = type(game).__module__.split(".")
    return module_path[:2] == ["pettingzoo", "classic"] and module_path[-1] in HIDDEN
