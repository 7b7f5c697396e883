"""Which PettingZoo games are accepted, and the problem that one makes.

A game is planned in if two agents take turns and see everything, and if one wins as
much as the other loses. PettingZoo reports the number of agents and, by
``is_parallelizable``, that all move at once; sums are compared on every step. It does
not report whether a game hides anything. That is known of its own games (``turns``) and
must be declared for others (``perfect_information=True``): the copies that a planner
steps hide nothing, and values of a game without hidden information need not be those of
the real game.

PettingZoo's own wrappers that only watch (order, bounds, illegal moves) are removed: a
planner makes no illegal moves. Games with others are refused; pass the game inside
them.

Which positions are one state (``merge``):

  contents   those in which the game holds the same (``gymnasium.whole``)
  history    none; for a game without chance that cannot be inspected in full
  none       as before, with chance: searches with a memory refuse it

A truncation that the game itself reports ends it, and nothing is paid after.
"""

from __future__ import annotations

import difflib
import os
import pkgutil
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack

from smoothcruiser.errors import InvalidInput, MissingExtra, describe_error
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.operators import Operator
from smoothcruiser.problem.arguments import check_keywords, pop_own_options
from smoothcruiser.problem.declarations import (
    DECLARATIONS,
    Declarations,
    merge_declarations,
    pop_declarations,
)
from smoothcruiser.problem.facts import AT_THE_END, EVERY_STEP
from smoothcruiser.problem.problem import Game, Problem

try:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # it greets on stdout
    import gymnasium
    import pettingzoo
except ImportError as error:
    raise MissingExtra(
        "PettingZoo games need PettingZoo: pip install 'smoothcruiser[pettingzoo]'."
    ) from error

from smoothcruiser.adapters.gymnasium.copies import keep_global_generators
from smoothcruiser.adapters.gymnasium.whole import HiddenContents, trial, whole
from smoothcruiser.adapters.pettingzoo import turns
from smoothcruiser.adapters.pettingzoo.bare import (
    has_begun,
    planning_refusal,
    strip_wrappers,
    title_of,
)
from smoothcruiser.adapters.pettingzoo.turns import (
    AT_ONCE,
    FAMILIES_AT_ONCE,
    HIDDEN,
    KNOWN,
    REWARD_RANGE,
    hides_information,
    look_up_game,
    strip_version,
)

EXTRA = "pip install 'smoothcruiser[pettingzoo]'"
MERGES = ("auto", "contents", "history", "none")


class GameOptions(Declarations, total=False):
    """The keywords of ``problem`` that PettingZoo's own games do without."""

    reward_range: tuple[float, float] | None
    perfect_information: bool | None
    merge: str
    seed: int | None
    call_seconds: float | None
    name: str | None


