"""The interface of a bound on a pair, as certified search requires it.

A bound says how far Q(s, a) can be from the mean of its samples, for all pairs
and all numbers of samples at once.

A pair (s, a) has samples X_1, X_2, ... of r + gamma V(z), all in [m, M], with
mean Q. V is not known. A bound computes with Y_i = r_i + gamma U(z_i) >= X_i
for the upper side (with L(z_i) for the lower one), so it must be monotone: a
larger Y_i may not make it smaller. Any monotone bound that holds for all n can
be used, and docs/certified.md, section 3, applies to it without a change.

This file defines the parts of a bound. It also holds the tools that every bound may
use: the shares of delta, the mean, and the search for a number of samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators.base import UNIT as UNIT
from smoothcruiser.operators.base import value_rounding as value_rounding
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.model.tabular import Floats, Ints

SWEPT = 0.005  # of epsilon: the part that the last sweeps may leave
# A bound may have a choice (the pole of betting). A sweep keeps the choice, improves it
# step by step, or tries everything.
KEEP, WALK, SCAN = 0, 1, 2
# It keeps it, and uses only bounds that hold for every function of the outcome at once,
# as induction at discount 1 needs. Only bounds with ``every_function`` meet it.
EVERY = 3


class Outcomes(NamedTuple):
    """The part of the graph that a bound reads.

    It is small, since it is passed for every pair.
    """

    nodes: Any  # (N,) of NODE
    pairs: Any  # (P,) of ``pair_type``
    entries: Any  # (E,) of ``Entries``


class BoundRules(NamedTuple):
    """The constants of a bound during a query."""

    discount: float
    scale: float  # largest |value| in sight, for rounding
    # declared: no outcome of a step is less likely; 0 where nothing was declared
    min_probability: float
    # log of the number of functions V that a bet on one function has to serve: the
    # steps of a horizon, which share their samples
    union: float


def frequencies(
    g: Outcomes, pair: int, upper: bool, rules: BoundRules, weights: Floats
) -> None:
    """Write by how much the mean moves with the value of each next state."""
    start = g.pairs["start"][pair]
    for e in range(start, start + g.pairs["length"][pair]):
        weights[e] = rules.discount * g.entries.weight[e] / g.pairs["total"][pair]


class Bound(NamedTuple):
    """One way to bound Q from samples; a row of ``BOUNDS``."""

    # its name in certificates and in ``Certified(bound=...)``
    word: str
    # the memory of a pair between sweeps, (name, NumPy type): appended to PAIR
    fields: tuple[tuple[str, str], ...]
    # (g: Outcomes, pair: int, upper, tune, rules: BoundRules) -> the upper (lower) bound
    # on Q of a pair that has samples; compiled. It holds for all n with probability
    # 1 - exp(-cost) of the pair. It also writes its ``slope_up`` (``slope_down``):
    # minus the derivative of the radius by n, times n**2. Steering uses it to find
    # where the next samples pay.
    side: Callable[..., float]
    # (k, delta) -> log(1/alpha) of either side of the k-th pair, k = 1, 2, ...: the
    # sum of 2 alpha over all k is at most delta. It must not decrease with k. Where a
    # horizon of H steps shares its samples, delta is divided by H, unless the bound
    # holds for ``every_function``.
    cost: Callable[[Ints, float], Floats]
    # (facts, epsilon, delta, num_pairs) -> samples of each pair that certainly reach
    # half-width epsilon. It must not decrease with num_pairs.
    price: Callable[[Facts, float, float, int], int]
    # facts -> a half-width that the search can reach in spite of rounding
    floor: Callable[[Facts], float]
    # pairs -> whether ``side`` can read ``fields`` of all of them: pairs may come from
    # a file
    readable: Callable[[Any], bool] = lambda pairs: True
    # whether one event bounds the mean of every function of the outcome at once
    every_function: bool = False
    # the part of delta that is reserved for the pool of all pairs (``pooled``)
    pool_share: float = 0.0
    # the part that is given out to pairs; a pair's bets then count 1 + 3/4 of its own
    pair_share: float = 1.0
    # (g, pair, upper, rules, weights) -> None: by how much ``side`` moves with the value
    # of each next state, written at the places of the pair's entries; compiled. It
    # serves the search at discount 1 (``sweeps_kernel``), which checks the result.
    tilt: Callable[..., None] = frequencies


def shared_delta(bound: Bound, facts: Facts, delta: float) -> float:
    """The delta by which pairs get their costs.

    The steps of a horizon share their samples, and a bound on the mean of one function
    has to hold for V with each number of steps left.
    """
    delta *= bound.pair_share
    if facts.horizon is None or bound.every_function:
        return delta
    return delta / facts.horizon


def pair_cost(k: Any, delta: float) -> Any:
    """Return log(2 / (delta p_k)) for the k-th pair, p_k = 1 / ((k+e) log(k+e)**2).

    k = 1, 2, ... is a number or an array. The shares p_k sum to at most 1: each
    is below the integral of 1/(x log(x)**2) from k-1+e to k+e, and from e to
    infinity that is 1. Against 6/(pi**2 k**2) the price of the thousandth pair
    drops from log 1.6e6 to log 4.8e4.
    """
    shifted_index = np.asarray(k, dtype=np.float64) + math.e
    return (
        math.log(2.0 / delta)
        + np.log(shifted_index)
        + 2.0 * np.log(np.log(shifted_index))
    )


def sample_mean(g: Outcomes, pair: int, upper: bool, rules: BoundRules) -> float:
    """The mean of r + gamma U(z), or of r + gamma L(z), over a pair's samples."""
    reward, weight, target = g.entries
    uppers, lowers, discount = g.nodes["upper"], g.nodes["lower"], rules.discount
    total_value = 0.0
    start = g.pairs["start"][pair]
    for e in range(start, start + g.pairs["length"][pair]):
        value = uppers[target[e]] if upper else lowers[target[e]]
        total_value += weight[e] * (reward[e] + discount * value)
    return float(total_value / g.pairs["total"][pair])


def least_samples(half_width: Callable[[float], float], epsilon: float) -> int:
    """Return the least n for which ``half_width(n)`` is small enough for ``epsilon``.

    ``half_width`` decreases with n. The last sweeps keep their share of
    ``epsilon``.
    """

    def enough(n: int) -> bool:
        return half_width(n) <= (1.0 - SWEPT) * epsilon

    too_few, enough_samples = 0, 1
    while not enough(enough_samples):
        too_few, enough_samples = enough_samples, 2 * enough_samples
        if enough_samples > 2**62:  # radii or rounding stay too large for any number
            raise InvalidInput(
                f"epsilon={epsilon:g} is below what any number of draws "
                "that can be counted reaches for certain; ask for more."
            )
    while enough_samples - too_few > 1:
        middle_count = (too_few + enough_samples) // 2
        too_few, enough_samples = (
            (too_few, middle_count)
            if enough(middle_count)
            else (middle_count, enough_samples)
        )
    return enough_samples
