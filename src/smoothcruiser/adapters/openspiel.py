"""OpenSpiel games as problems: ``problem(game, …)``, or ``make("openspiel:tic_tac_toe", …)``.

Two players, zero sum, sequential, perfect information, with or without chance. Player 0 of OpenSpiel is the max player (1), player 1 the
min player (2); the reward of a move is what it adds to player 0's return, so that terminal games pay at the end only.

  action     a move, and after it everything that chance does until a player moves or the game is over
  state      ``SpielState``: a clone and its key, the observation string with the player to move. Two histories that look the same are one
             state; where they differ in law (repetition rules of chess, superko in go) use ``merge="history"``
  outcomes   the law of a move through all its chance nodes: small games are solved exactly, by regularized backward induction

With discount 1 the horizon is the longest game. A game that pays at its end only has tighter bounds on V than its rewards tell: with h
moves left, Q <= max(u, 0) + gamma M S(h-1) for the largest payoff u, so V <= max(u, 0) + M S(h), S(h) = 1 + gamma + … + gamma^(h-1),
M = max |F(0)|; likewise from below. What this file leaves out: simultaneous moves, hidden information, more players.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from smoothcruiser.errors import InvalidInput, MissingExtra
from smoothcruiser.problem.operators import Operator
from smoothcruiser.problem.problem import Game, Problem

try:
    import pyspiel
except ImportError as error:  # pragma: no cover - the extra is installed where this is tested
    raise MissingExtra("OpenSpiel games need OpenSpiel: pip install 'smoothcruiser[openspiel]'.") from error

Merge = Literal["observation", "history"]


class SpielState:
    """A position where a player moves, or a finished game; equal to another if their keys are."""

    __slots__ = ("_actions", "_key", "history", "state")

    def __init__(self, state: Any, history: bool = False) -> None:
        self.state = state  # never changed: steps clone it
        self.history = history
        self._key: Any = None
        self._actions: frozenset[int] | None = None

    @property
    def key(self) -> Any:
        """What identifies the position."""
        if self._key is None:
            seen = tuple(self.state.history()) if self.history else str(self.state)
            self._key = (int(self.state.current_player()), seen)
        return self._key

    @property
    def actions(self) -> frozenset[int]:
        """The legal moves."""
        if self._actions is None:
            self._actions = frozenset(self.state.legal_actions())
        return self._actions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SpielState) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"SpielState({list(self.state.history())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return SpielState, (self.state, self.history)


class SpielOracle:
    """A move and what chance makes of it."""

    def __init__(self, game: Any, merge: Merge = "observation") -> None:
        self.game, self.history = game, merge == "history"

    def reset(self, rng: Any) -> SpielState:
        """The beginning of a game, its chance nodes drawn from ``rng``."""
        return SpielState(self._played(self.game.new_initial_state(), rng), self.history)

    def parse(self, state: Any) -> Any:
        """A state given as the list of all moves so far, those of chance included."""
        if not isinstance(state, list | tuple):
            return state
        position = self.game.new_initial_state()
        for move in state:
            if move not in position.legal_actions():
                raise InvalidInput(f"Move {move!r} of {list(state)} is not legal after {list(position.history())}.")
            position.apply_action(move)
        if position.is_chance_node():
            raise InvalidInput(f"After {list(state)} it is chance's turn; add its outcome to the list.")
        return SpielState(position, self.history)

    def __call__(self, state: SpielState, action: int, rng: Any) -> tuple[float, SpielState]:
        """One draw of (reward of the max player, next position)."""
        after = state.state.clone()
        after.apply_action(action)
        after = self._played(after, rng)
        return after.returns()[0] - state.state.returns()[0], SpielState(after, self.history)

    def _played(self, position: Any, rng: Any) -> Any:
        """The position after chance has had its turns."""
        while position.is_chance_node():
            outcomes = position.chance_outcomes()
            position.apply_action(outcomes[rng.categorical([p for _, p in outcomes])][0])
        return position

    def outcomes(self, state: SpielState, action: int) -> list[tuple[float, float, SpielState]]:
        """The law of a move: (probability, reward, next position)."""
        first = state.state.clone()
        first.apply_action(action)
        before = state.state.returns()[0]
        waiting, found = [(1.0, first)], []
        while waiting:
            p, position = waiting.pop()
            if position.is_chance_node():
                waiting += [(p * q, position.child(outcome)) for outcome, q in position.chance_outcomes()]
            else:
                found.append((p, position.returns()[0] - before, SpielState(position, self.history)))
        return found


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
    horizon: int | None = None,
    merge: Merge = "observation",
    seed: int = 0,
    name: str | None = None,
    spec: dict[str, Any] | None = None,
) -> Problem:
    """The Problem of a game (or of its name). ``seed`` draws the chance nodes before the first move."""
    from smoothcruiser.execute.streams import stream

    if isinstance(game, str):
        game = _loaded(game, {})
    _check(game)
    if merge not in ("observation", "history"):
        raise InvalidInput(f"merge must be 'observation' or 'history', got {merge!r}.")
    oracle = SpielOracle(game, merge)
    kind = game.get_type()
    low, high = min(0.0, float(game.min_utility())), max(0.0, float(game.max_utility()))
    bounds = None
    if kind.reward_model != pyspiel.GameType.RewardModel.TERMINAL:
        low, high = low - high, high - low  # a step may move the return from one end to the other
    elif operator.shift_invariant:
        longest, K = int(game.max_game_length()), int(game.num_distinct_actions())
        total = float(longest) if discount == 1 else (1.0 - discount**longest) / (1.0 - discount)
        extra = total * max(abs(operator.offset(k)) for k in (1, K))
        bounds = (low - extra, high + extra)
    return Game(
        oracle,
        player=player,
        num_actions=int(game.num_distinct_actions()),
        discount=discount,
        operator=operator,
        reward_range=(low, high),
        value_bounds=bounds,
        deterministic=kind.chance_mode == pyspiel.GameType.ChanceMode.DETERMINISTIC,
        legal=legal,
        terminal=terminal,
        initial_state=oracle.reset(stream(seed)),
        horizon=int(game.max_game_length()) if horizon is None and discount == 1 else horizon,
        outcomes=oracle.outcomes,
        name=name or f"openspiel:{kind.short_name}",
        spec=spec,
    )


def named(text: str, parameters: dict[str, Any], *, discount: float, operator: Operator, spec: dict[str, Any]) -> Problem:
    """The problem of ``openspiel:text,name=value,…``: parameters of this adapter, all others go to OpenSpiel."""
    own = {k: parameters.pop(k) for k in ("horizon", "merge", "seed") if k in parameters}
    shown = "".join(f",{k}={v}" for k, v in parameters.items())
    return problem(_loaded(text, parameters), discount=discount, operator=operator, name=f"openspiel:{text}{shown}", spec=spec, **own)


def _loaded(text: str, parameters: dict[str, Any]) -> Any:
    try:
        return pyspiel.load_game(text, parameters) if parameters else pyspiel.load_game(text)
    except pyspiel.SpielError as error:
        first = str(error).strip().splitlines()[0]
        raise InvalidInput(f"OpenSpiel cannot load {text!r} with {parameters}: {first[:200]}") from error


def _check(game: Any) -> None:
    """Refuse games that are not of the kind this library plans in."""
    kind = game.get_type()
    wrong: Sequence[tuple[bool, str]] = (
        (game.num_players() != 2, f"it has {game.num_players()} players"),
        (kind.utility != pyspiel.GameType.Utility.ZERO_SUM, "it is not zero-sum"),
        (kind.dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL, "players move at the same time"),
        (kind.information != pyspiel.GameType.Information.PERFECT_INFORMATION, "information is hidden"),
        (kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC, "its chance nodes do not list their outcomes"),
    )
    reasons = [reason for bad, reason in wrong if bad]
    if reasons:
        raise InvalidInput(
            f"{kind.short_name} cannot be planned in: {' and '.join(reasons)}; "
            "two-player, zero-sum, sequential games of perfect information can."
        )
