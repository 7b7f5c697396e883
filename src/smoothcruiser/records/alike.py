"""Whether two results are equal: NaN equals NaN, and arrays are compared by items.

Python says that NaN differs from itself unless it is the same object, and refuses to say
whether two arrays are equal. So a result with an illegal action, or about a state that is
an array, would differ from its own copy.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np


def same_fields(one: Any, other: Any, but: tuple[str, ...] = ()) -> bool:
    """Whether two objects of one dataclass have equal fields, those of ``but`` aside."""
    return all(
        alike(getattr(one, part.name), getattr(other, part.name))
        for part in fields(one)
        if part.compare and part.name not in but
    )


def alike(one: Any, other: Any) -> bool:
    """Whether two values are equal, item by item."""
    if one is other:
        return True
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        both = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
        return both and one.shape == other.shape and alike(one.tolist(), other.tolist())
    for kind in (tuple, list):
        if isinstance(one, kind) and isinstance(other, kind):
            return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[k], other[k]) for k in one)
    if isinstance(one, float) and isinstance(other, float) and one != one:
        return other != other
    return bool(one == other)
