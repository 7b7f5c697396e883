"""``--report FILE.html``: an answer as one self-contained page.

The page has text, tables and inline SVG, no script, and no request to anywhere. Its
Content-Security-Policy forbids both: a browser applies the one style sheet of the
layout, which it knows by its digest, and nothing else.
It shows what the terminal shows (``display.answers``), and beside it every
action value as a bar on one axis:

  thin line    the interval of the certificate
  dot          the estimate
  hollow dot   the exact value, where the caller wants it
  box          the policy, as a share of a full box

For scheduled methods the plan's table follows: each level with its kind,
samples, bias, range, visits and share of the calls (``schedule.text.plan_lines``,
the same cells that ``str(schedule)`` prints). Nothing here computes a promise.
Text is escaped, because names of problems and notes are the user's. The layout
is ``page.html.jinja``. What this file leaves out: plots over many runs
(``reproduce``). It needs Jinja2 (extra ``report``), which is looked for before
the run, so that no answer is paid for and then lost.
"""

from __future__ import annotations

import math
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from smoothcruiser.errors import InvalidInput, MissingExtra, printable
from smoothcruiser.estimate import Estimate
from smoothcruiser.problem.problem import Problem
from smoothcruiser.display.answers import (
    cost_fields,
    digits_of,
    trust_fields,
    value_fields,
)
from smoothcruiser.display.console import Fields
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

# the picture, in pixels: its width, the height of a row, the axis above the rows
WIDTH, ROW, TOP = 640, 26, 26
LEFT, RIGHT = 60, 500  # where the axis begins and ends; policies stand right of it
MARGIN = 0.06  # of the axis, free on either side, so that no dot sits on its end
MOST_ACTIONS = 200  # rows of the picture; a page with more is not read


def check_page(path: str) -> None:
    """Refuse a page that could not be written, before anything runs for it."""
    _jinja()
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise InvalidInput(
            f"The folder {folder} for the report does not "
            "exist; make it, or give another file to --report."
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
    page = render_page(
        estimate,
        problem=problem,
        schedule=schedule,
        exact=exact,
        before=before,
        store=store,
    )
    try:
        Path(path).write_text(page, "utf-8")
    except OSError as error:
        raise InvalidInput(
            f"The report {path} cannot be written "
            f"({error.strerror}); give another file to --report."
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
    """The page as HTML; ``before`` and ``store`` are those of ``cost_fields``."""
    digits = digits_of(estimate)
    request = []
    if problem is not None:
        request.append(("problem", describe_facts(problem.facts)))
    if schedule is not None:
        request.append(("promise", describe_promise(schedule)))
        request.append(("price", describe_price(schedule)))
    environment = _jinja().Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    layout = (
        files("smoothcruiser.display").joinpath("page.html.jinja").read_text("utf-8")
    )
    bounded = estimate.certificate is not None and estimate.certificate.q_intervals
    style = layout.partition("<style>")[2].partition("</style>")[0]
    page: str = environment.from_string(layout).render(
        style_digest=b64encode(sha256(style.encode()).digest()).decode(),
        name=printable(estimate.problem),
        state=repr(estimate.state),
        request=request,
        value=_texts(value_fields(estimate, exact, digits)),
        rows=_rows(estimate, exact, digits),
        picture=_picture(estimate, exact),
        size=(LEFT, RIGHT, TOP, WIDTH, ROW),
        bounded=bool(bounded),
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
            "--report needs Jinja2; install it with: "
            "pip install 'smoothcruiser[report]'."
        ) from error
    return jinja2


def _texts(pairs: Fields) -> list[tuple[str, str]]:
    return [(name, printable(str(text))) for name, text in pairs]


# --- action values ------------------------------------------------------------


def _boxes(estimate: Estimate) -> tuple[tuple[float, float], ...]:
    found = estimate.certificate.q_intervals if estimate.certificate is not None else ()
    return found or ((math.nan, math.nan),) * len(estimate.q_values)


def _rows(
    estimate: Estimate, exact: Estimate | None, digits: int
) -> list[dict[str, Any]]:
    """The table of actions, as text."""
    rows = []
    cells = zip(estimate.q_values, estimate.policy, _boxes(estimate), strict=True)
    for action, (q, p, (low, high)) in enumerate(cells):
        legal = not math.isnan(q)
        interval = f"[{low:.{digits}f}, {high:.{digits}f}]"
        truth = "" if exact is None else f"{exact.q_values[action]:.{digits}f}"
        rows.append(
            {
                "action": action,
                "value": f"{q:.{digits}f}" if legal else "illegal",
                "interval": "" if math.isnan(low) else interval,
                "exact": truth if legal else "",
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
    """The first ``MOST_ACTIONS`` legal actions; None without action values."""
    boxes = _boxes(estimate)
    legal = [a for a, q in enumerate(estimate.q_values) if math.isfinite(q)]
    shown = legal[:MOST_ACTIONS]
    if not shown:
        return None
    truths = {a: exact.q_values[a] for a in shown} if exact is not None else {}
    every = [x for a in shown for x in (estimate.q_values[a], *boxes[a])]
    finite = [x for x in (*every, *truths.values()) if math.isfinite(x)]
    low, high = min(finite), max(finite)
    # one value alone: an axis around it that its floating-point number can tell apart
    free = MARGIN * (high - low) or 0.5 * max(1.0, abs(high))
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
    """Three to seven round numbers of the axis with their labels.

    They are multiples of 1, 2 or 5 times a power of ten.
    """
    rough = (high - low) / 5.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(x * power for x in (1.0, 2.0, 5.0, 10.0) if x * power >= rough)
    # 1e-9: the logarithm of 0.1 or 0.01 may fall just below a whole number
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [
        (n * step, f"{n * step:.{decimals}f}")
        for n in range(math.ceil(low / step), math.floor(high / step) + 1)
    ]


# --- certificate and plan -----------------------------------------------------


def _certificate(estimate: Estimate) -> list[tuple[str, str]]:
    """The promise as names and sentences; empty where there is none."""
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
        loss = f"{certificate.policy_loss:.3g}"
        found.append(("policy", f"loses at most {loss} in one step, regularized"))
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