@keep_global_generators()
def problem(
    game: Any, *, discount: float, operator: Operator, **more: Unpack[GameOptions]
) -> Problem:
    """The Problem of a game, which is copied and left as it is.

    Args:
        game: an AEC environment of two agents.
        discount: weight of the next move's value, in [0, 1]. With 1 the horizon is the
            longest game where that is known (tictactoe, connect_four).
        operator: the smooth maximum, such as ``Entropy(0.1)``.
        reward_range: (low, high), which holds every reward of the first agent; known of
            PettingZoo's own games.
        horizon: moves until the end; None for as long as the game lasts.
        payoffs: "end" if only the last move pays, or "every step"; known of
            PettingZoo's own games, "every step" for others.
        deterministic: whether no move has chance; known of PettingZoo's own games,
            False for others.
        perfect_information: that no player is shown less than another and nothing is
            hidden; needed for games that are not PettingZoo's own.
        merge: which positions are one state: "contents", "history", "none", or "auto".
        seed: start at a reset under this seed. By default the problem starts where the
            game is, or at a reset under seed 0 if it was never reset.
        call_seconds: a move that takes longer counts as hanging; None for no limit.
        name: shown in answers; the default is ``pettingzoo:`` and the game's name.
        more: these and declarations, as for ``make``.

    Example:
        >>> from pettingzoo.classic import tictactoe_v3
        >>> import smoothcruiser as sc
        >>> game = tictactoe_v3.env()
        >>> game.reset()
        >>> board = sc.adapters.pettingzoo.problem(
        ...     game, discount=0.95, operator=sc.Entropy(0.1)
        ... )
        >>> board.num_actions
        9
    """
    check_keywords("problem", more, (*GameOptions.__annotations__, *DECLARATIONS))
    declarations = pop_declarations(
        {k: v for k, v in more.items() if k in DECLARATIONS}
    )
    bare_game = strip_wrappers(game)
    game_title, known_game = title_of(bare_game), look_up_game(bare_game)
    _refuse_hidden(bare_game, game_title, more.get("perfect_information"))
    player_names = _player_names(bare_game, game_title)
    turns_view = turns.TurnsView(
        bare_game, player_names, _count_actions(bare_game, player_names, game_title)
    )
    seed = more.get("seed")
    starts_here = seed is None and has_begun(bare_game)
    deterministic = declarations.setdefault("deterministic", known_game is not None)
    oracle = _build_oracle(
        turns_view, more.get("merge", "auto"), deterministic, starts_here, seed or 0
    )
    if (
        discount == 1
        and declarations.get("horizon") is None
        and known_game is not None
    ):
        declarations["horizon"] = known_game.longest
    facts: dict[str, Any] = {
        "player": turns.player,
        "legal": turns.legal,
        "terminal": turns.terminal,
        "num_actions": len(oracle.actions),
        "discount": discount,
        "operator": operator,
        "reward_range": _choose_reward_range(
            more.get("reward_range"), known_game is not None, game_title
        ),
        "payoffs": EVERY_STEP if known_game is None else AT_THE_END,
        "outcomes": oracle.outcomes if deterministic else None,
        "initial_state": oracle.read(game) if starts_here else oracle.begin,
        "key": None if oracle.merge == "none" else turns.PositionKey(oracle.merge),
        "call_seconds": more.get("call_seconds"),
        "name": more.get("name") or f"pettingzoo:{game_title}",
    }
    return Game(oracle, **merge_declarations(facts, declarations))


OWN_OPTIONS = (
    *DECLARATIONS,
    "perfect_information",
    "merge",
    "seed",
    "call_seconds",
    "reward_range",
)


def build_by_name(
    text: str, parameters: dict[str, Any], *, discount: float, operator: Operator
) -> Problem:
    """The problem of ``pettingzoo:text,name=value,…``.

    ``text`` is a game of ``pettingzoo.classic`` or ``module:function``. Parameters that
    are not this adapter's own go to the game.
    """
    problem_options = pop_own_options(parameters, OWN_OPTIONS)
    problem_options.setdefault("seed", 0)
    shown_parameters = "".join(f",{k}={v}" for k, v in parameters.items())
    game = _build_game(text, parameters)
    problem_name = f"pettingzoo:{text}{shown_parameters}"
    return problem(
        game,
        discount=discount,
        operator=operator,
        name=problem_name,
        **problem_options,
    )


# --- finding ------------------------------------------------------------------


def _build_game(text: str, parameters: dict[str, Any]) -> Any:
    """A game by its name in ``pettingzoo.classic``, or by ``module:function``."""
    module_name, colon, attribute_name = text.partition(":")
    if not colon:
        _refuse_by_name(text)
        module_name, attribute_name = f"pettingzoo.classic.{text}", "env"
    try:
        with warnings.catch_warnings():  # that PettingZoo will have another way
            warnings.simplefilter("ignore", DeprecationWarning)
            factory = getattr(import_module(module_name), attribute_name)
    except ImportError as error:
        if not colon and getattr(error, "name", None) != module_name:
            raise MissingExtra(
                f"{text} needs more than PettingZoo itself ({describe_error(error)}): {EXTRA}."
            ) from error
        raise _unknown_game(text) from error
    except AttributeError as error:
        raise InvalidInput(
            f"{module_name} has no {attribute_name!r}, a function or class that makes "
            "a game."
        ) from error
    try:
        return factory(**parameters)
    except Exception as error:
        raise InvalidInput(
            f"PettingZoo cannot make {text!r} with {parameters}: {describe_error(error)}; check "
            "its parameters."
        ) from error


