"""Ctrl-C ends a run with an answer, wherever the run is.

A KeyboardInterrupt may be raised between any two instructions, also in the
middle of entering a sample. So a run that answers from its samples is *held*:
there Ctrl-C is a request that the run reads when it likes
(``StopRequest.came``), and an exception only where the run says that it may be
broken off (``StopRequest.open``): in a call of the user's step, in a wait for
workers.

The first signal stops the run politely. A second one ends the process, also in
the middle of machine code that never returns (``signal_listener``); stored work
stays. A notebook's kernel is not ended: its owner would lose more than this
run. There the second Ctrl-C raises KeyboardInterrupt wherever the run is.

A wrapper such as ``timeout`` sends a signal to the process and to its group, so
that it comes twice at once. A signal that follows within ``SAME_SECONDS``
therefore counts as the same one. SIGINT is treated so, and SIGTERM where the
command line has a handler for it. A handler of the user's own is called each
time, as always; if it raises KeyboardInterrupt, a held run takes that as a
request. Runs outside the main thread, where Python takes no signals, are left
as they are.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from smoothcruiser.errors import spell_arguments
from smoothcruiser.run_control.signal_listener import (
    ENDED,
    LAST_TEXT,
    SAME_SECONDS,
    current_listener,
    start_listening,
    stop_listening,
)

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_hints: list[str] = []  # of the runs under way, the innermost last
_num_stops = 0  # runs that were stopped by Ctrl-C and answered
_earlier_handlers: dict[int, Any] = {}  # those that ``_on_signal`` stands for
# None, or the signals that came while the outermost run is entered or left
_deferred: list[int] | None = None


class TimeIsUp(KeyboardInterrupt):
    """A wait that a time limit has ended (``call_seconds``): no stop by hand."""


class StopRequest:
    """A request to stop a run, and whether the run may be broken off now."""

    __slots__ = ("came", "open", "when")

    def __init__(self) -> None:
        self.came = False
        self.open = False  # in here, a stop raises KeyboardInterrupt
        self.when = 0.0

    def ask(self) -> None:
        """Take note of a stop."""
        global _num_stops
        if not self.came:
            _num_stops += 1
        self.came, self.when = True, time.monotonic()

    def begin(self) -> None:
        """From here on a stop raises KeyboardInterrupt, also one that came before."""
        self.open = True  # first, lest a stop falls between the two
        if self.came:
            raise KeyboardInterrupt

    def broke(self, error: BaseException) -> bool:
        """Whether an error that ended an open part is a stop.

        A KeyboardInterrupt is, also one of the user's own. So is any error after a
        stop, since the signal reaches a simulator's child processes as well.
        """
        self.open = False
        if isinstance(error, KeyboardInterrupt) and not isinstance(error, TimeIsUp):
            self.ask()
        return self.came

    @contextmanager
    def opened(self) -> Iterator[None]:
        """A part that a stop breaks off, with KeyboardInterrupt."""
        try:
            self.begin()
            yield
            self.open = False
        except BaseException as error:
            if self.broke(error) and not isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            raise


_hold: StopRequest | None = None  # of the held run in the main thread


@contextmanager
def stoppable_run() -> Iterator[StopRequest]:
    """A run that Ctrl-C asks to stop, instead of raising KeyboardInterrupt anywhere.

    Held runs inside each other are one run: a request to stop one of them means all.
    Outside the main thread there are no requests.
    """
    global _hold
    if threading.current_thread() is not threading.main_thread():
        yield StopRequest()
        return
    outer_hold = _hold
    own_hold = StopRequest() if outer_hold is None else outer_hold
    was_open, own_hold.open = own_hold.open, False
    _hold = own_hold
    try:
        with stoppable():
            yield own_hold
    finally:
        _hold, own_hold.open = outer_hold, was_open


@contextmanager
def unbroken() -> Iterator[None]:
    """A part that Ctrl-C may not break off, such as an import.

    Half a module stays behind where one is, and every later import finds it. A stop
    is raised after the part, where it would have been raised in it.
    """
    is_breakable = _hold is None or _hold.open
    with stoppable_run() as hold:
        yield
    if hold.came and is_breakable:
        raise KeyboardInterrupt


@contextmanager
def stoppable(*handlers: Any) -> Iterator[None]:
    """For as long as it is open, or the function so decorated runs, a second Ctrl-C
    ends the process.

    ``handlers`` raise KeyboardInterrupt, as Python's own does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    depth = len(_hints)
    try:
        _hints.append("")
        if depth == 0:
            with _deferred_signals():
                _take_handlers(handlers)
        yield
    finally:
        try:
            _leave(depth)
        except KeyboardInterrupt:  # before it began; the same signal comes only once
            _leave(depth)
            raise


