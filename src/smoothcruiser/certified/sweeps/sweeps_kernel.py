"""How bounds move over the seen graph, compiled.

The problem: with radii that hold, every seen state has L(s) <= V(s) <= U(s); F
is monotone, so

    U(s) <- min(U(s), F(Q_U)),
    Q_U(a) <- min(Q_U(a), the upper bound of r + gamma U),      and L from below,

keep that true for max and min players alike, in any order and at any stop. A
sweep runs them backwards through the states in the order they were met, in
place (Gauss-Seidel), so a change far away passes many states in one sweep.

A sweep computes only the bounds that can have changed. The bounds of a node
follow from its samples and from the bounds of its next states. A sweep gives
every listed node its turn, last met first. So only two things can be new to a
node when its turn comes: samples entered since its last turn (``SAMPLED``), and
next states with bounds that moved on their own last turn (``MOVED``). Next
states after it in the list have had this sweep's turn, and those before it had
theirs after it in the last sweep. Where there is neither, computing its bounds
again would give the same bounds, and it is left as it is. A choice that a bound
walks to (``WALK``) may be another one wherever something moved since the last
walk (``KEPT``). ``SCAN`` leaves out nothing.

Bounds that are left as they are were valid and stay so (``sweeps_kernel``). The
decisions of this file cannot break a bound, only leave one wider. Code that
moves bounds or reorders the list between two sweeps has to mark the nodes, as
``Region.start`` does.

Totals without a discount: sweeps from below reach the least fixed point of the
backup by the pairs' bounds, but slowly where plays are long, and each update
takes logarithms. So where they will come to rest is guessed: every pair's bound
is replaced by its tangent at f (``straighten``): a constant and a weight for
each next state. Passes over these straight lines cost little (``follow``).
Where they rest, new tangents are taken. Self-loops are solved on the way: with
weight w on itself a state has x = (c + rest)/(1 - w).

The bound above is convex in f and the one below concave, so this is Newton's
method; a few rounds suffice. The guess is no bound: ``layers_kernel`` proves
the result.

This file leaves out the bounds of a pair (``BOUND`` is replaced by that of the
search) and where samples pay (``steering_kernel``).

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
    # how much a near radius counts when samples are steered: 1, or 0 where the near end
    # of the answer comes from elsewhere
    near: float
    # values are taken to lie above ``wish`` (min: below) when samples are steered;
    # it enters no bound, so that a false one breaks nothing
    wish: float
    priors: Any  # (K,) of floats: the operator's weight of each action
    q: Any  # (K,) of floats: scratch
    w: Any  # (K,)
    out: Any  # (K,)


def write_policy(size: int, rules: SweepRules, policy: Any) -> None:
    """Write grad F at the first ``size`` action values of ``rules.q``."""
    q, w = rules.q[:size], rules.w[:size]
    builtin_gradient(rules.operator, q, w, rules.temperature, policy)


def BOUND(g: Outcomes, pair: int, upper: bool, tune: int, rules: BoundRules) -> float:
    """Stand for ``Bound.side``, which replaces it in the loops of a search."""
    raise NotImplementedError


def exact_side(g: Outcomes, pair: int, upper: bool, rules: BoundRules) -> float:
    """Return the bound of one side where one sample is exact.

    Only the sum is rounded.
    """
    slack = (g.pairs["length"][pair] + 4) * UNIT * rules.scale
    mean = sample_mean(g, pair, upper, rules)
    return float(mean + slack if upper else mean - slack)


def update_pair(
    g: Outcomes, pair: int, upper: bool, tune: int, rules: SweepRules
) -> None:
    """Bring the upper (or lower) bound of a pair that has samples up to date."""
    if g.pairs["cost"][pair] == 0.0:
        bound = exact_side(g, pair, upper, rules.bound)
    else:
        bound = BOUND(g, pair, upper, tune, rules.bound)
    if rules.shrink != 1.0:  # wrong on purpose, for tests
        mean = sample_mean(g, pair, upper, rules.bound)
        bound = mean + (bound - mean) * rules.shrink
    if upper and bound < g.pairs["q_upper"][pair]:
        g.pairs["q_upper"][pair] = bound
    elif not upper and bound > g.pairs["q_lower"][pair]:
        g.pairs["q_lower"][pair] = bound


def node_bound(
    g: Outcomes | Graph, node: int, upper: bool, rules: SweepRules
) -> float:
    """The upper (or lower) bound on V that those of the node's pairs give."""
    nodes, pairs, q, w = g.nodes, g.pairs, rules.q, rules.w
    num_actions, sign = nodes["size"][node], nodes["sign"][node]
    pair = nodes["first"][node]
    for a in range(num_actions):
        q[a] = sign * (pairs["q_upper"][pair] if upper else pairs["q_lower"][pair])
        w[a] = rules.priors[pairs["action"][pair]]
        pair += 1
    value = sign * builtin_value(
        rules.operator, q[:num_actions], w[:num_actions], rules.temperature
    )
    rounding = value_rounding(num_actions, rules.bound.scale, rules.temperature)
    return float(value + rounding if upper else value - rounding)


def close_bound(g: Outcomes, node: int, upper: bool, rules: SweepRules) -> float:
    """Bring the bound of a node to those of its pairs; return by how much it closed."""
    nodes, value = g.nodes, node_bound(g, node, upper, rules)
    if upper:
        closed = nodes["upper"][node] - value
        if closed > 0.0:
            nodes["upper"][node] = value
    else:
        closed = value - nodes["lower"][node]
        if closed > 0.0:
            nodes["lower"][node] = value
    return float(max(0.0, closed))


