"""How bounds move over the seen graph, compiled.

The problem: with radii that hold, every seen state has L(s) <= V(s) <= U(s); F
is monotone, so

    U(s) <- min(U(s), F(Q_U)),
    Q_U(a) <- min(Q_U(a), the upper bound of r + gamma U),      and L from below,

keep that true for max and min players alike, in any order and at any stop.
A sweep runs them backwards through the states in the order they were met, in place
(Gauss-Seidel), so a change far away passes many states in one sweep.

A sweep computes only the bounds that can have changed. The bounds of a node follow from
its samples and from the bounds of its next states. A sweep gives every listed node its
turn, last met first. So only two things can be new to a node when its turn comes:
samples entered since its last turn (``SAMPLED``), and next states with bounds that
moved on their own last turn (``MOVED``). Next states after it in the list have had this
sweep's turn, and those before it had theirs after it in the last sweep. Where there is
neither, computing its bounds again would give the same bounds, and it is left as it is.
A choice that a bound walks to (``WALK``) may be another one wherever something moved
since the last walk (``KEPT``). ``SCAN`` leaves out nothing.

Bounds that are left as they are were valid and stay so (``sweeps_kernel``). The
decisions of this file cannot break a bound, only leave one wider. Code that moves
bounds or reorders the list between two sweeps has to mark the nodes, as
``Region.start`` does.

Totals without a discount: sweeps from below reach the least fixed point of the backup
by the pairs' bounds, but slowly where plays are long, and each update takes logarithms.
So where they will come to rest is guessed: every pair's bound is replaced by its
tangent at f (``straighten``): a constant and a weight for each next state. Passes over
these straight lines cost little (``follow``). Where they rest, new tangents are taken.
Self-loops are solved on the way: with weight w on itself a state has
x = (c + rest)/(1 - w).

The bound above is convex in f and the one below concave, so this is Newton's method; a
few rounds suffice. The guess is no bound: ``layers_kernel`` proves the result.

This file leaves out the bounds of a pair (``BOUND`` is replaced by that of the search)
and where samples pay (``steering_kernel``).

legend   symbol      public name
  x                  ``Lines.value``: the guess, by node
  c, w               ``Lines.const`` by pair, ``Lines.weight`` by entry
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from smoothcruiser.certified.bounds.base import (
    EVERY,
    KEEP,
    SCAN,
    UNIT,
    WALK,
    BoundRules,
    Outcomes,
    frequencies,
    sample_mean,
    value_rounding,
)
from smoothcruiser.certified.graph import KEPT, MOVED, SAMPLED, Graph
from smoothcruiser.operators.dispatch import builtin_gradient, builtin_value
from smoothcruiser.problem.model.tabular import Floats, Ints


class SweepRules(NamedTuple):
    """The constants of a query, and scratch arrays."""

    bound: BoundRules
    operator: int
    temperature: float
    shrink: float  # 1; tests divide radii by 4 to see the promise break
    # how much the near bound of an action counts beside the far one when samples are
    # steered: it tells apart actions with equal far bounds
    tie: float
    priors: Any  # (K,) of floats: the operator's weight of each action
    q: Any  # (K,) of floats: scratch
    w: Any  # (K,)
    out: Any  # (K,)


def write_policy(size: int, rules: SweepRules, policy: Any) -> None:
    """Write grad F at the first ``size`` action values of ``rules.q``."""
    q, w = rules.q[:size], rules.w[:size]
    builtin_gradient(rules.operator, q, w, rules.temperature, policy)


def BOUND(g: Outcomes, pair: Any, upper: bool, tune: int, rules: BoundRules) -> float:
    """Stand for ``Bound.side``, which replaces it in the loops of a search."""
    raise NotImplementedError


def exact_side(g: Outcomes, pair: Any, upper: bool, rules: BoundRules) -> float:
    """Return the bound of one side where one sample is exact.

    Only the sum is rounded.
    """
    slack = (pair["length"] + 4) * UNIT * rules.scale
    mean = sample_mean(g, pair, upper, rules)
    return float(mean + slack if upper else mean - slack)


def update_pair(
    seen: Outcomes, pair: Any, upper: bool, tune: int, rules: SweepRules
) -> None:
    """Bring the upper (or lower) bound of a pair that has samples up to date."""
    if pair["cost"] == 0.0:
        bound = exact_side(seen, pair, upper, rules.bound)
    else:
        bound = BOUND(seen, pair, upper, tune, rules.bound)
    if rules.shrink != 1.0:  # wrong on purpose, for tests
        mean = sample_mean(seen, pair, upper, rules.bound)
        bound = mean + (bound - mean) * rules.shrink
    if upper and bound < pair["q_upper"]:
        pair["q_upper"] = bound
    elif not upper and bound > pair["q_lower"]:
        pair["q_lower"] = bound


def node_bound(node: Any, pairs: Any, upper: bool, rules: SweepRules) -> float:
    """The upper (or lower) bound on V that those of the node's pairs give."""
    num_actions, sign, first_pair = node["size"], node["sign"], node["first"]
    for a in range(num_actions):
        pair = pairs[first_pair + a]
        rules.q[a] = sign * (pair["q_upper"] if upper else pair["q_lower"])
        rules.w[a] = rules.priors[pair["action"]]
    value = sign * builtin_value(
        rules.operator, rules.q[:num_actions], rules.w[:num_actions], rules.temperature
    )
    rounding = value_rounding(num_actions, rules.bound.scale, rules.temperature)
    return float(value + rounding if upper else value - rounding)