def _refuse_by_name(text: str) -> None:
    """Refuse a game that cannot be planned in, whether or not it can be imported."""
    if strip_version(text) in HIDDEN:
        raise planning_refusal(text, "information is hidden")
    folder = Path(pettingzoo.__file__).parent
    family_files = [
        folder / family_name / f"{text}.py" for family_name in FAMILIES_AT_ONCE
    ]
    if strip_version(text) in AT_ONCE or any(path.exists() for path in family_files):
        raise planning_refusal(text, "players move at the same time")


def _unknown_game(text: str) -> InvalidInput:
    from pettingzoo import classic

    module_names = [
        module_info.name
        for module_info in pkgutil.iter_modules(classic.__path__)
        if "_v" in module_info.name
    ]
    game_names = sorted(
        module_name
        for module_name in module_names
        if strip_version(module_name) in KNOWN
    )
    close_matches = difflib.get_close_matches(text, game_names, 1, 0.7)
    suggestion = f" (did you mean {close_matches[0]}?)" if close_matches else ""
    return InvalidInput(
        f"PettingZoo {pettingzoo.__version__} has no game {text!r} to plan "
        f"in{suggestion}; there are {', '.join(game_names)}, and your own as "
        "pettingzoo:module:function."
    )


# --- which games are accepted -------------------------------------------------


def _refuse_hidden(game: Any, title: str, is_declared: bool | None) -> None:
    """Refuse games in which players move at once, or of which too little is known."""
    if (getattr(game, "metadata", None) or {}).get("is_parallelizable"):
        raise planning_refusal(
            title, "players move at the same time (its metadata say is_parallelizable)"
        )
    if hides_information(game):
        raise planning_refusal(title, "information is hidden")
    if look_up_game(game) is None and is_declared is not True:
        raise InvalidInput(
            f"{title} does not say whether it hides anything from its players, and a "
            "planner sees all; give perfect_information=True if nothing is hidden."
        )


def _player_names(game: Any, title: str) -> tuple[str, str]:
    """The two agents: the first is the max player."""
    player_names = tuple(getattr(game, "possible_agents", ()))
    if len(player_names) != 2 or player_names[0] == player_names[1]:
        raise planning_refusal(title, f"it has {len(player_names)} players")
    return player_names


def _count_actions(game: Any, player_names: Sequence[str], title: str) -> int:
    """How many actions there are, for the agent that has most."""
    action_counts = []
    for player_name in player_names:
        action_space = game.action_space(player_name)
        if (
            not isinstance(action_space, gymnasium.spaces.Discrete)
            or int(action_space.start) != 0
        ):
            raise planning_refusal(
                title,
                f"the actions {action_space} of {player_name} are not 0, 1, 2, …",
            )
        action_counts.append(int(action_space.n))
    return max(action_counts)


def _choose_reward_range(
    given_range: Any, is_known: bool, title: str
) -> tuple[float, float]:
    if given_range is None and not is_known:
        raise InvalidInput(
            f"{title} does not say in which range its rewards lie; give "
            "reward_range=(low, high), such as reward_range=(-1,1)."
        )
    reward_range: tuple[float, float] = (
        REWARD_RANGE if given_range is None else given_range
    )
    return reward_range


def _build_oracle(
    view: turns.TurnsView,
    merge: str,
    deterministic: bool,
    starts_here: bool,
    seed: int,
) -> turns.TurnsOracle:
    """The oracle of a game that passed its trial."""
    if merge not in MERGES:
        raise InvalidInput(
            f"merge must be one of {', '.join(map(repr, MERGES))}, got {merge!r}."
        )
    if merge == "history" and not deterministic:
        raise InvalidInput(
            "merge='history' is for games without chance: moves do not tell what "
            "chance did; give deterministic=True if there is none."
        )
    wanted_merge = "contents" if merge == "auto" else merge
    oracle = turns.TurnsOracle(view, "none", None if starts_here else stream(seed))
    if wanted_merge == "contents":
        try:
            whole(oracle.env.inside)
        except HiddenContents as error:
            if merge != "auto":
                raise
            wanted_merge = "history" if deterministic else "none"
            del error
    oracle.merge = wanted_merge
    if not starts_here:
        oracle.begin = oracle.current_state()
    trial(oracle)
    return oracle
