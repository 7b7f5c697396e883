"""Watchdogs: two end a call, one ends a wait, one says that a limit has passed.

The problem's ``call_seconds`` limits one call. A watching thread sees that no
call has finished for that long and raises inside the call, so that the error
names the state and action at hand. In the main thread it uses a signal, which
also ends a sleep or a blocking read. In other threads it sets an exception on
the thread, which ends Python loops. Native code that neither returns nor
releases the interpreter's lock can be ended by neither: run such a simulator
with executor ``processes`` and ``seconds``.

A run in this thread sees its time limit between two calls. ``Breaker`` ends a call
that lasts beyond it, by another signal, and only while the user's code runs. It does so
for searches too, which sample in slices: a simulator that becomes slow in the middle
of one is not waited for.

Searches in machine code see their time limit only between two parts of it.
``warn_if_overdue`` says so where a part does not end; a second Ctrl-C ends the process then
(``jit.interrupts``).
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Protocol, Self, TypeVar

from smoothcruiser.errors import Hung
from smoothcruiser.jit.interrupts import StopRequest, TimeIsUp

# A share of ``call_seconds`` between two checks of the watching thread: an
# overlong call is ended at most 25% late.
WATCH_SHARE = 0.25
LATE_SECONDS = 10.0  # after a time limit, until it is said that it has passed
AGAIN_SECONDS = 0.1  # between two attempts to end a call
# The signal of a Breaker: one that is ignored wherever nobody waits for it.
SIGNAL: Any = getattr(signal, "SIGURG", None)
Function = TypeVar("Function", bound=Any)
_callers: set[CodeType] = set()


def calls_the_oracle(function: Function) -> Function:
    """Let a Breaker end the calls that this function makes, but no line of its own."""
    _callers.add(function.__code__)
    return function


class Counting(Protocol):
    """An engine that counts its oracle calls as it makes them."""

    @property
    def calls(self) -> int:
        """Calls so far."""


@contextmanager
def limit_call_seconds(engine: Counting, call_seconds: float | None) -> Iterator[None]:
    """Raise ``Hung`` in this thread if an oracle call lasts over ``call_seconds``."""
    if call_seconds is None:
        yield
        return
    finished_event = threading.Event()
    thread_id = threading.get_ident()
    by_signal = threading.current_thread() is threading.main_thread() and hasattr(
        signal, "pthread_kill"
    )
    earlier_handler = signal.signal(signal.SIGALRM, _raise_hung) if by_signal else None

    def watch() -> None:
        calls_seen, quiet_seconds = engine.calls, 0.0
        while not finished_event.wait(WATCH_SHARE * call_seconds):
            quiet_seconds = (
                quiet_seconds + WATCH_SHARE * call_seconds
                if engine.calls == calls_seen
                else 0.0
            )
            calls_seen = engine.calls
            if quiet_seconds >= call_seconds:
                if by_signal:
                    signal.pthread_kill(thread_id, signal.SIGALRM)
                else:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread_id), ctypes.py_object(Hung)
                    )
                quiet_seconds = 0.0

    watcher = threading.Thread(target=watch, daemon=True, name="smoothcruiser-watch")
    watcher.start()
    try:
        yield
    finally:
        finished_event.set()
        watcher.join()
        if by_signal:
            signal.signal(signal.SIGALRM, earlier_handler)


def _raise_hung(*_: Any) -> None:
    raise Hung


class Breaker:
    """Ends a call of the oracle in this thread that lasts beyond a time.

    The call raises ``TimeIsUp``, which is handled where a Ctrl-C is. A held run
    (``hold``) decides itself which calls may end; outside the main thread, where it takes
    no signals, none of its calls is ended.
    """

    fired = False  # whether it has ended one

    def __init__(self, hold: StopRequest | None = None) -> None:
        self.hold = hold

    def __enter__(self) -> Self:
        self.thread_id, self.finished_event = threading.get_ident(), threading.Event()
        is_main = threading.current_thread() is threading.main_thread()
        self.by_signal = is_main and SIGNAL is not None and os.name == "posix"
        if self.by_signal:
            self.earlier_handler = signal.signal(SIGNAL, self._break)
        return self

    def __exit__(self, *_: object) -> None:
        self.finished_event.set()
        if self.by_signal:
            signal.signal(SIGNAL, self.earlier_handler or signal.SIG_DFL)

    def arm(self, seconds: float) -> None:
        """End a running call after so many seconds from now."""

        def wait() -> None:
            is_over = self.finished_event.wait(
                min(max(0.0, seconds), threading.TIMEOUT_MAX)
            )
            while not is_over:
                self._send()
                is_over = self.finished_event.wait(AGAIN_SECONDS)

        threading.Thread(target=wait, daemon=True, name="smoothcruiser-end").start()

    def _send(self) -> None:
        if self.by_signal:
            signal.pthread_kill(self.thread_id, SIGNAL)
        elif self.hold is None and _in_a_call(
            sys._current_frames().get(self.thread_id)
        ):
            self.fired = True
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.thread_id), ctypes.py_object(TimeIsUp)
            )

    def _break(self, number: int, frame: FrameType | None) -> None:
        if _in_a_call(frame) if self.hold is None else self.hold.open:
            self.fired = True
            raise TimeIsUp


def _in_a_call(frame: FrameType | None) -> bool:
    """Whether a frame is below a function that calls the oracle."""
    if frame is None or frame.f_code in _callers:
        return False
    while frame is not None and frame.f_code not in _callers:
        frame = frame.f_back
    return frame is not None


@contextmanager
def waiting_until(deadline: float) -> Iterator[None]:
    """Raise ``TimeIsUp`` in here at ``deadline``, in the clock of ``perf_counter``.

    It is for waits, such as that for a cluster; oracles are not called in here.
    """
    seconds_left = deadline - time.perf_counter()
    if seconds_left >= threading.TIMEOUT_MAX:
        yield
        return
    is_main = threading.current_thread() is threading.main_thread()
    by_signal = is_main and hasattr(signal, "pthread_kill")
    thread_id = threading.get_ident()

    def end() -> None:
        if by_signal:
            signal.pthread_kill(thread_id, signal.SIGALRM)
        else:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread_id), ctypes.py_object(TimeIsUp)
            )

    timer = threading.Timer(max(0.0, seconds_left), end)
    timer.daemon = True
    earlier_handler = (
        signal.signal(signal.SIGALRM, _raise_time_is_up) if by_signal else None
    )
    try:
        timer.start()
        yield
    finally:
        timer.cancel()
        timer.join()
        if by_signal:
            signal.signal(signal.SIGALRM, earlier_handler)


def _raise_time_is_up(*_: Any) -> None:
    raise TimeIsUp


@contextmanager
def end_calls_at(deadline: float, hold: StopRequest) -> Iterator[None]:
    """End an oracle call of a held run that lasts beyond ``deadline`` (perf_counter)."""
    if deadline == math.inf:
        yield
        return
    with Breaker(hold) as breaker:
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
