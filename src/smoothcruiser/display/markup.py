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
    html_parts = ['<div class="smoothcruiser">']
    if page.title:
        main_title, *subtitles = (
            _escape_html(title_part, keep="") for title_part in page.title
        )
        subtitle_html = "".join(f" · {title_part}" for title_part in subtitles)
        dim_span = (
            f'<span class="sc-dim">{subtitle_html}</span>' if subtitle_html else ""
        )
        html_parts.append(
            f'<p class="sc-title"><strong>{main_title}</strong>{dim_span}</p>'
        )
    for block in page.blocks:
        if block.heading:
            html_parts.append(f'<p class="sc-head">{_escape_html(block.heading)}</p>')
        if block.caption:
            html_parts.append(f"<p>{_sentence(block.caption)}</p>")
        html_parts.append(RENDERERS[type(block)](block))
    return "\n".join([*html_parts, "</div>"])


def _escape_html(text: str, keep: str = "\n\t") -> str:
    return escape(printable(text, keep=keep))


def _sentence(sentence: Sentence) -> str:
    if not isinstance(sentence, Styled):
        return _escape_html(sentence)
    return "".join(
        f'<span class="sc-{phrase.tone}">{_escape_html(phrase.text)}</span>'
        if phrase.tone
        else _escape_html(phrase.text)
        for phrase in sentence.parts
    )


def _fields(block: Fields) -> str:
    html_rows = "\n".join(
        f'<tr><th scope="row">{_escape_html(label)}</th>'
        f'<td class="sc-lines">{_sentence(sentence)}</td></tr>'
        for label, sentence in block.rows
    )
    tight_class = " sc-tight" if block.tight else ""
    return (
        f'<table class="sc-table{tight_class}"><tbody>\n{html_rows}\n</tbody></table>'
    )


def _paragraph(block: Paragraph) -> str:
    return f"<p>{_sentence(block.sentence)}</p>"


def _verbatim(block: Verbatim) -> str:
    lines = [_escape_html(line, keep="") for line in block.lines]
    if block.head:
        lines.insert(0, f'<span class="sc-dim">{_escape_html(block.head)}</span>')
    html_text = "\n".join(lines)
    if block.tone:
        html_text = f'<span class="sc-{block.tone}">{html_text}</span>'
    return f'<div class="sc-wide"><pre class="sc-verbatim">{html_text}</pre></div>'


def _bullets(block: Bullets) -> str:
    list_items = "".join(
        f"<li>{_escape_html(alternative)}</li>" for alternative in block.items
    )
    return f"<ul>{list_items}</ul>"


def _grid(block: Grid) -> str:
    is_number_column = [column.right for column in block.columns]
    headings = [column.heading for column in block.columns]
    return _table(headings, is_number_column, block.rows, block.best, block.more)


def _table(
    heads: list[str],
    numbers: list[bool],
    rows: tuple[tuple[str, ...], ...],
    best: int | None,
    omission_note: str,
) -> str:
    cell_classes = [' class="sc-number"' if number else "" for number in numbers]
    html_parts = ['<div class="sc-wide"><table class="sc-table">']
    if any(heads):
        cells = zip(cell_classes, heads, strict=True)
        cell_html = "".join(
            f"<th{cell_class}>{_escape_html(head)}</th>" for cell_class, head in cells
        )
        html_parts.append(f"<thead><tr>{cell_html}</tr></thead>")
    html_parts.append("<tbody>")
    for i, row in enumerate(rows):
        cells = zip(cell_classes, row, strict=True)
        cell_html = "".join(
            f"<td{cell_class}>{_escape_html(cell)}</td>" for cell_class, cell in cells
        )
        row_class = ' class="sc-best"' if i == best else ""
        html_parts.append(f"<tr{row_class}>{cell_html}</tr>")
    html_parts.append("</tbody></table></div>")
    if omission_note:
        html_parts.append(
            f'<p><span class="sc-dim">{_escape_html(omission_note)}</span></p>'
        )
    return "\n".join(html_parts)


def _actions(block: Actions) -> str:
    """The picture of the actions, and the table under it."""
    grid = action_grid(block)
    best_row = next((i for i, choice in enumerate(block.choices) if choice.best), None)
    table_rows = tuple(
        (*row, "recommended" if i == best_row else "")
        for i, row in enumerate(grid.rows)
    )
    columns = grid.columns
    headings = [*(column.heading for column in columns), ""]
    is_number_column = [*(column.right for column in columns), False]
    table_html = _table(headings, is_number_column, table_rows, best_row, block.more)
    picture_svg = actions_svg(block)
    if not picture_svg:
        return table_html
    legend = LEGEND.format(
        interval="; bar: its interval" if block.bounded else "",
        exact="; ring: the exact value" if block.compared else "",
    )
    return (
        f'<div class="sc-fitted">{picture_svg}</div>\n'
        f'<p><span class="sc-dim">{legend}</span></p>\n{table_html}'
    )


def _drawing(block: Drawing) -> str:
    return f'<div class="sc-drawing">{block.svg}</div>'


RENDERERS: dict[type[Block], Callable[[Any], str]] = {
    Actions: _actions,
    Bullets: _bullets,
    Drawing: _drawing,
    Fields: _fields,
    Grid: _grid,
    Paragraph: _paragraph,
    Verbatim: _verbatim,
}
