"""Which PettingZoo games are taken, and the problem that one makes.

A game is planned in if two agents take turns, see everything, and win what the other
loses. PettingZoo tells the number of agents and, by ``is_parallelizable``, that all
move at once; sums are compared on every step. Whether a game hides anything it does
not tell: that is known of its own games (``known``) and asked for others
(``perfect_information=True``), since the copies that a planner steps hide nothing, and
values of a game in which nothing is hidden need not be those of the one that is
played.

PettingZoo's own wrappers that only watch (order, bounds, illegal moves) are taken off:
a planner makes no illegal moves. Games with others are refused; give what they wrap.

Which positions are one state (``merge``):

  contents   those in which the game holds the same (``gymnasium.whole``)
  history    none; for a game of which something cannot be looked into, without chance
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

from smoothcruiser.errors import InvalidInput, MissingExtra, said
from smoothcruiser.jit.streams import stream
from smoothcruiser.operators import Operator
from smoothcruiser.problem.arguments import check_keywords
from smoothcruiser.problem.declarations import (
    DECLARATIONS,
    Declarations,
    merged,
    taken,
)
from smoothcruiser.problem.names import own_options
from smoothcruiser.problem.problem import Game, Problem
from smoothcruiser.problem.totals import AT_THE_END, EVERY_STEP

try:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # it greets on stdout
    import gymnasium
    import pettingzoo
except ImportError as error:
    raise MissingExtra(
        "PettingZoo games need PettingZoo: pip install 'smoothcruiser[pettingzoo]'."
    ) from error

from smoothcruiser.adapters.gymnasium.copies import global_generators_kept
from smoothcruiser.adapters.gymnasium.trial import trial
from smoothcruiser.adapters.gymnasium.whole import Hidden, whole
from smoothcruiser.adapters.pettingzoo import turns
from smoothcruiser.adapters.pettingzoo.bare import bare, cannot, has_begun, title_of
from smoothcruiser.adapters.pettingzoo.known import (
    AT_ONCE,
    FAMILIES_AT_ONCE,
    HIDDEN,
    KNOWN,
    PAYS,
    hides,
    known,
    stem,
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


@global_generators_kept()
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
        payoffs: "end" if only the last move pays, or "every step"; known of PettingZoo's
            own games, "every step" for others.
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
    declared = taken({k: v for k, v in more.items() if k in DECLARATIONS})
    inner = bare(game)
    title, what = title_of(inner), known(inner)
    _refuse_hidden(inner, title, more.get("perfect_information"))
    names = _players(inner, title)
    view = turns.TurnsView(inner, names, _size(inner, names, title))
    seed = more.get("seed")
    here = seed is None and has_begun(inner)
    deterministic = declared.setdefault("deterministic", what is not None)
    oracle = _tried(view, more.get("merge", "auto"), deterministic, here, seed or 0)
    if discount == 1 and declared.get("horizon") is None and what is not None:
        declared["horizon"] = what.longest
    facts: dict[str, Any] = {
        "player": turns.player,
        "legal": turns.legal,
        "terminal": turns.terminal,
        "num_actions": len(oracle.actions),
        "discount": discount,
        "operator": operator,
        "reward_range": _range(more.get("reward_range"), what is not None, title),
        "payoffs": EVERY_STEP if what is None else AT_THE_END,
        "outcomes": oracle.outcomes if deterministic else None,
        "initial_state": oracle.read(game) if here else oracle.begin,
        "key": None if oracle.merge == "none" else turns.PositionKey(oracle.merge),
        "call_seconds": more.get("call_seconds"),
        "name": more.get("name") or f"pettingzoo:{title}",
    }
    return Game(oracle, **merged(facts, declared))


OWN = (
    *DECLARATIONS,
    "perfect_information",
    "merge",
    "seed",
    "call_seconds",
    "reward_range",
)


def named(
    text: str, parameters: dict[str, Any], *, discount: float, operator: Operator
) -> Problem:
    """The problem of ``pettingzoo:text,name=value,…``.

    ``text`` is a game of ``pettingzoo.classic`` or ``module:function``. Parameters that
    are not this adapter's own go to the game.
    """
    own = own_options(parameters, OWN)
    own.setdefault("seed", 0)
    shown = "".join(f",{k}={v}" for k, v in parameters.items())
    game = _made(text, parameters)
    name = f"pettingzoo:{text}{shown}"
    return problem(game, discount=discount, operator=operator, name=name, **own)


# --- finding ------------------------------------------------------------------


def _made(text: str, parameters: dict[str, Any]) -> Any:
    """A game by its name in ``pettingzoo.classic``, or by ``module:function``."""
    module, colon, attribute = text.partition(":")
    if not colon:
        _refuse_by_name(text)
        module, attribute = f"pettingzoo.classic.{text}", "env"
    try:
        with warnings.catch_warnings():  # that PettingZoo will have another way
            warnings.simplefilter("ignore", DeprecationWarning)
            build = getattr(import_module(module), attribute)
    except ImportError as error:
        if not colon and getattr(error, "name", None) != module:
            raise MissingExtra(
                f"{text} needs more than PettingZoo itself ({said(error)}): {EXTRA}."
            ) from error
        raise _unknown(text) from error
    except AttributeError as error:
        raise InvalidInput(
            f"{module} has no {attribute!r}, a function or class that makes a game."
        ) from error
    try:
        return build(**parameters)
    except Exception as error:
        raise InvalidInput(
            f"PettingZoo cannot make {text!r} with {parameters}: {said(error)}; check "
            "its parameters."
        ) from error


def _refuse_by_name(text: str) -> None:
    """Refuse what cannot be planned in, whether or not it could be imported."""
    if stem(text) in HIDDEN:
        raise cannot(text, "information is hidden")
    folder = Path(pettingzoo.__file__).parent
    families = [folder / name / f"{text}.py" for name in FAMILIES_AT_ONCE]
    if stem(text) in AT_ONCE or any(path.exists() for path in families):
        raise cannot(text, "players move at the same time")


def _unknown(text: str) -> InvalidInput:
    from pettingzoo import classic

    there = [m.name for m in pkgutil.iter_modules(classic.__path__) if "_v" in m.name]
    games = sorted(name for name in there if stem(name) in KNOWN)
    near = difflib.get_close_matches(text, games, 1, 0.7)
    meant = f" (did you mean {near[0]}?)" if near else ""
    return InvalidInput(
        f"PettingZoo {pettingzoo.__version__} has no game {text!r} to plan in{meant}; "
        f"there are {', '.join(games)}, and your own as pettingzoo:module:function."
    )


# --- which games are taken ----------------------------------------------------


def _refuse_hidden(game: Any, title: str, declared: bool | None) -> None:
    """Refuse games in which players move at once, or of which too little is known."""
    if (getattr(game, "metadata", None) or {}).get("is_parallelizable"):
        raise cannot(
            title, "players move at the same time (its metadata say is_parallelizable)"
        )
    if hides(game):
        raise cannot(title, "information is hidden")
    if known(game) is None and declared is not True:
        raise InvalidInput(
            f"{title} does not say whether it hides anything from its players, and a "
            "planner sees all; give perfect_information=True if nothing is hidden."
        )


def _players(game: Any, title: str) -> tuple[str, str]:
    """The two agents: the first is the max player."""
    names = tuple(getattr(game, "possible_agents", ()))
    if len(names) != 2 or names[0] == names[1]:
        raise cannot(title, f"it has {len(names)} players")
    return names


def _size(game: Any, names: Sequence[str], title: str) -> int:
    """How many actions there are, for the agent that has most."""
    sizes = []
    for name in names:
        space = game.action_space(name)
        if not isinstance(space, gymnasium.spaces.Discrete) or int(space.start) != 0:
            raise cannot(title, f"the actions {space} of {name} are not 0, 1, 2, …")
        sizes.append(int(space.n))
    return max(sizes)


def _range(given: Any, ours: bool, title: str) -> tuple[float, float]:
    if given is None and not ours:
        raise InvalidInput(
            f"{title} does not say in which range its rewards lie; give "
            "reward_range=(low, high), such as reward_range=(-1,1)."
        )
    found: tuple[float, float] = PAYS if given is None else given
    return found


def _tried(
    view: turns.TurnsView, merge: str, deterministic: bool, here: bool, seed: int
) -> turns.TurnsOracle:
    """The oracle of a game that passed its trial."""
    if merge not in MERGES:
        raise InvalidInput(
            f"merge must be one of {', '.join(map(repr, MERGES))}, got {merge!r}."
        )
    if merge == "history" and not deterministic:
        raise InvalidInput(
            "merge='history' is for games without chance: moves do not tell what chance "
            "did; give deterministic=True if there is none."
        )
    wanted = "contents" if merge == "auto" else merge
    oracle = turns.TurnsOracle(view, "none", None if here else stream(seed))
    if wanted == "contents":
        try:
            whole(oracle.env.inside)
        except Hidden as error:
            if merge != "auto":
                raise
            wanted = "history" if deterministic else "none"
            del error
    oracle.merge = wanted
    if not here:
        oracle.begin = oracle.here()
    trial(oracle)
    return oracle
