"""Whether two results are equal: NaN equals NaN, and arrays are compared by items.

Python says that NaN differs from itself unless it is the same object, and refuses to say
whether two arrays are equal. So a result with an illegal action, or about a state that is
an array, would differ from its own copy.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np


def same_fields(left: Any, right: Any, but: tuple[str, ...] = ()) -> bool:
    """Whether two objects of one dataclass have equal fields, those of ``but`` aside."""
    return all(
        are_equal(getattr(left, field.name), getattr(right, field.name))
        for field in fields(left)
        if field.compare and field.name not in but
    )


def are_equal(left: Any, right: Any) -> bool:
    """Whether two values are equal, item by item."""
    if left is right:
        return True
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        are_arrays = isinstance(left, np.ndarray) and isinstance(right, np.ndarray)
        return (
            are_arrays
            and left.shape == right.shape
            and are_equal(left.tolist(), right.tolist())
        )
    for sequence_type in (tuple, list):
        if isinstance(left, sequence_type) and isinstance(right, sequence_type):
            return len(left) == len(right) and all(map(are_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            are_equal(left[k], right[k]) for k in left
        )
    if isinstance(left, float) and isinstance(right, float) and left != left:
        return right != right
    return bool(left == right)
