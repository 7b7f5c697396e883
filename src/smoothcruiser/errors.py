"""Errors that a user can act on: each message has the required value, the actual
value, and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LONGEST_TOLD = 60  # characters of a value in a message


class SmoothcruiserError(Exception):
    """Base of every error this library raises on purpose."""

    in_module = (
        False  # raised in a user's file: its arguments are Python's, no options
    )


class InvalidInput(SmoothcruiserError, ValueError):
    """A parameter, a table or a state that cannot be used as it is."""


class OracleError(SmoothcruiserError):
    """The user's simulator returned something it must not, or raised; names the
    state and action at fault.
    """


class Unpayable(SmoothcruiserError):
    """The plan's price is above the default budget, or cannot be counted; the message
    lists the nearest promises that can be paid.
    """


class BrokenPromise(SmoothcruiserError, AssertionError):
    """A schedule with a table that does not keep its promise or its price."""


class MissingExtra(SmoothcruiserError, ImportError):
    """An optional dependency is not installed; the message has the command that
    installs it, and the error underneath where that is of another module.
    """

    def __str__(self) -> str:
        text, cause = super().__str__(), self.__cause__
        if not isinstance(cause, ImportError) or describe_error(cause) in text:
            return text
        if isinstance(cause, ModuleNotFoundError) and cause.name is not None:
            top_module = cause.name.partition(".")[0]
            if top_module.lower() in text.lower().replace("-", "_"):
                return text
        return f"{text.rstrip('.')} ({describe_error(cause)})."


class StoreError(SmoothcruiserError):
    """The run store cannot be opened, read or written now: a disk that is full, a
    file that is read-only or in use. Nothing is wrong with its contents.
    """


class WorkersLost(SmoothcruiserError):
    """Workers died, or a cluster cannot be reached, while the run had more to do."""


class Interrupted(SmoothcruiserError):
    """The run was stopped from outside before it had enough to answer;
    ``calls`` were counted in the part that was interrupted, and ``piece`` is the share
    of it that an engine had completed.
    """

    def __init__(self, message: str, *, calls: int = 0, piece: Any = None) -> None:
        super().__init__(message)
        self.calls, self.piece = calls, piece


_spelling: list[Callable[[str], str]] = []


@contextmanager
def spelling(rewrite: Callable[[str], str]) -> Iterator[None]:
    """Rewrite sentences for their reader, as the command line does for its options."""
    _spelling.append(rewrite)
    try:
        yield
    finally:
        _spelling.pop()


def spell_arguments(sentence: str) -> str:
    """A sentence as its reader writes arguments: in Python as it is."""
    return _spelling[-1](sentence) if _spelling else sentence


def describe_error(error: BaseException) -> str:
    """The type and the text of an error, on one line without a full stop."""
    try:
        text = str(error)
    except Exception:  # an error of a user's own class that has no text
        text = ""
    return " ".join(f"{type(error).__name__}: {text}".split()).rstrip(".: ")


# words for one number of an answer, where it is a reward and where it is a cost
WORDS_OF_COSTS = {
    "value": "cost",
    "reward": "cost",
    "return": "cost",
    "the value": "the lowest cost",
    "the value and every action value": "the lowest cost and every action's cost",
}


def choose_word(word: str, minimize: bool) -> str:
    """``word`` as a page says it: "cost" for "value" where costs are minimized."""
    return WORDS_OF_COSTS[word] if minimize else word


def printable(text: str, keep: str = "\n\t") -> str:
    """The text with characters that a terminal obeys or hides as ``repr`` writes them.

    Control characters, text direction marks, zero-width characters and bytes that are
    no text become ``\\x1b``, ``\\u202e``; characters in ``keep`` stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def text_of(value: object) -> str:
    """The ``repr`` of a value of the user's, or its type where that fails.

    So nothing that shows or writes a state or a label fails for its text.
    """
    try:
        return repr(value)
    except Exception:
        return f"a {type(value).__name__} without a text"


def describe_value(value: object) -> str:
    """A value in a sentence about the input: numbers and texts as they are, with an
    ellipsis where they are long, of other things the type.
    """
    if value is None:
        return "none"
    if isinstance(value, bool | int | float | str):
        text = text_of(value)  # Python prints no whole number of 5,000 digits
        return text if len(text) <= LONGEST_TOLD else text[: LONGEST_TOLD - 1] + "…"
    type_name = type(value).__name__
    return f"{'an' if type_name[0].lower() in 'aeiou' else 'a'} {type_name}"


class Hung(Exception):
    """Raised inside a call of a user's function that took longer than
    ``call_seconds``; never leaves an engine.
    """
