"""Known facts of Pgx's own games, read in the source of Pgx 2.6.0.

``GAMES`` says of each game, by its name:

  rewards   (low, high) of one step, for the player that begins. A board game pays 1, 0
            or -1 to its winner, and only where it ends; backgammon up to 3 (a
            backgammon). 2048 pays the sum of the tiles that a move merges. A tile of
            2**n needs tiles 2**(n-1), …, 8, 4, 4 beside each other, n - 1 of the 16
            cells, so n is at most 17. The tiles of a board sum up to 2**17 + … + 2**2 =
            2**18 - 4 at the most, and a move cannot merge more. In MinAtar's Breakout
            and Freeway a step pays 1 or 0. The others of MinAtar have no range here: it
            has to be declared.
  steps     of the longest game from any position of it, None where play may go on: a
            board that fills (tic_tac_toe, connect_four, hex with its swap, othello,
            where two passes in a row end), or a limit in the rules of Pgx (go, chess,
            shogi).
  actions   their names; None where the list would be too long to read

``HIDDEN`` games keep cards from a player: their values are not those of a game of
perfect information, so they are refused. Out of scope: Pgx itself, which is not
imported.
"""

from __future__ import annotations

from dataclasses import dataclass

from smoothcruiser.errors import InvalidInput


@dataclass(frozen=True)
class PgxGame:
    """Facts of one game."""

    rewards: tuple[float, float] | None
    steps: int | None = None
    at_the_end: bool = False  # only the step that ends a game pays
    actions: tuple[str, ...] | None = None


def _cells(rows: int, columns: int, *more: str) -> tuple[str, ...]:
    """Cells as (row,column), counted from 0 at the top left, and other moves."""
    cell_names = (
        f"({row},{column})" for row in range(rows) for column in range(columns)
    )
    return (*cell_names, *more)


def _board(steps: int, actions: tuple[str, ...] | None = None) -> PgxGame:
    return PgxGame((-1.0, 1.0), steps, True, actions)


_MINATAR = ("no-op", "left", "up", "right", "down", "fire")
GAMES: dict[str, PgxGame] = {
    "2048": PgxGame((0.0, 2.0**18 - 4.0), actions=("left", "up", "right", "down")),
    "animal_shogi": _board(256),
    "backgammon": PgxGame((-3.0, 3.0), None, True),
    "chess": _board(512),
    "connect_four": _board(42, tuple(f"column {i}" for i in range(7))),
    "gardner_chess": _board(256),
    "go_9x9": _board(162, _cells(9, 9, "pass")),
    "go_19x19": _board(722, _cells(19, 19, "pass")),
    "hex": _board(122, _cells(11, 11, "swap")),
    "minatar-asterix": PgxGame(None, actions=_MINATAR[:5]),
    "minatar-breakout": PgxGame((0.0, 1.0), actions=("no-op", "left", "right")),
    "minatar-freeway": PgxGame((0.0, 1.0), actions=("no-op", "up", "down")),
    "minatar-seaquest": PgxGame(None, actions=_MINATAR),
    "minatar-space_invaders": PgxGame(
        None, actions=("no-op", "left", "right", "fire")
    ),
    # 60 stones, and at most one pass before and after each
    "othello": _board(121, _cells(8, 8, "pass")),
    "shogi": _board(512),
    "tic_tac_toe": _board(9, _cells(3, 3)),
}
HIDDEN = {
    "kuhn_poker": "the other player's card",
    "leduc_holdem": "the other player's card and the one to come",
    "bridge_bidding": "the hands of the other players",
    "sparrow_mahjong": "the tiles of the other players",
    "mahjong": "the tiles of the other players",
}


def refuse(name: str) -> None:
    """Refuse a game of hidden information, by its name."""
    if name in HIDDEN:
        raise InvalidInput(
            f"{name} of Pgx cannot be planned in: it hides {HIDDEN[name]}, and a "
            "planner would see it; games of perfect information can, such as "
            f"{', '.join(list(GAMES)[:6])}."
        )


def unknown(name: str) -> InvalidInput:
    """The refusal of a name that Pgx has not."""
    return InvalidInput(
        f"Pgx has no game called {name!r}; those that can be planned in are "
        f"{', '.join(GAMES)}."
    )
