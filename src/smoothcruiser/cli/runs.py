"""The command ``runs``: what a store holds."""

from __future__ import annotations

import os

import click

from smoothcruiser.cli.options import json_option, print_json
from smoothcruiser.errors import InvalidInput


@click.command()
@click.option(
    "--store",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    required=True,
    help="The file that runs are kept in.",
)
@json_option
def runs(store: str, as_json: bool) -> None:
    """List the runs of a store, finished and unfinished."""
    from smoothcruiser.engines.store import Store

    if not os.path.exists(store):
        raise InvalidInput(
            f"The store {store} does not exist; give the file of a plan that ran with "
            "--store."
        )
    with Store(store) as opened:
        listed = opened.runs()
    if as_json:
        print_json({"runs": [run.to_dict() for run in listed]})
        return
    from smoothcruiser.report.console import console
    from smoothcruiser.report.runs import show_runs

    show_runs(console(), store, listed)
