"""The command ``problems``: what is built in."""

from __future__ import annotations

import click

from smoothcruiser.cli.options import json_option, print_json


@click.command()
@json_option
def problems(as_json: bool) -> None:
    """List the built-in problems and their parameters."""
    if as_json:
        from smoothcruiser.problem.zoo import ZOO

        print_json(
            {
                name: {"parameters": entry.defaults, "summary": entry.summary}
                for name, entry in ZOO.items()
            }
        )
        return
    from smoothcruiser.display.problems import zoo_page
    from smoothcruiser.display.terminal import show

    show(zoo_page())
