"""States as values: when two are the same, and the key that tells them apart.

A state may be any object. Left out: copies, and steps that write into their argument
(``states.state_copies``).
"""

from __future__ import annotations

import copy
import math
from collections import deque
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput

SEQUENCES = (tuple, list, deque)
_FIXED = (int, float, complex, bool, str, bytes, type(None), np.generic, Enum)


def is_fixed(state: Any) -> bool:
    """Whether a state consists of things that cannot be changed in place."""
    if isinstance(state, tuple | frozenset):
        return not hasattr(state, "__dict__") and all(
            is_fixed(element) for element in state
        )
    # a row of a structured array can be
    return isinstance(state, _FIXED) and not isinstance(state, np.void)


def same_state(x: Any, y: Any) -> bool | None:
    """Whether two states hold the same values; None if nothing can be compared."""
    try:
        return _same(x, y, False, set())
    except Exception:  # an == of the user's that raises
        return None


def is_unchanged(before: Any, after: Any) -> bool | None:
    """Whether a state still holds the same as its copy ``before``.

    None where nothing can be compared, or where the state only filled in missing
    values: an attribute that was not there, or a private one that was
    None. That may be a cache.
    """
    try:
        return _same(before, after, True, set())
    except Exception:
        return None


def identical(x: Any, y: Any) -> bool:
    """Whether two values are the same to the bit.

    Types and the sign of zero count, an object's own ``==`` does not: 1 and
    True, or 0.0 and -0.0, are equal and hash alike, yet a function may
    distinguish them.
    """
    if x is y:
        return True
    if type(x) is not type(y):
        return False
    if isinstance(x, float):
        return (x == y and math.copysign(1.0, x) == math.copysign(1.0, y)) or (
            x != x and y != y
        )
    if isinstance(x, tuple | list):
        return len(x) == len(y) and all(map(identical, x, y))
    if isinstance(x, _FIXED):
        return bool(x == y)
    if isinstance(x, np.ndarray):
        return bool(
            x.shape == y.shape
            and x.dtype == y.dtype
            and x.dtype != object
            and x.tobytes() == y.tobytes()
        )
    x_fields, y_fields = list_fields(x), list_fields(y)
    if x_fields is None or y_fields is None or x_fields.keys() != y_fields.keys():
        return False
    try:
        return all(
            identical(x_fields[field_name], y_fields[field_name])
            for field_name in x_fields
        )
    except RecursionError:  # a ring of objects
        return False


def _same(x: Any, y: Any, lazily: bool, pairs: set[tuple[int, int]]) -> bool | None:
    if x is y or (id(x), id(y)) in pairs:
        return True
    pairs.add((id(x), id(y)))
    if is_opaque(x) or is_opaque(y):
        return None
    if hasattr(x, "shape") and hasattr(y, "shape"):
        x_array, y_array = np.asarray(x), np.asarray(y)
        if x_array.dtype == object:
            return x_array.shape == y_array.shape and _same_all(
                x_array.flat, y_array.flat, lazily, pairs
            )
        return bool(
            np.array_equal(x_array, y_array, equal_nan=x_array.dtype.kind in "fc")
        )
    are_dicts = isinstance(x, dict) and isinstance(y, dict)
    if are_dicts and x.keys() != y.keys():
        return False
    if are_dicts or (isinstance(x, SEQUENCES) and isinstance(y, SEQUENCES)):
        x_values, y_values = (x.values(), [y[n] for n in x]) if are_dicts else (x, y)
        if len(x) != len(y):
            return False
        # a subclass may hold more beside its elements
        x_fields, y_fields = getattr(x, "__dict__", {}), getattr(y, "__dict__", {})
        beside = _same_fields(x_fields, y_fields, lazily, pairs)
        return _all_true([_same_all(x_values, y_values, lazily, pairs), beside])
    if isinstance(x, float) and isinstance(y, float) and x != x and y != y:
        return True
    return _same_objects(x, y, lazily, pairs)


def _all_true(verdicts: list[bool | None]) -> bool | None:
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _same_all(
    xs: Any, ys: Any, lazily: bool, pairs: set[tuple[int, int]]
) -> bool | None:
    return _all_true([_same(a, b, lazily, pairs) for a, b in zip(xs, ys, strict=True)])


def _same_objects(
    x: Any, y: Any, lazily: bool, pairs: set[tuple[int, int]]
) -> bool | None:
    """Whether two objects hold the same.

    Two values, unlike a value and its copy, are also the same if their own
    ``==`` says so.
    """
    x_fields, y_fields = list_fields(x), list_fields(y)
    are_comparable = (
        type(x) is type(y) and x_fields is not None and y_fields is not None
    )
    # a write into a field that == leaves out is a write
    if not by_identity(x) and not (lazily and are_comparable):
        try:
            if bool(x == y):
                return True
        except Exception:
            pass  # a dataclass of arrays, say
    if x_fields is None or y_fields is None or not are_comparable:
        return None if by_identity(x) and type(x) is type(y) else False
    return _same_fields(x_fields, y_fields, lazily, pairs)


