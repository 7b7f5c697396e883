"""Reports on a run, of one form for every method and verb: calls of ``progress=``.

    progress=True        a bar (``progress.bar``)
    progress=function    it gets a ``Progress`` now and then; False from it ends the run
    progress=None        silence (False too)

One function turns the argument into a callback, and nothing else reads it. A run
reports through ``Phases``: each phase is reported when it begins, and logged. No report
changes the computation: bits and counts are the same with and without it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

from smoothcruiser.errors import InvalidInput
from smoothcruiser.run_control.stop_requests import StopRequest, stoppable_run

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

Phase = Literal[
    "preparing",  # a method is chosen, a schedule computed, a simulator timed
    "compiling",  # the simulator and the engine become machine code
    "starting",  # worker processes or a cluster
    "inspecting",  # the step is called to see whether it keeps its contract
    "sampling",
    "exploring",  # the states of a known model are listed
    "solving",  # sweeps over a known model
    "evaluating",  # rollouts of a policy
    "comparing",  # a run of ``compare`` begins
    "playing",  # between two decisions of ``play``
    "reproducing",
    "done",  # the last report: calls, seconds and interval of the answer
]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a run. A field that a method does not know is None."""

    phase: Phase = "sampling"
    calls: int  # oracle calls so far
    seconds: float  # since the run began, without compiling
    seconds_left: float | None = None  # at the present speed, or until a time limit
    price: int | None = None  # calls of the whole run at the most
    interval: tuple[float, float] | None = None  # of the value: it holds already
    half_width: float | None = None  # to be compared with epsilon
    states: int | None = None  # certified search: states met; exact: states listed
    nodes: int | None = None  # tree search: nodes in memory
    simulations: int | None = None  # tree search
    value: float | None = None  # tree search: the root's, without a promise
    # counted beside calls: sweeps of a solver, states of ``plan_many``, runs of
    # ``compare``, episodes of ``play``
    done: int | None = None
    total: int | None = None
    label: str = ""  # the run under way, in words
    resumed: int = 0  # of the calls, those of earlier sessions of a stored run
    word: str = "value"  # the name of the numbers on a bar


Callback = Callable[[Progress], object]


def progress_callback(progress: object) -> Callback | None:
    """The function that gets reports, from the argument ``progress=``."""
    if progress is None or progress is False:
        return None
    if progress is True:
        from smoothcruiser.progress.bar import Bar

        return Bar()
    if callable(progress):
        return progress
    raise InvalidInput(
        "progress must be True (a bar), a function that takes a Progress, or None, got "
        f"{progress!r:.60}."
    )


def say_costs(callback: Callback | None) -> None:
    """Let a bar call the numbers of its run costs."""
    if callback is not None and hasattr(callback, "word"):
        callback.word = "cost"


def says_stop(returned: object) -> bool:
    """Whether the value that a progress function returned ends the run.

    False does, and so does NumPy's False, the result of comparing its numbers. None, 0
    and others do not: a function that returns nothing in particular asks for nothing.
    """
    shape, dtype = getattr(returned, "shape", None), getattr(returned, "dtype", None)
    # by name, without loading NumPy for --help
    is_numpy_bool = shape == () and str(dtype) == "bool"
    return returned is False or (is_numpy_bool and not returned)


@contextmanager
def show_bar(progress: Callback | None) -> Iterator[None]:
    """Show a bar while the context is open; do nothing for a function."""
    if isinstance(progress, AbstractContextManager):
        with progress:
            yield
    else:
        yield


def time_left(
    calls: int, price: int | None, seconds: float, until: float | None = None
) -> float | None:
    """The seconds left, from ``calls`` of ``price`` made in ``seconds``.

    ``until`` are the seconds to a time limit, which may come first.
    """
    seconds_left = until
    if price is not None and calls > 0 and seconds > 0.0:
        seconds_left = max(0.0, (price - calls) * seconds / calls)
        seconds_left = seconds_left if until is None else min(seconds_left, until)
    return None if seconds_left is None else max(0.0, seconds_left)


class Phases:
    """The phases of one run: each is reported when it begins, and logged.

    ``refused`` is True once the callback returned False.
    """

    def __init__(
        self, callback: Callback | None, hold: StopRequest | None = None
    ) -> None:
        """Phases that are reported to ``callback``.

        ``hold`` is that of a held run: Ctrl-C in the callback is noted there, and not
        raised.
        """
        self.callback, self.hold = callback, hold
        self.refused = False
        self.last = Progress(phase="preparing", calls=0, seconds=0.0)
        self._began: float | None = None

    def begin(self, phase: Phase, **facts: Any) -> bool:
        """Report that a phase begins; return whether the run has to stop."""
        if log.isEnabledFor(logging.DEBUG):
            current_time = time.perf_counter()
            if self._began is not None:
                log.debug(
                    "%s took %.3g s", self.last.phase, current_time - self._began
                )
            log.debug("%s begins", phase)
            self._began = current_time
        return self.tell(phase=phase, **facts)

    def tell(self, **facts: Any) -> bool:
        """Report changed fields; return whether the run has to stop."""
        self.last = replace(self.last, **facts)
        if self.callback is None:
            return False
        if self.hold is None:
            returned_value = self.callback(self.last)
        else:
            try:
                with self.hold.opened():
                    returned_value = self.callback(self.last)
            except KeyboardInterrupt:
                return True
        must_stop = says_stop(returned_value)
        self.refused = self.refused or must_stop
        return must_stop


def add_earlier_work(
    callback: Callback | None,
    calls: int,
    seconds: float = 0.0,
    interval: Callable[[Any], Any] | None = None,
) -> Callback | None:
    """Reports on a part of a run that include the calls and seconds before it.

    ``interval`` is applied to the interval of each report.
    """
    if callback is None or (calls == 0 and seconds == 0.0 and interval is None):
        return callback

    def report(news: Progress) -> object:
        return callback(
            replace(
                news,
                calls=news.calls + calls,
                seconds=news.seconds + seconds,
                price=None if news.price is None else news.price + calls,
                interval=news.interval
                if interval is None
                else interval(news.interval),
            )
        )

    return report


def skip_last_report(callback: Callback | None) -> Callback | None:
    """Reports of a part of a run: all but its last one, which is not that of the run."""
    if callback is None:
        return None
    return lambda seen: None if seen.phase == "done" else callback(seen)


def finish(callback: Callback | None, **facts: Any) -> None:
    """Send the last report, of an answer; the callback's return value is ignored."""
    if callback is None:
        return
    # the answer is there: Ctrl-C in the callback must not lose it
    with stoppable_run(), suppress(KeyboardInterrupt):
        callback(Progress(**facts | {"phase": "done", "seconds_left": 0.0}))


def report_progress(verb: Callable[P, T]) -> Callable[P, T]:
    """Wrap a verb that takes ``progress=``: show its bar, report its answer last."""

    @wraps(verb)
    def reporting(*args: P.args, **kwargs: P.kwargs) -> T:
        callback = progress_callback(kwargs.get("progress"))
        if callback is None:
            return verb(*args, **kwargs)
        kwargs["progress"] = callback
        with show_bar(callback):
            answer: Any = verb(*args, **kwargs)
            facts = {"calls": answer.num_calls, "seconds": answer.seconds}
            finish(callback, interval=answer.interval, **facts)
        return answer  # type: ignore[no-any-return]

    return reporting
