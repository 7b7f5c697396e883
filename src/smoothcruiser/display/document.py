"""A page as data: a title and blocks, which every renderer shows in its own way.

    object  ->  builder  ->  Page  ->  terminal (text)  or  markup (HTML)

Builders (``answers``, ``plans``, ``result_pages``, …) choose the words, renderers choose
the form. So the terminal, ``print``, a notebook and the report page cannot disagree.
All text in a page is taken literally: renderers escape everything that a terminal or a
browser would obey.

This file leaves out how anything looks.

Tables as lines of text that fit a width.

Columns are two blanks apart. A table that is too wide gives way in this order, and
loses nothing before the last step:

  wrap    cells of the last column are wrapped under themselves
  heads   headings are broken at their blanks
  below   a column of long names goes below the rows that they belong to
  cut     long names end in an ellipsis
  stack   each row stands as lines, a heading and its cell on each

Widths are counted in cells of a terminal, two for a wide character.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rich.cells import cell_len
from rich.text import Text

from smoothcruiser.errors import printable
from smoothcruiser.schedule.number_text import bounds, format_decimals

Tone = Literal["", "strong", "good", "dim", "warning"]


@dataclass(frozen=True)
class Phrase:
    """A piece of a sentence in one tone."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Styled:
    """A sentence of pieces with tones; ``str`` is its plain text."""

    parts: tuple[Phrase, ...]

    def __str__(self) -> str:
        return "".join(phrase.text for phrase in self.parts)


Sentence: TypeAlias = str | Styled
Labelled: TypeAlias = tuple[str, Sentence]  # a label and the sentence beside it


def style_sentence(text: str, tone: Tone) -> Styled:
    """A sentence in one tone."""
    return Styled((Phrase(text, tone),))


@dataclass(frozen=True, kw_only=True)
class Block:
    """The common fields of blocks. A terminal puts an empty line between blocks."""

    heading: str = ""  # of the part of the page that begins here; not in a terminal
    caption: Sentence = ""  # stands right above the block
    tight: bool = False  # whether it follows the block before without an empty line
    detail: bool = False  # whether a terminal leaves it out


@dataclass(frozen=True)
class Fields(Block):
    """Labels on the left, sentences on the right."""

    rows: tuple[Labelled, ...]


@dataclass(frozen=True)
class Paragraph(Block):
    """A sentence or more, wrapped."""

    sentence: Sentence


@dataclass(frozen=True)
class Verbatim(Block):
    """Lines that are kept as they are, such as the levels of a plan."""

    lines: tuple[str, ...]
    head: str = ""  # a line of headings above them
    tone: Tone = ""


@dataclass(frozen=True)
class Bullets(Block):
    """A list of alternatives."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    ``fit`` is the treatment of its cells where the table is too wide: they stay
    "whole", are "cut" with an ellipsis, "wrap" (the last column), or go "below" their
    row.
    """

    heading: str
    right: bool = False  # whether cells stand at its right end, as numbers do
    fit: Literal["whole", "cut", "wrap", "below"] = "whole"
    tone: Tone = ""


