"""Upper bounds of totals without a discount, proved by induction, compiled.

At discount 1 sweeps from above need not come down: where play can go round for ever,
every state keeps the other's bound. With rewards of one sign V is the least fixed point
of the backup T from 0, so any f >= 0 with T f <= f is at least V (Park's induction).
Where the bound of a pair holds for every function at once (``bounds.law``) or is exact,
T f is at most the backup of f by the bounds of the pairs, which can be computed.
``climb`` looks for such an f from the lower bounds upwards, and ``is_inductive`` is the
proof: nothing before it matters. All of it is mirrored where no reward is above 0.

legend   symbol      public name
  f                  the ``upper`` (or ``lower``) of the listed nodes, for the time being
                     ``known``: the bounds that hold already; V <= f follows from
                     min(T f, known) <= f as well

The proof is in docs/certified.md, section 3b.
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.certified.bounds.base import EVERY, KEEP, UNIT, Outcomes
from smoothcruiser.certified.graph import Graph
from smoothcruiser.certified.sweeps_kernel import (
    BOUND,
    SweepRules,
    exact_side,
    node_bound,
    update_pair,
)
from smoothcruiser.problem.tabular import Floats, Ints


def farthest(seen: Outcomes, pair: Any, upper: bool, rules: SweepRules) -> float:
    """The largest (smallest) r + V(z) of the pair's outcomes, rounding included.

    No rounding is needed where no outcome pays.
    """
    farthest_value, any_reward = -math.inf if upper else math.inf, False
    for e in range(pair["start"], pair["start"] + pair["length"]):
        entry = seen.entries[e]
        next_node = seen.nodes[entry["target"]]
        any_reward = any_reward or entry["reward"] != 0.0
        value = entry["reward"] + (next_node["upper"] if upper else next_node["lower"])
        farthest_value = (
            max(farthest_value, value) if upper else min(farthest_value, value)
        )
    slack = 2.0 * UNIT * rules.bound.scale if any_reward else 0.0
    return float(farthest_value + slack if upper else farthest_value - slack)


def backed_up(g: Graph, i: int, upper: bool, rules: SweepRules) -> float:
    """The backup of f at a node by its pairs' bounds; plain max and min are exact."""
    node, outcomes = g.nodes[i], Outcomes(g.nodes, g.entries)
    best_bound = -math.inf
    for p in range(node["first"], node["first"] + node["size"]):
        pair = g.pairs[p]
        bound = pair["q_upper"] if upper else pair["q_lower"]
        if pair["total"] > 0.0:
            if pair["cost"] == 0.0:
                pair_bound = exact_side(outcomes, pair, upper, rules.bound)
                farthest_value = farthest(outcomes, pair, upper, rules)
                pair_bound = (
                    min(pair_bound, farthest_value)
                    if upper
                    else max(pair_bound, farthest_value)
                )
            else:
                pair_bound = BOUND(outcomes, pair, upper, EVERY, rules.bound)
            bound = min(bound, pair_bound) if upper else max(bound, pair_bound)
        best_bound = max(best_bound, node["sign"] * bound)
    return float(node["sign"] * best_bound)


def push(g: Graph, order: Ints, count: int, upper: bool, rules: SweepRules) -> float:
    """Pass once over the listed nodes, updating only the pair that decides their bound.

    That is the pair with the best upper (or lower) bound; the others keep theirs, which
    hold as well. Returns by how much a bound closed at most.
    """
    nodes, pairs, outcomes = g.nodes, g.pairs, Outcomes(g.nodes, g.entries)
    largest_closed = 0.0
    for i in range(count - 1, -1, -1):
        node = nodes[order[i]]
        best_pair, best_bound = node["first"], -math.inf
        for p in range(node["first"], node["first"] + node["size"]):
            bound = pairs[p]["q_upper"] if upper else pairs[p]["q_lower"]
            if node["sign"] * bound > best_bound:
                best_pair, best_bound = p, node["sign"] * bound
        if pairs[best_pair]["total"] == 0.0:
            continue
        update_pair(outcomes, pairs[best_pair], upper, KEEP, rules)
        value = node_bound(node, pairs, upper, rules)
        closed = node["upper"] - value if upper else value - node["lower"]
        if closed > 0.0:
            largest_closed = max(largest_closed, closed)
            if upper:
                node["upper"] = value
            else:
                node["lower"] = value
    return float(largest_closed)


def on_grid(value: float, cell: float, upper: bool) -> float:
    """The next multiple of ``cell``, away from V."""
    return cell * (math.ceil(value / cell) if upper else math.floor(value / cell))


def climb(
    g: Graph,
    order: Ints,
    count: int,
    known: Floats,
    upper: bool,
    cell: float,
    rules: SweepRules,
) -> float:
    """Pass once over the listed nodes, and return how far f moved at most.

    f moves on a grid and away from V only, so that nearly equal values become equal.
    """
    nodes, largest_move = g.nodes, 0.0
    for i in range(count - 1, -1, -1):
        node = nodes[order[i]]
        value = on_grid(backed_up(g, order[i], upper, rules), cell, upper)
        if upper:
            value = min(value, known[i])
            if value > node["upper"]:
                largest_move = max(largest_move, value - node["upper"])
                node["upper"] = value
        else:
            value = max(value, known[i])
            if value < node["lower"]:
                largest_move = max(largest_move, node["lower"] - value)
                node["lower"] = value
    return largest_move


def is_inductive(
    g: Graph, order: Ints, count: int, known: Floats, upper: bool, rules: SweepRules
) -> bool:
    """Whether min(T f, known) <= f and 0 <= f at every listed node (>= below)."""
    for i in range(count):
        value, node = backed_up(g, order[i], upper, rules), g.nodes[order[i]]
        if upper and max(0.0, min(value, known[i])) > node["upper"]:
            return False
        if not upper and min(0.0, max(value, known[i])) < node["lower"]:
            return False
    return True
