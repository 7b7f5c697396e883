"""Limits of seconds for single calls and waits, held by another thread.

``limit_call_seconds`` is the problem's ``call_seconds``: where no call has
finished for that long it raises ``Hung`` inside the call, so that the error
names the state and action at hand. A run sees its time limit between two calls;
``Breaker`` ends one call, or one wait, that lasts beyond it, and only while the
user's code runs (or where a stoppable run says that it may be broken off).
``warn_if_overdue`` says that a limit has passed where a call in machine code
does not return; a second Ctrl-C ends the process then (``signal_listener``).

In the main thread the error is raised by a signal, which also ends a sleep or a
blocking read. In other threads it is set on the thread, which ends Python
loops. Machine code that does not return can be ended by neither: run such a
simulator with executor ``processes`` and ``seconds``.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Protocol, Self, TypeVar

from smoothcruiser.errors import Hung
from smoothcruiser.run_control.clock import Clock
from smoothcruiser.run_control.stop_requests import StopRequest, TimeIsUp

# A share of ``call_seconds`` between two checks of the watching thread: an
# overlong call is ended at most 25% late.
WATCH_SHARE = 0.25
LATE_SECONDS = 10.0  # after a time limit, until it is said that it has passed
AGAIN_SECONDS = 0.1  # between two attempts to end a call
# One signal for each of two watchdogs that run inside each other. SIGURG is ignored
# wherever nobody waits for it.
CALL_SIGNAL: Any = getattr(signal, "SIGALRM", None)
TIME_SIGNAL: Any = getattr(signal, "SIGURG", None)
Function = TypeVar("Function", bound=Any)
MayRaise = Callable[[FrameType | None], bool]
_callers: set[CodeType] = set()


def calls_the_oracle(function: Function) -> Function:
    """Let a Breaker end the calls that this function makes, but no line of its own."""
    _callers.add(function.__code__)
    return function


def is_in_call(frame: FrameType | None) -> bool:
    """Whether a frame is below a function that calls the oracle."""
    if frame is None or frame.f_code in _callers:
        return False
    while frame is not None and frame.f_code not in _callers:
        frame = frame.f_back
    return frame is not None


def _always(frame: FrameType | None) -> bool:
    return True


class _Interrupter:
    """Raises an error in the thread that enters it, when another thread sends it.

    It raises nothing before ``due`` by that thread's clock, and nothing where this is
    paused: an error in the middle of compiling leaves half of a function behind.
    """

    def __init__(
        self,
        error: type[BaseException],
        number: Any,
        may_raise: MayRaise = _always,
        *,
        is_anywhere: bool = True,
    ) -> None:
        """``may_raise`` reads the frame that runs; without ``is_anywhere`` nothing is
        raised outside the main thread.
        """
        self.error, self.number, self.may_raise = error, number, may_raise
        self.is_anywhere, self.fired, self.due = is_anywhere, False, 0.0

    def __enter__(self) -> Self:
        self.clock = Clock()
        self.thread_id = threading.get_ident()
        is_main = threading.current_thread() is threading.main_thread()
        self.by_signal = is_main and self.number is not None and os.name == "posix"
        if self.by_signal:
            self.earlier_handler = signal.signal(self.number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        if self.by_signal:
            signal.signal(self.number, self.earlier_handler or signal.SIG_DFL)

    def send(self) -> None:
        """Raise the error there, if it may be raised now."""
        if self.by_signal:
            signal.pthread_kill(self.thread_id, self.number)
        elif self.is_anywhere and self._is_now(
            sys._current_frames().get(self.thread_id)
        ):
            self.fired = True
            # Ends endless Python loops outside the main thread, where Python delivers no
            # signals; without it such a call is ended only where it returns.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.thread_id), ctypes.py_object(self.error)
            )

    def _is_now(self, frame: FrameType | None) -> bool:
        is_due = not self.clock.is_paused() and self.clock.elapsed() >= self.due
        return is_due and self.may_raise(frame)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._is_now(frame):
            self.fired = True
            raise self.error


class CallCounter(Protocol):
    """An engine that counts its oracle calls as it makes them."""

    @property
    def calls(self) -> int:
        """Calls so far."""


@contextmanager
def limit_call_seconds(
    engine: CallCounter, call_seconds: float | None
) -> Iterator[None]:
    """Raise ``Hung`` in this thread if an oracle call lasts over ``call_seconds``."""
    if call_seconds is None:
        yield
        return
    finished_event = threading.Event()

    def watch() -> None:
        calls_seen, quiet_seconds = engine.calls, 0.0
        while not finished_event.wait(WATCH_SHARE * call_seconds):
            quiet_seconds += WATCH_SHARE * call_seconds
            if engine.calls != calls_seen or interrupter.clock.is_paused():
                calls_seen, quiet_seconds = engine.calls, 0.0
            if quiet_seconds >= call_seconds:
                interrupter.send()
                quiet_seconds = 0.0

    watcher = threading.Thread(target=watch, daemon=True, name="smoothcruiser-watch")
    with _Interrupter(Hung, CALL_SIGNAL) as interrupter:
        watcher.start()
        try:
            yield
        finally:
            finished_event.set()
            watcher.join()


class Breaker(_Interrupter):
    """Ends a call of the oracle in this thread that lasts beyond a time.

    The call raises ``TimeIsUp``, which is handled where a Ctrl-C is. A stoppable run
    (``hold``) decides itself which calls may end; outside the main thread, where it takes
    no signals, none of its calls is ended.
    """

    def __init__(
        self, hold: StopRequest | None = None, may_raise: MayRaise = is_in_call
    ) -> None:
        if hold is not None:
            super().__init__(
                TimeIsUp, TIME_SIGNAL, lambda _: hold.open, is_anywhere=False
            )
        else:
            super().__init__(TimeIsUp, TIME_SIGNAL, may_raise)
        self.finished_event = threading.Event()

    def __exit__(self, *_: object) -> None:
        self.finished_event.set()
        super().__exit__()

    def arm(self, seconds: float) -> None:
        """End a running call after so many seconds from now, by this thread's clock."""
        self.due = self.clock.elapsed() + seconds

        def wait() -> None:
            pause = max(0.0, seconds)
            while not self.finished_event.wait(min(pause, threading.TIMEOUT_MAX)):
                self.send()
                pause = max(AGAIN_SECONDS, self.due - self.clock.elapsed())

        threading.Thread(target=wait, daemon=True, name="smoothcruiser-end").start()


@contextmanager
def end_calls_at(deadline: float, hold: StopRequest | None = None) -> Iterator[None]:
    """Raise ``TimeIsUp`` in here at ``deadline``, in the clock of ``perf_counter``.

    With ``hold``, only where that stoppable run may be broken off; without it anywhere,
    for waits such as that for a cluster, in which oracles are not called.
    """
    if deadline == math.inf:
        yield
        return
    with Breaker(hold, lambda _: not breaker.fired) as breaker:
        breaker.arm(deadline - time.perf_counter())
        yield


@contextmanager
def warn_if_overdue(seconds: float | None) -> Iterator[None]:
    """Say on standard error if this is not over well after its time limit."""
    if seconds is None:
        yield
        return

    def say() -> None:
        print(
            f"A call of the oracle has not returned {LATE_SECONDS:g} s after the time "
            f"limit of {seconds:g} s; press Ctrl-C twice to end.",
            file=sys.stderr,
            flush=True,
        )

    timer = threading.Timer(min(seconds + LATE_SECONDS, threading.TIMEOUT_MAX), say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
