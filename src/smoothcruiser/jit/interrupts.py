"""Ctrl-C ends a run with an answer, wherever the run is.

A KeyboardInterrupt may be raised between any two instructions, also in the middle of
entering a sample. So a run that answers from its samples is *held*: there Ctrl-C is a
request that the run reads when it likes (``StopRequest.came``), and an exception only where
the run says that it may be broken off (``StopRequest.open``): in a call of the user's step, in
a wait for workers.

Python hears of a signal when its main thread is back in Python code. A step that
loops for ever in machine code never lets it come back, and with the interpreter's
lock in its hand it stops every other thread too. So while a run is under way
(``stoppable``, ``stoppable_run``) the system calls machine code of our own, built here with LLVM:

  the first signal    goes on to Python, which stops the run politely: the run
                      answers from its samples; for Ctrl-C a line says how to end
                      at once
  the second one      ends the process; stored work stays; exit code 128 + number

A notebook's kernel is not ended: its owner would lose more than this run. There the
second Ctrl-C raises KeyboardInterrupt wherever the run is.

A wrapper such as ``timeout`` sends a signal to the process and to its group, so
that it comes twice at once. A signal that follows within ``SAME_SECONDS`` therefore
counts as the same one. SIGINT is treated so, and SIGTERM where the command line has a
handler for it. A handler of the user's own is called each time, as always; if it raises
KeyboardInterrupt, a held run takes that as a request. Runs outside the main thread,
where Python takes no signals, are left as they are.

The handler may interrupt any code, so it only calls functions that POSIX lists as
async-signal-safe: clock_gettime, getpid, write, _exit.

A stopwatch that stands still while this thread compiles.

The rule for ``seconds=``, in every method: it limits the time in which samples are
taken and used. Compiling is not counted, and neither is loading compiled code from the
disk. So the first call on a machine with empty caches takes longer than ``seconds=`` by
the time for compiling (``compile_seconds`` of the answer), and has as much time for its
samples as any later one.

Numba compiles where a function is first called, in any line of ours or of a user's. It
says when it begins and ends (the event of its lock, which also covers loading from its
cache, and waiting for a thread that compiles), and a ``Stopwatch`` listens. Other work
that is done once, such as an import of modules, is marked with ``pause_stopwatch``.

Each thread has its own count: compiling beside a run costs the run nothing. This
file loads no Numba: it listens as soon as others have.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from smoothcruiser.errors import spell_arguments

SAME_SECONDS = 0.3  # below the time between two presses of a key, above a wrapper's
SIGNALS = (signal.SIGINT, signal.SIGTERM)
STDERR = 2  # the handler writes past sys.stderr
STOPPING = "Stopping; press Ctrl-C again to end now."
ENDED = "Ended at once."

# The words that the handler reads and writes. A text is an address and a length.
COUNT, WHEN, OWNER, FIRST, LAST, PYTHON = 0, 1, 2, 3, 5, 7
_words = (ctypes.c_int64 * (PYTHON + len(SIGNALS)))()
_texts: dict[int, Any] = {}  # keeps the texts at these addresses alive
_hints: list[str] = []  # of the runs under way, the innermost last
_heard: list[float] = []  # when runs were stopped by Ctrl-C and answered
# While the outermost run is left, Ctrl-C is noted: CLOSING, then LATE.
_late: set[str] = set()
CLOSING, LATE = "closing", "late"
_python: dict[int, Any] = {}  # the handlers in Python that ``_on_signal`` stands for


class TimeIsUp(KeyboardInterrupt):
    """A wait that a time limit has ended (``engines.watchdog``): no stop by hand."""


class StopRequest:
    """A request to stop a run, and whether the run may be broken off now."""

    __slots__ = ("came", "open", "when")

    def __init__(self) -> None:
        self.came = False
        self.open = False  # in here, a stop raises KeyboardInterrupt
        self.when = 0.0

    def ask(self) -> None:
        """Take note of a stop."""
        if not self.came:
            _heard.append(time.monotonic())
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
    if depth == 0:
        _late.clear()
    try:
        _hints.append("")
        if depth == 0:
            _listen(handlers)
            _take((signal.default_int_handler, *handlers))
        yield
    finally:
        try:
            _leave(depth)
        except KeyboardInterrupt:  # before it began; the same signal comes only once
            _leave(depth)
            raise
    if depth == 0 and LATE in _late:
        raise KeyboardInterrupt


def _leave(depth: int) -> None:
    """Leave the runs from level ``depth`` on. A signal that comes now is noted.

    A handler that was left in its place would end the process at a Ctrl-C long after
    the run.
    """
    if depth == 0:
        _late.add(CLOSING)
    del _hints[depth:]
    if depth == 0:
        _give_back()
        _listen_no_more()
        _late.discard(CLOSING)
    elif _hints:
        _say(LAST, f"{ENDED}{_hints[-1]}")


def _listen(handlers: tuple[Any, ...]) -> None:
    """Put ``_on_signal`` before the handlers in Python."""
    for number in SIGNALS:
        earlier_handler = signal.getsignal(number)
        is_ours = number == signal.SIGINT or earlier_handler in handlers
        if is_ours and callable(earlier_handler) and earlier_handler is not _on_signal:
            _python[number] = earlier_handler
            signal.signal(number, _on_signal)


def _listen_no_more() -> None:
    for number, earlier_handler in _python.items():
        if signal.getsignal(number) is _on_signal:  # nobody else has taken it since
            signal.signal(number, earlier_handler)
    _python.clear()


def _on_signal(number: int, frame: Any) -> None:
    """Call the handler that was there; a held run takes its KeyboardInterrupt as a
    request.
    """
    if CLOSING in _late:
        _late.add(LATE)
        return
    hold, current_time = _hold, time.monotonic()
    is_repeated = hold is not None and hold.came
    if hold is not None and is_repeated and current_time - hold.when <= SAME_SECONDS:
        return
    try:
        _python[number](number, frame)
    except KeyboardInterrupt:
        if hold is not None:
            hold.ask()
        if hold is None or hold.open or is_repeated:
            raise


def current_stops() -> int:
    """The number of runs in this process that answered a Ctrl-C from their samples.

    A caller of several runs ends all of them when the number grows.
    """
    return len(_heard)


def count_stop(error: BaseException) -> None:
    """Note that a run is about to answer in spite of ``error``, if it is a Ctrl-C."""
    if isinstance(error, KeyboardInterrupt) and not isinstance(error, TimeIsUp):
        _heard.append(time.monotonic())


def tell_at_the_end(hint: str) -> None:
    """Let a second Ctrl-C print where the work of this run is kept."""
    if threading.current_thread() is threading.main_thread() and _hints:
        _hints[-1] = f" {spell_arguments(hint)}"
        _say(LAST, f"{ENDED}{_hints[-1]}")


def _take(known_handlers: tuple[Any, ...]) -> None:
    """Let machine code handle the signals of known handlers.

    A user's own handler decides on the meaning of a second signal.
    """
    if os.name != "posix" or "ipykernel" in sys.modules:
        return
    _say(FIRST, STOPPING)
    _say(LAST, ENDED)
    _words[COUNT], _words[OWNER] = 0, os.getpid()
    taken_signals = [
        number for number in SIGNALS if _python.get(number) in known_handlers
    ]
    for number in taken_signals:
        _words[PYTHON + SIGNALS.index(number)] = _handler_of(number)
        _handle(number, _address())


def _give_back() -> None:
    for number in SIGNALS if _built else ():
        if _handler_of(number) == _address():  # nobody else has taken it since
            _handle(number, _words[PYTHON + SIGNALS.index(number)])


def _say(text_index: int, sentence: str) -> None:
    """Let the handler print a sentence."""
    shown_text = f"{sentence}\n"
    if os.isatty(STDERR):
        shown_text = (
            f"\x1b[?25h\n{shown_text}"  # below a progress bar, which hides the cursor
        )
    text_buffer = ctypes.create_string_buffer(shown_text.encode(errors="replace"))
    _words[text_index + 1] = 0
    _words[text_index] = ctypes.addressof(text_buffer)
    _words[text_index + 1] = len(text_buffer) - 1
    _texts[text_index] = text_buffer


def _handler_of(number: int) -> int:
    get_handler = ctypes.pythonapi.PyOS_getsig
    get_handler.restype, get_handler.argtypes = ctypes.c_void_p, [ctypes.c_int]
    return get_handler(number) or 0


def _handle(number: int, address: int) -> None:
    set_handler = ctypes.pythonapi.PyOS_setsig
    set_handler.restype, set_handler.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_int, ctypes.c_void_p],
    )
    set_handler(number, address)


@cache
def _address() -> int:
    """The address of the handler, which is built once per process."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    module = llvm.parse_assembly(str(_program()))
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _built.append(engine)
    return int(engine.get_function_address("on_signal"))


