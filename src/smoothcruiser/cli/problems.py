"""The command ``problems``: the built-in problems, and the installed adapters."""

from __future__ import annotations

from typing import Any

import click

from smoothcruiser.cli.options import json_option, print_json

# the JSON Schema of the output of --json: an object by the names of problems
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "problems",
    "description": (
        "The built-in problems by name, and the adapters by prefix with a colon."
    ),
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {
            "parameters": {"type": "object", "description": "name -> default"},
            "summary": {"type": "string"},
            "example": {
                "type": "string",
                "description": "of an adapter: a whole name",
            },
            "needs": {"type": "string", "description": "what to install with pip"},
            "installed": {
                "type": ["boolean", "null"],
                "description": "whether its library can be imported; null: not known",
            },
            "missing": {"type": "array", "items": {"type": "string"}},
            "fault": {"type": "string", "description": "why it cannot be imported"},
        },
        "required": ["parameters", "summary"],
        "additionalProperties": False,
    },
}


@click.command()
@json_option
def problems(as_json: bool) -> None:
    """List the built-in problems and their parameters, and what adapters are there."""
    if as_json:
        print_json(_as_data())
        return
    from smoothcruiser.display.listing_pages import zoo_page
    from smoothcruiser.display.terminal import show

    show(zoo_page())


def _as_data() -> dict[str, Any]:
    from smoothcruiser.problem.adapter_protocol import list_adapters
    from smoothcruiser.problem.zoo import ZOO

    built_in: dict[str, Any] = {
        name: {"parameters": entry.defaults, "summary": entry.summary}
        for name, entry in ZOO.items()
    }
    adapters: dict[str, Any] = {
        f"{name}:": {
            "parameters": {},
            "summary": adapter.summary,
            "example": adapter.example,
            "needs": adapter.needs,
            "installed": adapter.installed,
            "missing": list(adapter.missing or ()),
            "fault": adapter.fault,
        }
        for name, adapter in list_adapters().items()
    }
    return built_in | adapters
