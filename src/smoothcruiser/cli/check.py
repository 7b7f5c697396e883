"""The command ``check``: is this oracle usable, and is what it claims true?"""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from smoothcruiser.cli.options import (
    problem_of,
    problem_options,
    state_of,
    state_option,
)

# exit code: the check ran and found a fault (2 is a request that cannot be met)
WRONG = 1


@click.command()
@click.argument("problem")
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
    type=float,
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
def check(
    problem: str,
    discount: float | None,
    temperature: float | None,
    operator: str | None,
    as_json: bool,
    state: Any,
    epsilon: str,
    delta: float,
    call_seconds: float,
    seed: int,
) -> None:
    """Test a simulator: randomness, independence, rewards, states, claims, speed.

    Exit code 1 if something is wrong, with a sentence on what to mend.
    """
    from smoothcruiser.check import check as check_problem

    made = problem_of(problem, discount, temperature, operator)
    report = check_problem(
        made,
        state_of(made, state),
        epsilon=epsilon,
        delta=delta,
        seed=seed,
        call_seconds=call_seconds,
    )
    if as_json:
        click.echo(json.dumps(report.to_dict()))
    else:
        _show(report)
    if not report.ok:
        sys.exit(WRONG)


def _show(report: Any) -> None:
    """Print the findings, wrapped at the console's width."""
    from smoothcruiser.report.console import console, fields, put

    out = console()
    put(
        out,
        (
            f"{report.problem}: {'usable' if report.ok else 'not usable as it is'} "
            f"({report.calls:,} calls)"
        ),
    )
    marks = {"wrong": "WRONG"}
    put(
        out,
        fields(
            (marks.get(f.verdict, f.verdict), f"{f.name}: {f.sentence}")
            for f in report.findings
        ),
    )
