"""The bar of ``progress=True``: in a terminal, in a notebook, or lines in a log.

A bar is a function of a ``Progress`` and a context: it is on the screen while the
context is open, and may be opened again. It goes to standard error, so that a pipe
carries the answer alone:

    terminal    a bar that is redrawn in place and leaves nothing behind
    notebook    one line under the cell that is rewritten in place, and stays
    elsewhere   a line now and then: the first at once, the next after ``FIRST_WAIT``
                seconds, later ones more and more rarely

A second bar within a first one (a simulator that plans, say) shows nothing. This file
leaves out when a run reports.
"""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol, Self

from smoothcruiser.errors import printable
from smoothcruiser.progress import Phase, Progress
from smoothcruiser.schedule.number_text import (
    amount,
    count_noun,
    duration,
    format_bound,
    rate,
)

NARROW = 16  # characters of the bar itself: the words beside it say more
BESIDE = NARROW + 4  # the bar, the spinner and the spaces between
TICKS = 0.1  # seconds between two redraws in a notebook
FIRST_WAIT, SLOWER, LONGEST_WAIT = 2.0, 1.5, 60.0  # seconds between lines in a log

# The text of a phase that has nothing to count yet.
WORDS: dict[Phase, str] = {
    "preparing": "preparing",
    "compiling": "compiling",
    "starting": "starting the workers",
    "inspecting": "inspecting the step",
    "exploring": "listing the states",
    "solving": "solving",
    "evaluating": "rolling out the policy",
    "comparing": "comparing",
    "playing": "playing",
    "reproducing": "reproducing",
    "sampling": "sampling",
    "done": "done",
}

_open: list[Bar] = []  # the bars with open contexts; the first one is shown


class Surface(Protocol):
    """The place on which a bar is shown."""

    def show(self, news: Progress | None, begun: float) -> None:
        """Show the latest report; its phase began at the time ``begun``."""

    def close(self, news: Progress | None) -> None:
        """Leave the screen."""


class Bar:
    """Use as a context around a run, and as its ``progress``."""

    def __init__(self, *, lines: bool = True) -> None:
        """A bar; with ``lines`` it writes lines where there is no terminal."""
        self.last: Progress | None = None  # the latest report
        self.lines = lines
        self.word = "value"  # the name of the numbers of the run
        self._depth = 0
        self._surface: Surface | None = None
        self._begun = 0.0  # when the phase began
        self._log = LogLines()  # it remembers when its last line was

    def __reduce__(self) -> Any:
        return type(self), ()  # the surface on the screen stays in its process

    def __enter__(self) -> Self:
        self._depth += 1
        if self._depth == 1:
            self.last, self._begun = None, time.perf_counter()
            _open.append(self)
            self._raise()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._lower()
            _open.remove(self)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the bar, so that lines can be printed in its place."""
        self._lower()
        yield
        self._raise()

    def __call__(self, news: Progress) -> None:
        """Show the latest report of a run."""
        if news.word != self.word:
            news = replace(news, word=self.word)
        if self.last is None or news.phase != self.last.phase:
            self._begun = time.perf_counter()
        self.last = news
        if self._surface is not None:
            self._surface.show(news, self._begun)

    def _raise(self) -> None:
        if _open[0] is not self:
            return
        self._surface = _surface(self._log if self.lines else None)
        if self._surface is not None:
            self._surface.show(self.last, self._begun)

    def _lower(self) -> None:
        if self._surface is not None:
            self._surface.close(self.last)
        self._surface = None


def _surface(log: LogLines | None) -> Surface | None:
    """The surface for the bar of this process, None where there is none."""
    if in_notebook():
        return Cell()
    with suppress(AttributeError, ValueError):  # no standard error, or a closed one
        if sys.stderr.isatty():
            return Terminal()
    return log


def in_notebook() -> bool:
    """Whether this process is a notebook's kernel."""
    ipython_module = sys.modules.get("IPython")
    shell = None if ipython_module is None else ipython_module.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


