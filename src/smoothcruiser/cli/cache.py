"""The command ``cache``: the compiled code and the schedules that are kept on disk."""

from __future__ import annotations

from typing import Any

import click

from smoothcruiser.cli.options import json_option, print_json

COUNTS = {
    "type": "object",
    "properties": {"files": {"type": "integer"}, "bytes": {"type": "integer"}},
    "required": ["files", "bytes"],
    "additionalProperties": False,
}
# the JSON Schema of the output of --json
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "cache",
    "description": "The cache on disk: its folder, and its entries by kind.",
    "type": "object",
    "properties": {
        "folder": {
            "type": ["string", "null"],
            "description": "null: there is no folder that only you can write",
        },
        "code": COUNTS | {"description": "machine code of this library"},
        "schedule": COUNTS | {"description": "schedules of earlier searches"},
        "removed": {"type": "integer", "description": "files that clear removed"},
    },
    "required": ["folder", "code", "schedule"],
    "additionalProperties": False,
}
TITLES = {"code": "machine code", "schedule": "schedules"}


@click.command()
@click.argument("action", type=click.Choice(["show", "clear"]), default="show")
@json_option
def cache(action: str, as_json: bool) -> None:
    """Show or clear the cache on disk: machine code and schedules.

    Nothing in it is needed: what is missing is compiled, or searched for, again.
    """
    from smoothcruiser.jit import disk_cache

    removed = {"removed": disk_cache.clear()} if action == "clear" else {}
    folder = disk_cache.find_folder()
    cache_data: dict[str, Any] = {"folder": folder and str(folder)}
    cache_data |= disk_cache.count_entries() | removed
    if as_json:
        print_json(cache_data)
        return
    click.echo(
        f"Cache on disk: {folder or 'none (no folder that only you can write)'}"
    )
    for kind, title in TITLES.items():
        counts = cache_data[kind]
        click.echo(
            f"  {title:<13} {counts['files']:>6,} files {counts['bytes']:>13,} bytes"
        )
    if removed:
        click.echo(f"{removed['removed']:,} files were removed.")
