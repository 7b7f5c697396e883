"""Pages as text: on a terminal with colours, as plain lines in a pipe or a string.

Sentences are wrapped, tables and lines of a plan are kept whole. A terminal obeys no
control code of a text (``console.SafeConsole``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from io import StringIO
from typing import Any

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from smoothcruiser.display.console import (
    NARROWEST,
    WIDEST,
    SafeConsole,
    console,
    print_block,
)
from smoothcruiser.display.document import (
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
)
from smoothcruiser.display.layout import STYLES, table_lines, truncate_text
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


def print_blocks(out: Console, blocks: Iterable[Block], *, begun: bool = False) -> None:
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
