"""Are the numbers that an operator declares numbers at all, and of the right
kind? One sentence says which is not.
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


def constants(operator: Operator, k: int) -> Condition:
    """The first of the declared numbers and flags that is not one."""
    # name, how to get it, smallest, whether it may be infinite
    declared: list[tuple[str, Callable[[], Any], float, bool]] = [
        ("strength", lambda: operator.strength, 0.0, False),
        (f"offset({k})", lambda: operator.offset(k), -math.inf, False),
        (f"curvature({k})", lambda: operator.curvature(k), 0.0, True),
        (f"smoothness({k})", lambda: operator.smoothness(k), 0.0, True),
        (f"omega_width({k})", lambda: operator.omega_width(k), 0.0, True),
        ("strong_convexity()", operator.strong_convexity, 0.0, False),
        (f"rounding_scale({k})", lambda: operator.rounding_scale(k), 0.0, False),
    ]
    found = ""
    for name, get, least, endless in declared:
        if name.startswith("omega_width"):  # it reads the range
            found = found or _range(operator, k)
        found = found or _number(name, get, least, endless)
    for name in (*FLAGS, *PROPERTIES):
        value = getattr(operator, name)
        if not found and not isinstance(value, bool):
            found = f"{name} has to be True or False, and is {value!r}"
    return Condition(NAME, not found, REQUIREMENT, found)


def _number(name: str, get: Callable[[], Any], least: float, endless: bool) -> str:
    """What is wrong with a declared number; "" where nothing is."""
    value, raised = _called(get)
    if raised:
        return f"{name} raises {raised}"
    if not _is_number(value) or (not endless and math.isinf(value)) or value < least:
        kind = "a number" if endless else "a finite number"
        least_of = "" if least == -math.inf else f" of at least {least:g}"
        return f"{name} has to be {kind}{least_of}, and is {value!r}"
    return ""


def _range(operator: Operator, k: int) -> str:
    """What is wrong with ``omega_range``; "" where nothing is."""
    value, raised = _called(lambda: operator.omega_range(k))
    if raised:
        return f"omega_range({k}) raises {raised}"
    if (
        not isinstance(value, tuple | list)
        or len(value) != 2
        or not all(_is_number(x) for x in value)
        or value[0] > value[1]
    ):
        return (
            f"omega_range({k}) has to be two numbers, the smaller first, and is "
            f"{value!r}"
        )
    return ""


def _called(get: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return get(), ""
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
