"""Comparing and guarding states: a state may be any object, and a step must not write into the one it is given.

A step that changes its state in place makes later draws start somewhere else: the commonest mistake in a simulator, and one that no
interval survives. ``check_untouched`` looks for it at the asked state with one extra call, where the state is of a kind that can be
changed at all.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput, OracleError

_FIXED = (int, float, complex, bool, str, bytes, type(None), np.generic)


def is_fixed(state: Any) -> bool:
    """Whether a state is made of things that cannot be changed in place."""
    if isinstance(state, tuple | frozenset):
        return all(is_fixed(part) for part in state)
    return isinstance(state, _FIXED)


def check_untouched(oracle: Any, state: Any, action: int, rng: Any) -> int:
    """The number of oracle calls made (0 or 1); refuses an oracle that changes the state it is given."""
    if is_fixed(state) or is_opaque(state):
        return 0
    try:
        given, before = copy.deepcopy(state), copy.deepcopy(state)
        oracle(given, action, rng)
    except Exception:
        return 0  # cannot be copied, or fails: the run itself will say so
    if not same_state(before, given):
        raise OracleError(
            f"The oracle changed the state it was given: {before!r} became {given!r} under action {action}. "
            "Copy the state in step, change the copy and return it: other draws start from the same state."
        )
    return 1


def same_state(x: Any, y: Any) -> bool:
    """Whether two states are the same value, arrays and nested tuples included."""
    if isinstance(x, tuple | list) and isinstance(y, tuple | list):
        return len(x) == len(y) and all(same_state(a, b) for a, b in zip(x, y, strict=True))
    if hasattr(x, "shape") and hasattr(y, "shape"):
        return bool(np.array_equal(np.asarray(x), np.asarray(y), equal_nan=np.asarray(x).dtype.kind == "f"))
    try:
        if bool(x == y):
            return True
    except Exception:
        return repr(x) == repr(y)
    # objects without equality: compare what they hold
    return by_identity(x) and type(x) is type(y) and hasattr(x, "__dict__") and _same_fields(vars(x), vars(y))


def by_identity(state: Any) -> bool:
    """Whether a state's type has no equality of its own."""
    return getattr(type(state), "__eq__", None) is object.__eq__


def _same_fields(x: dict[str, Any], y: dict[str, Any]) -> bool:
    return x.keys() == y.keys() and all(same_state(x[name], y[name]) for name in x)


def is_opaque(state: Any) -> bool:
    """A state that has no equality and shows nothing to compare, such as a snapshot of a simulator."""
    return type(state).__hash__ is not None and getattr(state, "key", 0) is None


def shaped(state: Any, example: Any) -> Any:
    """``state`` in the form of the problem's own initial state: its NamedTuple, its array, its floats."""
    fields = getattr(example, "_fields", None)
    if fields and isinstance(state, dict) and set(state) == set(fields):
        state = tuple(state[name] for name in fields)
    if isinstance(example, tuple) and isinstance(state, tuple) and len(state) == len(example):
        parts = [shaped(part, like) for part, like in zip(state, example, strict=True)]
        return type(example)(*parts) if fields else tuple(parts)
    if type(example).__module__ == "numpy" and hasattr(example, "dtype") and isinstance(state, tuple | int | float):
        return np.array(state, dtype=example.dtype)
    if isinstance(example, float) and isinstance(state, int) and not isinstance(state, bool):
        return float(state)
    return state


def state_key(state: Any) -> Any:
    """What tells states apart: the state itself, the shape and bytes of an array, or a tuple of such keys."""
    if hasattr(state, "tobytes") and hasattr(state, "shape") and state.shape and state.dtype != object:
        return state.shape, (state + 0.0 if state.dtype.kind == "f" else state).tobytes()  # -0.0 is 0.0
    try:
        hash(state)
    except TypeError as error:
        if isinstance(state, tuple):
            return tuple(state_key(part) for part in state)
        raise InvalidInput(
            f"States have to be told apart, but {state!r:.60} cannot be ({error}); give key=, a function from a state to "
            "a number, a string or a tuple of them, or let states be tuples, arrays of numbers or frozen dataclasses."
        ) from None
    return state


def check_recognizable(state: Any, key: Any) -> None:
    """Refuse a key that a copy of its state would not share: such states never come back.

    Objects without ``==`` are equal to themselves only, so a search would take every visit for a new state.
    """
    if is_fixed(key):
        if not _is_nan(key):
            return
        why = "a key that holds NaN is not equal to itself"
    else:
        try:
            twin = copy.deepcopy(key)
        except Exception:
            twin = None if by_identity(key) else key
        try:
            if twin == key and hash(twin) == hash(key):
                return
        except Exception:
            pass
        why = f"{type(state).__name__} objects are equal to themselves only"
    raise InvalidInput(
        f"States have to be recognized when they come back, but {why} (at state {state!r:.60}); give key=, a function from "
        "a state to a number, a string or a tuple that tells all its future depends on, or let states be tuples or numbers."
    )


def _is_nan(key: Any) -> bool:
    if isinstance(key, tuple | frozenset):
        return any(_is_nan(part) for part in key)
    return isinstance(key, float | np.floating) and bool(np.isnan(key))
