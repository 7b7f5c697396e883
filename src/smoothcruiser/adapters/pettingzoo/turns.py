"""A PettingZoo game as an environment of Gymnasium, its positions and its oracle.

In this form a game is copied, tried and stepped as environments are
(``adapters.gymnasium``): a copy keeps the state that EzPickle would forget, samples
from the planner's stream, and has to continue as one that was never copied.

  player   ``agent_selection``: the first of ``possible_agents`` is the max player
  legal    the mover's ``action_mask``, in its observation or its info; without one,
           all actions
  reward   the addition of a step to the max player's; the min player's must be minus
           that
  end      all ``terminations`` or ``truncations`` are set; a game that one player
           leaves while the other plays on is an error

A caller may change a mask, and reading may change it too: it is read once for each
position, and the trial compares the contents of a game before and after a second
reading. Out of scope: which games are accepted (``agent_cycles``).

Known facts of PettingZoo's own games, read in their source, PettingZoo 1.27.

PettingZoo does not say whether a game hides anything, whether chance plays, how much it
pays and how long it lasts. This file says so for the games of ``pettingzoo.classic``;
for other games the user declares it. Out of scope: third parties' games.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import gymnasium
import numpy as np

from smoothcruiser.adapters.gymnasium.copies import (
    View,
    contents,
    first_difference,
    format_path,
)
from smoothcruiser.adapters.gymnasium.oracles import Snapshot, SnapshotOracle
from smoothcruiser.adapters.gymnasium.whole import ASSUMPTION, whole
from smoothcruiser.adapters.pettingzoo.bare import has_begun, strip_wrappers, title_of
from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.jit.random.streams import stream

# of two rewards that add up to nothing, and of sums of rewards
ROUNDING = 1e-9


class TurnsView(View):
    """A game, with rewards of its first player.

    ``origin`` numbers the beginnings that ``moves`` count from.
    """

    def __init__(
        self, game: Any, player_names: tuple[str, str], num_actions: int
    ) -> None:
        self.inside, self.names = game, player_names
        self.action_space = gymnasium.spaces.Discrete(num_actions)
        self.moves: tuple[int, ...] = ()
        self.origin = 0
        known_game = look_up_game(game)
        self.guard = None if known_game is None else known_game.guard

    def like(self, other: Any) -> Any:
        """A view of another running game; anything else as it is."""
        if isinstance(other, TurnsView) or not hasattr(other, "possible_agents"):
            return other
        return TurnsView(strip_wrappers(other), self.names, int(self.action_space.n))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a game, under a seed from the planner's stream."""
        reset_seed = seed if seed is not None else int(self.np_random.integers(2**31))
        self.inside.reset(seed=reset_seed)
        self.moves = ()
        return None, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One move: (None, reward of the first player, terminated, truncated, {})."""
        game = self.inside
        if self.guard is not None:
            self.guard(game)
        mover = game.agent_selection
        sums_before = dict(getattr(game, "_cumulative_rewards", {}))
        game.step(int(action))
        self.moves = (*self.moves, int(action))
        first_reward = self.step_reward(mover, sums_before)
        has_ended, was_cut = self.ends()
        return None, first_reward, has_ended, was_cut, {}

    def step_reward(self, mover: str, sums_before: dict[str, Any]) -> float:
        """The step's reward of the first player; the second must lose as much."""
        game = self.inside
        first_reward, second_reward = (
            float((game.rewards or {}).get(player_name, 0.0))
            for player_name in self.names
        )
        scale = max(1.0, abs(first_reward), abs(second_reward))
        if (
            not math.isfinite(first_reward + second_reward)
            or abs(first_reward + second_reward) > ROUNDING * scale
        ):
            raise OracleError(
                f"{self.title} is not zero-sum: move {self.moves[-1]} after "
                f"{list(self.moves[:-1])} paid {self.names[0]} {first_reward:g} and "
                f"{self.names[1]} {second_reward:g}; only games whose rewards add up "
                "to 0 in every step can be planned in."
            )
        sums_after = getattr(game, "_cumulative_rewards", {})
        for player_name, reward in zip(
            self.names, (first_reward, second_reward), strict=True
        ):
            old_sum, new_sum = (
                sums_before.get(player_name, 0.0),
                sums_after.get(player_name),
            )
            # the mover's sum restarts with its move, where a game follows the API
            possible_starts = (old_sum, 0.0) if player_name == mover else (old_sum,)
            if new_sum is not None and not any(
                abs(new_sum - start - reward) <= ROUNDING * max(scale, abs(new_sum))
                for start in possible_starts
            ):
                raise OracleError(
                    f"{self.title} pays {player_name} {reward:g} by rewards and "
                    f"{new_sum - old_sum:g} by _cumulative_rewards, which last() "
                    f"returns, in move {self.moves[-1]} after {list(self.moves[:-1])}; "
                    "let step clear rewards and call _accumulate_rewards."
                )
        return first_reward

    def ends(self) -> tuple[bool, bool]:
        """(terminated, truncated): whether the game is over, and in which way."""
        game = self.inside
        terminations = [
            bool(game.terminations.get(player_name, True))
            for player_name in self.names
        ]
        truncations = [
            bool(game.truncations.get(player_name, True)) for player_name in self.names
        ]
        players_out = [a or b for a, b in zip(terminations, truncations, strict=True)]
        if any(players_out) != all(players_out):
            raise OracleError(
                f"In {self.title} one player is out after {list(self.moves)} and the "
                "other plays on; both have to end together."
            )
        return all(players_out) and any(terminations), all(players_out) and not any(
            terminations
        )

    @property
    def title(self) -> str:
        """The name that the game gives itself."""
        return title_of(self.inside)

    @property
    def over(self) -> bool:
        """Whether nobody moves any more."""
        return any(self.ends())

    @property
    def mover(self) -> int:
        """1 where the first player moves, 2 where the second does."""
        player_name = self.inside.agent_selection
        if player_name not in self.names:
            raise OracleError(
                f"{self.title} lets {player_name!r} move after {list(self.moves)}, who "
                f"is not one of its players {self.names[0]!r} and {self.names[1]!r}."
            )
        return 1 + self.names.index(player_name)

    def legal(self) -> frozenset[int]:
        """The mover's legal moves; none where the game is over."""
        if self.over:
            return frozenset()
        game, player_name = self.inside, self.names[self.mover - 1]
        num_actions = int(game.action_space(player_name).n)
        mask = action_mask(game, player_name)
        if mask is None:
            return frozenset(range(num_actions))
        mask_array = np.array(mask)  # a copy: the game may write into its own
        if mask_array.shape != (num_actions,):
            raise OracleError(
                f"The action_mask of {self.title} has the shape {mask_array.shape} "
                f"after {list(self.moves)}; one entry for each of {num_actions} "
                "actions is needed."
            )
        return frozenset(np.flatnonzero(mask_array).tolist())

    def player_views(self) -> dict[str, Any]:
        """All that players see."""
        if self.over:
            return {}
        observations = {
            player_name: self.inside.observe(player_name) for player_name in self.names
        }
        legal_moves = sorted(self.legal())
        return {
            "mover": self.mover,
            "legal": np.array(legal_moves),
            "seen": observations,
        }


