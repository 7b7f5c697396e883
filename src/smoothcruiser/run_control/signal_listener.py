"""A listener for signals in a thread of its own, which ends the process at the second one.

Python runs its handlers in the main thread, between two lines of Python. A step
in machine code that loops for ever there never lets it come so far. But Python
also writes the number of each signal into a pipe, at once
(``signal.set_wakeup_fd``). A thread that waits at the other end hears of it:

  the first signal    for Ctrl-C it prints how to end at once; Python's own handler
                      stops the run politely
  the second one      it prints ``ENDED`` and ends the process, exit code 128 + number

The thread runs ``listen``. Interpreted, it hears whatever runs without the
interpreter's lock or is Python code. Machine code with the lock in its hand (a
compiled step that Python calls, in an inspection) would keep it out. So where a
problem has compiled functions, the thread continues with a compiled ``listen``,
which needs no lock (``jit.build.hear_stops_in``). Kernels stay in the main
thread, and no call of theirs costs more.

A program with a descriptor of its own there (an event loop) keeps it, and has
no listener. A child that is forked forgets it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

SAME_SECONDS = 0.3  # below the time between two presses of a key, above a wrapper's
ENDING_SECONDS = 1.0  # in which the listener is certain to run
CHANGING_SECONDS = 10.0  # in which it changes its form, on a machine however busy
STDERR = 2  # the listener writes past sys.stderr
STOPPING = "Stopping; press Ctrl-C again to end now."
ENDED = "Ended at once."

# The words that ``listen`` reads and writes. A text is an address and a length.
SIGNALS, FIRST_TIME, CLOCK, SECONDS, NANOSECONDS = 0, 1, 2, 3, 4
FIRST_TEXT, LAST_TEXT, IS_LISTENING, NUM_WORDS = 5, 7, 9, 10
STOP_SIGNAL, INTERRUPT, MONOTONIC = 0, int(signal.SIGINT), 1
if hasattr(time, "CLOCK_MONOTONIC"):
    MONOTONIC = time.CLOCK_MONOTONIC
SAME_NANOSECONDS = int(SAME_SECONDS * 1e9)


def _libc_function(name: str, result: Any, *arguments: Any) -> Any:
    """A function of the C library, which runs without the interpreter's lock."""
    if os.name != "posix":
        return None
    function = getattr(ctypes.CDLL(None), name)
    function.restype, function.argtypes = result, arguments
    return function


read = _libc_function(
    "read", ctypes.c_int64, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64
)
write = _libc_function(
    "write", ctypes.c_int64, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64
)
clock_gettime = _libc_function(
    "clock_gettime", ctypes.c_int32, ctypes.c_int32, ctypes.c_int64
)
end_process = _libc_function("_exit", None, ctypes.c_int32)


def listen(descriptor: int, number: Any, address: int, words: Any) -> None:
    """Wait for signals until ``STOP_SIGNAL`` comes through the pipe.

    ``number`` is one byte at ``address``.
    """
    words[IS_LISTENING] = 1
    while read(descriptor, address, 1) == 1 and number[0] != STOP_SIGNAL:
        if (words[SIGNALS] >> number[0]) & 1 == 0:
            continue
        clock_gettime(MONOTONIC, words[CLOCK])
        now = words[SECONDS] * 10**9 + words[NANOSECONDS]
        if words[FIRST_TIME] == 0:
            if number[0] == INTERRUPT:
                write(STDERR, words[FIRST_TEXT], words[FIRST_TEXT + 1])
            words[FIRST_TIME] = now
        elif now - words[FIRST_TIME] > SAME_NANOSECONDS:
            write(STDERR, words[LAST_TEXT], words[LAST_TEXT + 1])
            end_process(128 + number[0])