# --- surfaces -----------------------------------------------------------------


class Terminal:
    """A bar of rich on standard error, redrawn by a thread of its own."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, ProgressColumn, SpinnerColumn
        from rich.progress import Progress as RichProgress
        from rich.text import Text

        out = Console(stderr=True, highlight=False, markup=False, emoji=False)
        terminal = self

        class Beside(ProgressColumn):
            """The line beside the bar, as long as there is room for it."""

            max_refresh = None

            def render(self, task: Any) -> Text:
                text_width = max(20, out.width - BESIDE)
                text = describe_within(terminal.news, terminal.begun, text_width)
                return Text(printable(text), no_wrap=True, overflow="ellipsis")

        spinner_name = "dots" if "utf" in (out.encoding or "").lower() else "line"
        # Standard output must not be redirected: it may be a file while this bar
        # is on a terminal.
        self._bar = RichProgress(
            SpinnerColumn(spinner_name),
            BarColumn(NARROW),
            Beside(),
            console=out,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=None)
        self.news: Progress | None = None
        self.begun = time.perf_counter()
        self._bar.start()

    def show(self, news: Progress | None, begun: float) -> None:
        """Keep the report for the next redraw."""
        self.news, self.begun = news, begun
        num_done, num_total = _share(news)
        self._bar.update(self._task, completed=num_done, total=num_total)

    def close(self, news: Progress | None) -> None:
        """Wipe the bar off the screen."""
        self._bar.stop()


class Cell:
    """One line under a notebook's cell, rewritten in place."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._drawn = -1.0
        self._text = ""

    def show(self, news: Progress | None, begun: float, *, now: bool = False) -> None:
        """Rewrite the line, a few times per second at the most."""
        if not now and time.perf_counter() - self._drawn < TICKS:
            return
        text = describe(news)
        if text != self._text:
            self._draw(text, news)
        self._drawn, self._text = time.perf_counter(), text

    def close(self, news: Progress | None) -> None:
        """Leave the last line."""
        self.show(news, 0.0, now=True)

    def _draw(self, text: str, news: Progress | None) -> None:
        from IPython.display import display

        num_done, num_total = _share(news)
        bar_attributes = (
            "" if num_total is None else f' value="{num_done:g}" max="{num_total:g}"'
        )
        bar_html = f"<progress{bar_attributes}></progress> "
        if news is not None and news.phase == "done":
            bar_html = ""
        mime_bundle = {
            "text/plain": text,
            "text/html": f"<div>{bar_html}<code>{html.escape(text)}</code></div>",
        }
        if self._handle is None:
            handle = display(mime_bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
            self._handle = handle
        else:
            self._handle.update(mime_bundle, raw=True)


class LogLines:
    """A line now and then, on standard error: for a log."""

    def __init__(self) -> None:
        self._next, self._wait = 0.0, FIRST_WAIT
        self._written = False

    def show(self, news: Progress | None, begun: float) -> None:
        """Write a line, if the last one is old enough."""
        current_time = time.perf_counter()
        if news is None or news.phase == "done" or current_time < self._next:
            return
        self._next = current_time + self._wait
        self._wait = min(LONGEST_WAIT, SLOWER * self._wait)
        self._written = True
        _write(describe(news))

    def close(self, news: Progress | None) -> None:
        """Write the last line, if a line of this run was written before."""
        if self._written and news is not None and news.phase == "done":
            _write(describe(news))
        self._written = False


def _write(line: str) -> None:
    # a log that takes nothing (a full disk, a closed pipe) must not cost the answer
    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(f"smoothcruiser: {printable(line)}", file=sys.stderr, flush=True)


# --- words --------------------------------------------------------------------


def _share(news: Progress | None) -> tuple[float, float | None]:
    """(amount done, total amount): the filled part of the bar."""
    if news is None or news.phase == "exploring":
        return 0.0, None
    if news.price is not None:
        return float(min(news.calls, news.price)), float(news.price)
    if news.total is not None:
        return float(news.done or 0), float(news.total)
    return 0.0, None


def describe(news: Progress | None) -> str:
    """A report in one line, with every number of it."""
    if news is None:
        return WORDS["preparing"]
    return ", ".join(text for _, text in _pieces(news))


def describe_within(news: Progress | None, begun: float, max_length: int) -> str:
    """The most important parts of a report, in at most ``max_length`` characters.

    A phase that has nothing to count shows its duration so far.
    """
    pieces = [(0, WORDS["preparing"])] if news is None else _pieces(news)
    if len(pieces) == 1 and (phase_seconds := time.perf_counter() - begun) >= 1.0:
        pieces.append((1, duration(phase_seconds)))
    while len(pieces) > 1 and len(", ".join(text for _, text in pieces)) > max_length:
        pieces.remove(max(pieces))
    return ", ".join(text for _, text in pieces)


def _pieces(news: Progress) -> list[tuple[int, str]]:
    """The parts of a line, each with its rank: those of high ranks go first."""
    pieces: list[tuple[int, str]] = []
    if news.label:
        pieces.append((1, news.label))
    if news.phase == "done":
        return [*pieces, *_last_pieces(news)]
    has_calls = news.calls > news.resumed or (
        news.calls > 0 and news.phase == "sampling"
    )
    if not has_calls or news.phase in (
        "compiling",
        "starting",
        "inspecting",
        "preparing",
    ):
        if not news.label or news.phase not in ("comparing", "playing", "reproducing"):
            pieces.append((0, WORDS[news.phase]))
    else:
        pieces.append((0, _calls(news)))
    if news.states is not None:
        pieces.append((4, count_noun(news.states, "state")))
    if news.phase == "solving" and news.done is not None:
        pieces.append((2, count_noun(news.done, "sweep")))
    if news.nodes is not None:
        pieces.append((5, count_noun(news.nodes, "node")))
    fresh_calls = news.calls - news.resumed
    if news.price is not None and fresh_calls > 0 and news.seconds > 0.0:
        pieces.append((6, rate(fresh_calls / news.seconds)))
    if news.seconds_left is not None and has_calls:
        # a schedule may end early, where the data allow it
        limit_words = "up to " if news.price is not None and news.nodes is None else ""
        pieces.append((2, f"{limit_words}{duration(news.seconds_left)} left"))
    if news.interval is not None and news.price is not None:
        lower_bound, upper_bound = news.interval
        middle, half_width = (
            (lower_bound + upper_bound) / 2,
            (upper_bound - lower_bound) / 2,
        )
        pieces.append((3, f"{news.word} {middle:.4g} ± {format_bound(half_width)}"))
    elif news.phase == "solving" and news.half_width is not None:
        pieces.append((3, f"error at most {format_bound(news.half_width)}"))
    elif news.half_width is not None:
        pieces.append((3, f"half-width {format_bound(news.half_width, 3)}"))
    elif news.value is not None:
        pieces.append((3, f"{news.word} {news.value:.4g}"))
    return pieces


def _calls(news: Progress) -> str:
    price_text = "" if news.price is None else f" of {amount(news.price)}"
    return f"{amount(news.calls)}{price_text} calls"


def _last_pieces(news: Progress) -> list[tuple[int, str]]:
    """The last line."""
    end_text = f"done: {amount(news.calls)} calls in {duration(news.seconds)}"
    if news.calls == 0:
        end_text = f"done in {duration(news.seconds)}"
    pieces = [(0, end_text)]
    if news.interval is not None:
        lower_bound, upper_bound = news.interval
        pieces.append(
            (
                3,
                f"{news.word} {(lower_bound + upper_bound) / 2:.4g} ± "
                f"{format_bound((upper_bound - lower_bound) / 2)}",
            )
        )
    return pieces
