"""The counted model's values over the seen graph, compiled.

The counted model takes the frequencies of a pair's outcomes for their probabilities and
its mean reward for its reward; a known row is exact. Its values solve

    q(s, a) = mean of r + gamma v(z) over the samples,      v(s) = F(q(s, .)),

each kept within the promised bounds, which can only bring it nearer to the truth. What
was never sampled has to be guessed:

- an action without samples is worth the mean of the node's sampled ones, so it never
  beats the best of these;
- a node without samples, or of which no query has solved (NaN), is worth the frontier
  value, the mean over all sampled nodes (with a horizon: of the same layer). Where the
  user bounds V state by state it is worth the middle of those bounds.

Passes are Gauss-Seidel, last met first, as those of the bounds. With a discount every
``JUMP`` passes the last change is carried on as the geometric series that it has become
(Aitken): where all values drift together at rate gamma, one jump does the work of
1/(1 - gamma) passes. At discount 1 nothing jumps: above the least fixed point values
could rest on a loop that pays nothing.

Nothing here is a bound.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from smoothcruiser.certified.graph import Graph, Layers
from smoothcruiser.certified.layers_kernel import Steps, is_usable, unload
from smoothcruiser.certified.sweeps_kernel import SweepRules
from smoothcruiser.operators.dispatch import builtin_value
from smoothcruiser.problem.tabular import Floats, Ints

JUMP = 6  # passes between two jumps: after fewer the change is no geometric series


class Guesses(NamedTuple):
    """The values of the counted model."""

    value: Floats  # (N,) by node, or (S,) by stage; NaN where there is none yet
    change: Floats  # of the last pass, by node
    # (1,), or (D + 2,) by layer: what is worth a node without samples
    frontier: Floats
    claimed: bool  # whether the user bounds V state by state


def inside(value: float, low: float, high: float) -> float:
    """The point of [low, high] that is nearest."""
    return min(max(value, low), high)


def fill_unsampled(size: int, sampled: int, total: float, q: Any) -> None:
    """Give actions without samples (NaN) the mean of the others."""
    if 0 < sampled < size:
        for a in range(size):
            if math.isnan(q[a]):
                q[a] = total / sampled


def close_node(g: Graph, i: int, rules: SweepRules) -> float:
    """F of the action values in ``rules.q``."""
    node = g.nodes[i]
    size, sign = node["size"], node["sign"]
    for a in range(size):
        rules.out[a] = sign * rules.q[a]
        rules.w[a] = rules.priors[g.pairs[node["first"] + a]["action"]]
    value = builtin_value(
        rules.operator, rules.out[:size], rules.w[:size], rules.temperature
    )
    return float(sign * value)


def frontier_value(node: Any, guesses: Guesses) -> float:
    """The value of a node without samples."""
    value = guesses.frontier[0]
    if guesses.claimed:
        value = 0.5 * (node["lower"] + node["upper"])
    return inside(value, node["lower"], node["upper"])


def value_after(g: Graph, target: int, guesses: Guesses) -> float:
    """The value of a next state."""
    value = guesses.value[target]
    if math.isnan(value):
        value = frontier_value(g.nodes[target], guesses)
    return float(value)


def node_means(g: Graph, i: int, guesses: Guesses, rules: SweepRules) -> int:
    """Write the action values of a node to ``rules.q``; return how many are sampled."""
    node, discount = g.nodes[i], rules.bound.discount
    sampled, total = 0, 0.0
    for a in range(node["size"]):
        pair = g.pairs[node["first"] + a]
        rules.q[a] = math.nan
        if pair["total"] > 0.0:
            found = 0.0
            for e in range(pair["start"], pair["start"] + pair["length"]):
                entry = g.entries[e]
                after = value_after(g, entry["target"], guesses)
                found += entry["weight"] * (entry["reward"] + discount * after)
            q = inside(found / pair["total"], pair["q_lower"], pair["q_upper"])
            rules.q[a] = q
            sampled += 1
            total += q
    fill_unsampled(node["size"], sampled, total, rules.q)
    return sampled


def node_value(g: Graph, i: int, sampled: int, guesses: Guesses, rules: Any) -> float:
    """The value of a node whose action values are in ``rules.q``."""
    node = g.nodes[i]
    if sampled == 0:
        return frontier_value(node, guesses)
    return inside(close_node(g, i, rules), node["lower"], node["upper"])


def solve_nodes(
    g: Graph,
    order: Ints,
    count: int,
    passes: int,
    still: float,
    guesses: Guesses,
    rules: SweepRules,
) -> int:
    """Pass over the listed nodes until what is still to come is at most ``still``.

    Returns the number of passes, of which there are at most ``passes``.
    """
    discount, before = rules.bound.discount, 0.0
    value, change = guesses.value, guesses.change
    for turn in range(passes):
        moved, total, num_sampled = 0.0, 0.0, 0
        for k in range(count - 1, -1, -1):
            i = order[k]
            sampled = node_means(g, i, guesses, rules)
            fresh = node_value(g, i, sampled, guesses, rules)
            change[i] = fresh - value_after(g, i, guesses)
            value[i] = fresh
            moved = max(moved, abs(change[i]))
            if sampled > 0:
                total += fresh
                num_sampled += 1
        rested = moved <= still
        ratio = discount
        if before > 0.0:
            ratio = min(discount, moved / before)
        if ratio < 1.0:
            rested = moved * ratio <= still * (1.0 - ratio)
        if rested and turn > 0:
            return turn + 1
        if discount < 1.0 and num_sampled > 0:
            guesses.frontier[0] = total / num_sampled
        before = moved
        if discount < 1.0 and turn % JUMP == JUMP - 1:
            for k in range(count):
                i = order[k]
                node, far = g.nodes[i], change[i] * ratio / (1.0 - ratio)
                value[i] = inside(value[i] + far, node["lower"], node["upper"])
            before = 0.0
    return passes


def show_nodes(
    g: Graph, count: int, guesses: Guesses, q: Floats, sampled: Ints, rules: SweepRules
) -> None:
    """Write the action values of the first ``count`` nodes, by pair."""
    for i in range(1, count):
        sampled[i] = node_means(g, i, guesses, rules)
        for a in range(g.nodes[i]["size"]):
            q[g.nodes[i]["first"] + a] = rules.q[a]


def annuity(discount: float, steps: float) -> float:
    """The sum of discount**k over k < steps."""
    if discount == 1.0:
        return steps
    return float((1.0 - discount**steps) / (1.0 - discount))


def mark_layer(layers: Layers, d: int, steps: Steps) -> None:
    """Write the places of a layer's stages, which ``unload`` takes back."""
    if d < steps.horizon and d < len(layers.counts):
        for i in range(layers.starts[d], layers.starts[d + 1]):
            steps.place[layers.stages[i]["node"]] = i + 1


