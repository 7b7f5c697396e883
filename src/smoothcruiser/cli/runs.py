"""The command ``runs``: the runs of a store."""

from __future__ import annotations

import click

from smoothcruiser.cli.options import json_option, print_json


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
    from smoothcruiser.store import Store

    with Store(store, write=False) as opened_store:
        stored_runs = opened_store.runs()
    if as_json:
        print_json(stored_runs.to_dict())
        return
    from smoothcruiser.display.listing_pages import runs_page
    from smoothcruiser.display.terminal import show

    show(runs_page(store, stored_runs))
