"""A Sphinx extension: docstrings in Google's form, whose text is plain, as reStructuredText.

Napoleon turns sections such as ``Args:`` into fields. Three things are done beside it:
``|x|`` is an absolute value and no substitution, the text of a property is a sentence
even where it has a colon, and the two hyphens that Sphinx puts behind the name of an
argument are a dash (``smartquotes`` is off, since it would turn ``--option`` into one).
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

CONFIG = Config(napoleon_use_rtype=False, napoleon_use_param=True)
LITERAL = re.compile(r"(``.*?``)")


def process(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Rewrite the lines of a docstring in place."""
    kind = "function" if what in ("property", "attribute", "data") else what
    plain = _with_bars(lines)
    made = GoogleDocstring(plain, CONFIG, app, kind, name, thing, options)
    lines[:] = made.lines()


def _with_bars(lines: list[str]) -> list[str]:
    """The lines with | escaped, but in literals and examples."""
    written = []
    example = False
    for line in lines:
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if not example:
            parts = LITERAL.split(line)
            line = "".join(
                part if part.startswith("``") else part.replace("|", "\\|")
                for part in parts
            )
        written.append(line)
    return written


def dashes(_app: Sphinx, tree: nodes.document) -> None:
    """Turn the hyphens between an argument and what it means into a dash."""
    for text in list(tree.findall(nodes.Text)):
        if text == " -- " and isinstance(text.parent, nodes.paragraph):
            text.parent.replace(text, nodes.Text(" – "))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", process)
    app.connect("doctree-read", dashes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