@dataclass(frozen=True)
class Grid(Block):
    """A table; ``best`` is the row that stands out."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    best: int | None = None
    more: str = ""  # a note on omitted rows
    indent: int = 2  # columns of a terminal


@dataclass(frozen=True)
class Choice:
    """One action in a table of actions; NaN where a number is not known."""

    label: str
    value: float  # NaN where illegal
    interval: tuple[float, float]
    exact: float
    policy: float  # 0 to 1
    best: bool
    visits: int | None = None  # of a tree search


@dataclass(frozen=True)
class Actions(Block):
    """The values of actions with their intervals, and the policy.

    A terminal draws the policy as bars; HTML draws the intervals on one axis too.
    """

    choices: tuple[Choice, ...]
    digits: int  # decimals of the values
    bounded: bool  # whether intervals are shown
    compared: bool  # whether exact values are
    numbered: bool  # whether actions have no names but their numbers
    word: str = "value"  # the name of the values
    more: str = ""  # a note on omitted actions


@dataclass(frozen=True)
class Drawing(Block):
    """A picture that is SVG already, with all its text escaped; not in a terminal."""

    svg: str


@dataclass(frozen=True)
class Page:
    """A title, the most important part first, and blocks."""

    title: tuple[str, ...]
    blocks: tuple[Block, ...]


def action_grid(block: Actions) -> Grid:
    """Actions in words: the columns that every renderer shows."""
    has_visits = any(choice.visits is not None for choice in block.choices)
    grid_columns = [Column("action", right=block.numbered, fit="cut")]
    grid_columns.append(Column(block.word, right=True))
    grid_columns += [Column("interval", right=True)] if block.bounded else []
    grid_columns += [Column("exact", right=True)] if block.compared else []
    grid_columns += [Column("visits", right=True)] if has_visits else []
    grid_columns.append(Column("policy", right=True))
    grid_rows = tuple(
        _action_cells(block, choice, has_visits) for choice in block.choices
    )
    best_row = next((i for i, choice in enumerate(block.choices) if choice.best), None)
    return Grid(tuple(grid_columns), grid_rows, best=best_row, more=block.more)


def _action_cells(block: Actions, choice: Choice, visited: bool) -> tuple[str, ...]:
    digits, legal = block.digits, not math.isnan(choice.value)
    lower_bound, upper_bound = choice.interval
    cells = [
        choice.label,
        format_decimals(choice.value, digits) if legal else "illegal",
    ]
    if block.bounded:
        interval_text = bounds(lower_bound, upper_bound, digits)
        cells.append("" if math.isnan(lower_bound) else interval_text)
    if block.compared:
        is_unknown = math.isnan(choice.exact) or not legal
        cells.append("" if is_unknown else format_decimals(choice.exact, digits))
    if visited:
        cells.append("" if choice.visits is None else f"{choice.visits:,}")
    return (*cells, f"{100.0 * choice.policy:.1f}%")


GAP = 2  # blanks between columns
LEAST_WRAPPED = 20  # columns of a cell that is wrapped
LEAST_CUT = 6  # columns of a cell that is cut
STYLES = {
    "": "",
    "strong": "bold",
    "good": "bold green",
    "dim": "dim",
    "warning": "yellow",
}


def truncate_text(text: str, width: int) -> str:
    """The text on one line of at most ``width`` columns, with an ellipsis if cut."""
    shortened_text = Text(printable(text, keep=""))
    shortened_text.truncate(max(1, width), overflow="ellipsis")
    return shortened_text.plain


@dataclass
class _Widths:
    """The columns of a table while they are fitted."""

    columns: list[Column]
    heads: list[str]
    cells: list[list[str]]  # by row
    room: int

    def __post_init__(self) -> None:
        self.broken = False  # whether headings stand on several lines
        self.widths = [self._needed_width(k) for k in range(len(self.columns))]

    def _needed_width(self, k: int) -> int:
        heads = self.heads[k].split() if self.broken else [self.heads[k]]
        cells = [row[k] for row in self.cells]
        return max((cell_len(x) for x in (*heads, *cells)), default=0)

    @property
    def excess(self) -> int:
        """Columns that are missing."""
        return sum(self.widths) + GAP * (len(self.widths) - 1) - self.room

    def fit(self) -> bool:
        """Fit all but the columns that can go below; return whether these must."""
        if self.excess > 0 and self.columns[-1].fit == "wrap":
            last_width = self.widths[-1] - self.excess
            self.widths[-1] = max(LEAST_WRAPPED, last_width)
        if self.excess > 0:
            self.broken = True
            is_wrapped = self.columns[-1].fit == "wrap"
            for k in range(len(self.columns) - is_wrapped):
                self.widths[k] = self._needed_width(k)
        if self.excess > 0 and any(column.fit == "below" for column in self.columns):
            return True
        cuttable_columns = [
            k for k, column in enumerate(self.columns) if column.fit == "cut"
        ]
        while self.excess > 0 and cuttable_columns:
            widest = max(cuttable_columns, key=lambda k: self.widths[k])
            if self.widths[widest] <= LEAST_CUT:
                break
            self.widths[widest] -= 1
        return False


def table_lines(grid: Grid, width: int) -> list[Text]:
    """The lines of a table, its headings first."""
    columns, heads = list(grid.columns), [column.heading for column in grid.columns]
    cells = [[printable(cell, keep="") for cell in row] for row in grid.rows]
    below: list[list[str]] = [[] for _ in cells]
    fitted_widths = _Widths(columns, heads, cells, width - grid.indent)
    if fitted_widths.fit():
        kept_columns = [k for k, column in enumerate(columns) if column.fit != "below"]
        below = [
            [c for k, c in enumerate(row) if k not in kept_columns] for row in cells
        ]
        cells = [[row[k] for k in kept_columns] for row in cells]
        columns, heads = (
            [columns[k] for k in kept_columns],
            [heads[k] for k in kept_columns],
        )
        fitted_widths = _Widths(columns, heads, cells, width - grid.indent)
        fitted_widths.fit()
    if fitted_widths.excess > 0:
        return _stack_rows(grid, width)
    widths, indent = fitted_widths.widths, " " * grid.indent
    text_lines: list[Text] = []
    if any(heads):
        heading_words = [
            head.split() if fitted_widths.broken else [head] for head in heads
        ]
        heading_height = max(len(words) for words in heading_words)
        for i in range(heading_height):  # at the bottom of their lines
            line = [
                words[i - heading_height + len(words)]
                if i >= heading_height - len(words)
                else ""
                for words in heading_words
            ]
            text_lines.append(_line(indent, line, widths, columns, "dim"))
    for number, (row, names_below) in enumerate(zip(cells, below, strict=True)):
        style = "bold" if number == grid.best else ""
        for line in _wrap_row(row, widths, columns):
            text_lines.append(_line(indent, line, widths, columns, style))
        first_indent = " " * (widths[0] + GAP)
        text_lines += [
            Text(f"{indent}{first_indent}{name}", style=style) for name in names_below
        ]
    return text_lines + _omission_lines(grid, width)


def _omission_lines(grid: Grid, width: int) -> list[Text]:
    """The note on omitted rows, wrapped."""
    indent = " " * grid.indent
    lines = textwrap.wrap(printable(grid.more, keep=""), max(1, width - grid.indent))
    return [Text(f"{indent}{line}", style="dim") for line in lines]


def _stack_rows(grid: Grid, width: int) -> list[Text]:
    """A table that is too wide for any columns: an empty line between two rows."""
    indent = " " * grid.indent
    label_width = max(cell_len(column.heading) for column in grid.columns)
    cell_width = max(LEAST_CUT, width - grid.indent - label_width - GAP)
    text_lines: list[Text] = []
    for number, row in enumerate(grid.rows):
        style = "bold" if number == grid.best else ""
        text_lines += [Text("")] if number else []
        for column, cell in zip(grid.columns, row, strict=True):
            if not cell.strip():
                continue
            padded_heading = column.heading + " " * (
                label_width - cell_len(column.heading) + GAP
            )
            line = Text(indent, style=style).append(padded_heading, style="dim")
            text_lines.append(line.append(truncate_text(cell, cell_width)))
    return text_lines + _omission_lines(grid, width)


def _wrap_row(
    row: list[str], widths: list[int], columns: list[Column]
) -> list[list[str]]:
    """The lines of a row: one, unless its last cell is wrapped."""
    if columns[-1].fit != "wrap" or cell_len(row[-1]) <= widths[-1]:
        return [row]
    pieces = textwrap.wrap(row[-1], widths[-1]) or [""]
    further_lines = [["" for _ in row[:-1]] + [piece] for piece in pieces[1:]]
    return [[*row[:-1], pieces[0]], *further_lines]


def _line(
    indent: str, cells: list[str], widths: list[int], columns: list[Column], style: str
) -> Text:
    line = Text(indent, style=style)
    for k, (cell, width, column) in enumerate(
        zip(cells, widths, columns, strict=True)
    ):
        cell_text = truncate_text(cell, width) if column.fit == "cut" else cell
        blanks = " " * max(0, width - cell_len(cell_text))
        line.append(" " * GAP if k else "")
        line.append(blanks + cell_text if column.right else cell_text + blanks)
        if column.tone and not style:
            line.stylize(STYLES[column.tone], len(line) - max(width, len(cell_text)))
    line.rstrip()
    return line