def _same_fields(
    x_fields: dict[str, Any],
    y_fields: dict[str, Any],
    lazily: bool,
    pairs: set[tuple[int, int]],
) -> bool | None:
    """Whether fields are the same; None if they are but for those that were filled in."""
    filled_names = {
        name
        for name, value in y_fields.items()
        if name not in x_fields
        or (name[:1] == "_" and x_fields[name] is None and value is not None)
    }
    skipped_names = filled_names if lazily else set()
    if x_fields.keys() - skipped_names != y_fields.keys() - skipped_names:
        return False
    verdicts = [
        _same(value, y_fields[name], lazily, pairs)
        for name, value in x_fields.items()
        if name not in skipped_names
    ]
    return _all_true([*verdicts, None] if skipped_names else verdicts)


def list_fields(value: Any) -> dict[str, Any] | None:
    """The fields of an object; None where it shows none."""
    slot_names = [
        slot_name
        for base_class in type(value).__mro__
        for slot_name in _slot_tuple(getattr(base_class, "__slots__", ()))
    ]
    field_values = {
        slot_name: getattr(value, slot_name)
        for slot_name in slot_names
        if slot_name not in ("__dict__", "__weakref__") and hasattr(value, slot_name)
    }
    field_values |= getattr(value, "__dict__", {})
    return field_values or None


def _slot_tuple(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def by_identity(state: Any) -> bool:
    """Whether a state's type has no equality of its own."""
    return getattr(type(state), "__eq__", None) is object.__eq__


def is_opaque(state: Any) -> bool:
    """Whether this is a state of one of our adapters.

    Steps copy such a state, so there is nothing to watch for and nothing to
    compare.
    """
    return bool(getattr(type(state), "adapter_state", False))


def state_key(state: Any) -> Any:
    """The key that distinguishes a state from others.

    It is the state itself, the type, shape and bytes of an array, or a tuple of such
    keys. The same bytes are other numbers in another type: uint8 255 and int8 -1.
    """
    if (
        hasattr(state, "tobytes")
        and hasattr(state, "shape")
        and state.shape
        and not state.dtype.hasobject
    ):
        array_type = state.dtype  # of a record, ``str`` says no more than its size
        type_name = str(array_type) if array_type.kind == "V" else array_type.str
        # -0.0 is 0.0
        values = state + 0.0 if array_type.kind == "f" else state
        return type_name, state.shape, values.tobytes()
    try:
        hash(state)
    except TypeError as error:
        if isinstance(state, tuple):
            return tuple(state_key(element) for element in state)
        raise InvalidInput(
            f"States have to be told apart, but {state!r:.60} cannot be "
            f"({_unhashable(state, error)}, or give key=, a function from a "
            "state to a number, a string or a tuple of them."
        ) from None
    return state


def _unhashable(state: Any, error: TypeError) -> str:
    """The reason why a state has no hash, and the remedy."""
    if not is_dataclass(state):
        return (
            f"{error}); let states be tuples, arrays of numbers or frozen dataclasses"
        )
    class_name = type(state).__name__
    for state_field in fields(state):
        try:
            hash(getattr(state, state_field.name))
        except TypeError:
            type_name = type(getattr(state, state_field.name)).__name__
            return f"its field {state_field.name} is a {type_name}); let it be a tuple"
    return (
        f"{class_name} is a dataclass that is not frozen); write "
        "@dataclass(frozen=True)"
    )


def check_recognizable(state: Any, key: Any) -> None:
    """Refuse a key that a copy of its state would not share.

    Objects without ``==`` are equal to themselves only, so a search would take
    every visit for a new state.
    """
    if is_fixed(key):
        if not _is_nan(key):
            return
        reason = "a key that holds NaN is not equal to itself"
    else:
        try:
            key_copy = None if is_opaque(key) else copy.deepcopy(key)
        except Exception:
            key_copy = None if by_identity(key) else key
        # a snapshot that the user gave a key
        if is_opaque(key) and getattr(key, "key", None) is not None:
            return
        reason = f"{type(state).__name__} objects are equal to themselves only"
        try:
            if key_copy == key and hash(key_copy) == hash(key):
                return
        except Exception as error:
            reason = (
                f"== of {type(state).__name__} objects raises {type(error).__name__}"
            )
    raise InvalidInput(
        f"States have to be recognized when they come back, but {reason} (at state "
        f"{state!r:.60}); give key=, a function from a state to a number, a string or "
        f"a tuple that tells all its future depends on, or {_comparable(state)}."
    )


def _comparable(state: Any) -> str:
    """The remedy that would let equal states be equal."""
    if is_dataclass(state) and by_identity(state):
        return (
            f"write @dataclass(frozen=True) above {type(state).__name__}, without eq="
        )
    return "let states be tuples or numbers"


def _is_nan(key: Any) -> bool:
    if isinstance(key, tuple | frozenset):
        return any(_is_nan(element) for element in key)
    return isinstance(key, float | np.floating) and bool(np.isnan(key))
