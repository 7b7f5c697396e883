"""Check that the constants of an operator are numbers of the right kind.

One sentence names the first that is not.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.operators.base import Operator
from smoothcruiser.operators.check.report import Condition

NAME = "constants"
REQUIREMENT = "every declared constant is a number, and of the right kind"
FLAGS = ("convex", "has_omega", "uniform_at_zero", "weighted", "entropic")
PROPERTIES = ("shift_invariant", "has_prior", "built_in")


def check_constants(operator: Operator, k: int) -> Condition:
    """Return the condition that all declared numbers and flags are valid."""
    # name, function that reads it, smallest value, whether it may be infinite
    number_declarations: list[tuple[str, Callable[[], Any], float, bool]] = [
        ("strength", lambda: operator.strength, 0.0, False),
        (f"offset({k})", lambda: operator.offset(k), -math.inf, False),
        (f"curvature({k})", lambda: operator.curvature(k), 0.0, True),
        (f"smoothness({k})", lambda: operator.smoothness(k), 0.0, True),
        (f"omega_width({k})", lambda: operator.omega_width(k), 0.0, True),
        ("strong_convexity()", operator.strong_convexity, 0.0, False),
        (f"rounding_scale({k})", lambda: operator.rounding_scale(k), 0.0, False),
    ]
    finding = ""
    for name, read_value, smallest_allowed, may_be_infinite in number_declarations:
        if name.startswith("omega_width"):  # it reads the range
            finding = finding or _range_fault(operator, k)
        finding = finding or _number_fault(
            name, read_value, smallest_allowed, may_be_infinite
        )
    for name in (*FLAGS, *PROPERTIES):
        value = getattr(operator, name)
        if not finding and not isinstance(value, bool):
            finding = f"{name} has to be True or False, and is {value!r}"
    return Condition(NAME, not finding, REQUIREMENT, finding)


def _number_fault(
    name: str,
    read_value: Callable[[], Any],
    smallest_allowed: float,
    may_be_infinite: bool,
) -> str:
    """Return the fault of a declared number; "" where there is none."""
    value, error_text = _try_call(read_value)
    if error_text:
        return f"{name} raises {error_text}"
    if (
        not _is_number(value)
        or (not may_be_infinite and math.isinf(value))
        or value < smallest_allowed
    ):
        required_kind = "a number" if may_be_infinite else "a finite number"
        lower_limit = (
            ""
            if smallest_allowed == -math.inf
            else f" of at least {smallest_allowed:g}"
        )
        return f"{name} has to be {required_kind}{lower_limit}, and is {value!r}"
    return ""


def _range_fault(operator: Operator, k: int) -> str:
    """Return the fault of ``omega_range``; "" where there is none."""
    declared_range, error_text = _try_call(lambda: operator.omega_range(k))
    if error_text:
        return f"omega_range({k}) raises {error_text}"
    if (
        not isinstance(declared_range, tuple | list)
        or len(declared_range) != 2
        or not all(_is_number(x) for x in declared_range)
        or declared_range[0] > declared_range[1]
    ):
        return (
            f"omega_range({k}) has to be two numbers, the smaller first, and is "
            f"{declared_range!r}"
        )
    return ""


def _try_call(read_value: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return read_value(), ""
    except SmoothcruiserError:
        raise  # a sentence of its own, such as a prior of another length
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, numbers.Real)
        and not isinstance(value, bool)
        and not math.isnan(value)
    )
