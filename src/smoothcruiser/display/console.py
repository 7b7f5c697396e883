"""Consoles that take text literally, neither too wide nor too narrow to read.

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
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from smoothcruiser.errors import printable

# lines longer than this are hard to read; a wide terminal does not change that
WIDEST = 110
# tables cannot be laid out in less; a narrower terminal wraps their lines
NARROWEST = 40


class SafeConsole(Console):
    """A console that takes text literally and shows control characters escaped.

    It prints no colours into a pipe.
    """

    def __init__(
        self,
        *,
        stderr: bool = False,
        file: IO[str] | None = None,
        width: int | None = None,
    ) -> None:
        into_text: dict[str, Any] = {}
        if file is not None:  # whatever the surroundings are: no colours, no notebook
            into_text = {"force_terminal": False, "force_jupyter": False, "file": file}
            into_text |= {"width": width, "color_system": None, "legacy_windows": False}
        super().__init__(
            stderr=stderr,
            highlight=False,
            soft_wrap=False,
            markup=False,
            emoji=False,
            **into_text,
        )

    def render_str(self, text: str, **how: Any) -> Text:
        """The text of a cell or a line."""
        return super().render_str(printable(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The pieces of a block; a Text that was built elsewhere is escaped first."""
        if isinstance(renderable, Text):
            renderable = _escape_controls(renderable)
        return super().render(renderable, options)


def _escape_controls(text: Text) -> Text:
    """The text with its styles, and with control characters escaped."""
    if printable(text.plain) == text.plain:
        return text
    # each character that is not shown as it is becomes a part of its own
    control_positions = [i for i, c in enumerate(text.plain) if printable(c) != c]
    pieces = text.divide(
        sorted({*control_positions, *(i + 1 for i in control_positions)})
    )
    escaped_text = text.blank_copy()
    for piece in pieces:
        printable_text = printable(piece.plain)
        escaped_text.append_text(
            piece
            if printable_text == piece.plain
            else Text(printable_text, piece.style)
        )
    return escaped_text


def console(*, stderr: bool = False) -> Console:
    """The console of a page or of errors, neither too wide nor too narrow to read."""
    out = SafeConsole(stderr=stderr)
    width = min(max(out.width, NARROWEST), WIDEST)
    if width != out.width:
        out.width = width
    return out


def print_block(out: Console, block: RenderableType) -> None:
    """Print a block; into a pipe without the spaces that fill its lines."""
    if out.is_terminal:
        out.print(block)
        return
    with out.capture() as captured_output:
        out.print(block)
    for line in captured_output.get().splitlines():
        out.print(Text(line.rstrip()), soft_wrap=True)
