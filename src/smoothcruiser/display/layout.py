"""Tables as lines of text that fit a width.

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

import textwrap
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from smoothcruiser.display.document import Column, Grid
from smoothcruiser.errors import printable

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


def cut(text: str, width: int) -> str:
    """The text on one line of at most ``width`` columns, with an ellipsis if cut."""
    shown = Text(printable(text, keep=""))
    shown.truncate(max(1, width), overflow="ellipsis")
    return shown.plain


@dataclass
class _Widths:
    """The columns of a table while they are fitted."""

    columns: list[Column]
    heads: list[str]
    cells: list[list[str]]  # by row
    room: int

    def __post_init__(self) -> None:
        self.broken = False  # whether headings stand on several lines
        self.widths = [self._needed(k) for k in range(len(self.columns))]

    def _needed(self, k: int) -> int:
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
            left = self.widths[-1] - self.excess
            self.widths[-1] = max(LEAST_WRAPPED, left)
        if self.excess > 0:
            self.broken = True
            wrapped = self.columns[-1].fit == "wrap"
            for k in range(len(self.columns) - wrapped):
                self.widths[k] = self._needed(k)
        if self.excess > 0 and any(column.fit == "below" for column in self.columns):
            return True
        able = [k for k, column in enumerate(self.columns) if column.fit == "cut"]
        while self.excess > 0 and able:
            widest = max(able, key=lambda k: self.widths[k])
            if self.widths[widest] <= LEAST_CUT:
                break
            self.widths[widest] -= 1
        return False


def table_lines(grid: Grid, width: int) -> list[Text]:
    """The lines of a table, its headings first."""
    columns, heads = list(grid.columns), [column.heading for column in grid.columns]
    cells = [[printable(cell, keep="") for cell in row] for row in grid.rows]
    below: list[list[str]] = [[] for _ in cells]
    fitted = _Widths(columns, heads, cells, width - grid.indent)
    if fitted.fit():
        kept = [k for k, column in enumerate(columns) if column.fit != "below"]
        below = [[c for k, c in enumerate(row) if k not in kept] for row in cells]
        cells = [[row[k] for k in kept] for row in cells]
        columns, heads = [columns[k] for k in kept], [heads[k] for k in kept]
        fitted = _Widths(columns, heads, cells, width - grid.indent)
        fitted.fit()
    if fitted.excess > 0:
        return _stacked(grid, width)
    widths, indent = fitted.widths, " " * grid.indent
    found: list[Text] = []
    if any(heads):
        split = [head.split() if fitted.broken else [head] for head in heads]
        height = max(len(words) for words in split)
        for i in range(height):  # at the bottom of their lines
            line = [
                words[i - height + len(words)] if i >= height - len(words) else ""
                for words in split
            ]
            found.append(_line(indent, line, widths, columns, "dim"))
    for number, (row, under) in enumerate(zip(cells, below, strict=True)):
        style = "bold" if number == grid.best else ""
        for line in _wrapped(row, widths, columns):
            found.append(_line(indent, line, widths, columns, style))
        first = " " * (widths[0] + GAP)
        found += [Text(f"{indent}{first}{name}", style=style) for name in under]
    return found + _rest(grid, width)


def _rest(grid: Grid, width: int) -> list[Text]:
    """What is left out of a table, in words."""
    indent = " " * grid.indent
    lines = textwrap.wrap(printable(grid.more, keep=""), max(1, width - grid.indent))
    return [Text(f"{indent}{line}", style="dim") for line in lines]


def _stacked(grid: Grid, width: int) -> list[Text]:
    """A table that is too wide for any columns: an empty line between two rows."""
    indent = " " * grid.indent
    label = max(cell_len(column.heading) for column in grid.columns)
    room = max(LEAST_CUT, width - grid.indent - label - GAP)
    found: list[Text] = []
    for number, row in enumerate(grid.rows):
        style = "bold" if number == grid.best else ""
        found += [Text("")] if number else []
        for column, cell in zip(grid.columns, row, strict=True):
            if not cell.strip():
                continue
            head = column.heading + " " * (label - cell_len(column.heading) + GAP)
            line = Text(indent, style=style).append(head, style="dim")
            found.append(line.append(cut(cell, room)))
    return found + _rest(grid, width)


def _wrapped(
    row: list[str], widths: list[int], columns: list[Column]
) -> list[list[str]]:
    """The lines of a row: one, unless its last cell is wrapped."""
    if columns[-1].fit != "wrap" or cell_len(row[-1]) <= widths[-1]:
        return [row]
    pieces = textwrap.wrap(row[-1], widths[-1]) or [""]
    rest = [["" for _ in row[:-1]] + [piece] for piece in pieces[1:]]
    return [[*row[:-1], pieces[0]], *rest]


def _line(
    indent: str, cells: list[str], widths: list[int], columns: list[Column], style: str
) -> Text:
    line = Text(indent, style=style)
    for k, (cell, width, column) in enumerate(zip(cells, widths, columns, strict=True)):
        shown = cut(cell, width) if column.fit == "cut" else cell
        blanks = " " * max(0, width - cell_len(shown))
        line.append(" " * GAP if k else "")
        line.append(blanks + shown if column.right else shown + blanks)
        if column.tone and not style:
            line.stylize(STYLES[column.tone], len(line) - max(width, len(shown)))
    line.rstrip()
    return line
