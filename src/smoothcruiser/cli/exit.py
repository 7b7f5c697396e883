"""How a command ends: exit codes, an error as a sentence on standard error, and
streams that cannot be written to.

A shell may start us with a stream closed, or connect one to a full disk or to a reader
that leaves. Whatever happens to standard output, the exit code tells it, and Python
has nothing to say about it at the end.
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


def know_options(command: click.Command) -> None:
    """Let ``spell_options`` know the options of the command that runs."""
    for parameter in command.params:
        long = [name for name in parameter.opts if name.startswith("--")]
        if parameter.name is not None and long:
            OPTIONS[parameter.name] = long[0]


def spell_options(sentence: str) -> str:
    """The sentence with options of the command line in place of Python's arguments.

    Messages name Python's arguments, ``epsilon=0.1``; here they become
    ``--epsilon 0.1``. Arguments of a call, ``MDP(step, discount=0.9)``, stay.
    """

    def resumed(found: re.Match[str]) -> str:
        return f"--resume {found[1]} --store {shlex.quote(found[2][1:-1])}"

    def option(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if name not in OPTIONS or _CALL.search(sentence, 0, found.start()):
            return found[0]
        end = "." if value.endswith(".") else ""
        value = value.removesuffix(".").strip("'\"")
        shown = "" if value in ("", "True") else f" {shlex.quote(value)}"
        if value.startswith("("):  # files, as in tls=(ca, cert, key)
            shown = f" {value[1:-1].replace(',', '').upper()}"
        return f"{OPTIONS[name]}{shown}{end}"

    sentence = _RESUME.sub(resumed, sentence)
    return _ARGUMENT.sub(option, sentence)


def complain(sentence: str, *, spell: bool = True) -> None:
    """Print an error on standard error; its first line is the sentence.

    Unless ``spell`` is False, its arguments are spelled as options.
    """
    from rich.text import Text

    from smoothcruiser.display.console import SafeConsole

    said = spell_options(sentence) if spell else sentence
    first, *rest = map(_short, said.split("\n"))
    head = Text("Error: ", style="bold red").append(first, style="default")
    try:
        out = SafeConsole(stderr=True)
        for line in (head, *map(Text, rest)):
            out.print(line, soft_wrap=True)
    except OSError:  # nobody can be told; the exit code remains
        discard(sys.stderr)


def _short(line: str) -> str:
    """A line without the middle of a very long value; its end says what to change."""
    half = LONGEST_LINE // 2
    return line if len(line) <= LONGEST_LINE else f"{line[:half]} … {line[-half:]}"


def prepare_streams() -> None:
    """Make the standard streams and the terminal's size usable.

    A character that the terminal's encoding lacks is replaced. A closed standard
    error leads nowhere, lest a file that is opened later takes its number and gets the
    messages of native code. COLUMNS and LINES that are no sizes are forgotten.
    """
    if sys.stderr is None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere != 2:
            os.dup2(nowhere, 2)
            os.close(nowhere)
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    for name in ("COLUMNS", "LINES"):
        size = os.environ.get(name, "1")
        if not (size.isascii() and size.isdigit() and 1 <= int(size[:9]) < 10**8):
            del os.environ[name]


class LostOutput(Exception):
    """Standard output did not take what was printed; the cause is an OSError."""


class Answers:
    """Standard output, whose failures are told apart from those of other files."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write text."""
        with _told_apart():
            return self.stream.write(text)

    def flush(self) -> None:
        """Hand everything on that was written."""
        with _told_apart():
            self.stream.flush()


@contextlib.contextmanager
def _told_apart() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a simulator has closed it
        if isinstance(error, UnicodeError):
            raise
        raise LostOutput from error


def tell_lost_output(error: BaseException | None) -> int:
    """The exit code of a command whose output was not taken, and why, where it matters.

    ``| head`` has what it wants, and hears nothing.
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

    What it still holds would otherwise fail once more when Python ends.
    """
    with contextlib.suppress(AttributeError, OSError, ValueError):
        number = stream.fileno()  # type: ignore[attr-defined]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


@contextlib.contextmanager
def ctrl_c() -> Iterator[list[int]]:
    """A list that is not empty once Ctrl-C was pressed or SIGTERM came.

    Also where the run could still answer from what it had. A batch system that ends
    a job sends SIGTERM, and its user expects the same as from Ctrl-C. A second
    signal ends the process at once (``jit.interrupts``).
    """
    from smoothcruiser.jit.interrupts import SIGNALS, stoppable

    came: list[int] = []

    def handler(number: int, frame: Any) -> None:
        came.append(number)
        raise KeyboardInterrupt

    # A shell that starts a job in the background may let it ignore Ctrl-C.
    heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        with stoppable(handler):
            yield came
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
