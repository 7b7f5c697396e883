"""What counts as a number in an argument; the arguments that all planners take.

Python's and NumPy's numbers are alike; True and False are none.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from smoothcruiser.errors import InvalidInput


def is_whole(value: object) -> bool:
    """Whether ``value`` is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether ``value`` is a real number."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_seed(seed: Any) -> int:
    """The seed of a run as a Python number; anything else is refused."""
    if not is_whole(seed) or seed < 0:
        raise InvalidInput(f"seed must be a whole number of at least 0, got {seed!r}.")
    return int(seed)


def check_seconds(seconds: Any) -> None:
    """Refuse what is not a time; None means no limit."""
    if seconds is not None and not (is_number(seconds) and seconds > 0):
        raise InvalidInput(f"seconds must be a number above 0, got {seconds!r}.")


def check_keywords(verb: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a keyword that does not exist, naming the one that was meant."""
    known = tuple(known)
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = (
                f"did you mean {close[0]}=?" if close else f"it has {', '.join(known)}."
            )
            raise InvalidInput(f"{verb} has no option {name!r}; {hint}")
