"""The table of confidence bounds on a pair of state and action, one file each.

``register`` adds a bound from another package (docs/extending.md).
"""

from __future__ import annotations

from typing import Any

from smoothcruiser.certified.bounds.base import Bound
from smoothcruiser.certified.bounds.betting import BETTING
from smoothcruiser.certified.bounds.law import LAW
from smoothcruiser.errors import InvalidInput

BOUNDS: dict[str, Bound] = {bound.word: bound for bound in (BETTING, LAW)}
DEFAULT = BETTING.word


def register(bound: Bound) -> Bound:
    """Put a bound into the table under its word, which must be free; return it."""
    if not isinstance(bound, Bound):
        raise InvalidInput(
            f"register takes a certified.bounds.base.Bound, got {type(bound).__name__}."
        )
    word: Any = bound.word
    if not isinstance(word, str) or not word.strip():
        raise InvalidInput(
            f"A bound needs a word, its name in certificates, got {word!r}."
        )
    if BOUNDS.get(word, bound) is not bound:
        raise InvalidInput(
            f"A bound called {word!r} is registered already; choose another word."
        )
    BOUNDS[word] = bound
    return bound


def bound_of(word: str) -> Bound:
    """Return the bound with the name ``word``."""
    if word not in BOUNDS:
        raise InvalidInput(f"bound must be one of {', '.join(BOUNDS)}, got {word!r}.")
    return BOUNDS[word]
