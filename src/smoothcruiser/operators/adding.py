"""Sums with the same bits in every version of Python.

From Python 3.12 on the built-in ``sum`` compensates for the rounding of floats, and its
last bits differ from those of 3.11. Numbers of an answer are added here, from left to right.
"""

from __future__ import annotations

from collections.abc import Iterable


def sum_in_order(numbers: Iterable[float]) -> float:
    """Return the sum of the numbers, each rounded as it is added."""
    total = 0.0
    for number in numbers:
        total += number
    return total