def backup_side(
    nodes: Any,
    pairs: Any,
    entries: Any,
    i: int,
    upper: bool,
    tune: int,
    rules: SweepRules,
) -> float:
    """Bring the upper (or lower) bounds of node ``i`` up to date.

    Returns by how much the bound on its value closed.
    """
    outcomes, node = Outcomes(nodes, entries), nodes[i]
    for p in range(node["first"], node["first"] + node["size"]):
        if pairs[p]["total"] > 0.0:
            update_pair(outcomes, pairs[p], upper, tune, rules)
    value = node_bound(node, pairs, upper, rules)
    if upper:
        closed = node["upper"] - value
        if closed > 0.0:
            node["upper"] = value
    else:
        closed = value - node["lower"]
        if closed > 0.0:
            node["lower"] = value
    return float(max(0.0, closed))


def is_stale(g: Graph, node: Any, tune: int) -> bool:
    """Whether the bounds of a node can be others than they are."""
    if tune == SCAN or node["stale"] & SAMPLED:
        return True
    if tune == WALK and node["stale"] & KEPT:
        return True
    for p in range(node["first"], node["first"] + node["size"]):
        pair = g.pairs[p]
        for e in range(pair["start"], pair["start"] + pair["length"]):
            if g.nodes[g.entries[e]["target"]]["stale"] & MOVED:
                return True
    return False


def sweep(g: Graph, order: Ints, count: int, tune: int, rules: SweepRules) -> float:
    """Pass once over the listed nodes, last met first, and return how much they closed.

    The sum is weighted by visits; ``order[0]`` is the requested node. Rounding may
    leave visits just below 0, which count as none, so the sum is not negative. Where
    the bounds of a node or of one of its pairs exclude each other, the pass ends with
    -1 minus the node's number.
    """
    total_closed = 0.0
    for i in range(count - 1, -1, -1):
        node = g.nodes[order[i]]
        if not is_stale(g, node, tune):
            node["stale"] &= KEPT
            continue
        closed = 0.0
        for side in range(2):
            closed += backup_side(
                g.nodes, g.pairs, g.entries, order[i], side == 0, tune, rules
            )
        node["stale"] = (MOVED if closed > 0.0 else 0) | (KEPT if tune == KEEP else 0)
        is_crossed = node["lower"] > node["upper"]
        for p in range(node["first"], node["first"] + node["size"]):
            is_crossed = is_crossed or g.pairs[p]["q_lower"] > g.pairs[p]["q_upper"]
        if is_crossed:
            return float(-1 - order[i])
        total_closed += max(0.0, node["mass"] + (1.0 if i == 0 else 0.0)) * closed
    return total_closed


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
