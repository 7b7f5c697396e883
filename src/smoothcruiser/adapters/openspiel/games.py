"""OpenSpiel games as problems.

Two players, zero sum, sequential, perfect information, with or without chance. Player 0
of OpenSpiel is the max player (1), player 1 the min player (2). The reward of a move is
its addition to player 0's return, so most games pay at the end only.

  action     a move, and then all that chance does until a player moves or the
             game ends
  state      ``SpielState``: a clone and the number of moves made; equal if the
             histories are
  key        which histories are one state: ``keys`` chooses and tests it
  outcomes   the law of a move through all its chance nodes: small games are
             solved exactly

With discount 1 the horizon is the longest game. A game that pays at its end only has
tighter bounds on V than its rewards imply: with h moves left,

    Q <= max(u, 0) + gamma M S(h-1)  for the largest payoff u
    V <= max(u, 0) + M S(h)
    S(h) = 1 + gamma + … + gamma^(h-1),  M = max |F(0)|

and likewise from below.

A game that lasts longer than OpenSpiel says would break this, so a step refuses to
continue there. Out of scope: simultaneous moves, hidden information, more players.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

from smoothcruiser.adapters.openspiel.keys import Merge, choose_key
from smoothcruiser.errors import InvalidInput, MissingExtra, OracleError
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.operators import Operator
from smoothcruiser.problem.arguments import check_keywords
from smoothcruiser.problem.declarations import (
    DECLARATIONS,
    Declarations,
    merge_declarations,
    pop_declarations,
)
from smoothcruiser.problem.facts import AT_THE_END, EVERY_STEP
from smoothcruiser.problem.problem import Game, Problem

try:
    import pyspiel
except ImportError as error:
    raise MissingExtra(
        "OpenSpiel games need OpenSpiel: pip install 'smoothcruiser[openspiel]'."
    ) from error

# games that may last forever, against their ``max_game_length``
ENDLESS = frozenset({"maedn"})
# board sizes of twixt in this process: all boards share one table of links
_TWIXT_SIZES: set[int] = set()


class SpielState:
    """A position where a player moves, or a final one; equal if the histories are."""

    __slots__ = ("_actions", "_history", "moves", "state")
    adapter_state = True  # steps clone it

    def __init__(self, state: Any, moves: int) -> None:
        self.state = state  # never changed: steps clone it
        self.moves = moves  # made by the players; chance does not count
        self._history: tuple[int, ...] | None = None
        self._actions: frozenset[int] | None = None

    @property
    def history(self) -> tuple[int, ...]:
        """All moves so far, those of chance included."""
        if self._history is None:
            self._history = tuple(self.state.history())
        return self._history

    @property
    def actions(self) -> frozenset[int]:
        """The legal moves."""
        if self._actions is None:
            self._actions = frozenset(self.state.legal_actions())
        return self._actions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SpielState) and self.history == other.history

    def __hash__(self) -> int:
        return hash(self.history)

    def __repr__(self) -> str:
        return f"SpielState({list(self.history)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return SpielState, (self.state, self.moves)

    def __fingerprint__(self) -> Any:
        return str(self.state.get_game()), self.history, self.moves


class SpielOracle:
    """The step of a game: a move, and the chance events after it."""

    def __init__(self, game: Any) -> None:
        self.game = game
        self.longest = None if _is_endless(game) else int(game.max_game_length())

    def __fingerprint__(self) -> Any:
        return str(self.game), self.longest, pyspiel  # the library by its version

    def reset(self, rng: Any) -> SpielState:
        """The beginning of a game, its chance nodes sampled from ``rng``."""
        return SpielState(self._play_chance(self.game.new_initial_state(), rng), 0)

    def parse(self, state: Any) -> Any:
        """The position after a list of all moves so far, those of chance included.

        OpenSpiel's own position stands for its moves, and is left as it is.
        """
        if isinstance(state, SpielState):
            return state
        if isinstance(state, pyspiel.State):
            return self._replay_position(state)
        if not isinstance(state, list | tuple):
            raise InvalidInput(
                f"A position of {self.game} is a list of all moves so far, or "
                f"OpenSpiel's own, got {state!r}."
            )
        position, num_moves = self.game.new_initial_state(), 0
        for move in state:
            if move not in position.legal_actions():
                raise InvalidInput(
                    f"Move {move!r} of {list(state)} is not legal after "
                    f"{list(position.history())}."
                )
            num_moves += not position.is_chance_node()
            position.apply_action(move)
        if position.is_chance_node():
            raise InvalidInput(
                f"After {list(state)} it is chance's turn; add its outcome to the list."
            )
        return SpielState(position, num_moves)

    def _replay_position(self, running: Any) -> Any:
        """OpenSpiel's own position, played again from the beginning."""
        if str(running.get_game()) != str(self.game):
            raise InvalidInput(
                f"The position is one of {running.get_game()}, and the problem is "
                f"{self.game}; make the problem of the position's game."
            )
        replayed_state = self.parse([int(move) for move in running.history()])
        if str(replayed_state.state) != str(running):
            raise InvalidInput(
                f"The moves {list(running.history())} do not lead to the position from "
                f"the beginning of {self.game}; plan where a game began there."
            )
        return replayed_state

    def plain(self, state: SpielState) -> list[int]:
        """The list of all moves, which ``parse`` reads."""
        return [int(move) for move in state.history]

    def label(self, state: SpielState, action: int) -> str | None:
        """OpenSpiel's name of a move; it may depend on the position and the mover."""
        if action not in state.actions:
            return None
        position = state.state
        return str(position.action_to_string(position.current_player(), action))

    def __call__(
        self, state: SpielState, action: int, rng: Any
    ) -> tuple[float, SpielState]:
        """One sample of (reward of the max player, next position)."""
        next_position = self._play_chance(state.state.child(action), rng)
        return self._reward_and_state(state, next_position)

    def _reward_and_state(
        self, state: SpielState, next_position: Any
    ) -> tuple[float, SpielState]:
        num_moves = state.moves + 1
        if (
            self.longest is not None
            and num_moves >= self.longest
            and not next_position.is_terminal()
        ):
            raise OracleError(
                f"OpenSpiel says that {self.game.get_type().short_name} lasts "
                f"{self.longest:,} moves at the most, but it goes on after {state!r}; "
                "plan from an earlier position."
            )
        return next_position.returns()[0] - state.state.returns()[0], SpielState(
            next_position, num_moves
        )

    def _play_chance(self, position: Any, rng: Any) -> Any:
        """The position after chance has had its turns."""
        while position.is_chance_node():
            outcomes = position.chance_outcomes()
            position.apply_action(
                outcomes[rng.categorical([p for _, p in outcomes])][0]
            )
        return position

    def outcomes(
        self, state: SpielState, action: int
    ) -> list[tuple[float, float, SpielState]]:
        """The law of a move: (probability, reward, next position)."""
        pending_positions, move_outcomes = [(1.0, state.state.child(action))], []
        while pending_positions:
            p, position = pending_positions.pop()
            if position.is_chance_node():
                pending_positions += [
                    (p * q, position.child(outcome))
                    for outcome, q in position.chance_outcomes()
                ]
            else:
                move_outcomes.append((p, *self._reward_and_state(state, position)))
        return move_outcomes


