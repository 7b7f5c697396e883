"""The command ``gap``: how far a policy is from optimal."""

from __future__ import annotations

import sys
from typing import Any

import click

from smoothcruiser.cli.exit_codes import SIGNALLED, ctrl_c
from smoothcruiser.cli.options import (
    Calls,
    Probability,
    load_player,
    print_json,
    problem_options,
    state_of,
    state_option,
)

WORDS = "random, greedy (on the value), module:name, or a file .npy or .json"


@click.command()
@problem_options
@click.option(
    "--policy",
    default="greedy",
    show_default=True,
    metavar="WHAT",
    help=f"The policy in question: {WORDS}.",
)
@click.option(
    "--opponent",
    metavar="WHAT",
    help="In games: the policy of player 2, in the same forms; --policy is player 1's.",
)
@click.option(
    "--value",
    metavar="WHAT",
    help=(
        "An estimate of V to steer by: a number, module:name, or a file .npy or .json.  "
        "[default: fitted on rollouts]"
    ),
)
@click.option(
    "--features",
    metavar="MODULE:NAME",
    help="A function of the state that returns numbers, for the fit.",
)
@click.option(
    "--epsilon",
    metavar="E",
    help='Half-width to stop at: 0.1, 5% (of the value span), or "1% of value".',
)
@click.option(
    "--delta",
    type=Probability(),
    metavar="D",
    help="Allowed probability of failure.  [default: 0.05]",
)
@click.option(
    "--upper",
    default="auto",
    show_default=True,
    metavar="SOURCE",
    help="Source of the upper end: auto, exact, certified or paths.",
)
@click.option(
    "--inner",
    type=int,
    metavar="M",
    help="Inner samples per state and action.  [default: chosen by a pilot]",
)
@state_option
@click.option(
    "--budget",
    type=Calls(),
    metavar="CALLS",
    help="Most oracle calls to pay, such as 1e8.",
)
@click.option("--seconds", type=float, metavar="T", help="Stop after this long.")
@click.option(
    "--seed",
    type=int,
    metavar="N",
    help="Of the random numbers.  [default: a fresh one, which the answer names]",
)
@click.option("--executor", metavar="NAME", help="compiled or reference.")
@click.option(
    "--workers",
    type=int,
    metavar="W",
    help="Threads or processes.  [default: all cores]",
)
@click.option(
    "--report",
    "page",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the answer as one HTML page too.",
)
def gap(
    problem: Any, state: Any, as_json: bool, page: str | None, **request: Any
) -> None:
    """How far a policy is from optimal, with two-sided bounds on V.

    The step is replayed under one stream of random numbers per time: no state has to
    come back. PROBLEM is built in (storage) or your own (module:attribute).
    """
    from smoothcruiser.duality.gap_request import gap as compute_gap
    from smoothcruiser.progress.bar import Bar

    if page is not None:
        from smoothcruiser.display.page import check_page

        check_page(page)
    start_state = state_of(problem, state)
    policy = _load_policy(problem, request.pop("policy"), "policy")
    opponent = request.pop("opponent")
    if opponent is not None:
        request["policies"] = (policy, _load_policy(problem, opponent, "opponent"))
        policy = None
    value = _load_value(request.pop("value"))
    if request["features"] is not None:
        request["features"] = load_player(request["features"], "function of features")
    request = {name: answer for name, answer in request.items() if answer is not None}
    with ctrl_c() as stopped:
        bar = Bar(lines=False)
        answer = compute_gap(
            problem, policy, value, start_state, progress=bar, **request
        )
    if as_json:
        print_json(answer.to_dict())
    else:
        _show_answer(problem, start_state, answer)
    if page is not None:
        from smoothcruiser.display.page import write_page
        from smoothcruiser.displayable import page_of

        write_page(page, page_of(answer))
    if stopped:
        sys.exit(SIGNALLED + stopped[0])


def _load_policy(problem: Any, text: str, role: str) -> Any:
    """The policy that a word, a module or a file names; None is greedy on the value."""
    if text == "greedy":
        return None
    if text == "random":
        return _random_policy(problem)
    return load_player(text, role)


def _random_policy(problem: Any) -> Any:
    """The policy that takes every legal action with one probability."""

    def choose_randomly(state: Any) -> list[float]:
        legal_actions = problem.legal_actions(state)
        share = 1.0 / len(legal_actions)
        actions = range(problem.num_actions)
        return [share if a in legal_actions else 0.0 for a in actions]

    return choose_randomly


def _load_value(text: str | None) -> Any:
    """The value that a number, a module or a file names; None: it is fitted."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return load_player(text, "value")


def _show_answer(problem: Any, state: Any, answer: Any) -> None:
    """Print the sentence, the request and the numbers."""
    from smoothcruiser.display.document import Page
    from smoothcruiser.display.gap_pages import gap_blocks, sentence_block
    from smoothcruiser.display.listing_pages import request_page
    from smoothcruiser.display.terminal import show

    request_head = request_page("gap", problem, state)
    blocks = (sentence_block(answer), *request_head.blocks, *gap_blocks(answer))
    show(Page(request_head.title, blocks))
