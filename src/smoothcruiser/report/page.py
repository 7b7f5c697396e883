"""``--report FILE.html``: an answer as one self-contained page; text, tables
and inline SVG, no script, no request to anywhere.

What it shows is what the terminal shows (``report.console``), and beside it
every action value as a bar on one axis:

  thin line   the interval of the certificate          dot       the estimate
  hollow dot  the exact value, where it was asked for   box       the policy, as a share of a full box

For scheduled methods the plan's table follows: each level with its kind, draws,
bias, range, visits and share of the calls (``schedule.text.plan_lines``, the
same cells that ``str(schedule)`` prints). Nothing here computes a promise. Text
is escaped, because names of problems and notes are the user's. What this file
leaves out: plots over many runs (``reproduce``). Needs Jinja2 (extra
``report``), asked for before the run, so that an answer is not paid for and
then lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcruiser.errors import InvalidInput, MissingExtra
from smoothcruiser.estimate import Estimate
from smoothcruiser.problem.problem import Problem
from smoothcruiser.report.console import (
    cost_fields,
    digits_of,
    trust_fields,
    value_fields,
)
from smoothcruiser.schedule.schedule import Schedule
from smoothcruiser.schedule.text import (
    HEADINGS,
    KEY,
    describe_facts,
    describe_price,
    describe_promise,
    describe_root,
    plan_lines,
)

# of the picture, in pixels: its width, a row of it, the axis above the rows
WIDTH, ROW, TOP = 640, 26, 26
LEFT, RIGHT = 60, 500  # where the axis begins and ends; policies stand right of it
MARGIN = 0.06  # of the axis, free on either side, so that no dot sits on its end
MOST_ACTIONS = 200  # rows of the picture; a page with more is not read


def check_page(path: str) -> None:
    """Refuse a page that could not be written, before anything is run for it."""
    _jinja()
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise InvalidInput(
            f"The folder {folder} for the report does not exist; make it, or give "
            "another file to --report."
        )


def write_page(
    path: str,
    estimate: Estimate,
    *,
    problem: Problem | None = None,
    schedule: Schedule | None = None,
    exact: Estimate | None = None,
    before: int = 0,
    store: str | None = None,
) -> None:
    """Write the page of an estimate to ``path``."""
    try:
        Path(path).write_text(
            render_page(
                estimate,
                problem=problem,
                schedule=schedule,
                exact=exact,
                before=before,
                store=store,
            ),
            "utf-8",
        )
    except OSError as error:
        raise InvalidInput(
            f"The report {path} cannot be written ({error.strerror}); give another "
            "file to --report."
        ) from error


def render_page(
    estimate: Estimate,
    *,
    problem: Problem | None = None,
    schedule: Schedule | None = None,
    exact: Estimate | None = None,
    before: int = 0,
    store: str | None = None,
) -> str:
    """The page as HTML text; ``before`` and ``store`` as for
    ``console.cost_fields``.
    """
    digits = digits_of(estimate)
    asked = [("problem", describe_facts(problem.facts))] if problem is not None else []
    if schedule is not None:
        asked += [
            ("promise", describe_promise(schedule)),
            ("price", describe_price(schedule)),
        ]
    environment = _jinja().Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    page: str = environment.from_string(PAGE).render(
        name=estimate.problem,
        state=repr(estimate.state),
        asked=asked,
        value=_texts(value_fields(estimate, exact, digits)),
        rows=_rows(estimate, exact, digits),
        picture=_picture(estimate, exact),
        size=(LEFT, RIGHT, TOP, WIDTH, ROW),
        bounded=bool(
            estimate.certificate is not None and estimate.certificate.q_intervals
        ),
        compared=exact is not None,
        cost=_texts(cost_fields(estimate, before=before, store=store)),
        certificate=_certificate(estimate),
        plan=None if schedule is None else _plan(schedule),
        headings=HEADINGS,
        key=" ".join(KEY),
    )
    return page


def _jinja() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtra(
            "--report needs Jinja2; install it with: pip install "
            "'smoothcruiser[report]'."
        ) from error
    return jinja2


def _texts(pairs: Any) -> list[tuple[str, str]]:
    return [(name, str(text)) for name, text in pairs]


# --- action values ------------------------------------------------------------


def _boxes(estimate: Estimate) -> tuple[tuple[float, float], ...]:
    found = estimate.certificate.q_intervals if estimate.certificate is not None else ()
    return found or ((math.nan, math.nan),) * len(estimate.q_values)


def _rows(
    estimate: Estimate, exact: Estimate | None, digits: int
) -> list[dict[str, Any]]:
    """The table of actions, as text."""
    rows = []
    for action, (q, p, box) in enumerate(
        zip(estimate.q_values, estimate.policy, _boxes(estimate), strict=True)
    ):
        legal = not math.isnan(q)
        rows.append(
            {
                "action": action,
                "value": f"{q:.{digits}f}" if legal else "illegal",
                "interval": ""
                if math.isnan(box[0])
                else f"[{box[0]:.{digits}f}, {box[1]:.{digits}f}]",
                "exact": f"{exact.q_values[action]:.{digits}f}"
                if legal and exact is not None
                else "",
                "policy": f"{100.0 * p:.1f}%",
                "best": action == estimate.action,
            }
        )
    return rows


@dataclass(frozen=True)
class Mark:
    """One row of the picture, in pixels; None where there is nothing to draw."""

    action: int
    y: float
    dot: float
    ends: tuple[float, float] | None
    truth: float | None
    policy: float  # 0 to 1
    best: bool


@dataclass(frozen=True)
class Picture:
    """The bars of the action values with their axis."""

    height: int
    ticks: tuple[tuple[float, str], ...]
    marks: tuple[Mark, ...]


def _picture(estimate: Estimate, exact: Estimate | None) -> Picture | None:
    """The picture of at most ``MOST_ACTIONS`` legal actions; None where no
    action values were asked for.
    """
    boxes = _boxes(estimate)
    shown = [a for a, q in enumerate(estimate.q_values) if math.isfinite(q)][
        :MOST_ACTIONS
    ]
    if not shown:
        return None
    truths = {a: exact.q_values[a] for a in shown} if exact is not None else {}
    every = [x for a in shown for x in (estimate.q_values[a], *boxes[a])] + list(
        truths.values()
    )
    finite = [x for x in every if math.isfinite(x)]
    low, high = min(finite), max(finite)
    # one value alone: an axis of length 1 around it
    free = MARGIN * (high - low) or 0.5
    low, high = low - free, high + free

    def x(value: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * (value - low) / (high - low), 1)

    marks = tuple(
        Mark(
            action=a,
            y=TOP + ROW * (i + 0.5),
            dot=x(estimate.q_values[a]),
            ends=(x(boxes[a][0]), x(boxes[a][1]))
            if all(map(math.isfinite, boxes[a]))
            else None,
            truth=x(truths[a]) if a in truths and math.isfinite(truths[a]) else None,
            policy=estimate.policy[a],
            best=a == estimate.action,
        )
        for i, a in enumerate(shown)
    )
    return Picture(
        TOP + ROW * len(shown) + 8,
        tuple((x(tick), label) for tick, label in _ticks(low, high)),
        marks,
    )


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Three to seven round numbers of the axis: multiples of 1, 2 or 5 times a
    power of ten.
    """
    rough = (high - low) / 5.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(
        factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough
    )
    # 1e-9: the logarithm of 0.1 or 0.01 may fall just below a whole number
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [
        (n * step, f"{n * step:.{decimals}f}")
        for n in range(math.ceil(low / step), math.floor(high / step) + 1)
    ]