def _is_endless(game: Any) -> bool:
    return not ENDLESS.isdisjoint(re.findall(r"\w+", str(game)))


def legal(state: SpielState, action: int) -> bool:
    """Whether a move is legal."""
    return action in state.actions


def terminal(state: SpielState) -> bool:
    """Whether the game is over."""
    return bool(state.state.is_terminal())


def player(state: SpielState) -> int:
    """1 for OpenSpiel's player 0, 2 for its player 1."""
    return 2 if state.state.current_player() == 1 else 1


def problem(
    game: Any,
    *,
    discount: float,
    operator: Operator,
    merge: Merge = "auto",
    seed: int = 0,
    name: str | None = None,
    **more: Unpack[Declarations],
) -> Problem:
    """The Problem of a game, or of its name.

    Args:
        game: an OpenSpiel game, or its name.
        discount: weight of the next move's value, in [0, 1]. With 1 and no ``horizon``
            the horizon is the longest game.
        operator: the smooth maximum, such as ``Entropy(0.1)``.
        merge: which histories are one state: "observation" (those that show the same
            position, mover and legal moves), "numbered" (after as many moves, too),
            "history" (none). "auto" chooses (``keys``). A choice that random playouts
            find wrong is refused.
        seed: of the stream that samples the chance nodes before the first move.
        name: shown in answers; the default is ``openspiel:`` and the game's name.
        more: declarations, as for ``make``: ``horizon`` (moves until the end, by
            default as long as the game lasts), ``key``, …

    Example:
        >>> import smoothcruiser as sc
        >>> board = sc.adapters.openspiel.problem(
        ...     "tic_tac_toe", discount=0.95, operator=sc.Entropy(0.1)
        ... )
        >>> board.num_actions
        9
    """
    check_keywords("problem", more, DECLARATIONS)
    declarations = pop_declarations(dict(more))
    horizon = declarations.get("horizon")
    if isinstance(game, str):
        game = _load_game(game, {})
    _check(game)
    oracle = SpielOracle(game)
    game_type = game.get_type()
    if discount == 1 and horizon is None:
        if oracle.longest is None:
            remedy = "with discount 1 give horizon=, or a discount below 1"
            raise InvalidInput(f"{game_type.short_name} may go on for ever: {remedy}.")
        horizon = oracle.longest
    lowest_reward, highest_reward = (
        min(0.0, float(game.min_utility())),
        max(0.0, float(game.max_utility())),
    )
    value_bounds = None
    at_end = game_type.reward_model == pyspiel.GameType.RewardModel.TERMINAL
    if not at_end:
        # a step may move the return from one end to the other
        lowest_reward, highest_reward = (
            lowest_reward - highest_reward,
            highest_reward - lowest_reward,
        )
    elif operator.shift_invariant:
        max_steps = oracle.longest or (
            horizon if discount == 1 and horizon else math.inf
        )
        weight_sum = (
            float(max_steps)
            if discount == 1
            else (1.0 - discount**max_steps) / (1.0 - discount)
        )
        largest_offset = weight_sum * max(
            abs(operator.offset(k)) for k in (1, int(game.num_distinct_actions()))
        )
        value_bounds = (
            lowest_reward - largest_offset,
            highest_reward + largest_offset,
        )
    is_deterministic = (
        game_type.chance_mode == pyspiel.GameType.ChanceMode.DETERMINISTIC
    )
    if declarations.get("deterministic") and not is_deterministic:
        raise InvalidInput(
            f"{game_type.short_name} has chance nodes, so a move has several outcomes; "
            "drop deterministic=."
        )
    if not at_end and declarations.get("payoffs") == AT_THE_END:
        raise InvalidInput(
            f"{game_type.short_name} pays on the way, by OpenSpiel's reward model; "
            "drop payoffs=."
        )
    facts: dict[str, Any] = {
        "player": player,
        "num_actions": int(game.num_distinct_actions()),
        "discount": discount,
        "operator": operator,
        "reward_range": (lowest_reward, highest_reward),
        "value_bounds": value_bounds,
        "payoffs": AT_THE_END if at_end else EVERY_STEP,
        "deterministic": is_deterministic,
        "legal": legal,
        "terminal": terminal,
        "initial_state": oracle.reset(stream(seed)),
        "horizon": horizon,
        "outcomes": oracle.outcomes,
        "name": name or f"openspiel:{game_type.short_name}",
    }
    if "key" not in declarations:
        facts["key"] = choose_key(game, merge, discount, horizon)
    elif merge != "auto":
        raise InvalidInput("key= and merge= both say what one state is; drop one.")
    declarations["horizon"] = horizon
    return Game(oracle, **merge_declarations(facts, declarations))


