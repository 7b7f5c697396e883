"""A Pgx game as a problem.

Pgx's games are pure functions ``step(state, action, key)``; a state has the number of
the player to move, the legal actions and the rewards of the last move for each player.
There is no restart after the end (that is a wrapper of Pgx's, ``auto_reset``).

  players   With two, the one that begins at the problem's initial state is the max
            player (1), the other the min player (2). Pgx says by chance which number
            begins; resets where the other one does are passed over, so that 1 begins
            every game. The rewards of the two must sum to 0, move by move: a step where
            it does not is an error.
  one       A game of one player (2048, MinAtar) is an MDP.
  legal     ``legal_action_mask``; an action outside of it is never tried
  end       ``terminated`` or ``truncated``
  chance    dice and new tiles come from the key, so from the planner's stream

States are whole numbers and flags in all of Pgx's games that were read, so float32
rounds nothing in them, and rewards are whole numbers too. Pgx is written for 32 bits:
half of its games cannot be traced under ``x64`` (docs/worlds/jax.md), which is off by
default.

Out of scope: hidden information, more than two players, and observations.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Unpack

import numpy as np

from smoothcruiser.adapters.pgx.known_games import GAMES, PgxGame, refuse, unknown
from smoothcruiser.errors import InvalidInput, MissingExtra, describe_error
from smoothcruiser.operators import Operator
from smoothcruiser.problem.arguments import (
    check_keywords,
    check_seed,
    pop_reward_range,
)
from smoothcruiser.problem.declarations import (
    DECLARATIONS,
    Declarations,
    merge_declarations,
    pop_declarations,
)
from smoothcruiser.problem.facts import AT_THE_END, EVERY_STEP
from smoothcruiser.problem.problem import MDP, Game, Problem

try:
    import jax
    import jax.numpy as jnp
    import pgx

    from smoothcruiser.problem.batched.jax import precise
    from smoothcruiser.problem.batched.trees import JaxWorld, environment_parameters
    from smoothcruiser.problem.batched.worlds import rows_of
except ImportError as error:
    raise MissingExtra(
        "Pgx games need Pgx and JAX: pip install 'smoothcruiser[pgx]'."
    ) from error

OWN_OPTIONS = (*DECLARATIONS, "seed", "x64")
MOVER, MASK, ENDS = "current_player", "legal_action_mask", ("terminated", "truncated")
STATE_FIELDS = (MOVER, MASK, *ENDS, "rewards")  # of a state
NOT_ZERO_SUM = (
    "what the two players were paid does not sum to 0 there (or is no number), and "
    "only zero-sum games can be planned in"
)


class PgxOptions(Declarations, total=False):
    """The keywords of ``problem`` that most games do without."""

    reward_range: tuple[float, float] | None
    x64: bool
    seed: int
    name: str | None


def problem(
    env: Any, *, discount: float, operator: Operator, **more: Unpack[PgxOptions]
) -> Problem:
    """The Problem of a Pgx game.

    Args:
        env: a game of Pgx, or one of your own with its methods.
        discount: weight of the next step's value, in [0, 1]; 1 needs a game of known
            length, or a horizon.
        operator: the smooth maximum, such as ``Entropy(0.1)``.
        reward_range: (low, high), which holds every reward of one step. Needed unless
            it is known (``known_games.GAMES``).
        horizon: steps until the end; None for as long as the game lasts. With discount
            1 it is the longest game, where that is known.
        x64: whether the game computes in 64 bits; False by default, as Pgx itself.
        seed: of the initial state; 0 by default.
        name: shown in answers; the default is ``pgx:`` and the game's name.
        more: these and declarations, as for ``make``.

    Example:
        ``problem(pgx.make("tic_tac_toe"), discount=1.0, operator=sc.Max())``
    """
    check_keywords("problem", more, (*PgxOptions.__annotations__, *DECLARATIONS))
    declarations = pop_declarations(
        {k: v for k, v in more.items() if k in DECLARATIONS}
    )
    x64, seed = more.get("x64", False), more.get("seed", 0)
    if not isinstance(x64, bool):
        raise InvalidInput(f"x64 must be true or false, got {x64!r}.")
    check_seed(seed)
    missing_methods = [
        name for name in ("init", "step", "num_players") if not hasattr(env, name)
    ]
    if missing_methods:
        raise InvalidInput(
            f"A Pgx game has init, step and num_players, and a {type(env).__name__} "
            f"has no {missing_methods[0]}; for one by name use make('pgx:tic_tac_toe', "
            "discount=1, operator='max')."
        )
    game_title = str(getattr(env, "id", type(env).__name__))
    is_own = type(env).__module__.startswith("pgx.")
    if is_own:
        refuse(game_title)
    num_players = int(env.num_players)
    if num_players > 2:
        raise InvalidInput(
            f"{game_title} has {num_players} players; games of one or two can be "
            "planned in."
        )
    known_game = GAMES.get(game_title, PgxGame(None)) if is_own else PgxGame(None)
    problem_name = more.get("name") or f"pgx:{game_title}"
    reward_bounds = more.get("reward_range") or known_game.rewards
    if reward_bounds is None:
        raise InvalidInput(
            f"{problem_name} does not say in which range its rewards lie; give "
            "reward_range=(low, high), such as reward_range=[0,100] in the name."
        )
    # the start decides which player's rewards are planned for: the world is built twice
    game_rows = rows_of(
        _world(env, game_title, 0, x64), seed, two_players=num_players == 2
    )
    if game_rows.first:
        world = _world(env, game_title, game_rows.first, x64)
        game_rows = rows_of(world, seed, two_players=True)
    if declarations.get("horizon") is None and discount == 1:
        declarations["horizon"] = known_game.steps
    has_chance, companion_facts = game_rows.form.matter.chance, game_rows.companions()
    has_chance = has_chance and not declarations.get("deterministic", False)
    facts: dict[str, Any] = {
        "num_actions": game_rows.world.num_actions,
        "discount": discount,
        "operator": operator,
        "reward_range": (float(reward_bounds[0]), float(reward_bounds[1])),
        "payoffs": AT_THE_END if known_game.at_the_end else EVERY_STEP,
        "initial_state": game_rows.origin,
        "deterministic": not has_chance,
        "outcomes": None if has_chance else game_rows.outcomes,
        "episodes_end": None if known_game.steps is None else (known_game.steps, 1.0),
        "key": game_rows.identity(),
        "actions": _action_labels(known_game, game_rows.world.num_actions),
        "name": problem_name,
    }
    facts = merge_declarations(facts | companion_facts, declarations)
    return Game(game_rows, **facts) if num_players == 2 else MDP(game_rows, **facts)


def build_by_name(
    text: str, parameters: dict[str, Any], *, discount: float, operator: Operator
) -> Problem:
    """The problem of ``pgx:text,name=value,…``; ``text`` is an id or ``module:Class``.

    Parameters that are not this adapter's own go to the class of ``module:Class``.
    """
    refuse(text)
    problem_options: dict[str, Any] = {
        k: parameters.pop(k) for k in OWN_OPTIONS if k in parameters
    }
    problem_options["reward_range"] = pop_reward_range(parameters)
    shown_parameters = "".join(f",{k}={v}" for k, v in parameters.items())
    with precise(problem_options.get("x64") is True):
        env = _build_game(text, parameters)
    return problem(
        env,
        discount=discount,
        operator=operator,
        name=f"pgx:{text}{shown_parameters}",
        **problem_options,
    )


def _build_game(text: str, parameters: dict[str, Any]) -> Any:
    """A game by its name, or one of a class: ``module:Class``."""
    module_name, colon, class_name = text.partition(":")
    if not colon and text not in pgx.available_envs():
        raise unknown(text)
    try:
        if colon:
            return getattr(import_module(module_name), class_name)(**parameters)
        if parameters:
            unknown_word = next(iter(parameters))
            raise TypeError(f"pgx.make takes no {unknown_word!r}")
        return pgx.make(text)
    except Exception as error:
        raise InvalidInput(
            f"Pgx cannot make {text!r} with {parameters}: {describe_error(error)}; its own "
            f"parameters here are {', '.join(OWN_OPTIONS)} and reward_range, and "
            "module:Class takes those of a class."
        ) from error


def _world(env: Any, title: str, paid_player: int, x64: bool) -> JaxWorld:
    """The game as pure functions of one state, paying ``paid_player``."""
    num_players = int(env.num_players)

    def step(state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        next_state = env.step(state, action, key)
        player_rewards = jnp.reshape(next_state.rewards, (-1,))
        reward = player_rewards[paid_player]
        if num_players == 2:
            reward = jnp.where(
                player_rewards[0] + player_rewards[1] == 0, reward, jnp.nan
            )
        return reward, next_state, next_state.terminated | next_state.truncated

    with precise(x64):
        try:
            start_shape = jax.eval_shape(env.init, jax.random.key(0))
        except Exception as error:
            hint = "; drop x64=, which Pgx was not written for" if x64 else ""
            raise InvalidInput(
                f"{title} cannot begin ({describe_error(error)}){hint}."
            ) from error
    missing_fields = [
        field_name
        for field_name in STATE_FIELDS
        if not hasattr(start_shape, field_name)
    ]
    if missing_fields:
        raise InvalidInput(
            f"A state of {title} must have {', '.join(STATE_FIELDS)}, and has no "
            f"{missing_fields[0]}."
        )
    return JaxWorld(
        title=title,
        step=step,
        init=env.init,
        num_actions=int(np.prod(start_shape.legal_action_mask.shape)),
        ends=ENDS,
        stands_for=(
            type(env),
            environment_parameters(env),
            str(getattr(env, "version", "")),
            paid_player,
            pgx,
        ),
        legal=MASK,
        mover=MOVER if num_players == 2 else None,
        x64=x64,
        read=lambda state: state,
        whole_rewards=type(env).__module__.startswith("pgx."),
        nan_means=NOT_ZERO_SUM
        if num_players == 2
        else "its reward is no number there",
    )


def _action_labels(known_game: PgxGame, num_actions: int) -> tuple[str, ...] | None:
    """The names of the actions, if there is one for each."""
    return (
        known_game.actions
        if known_game.actions and len(known_game.actions) == num_actions
        else None
    )
