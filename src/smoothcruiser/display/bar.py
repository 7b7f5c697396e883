"""A progress bar on standard error: calls so far, calls per second, time left.

It prints nothing where standard error is no terminal. It hears of a run through
``announce`` (the price) and ``report`` (calls so far, as ``plan``'s
``progress``). It keeps the last report, so that a run that is stopped can still
say what is known.
Scheduled runs have a price to fill up to; certified search shows how wide its
interval still is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as RichProgress

from smoothcruiser.progress import Progress
from smoothcruiser.schedule.numbers import amount, duration, rate
from smoothcruiser.schedule.schedule import Schedule


class Bar:
    """Use as a context around a run, with ``report`` as its ``progress``."""

    def __init__(self, out: Console) -> None:
        self.last: Progress | None = None  # the latest report
        # calls of earlier sessions of a resumed run: they took none of this one's time
        self.before = 0
        self.shown = out.is_terminal
        columns = (SpinnerColumn(), BarColumn(24), TextColumn("{task.description}"))
        # Standard output must not be redirected: it may be a file while this bar
        # is on a terminal.
        self._progress = RichProgress(
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

    def report(self, news: Progress) -> None:
        """Show the latest report of a run."""
        self.last = news
        if self.shown:
            self._progress.update(
                self._task,
                total=news.price,
                completed=news.calls,
                description=describe(news, self.before),
            )


def describe(news: Progress, before: int = 0) -> str:
    """A report in one short line.

    Its speed leaves out the first ``before`` calls, made by an earlier session.
    """
    calls = news.calls
    if news.price is None:  # certified search: no price, but an interval at any time
        return (
            f"{amount(calls)} calls, {amount(news.states or 0)} states, "
            f"half-width {news.half_width:.3g}"
        )
    speed = (calls - before) / news.seconds if news.seconds > 0.0 else 0.0
    text = f"{amount(calls)} of {amount(news.price)} calls, {rate(speed)}"
    if speed > 0.0:
        text += f", {duration((news.price - calls) / speed)} left"
    if news.interval:  # what the checkpoints so far certify
        low, high = news.interval
        text += f", value {(low + high) / 2:.4g} ± {(high - low) / 2:.2g} so far"
    return text