def _leave(depth: int) -> None:
    """Leave the runs from level ``depth`` on."""
    has_told = any(_hints[depth:])
    del _hints[depth:]
    if depth == 0:
        with _deferred_signals():
            stop_listening()
            _restore_handlers()
    elif has_told:
        _say_last()


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Note the signals that come in here, and deliver them after it.

    A handler that was left in its place would end the process at a Ctrl-C long after
    the run.
    """
    global _deferred
    signals: list[int] = []
    _deferred = signals
    try:
        yield
    finally:
        _deferred = None
    for number in signals:
        signal.raise_signal(number)


def _take_handlers(handlers: tuple[Any, ...]) -> None:
    """Put ``_on_signal`` before the handlers in Python, and listen to second signals.

    A user's own handler decides on the meaning of a second signal.
    """
    for number in SIGNALS:
        earlier_handler = signal.getsignal(number)
        is_ours = number == signal.SIGINT or earlier_handler in handlers
        if is_ours and callable(earlier_handler):
            _earlier_handlers[number] = earlier_handler
            signal.signal(number, _on_signal)
    known_handlers = (signal.default_int_handler, *handlers)
    start_listening([n for n, x in _earlier_handlers.items() if x in known_handlers])


def _restore_handlers() -> None:
    for number, earlier_handler in _earlier_handlers.items():
        if signal.getsignal(number) is _on_signal:  # nobody else has taken it since
            signal.signal(number, earlier_handler)
    _earlier_handlers.clear()


def _on_signal(number: int, frame: Any) -> None:
    """Call the handler that was there; a held run takes its KeyboardInterrupt as a
    request.
    """
    if _deferred is not None:
        _deferred.append(number)
        return
    listener = current_listener()
    if listener is not None and listener.is_repeated(number):
        return
    hold, current_time = _hold, time.monotonic()
    is_repeated = hold is not None and hold.came
    if hold is not None and is_repeated and current_time - hold.when <= SAME_SECONDS:
        return
    try:
        _earlier_handlers[number](number, frame)
    except KeyboardInterrupt:
        if hold is not None:
            hold.ask()
        if hold is None or hold.open or is_repeated:
            raise


def current_stops() -> int:
    """The number of runs in this process that answered a Ctrl-C from their samples.

    A caller of several runs ends all of them when the number grows.
    """
    return _num_stops


def count_stop(error: BaseException) -> None:
    """Note that a run is about to answer in spite of ``error``, if it is a Ctrl-C."""
    global _num_stops
    if isinstance(error, KeyboardInterrupt) and not isinstance(error, TimeIsUp):
        _num_stops += 1


def tell_at_the_end(hint: str) -> None:
    """Let a second Ctrl-C print where the work of this run is kept."""
    if threading.current_thread() is threading.main_thread() and _hints:
        _hints[-1] = f" {spell_arguments(hint)}"
        _say_last()


def _say_last() -> None:
    listener = current_listener()
    if listener is not None:
        listener.say(LAST_TEXT, f"{ENDED}{_hints[-1]}")