def action_mask(game: Any, name: str) -> Any:
    """The mask of a player, from its observation or its info; None without one."""
    observation = game.observe(name)
    if isinstance(observation, dict) and "action_mask" in observation:
        return observation["action_mask"]
    player_info = (getattr(game, "infos", None) or {}).get(name)
    return player_info.get("action_mask") if isinstance(player_info, dict) else None


class GamePosition(Snapshot):
    """A copy of a game as a state, with its end, mover and legal moves."""

    __slots__ = ("legal", "mover", "over")

    def __init__(self, env: TurnsView, key_of: Callable[[TurnsView], Any]) -> None:
        self.over = env.over
        self.mover = 1 if self.over else env.mover
        self.legal = env.legal()
        inner_key = key_of(env)  # after the observation, which may have filled a cache
        super().__init__(
            env, None if inner_key is None else (*self.profile, inner_key)
        )

    @property
    def profile(self) -> tuple[Any, ...]:
        """The end, the mover and the legal moves."""
        return self.over, self.mover, tuple(sorted(self.legal))

    @property
    def moves(self) -> list[int]:
        """The moves so far."""
        return list(self.env.moves)

    def __fingerprint__(self) -> Any:
        game_contents = contents(self.env.inside)
        return type(self.env.inside), [
            (list(path), component) for path, component in game_contents.items()
        ]

    def __repr__(self) -> str:
        game_note = "" if self.env.origin == 0 else f", game {self.env.origin}"
        return f"GamePosition({self.moves}{game_note})"


