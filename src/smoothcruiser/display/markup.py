"""Pages as HTML: a piece of a notebook, or the body of a report.

There is text, tables and inline SVG, no script, and no request to anywhere. Every text
is escaped, control characters too: names of problems, states and notes are the user's.
Rules of style begin with the class of the outermost element and nothing has an id, so
that several pieces stand in one notebook and change nothing around them. Colours follow
the text around (``currentColor``), or can be read on white and on black.

Notebooks have rules of their own for tables: striped rows, cells at the right. Ours
name an element and a class each, ``div.smoothcruiser table.sc-x``, and so win.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from smoothcruiser.display.document import (
    Actions,
    Block,
    Bullets,
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
from smoothcruiser.display.picture import actions_svg
from smoothcruiser.errors import printable

STYLE = """
div.smoothcruiser { font: 14px/1.45 system-ui, sans-serif; max-width: 60rem; }
div.smoothcruiser p.sc-title { font-size: 1.2em; margin: 0.3em 0 0.6em; }
div.smoothcruiser p.sc-head { font-weight: 600; margin: 1.1em 0 0.3em; }
div.smoothcruiser p { margin: 0.5em 0; }
div.smoothcruiser div.sc-wide { overflow-x: auto; }
div.smoothcruiser table.sc-table {
  border-collapse: collapse; border: 0; margin: 0.4em 0; table-layout: auto;
  font-size: 1em; width: auto;
}
div.smoothcruiser table.sc-table tbody tr,
div.smoothcruiser table.sc-table thead tr { background: none; border: 0; }
div.smoothcruiser table.sc-table tbody tr td,
div.smoothcruiser table.sc-table tbody tr th,
div.smoothcruiser table.sc-table thead tr th {
  border: 0; padding: 0.1em 1.2em 0.1em 0; text-align: left; vertical-align: top;
  font-weight: normal; max-width: 46rem; overflow-wrap: break-word;
}
div.smoothcruiser table.sc-table tbody tr th,
div.smoothcruiser table.sc-table thead tr th { opacity: 0.65; }
div.smoothcruiser table.sc-table tbody tr th {
  white-space: nowrap; min-width: 5em;
}
div.smoothcruiser table.sc-table thead {
  border: 0; border-bottom: 1px solid rgba(128, 128, 128, 0.4);
}
div.smoothcruiser table.sc-tight { margin-top: -0.4em; }
div.smoothcruiser table.sc-table thead tr th.sc-number,
div.smoothcruiser table.sc-table tbody tr td.sc-number {
  text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap;
}
div.smoothcruiser table.sc-table tbody tr.sc-best td { font-weight: 600; }
div.smoothcruiser table.sc-table tbody tr td.sc-lines { white-space: pre-line; }
div.smoothcruiser span.sc-good { font-size: 1.15em; font-weight: 600; color: #1f9d6b; }
div.smoothcruiser span.sc-strong { font-weight: 600; }
div.smoothcruiser span.sc-warning { color: #c77700; }
div.smoothcruiser span.sc-dim { opacity: 0.65; }
div.smoothcruiser pre.sc-verbatim {
  font: 12.5px/1.4 ui-monospace, monospace; margin: 0.5em 0; padding: 0;
  background: none; color: inherit; white-space: pre; border: 0;
}
div.smoothcruiser ul { margin: 0.3em 0; padding-left: 1.4em; }
div.smoothcruiser div.sc-fitted svg { max-width: 100%; height: auto; }
div.smoothcruiser div.sc-drawing { overflow-x: auto; }
div.smoothcruiser div.sc-drawing svg { max-width: max(100%, 44rem); height: auto; }
"""
LEGEND = "Dot: the estimate{interval}{exact}. Green: the recommended action."


def fragment(page: Page) -> str:
    """The page as a piece of HTML that brings its style along."""
    return f"<style>{STYLE}</style>\n{body(page)}"


def body(page: Page) -> str:
    """The page as a piece of HTML without the style."""
    parts = ['<div class="smoothcruiser">']
    if page.title:
        first, *rest = (_escaped(part, keep="") for part in page.title)
        more = "".join(f" · {part}" for part in rest)
        dim = f'<span class="sc-dim">{more}</span>' if more else ""
        parts.append(f'<p class="sc-title"><strong>{first}</strong>{dim}</p>')
    for block in page.blocks:
        if block.heading:
            parts.append(f'<p class="sc-head">{_escaped(block.heading)}</p>')
        if block.caption:
            parts.append(f"<p>{_sentence(block.caption)}</p>")
        parts.append(MARKUP[type(block)](block))
    return "\n".join([*parts, "</div>"])


def _escaped(text: str, keep: str = "\n\t") -> str:
    return escape(printable(text, keep=keep))


def _sentence(sentence: Sentence) -> str:
    if not isinstance(sentence, Styled):
        return _escaped(sentence)
    return "".join(
        f'<span class="sc-{part.tone}">{_escaped(part.text)}</span>'
        if part.tone
        else _escaped(part.text)
        for part in sentence.parts
    )


def _fields(block: Fields) -> str:
    rows = "\n".join(
        f'<tr><th scope="row">{_escaped(label)}</th>'
        f'<td class="sc-lines">{_sentence(sentence)}</td></tr>'
        for label, sentence in block.rows
    )
    tight = " sc-tight" if block.tight else ""
    return f'<table class="sc-table{tight}"><tbody>\n{rows}\n</tbody></table>'


def _paragraph(block: Paragraph) -> str:
    return f"<p>{_sentence(block.sentence)}</p>"


def _verbatim(block: Verbatim) -> str:
    lines = [_escaped(line, keep="") for line in block.lines]
    if block.head:
        lines.insert(0, f'<span class="sc-dim">{_escaped(block.head)}</span>')
    shown = "\n".join(lines)
    if block.tone:
        shown = f'<span class="sc-{block.tone}">{shown}</span>'
    return f'<div class="sc-wide"><pre class="sc-verbatim">{shown}</pre></div>'


def _bullets(block: Bullets) -> str:
    items = "".join(f"<li>{_escaped(item)}</li>" for item in block.items)
    return f"<ul>{items}</ul>"


def _grid(block: Grid) -> str:
    numbers = [column.right for column in block.columns]
    heads = [column.heading for column in block.columns]
    return _table(heads, numbers, block.rows, block.best, block.more)


def _table(
    heads: list[str],
    numbers: list[bool],
    rows: tuple[tuple[str, ...], ...],
    best: int | None,
    more: str,
) -> str:
    kinds = [' class="sc-number"' if number else "" for number in numbers]
    parts = ['<div class="sc-wide"><table class="sc-table">']
    if any(heads):
        cells = zip(kinds, heads, strict=True)
        shown = "".join(f"<th{kind}>{_escaped(head)}</th>" for kind, head in cells)
        parts.append(f"<thead><tr>{shown}</tr></thead>")
    parts.append("<tbody>")
    for i, row in enumerate(rows):
        cells = zip(kinds, row, strict=True)
        shown = "".join(f"<td{kind}>{_escaped(cell)}</td>" for kind, cell in cells)
        mark = ' class="sc-best"' if i == best else ""
        parts.append(f"<tr{mark}>{shown}</tr>")
    parts.append("</tbody></table></div>")
    if more:
        parts.append(f'<p><span class="sc-dim">{_escaped(more)}</span></p>')
    return "\n".join(parts)


def _actions(block: Actions) -> str:
    """The picture of the actions, and the table under it."""
    grid = action_grid(block)
    best = next((i for i, choice in enumerate(block.choices) if choice.best), None)
    rows = tuple(
        (*row, "recommended" if i == best else "") for i, row in enumerate(grid.rows)
    )
    columns = grid.columns
    heads = [*(column.heading for column in columns), ""]
    numbers = [*(column.right for column in columns), False]
    table = _table(heads, numbers, rows, best, block.more)
    svg = actions_svg(block)
    if not svg:
        return table
    legend = LEGEND.format(
        interval="; bar: its interval" if block.bounded else "",
        exact="; ring: the exact value" if block.compared else "",
    )
    return (
        f'<div class="sc-fitted">{svg}</div>\n'
        f'<p><span class="sc-dim">{legend}</span></p>\n{table}'
    )


def _drawing(block: Drawing) -> str:
    return f'<div class="sc-drawing">{block.svg}</div>'


MARKUP: dict[type[Block], Callable[[Any], str]] = {
    Actions: _actions,
    Bullets: _bullets,
    Drawing: _drawing,
    Fields: _fields,
    Grid: _grid,
    Paragraph: _paragraph,
    Verbatim: _verbatim,
}
