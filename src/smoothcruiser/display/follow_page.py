"""``follow``: a page that shows a search while it runs, and a notebook's in place.

``follow(path)`` is a progress function: it writes the reports of a run to an HTML file
that asks the browser to read it again every second (``<meta http-equiv="refresh">``, no
script). The last report writes the page once more, without that. A tree search shows
its tree (``Follower.watch``), any run its numbers and their history. In a notebook
``follow()`` rewrites one output under the cell.

A page that cannot be written must not cost the answer: the error is raised when the
follower is made, and later ones are kept in ``Follower.failed``.
"""

from __future__ import annotations

import os
import time
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.progress import Progress, TreeWatcher
from smoothcruiser.progress.bar import describe, in_notebook

if TYPE_CHECKING:
    from smoothcruiser.tree.tree import Tree

SECONDS = 1.0  # between two versions of the page
MOST_POINTS = 400  # of the curve; every second one is dropped beyond


def follow(
    path: str | Path | None = None, *, depth: int = 2, width: int = 4
) -> Follower:
    """A progress function that shows a run on a page, or under a notebook's cell.

    Args:
        path: the HTML file to write again and again; open it in a browser. By default
            a notebook's own output.
        depth: levels of the tree that are drawn.
        width: most children of a node that are drawn.

    Example:
        >>> import tempfile, pathlib
        >>> import smoothcruiser as sc
        >>> page = pathlib.Path(tempfile.mkdtemp(), "search.html")
        >>> problem = sc.make("chain:n=5", discount=0.9, operator="max")
        >>> _ = sc.plan(problem, method="uct", budget=2000, progress=sc.follow(page))
        >>> "done" in page.read_text()
        True
    """
    if path is None and not in_notebook():
        raise InvalidInput(
            "follow() shows a run under a notebook's cell, and this is none; give a "
            "file: follow('search.html')."
        )
    from smoothcruiser.tree.view import check_sizes

    check_sizes(depth, width)
    if path is not None and not (isinstance(path, str | Path) and Path(path).name):
        raise InvalidInput(f"follow writes to an HTML file, got {path!r}; name one.")
    follower = Follower(None if path is None else Path(path), depth, width)
    follower.begin()
    return follower


class Follower(TreeWatcher):
    """The progress function of ``follow``; ``failed`` is its first writing error."""

    def __init__(self, path: Path | None, depth: int, width: int) -> None:
        self.path, self.depth, self.width = path, depth, width
        self.failed: OSError | None = None
        self.tree: Tree | None = None
        self._points: list[
            tuple[int, float, float, float]
        ] = []  # calls, low, mid, high
        self._next = 0.0
        self._handle: Any = None

    def begin(self) -> None:
        """Write the first page; an error is raised."""
        if self.path is None:
            return
        try:
            self._write(_page("preparing", "", refresh=True))
        except OSError as error:
            raise InvalidInput(
                f"The page cannot be written to {self.path}: {error.strerror}; name "
                "another file."
            ) from error

    def watch(self, tree: Tree) -> None:
        """Show this tree, which is about to grow."""
        self.tree = tree

    def __call__(self, news: Progress) -> None:
        """Show a report, if the last one is old enough or this one is the last."""
        self._note(news)
        is_last = news.phase == "done"
        start_time = time.perf_counter()
        if start_time < self._next and not is_last:
            return
        body = self._body()
        if self.path is None:
            self._display(describe(news), body)
        elif self.failed is None:
            try:
                self._write(_page(describe(news), body, refresh=not is_last))
            except OSError as error:
                self.failed = error
        # a large tree takes long to draw, and the search waits
        self._next = time.perf_counter() + max(
            SECONDS, 10 * (time.perf_counter() - start_time)
        )

    def _note(self, news: Progress) -> None:
        lower_bound, upper_bound = news.interval or (None, None)
        middle = news.value
        if middle is None and lower_bound is not None and upper_bound is not None:
            middle = (lower_bound + upper_bound) / 2.0
        if middle is None:
            return
        lower_bound, upper_bound = (
            (middle if lower_bound is None else lower_bound),
            (middle if upper_bound is None else upper_bound),
        )
        if self._points and news.calls < self._points[-1][0]:
            self._points.clear()  # another run
        self._points.append((news.calls, lower_bound, middle, upper_bound))
        if len(self._points) > MOST_POINTS:
            del self._points[1:-1:2]

    def _body(self) -> str:
        from smoothcruiser.tree import view

        html_parts = [_curve(self._points)]
        if self.tree is not None and any(self.tree.node(0).edge_visits):
            html_parts.append(view.body(self.tree, depth=self.depth, width=self.width))
        return "".join(html_parts)

    def _write(self, text: str) -> None:
        assert self.path is not None
        draft = self.path.with_name(f".{self.path.name}.draft")
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, self.path)  # a browser never reads half a page

    def _display(self, line: str, body: str) -> None:
        from IPython.display import display

        from smoothcruiser.tree.view import STYLE

        mime_bundle = {
            "text/plain": line,
            "text/html": f"<style>{STYLE}</style><div><p><code>{escape(line)}</code></p>"
            f"{body}</div>",
        }
        if self._handle is None:
            self._handle = display(mime_bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(mime_bundle, raw=True)


def _page(line: str, body: str, *, refresh: bool) -> str:
    from smoothcruiser.tree import view

    refresh_tag = (
        f'<meta http-equiv="refresh" content="{SECONDS:g}">' if refresh else ""
    )
    title = "A run under way" if refresh else "A run"
    return view.frame(
        title, f"<p><code>{escape(line)}</code></p>{body}", head=refresh_tag
    )


def _curve(points: list[tuple[int, float, float, float]]) -> str:
    """The value over calls, with the interval that holds around it, as SVG."""
    if len(points) < 2:
        return ""
    svg_width, svg_height, pad = 640.0, 120.0, 8.0
    bottom, top = min(p[1] for p in points), max(p[3] for p in points)
    span = (top - bottom) or 1.0
    last_calls = max(points[-1][0], 1)

    def place(calls: int, value: float) -> str:
        x = pad + (svg_width - 2 * pad) * calls / last_calls
        y = pad + (svg_height - 2 * pad) * (top - value) / span
        return f"{x:.1f},{y:.1f}"

    polygon_points = [place(c, high) for c, _, _, high in points]
    polygon_points += [place(c, low) for c, low, _, _ in reversed(points)]
    line = " ".join(place(c, middle) for c, _, middle, _ in points)
    return (
        f'<figure><svg viewBox="0 0 {svg_width:g} {svg_height:g}" '
        f'width="{svg_width:g}" role="img" '
        'style="max-width: 100%"><title>value over calls</title>'
        f'<polygon points="{" ".join(polygon_points)}" '
        'fill="currentColor" fill-opacity="0.15"/>'
        f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        f"</svg><figcaption>value over calls, from {bottom:.4g} to {top:.4g}; "
        f"{points[-1][0]:,} calls so far</figcaption></figure>"
    )