@dataclass(frozen=True)
class PositionKey:
    """The key of a position: a function of a ``GamePosition``."""

    # equal keys have equal movers, legal moves and ends
    holds_profile: ClassVar[bool] = True

    merge: str  # contents or history

    def __call__(self, state: GamePosition) -> Hashable:
        """The key of a position."""
        position_key: Hashable = state.key
        return position_key

    @property
    def assumption(self) -> str:
        """The assumption of a certificate about states; empty if there is none."""
        return ASSUMPTION if self.merge == "contents" else ""


class TurnsOracle(SnapshotOracle):
    """Moves from any position, in copies that sample from the planner's stream."""

    def __init__(self, env: TurnsView, merge: str, rng: Any) -> None:
        self.merge, self.known = merge, look_up_game(env.inside)
        self.reads = 0  # beginnings beside the first
        self.first = True
        self.begin: GamePosition | None = None  # where lists of moves start
        super().__init__(env, list(range(int(env.action_space.n))), None, None, rng)
        self.first = False
        self.fixed: frozenset[str] = frozenset()
        if self.known is not None:
            self.fixed = frozenset(
                path_name.rpartition(".")[2] for path_name in self.known.fixed
            )
            for attribute_path in self.known.fixed:
                with suppress(AttributeError):  # of another version of PettingZoo
                    fixed_part = attrgetter(attribute_path)(self.env.inside)
                    self.same[id(fixed_part)] = fixed_part

    def __fingerprint__(self) -> Any:
        """Everything beside the position that steps depend on."""
        return type(self), self.kinds, self.merge

    def key_of(self, env: TurnsView) -> Any:
        """The key that distinguishes a game's position; None where nothing does."""
        if self.merge == "contents":
            return whole(env.inside, self.fixed)
        return (env.origin, *env.moves) if self.merge == "history" else None

    def state_of(self, env: Any) -> GamePosition:
        """A private copy as a position; nobody else may step it."""
        return GamePosition(env, self.key_of)

    def begin_episode(self, twin: Any) -> Any:
        """A private copy at the beginning of a game."""
        fresh_copy = super().begin_episode(twin)
        # chance may have had a hand in it
        if self.known is None and not self.first:
            self.reads += 1
            fresh_copy.origin = self.reads
        return fresh_copy

    def attempt(self, env: Any, turn: int) -> int:
        """A legal move."""
        legal_moves = sorted(env.legal())
        if not legal_moves:
            raise InvalidInput(
                f"{env.title} has no legal move after {list(env.moves)} and is not "
                "over."
            )
        return int(legal_moves[turn % len(legal_moves)])

    def trial_view(self, env: Any, observation: Any) -> Any:
        """The observations of the players; reading them must not change the game."""
        first_view = env.player_views()  # it may fill a cache
        contents_before = contents(env.inside)
        second_view = env.player_views()
        changed_path = first_difference(contents_before, contents(env.inside))
        if changed_path is not None:
            raise InvalidInput(
                f"Looking at {env.title} changes {format_path(changed_path)}; let "
                "observe leave the game as it is."
            )
        if first_view and not np.array_equal(
            first_view["legal"], second_view["legal"]
        ):
            raise InvalidInput(
                f"The action_mask of {env.title} changes from one look to the next; "
                "let it depend on the position alone."
            )
        return first_view

    def __call__(self, state: Any, action: int, rng: Any) -> tuple[float, Any, bool]:
        """One move from a position: (reward, next position, whether it ended)."""
        if action not in state.legal:
            raise InvalidInput(
                f"Move {action!r} is not legal at {state!r}; legal are "
                f"{sorted(state.legal)}."
            )
        return super().__call__(state, action, rng)

    def outcomes(
        self, state: GamePosition, action: int
    ) -> list[tuple[float, float, Any]]:
        """The one outcome of a move in a game without chance."""
        rng = stream(0)
        words_before = rng.words.tolist()
        reward, next_position, _ = self(state, action, rng)
        if rng.words.tolist() != words_before:
            raise OracleError(
                f"{next_position.env.title} was declared deterministic, but move "
                f"{action} at {state!r} drew a random number; drop deterministic=."
            )
        return [(1.0, reward, next_position)]

    def read(self, env: Any) -> GamePosition:
        """The position of the user's game, which is left as it is."""
        game_view = self.as_environment(env)
        if not has_begun(game_view.inside):
            raise InvalidInput(
                f"{game_view.title} was not reset; reset it, then plan."
            )
        action_counts = [
            int(game_view.inside.action_space(player_name).n)
            for player_name in game_view.names
        ]
        if max(action_counts) != len(self.actions):
            raise InvalidInput(
                f"This {game_view.title} has {max(action_counts)} actions and the "
                f"problem was made of one with {len(self.actions)}; make a problem of "
                "this one."
            )
        self.reads += 1
        game_view.origin = self.reads
        position = super().read(game_view)
        assert isinstance(position, GamePosition)
        return position

    def parse(self, state: Any) -> Any:
        """The position after a list of moves, or that of a running game.

        A position is returned as it is.
        """
        if not isinstance(state, list | tuple):
            return super().parse(state)
        if self.begin is None:
            raise InvalidInput(
                "Moves can be listed where the problem was made from a game's name; "
                f"pass the running game in place of {list(state)}."
            )
        position: Any = self.begin
        for i, move in enumerate(state):
            if move not in position.legal:
                raise InvalidInput(
                    f"Move {move!r} of {list(state)} is not legal after "
                    f"{list(state[:i])}; legal are {sorted(position.legal)}."
                )
            rng = stream(0)
            words_before = rng.words.tolist()
            _, position, _ = self(position, move, rng)
            if rng.words.tolist() != words_before:
                raise InvalidInput(
                    f"Chance plays after move {move} of {list(state)}, so moves alone "
                    "do not tell the position; pass a running game."
                )
        return position

    def plain(self, state: GamePosition) -> list[int]:
        """The list of all moves, which ``parse`` reads."""
        if state.env.origin != 0 or self.begin is None:
            raise InvalidInput(
                f"{state!r} began in a running game, which no list of moves describes; "
                "make the problem from the game's name to store its positions."
            )
        return state.moves

    def label(self, state: GamePosition, action: int) -> str | None:
        """The name of a move of a known game; None where it is not legal."""
        if self.known is None or self.known.label is None or action not in state.legal:
            return None
        return self.known.label(state.env.inside, action)


def legal(state: GamePosition, action: int) -> bool:
    """Whether a move is legal."""
    return action in state.legal


def terminal(state: GamePosition) -> bool:
    """Whether the game is over."""
    return state.over


def player(state: GamePosition) -> int:
    """1 for the first of ``possible_agents``, 2 for the second."""
    return state.mover


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
