"""What counts as a number in an argument: Python's and NumPy's alike, and never True or False."""

from __future__ import annotations

from numbers import Integral, Real


def is_whole(value: object) -> bool:
    """Whether it is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether it is a real number."""
    return isinstance(value, Real) and not isinstance(value, bool)
