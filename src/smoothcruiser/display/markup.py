"""Pages as HTML: a piece of a notebook, or the body of a report.

There is text, tables and inline SVG, no script, and no request to anywhere. Every text
is escaped, control characters too: names of problems, states and notes are the user's.
Rules of style begin with the class of the outermost element and nothing has an id, so
that several pieces stand in one notebook and change nothing around them. Colours follow
the text around (``currentColor``), or can be read on white and on black.

Notebooks have rules of their own for tables: striped rows, cells at the right. Ours
name an element and a class each, ``div.smoothcruiser table.sc-x``, and so win.

Action values on one axis, as inline SVG.

  thin line    the interval of the certificate
  dot          the estimate
  hollow dot   the exact value, where the caller wants it
  box          the policy, as a share of a full box

Lines and letters have the colour of the text around them, and the marks colours that
can be read on white and on black, so that one picture serves light and dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from typing import Any

from smoothcruiser.display.document import (
    Actions,
    Block,
    Bullets,
    Choice,
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
from smoothcruiser.errors import printable

# in pixels: the height of a row, the axis above the rows, the width of the axis
ROW, TOP, AXIS = 26, 26, 420
GAP, FULL = 20, 120  # between axis and policies; the box of a policy of 1
LETTER = 6.4  # a letter of a name, of the size 12
LONGEST = 24  # letters of a name
MARGIN = 0.06  # of the axis, free on either side, so that no dot sits on its end
BEST, OTHER, EXACT = "#1f9d6b", "#5b8fd0", "#d9772b"


def actions_svg(block: Actions) -> str:
    """The picture of the legal actions; empty where no value is known, or none fits."""
    legal_choices = [choice for choice in block.choices if math.isfinite(choice.value)]
    if not legal_choices:
        return ""
    axis_start, axis_end = _ends(legal_choices)
    if not math.isfinite(axis_end - axis_start):
        return ""  # no axis has that length
    action_names = [_short(choice.label) for choice in legal_choices]
    axis_left = round(max(60.0, 24.0 + LETTER * max(map(len, action_names))))
    width, height = axis_left + AXIS + GAP + FULL, TOP + ROW * len(legal_choices) + 8

    def x(value: float) -> str:
        return (
            f"{axis_left + AXIS * (value - axis_start) / (axis_end - axis_start):.1f}"
        )

    svg_parts = [
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-label="action values with intervals and policy">',
        '<g font-size="11" fill="currentColor" fill-opacity="0.65" '
        'text-anchor="middle">',
    ]
    for tick, label in _ticks(axis_start, axis_end):
        svg_parts.append(
            f'<line x1="{x(tick)}" x2="{x(tick)}" y1="{TOP}" y2="{height - 6}" '
            'stroke="currentColor" stroke-opacity="0.15"/>'
            f'<text x="{x(tick)}" y="16">{label}</text>'
        )
    policy_left = axis_left + AXIS + GAP
    svg_parts.append(
        f'<text x="{policy_left + FULL / 2:.0f}" y="16">policy</text></g>'
    )
    for i, (choice, name) in enumerate(zip(legal_choices, action_names, strict=True)):
        y = TOP + ROW * (i + 0.5)
        colour = BEST if choice.best else OTHER
        weight = ' font-weight="bold"' if choice.best else ""
        svg_parts.append(
            f'<text x="{axis_left - 12}" y="{y + 4:g}" font-size="12" '
            f'text-anchor="end" fill="currentColor"{weight}>{escape(name)}</text>'
        )
        if all(map(math.isfinite, choice.interval)):
            interval_left, interval_right = (
                x(interval_end) for interval_end in choice.interval
            )
            svg_parts.append(
                f'<line x1="{interval_left}" x2="{interval_right}" '
                f'y1="{y:g}" y2="{y:g}" stroke="{colour}" stroke-width="5" '
                'stroke-opacity="0.45"/>'
            )
        svg_parts.append(
            f'<circle cx="{x(choice.value)}" cy="{y:g}" r="4" fill="{colour}"/>'
        )
        if math.isfinite(choice.exact):
            svg_parts.append(
                f'<circle cx="{x(choice.exact)}" cy="{y:g}" r="5.5" fill="none" '
                f'stroke="{EXACT}" stroke-width="1.5"/>'
            )
        share = min(1.0, max(0.0, choice.policy))
        policy_box = f'<rect x="{policy_left}" y="{y - 7:g}" height="14"'
        svg_parts.append(
            f'{policy_box} width="{FULL}" fill="currentColor" fill-opacity="0.08"/>'
            f'{policy_box} width="{share * FULL:.1f}" fill="{colour}"/>'
        )
    return "\n".join([*svg_parts, "</svg>"])


def _short(label: str) -> str:
    text = printable(label, keep="")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _ends(choices: list[Choice]) -> tuple[float, float]:
    """The two ends of the axis."""
    all_numbers = [x for c in choices for x in (c.value, *c.interval, c.exact)]
    finite_numbers = [x for x in all_numbers if math.isfinite(x)]
    lowest_number, highest_number = min(finite_numbers), max(finite_numbers)
    # one value alone: an axis around it that its floating-point number can tell apart
    free_margin = MARGIN * (highest_number - lowest_number) or 0.5 * max(
        1.0, abs(highest_number)
    )
    return lowest_number - free_margin, highest_number + free_margin


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Three to eight round numbers of the axis with their labels.

    They are multiples of 1, 2 or 5 times a power of ten.
    """
    rough_step = (high - low) / 7.5  # a step is at most 2.5 times that
    power_of_ten = 10.0 ** math.floor(math.log10(rough_step))
    step = next(
        x * power_of_ten
        for x in (1.0, 2.0, 5.0, 10.0)
        if x * power_of_ten >= rough_step
    )
    # 1e-9: the logarithm of 0.1 or 0.01 may fall just below a whole number
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [
        (n * step, f"{n * step:.{decimals}f}")
        for n in range(math.ceil(low / step), math.floor(high / step) + 1)
    ]


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
