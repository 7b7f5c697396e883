"""The command ``play``: an agent in a problem, or against another player, with
a summary.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from smoothcruiser.cli.completion import method_names, opponent_names
from smoothcruiser.cli.exit import SIGNALLED, ctrl_c
from smoothcruiser.cli.options import (
    Calls,
    Probability,
    find_modules_here,
    print_json,
    problem_options,
    tree_options,
)
from smoothcruiser.errors import InvalidInput, said


@click.command()
@problem_options
@click.option(
    "--episodes",
    type=int,
    default=10,
    show_default=True,
    metavar="N",
    help="How many episodes to play.",
)
@click.option(
    "--steps",
    type=int,
    metavar="N",
    help=(
        "End an episode after so many steps.  [default: the horizon, 1000, or until "
        "rewards weigh 1%]"
    ),
)
@click.option(
    "--method",
    default="auto",
    show_default=True,
    metavar="NAME",
    shell_complete=method_names,
    help="How the agent plans: any method of plan.",
)
@click.option(
    "--epsilon",
    metavar="E",
    help="Half-width of the promise at every decision: 0.1, or 5%.",
)
@click.option(
    "--delta", type=Probability(), metavar="D", help="Allowed probability of failure."
)
@click.option(
    "--budget",
    type=Calls(),
    metavar="CALLS",
    help="Most oracle calls per decision, such as 1e4.",
)
@click.option("--seconds", type=float, metavar="T", help="Longest time per decision.")
@click.option(
    "--seconds-total",
    type=float,
    metavar="T",
    help="Time for all decisions of an episode, dealt out over its moves.",
)
@click.option(
    "--ponder",
    is_flag=True,
    help="Tree searches: think on while the other moves.",
)
@tree_options
@click.option(
    "--opponent",
    default="random",
    show_default=True,
    metavar="WHO",
    shell_complete=opponent_names,
    help="In games: random, a method, or module:function.",
)
@click.option(
    "--side",
    type=click.Choice(["1", "2"]),
    help="In games: play max (1) or min (2) always.  [default: in turns]",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Of all random numbers."
)
def play(
    problem: Any,
    method: str,
    opponent: str,
    side: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Let an agent act: it plans at every state it meets.

    Prints the mean return with its interval, the win rate in games, and what a
    decision costs in time and calls.
    """
    from smoothcruiser.playing.agent import Agent
    from smoothcruiser.playing.episodes import play as play_episodes
    from smoothcruiser.progress.bar import Bar

    episodes, steps, options = (asked.pop(n) for n in ("episodes", "steps", "options"))
    _check_promise(problem, method, asked)
    agent = Agent(problem, method, options=options, **asked)
    other = _opponent(opponent, problem, asked)
    with ctrl_c() as stopped:
        summary = play_episodes(
            agent,
            episodes=episodes,
            steps=steps,
            seed=asked["seed"],
            opponent=other,
            side=None if side is None else int(side),
            progress=Bar(lines=False),
        )
    if as_json:
        print_json(summary.to_dict())
    else:
        from smoothcruiser.display.terminal import show
        from smoothcruiser.shown import page_of

        show(page_of(summary))
    if stopped:
        sys.exit(SIGNALLED + stopped[0])


def _check_promise(problem: Any, method: str, asked: dict[str, Any]) -> None:
    """Refuse a method that plans by a promise where there is none."""
    from smoothcruiser.methods import resolve

    promises = resolve(method).needs_promise(problem)
    aimless = all(asked[name] is None for name in ("epsilon", "budget", "seconds"))
    if promises and (aimless or asked["delta"] is None):
        raise InvalidInput(
            f"Method {method} plans every decision by a promise: give --epsilon 5% "
            "--delta 0.1, or --delta 0.1 and a limit (--seconds, --budget), or take a "
            "planner without one: --method uct --budget 10000."
        )


def _opponent(text: str, problem: Any, how: dict[str, Any]) -> Any:
    """The other player: random, a planner with the agent's own limits and
    another seed that does not ponder, or a function of the user's.
    """
    import numpy as np

    from smoothcruiser.jit.keys import Key
    from smoothcruiser.methods import METHODS
    from smoothcruiser.playing.agent import Agent
    from smoothcruiser.playing.episodes import random_player

    if text == "random":
        return random_player
    if text in METHODS:
        _check_promise(problem, text, how)
        of_other = np.random.SeedSequence(how["seed"], spawn_key=(Key.OTHER_PLAYER,))
        seed = int(of_other.generate_state(1)[0])
        return Agent(problem, text, **{**how, "seed": seed, "ponder": False})
    module, colon, attribute = text.partition(":")
    if not colon:
        raise InvalidInput(
            f"The opponent is random, a method ({', '.join(METHODS)}) or "
            f"module:function, got {text!r}."
        )
    find_modules_here()
    try:
        return getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:
        raise InvalidInput(
            f"The opponent {text!r} could not be found ({said(error)}); name a "
            "function (state, problem, rng) -> action."
        ) from error
