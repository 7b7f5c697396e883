"""The command ``play``: an agent in a problem, or against another player, with
a summary.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import click

from smoothcruiser.cli.exit_codes import SIGNALLED, ctrl_c
from smoothcruiser.cli.options import (
    ARRAY,
    Calls,
    Probability,
    load_player,
    method_names,
    opponent_names,
    print_json,
    problem_options,
    tree_options,
)
from smoothcruiser.errors import InvalidInput


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
    "--policy",
    metavar="WHAT",
    help="Follow a policy in place of planning: module:name, or an array in a file .npy.",
)
@click.option(
    "--epsilon",
    metavar="E",
    help="Half-width of the promise at every decision: 0.1, or 5%.",
)
@click.option(
    "--delta",
    type=Probability(),
    metavar="D",
    help="Allowed probability of failure.  [default: 0.05, for auto and certified]",
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
    "--ponder", is_flag=True, help="Tree searches: think on while the other moves."
)
@tree_options
@click.option(
    "--opponent",
    default="random",
    show_default=True,
    metavar="WHO",
    shell_complete=opponent_names,
    help="In games: random, a method, or a policy: module:name, or a file .npy.",
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
    policy: str | None,
    opponent: str,
    side: str | None,
    as_json: bool,
    **request: Any,
) -> None:
    """Let an agent act: it plans at every state it meets, or follows a policy.

    Prints the mean return with its interval, the win rate in games, and what a
    decision costs in time and calls.
    """
    from smoothcruiser.playing.agent import Agent
    from smoothcruiser.playing.episodes import play as play_episodes
    from smoothcruiser.progress.bar import Bar

    episodes, steps, options = (
        request.pop(name) for name in ("episodes", "steps", "options")
    )
    planner: Any = method
    note = None
    if policy is not None:
        _refuse_method(click.get_current_context(), method)
        planner = load_player(policy, "policy")
    else:
        note = _check_promise(problem, method, request)
    agent = Agent(problem, planner, options=options, **request)
    other_player = _opponent(opponent, problem, request)
    with ctrl_c() as stopped:
        summary = play_episodes(
            agent,
            episodes=episodes,
            steps=steps,
            seed=request["seed"],
            opponent=other_player,
            side=None if side is None else int(side),
            progress=Bar(lines=False),
        )
    if as_json:
        print_json(summary.to_dict())
    else:
        from smoothcruiser.display.document import Fields
        from smoothcruiser.display.terminal import show
        from smoothcruiser.displayable import page_of

        page = page_of(summary)
        notes = () if note is None else (Fields((("note", note),)),)
        show(replace(page, blocks=(*page.blocks, *notes)))
    if stopped:
        sys.exit(SIGNALLED + stopped[0])


def _check_promise(problem: Any, method: str, request: dict[str, Any]) -> str | None:
    """Refuse a method that plans by a promise where there is none.

    Returns a note on the method's own delta, where none was named.
    """
    from smoothcruiser.methods import resolve
    from smoothcruiser.methods.base import default_delta_note

    planner = resolve(method)
    goal_names = ("epsilon", "budget", "seconds", "seconds_total")
    has_no_goal = all(request[name] is None for name in goal_names)
    no_delta = request["delta"] is None and planner.default_delta is None
    if planner.needs_promise(problem) and (has_no_goal or no_delta):
        delta_hint = " --delta 0.1" if no_delta else ""
        raise InvalidInput(
            f"Method {method} plans every decision by a promise: give --epsilon 5%"
            f"{delta_hint}, or a limit (--seconds, --budget)"
            f"{delta_hint and ' and' + delta_hint}, or take a planner without one: "
            "--method uct --budget 10000."
        )
    delta = planner.default_delta
    solves_exactly = method == "auto" and not planner.needs_promise(problem)
    if request["delta"] is not None or delta is None or solves_exactly:
        return None
    return default_delta_note(delta)


def _opponent(text: str, problem: Any, request: dict[str, Any]) -> Any:
    """The other player: random, a planner with the agent's own limits and
    another seed that does not ponder, or a function of the user's.
    """
    import numpy as np

    from smoothcruiser.jit.random import Key
    from smoothcruiser.methods import METHODS
    from smoothcruiser.playing.agent import Agent
    from smoothcruiser.playing.episodes import random_player

    if text == "random":
        return random_player
    if text in METHODS:
        _check_promise(problem, text, request)
        seed_sequence = np.random.SeedSequence(
            request["seed"], spawn_key=(Key.OTHER_PLAYER,)
        )
        seed = int(seed_sequence.generate_state(1)[0])
        return Agent(problem, text, **{**request, "seed": seed, "ponder": False})
    if ":" not in text and not text.endswith(ARRAY):
        raise InvalidInput(
            f"The opponent is random, a method ({', '.join(METHODS)}), "
            f"module:function or a file {ARRAY}, got {text!r}."
        )
    return load_player(text, "opponent")


def _refuse_method(context: click.Context, method: str) -> None:
    """Refuse a method beside a policy, which takes its place."""
    if (
        context.get_parameter_source("method")
        is not click.core.ParameterSource.DEFAULT
    ):
        raise InvalidInput(
            f"--policy takes the place of a method, and --method {method} was given as "
            "well; drop one of the two."
        )
