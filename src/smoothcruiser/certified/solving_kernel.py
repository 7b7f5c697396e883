"""Where bounds of totals without a discount will come to rest, guessed fast, compiled.

Sweeps from below reach the least fixed point of the backup by the pairs' bounds, but
slowly where plays are long, and each update takes logarithms. Here every pair's bound
is replaced by its tangent at f (``straighten``): a constant and a weight for each next
state. Passes over these straight lines cost little (``follow``). Where they rest, new
tangents are taken. Self-loops are solved on the way: with weight w on itself a state
has x = (c + rest)/(1 - w).

The bound above is convex in f and the one below concave, so this is Newton's method; a
few rounds suffice. Nothing here is a bound: ``inductive_kernel`` proves the result.

legend   symbol      public name
  x                  ``Lines.value``: the guess, by node
  c, w               ``Lines.const`` by pair, ``Lines.weight`` by entry
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from smoothcruiser.certified.bounds.base import (
    EVERY,
    BoundRules,
    Outcomes,
    frequencies,
    sample_mean,
)
from smoothcruiser.certified.graph import Graph
from smoothcruiser.certified.sweeps_kernel import BOUND, SweepRules
from smoothcruiser.problem.tabular import Floats, Ints

# more weight than this on itself: a pair that never leaves
STAYS = 1.0 - 1e-9


class Lines(NamedTuple):
    """A straight line for every pair, and the guess."""

    const: Floats  # (P,)
    weight: Floats  # (E,)
    target: Ints  # (E,): the nodes of the entries
    value: Floats  # (N,)


def TILT(
    g: Outcomes, pair: Any, upper: bool, rules: BoundRules, weights: Floats
) -> None:
    """Stand for ``Bound.tilt``, which replaces it in the loops of a search."""
    raise NotImplementedError


def straighten(
    g: Graph,
    order: Ints,
    count: int,
    upper: bool,
    plain: bool,
    lines: Lines,
    rules: SweepRules,
) -> None:
    """Write a line for each pair of a listed node: its bound's tangent at f.

    f is the ``upper`` (``lower``) of the nodes. A ``plain`` line is that of the mean.
    """
    outcomes = Outcomes(g.nodes, g.entries)
    for i in range(count):
        node = g.nodes[order[i]]
        for p in range(node["first"], node["first"] + node["size"]):
            pair = g.pairs[p]
            known_bound = pair["q_upper"] if upper else pair["q_lower"]
            lines.const[p] = known_bound
            if pair["total"] == 0.0:
                continue
            if plain or pair["cost"] == 0.0:
                frequencies(outcomes, pair, upper, rules.bound, lines.weight)
                bound = sample_mean(outcomes, pair, upper, rules.bound)
            else:
                TILT(outcomes, pair, upper, rules.bound, lines.weight)
                bound = BOUND(outcomes, pair, upper, EVERY, rules.bound)
            is_decided = bound >= known_bound if upper else bound <= known_bound
            own_weight = 0.0
            for e in range(pair["start"], pair["start"] + pair["length"]):
                next_node = g.nodes[g.entries[e]["target"]]
                value = next_node["upper"] if upper else next_node["lower"]
                bound -= lines.weight[e] * value
                lines.target[e] = g.entries[e]["target"]
                if lines.target[e] == order[i]:
                    own_weight += lines.weight[e]
                    lines.weight[e] = 0.0
            is_decided = is_decided and not plain
            scale = (
                0.0 if is_decided or own_weight > STAYS else 1.0 / (1.0 - own_weight)
            )
            if not is_decided:
                lines.const[p] = bound * scale
            for e in range(pair["start"], pair["start"] + pair["length"]):
                lines.weight[e] *= scale


def follow(
    g: Graph,
    order: Ints,
    count: int,
    upper: bool,
    passes: int,
    still: float,
    lines: Lines,
) -> int:
    """Pass over the lines until one moves x by at most ``still``.

    Returns the number of passes. x stays within the bounds that the pairs have.
    """
    value = lines.value
    for pass_number in range(passes):
        largest_move = 0.0
        for i in range(count - 1, -1, -1):
            node = g.nodes[order[i]]
            best_value = -math.inf
            for p in range(node["first"], node["first"] + node["size"]):
                pair = g.pairs[p]
                line_value = lines.const[p]
                for e in range(pair["start"], pair["start"] + pair["length"]):
                    line_value += lines.weight[e] * value[lines.target[e]]
                if upper:
                    line_value = min(line_value, pair["q_upper"])
                else:
                    line_value = max(line_value, pair["q_lower"])
                best_value = max(best_value, node["sign"] * line_value)
            best_value *= node["sign"]
            largest_move = max(largest_move, abs(best_value - value[order[i]]))
            value[order[i]] = best_value
        if largest_move <= still:
            return pass_number + 1
    return passes