# --- certificate and plan -----------------------------------------------------


def _certificate(estimate: Estimate) -> list[tuple[str, str]]:
    """What is promised of the answer, as names and sentences; empty where
    nothing is.
    """
    certificate = estimate.certificate
    if certificate is None:
        return []
    low, high = certificate.interval
    found = [
        ("kind", certificate.kind),
        ("interval", f"[{low!r}, {high!r}]"),
        ("confidence", f"{certificate.confidence:g}"),
    ]
    if certificate.policy_loss is not None:
        found.append(
            (
                "policy",
                f"loses at most {certificate.policy_loss:.3g} in one step, regularized",
            )
        )
    if certificate.best_actions is not None:
        listed = ", ".join(map(str, certificate.best_actions)) or "none"
        found.append(("best", f"actions not excluded as best: {listed}"))
    return [*found, *_texts(trust_fields(estimate))]


def _plan(schedule: Schedule) -> dict[str, Any]:
    return {
        "method": schedule.method,
        "root": describe_root(schedule),
        "lines": plan_lines(schedule),
    }


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ name }} · smoothcruiser plan</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2733; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } th { text-align: left; font-weight: normal; color: #66717d; vertical-align: top; }
td, th { padding: 0.1rem 1rem 0.1rem 0; } .numbers td, .numbers th { text-align: right; font-variant-numeric: tabular-nums; }
.numbers td:first-child, .numbers th:first-child { text-align: left; white-space: pre; }
.plan { font: 13px/1.4 ui-monospace, monospace; } .best td { font-weight: bold; } .wide { overflow-x: auto; }
.answer td { font-size: 1.15rem; } .dim { color: #66717d; } svg { max-width: 100%; height: auto; }
</style>
</head>
<body>
{% macro sentences(pairs, kind="") %}
<table class="{{ kind }}">
{% for label, text in pairs %}
<tr><th scope="row">{{ label }}</th><td>{{ text }}</td></tr>
{% endfor %}
</table>
{% endmacro %}
<h1>{{ name }} <span class="dim">· state {{ state }}</span></h1>
{{ sentences(asked) }}
<h2>Answer</h2>
{{ sentences(value, "answer") }}
{% if picture %}
{% set left, right, top, width, row = size %}
<h2>Actions</h2>
<svg viewBox="0 0 {{ width }} {{ picture.height }}" width="{{ width }}" role="img" aria-label="action values with intervals and policy">
<g font-size="11" fill="#66717d" text-anchor="middle">
{% for x, label in picture.ticks %}
<line x1="{{ x }}" x2="{{ x }}" y1="{{ top }}" y2="{{ picture.height - 6 }}" stroke="#e3e7eb"/><text x="{{ x }}" y="16">{{ label }}</text>
{% endfor %}
<text x="{{ (right + width) / 2 + 10 }}" y="16">policy</text>
</g>
{% for mark in picture.marks %}
<g fill="{{ '#0a6e4f' if mark.best else '#3a5f8a' }}" stroke="{{ '#0a6e4f' if mark.best else '#3a5f8a' }}">
<text x="{{ left - 12 }}" y="{{ mark.y + 4 }}" font-size="12" text-anchor="end" stroke="none">{{ mark.action }}</text>
{% if mark.ends %}
<line x1="{{ mark.ends[0] }}" x2="{{ mark.ends[1] }}" y1="{{ mark.y }}" y2="{{ mark.y }}" stroke-width="5" stroke-opacity="0.35"/>
{% endif %}
<circle cx="{{ mark.dot }}" cy="{{ mark.y }}" r="4" stroke="none"/>
{% if mark.truth is not none %}
<circle cx="{{ mark.truth }}" cy="{{ mark.y }}" r="5.5" fill="none" stroke="#b3541e" stroke-width="1.5"/>
{% endif %}
<rect x="{{ right + 20 }}" y="{{ mark.y - 7 }}" width="{{ width - right - 20 }}" height="14" fill="#eef1f4" stroke="none"/>
<rect x="{{ right + 20 }}" y="{{ mark.y - 7 }}" width="{{ '%.1f' % (mark.policy * (width - right - 20)) }}" height="14" stroke="none"/>
</g>
{% endfor %}
</svg>
<p class="dim">Dot: the estimate; bar: its interval{% if compared %}; ring: the exact value{% endif %}. Green: the recommended action.</p>
{% endif %}
{% if rows %}
<table class="numbers">
<tr><th>action</th><th>value</th>{% if bounded %}<th>interval</th>{% endif %}{% if compared %}<th>exact</th>{% endif %}<th>policy</th></tr>
{% for row in rows %}
<tr{% if row.best %} class="best"{% endif %}><td>{{ row.action }}{{ "  recommended" if row.best }}</td><td>{{ row.value }}</td>
{%- if bounded %}<td>{{ row.interval }}</td>{% endif %}{% if compared %}<td>{{ row.exact }}</td>{% endif %}<td>{{ row.policy }}</td></tr>
{% endfor %}
</table>
{% endif %}
<h2>Run</h2>
{{ sentences(cost) }}
<h2>Certificate</h2>
{% if certificate %}
{{ sentences(certificate) }}
{% else %}
<p>None: this method promises nothing.</p>
{% endif %}
{% if plan %}
<h2>Plan: {{ plan.method }}</h2>
<p>{{ plan.root }}.</p>
<div class="wide">
<table class="numbers plan">
<tr>{% for heading in headings %}<th>{{ heading }}</th>{% endfor %}</tr>
{% for line in plan.lines %}
<tr><td>{{ line.stem }}</td>{% for cell in line.cells %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</table>
</div>
<p class="dim">{{ key }}</p>
{% endif %}
</body>
</html>
"""
