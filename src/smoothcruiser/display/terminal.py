"""Pages as text: on a terminal with colours, as plain lines in a pipe or a string.

Sentences are wrapped, tables and lines of a plan are kept whole. A terminal obeys no
control code of a text (``console.SafeConsole``).

Consoles that take text literally, neither too wide nor too narrow to read.

Pages fit 80 columns and up, and are plain text when piped. Answers go to
standard output; progress and errors to standard error, so that a pipe carries
the answer alone. Nothing in ``display`` computes an answer: numbers come from
the Schedule, the Estimate and ``display.price_text``. Bars and stems are single
characters, never control codes, unless the stream is a terminal.

Names, notes, paths and errors may hold anything, a terminal's control codes too. Every
page and every error goes out through a ``SafeConsole``, which shows such characters
escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from io import StringIO
from typing import IO, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from smoothcruiser.display.document import (
    STYLES,
    Actions,
    Block,
    Bullets,
    Choice,
    Column,
    Drawing,
    Fields,
    Grid,
    Page,
    Paragraph,
    Sentence,
    Styled,
    Verbatim,
    action_grid,
    table_lines,
    truncate_text,
)
from smoothcruiser.errors import printable, spell_arguments

LABEL = 9  # width of the labels on the left: the longest common one is 'closed by'
# characters of a policy bar that stand for probability 1; the shorter ones where
# numbers or long names of actions need the room
BARS = (20, 8, 0)
ENOUGH = 24  # columns for a name: more than that does not shorten the bars
UNLIMITED = 10**6  # columns: nothing is cut


def show(page: Page) -> None:
    """Print a page to standard output."""
    print_page(console(), page)


def text_of(page: Page, width: int) -> str:
    """The page as plain text without a line end at its end."""
    text_buffer = StringIO()
    out = SafeConsole(file=text_buffer, width=min(max(width, NARROWEST), WIDEST))
    print_page(out, page)
    lines = text_buffer.getvalue().strip("\n").split("\n")
    return "\n".join(line.rstrip() for line in lines)


def print_page(out: Console, page: Page) -> None:
    """Print the title, an empty line, and the blocks."""
    if page.title:
        title_text = Text(printable(page.title[0], keep=""), style="bold")
        for subtitle in page.title[1:]:
            title_text.append(" · ", style="dim").append(printable(subtitle, keep=""))
        # a string has a width; a terminal wraps by itself, and a pipe has none
        out.print(title_text, soft_wrap=not _is_string(out))
    print_blocks(out, page.blocks, begun=bool(page.title))


def print_blocks(
    out: Console, blocks: Iterable[Block], *, begun: bool = False
) -> None:
    """Print blocks with an empty line between them, one before if it has ``begun``."""
    for block in blocks:
        if block.detail:
            continue
        if begun and not block.tight:
            out.print()
        begun = True
        if block.caption:
            print_block(out, _text(block.caption))
        PRINTERS[type(block)](out, block)


def _is_string(out: Console) -> bool:
    return isinstance(out.file, StringIO)


def _text(sentence: Sentence) -> Text:
    """A sentence with its tones."""
    if not isinstance(sentence, Styled):
        return Text(spell_arguments(sentence))
    text = Text()
    for phrase in sentence.parts:
        text.append(spell_arguments(phrase.text), style=STYLES[phrase.tone])
    return text


def _fields(out: Console, block: Fields) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True, min_width=LABEL)
    grid.add_column(overflow="fold")  # a path that is longer than a line stays whole
    for label, sentence in block.rows:
        grid.add_row(label, _text(sentence))
    print_block(out, _indent_block(grid))


def _paragraph(out: Console, block: Paragraph) -> None:
    print_block(out, _text(block.sentence))


def _verbatim(out: Console, block: Verbatim) -> None:
    lines = [(line, STYLES[block.tone]) for line in block.lines]
    for line, style in [(block.head, "dim")] * bool(block.head) + lines:
        line_text = truncate_text(line, out.width) if _is_string(out) else line
        out.print(Text(line_text, style=style), soft_wrap=True)


def _bullets(out: Console, block: Bullets) -> None:
    grid = Table.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column(overflow="fold")
    for alternative in block.items:
        grid.add_row("•", alternative)
    print_block(out, _indent_block(grid))


def _grid(out: Console, block: Grid) -> None:
    for line in table_lines(block, out.width):
        out.print(line, soft_wrap=True)


def _drawing(out: Console, block: Drawing) -> None:
    """Nothing: a terminal shows no pictures."""


def _indent_block(block: RenderableType) -> Padding:
    return Padding(block, (0, 0, 0, 2))


# --- actions ------------------------------------------------------------------


def _actions(out: Console, block: Actions) -> None:
    """The table with the longest bars that leave enough room for the names."""
    longest_name = max(cell_len(choice.label) for choice in block.choices)
    for bar_length in BARS:
        grid = _add_bars(block, bar_length)
        table_width = max(line.cell_len for line in table_lines(grid, UNLIMITED))
        if table_width - max(0, longest_name - ENOUGH) <= out.width:
            break
    _grid(out, grid)


def _add_bars(block: Actions, full: int) -> Grid:
    """The table of actions with bars of a length."""
    grid = action_grid(block)
    bars = [_bar(choice, full) for choice in block.choices]
    rows = tuple((*row, bar) for row, bar in zip(grid.rows, bars, strict=True))
    return replace(grid, columns=(*grid.columns, Column("")), rows=rows)


def _bar(choice: Choice, full: int) -> str:
    share = min(1.0, max(0.0, choice.policy))  # 0 where it is not known
    bar_text = ("█" * round(full * share) or "▏") if full else ""
    return f"{bar_text}{'  ' if full else ''}recommended" if choice.best else bar_text


PRINTERS: dict[type[Block], Callable[[Console, Any], None]] = {
    Actions: _actions,
    Bullets: _bullets,
    Drawing: _drawing,
    Fields: _fields,
    Grid: _grid,
    Paragraph: _paragraph,
    Verbatim: _verbatim,
}


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
            into_text |= {
                "width": width,
                "color_system": None,
                "legacy_windows": False,
            }
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