def forget_layer(layers: Layers, d: int, steps: Steps) -> None:
    """Take the places of a layer back."""
    if d < len(layers.counts):
        unload(layers, d, steps)


def stage_means(
    g: Graph, i: int, d: int, guesses: Guesses, steps: Steps, rules: SweepRules
) -> int:
    """Write the action values of node i in layer d, with the next layer marked."""
    node, discount = g.nodes[i], rules.bound.discount
    sampled, total = 0, 0.0
    for a in range(node["size"]):
        pair = g.pairs[node["first"] + a]
        rules.q[a] = math.nan
        if is_usable(g, node["first"] + a, d, steps):
            found = 0.0
            for e in range(pair["start"], pair["start"] + pair["length"]):
                entry = g.entries[e]
                after = 0.0
                if d + 1 < steps.horizon and g.nodes[entry["target"]]["size"] > 0:
                    at = steps.place[entry["target"]]
                    after = guesses.frontier[d + 1]
                    if at > 0:
                        after = guesses.value[at - 1]
                found += entry["weight"] * (entry["reward"] + discount * after)
            rules.q[a] = found / pair["total"]
            sampled += 1
            total += rules.q[a]
    fill_unsampled(node["size"], sampled, total, rules.q)
    return sampled


def solve_layers(
    g: Graph,
    layers: Layers,
    rate: float,
    guesses: Guesses,
    steps: Steps,
    rules: SweepRules,
) -> None:
    """Pass once from the deepest layer up; what lies beyond it pays ``rate`` per step."""
    deepest = len(layers.counts) - 1
    for d in range(deepest + 1, -1, -1):
        left = float(steps.horizon - d)
        guesses.frontier[d] = rate * annuity(rules.bound.discount, left)
        if d > deepest:
            continue
        rim = d == deepest and d + 1 < steps.horizon
        begin, end = layers.starts[d], layers.starts[d + 1]
        total, num_sampled = 0.0, 0
        mark_layer(layers, d + 1, steps)
        for k in range(begin, end):
            stage, sampled = layers.stages[k], 0
            if not rim:
                sampled = stage_means(g, stage["node"], d, guesses, steps, rules)
            guesses.value[k] = math.nan
            if sampled > 0:
                value = close_node(g, stage["node"], rules)
                value = inside(value, stage["lower"], stage["upper"])
                guesses.value[k] = value
                total += value
                num_sampled += 1
        forget_layer(layers, d + 1, steps)
        if num_sampled > 0:
            guesses.frontier[d] = total / num_sampled
        for k in range(begin, end):
            stage = layers.stages[k]
            if math.isnan(guesses.value[k]):
                value = guesses.frontier[d]
                if guesses.claimed:
                    value = 0.5 * (stage["lower"] + stage["upper"])
                guesses.value[k] = inside(value, stage["lower"], stage["upper"])


def show_means(
    g: Graph,
    layers: Layers,
    d: int,
    at: int,
    guesses: Guesses,
    steps: Steps,
    rules: SweepRules,
) -> int:
    """Write the action values of stage ``at`` of layer d; return how many are sampled."""
    if d + 1 < steps.horizon and d == len(layers.counts) - 1:
        return 0
    mark_layer(layers, d + 1, steps)
    sampled = stage_means(g, layers.stages[at]["node"], d, guesses, steps, rules)
    forget_layer(layers, d + 1, steps)
    return sampled
