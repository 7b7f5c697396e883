"""Checks of the parameters that tree searches share."""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import is_number


def check_widening(method: Any, name: str) -> None:
    """Check a pair (k, alpha), which may come as a list (JSON); it is kept as a tuple."""
    value = getattr(method, name)
    if value is None:
        return
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    is_pair = is_pair and all(
        is_number(number) and math.isfinite(number) for number in value
    )
    if not is_pair or not (value[0] > 0.0 and 0.0 <= value[1] <= 1.0):
        raise InvalidInput(
            f"{method.name}: {name} must be a pair (k, alpha) with k above 0 and alpha "
            f"between 0 and 1, or None, got {value!r}."
        )
    object.__setattr__(method, name, (float(value[0]), float(value[1])))


def check_finite(
    method: Any,
    name: str,
    *,
    optional: bool = False,
    above: float | None = None,
    least: float | None = None,
) -> None:
    """Refuse a parameter that is no finite number within its bounds."""
    value = getattr(method, name)
    if value is None and optional:
        return
    is_valid = is_number(value) and math.isfinite(value)
    is_valid = (
        is_valid
        and (above is None or value > above)
        and (least is None or value >= least)
    )
    if not is_valid:
        bound_text = (
            f" above {above:g}"
            if above is not None
            else f" of at least {least:g}"
            if least is not None
            else ""
        )
        raise InvalidInput(
            f"{method.name}: {name} must be a finite "
            f"number{bound_text}{' or None' if optional else ''}, got {value!r}."
        )