def build_by_name(
    text: str, parameters: dict[str, Any], *, discount: float, operator: Operator
) -> Problem:
    """The problem of ``openspiel:text,name=value,…``.

    Parameters that are not this adapter's own go to OpenSpiel.
    """
    option_names = (*DECLARATIONS, "merge", "seed")
    problem_options = {k: parameters.pop(k) for k in option_names if k in parameters}
    shown_parameters = "".join(f",{k}={v}" for k, v in parameters.items())
    return problem(
        _load_game(text, parameters),
        discount=discount,
        operator=operator,
        name=f"openspiel:{text}{shown_parameters}",
        **problem_options,
    )


def _load_game(text: str, parameters: dict[str, Any]) -> Any:
    try:
        with _quiet():
            return (
                pyspiel.load_game(text, parameters)
                if parameters
                else pyspiel.load_game(text)
            )
    except pyspiel.SpielError as error:
        first_line = str(error).strip().splitlines()[0][:200]
        first_line = first_line.removesuffix(" Available games are:").rstrip(".")
        given_text = f" with {parameters}" if parameters else ""
        raise InvalidInput(
            f"OpenSpiel cannot load {text!r}{given_text}: {first_line}; "
            f"{_suggest_game(text)}"
        ) from error


def _suggest_game(text: str) -> str:
    """A remedy: the game of the nearest name, or where all names are listed."""
    game_name = text.partition("(")[0]
    known_names = pyspiel.registered_names()
    if game_name in known_names:
        return "change its parameters."
    close_matches = difflib.get_close_matches(game_name, known_names, 1)
    return (
        f"did you mean {close_matches[0]!r}?"
        if close_matches
        else "pyspiel.registered_names() lists them."
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without OpenSpiel's own lines on standard error: its exception says the same."""
    saved_stderr, null_device = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, 2)
    try:
        yield
    finally:
        os.dup2(saved_stderr, 2)
        os.close(saved_stderr)
        os.close(null_device)


def _check(game: Any) -> None:
    """Refuse games that are not of the kind this library plans in."""
    game_type = game.get_type()
    refusal_checks: Sequence[tuple[bool, str]] = (
        (game.num_players() != 2, f"it has {game.num_players()} players"),
        (game_type.utility != pyspiel.GameType.Utility.ZERO_SUM, "it is not zero-sum"),
        (
            game_type.dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL,
            "players move at the same time",
        ),
        (
            game_type.information != pyspiel.GameType.Information.PERFECT_INFORMATION,
            "information is hidden",
        ),
        (
            game_type.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC,
            "its chance nodes do not list their outcomes",
        ),
    )
    reasons = [reason for is_refused, reason in refusal_checks if is_refused]
    if reasons:
        raise InvalidInput(
            f"{game_type.short_name} cannot be planned in: {' and '.join(reasons)}; "
            "two-player, zero-sum, sequential games of perfect information can."
        )
    if game_type.short_name == "twixt":
        board_size = game.get_parameters()["board_size"]
        if _TWIXT_SIZES - {board_size}:
            size_list = " and ".join(map(str, sorted(_TWIXT_SIZES | {board_size})))
            raise InvalidInput(
                "OpenSpiel keeps the links of all twixt boards in one table, so "
                f"boards of sizes {size_list} spoil each other; plan in them in "
                "separate processes."
            )
        _TWIXT_SIZES.add(board_size)
