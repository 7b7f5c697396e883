"""A clock that stands still while its thread compiles.

The rule for ``seconds=``, in every method: it limits the time in which samples
are taken and used. Compiling is not counted, and neither is loading compiled
code from the disk. So the first call on a machine with empty caches takes
longer than ``seconds=`` by the time for compiling (``compile_seconds`` of the
answer), and has as much time for its samples as any later one.

Numba compiles where a function is first called, in any line of ours or of a
user's. It says when it begins and ends (the event of its lock, which also
covers loading from its cache, and waiting for a thread that compiles), and a
``Clock`` listens. Other work that is done once, such as an import of modules,
is marked with ``pause_clock``.

Each thread has its own count: compiling beside a run costs the run nothing.
This file loads no Numba: it listens as soon as others have.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

LEAST_SECONDS = 1e-3  # a part of a run that is begun gets so many
LOCK = "numba:compiler_lock"  # Numba's name for the time in which it compiles


class _Thread:
    """The time of one thread that does not count; other threads may read it.

    They, and a signal between two of its lines, see too little time counted, never
    too much.
    """

    def __init__(self) -> None:
        self.owner = threading.get_ident()
        self.marked = 0  # depth of ``pause_clock``
        self.compiling = 0  # depth of Numba's lock
        self.since = 0.0  # when the outermost of them began
        self.total = 0.0  # seconds of those that have ended

    def enter(self, marked: int, compiling: int) -> None:
        if not (self.marked or self.compiling):
            self.since = time.perf_counter()
        self.marked += marked
        self.compiling += compiling

    def leave(self, marked: int, compiling: int) -> None:
        if not (self.marked or self.compiling):
            return
        if self.marked <= marked and self.compiling <= compiling:
            self.total += time.perf_counter() - self.since
        self.marked -= marked
        self.compiling = max(0, self.compiling - compiling)

    def now(self) -> float:
        """The time now, less the seconds that do not count."""
        is_here = self.owner == threading.get_ident()
        if self.compiling and is_here and not _compiles():
            self.leave(0, self.compiling)  # an exception came before its end
        is_paused = self.marked or self.compiling
        return (self.since if is_paused else time.perf_counter()) - self.total


_threads = threading.local()
_listening: list[object] = []


def _here() -> _Thread:
    """The time of this thread."""
    if not hasattr(_threads, "time"):
        _threads.time = _Thread()
    thread_time: _Thread = _threads.time
    return thread_time


def _compiles() -> bool:
    """Whether this thread has Numba's lock."""
    from numba.core.compiler_lock import global_compiler_lock

    return bool(global_compiler_lock.is_locked())


def _listen_to_compiler() -> None:
    """Listen from now on to Numba's compiler, if it is loaded."""
    if _listening or "numba.core.event" not in sys.modules:
        return
    from numba.core import event

    class Compiling(event.Listener):  # type: ignore[misc]
        def on_start(self, event: object) -> None:
            """Pause."""
            _here().enter(0, 1)

        def on_end(self, event: object) -> None:
            """Go on."""
            _here().leave(0, 1)

    _listening.append(Compiling())
    event.register(LOCK, _listening[0])


@contextmanager
def pause_clock() -> Iterator[None]:
    """Pause the clocks of this thread within the block."""
    _here().enter(1, 0)
    try:
        yield
    finally:
        _here().leave(1, 0)
        _listen_to_compiler()


class Clock:
    """The seconds that count since it was made, in the thread that made it.

    Other threads may read it.
    """

    def __init__(self, limit: float | None = None, spent: float = 0.0) -> None:
        """``spent`` of the ``limit`` were taken before."""
        _listen_to_compiler()
        self.limit = math.inf if limit is None else limit
        self.is_limited = self.limit < math.inf
        self._thread = _here()
        self._begin, self._at = self._thread.now() - spent, time.perf_counter() - spent

    def elapsed(self) -> float:
        """The seconds so far."""
        return self._thread.now() - self._begin

    def left(self) -> float:
        """The seconds until the limit, below 0 after it."""
        return self.limit - self.elapsed()

    def is_paused(self) -> bool:
        """Whether the thread compiles, or waits for what does not count."""
        self._thread.now()  # forgets compiling that an exception has ended
        return bool(self._thread.marked or self._thread.compiling)

    def remaining(self) -> float | None:
        """The seconds for a part that is begun now, or None without a limit."""
        return max(LEAST_SECONDS, self.left()) if self.is_limited else None

    def compile_seconds(self) -> float:
        """The seconds that do not count so far."""
        return max(0.0, time.perf_counter() - self._at - self.elapsed())
