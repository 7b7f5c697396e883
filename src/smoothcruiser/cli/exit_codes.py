"""How a command ends: exit codes, an error as a sentence on standard error, and
streams that cannot be written to.

A shell may start us with a stream closed, or connect one to a full disk or to a reader
that leaves. The exit code reports every failure of standard output, and Python prints
nothing about it at the end.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import click

# Ended by a signal: 128 + its number, the shell's convention: SIGINT is 2, SIGPIPE 13.
OK, UNEXPECTED, REFUSED, SIGNALLED = 0, 1, 2, 128
STOPPED, READER_LEFT = SIGNALLED + 2, SIGNALLED + 13
LONGEST_LINE = 2_000  # characters of an error
# options of the command that runs, by the Python argument that they stand for
OPTIONS: dict[str, str] = {}
_ARGUMENT = re.compile(
    r"(?<![\w.])([a-z_]+)=('[^']*'|\"[^\"]*\"|\([\w, ]*\)|[^\s,;:()?]*)"
)
_RESUME = re.compile(r"\bresume\((\d+), store=('[^']*'|\"[^\"]*\")\)")
_CALL = re.compile(r"\w\([^()]*$")


def register_options(command: click.Command) -> None:
    """Let ``spell_options`` know the options of the command that runs."""
    for parameter in command.params:
        long_options = [name for name in parameter.opts if name.startswith("--")]
        if parameter.name is not None and long_options:
            OPTIONS[parameter.name] = long_options[0]


def spell_options(sentence: str) -> str:
    """The sentence with options of the command line in place of Python's arguments.

    Messages name Python's arguments, ``epsilon=0.1``; here they become
    ``--epsilon 0.1``. Arguments of a call, ``MDP(step, discount=0.9)``, stay.
    """

    def spell_resume(match: re.Match[str]) -> str:
        return f"--resume {match[1]} --store {shlex.quote(match[2][1:-1])}"

    def spell_option(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        if name not in OPTIONS or _CALL.search(sentence, 0, match.start()):
            return match[0]
        full_stop = "." if value.endswith(".") else ""
        value = value.removesuffix(".").strip("'\"")
        value_text = "" if value in ("", "True") else f" {shlex.quote(value)}"
        if value.startswith("("):  # files, as in tls=(ca, cert, key)
            value_text = f" {value[1:-1].replace(',', '').upper()}"
        return f"{OPTIONS[name]}{value_text}{full_stop}"

    sentence = _RESUME.sub(spell_resume, sentence)
    return _ARGUMENT.sub(spell_option, sentence)


def complain(sentence: str, *, spell: bool = True) -> None:
    """Print an error on standard error; its first line is the sentence.

    Unless ``spell`` is False, its arguments are spelled as options.
    """
    from rich.text import Text

    from smoothcruiser.display.terminal import SafeConsole

    error_text = spell_options(sentence) if spell else sentence
    first_line, *further_lines = map(_short, error_text.split("\n"))
    head_text = Text("Error: ", style="bold red").append(first_line, style="default")
    try:
        out = SafeConsole(stderr=True)
        for line in (head_text, *map(Text, further_lines)):
            out.print(line, soft_wrap=True)
    except OSError:  # nobody can be told; the exit code remains
        discard(sys.stderr)


def _short(line: str) -> str:
    """A line without the middle of a very long value; its end has the remedy."""
    half_length = LONGEST_LINE // 2
    return (
        line
        if len(line) <= LONGEST_LINE
        else f"{line[:half_length]} … {line[-half_length:]}"
    )


def prepare_streams() -> None:
    """Make the standard streams and the terminal's size usable.

    A character that the terminal's encoding lacks is replaced. A closed standard
    error leads nowhere, lest a file that is opened later takes its number and gets the
    messages of native code. COLUMNS and LINES that are no sizes are forgotten.
    """
    if sys.stderr is None:
        null_device = os.open(os.devnull, os.O_WRONLY)
        if null_device != 2:
            os.dup2(null_device, 2)
            os.close(null_device)
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    for name in ("COLUMNS", "LINES"):
        size_text = os.environ.get(name, "1")
        if not (
            size_text.isascii()
            and size_text.isdigit()
            and 1 <= int(size_text[:9]) < 10**8
        ):
            del os.environ[name]


class LostOutput(Exception):
    """Standard output did not take the printed text; the cause is an OSError."""


class AnswerStream:
    """Standard output; its failures, and no others, raise ``LostOutput``."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write text."""
        with _mark_lost_output():
            return self.stream.write(text)

    def flush(self) -> None:
        """Hand everything on that was written."""
        with _mark_lost_output():
            self.stream.flush()


@contextlib.contextmanager
def _mark_lost_output() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a simulator has closed it
        if isinstance(error, UnicodeError):
            raise
        raise LostOutput from error


def report_lost_output(error: BaseException | None) -> int:
    """Report lost output where it matters, and return the exit code of the command.

    A reader that left, such as ``| head``, hears nothing.
    """
    discard(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return READER_LEFT
    why = getattr(error, "strerror", None) or "it is closed"
    complain(
        f"The answer could not be written to standard output ({why}); send it to a "
        "file or a disk that takes it."
    )
    return REFUSED


def discard(stream: object) -> None:
    """Let a stream that cannot be written to lead nowhere.

    Text in its buffer would otherwise fail once more when Python ends.
    """
    with contextlib.suppress(AttributeError, OSError, ValueError):
        descriptor = stream.fileno()  # type: ignore[attr-defined]
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, descriptor)
        os.close(null_device)


@contextlib.contextmanager
def ctrl_c() -> Iterator[list[int]]:
    """A list of the signals received: not empty after Ctrl-C or SIGTERM.

    This holds also where the run could still answer from its samples so far. A batch
    system that ends a job sends SIGTERM, and its user expects the same as from Ctrl-C.
    A second signal ends the process at once (``run_control``).
    """
    from smoothcruiser.run_control.stop_requests import SIGNALS, stoppable

    signals_received: list[int] = []

    def handler(number: int, frame: Any) -> None:
        signals_received.append(number)
        raise KeyboardInterrupt

    # A shell that starts a job in the background may let it ignore Ctrl-C.
    handled_signals = [
        signal_number
        for signal_number in SIGNALS
        if signal.getsignal(signal_number) != signal.SIG_IGN
    ]
    earlier_handlers = {
        signal_number: signal.signal(signal_number, handler)
        for signal_number in handled_signals
    }
    try:
        with stoppable(handler):
            yield signals_received
    finally:
        for signal_number, earlier_handler in earlier_handlers.items():
            signal.signal(signal_number, earlier_handler)
