"""Which OpenSpiel positions are one state: their key, chosen and tested.

A key is right if positions that share it have the same mover, legal moves, end and
future. The printed position is often too little: it may hide a die, a pass, a move
limit or the positions that must not come back. From the key that merges most to the one
that merges nothing:

  observation   the printed position, the player to move and the legal moves
  numbered      the same and how many moves were made, by the players and in all
  history       the list of all moves: right in every game

``VERDICTS`` lists the games for which playouts do not decide, with the grounds. Every
other game gets ``numbered`` if enough pairs of positions with equal keys were met and
all of them had equal futures, and ``history`` otherwise. The chosen key is tested by
playouts, unless it is the history. A test finds faults and proves nothing:
``SpielKey.assumption`` is for the certificate.

With a move limit L that ends the game for nothing, the number of moves is of no account
far from L: after n moves it changes values by less than gamma^(L - n) of their span.
Numbers below ``first`` are left out of the key where that is below ``NEGLIGIBLE``, or
where the horizon ends first. Out of scope: symmetries of a board.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from smoothcruiser.errors import InvalidInput

Merge = Literal["auto", "observation", "numbered", "history"]
MERGES = ("observation", "numbered", "history")  # from the key that merges most

# of the span of values: far below the tolerance of an exact solution
NEGLIGIBLE = 1e-12
# for collecting positions; with COMPARED_MOVES a tenth of a second in most games
COLLECTED_MOVES = 2000
# moves for comparing futures, at most a tenth of them for one pair
COMPARED_MOVES = 2000
# pairs with equal keys and futures before the key of an unknown game is trusted
ENOUGH_PAIRS = 10

# Grounds, game by game. "Read" means the source on GitHub, at some commit near the
# release and not the release itself (OpenSpiel 2.0.2), whose printed positions and
# ends were compared with it.
#
# observation: einstein_wurfelt_nicht (its die shows in the legal moves), maedn,
#   mancala, ultimate_tic_tac_toe and yacht were read: no rule needs more. nim was not
#   read: its piles and mover are printed, and over a thousand pairs agreed.
# numbered: pig and quoridor were read: a limit on the players' moves is all that is
#   not printed.
# history: caution. twixt was read: links depend on the order of moves, and their print
#   is ambiguous. The others were not: they are known for repetition rules, counters of
#   moves without progress or passes, which playouts rarely meet, or print their
#   history anyway (hive).
_NEEDED: dict[Merge, str] = {
    "observation": "einstein_wurfelt_nicht maedn mancala nim ultimate_tic_tac_toe yacht",
    "numbered": "pig quoridor",
    "history": """antichess banqi checkers chess chinese_checkers crazyhouse cursor_go go hive
        lines_of_action oware shogi twixt xiangqi""",
}
VERDICTS: dict[str, Merge] = {
    name: merge for merge in _NEEDED for name in _NEEDED[merge].split()
}
# games that end with nothing paid after ``max_game_length`` moves
LIMITED = frozenset({"pig", "quoridor"})

# an OpenSpiel state and the number of moves that players made
Position = tuple[Any, int]


@dataclass(frozen=True)
class SpielKey:
    """The key of a position: a function of a ``SpielState`` that can be pickled."""

    # equal keys have equal movers, legal moves and ends
    holds_profile: ClassVar[bool] = True

    merge: Merge
    first: int = 0  # the number of moves counts from this one on
    checked: int = 0  # pairs of positions with equal keys whose futures agreed at make

    def __call__(self, state: Any) -> Hashable:
        """The key of a ``SpielState``."""
        return self.of(state.state, state.moves)

    def of(self, position: Any, moves: int) -> Hashable:
        """The key of an OpenSpiel state after so many moves of the players."""
        if self.merge == "history":
            return tuple(position.history())
        visible_part = (
            position.current_player(),
            str(position),
            *position.legal_actions(),
        )
        if self.merge == "observation":
            return visible_part
        return (
            (moves, position.move_number(), *visible_part)
            if moves >= self.first
            else (-1, *visible_part)
        )

    @property
    def assumption(self) -> str:
        """The assumption of a certificate about states; empty if there is none."""
        if self.merge == "history":
            return ""
        merge_text = "show the same position, mover and legal moves"
        if self.merge == "numbered":
            number_text = f" and, from move {self.first:,} on, as many moves"
            merge_text += number_text if self.first else " after as many moves"
        test_text = f"{self.checked} pairs met in random play had equal futures"
        return f"histories that {merge_text} are one state ({test_text})"


def choose_key(
    game: Any, merge: Merge, discount: float, horizon: int | None
) -> SpielKey:
    """The key of ``game``; refuses a ``merge`` that takes two positions for one."""
    if merge not in ("auto", *MERGES):
        merge_names = "'auto', 'observation', 'numbered' or 'history'"
        raise InvalidInput(f"merge must be {merge_names}, got {merge!r}.")
    game_name = game.get_type().short_name
    known_merge = _verdict(game)
    wanted_merge: Merge = (known_merge or "numbered") if merge == "auto" else merge
    if known_merge is not None and MERGES.index(wanted_merge) < MERGES.index(
        known_merge
    ):
        remedy = f"it needs merge={known_merge!r}; give that, or leave merge= out"
        raise InvalidInput(
            f"merge={merge!r} cannot be trusted for {game_name}: {remedy}."
        )
    if wanted_merge == "history":
        return SpielKey("history")
    first_counted = (
        _first_counted_move(game, discount, horizon)
        if wanted_merge == "numbered" and game_name in LIMITED
        else 0
    )
    num_pairs, differing_pair = compare_futures(game, SpielKey(wanted_merge))
    if merge != "auto" and differing_pair is not None:
        raise InvalidInput(
            f"merge={merge!r} takes the positions of {game_name} after moves "
            f"{differing_pair[0]} and {differing_pair[1]} for one, but they differ in "
            "what can follow; leave merge= out."
        )
    if differing_pair is not None or (
        merge == "auto" and known_merge is None and num_pairs < ENOUGH_PAIRS
    ):
        return SpielKey("history")
    return SpielKey(wanted_merge, first_counted, num_pairs)


def _verdict(game: Any) -> Merge | None:
    """The known verdict on a game.

    A game built around another one needs histories where that one does.
    """
    inner_verdicts = {VERDICTS.get(word) for word in re.findall(r"\w+", str(game))}
    return (
        "history"
        if "history" in inner_verdicts
        else VERDICTS.get(game.get_type().short_name)
    )


def _first_counted_move(game: Any, discount: float, horizon: int | None) -> int:
    """The number of moves from which on a move limit affects values."""
    reach = math.inf
    if discount < 1.0:
        reach = math.log(NEGLIGIBLE) / math.log(discount) if discount > 0.0 else 1.0
    reach = min(reach, math.inf if horizon is None else horizon)
    return (
        max(0, int(game.max_game_length()) - math.ceil(reach))
        if reach < math.inf
        else 0
    )


# --- the test -----------------------------------------------------------------


def compare_futures(
    game: Any,
    key: SpielKey,
    played: int = COLLECTED_MOVES,
    compared: int = COMPARED_MOVES,
    seed: int = 0,
) -> tuple[int, tuple[list[int], list[int]] | None]:
    """How many pairs with equal keys agreed, and the histories of a pair that did not.

    The second is None if all pairs agreed.
    """
    rng = random.Random(seed)
    met_positions: dict[Hashable, Any] = {}
    num_pairs, moves_left = 0, compared
    for position, num_moves in _positions(game, rng, played):
        earlier_position: Any = met_positions.setdefault(
            key.of(position, num_moves), position
        )
        if (
            earlier_position is position
            or moves_left <= 0
            or earlier_position.history() == position.history()
        ):
            continue
        is_same, moves_made = _same_future(
            earlier_position, position, rng, compared // 10
        )
        moves_left -= moves_made
        if not is_same:
            return num_pairs, (
                list(earlier_position.history()),
                list(position.history()),
            )
        num_pairs += 1
    return num_pairs, None


def _same_future(
    first_position: Any, second_position: Any, rng: random.Random, max_moves: int
) -> tuple[bool, int]:
    """Whether two positions agree along one random continuation, and the moves made."""
    first_copy, second_copy = first_position.clone(), second_position.clone()
    start_payoffs = [_payoff_so_far(first_copy), _payoff_so_far(second_copy)]
    for num_moves in range(1, max_moves + 1):
        if _visible_state(first_copy, start_payoffs[0]) != _visible_state(
            second_copy, start_payoffs[1]
        ):
            return False, num_moves
        if first_copy.is_terminal():
            return True, num_moves
        move = rng.choice(first_copy.legal_actions())
        first_copy.apply_action(move)
        second_copy.apply_action(move)
    return True, max_moves


def _payoff_so_far(position: Any) -> float:
    # Payments on the way to the end of a game are no part of its future: there is none.
    return 0.0 if position.is_terminal() else float(position.returns()[0])


def _visible_state(position: Any, start_payoff: float) -> Any:
    """The mover, the moves (with probabilities at chance nodes) and the payoff."""
    move_law = (
        position.chance_outcomes()
        if position.is_chance_node()
        else position.legal_actions()
    )
    return position.current_player(), move_law, position.returns()[0] - start_payoff


def _positions(game: Any, rng: random.Random, budget: int) -> Iterator[Position]:
    """Positions where a player moves, or final ones, from random playouts.

    They come from playouts, from their moves in another order, and from
    siblings. About every other playout is stubborn: it plays a favourite move
    wherever it can, so that passes and cycles come up.
    """
    while budget > 0:
        budget -= 1  # a game may be over before it begins
        favourite_move = (
            rng.randrange(game.num_distinct_actions()) if rng.random() < 0.5 else None
        )
        playout: list[Position] = [(game.new_initial_state(), 0)]
        while not playout[-1][0].is_terminal() and budget > 0:
            playout.append(
                _play_move(
                    playout[-1], _choose_move(playout[-1][0], rng, favourite_move)
                )
            )
            budget -= 1
        yield from filter(_is_decided, playout)
        for _ in range(max(4, len(playout) // 8)):
            for position in _reorder_moves(playout, rng):
                budget -= 1
                if _is_decided(position):
                    yield position
            for position in _siblings(rng.choice(playout), rng):
                budget -= 1
                yield position
            if budget <= 0:
                return


def _choose_move(position: Any, rng: random.Random, favourite_move: int | None) -> int:
    legal_moves = position.legal_actions()
    if favourite_move is None or position.is_chance_node():
        return int(rng.choice(legal_moves))
    if rng.random() < 0.8:
        return int(min(legal_moves, key=lambda move: abs(move - favourite_move)))
    return int(rng.choice(legal_moves))


def _play_move(position: Position, move: int) -> Position:
    state, num_moves = position
    return state.child(move), num_moves + (not state.is_chance_node())


def _is_decided(position: Position) -> bool:
    return not position[0].is_chance_node()


def _reorder_moves(playout: list[Position], rng: random.Random) -> Iterator[Position]:
    """The positions after two blocks of moves swap places, while moves stay legal."""
    # a move; a move with its roll; a turn of three moves
    block_size = rng.choice((1, 2, 3))
    first_start = rng.randrange(len(playout))
    second_start = first_start + block_size * rng.choice((1, 2))
    history = playout[-1][0].history()
    new_order = (
        history[second_start : second_start + block_size]
        + history[first_start + block_size : second_start]
    )
    new_order += history[first_start : first_start + block_size]
    position = playout[first_start]
    for move in (
        new_order + history[second_start + block_size : second_start + block_size + 2]
    ):
        if move not in position[0].legal_actions():
            return
        position = _play_move(position, move)
        yield position


def _siblings(position: Position, rng: random.Random) -> Iterator[Position]:
    """Some positions one move further, after the rolls that follow it."""
    legal_moves = position[0].legal_actions()
    for move in rng.sample(legal_moves, min(len(legal_moves), 6)):
        next_position = _play_move(position, move)
        while not _is_decided(next_position):
            next_position = _play_move(
                next_position, rng.choice(next_position[0].legal_actions())
            )
        yield next_position
