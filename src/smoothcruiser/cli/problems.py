"""The command ``problems``: what is built in."""

from __future__ import annotations

import click

from smoothcruiser.cli.options import json_option, print_json

# the JSON Schema of what --json prints: an object by the names of problems
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "problems",
    "description": "The built-in problems, by name.",
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {
            "parameters": {"type": "object", "description": "name -> default"},
            "summary": {"type": "string"},
        },
        "required": ["parameters", "summary"],
    },
}


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
