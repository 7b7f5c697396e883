"""A progress bar on standard error: calls so far, calls per second, time left.

It prints nothing where standard error is no terminal. It hears of a run through
``plan``'s ``announce`` (the price) and ``progress`` (calls so far). It keeps the
last report, so that a run that is stopped can still say what is known.
Scheduled runs have a price to fill up to; certified search shows how wide its
interval still is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from smoothcruiser.report.price import duration, rate
from smoothcruiser.schedule.schedule import Schedule


class Bar:
    """Use as a context around a run; pass ``announce`` and ``report`` to ``plan``."""

    def __init__(self, out: Console) -> None:
        self.last: Any = None  # the latest report
        # calls of earlier sessions of a resumed run: they took none of this one's time
        self.before = 0
        self.shown = out.is_terminal
        columns = (SpinnerColumn(), BarColumn(24), TextColumn("{task.description}"))
        # Standard output must not be redirected: it may be a file while this bar
        # is on a terminal.
        self._progress = Progress(
            *columns,
            console=out,
            transient=True,
            disable=not self.shown,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("planning", total=None)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """The bar out of the way, so that lines can be printed where it was."""
        self._progress.stop()
        yield
        self._progress.start()

    def announce(self, schedule: Schedule) -> None:
        """The run is about to compile and start."""
        compiling = "compiling the simulator into the engine"
        self._progress.update(self._task, description=compiling)

    def report(self, news: Any) -> None:
        """Show the latest report of a run."""
        self.last = news
        if self.shown:
            total = getattr(news, "price", None)
            self._progress.update(
                self._task,
                total=total,
                completed=getattr(news, "calls", 0),
                description=describe(news, self.before),
            )


def describe(news: Any, before: int = 0) -> str:
    """A report in one short line.

    Its speed leaves out the first ``before`` calls, made by an earlier session.
    """
    calls = getattr(news, "calls", None)
    if calls is None:  # certified search: no price, but an interval at any time
        return (
            f"{amount(news.num_calls)} calls, {amount(news.num_states)} "
            f"states, half-width {news.half_width:.3g}"
        )
    speed = (calls - before) / news.seconds if news.seconds > 0.0 else 0.0
    text = f"{amount(calls)} of {amount(news.price)} calls, {rate(speed)}"
    if speed > 0.0:
        text += f", {duration((news.price - calls) / speed)} left"
    interval = getattr(news, "interval", None)  # what the checkpoints so far certify
    if interval:
        low, high = interval
        text += f", value {(low + high) / 2:.4g} ± {(high - low) / 2:.2g} so far"
    return text


def amount(count: int) -> str:
    """A count in the units of a speed: '950', '58.2 k', '133 M'."""
    for unit, size, least in (("M", 10**6, 10**6), ("k", 10**3, 10**4)):
        if count >= least:
            value = count / size
            return f"{value:,.0f} {unit}" if value >= 99.95 else f"{value:.3g} {unit}"
    return f"{count:,}"
