"""How delta is shared out among the pairs of state and action.

The k-th pair that is ever sampled has the share p_k that its bound gives it
(``Bound.cost``): the number of pairs is not known before. A table's is: half of delta
is then shared evenly by its N pairs, so that none pays more than log(2N), and half in
the order in which pairs are met. Either way the shares add up to at most 1.
"""

from __future__ import annotations

import math

import numpy as np

from smoothcruiser.certified.bounds.base import Bound, shared_delta
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import Floats, Ints


def known_pairs(problem: Problem) -> int | None:
    """The number of pairs that can be sampled, where it is known."""
    if problem.tables is None:
        return None
    return int(problem.tables.legal[~problem.tables.terminal].sum())


def delta_in_order(problem: Problem, delta: float) -> float:
    """The part of delta that is shared in the order in which pairs are met."""
    return delta if known_pairs(problem) is None else 0.5 * delta


def pair_costs(bound: Bound, problem: Problem, k: Ints, delta: float) -> Floats:
    """Return log(1/alpha) of either side of the k-th pair, k = 1, 2, ..."""
    delta_share = shared_delta(bound, problem.facts, delta_in_order(problem, delta))
    cost: Floats = bound.cost(k, delta_share)
    num_pairs = known_pairs(problem)
    if num_pairs is None:
        return cost
    even_cost = math.log(2.0 * max(num_pairs, 1) / delta_share)
    shared_cost = -np.logaddexp(-cost, -even_cost)
    return np.where(np.asarray(k) <= num_pairs, shared_cost, cost)
