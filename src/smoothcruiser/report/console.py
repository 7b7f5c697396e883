"""The parts of every terminal page: a console, headings, labelled sentences.

Pages fit 80 columns and up, and are plain text when piped. Answers go to
standard output; progress and errors to standard error, so that a pipe carries
the answer alone. Nothing in ``report`` computes an answer: numbers come from
the Schedule, the Estimate and ``report.price``. Bars and stems are single
characters, never control codes, unless the stream is a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

LABEL = 9  # width of the names on the left: the longest is 'recommend'
# lines longer than this are hard to read; a wide terminal does not change that
WIDEST = 110

Fields: TypeAlias = list[tuple[str, str | Text]]


def console(*, stderr: bool = False) -> Console:
    """A console that prints no colours into a pipe and takes text literally."""
    out = Console(
        stderr=stderr, highlight=False, soft_wrap=False, markup=False, emoji=False
    )
    if out.width > WIDEST:
        out.width = WIDEST
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
        head.append(" · ", style="dim").append(part)
    out.print(head, soft_wrap=True)
    out.print()


def indented(block: RenderableType) -> Padding:
    """A block two columns to the right."""
    return Padding(block, (0, 0, 0, 2))
