"""``report``: an answer, or any object that shows itself, as one HTML file.

The page is self-contained: text, tables and inline SVG, no script, and no request to
anywhere. Its Content-Security-Policy forbids both: a browser applies the one style
sheet of the page, which it knows by its digest, and nothing else. The page shows the
same as a notebook (``markup``); of an answer also the request and the plan, where they
are known.

This file leaves out plots over many runs (``reproduce``).
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html import escape
from pathlib import Path

from smoothcruiser.display.answer_pages import answer_blocks, estimate_page
from smoothcruiser.display.document import Block, Fields, Labelled, Page
from smoothcruiser.display.markup import STYLE, body
from smoothcruiser.display.plans import level_blocks
from smoothcruiser.displayable import Shown, page_of
from smoothcruiser.errors import InvalidInput, printable
from smoothcruiser.estimate import Estimate
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.schedule import Schedule
from smoothcruiser.schedule.text import (
    describe_price,
    describe_problem,
    describe_promise,
    describe_root,
)

FRAME_STYLE = """
:root { color-scheme: light dark; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
"""


def report(
    estimate: Shown,
    path: str | Path,
    *,
    problem: Problem | None = None,
    exact: Estimate | None = None,
) -> Path:
    """Write an answer as one self-contained HTML page, and return its path.

    Args:
        estimate: the answer of ``plan``, or any other object that shows itself: a
            Schedule, a Solution, a Comparison, …
        path: the file to write; one that exists is replaced.
        problem: the planned problem, to be described beside an Estimate.
        exact: the exact Estimate, to be compared with it.

    Example:
        >>> import tempfile, pathlib
        >>> import smoothcruiser as sc
        >>> problem = sc.make("chain:n=5", discount=0.5, temperature=1.0)
        >>> folder = tempfile.mkdtemp()
        >>> sc.report(sc.plan(problem), pathlib.Path(folder, "answer.html")).name
        'answer.html'
    """
    if isinstance(estimate, Estimate):
        page = answer_page(estimate, problem=problem, exact=exact)
    elif not isinstance(estimate, Shown):
        raise InvalidInput(
            "report writes an Estimate or another object that shows itself, got "
            f"{type(estimate).__name__}; give what plan returned."
        )
    elif problem is not None or exact is not None:
        raise InvalidInput(
            "problem= and exact= stand beside an Estimate, got "
            f"{type(estimate).__name__}; drop them."
        )
    else:
        page = page_of(estimate)
    return _write_text(Path(path), html_document(page))


def check_page(path: str) -> None:
    """Refuse a page that could not be written, before anything runs for it."""
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise InvalidInput(
            f"The folder {folder} for the report does not "
            "exist; make it, or give another file to report=."
        )


def write_page(path: str, page: Page) -> None:
    """Write a page to ``path``."""
    _write_text(Path(path), html_document(page))


def _write_text(path: Path, text: str) -> Path:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise InvalidInput(
            f"The report {path} cannot be written ({error.strerror}); give another file."
        ) from error
    return path


def answer_page(
    estimate: Estimate,
    *,
    problem: Problem | None = None,
    schedule: Schedule | None = None,
    exact: Estimate | None = None,
    before: int = 0,
    store: str | None = None,
) -> Page:
    """An answer with its request and its plan.

    ``before`` and ``store`` are those of ``answers.cost_rows``.
    """
    request_rows: list[Labelled] = []
    if problem is not None:
        request_rows.append(("problem", describe_problem(problem)))
    if schedule is not None:
        request_rows.append(("promise", describe_promise(schedule)))
        request_rows.append(("price", describe_price(schedule)))
    value_block, *further_blocks = answer_blocks(
        estimate, exact, before=before, store=store
    )
    blocks: list[Block] = [Fields(tuple(request_rows))] if request_rows else []
    blocks += [replace(value_block, heading="Answer"), *further_blocks]
    if schedule is not None:
        root_block = Fields((("root", describe_root(schedule)),))
        plan_block = replace(root_block, heading=f"Plan: {schedule.method}")
        blocks += [plan_block, *level_blocks(schedule)]
    return Page(estimate_page(estimate).title, tuple(blocks))


def html_document(page: Page) -> str:
    """The page as a whole HTML document."""
    style_sheet = STYLE + FRAME_STYLE
    style_digest = b64encode(sha256(style_sheet.encode()).digest()).decode()
    page_name = escape(printable(" · ".join(page.title) or "smoothcruiser", keep=""))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none';
 style-src 'sha256-{style_digest}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{page_name} · smoothcruiser</title>
<style>{style_sheet}</style>
</head>
<body>
{body(page)}
</body>
</html>
"""
