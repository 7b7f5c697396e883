"""Where bounds of totals without a discount will come to rest, guessed fast, compiled.

Sweeps from below reach the least fixed point of what the bounds of the pairs make of f,
but slowly where plays are long, and each update takes logarithms. Here every pair's
bound is replaced by its tangent at f (``straighten``): a constant and a weight for
each next state. Passes over these straight lines cost little (``follow``). Where they
rest, new tangents are taken. Self-loops are solved on the way: with weight w on itself a
state has x = (c + rest)/(1 - w).

The bound above is convex in f and the one below concave, so this is Newton's method; a
few rounds suffice. Nothing here is a bound: ``inductive_kernel`` proves what is found.

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
    seen = Outcomes(g.nodes, g.entries)
    for i in range(count):
        node = g.nodes[order[i]]
        for p in range(node["first"], node["first"] + node["size"]):
            pair = g.pairs[p]
            known = pair["q_upper"] if upper else pair["q_lower"]
            lines.const[p] = known
            if pair["total"] == 0.0:
                continue
            if plain or pair["cost"] == 0.0:
                frequencies(seen, pair, upper, rules.bound, lines.weight)
                bound = sample_mean(seen, pair, upper, rules.bound)
            else:
                TILT(seen, pair, upper, rules.bound, lines.weight)
                bound = BOUND(seen, pair, upper, EVERY, rules.bound)
            decided = bound >= known if upper else bound <= known
            stays = 0.0
            for e in range(pair["start"], pair["start"] + pair["length"]):
                after = g.nodes[g.entries[e]["target"]]
                value = after["upper"] if upper else after["lower"]
                bound -= lines.weight[e] * value
                lines.target[e] = g.entries[e]["target"]
                if lines.target[e] == order[i]:
                    stays += lines.weight[e]
                    lines.weight[e] = 0.0
            decided = decided and not plain
            scale = 0.0 if decided or stays > STAYS else 1.0 / (1.0 - stays)
            if not decided:
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
    for turn in range(passes):
        moved = 0.0
        for i in range(count - 1, -1, -1):
            node = g.nodes[order[i]]
            best = -math.inf
            for p in range(node["first"], node["first"] + node["size"]):
                pair = g.pairs[p]
                found = lines.const[p]
                for e in range(pair["start"], pair["start"] + pair["length"]):
                    found += lines.weight[e] * value[lines.target[e]]
                if upper:
                    found = min(found, pair["q_upper"])
                else:
                    found = max(found, pair["q_lower"])
                best = max(best, node["sign"] * found)
            best *= node["sign"]
            moved = max(moved, abs(best - value[order[i]]))
            value[order[i]] = best
        if moved <= still:
            return turn + 1
    return passes
