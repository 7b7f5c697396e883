"""The parts of every terminal page: a console, headings, labelled sentences.

Pages fit 80 columns and up, and are plain text when piped. Answers go to
standard output; progress and errors to standard error, so that a pipe carries
the answer alone. Nothing in ``display`` computes an answer: numbers come from
the Schedule, the Estimate and ``display.price``. Bars and stems are single
characters, never control codes, unless the stream is a terminal.

Names, notes, paths and errors may hold anything, a terminal's control codes too. Every
page and every error goes out through a ``SafeConsole``, which shows such characters
escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from smoothcruiser.errors import printable

LABEL = 9  # width of the names on the left: the longest is 'recommend'
# lines longer than this are hard to read; a wide terminal does not change that
WIDEST = 110
# tables cannot be laid out in less; a narrower terminal wraps their lines
NARROWEST = 40

Fields: TypeAlias = list[tuple[str, str | Text]]


class SafeConsole(Console):
    """A console that takes text literally and shows control characters escaped.

    It prints no colours into a pipe.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(
            stderr=stderr, highlight=False, soft_wrap=False, markup=False, emoji=False
        )

    def render_str(self, text: str, **how: Any) -> Text:
        """The text of a cell or a line."""
        return super().render_str(printable(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The pieces of a block; a Text that was built elsewhere is escaped first."""
        if isinstance(renderable, Text):
            renderable = _escaped(renderable)
        return super().render(renderable, options)


def _escaped(text: Text) -> Text:
    """The text with its styles, and with control characters escaped."""
    if printable(text.plain) == text.plain:
        return text
    # each character that is not shown as it is becomes a part of its own
    cuts = [i for i, c in enumerate(text.plain) if printable(c) != c]
    parts = text.divide(sorted({*cuts, *(i + 1 for i in cuts)}))
    clean = text.blank_copy()
    for part in parts:
        shown = printable(part.plain)
        clean.append_text(part if shown == part.plain else Text(shown, part.style))
    return clean


def console(*, stderr: bool = False) -> Console:
    """The console of a page or of errors, neither too wide nor too narrow to read."""
    out = SafeConsole(stderr=stderr)
    width = min(max(out.width, NARROWEST), WIDEST)
    if width != out.width:
        out.width = width
    return out


def put(out: Console, block: RenderableType) -> None:
    """Print a block; into a pipe without the spaces that fill its lines."""
    if out.is_terminal:
        out.print(block)
        return
    with out.capture() as captured:
        out.print(block)
    for line in captured.get().splitlines():
        out.print(Text(line.rstrip()), soft_wrap=True)


def fields(pairs: Iterable[tuple[str, str | Text]]) -> Padding:
    """Names on the left, sentences on the right, wrapped under themselves."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True, min_width=LABEL)
    grid.add_column()
    for name, text in pairs:
        grid.add_row(name, text)
    return indented(grid)


def title(out: Console, *parts: str) -> None:
    """A heading: the command, then what it is about."""
    head = Text(parts[0], style="bold")
    for part in parts[1:]:
        head.append(" · ", style="dim").append(printable(part, keep=""))
    out.print(head, soft_wrap=True)
    out.print()


def indented(block: RenderableType) -> Padding:
    """A block two columns to the right."""
    return Padding(block, (0, 0, 0, 2))