def has_crossed_pairs(g: Graph, node: int) -> bool:
    """Whether the bounds of a pair of the node exclude each other."""
    first_pair = g.nodes["first"][node]
    for p in range(first_pair, first_pair + g.nodes["size"][node]):
        if g.pairs["q_lower"][p] > g.pairs["q_upper"][p]:
            return True
    return False


def backup_side(
    g: Outcomes, node: int, upper: bool, tune: int, rules: SweepRules
) -> float:
    """Bring the upper (or lower) bounds of a node up to date.

    Returns by how much the bound on its value closed.
    """
    nodes, totals = g.nodes, g.pairs["total"]
    first_pair = nodes["first"][node]
    for p in range(first_pair, first_pair + nodes["size"][node]):
        if totals[p] > 0.0:
            update_pair(g, p, upper, tune, rules)
    return close_bound(g, node, upper, rules)


def is_stale(g: Graph, node: int, tune: int) -> bool:
    """Whether the bounds of a node can be others than they are."""
    stale, starts, lengths = g.nodes["stale"], g.pairs["start"], g.pairs["length"]
    targets = g.entries.target
    if tune == SCAN or stale[node] & SAMPLED:
        return True
    if tune == WALK and stale[node] & KEPT:
        return True
    first_pair = g.nodes["first"][node]
    for p in range(first_pair, first_pair + g.nodes["size"][node]):
        start = starts[p]
        for e in range(start, start + lengths[p]):
            if stale[targets[e]] & MOVED:
                return True
    return False


def sweep(g: Graph, order: Ints, count: int, tune: int, rules: SweepRules) -> float:
    """Pass once over the listed nodes, last met first, and return how much they closed.

    The sum is weighted by visits; ``order[0]`` is the requested node. Rounding may
    leave visits just below 0, which count as none, so the sum is not negative. Where
    the bounds of a node or of one of its pairs exclude each other, the pass ends with
    -1 minus the node's number.
    """
    nodes, total_closed = g.nodes, 0.0
    outcomes = Outcomes(nodes, g.pairs, g.entries)
    for i in range(count - 1, -1, -1):
        node = order[i]
        if not is_stale(g, node, tune):
            nodes["stale"][node] &= KEPT
            continue
        closed = 0.0
        for side in range(2):
            closed += backup_side(outcomes, node, side == 0, tune, rules)
        nodes["stale"][node] = (MOVED if closed > 0.0 else 0) | (
            KEPT if tune == KEEP else 0
        )
        if nodes["lower"][node] > nodes["upper"][node] or has_crossed_pairs(g, node):
            return float(-1 - node)
        visits = nodes["mass"][node] + (1.0 if i == 0 else 0.0)
        total_closed += max(0.0, visits) * closed
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
    g: Outcomes, pair: int, upper: bool, rules: BoundRules, weights: Floats
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
    outcomes = Outcomes(g.nodes, g.pairs, g.entries)
    for i in range(count):
        node = order[i]
        first_pair = g.nodes["first"][node]
        for p in range(first_pair, first_pair + g.nodes["size"][node]):
            known_bound = g.pairs["q_upper"][p] if upper else g.pairs["q_lower"][p]
            lines.const[p] = known_bound
            if g.pairs["total"][p] == 0.0:
                continue
            if plain or g.pairs["cost"][p] == 0.0:
                frequencies(outcomes, p, upper, rules.bound, lines.weight)
                bound = sample_mean(outcomes, p, upper, rules.bound)
            else:
                TILT(outcomes, p, upper, rules.bound, lines.weight)
                bound = BOUND(outcomes, p, upper, EVERY, rules.bound)
            is_decided = bound >= known_bound if upper else bound <= known_bound
            own_weight = 0.0
            start = g.pairs["start"][p]
            for e in range(start, start + g.pairs["length"][p]):
                next_node = g.entries.target[e]
                value = (
                    g.nodes["upper"][next_node]
                    if upper
                    else g.nodes["lower"][next_node]
                )
                bound -= lines.weight[e] * value
                lines.target[e] = g.entries.target[e]
                if lines.target[e] == order[i]:
                    own_weight += lines.weight[e]
                    lines.weight[e] = 0.0
            is_decided = is_decided and not plain
            scale = (
                0.0 if is_decided or own_weight > STAYS else 1.0 / (1.0 - own_weight)
            )
            if not is_decided:
                lines.const[p] = bound * scale
            for e in range(start, start + g.pairs["length"][p]):
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
            node = order[i]
            best_value = -math.inf
            first_pair = g.nodes["first"][node]
            for p in range(first_pair, first_pair + g.nodes["size"][node]):
                line_value = lines.const[p]
                start = g.pairs["start"][p]
                for e in range(start, start + g.pairs["length"][p]):
                    line_value += lines.weight[e] * value[lines.target[e]]
                if upper:
                    line_value = min(line_value, g.pairs["q_upper"][p])
                else:
                    line_value = max(line_value, g.pairs["q_lower"][p])
                best_value = max(best_value, g.nodes["sign"][node] * line_value)
            best_value *= g.nodes["sign"][node]
            largest_move = max(largest_move, abs(best_value - value[order[i]]))
            value[order[i]] = best_value
        if largest_move <= still:
            return pass_number + 1
    return passes
