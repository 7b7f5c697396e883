"""The table of confidence bounds on a pair of state and action, one file each."""

from __future__ import annotations

from smoothcruiser.certified.bounds.base import Bound
from smoothcruiser.certified.bounds.betting import BETTING
from smoothcruiser.errors import InvalidInput

BOUNDS: dict[str, Bound] = {bound.word: bound for bound in (BETTING,)}
DEFAULT = BETTING.word


def bound_of(word: str) -> Bound:
    """Return the bound with the name ``word``."""
    if word not in BOUNDS:
        raise InvalidInput(f"bound must be one of {', '.join(BOUNDS)}, got {word!r}.")
    return BOUNDS[word]
