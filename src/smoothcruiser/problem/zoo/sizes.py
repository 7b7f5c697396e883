"""Parameters of built-in problems: whole numbers, and sizes that fit in memory.

A problem is priced before anything is allocated: the bytes of its arrays and of the
Python objects that they are built from. Above ``MOST_BYTES`` it is refused, on every
machine alike.
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import is_number, is_whole, shorten_value

MOST_BYTES = 2 * 10**9
NUMBER = 8  # bytes of a float64 or an int64
# Bytes of a row that begins as a list of (probability, reward, next state), the arrays
# made of it included: tracemalloc counts 280 for rows with one successor (d-chain) and
# 660 for rows with up to four (sailing).
LIST_ROW, LIST_ITEM = 150, 130


def check_whole(name: str, value: Any, low: int, high: float = math.inf) -> int:
    """The parameter as a whole number from ``low`` to ``high``."""
    if not is_whole(value) or not low <= value <= high:
        limit_text = "" if high == math.inf else f" and at most {high}"
        raise InvalidInput(
            f"{name} must be a whole number of at least {low}{limit_text}, got "
            f"{shorten_value(value)}."
        )
    return int(value)


def check_real(name: str, value: Any) -> float:
    """The parameter as a finite number."""
    if not is_number(value) or not math.isfinite(_float(value)):
        raise InvalidInput(
            f"{name} must be a finite number, got {shorten_value(value)}."
        )
    return float(value)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_memory(sizes: str, num_bytes: int) -> None:
    """Refuse a problem that takes too much memory; ``sizes`` are its parameters."""
    if num_bytes > MOST_BYTES:
        # logarithms: the number may have more digits than Python prints
        log_bytes = math.log10(num_bytes)
        size_text = (
            f"{num_bytes / 1e9:,.1f} GB"
            if log_bytes < 15
            else f"10^{log_bytes:.0f} bytes"
        )
        raise InvalidInput(
            f"A problem with {sizes} would take {size_text} of memory, more than the "
            f"{MOST_BYTES / 1e9:g} GB that a built-in problem may; take smaller "
            "numbers."
        )
