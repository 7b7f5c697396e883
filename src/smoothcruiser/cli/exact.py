"""The command ``exact``: the solution of a known model."""

from __future__ import annotations

import sys
from typing import Any

import click

from smoothcruiser.cli.exit_codes import SIGNALLED, ctrl_c
from smoothcruiser.cli.options import (
    print_json,
    problem_options,
    state_of,
    state_option,
)


@click.command()
@problem_options
@state_option
def exact(problem: Any, state: Any, as_json: bool) -> None:
    """Solve a problem whose model is known: no sampling, no doubt.

    PROBLEM is built in (chain:n=5), or your own with tables or outcomes
    (module:attribute).
    """
    from smoothcruiser import api
    from smoothcruiser.progress.bar import Bar

    start_state = state_of(problem, state)
    with ctrl_c() as stopped:
        bar = Bar(lines=False)
        estimate = api.plan(problem, start_state, method="exact", progress=bar)
    if as_json:
        print_json(estimate.to_dict())
    else:
        from smoothcruiser.display.answer_pages import answer_blocks
        from smoothcruiser.display.document import Page
        from smoothcruiser.display.listing_pages import request_page
        from smoothcruiser.display.terminal import show

        request_head = request_page("exact", problem, start_state)
        show(
            Page(request_head.title, (*request_head.blocks, *answer_blocks(estimate)))
        )
    if stopped:
        sys.exit(SIGNALLED + stopped[0])
