"""Samples from a collection of elements, as compiled methods of a stream.

The plain-Python methods in ``jit.random.streams`` call the same code.

  categorical  an index in proportion to weights, by one uniform and a running sum
  choice       an element, by ``integers``, or with probabilities as ``categorical``
  permutation  a copy in random order: Fisher and Yates, from the end
  shuffle      the same in place

In compiled code the elements have one type: arrays, lists and tuples of equal kinds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.core.extending import overload_method, register_jitable

from smoothcruiser.jit.random.stream_type import StreamType, is_none

SUM_IS_NOT_ONE = (
    "rng.choice(a, p) needs probabilities p that sum to 1 "
    "(rng.categorical(weights) takes any weights and returns an index)"
)
SUM_TOLERANCE = 1e-8  # as in NumPy: how far the sum of probabilities may be from 1
NUMBERS = (types.Number, types.Boolean)
SEQUENCES = (
    types.UniTuple,
    types.NamedUniTuple,
    types.List,
    types.ListType,
    types.Array,
)


@overload_method(StreamType, "categorical")
def _categorical_method(self: Any, weights: Any) -> Any:
    _require_sequence(weights, "rng.categorical(weights)", NUMBERS)

    def categorical(self: Any, weights: Any) -> Any:
        weight_sum = 0.0
        for i in range(len(weights)):
            if not weights[i] >= 0.0:
                raise ValueError("rng.categorical(weights) needs weights >= 0")
            weight_sum += weights[i]
        if not 0.0 < weight_sum < math.inf:
            raise ValueError(
                "rng.categorical(weights) needs weights with a finite sum > 0"
            )
        return pick(self, weights, weight_sum)

    return categorical


@register_jitable
def pick(rng: Any, weights: Any, total: float) -> Any:
    """An index in proportion to weights >= 0 with a positive sum."""
    u = rng.random() * total
    last_index = 0
    running_sum = 0.0
    for i in range(len(weights)):
        if weights[i] > 0.0:
            last_index = i
            running_sum += weights[i]
            if u < running_sum:
                return i
    return last_index


@register_jitable
def pick_by_probabilities(rng: Any, p: Any) -> Any:
    """An index sampled with probabilities ``p``."""
    probability_sum = 0.0
    for i in range(len(p)):
        if not p[i] >= 0.0:
            raise ValueError("rng.choice(a, p) needs probabilities p >= 0")
        probability_sum += p[i]
    if not abs(probability_sum - 1.0) <= SUM_TOLERANCE:
        raise ValueError(SUM_IS_NOT_ONE)
    return pick(rng, p, probability_sum)


@overload_method(StreamType, "choice")
def _choice_method(self: Any, a: Any, p: Any = None) -> Any:
    choose_index = _index_by_size if is_none(p) else _index_by_probabilities
    if not is_none(p):
        _require_sequence(p, "rng.choice(a, p)", NUMBERS)
    if isinstance(a, types.Integer):

        def choice(self: Any, a: Any, p: Any = None) -> Any:
            return choose_index(self, a, p)

        return choice
    _require_sequence(a, "rng.choice(a, p)")
    # A row is returned as a copy, because the step may write into it.
    if isinstance(a, types.Array) and a.ndim > 1:

        def choice(self: Any, a: Any, p: Any = None) -> Any:
            return a[choose_index(self, len(a), p)].copy()

    else:

        def choice(self: Any, a: Any, p: Any = None) -> Any:
            return a[choose_index(self, len(a), p)]

    return choice


@register_jitable
def _index_by_size(rng: Any, size: int, p: Any) -> Any:
    if size < 1:
        raise ValueError("rng.choice(a, p) needs at least one element to choose from")
    return rng.integers(size)


@register_jitable
def _index_by_probabilities(rng: Any, size: int, p: Any) -> Any:
    if size < 1:
        raise ValueError("rng.choice(a, p) needs at least one element to choose from")
    if len(p) != size:
        raise ValueError(
            "rng.choice(a, p) needs one probability in p for every element of a"
        )
    return np.int64(pick_by_probabilities(rng, p))


@register_jitable
def order(rng: Any, size: Any) -> Any:
    """0..size-1 in random order."""
    if size < 0:
        raise ValueError("rng.permutation(n) needs n >= 0")
    out = np.arange(size)
    for i in range(size - 1, 0, -1):
        j = rng.integers(i + 1)
        out[i], out[j] = out[j], out[i]
    return out


@overload_method(StreamType, "permutation")
def _permutation_method(self: Any, x: Any) -> Any:
    if isinstance(x, types.Integer):

        def permutation(self: Any, x: Any) -> Any:
            return order(self, np.int64(x))

    else:
        _require_sequence(x, "rng.permutation(x)")
        is_array = isinstance(x, types.Array)  # Numba's np.array takes no arrays

        def permutation(self: Any, x: Any) -> Any:
            shuffled = x.copy() if is_array else np.array(x)
            self.shuffle(shuffled)
            return shuffled

    return permutation


@overload_method(StreamType, "shuffle")
def _shuffle_method(self: Any, x: Any) -> Any:
    if not isinstance(x, types.Array | types.List | types.ListType):
        raise TypingError(f"rng.shuffle(x) takes an array or a list, got {x}.")

    def shuffle(self: Any, x: Any) -> Any:
        old_elements = x.copy()
        new_order = order(self, len(x))
        for i in range(len(x)):
            x[i] = old_elements[new_order[i]]

    return shuffle


def _require_sequence(kind: Any, call: str, of: Any = None) -> None:
    """Refuse everything but a sequence with elements of one type."""
    is_flat = (
        not isinstance(kind, types.Array)
        or kind.ndim == 1
        or (of is None and kind.ndim > 0)
    )
    if (
        isinstance(kind, SEQUENCES)
        and is_flat
        and (of is None or isinstance(kind.dtype, of))
    ):
        return
    if isinstance(kind, types.BaseTuple) and len(kind) > 0:
        raise TypingError(
            f"{call} takes tuples whose elements have one type in compiled code, got "
            f"{kind}; convert the elements, or drop numba.njit from the step."
        )
    element_text = "" if of is None else " of numbers"
    raise TypingError(
        f"{call} takes a non-empty list, tuple or array{element_text}, got {kind}."
    )


@overload_method(StreamType, "numpy")
def _numpy_method(self: Any) -> Any:
    remedy = "use the methods of rng itself, or drop numba.njit from the step"
    raise TypingError(f"rng.numpy() works in plain Python only; {remedy}.")
