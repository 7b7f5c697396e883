"""A Sphinx extension: parts of pages that are written from the package itself.

A page holds a line such as ``<!-- written: commands -->``; while the page is read, the
line is replaced by the Markdown that the function of that name returns. So the pages
cannot fall behind the program. ``PARTS`` is the table; to add a part, add a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import parts
from sphinx.application import Sphinx

PARTS: dict[str, Callable[[], str]] = {
    "commands": parts.commands,
    "problems": parts.problems,
    "schemas": parts.schemas,
    "store": parts.store,
}
LINE = re.compile(r"^<!-- written: (\w+) -->$", re.MULTILINE)


def read(_app: Sphinx, page: str, source: list[str]) -> None:
    """Fill in what is written from the package."""

    def part(found: re.Match[str]) -> str:
        if found[1] not in PARTS:
            raise ValueError(f"{page}: nothing is called {found[1]!r}")
        return PARTS[found[1]]()

    source[0] = LINE.sub(part, source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
