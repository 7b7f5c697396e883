"""Watchdogs: one ends a call, one ends a wait, one says that a limit has passed.

The problem's ``call_seconds`` limits one call. A watching thread sees that no
call has finished for that long and raises inside the call, so that the error
names the state and action at hand. In the main thread it uses a signal, which
also ends a sleep or a blocking read. In other threads it sets an exception on
the thread, which ends Python loops. Native code that neither returns nor
releases the interpreter's lock can be ended by neither: run such a simulator
with executor ``processes`` and ``seconds``.

Searches run machine code in the main thread and see their time limit only between
two parts of it. ``overdue`` says so where a part does not end; a second Ctrl-C ends
the process then (``jit.interrupts``).
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from smoothcruiser.errors import Hung
from smoothcruiser.jit.interrupts import TimeIsUp

# A share of ``call_seconds`` between two checks of the watching thread: an
# overlong call is ended at most 25% late.
WATCH_SHARE = 0.25
LATE_SECONDS = 10.0  # after a time limit, until it is said that it has passed


class Counting(Protocol):
    """An engine that counts its oracle calls as it makes them."""

    calls: int


@contextmanager
def watched(engine: Counting, call_seconds: float | None) -> Iterator[None]:
    """Raise ``Hung`` in this thread if an oracle call lasts over ``call_seconds``."""
    if call_seconds is None:
        yield
        return
    over = threading.Event()
    thread = threading.get_ident()
    by_signal = threading.current_thread() is threading.main_thread() and hasattr(
        signal, "pthread_kill"
    )
    before = signal.signal(signal.SIGALRM, _raise_hung) if by_signal else None

    def watch() -> None:
        seen, quiet = engine.calls, 0.0
        while not over.wait(WATCH_SHARE * call_seconds):
            quiet = quiet + WATCH_SHARE * call_seconds if engine.calls == seen else 0.0
            seen = engine.calls
            if quiet >= call_seconds:
                if by_signal:
                    signal.pthread_kill(thread, signal.SIGALRM)
                else:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread), ctypes.py_object(Hung)
                    )
                quiet = 0.0

    watcher = threading.Thread(target=watch, daemon=True, name="smoothcruiser-watch")
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        if by_signal:
            signal.signal(signal.SIGALRM, before)


def _raise_hung(*_: Any) -> None:
    raise Hung


@contextmanager
def waiting_until(deadline: float) -> Iterator[None]:
    """Raise ``TimeIsUp`` in here at ``deadline``, in the clock of ``perf_counter``.

    It is for waits, such as that for a cluster; oracles are not called in here.
    """
    left = deadline - time.perf_counter()
    if left >= threading.TIMEOUT_MAX:
        yield
        return
    main = threading.current_thread() is threading.main_thread()
    by_signal = main and hasattr(signal, "pthread_kill")
    thread = threading.get_ident()

    def end() -> None:
        if by_signal:
            signal.pthread_kill(thread, signal.SIGALRM)
        else:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread), ctypes.py_object(TimeIsUp)
            )

    timer = threading.Timer(max(0.0, left), end)
    timer.daemon = True
    before = signal.signal(signal.SIGALRM, _raise_time_is_up) if by_signal else None
    try:
        timer.start()
        yield
    finally:
        timer.cancel()
        timer.join()
        if by_signal:
            signal.signal(signal.SIGALRM, before)


def _raise_time_is_up(*_: Any) -> None:
    raise TimeIsUp


@contextmanager
def overdue(seconds: float | None) -> Iterator[None]:
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
