"""Which OpenSpiel positions are one state: their key, chosen and tested.

A key is right if positions that share it have the same mover, legal moves, end
and future. What a game prints is often too little: it may hide a die, a pass, a
move limit or the positions that must not come back. From the key that merges
most to the one that merges nothing:

  observation   the printed position, the player to move and the legal moves
  numbered      the same and how many moves were made, by the players and in all
  history       the list of all moves: right in every game

``VERDICTS`` lists the games for which playouts do not decide, and says on what
grounds. Every other game gets ``numbered`` if enough pairs of positions with
equal keys were met and all of them had equal futures, and ``history``
otherwise. Whatever is chosen is tested by playouts, but for histories. A test
finds faults and proves nothing: ``SpielKey.assumption`` is for the certificate.

With a move limit L that ends the game for nothing, the number of moves is of no
account far from L: after n moves it changes values by less than gamma^(L - n)
of their span. Numbers below ``first`` are left out of the key where that is
below ``NEGLIGIBLE``, or where the horizon ends first. What this file leaves
out: symmetries of a board.
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
# moves for collecting positions; with COMPARED a tenth of a second in most games
PLAYED = 2000
# moves for comparing futures, at most a tenth of them for one pair
COMPARED = 2000
# pairs with equal keys and futures before the key of an unknown game is trusted
ENOUGH = 10

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
        seen = (position.current_player(), str(position), *position.legal_actions())
        if self.merge == "observation":
            return seen
        return (
            (moves, position.move_number(), *seen)
            if moves >= self.first
            else (-1, *seen)
        )

    @property
    def assumption(self) -> str:
        """What a certificate takes on trust about states; empty if nothing."""
        if self.merge == "history":
            return ""
        shown = "show the same position, mover and legal moves"
        if self.merge == "numbered":
            late = f" and, from move {self.first:,} on, as many moves"
            shown += late if self.first else " after as many moves"
        seen = f"{self.checked} pairs met in random play had equal futures"
        return f"histories that {shown} are one state ({seen})"


def chosen(game: Any, merge: Merge, discount: float, horizon: int | None) -> SpielKey:
    """The key of ``game``; refuses a ``merge`` that takes two positions for one."""
    if merge not in ("auto", *MERGES):
        names = "'auto', 'observation', 'numbered' or 'history'"
        raise InvalidInput(f"merge must be {names}, got {merge!r}.")
    name = game.get_type().short_name
    known = _verdict(game)
    wanted: Merge = (known or "numbered") if merge == "auto" else merge
    if known is not None and MERGES.index(wanted) < MERGES.index(known):
        remedy = f"it needs merge={known!r}; give that, or leave merge= out"
        raise InvalidInput(f"merge={merge!r} cannot be trusted for {name}: {remedy}.")
    if wanted == "history":
        return SpielKey("history")
    first = (
        _first(game, discount, horizon)
        if wanted == "numbered" and name in LIMITED
        else 0
    )
    pairs, fault = compared(game, SpielKey(wanted))
    if merge != "auto" and fault is not None:
        raise InvalidInput(
            f"merge={merge!r} takes the positions of {name} after moves {fault[0]} and "
            f"{fault[1]} for one, but they differ in what can follow; leave merge= out."
        )
    if fault is not None or (merge == "auto" and known is None and pairs < ENOUGH):
        return SpielKey("history")
    return SpielKey(wanted, first, pairs)


def _verdict(game: Any) -> Merge | None:
    """What is known about a game.

    A game built around another one needs histories where that one does.
    """
    inner = {VERDICTS.get(word) for word in re.findall(r"\w+", str(game))}
    return "history" if "history" in inner else VERDICTS.get(game.get_type().short_name)


def _first(game: Any, discount: float, horizon: int | None) -> int:
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


def compared(
    game: Any,
    key: SpielKey,
    played: int = PLAYED,
    compared: int = COMPARED,
    seed: int = 0,
) -> tuple[int, tuple[list[int], list[int]] | None]:
    """How many pairs with equal keys agreed, and the histories of a pair that did not.

    The second is None if all pairs agreed.
    """
    rng = random.Random(seed)
    met: dict[Hashable, Any] = {}
    pairs, left = 0, compared
    for position, moves in _positions(game, rng, played):
        known: Any = met.setdefault(key.of(position, moves), position)
        if known is position or left <= 0 or known.history() == position.history():
            continue
        same, moved = _same_future(known, position, rng, compared // 10)
        left -= moved
        if not same:
            return pairs, (list(known.history()), list(position.history()))
        pairs += 1
    return pairs, None


def _same_future(one: Any, two: Any, rng: random.Random, most: int) -> tuple[bool, int]:
    """Whether two positions agree along one random continuation, and the moves made."""
    a, b = one.clone(), two.clone()
    before = [_paid(a), _paid(b)]
    for moves in range(1, most + 1):
        if _seen(a, before[0]) != _seen(b, before[1]):
            return False, moves
        if a.is_terminal():
            return True, moves
        move = rng.choice(a.legal_actions())
        a.apply_action(move)
        b.apply_action(move)
    return True, most


def _paid(position: Any) -> float:
    # What was paid on the way to the end of a game is no part of its future: there
    # is none.
    return 0.0 if position.is_terminal() else float(position.returns()[0])


def _seen(position: Any, before: float) -> Any:
    """The mover, the moves (with probabilities at chance nodes) and what was paid."""
    law = (
        position.chance_outcomes()
        if position.is_chance_node()
        else position.legal_actions()
    )
    return position.current_player(), law, position.returns()[0] - before


def _positions(game: Any, rng: random.Random, budget: int) -> Iterator[Position]:
    """Positions where a player moves, or final ones, from random playouts.

    They come from playouts, from their moves in another order, and from
    siblings. About every other playout is stubborn: it plays a favourite move
    wherever it can, so that passes and cycles come up.
    """
    while budget > 0:
        budget -= 1  # a game may be over before it begins
        favourite = (
            rng.randrange(game.num_distinct_actions()) if rng.random() < 0.5 else None
        )
        line: list[Position] = [(game.new_initial_state(), 0)]
        while not line[-1][0].is_terminal() and budget > 0:
            line.append(_after(line[-1], _move(line[-1][0], rng, favourite)))
            budget -= 1
        yield from filter(_decided, line)
        for _ in range(max(4, len(line) // 8)):
            for position in _reordered(line, rng):
                budget -= 1
                if _decided(position):
                    yield position
            for position in _siblings(rng.choice(line), rng):
                budget -= 1
                yield position
            if budget <= 0:
                return


def _move(position: Any, rng: random.Random, favourite: int | None) -> int:
    moves = position.legal_actions()
    if favourite is None or position.is_chance_node():
        return int(rng.choice(moves))
    if rng.random() < 0.8:
        return int(min(moves, key=lambda move: abs(move - favourite)))
    return int(rng.choice(moves))


def _after(position: Position, move: int) -> Position:
    state, moves = position
    return state.child(move), moves + (not state.is_chance_node())


def _decided(position: Position) -> bool:
    return not position[0].is_chance_node()


def _reordered(line: list[Position], rng: random.Random) -> Iterator[Position]:
    """The positions after two blocks of moves swap places, while moves stay legal."""
    size = rng.choice((1, 2, 3))  # a move; a move with its roll; a turn of three moves
    begin = rng.randrange(len(line))
    other = begin + size * rng.choice((1, 2))
    history = line[-1][0].history()
    moves = history[other : other + size] + history[begin + size : other]
    moves += history[begin : begin + size]
    position = line[begin]
    for move in moves + history[other + size : other + size + 2]:
        if move not in position[0].legal_actions():
            return
        position = _after(position, move)
        yield position


def _siblings(position: Position, rng: random.Random) -> Iterator[Position]:
    """Some positions one move further, after the rolls that follow it."""
    moves = position[0].legal_actions()
    for move in rng.sample(moves, min(len(moves), 6)):
        after = _after(position, move)
        while not _decided(after):
            after = _after(after, rng.choice(after[0].legal_actions()))
        yield after
