"""A page as data: a title and blocks, which every renderer shows in its own way.

    object  ->  builder  ->  Page  ->  terminal (text)  or  markup (HTML)

Builders (``answers``, ``plans``, ``solutions``, …) choose the words, renderers choose
the form. So the terminal, ``print``, a notebook and the report page cannot disagree.
All text in a page is taken literally: renderers escape everything that a terminal or a
browser would obey.

This file leaves out how anything looks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from smoothcruiser.schedule.numbers import bounds, format_decimals

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
    grid_columns.append(Column("value", right=True))
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
