"""The command ``check``: is this oracle usable, and are its claims true?"""

from __future__ import annotations

import sys
from typing import Any

import click

from smoothcruiser.cli.options import (
    Probability,
    print_json,
    problem_options,
    state_of,
    state_option,
)

# exit code: the check ran and found a fault (2 is a request that cannot be met)
WRONG = 1


@click.command()
@problem_options
@state_option
@click.option(
    "--epsilon",
    default="10%",
    show_default=True,
    metavar="E",
    help="The promise whose price is shown.",
)
@click.option(
    "--delta",
    type=Probability(),
    default=0.1,
    show_default=True,
    metavar="D",
    help="Its probability of failure.",
)
@click.option(
    "--call-seconds",
    type=float,
    default=10.0,
    show_default=True,
    metavar="T",
    help="A call that takes longer is taken to hang.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Of the random numbers."
)
def check(problem: Any, state: Any, as_json: bool, **request: Any) -> None:
    """Test a simulator: randomness, independence, rewards, states, claims, speed.

    Exit code 1 if something is wrong, with a sentence on what to fix.
    """
    from smoothcruiser.checks import check as check_problem

    report = check_problem(problem, state_of(problem, state), **request)
    if as_json:
        print_json(report.to_dict())
    else:
        from smoothcruiser.display.terminal import show
        from smoothcruiser.displayable import page_of

        show(page_of(report))
    if not report.ok:
        sys.exit(WRONG)