_built: list[Any] = []  # machine code lives as long as its engine


def _program() -> Any:
    """The handler, ``on_signal(number)``, as a program for LLVM."""
    from llvmlite import ir

    i32, i64, void = ir.IntType(32), ir.IntType(64), ir.VoidType()
    module = ir.Module()
    handler_function = ir.Function(module, ir.FunctionType(void, [i32]), "on_signal")
    number = handler_function.args[0]
    block = ir.IRBuilder(handler_function.append_basic_block())
    libc = ctypes.CDLL(None)

    def call_libc(name: str, kind: Any, *arguments: Any) -> Any:
        """A call of the C library."""
        function_address = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value
        function_type = ir.FunctionType(kind, [x.type for x in arguments])
        return block.call(
            block.inttoptr(i64(function_address), function_type.as_pointer()),
            list(arguments),
        )

    def word_pointer(index: Any) -> Any:
        """A pointer to one of ``_words``."""
        first_address = i64(ctypes.addressof(_words))
        word_address = block.add(first_address, block.mul(index, i64(8)))
        return block.inttoptr(word_address, i64.as_pointer())

    def write_text(text: int, when: Any) -> None:
        text_length = block.select(
            when, block.load(word_pointer(i64(text + 1))), i64(0)
        )
        call_libc(
            "write", i64, i32(STDERR), block.load(word_pointer(i64(text))), text_length
        )

    def to_python() -> None:
        """Call Python's own handler."""
        handler_index = i64(PYTHON)
        for i, known_signal in enumerate(SIGNALS):
            is_same = block.icmp_signed("==", number, i32(known_signal))
            handler_index = block.select(is_same, i64(PYTHON + i), handler_index)
        function_type = ir.FunctionType(void, [i32]).as_pointer()
        block.call(
            block.inttoptr(block.load(word_pointer(handler_index)), function_type),
            [number],
        )

    clock_words = block.alloca(i64, 2)  # seconds and nanoseconds
    call_libc(
        "clock_gettime",
        i32,
        i32(time.CLOCK_MONOTONIC),
        block.ptrtoint(clock_words, i64),
    )
    seconds = block.load(clock_words)
    nanoseconds = block.load(block.gep(clock_words, [i64(1)]))
    current_time = block.add(block.mul(seconds, i64(10**9)), nanoseconds)
    owner_pid = block.load(word_pointer(i64(OWNER)))
    is_child = block.icmp_signed(
        "!=", call_libc("getpid", i32), block.trunc(owner_pid, i32)
    )
    with block.if_then(is_child):  # forked in a run: not this run's process
        to_python()
        block.ret_void()
    count_before = block.atomic_rmw(
        "add", word_pointer(i64(COUNT)), i64(1), "monotonic"
    )
    with block.if_then(block.icmp_signed("==", count_before, i64(0))):
        block.store(current_time, word_pointer(i64(WHEN)))
        write_text(FIRST, block.icmp_signed("==", number, i32(signal.SIGINT)))
        to_python()
        block.ret_void()
    elapsed_time = block.sub(current_time, block.load(word_pointer(i64(WHEN))))
    is_second = block.icmp_signed(">", elapsed_time, i64(int(SAME_SECONDS * 1e9)))
    with block.if_then(is_second):
        write_text(LAST, ir.IntType(1)(1))
        call_libc("_exit", void, block.add(number, i32(128)))
    block.ret_void()
    return module