class SignalListener:
    """A thread that hears of signals while a run is under way; one per process."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        self.number = (ctypes.c_uint8 * 1)()
        self.words = (ctypes.c_int64 * NUM_WORDS)()
        self.words[CLOCK] = ctypes.addressof(self.words) + 8 * SECONDS
        self.texts: dict[int, Any] = {}  # keeps the texts at their addresses alive
        self.say(FIRST_TEXT, STOPPING)
        self.form: Callable[..., None] = listen
        self.heard_at: float | None = None  # when the main thread heard a signal first
        threading.Thread(
            target=self._listen_on, daemon=True, name="smoothcruiser-signals"
        ).start()

    def _listen_on(self) -> None:
        # signals interrupt no read of this thread
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        address = ctypes.addressof(self.number)
        while True:
            self.form(self.reader, self.number, address, self.words)

    def begin(self, signals: list[int]) -> bool:
        """Listen to these signals; False where a program has a descriptor of its own."""
        descriptor = signal.set_wakeup_fd(self.writer, warn_on_full_buffer=False)
        if descriptor not in (-1, self.writer):
            signal.set_wakeup_fd(descriptor)
            return False
        self.say(LAST_TEXT, ENDED)
        self.words[FIRST_TIME], self.heard_at = 0, None
        self.words[SIGNALS] = sum(1 << number for number in signals)
        return True

    def end(self) -> None:
        """Listen no more; a signal that came has been printed then."""
        descriptor = signal.set_wakeup_fd(-1)
        if descriptor != self.writer:  # somebody else has taken it since
            signal.set_wakeup_fd(descriptor)
        if self.heard_at is not None:
            deadline = time.monotonic() + ENDING_SECONDS
            while self.words[FIRST_TIME] == 0 and time.monotonic() < deadline:
                time.sleep(0.001)
        self.words[SIGNALS] = 0

    def say(self, place: int, sentence: str) -> None:
        """Let the thread print a sentence in the place of ``FIRST_TEXT`` or ``LAST_TEXT``."""
        shown_text = f"{sentence}\n"
        if os.isatty(STDERR):  # below a progress bar, which hides the cursor
            shown_text = f"\x1b[?25h\n{shown_text}"
        text_buffer = ctypes.create_string_buffer(shown_text.encode(errors="replace"))
        self.words[place + 1] = 0
        self.words[place] = ctypes.addressof(text_buffer)
        self.words[place + 1] = len(text_buffer) - 1
        self.texts[place] = text_buffer

    def use_form(self, form: Callable[..., None]) -> None:
        """Continue with another form of ``listen``, to the end of the process.

        It listens when this returns. The thread needs the lock to change, and machine
        code that the caller may enter next would never give it.
        """
        self.form, self.words[IS_LISTENING] = form, 0
        os.write(self.writer, bytes([STOP_SIGNAL]))
        deadline = time.monotonic() + CHANGING_SECONDS
        while self.words[IS_LISTENING] == 0 and time.monotonic() < deadline:
            time.sleep(0.001)

    def is_repeated(self, number: int) -> bool:
        """Whether the main thread hears a signal that belongs to the first one.

        At a second signal it waits here for its end.
        """
        if (self.words[SIGNALS] >> number) & 1 == 0:
            return False
        if self.heard_at is None:
            self.heard_at = time.monotonic()
            return False
        if time.monotonic() - self.heard_at > SAME_SECONDS:
            time.sleep(ENDING_SECONDS)
        return True


_listener: SignalListener | None = None
_is_listening = False
_make_unlocked: Callable[[SignalListener], Callable[..., None]] | None = None


def use_unlocked_form(make_form: Callable[[SignalListener], Any]) -> None:
    """Listen without Python's lock from now on, in a run under way too.

    The command line begins one before it imports the user's module.
    """
    global _make_unlocked
    _make_unlocked = make_form
    _change_form()


def _change_form() -> None:
    """Change to the form that needs no lock, where one is wanted and a run is on."""
    listener = current_listener()
    if listener is not None and listener.form is listen and _make_unlocked is not None:
        listener.use_form(_make_unlocked(listener))


def current_listener() -> SignalListener | None:
    """The listener, while it listens."""
    return _listener if _is_listening else None


def start_listening(signals: list[int]) -> None:
    """Listen to these signals, where a second one may end the process.

    That is not so in a notebook, whose kernel must not end.
    """
    global _listener, _is_listening
    if os.name != "posix" or "ipykernel" in sys.modules or not signals:
        return
    if _listener is None:
        _listener = SignalListener()
    _is_listening = _listener.begin(signals)
    _change_form()


def stop_listening() -> None:
    """Stop listening, at the end of the run."""
    global _is_listening
    if _listener is not None and _is_listening:
        _is_listening = False
        _listener.end()


def _forget_listener() -> None:
    """A forked child has the descriptors, but not the thread."""
    global _listener, _is_listening
    listener, _listener, _is_listening = _listener, None, False
    if listener is not None:
        with suppress(ValueError, OSError):
            descriptor = signal.set_wakeup_fd(-1)
            if descriptor != listener.writer:
                signal.set_wakeup_fd(descriptor)
            os.close(listener.writer)
            os.close(listener.reader)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_listener)
