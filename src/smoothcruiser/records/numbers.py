"""Numbers that JSON cannot hold, as data that it can.

JSON has no NaN, no infinity, and most of its readers hold numbers as float64, in which
whole numbers beyond 2**53 are no longer distinct:

  NaN                    null (an illegal action); "NaN" where null means "none"
  infinity               "Infinity", "-Infinity": ``float`` of Python and ``Number`` of
                         JavaScript read them
  a count beyond 2**53   null, with its log10 beside it and its digits in ``…_hex``
"""

from __future__ import annotations

import math
from typing import Any, Final

LARGEST_COUNT: Final = 2**53
NOT_FINITE: Final = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
}


def number_data(value: float) -> float | str | None:
    """A float as JSON holds it; NaN is None."""
    number = float(value)
    if math.isfinite(number):
        return number
    if number != number:
        return None
    return "Infinity" if number > 0.0 else "-Infinity"


def count_data(name: str, count: int) -> dict[str, Any]:
    """Return a count as plain data that every reader of JSON can hold.

    ``name`` holds the count, None beyond 2**53. Its log10 stands beside it (0
    where nothing is counted), and beyond 2**53 its digits do, in base 16: there is no
    limit to the length of such a text.
    """
    count = int(count)
    count_fields: dict[str, Any] = {
        name: count if count <= LARGEST_COUNT else None,
        log_name(name): math.log10(max(1, count)),
    }
    return (
        count_fields
        if count <= LARGEST_COUNT
        else count_fields | {hex_name(name): hex(count)}
    )


def log_name(name: str) -> str:
    """Where the log10 of a count stands: beside ``price`` it is ``log10_price``."""
    return f"log10_{name.removeprefix('num_')}"


def hex_name(name: str) -> str:
    """Where the digits of a count beyond 2**53 stand."""
    return f"{name.removeprefix('num_')}_hex"
