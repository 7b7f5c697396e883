"""Markdown written from the package: commands, problems, JSON schemas, the store."""

from __future__ import annotations

import inspect
import json
from typing import Any

import click

from smoothcruiser.cli.app import app
from smoothcruiser.problem.adapter_protocol import list_adapters
from smoothcruiser.problem.zoo import ZOO
from smoothcruiser.records.data import kinds, schema
from smoothcruiser.store.store_file import APPLICATION, TABLES, VERSION

# click keeps no help for arguments
ARGUMENTS = {
    "PROBLEM": "A name of `smoothcruiser problems`, or `module:attribute`.",
    "[PROBLEM]": "A name of `smoothcruiser problems`, or `module:attribute`.",
}


def commands() -> str:
    """Every command: what it does, how it is called, its options."""
    root = click.Context(app, info_name="smoothcruiser")
    return "\n".join(
        _command(name, app.get_command(root, name), root)
        for name in app.list_commands(root)
    )


def _command(name: str, command: click.Command | None, root: click.Context) -> str:
    assert command is not None, name
    context = click.Context(command, info_name=name, parent=root)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f"## {name}",
        "",
        inspect.cleandoc(command.help or "").replace("\b\n", ""),
        "",
        "```text",
        f"smoothcruiser {name} {usage}",
        "```",
        "",
        "| option | meaning |",
        "|---|---|",
    ]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            said = record[1] or ARGUMENTS.get(record[0], "")
            lines.append(f"| `{_cell(record[0])}` | {_cell(said)} |")
    return "\n".join([*lines, ""])


def problems() -> str:
    """The built-in problems and the adapters, as two tables."""
    lines = ["| problem | parameters | what it is |", "|---|---|---|"]
    for name, entry in ZOO.items():
        given = ", ".join(f"{key}={value}" for key, value in entry.defaults.items())
        given = f"`{given}`" if given else ""
        lines.append(f"| `{name}` | {given} | {_cell(entry.summary)} |")
    lines += ["", "| worlds of others | for example | install |", "|---|---|---|"]
    for name, each in list_adapters().items():
        needs = f"`{each.needs}`" if each.needs else "nothing"
        summary = _cell(each.summary)
        lines.append(f"| `{name}:` {summary} | `{each.example}` | {needs} |")
    return "\n".join(lines)


def schemas() -> str:
    """Every JSON schema: its fields as a table, the schema itself beneath."""
    return "\n".join(_schema(kind) for kind in kinds())


def _schema(kind: str) -> str:
    whole = schema(kind)
    lines = [f"## {kind}", "", str(whole.get("description", "")), ""]
    fields = whole.get("properties", {})
    if fields:
        needed = set(whole.get("required", ()))
        lines += ["| field | type | always there |", "|---|---|---|"]
        lines += [
            f"| `{name}` | {_cell(_type(about))} | {'yes' if name in needed else ''} |"
            for name, about in fields.items()
        ]
    text = json.dumps(whole, indent=1, ensure_ascii=False)
    lines += ["", ":::{admonition} The schema", ":class: dropdown", ""]
    return "\n".join([*lines, "```json", text, "```", ":::", ""])


def _type(about: dict[str, Any]) -> str:
    """The type of a field in words."""
    if "const" in about:
        return f"`{json.dumps(about['const'])}`"
    if "$ref" in about:
        return str(about["$ref"]).rsplit("/", 1)[1]
    if "enum" in about:
        return ", ".join(f"`{json.dumps(each)}`" for each in about["enum"])
    for key in ("anyOf", "oneOf"):
        if key in about:
            parts = [word for each in about[key] for word in _type(each).split(", ")]
            return ", ".join(dict.fromkeys(parts))
    kind = about.get("type", "any JSON")
    if kind == "array":
        inner = about.get("items")
        if "prefixItems" in about:
            return "[" + "; ".join(_type(each) for each in about["prefixItems"]) + "]"
        return f"list of {_type(inner)}" if isinstance(inner, dict) else "list"
    words = kind if isinstance(kind, str) else ", ".join(kind)
    return f"{words} ({about['description']})" if "description" in about else words


def store() -> str:
    """The tables of a store, as SQLite has them."""
    lines = [
        f"A store is a SQLite file with application id `0x{APPLICATION:08X}` "
        f"and user version {VERSION}.",
        "",
    ]
    for name, statement in TABLES.items():
        lines += [f"## {name}", "", "```sql", statement, "```", ""]
    return "\n".join(lines)


def _cell(text: object) -> str:
    """Text that fits into one cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")