LOCK = "numba:compiler_lock"  # Numba's name for the time in which it compiles


class _Thread(threading.local):
    """The time of one thread that does not count."""

    marked = 0  # depth of ``pause_stopwatch``
    compiling = 0  # depth of Numba's lock
    since = 0.0  # when the outermost of them began
    total = 0.0  # seconds of those that have ended

    def enter(self, marked: int, compiling: int) -> None:
        if not (self.marked or self.compiling):
            self.since = time.perf_counter()
        self.marked += marked
        self.compiling += compiling

    def leave(self, marked: int, compiling: int) -> None:
        if not (self.marked or self.compiling):
            return
        self.marked -= marked
        self.compiling = max(0, self.compiling - compiling)
        if not (self.marked or self.compiling):
            self.total += time.perf_counter() - self.since

    def now(self) -> float:
        """The time now, less the seconds that do not count."""
        if self.compiling and not _compiles():  # an exception came before its end
            self.leave(0, self.compiling)
        is_paused = self.marked or self.compiling
        return (self.since if is_paused else time.perf_counter()) - self.total


_here = _Thread()
_listening: list[object] = []


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
            _here.enter(0, 1)

        def on_end(self, event: object) -> None:
            """Go on."""
            _here.leave(0, 1)

    _listening.append(Compiling())
    event.register(LOCK, _listening[0])


@contextmanager
def pause_stopwatch() -> Iterator[None]:
    """Pause the stopwatches of this thread within the block."""
    _here.enter(1, 0)
    try:
        yield
    finally:
        _here.leave(1, 0)
        _listen_to_compiler()


class Stopwatch:
    """The seconds that count since it was made, in the thread that made it."""

    def __init__(self) -> None:
        _listen_to_compiler()
        self._begin, self._at = _here.now(), time.perf_counter()

    def elapsed(self) -> float:
        """The seconds so far."""
        return _here.now() - self._begin

    def stood_still(self) -> float:
        """The seconds that do not count so far."""
        return max(0.0, time.perf_counter() - self._at - self.elapsed())
