"""The command ``play``: an agent in a problem, or against another player, with
a summary.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import click

from smoothcruiser.cli.options import (
    Calls,
    find_modules_here,
    problem_of,
    problem_options,
    tree_options,
)
from smoothcruiser.errors import InvalidInput


@click.command()
@click.argument("problem")
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
    help="How the agent plans: any method of plan.",
)
@click.option(
    "--epsilon",
    metavar="E",
    help="Half-width of the promise at every decision: 0.1, or 5%.",
)
@click.option(
    "--delta", type=float, metavar="D", help="Allowed probability of failure."
)
@click.option(
    "--budget",
    type=Calls(),
    metavar="CALLS",
    help="Most oracle calls a decision, such as 1e4.",
)
@click.option("--seconds", type=float, metavar="T", help="Longest time a decision.")
@tree_options
@click.option(
    "--opponent",
    default="random",
    show_default=True,
    metavar="WHO",
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
    problem: str,
    discount: float | None,
    temperature: float | None,
    operator: str | None,
    as_json: bool,
    episodes: int,
    steps: int | None,
    method: str,
    epsilon: str | None,
    delta: float | None,
    budget: int | None,
    seconds: float | None,
    simulations: int | None,
    options: dict[str, Any] | None,
    opponent: str,
    side: str | None,
    seed: int,
) -> None:
    """Let an agent act: it plans at every state it meets.

    Prints the mean return with its interval, the win rate in games, and what a
    decision costs in time and calls.
    """
    from smoothcruiser.play.agent import Agent
    from smoothcruiser.play.agent import play as play_episodes

    made = problem_of(problem, discount, temperature, operator)
    _check_promise(made, method, epsilon, delta)
    how: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "budget": budget,
        "seconds": seconds,
        "seed": seed,
    }
    if simulations is not None:
        how["simulations"] = simulations
    own: dict[str, Any] = {} if options is None else {"options": options}
    agent = Agent(made, method, **how, **own)
    other = _opponent(opponent, made, how)
    show = None if as_json else _progress(episodes)
    summary = play_episodes(
        agent,
        episodes=episodes,
        steps=steps,
        seed=seed,
        opponent=other,
        side=None if side is None else int(side),
        progress=show,
    )
    click.echo(json.dumps(summary.to_dict()) if as_json else str(summary))


def _check_promise(
    problem: Any, method: str, epsilon: str | None, delta: float | None
) -> None:
    """Refuse a method that plans by a promise without one, naming one that
    needs none.
    """
    from smoothcruiser.api import SCHEDULED

    promises = method in SCHEDULED or (method == "auto" and problem.tables is None)
    if promises and (epsilon is None or delta is None):
        raise InvalidInput(
            f"Method {method} plans every decision by a promise: give --epsilon 5% "
            "--delta 0.1, or take a planner without one: --method uct --budget 10000."
        )


def _progress(episodes: int) -> Any:
    """A line on standard error that is rewritten after each episode, where
    there is a terminal to show it.
    """
    if not sys.stderr.isatty():
        return None

    def show(done: int, episode: Any) -> None:
        click.echo(
            f"\r{done} of {episodes} episodes, last return {episode.plain_return:.4g}  ",
            nl=done == episodes,
            err=True,
        )

    return show


def _opponent(text: str, problem: Any, how: dict[str, Any]) -> Any:
    """The other player: random, a planner with the agent's own limits and
    another seed, or a function of the user's.
    """
    import numpy as np

    from smoothcruiser.api import METHODS
    from smoothcruiser.jit.keys import Key
    from smoothcruiser.play.agent import Agent, random_player

    if text == "random":
        return random_player
    if text in METHODS:
        _check_promise(problem, text, how["epsilon"], how["delta"])
        of_other = np.random.SeedSequence(how["seed"], spawn_key=(Key.OTHER_PLAYER,))
        seed = int(of_other.generate_state(1)[0])
        return Agent(problem, text, **{**how, "seed": seed})
    module, colon, attribute = text.partition(":")
    if not colon:
        raise InvalidInput(
            f"The opponent is random, a method ({', '.join(METHODS)}) or "
            f"module:function, got {text!r}."
        )
    find_modules_here()
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(
            f"The opponent {text!r} could not be found ({error}); name a function "
            "(state, problem, rng) -> action."
        ) from error
