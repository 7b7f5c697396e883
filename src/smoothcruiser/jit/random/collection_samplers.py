"""Samples from a collection of elements: one source for plain Python and compiled code.

  categorical  an index in proportion to weights, by one uniform and a running sum
  choice       an element, by ``integers``, or with probabilities as ``categorical``
  permutation  a copy in random order: Fisher and Yates, from the end
  shuffle      the same in place

Here are the choices of indices and of an order. The methods around them differ in the
elements that they take: any in plain Python (``jit.random.streams``), those of one type in
compiled code (``jit.random.stream_type``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

SUM_IS_NOT_ONE = (
    "rng.choice(a, p) needs probabilities p that sum to 1 "
    "(rng.categorical(weights) takes any weights and returns an index)"
)
SUM_TOLERANCE = 1e-8  # as in NumPy: how far the sum of probabilities may be from 1


def categorical(self: Any, weights: Any) -> Any:
    """An index in proportion to ``weights`` >= 0."""
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


def index_by_size(rng: Any, size: int, p: Any) -> Any:
    """A uniform index; ``p`` is None."""
    if size < 1:
        raise ValueError("rng.choice(a, p) needs at least one element to choose from")
    return rng.integers(size)


def index_by_probabilities(rng: Any, size: int, p: Any) -> Any:
    """An index sampled with probabilities ``p``, one for each."""
    if size < 1:
        raise ValueError("rng.choice(a, p) needs at least one element to choose from")
    if len(p) != size:
        raise ValueError(
            "rng.choice(a, p) needs one probability in p for every element of a"
        )
    return np.int64(pick_by_probabilities(rng, p))


def order(rng: Any, size: Any) -> Any:
    """0..size-1 in random order."""
    if size < 0:
        raise ValueError("rng.permutation(n) needs n >= 0")
    out = np.arange(size)
    for i in range(size - 1, 0, -1):
        j = rng.integers(i + 1)
        out[i], out[j] = out[j], out[i]
    return out
