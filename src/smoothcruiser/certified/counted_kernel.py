"""The counted model's values over the seen graph, compiled.

The counted model takes the frequencies of a pair's outcomes for their probabilities and
its mean reward for its reward; a known row is exact. Its values solve

    q(s, a) = mean of r + gamma v(z) over the samples,      v(s) = F(q(s, .)),

each kept within the promised bounds, which can only bring it nearer to the truth.
Actions and nodes without samples have to be guessed:

- an action without samples is worth the mean of the node's sampled ones, so it never
  beats the best of these;
- a node without samples, or of which no query has solved (NaN), is worth the frontier
  value, the mean over all sampled nodes (with a horizon: of the same layer). Where the
  user bounds V state by state it is worth the middle of those bounds.

Passes are Gauss-Seidel, last met first, as those of the bounds. With a discount each is
followed by the one shift of all old values after which the changes would sum to 0
(aggregation to a single state): where all values drift together at rate gamma, that
does the work of 1/(1 - gamma) passes. Where the best actions change, shifts may lead
around in a circle: after ``MOST_FAILURES`` passes that changed more than the one before
there are no more of them. At discount 1 nothing is shifted: above the least fixed point
values could rest on a loop that pays nothing.

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

MOST_FAILURES = 3


class Guesses(NamedTuple):
    """The values of the counted model."""

    value: Floats  # (N,) by node, or (S,) by stage; NaN where there is none yet
    slope: Floats  # (N,): how the values of a pass move with those before it
    # (1,), or (D + 2,) by layer: the value of a node without samples
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


def frontier_value(node: Any, frontier: float, claimed: bool) -> float:
    """The value of a node without samples."""
    value = 0.5 * (node["lower"] + node["upper"]) if claimed else frontier
    return inside(value, node["lower"], node["upper"])


def pair_mean(
    nodes: Any,
    entries: Any,
    pair: Any,
    value: Floats,
    frontier: float,
    claimed: bool,
    discount: float,
) -> float:
    """The mean of r + gamma v(z) over a pair's samples."""
    weighted_sum = 0.0
    for e in range(pair["start"], pair["start"] + pair["length"]):
        entry = entries[e]
        next_value = value[entry["target"]]
        if math.isnan(next_value):
            next_value = frontier_value(nodes[entry["target"]], frontier, claimed)
        weighted_sum += entry["weight"] * (entry["reward"] + discount * next_value)
    return float(weighted_sum / pair["total"])


def node_means(g: Graph, i: int, guesses: Guesses, rules: SweepRules) -> int:
    """Write the action values of a node to ``rules.q``; return how many are sampled."""
    nodes, pairs, entries = g.nodes, g.pairs, g.entries
    value, q, discount = guesses.value, rules.q, rules.bound.discount
    frontier, claimed = guesses.frontier[0], guesses.claimed
    first_pair, size = nodes[i]["first"], nodes[i]["size"]
    num_sampled, q_sum = 0, 0.0
    for a in range(size):
        pair = pairs[first_pair + a]
        q[a] = math.nan
        if pair["total"] > 0.0:
            mean = pair_mean(nodes, entries, pair, value, frontier, claimed, discount)
            q[a] = inside(mean, pair["q_lower"], pair["q_upper"])
            num_sampled += 1
            q_sum += q[a]
    fill_unsampled(size, num_sampled, q_sum, q)
    return num_sampled


def best_slope(g: Graph, i: int, slope: Floats, rules: SweepRules) -> float:
    """The change of the node's value per unit of shift that it has not yet seen."""
    pairs, entries, node = g.pairs, g.entries, g.nodes[i]
    best_action, best_q = -1, -math.inf
    for a in range(node["size"]):
        q = node["sign"] * rules.q[a]
        if pairs[node["first"] + a]["total"] > 0.0 and q > best_q:
            best_action, best_q = a, q
    pair, weighted_slope = pairs[node["first"] + best_action], 0.0
    for e in range(pair["start"], pair["start"] + pair["length"]):
        weighted_slope += entries[e]["weight"] * slope[entries[e]["target"]]
    return float(rules.bound.discount * weighted_slope / pair["total"])


def pass_nodes(
    g: Graph, order: Ints, count: int, guesses: Guesses, rules: SweepRules
) -> tuple[float, float]:
    """Pass once over the listed nodes.

    Returns the largest change, and the shift of all old values after which the sum of
    the changes would have been 0.
    """
    value, slope = guesses.value, guesses.slope
    slope[:] = 1.0
    slope[0] = 0.0  # the end
    largest_change, drift, rigid = 0.0, 0.0, 0.0
    for k in range(count - 1, -1, -1):
        i = order[k]
        node, value_before = g.nodes[i], value[i]
        new_value = frontier_value(node, guesses.frontier[0], guesses.claimed)
        if math.isnan(value_before):
            value_before = new_value
        if node_means(g, i, guesses, rules) > 0:
            solved_value = close_node(g, i, rules)
            new_value = inside(solved_value, node["lower"], node["upper"])
            slope[i] = (
                best_slope(g, i, slope, rules) if new_value == solved_value else 0.0
            )
            drift += new_value - value_before
            rigid += 1.0 - slope[i]
        value[i] = new_value
        largest_change = max(largest_change, abs(new_value - value_before))
    return largest_change, drift / rigid if rigid > 0.0 else 0.0


def shift_nodes(
    g: Graph, order: Ints, count: int, shift: float, guesses: Guesses
) -> None:
    """Move values as if all of them had been shifted before the pass.

    The frontier value becomes the mean of the sampled nodes.
    """
    value, slope, value_sum, num_sampled = guesses.value, guesses.slope, 0.0, 0
    for k in range(count):
        i = order[k]
        node = g.nodes[i]
        shifted_value = value[i] + shift * slope[i]
        value[i] = inside(shifted_value, node["lower"], node["upper"])
        for p in range(node["first"], node["first"] + node["size"]):
            if g.pairs[p]["total"] > 0.0:
                value_sum += value[i]
                num_sampled += 1
                break
    if num_sampled > 0:
        guesses.frontier[0] = value_sum / num_sampled


def solve_nodes(
    g: Graph,
    order: Ints,
    count: int,
    passes: int,
    still: float,
    guesses: Guesses,
    rules: SweepRules,
) -> int:
    """Pass over the listed nodes until the change still to come is at most ``still``.

    Returns the number of passes, of which there are at most ``passes``.
    """
    discount, change_before, num_failures = rules.bound.discount, math.inf, 0
    for pass_number in range(passes):
        largest_change, shift = pass_nodes(g, order, count, guesses, rules)
        # the shift before this pass did not help
        num_failures += largest_change >= change_before
        change_before = largest_change
        if discount == 1.0:
            change_left = largest_change
        elif num_failures < MOST_FAILURES:
            shift_nodes(g, order, count, shift, guesses)
            change_left = max(largest_change, abs(shift))
        else:  # passes alone always come nearer, by the factor gamma
            change_left = largest_change * discount / (1.0 - discount)
        if change_left <= still:
            return pass_number + 1
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
    num_sampled, q_sum = 0, 0.0
    for a in range(node["size"]):
        pair = g.pairs[node["first"] + a]
        rules.q[a] = math.nan
        if is_usable(g, node["first"] + a, d, steps):
            weighted_sum = 0.0
            for e in range(pair["start"], pair["start"] + pair["length"]):
                entry = g.entries[e]
                next_value = 0.0
                if d + 1 < steps.horizon and g.nodes[entry["target"]]["size"] > 0:
                    place_number = steps.place[entry["target"]]
                    next_value = guesses.frontier[d + 1]
                    if place_number > 0:
                        next_value = guesses.value[place_number - 1]
                weighted_sum += entry["weight"] * (
                    entry["reward"] + discount * next_value
                )
            rules.q[a] = weighted_sum / pair["total"]
            num_sampled += 1
            q_sum += rules.q[a]
    fill_unsampled(node["size"], num_sampled, q_sum, rules.q)
    return num_sampled


def solve_layers(
    g: Graph,
    layers: Layers,
    rate: float,
    guesses: Guesses,
    steps: Steps,
    rules: SweepRules,
) -> None:
    """Pass once from the deepest layer up; the steps beyond it pay ``rate`` each."""
    deepest = len(layers.counts) - 1
    for d in range(deepest + 1, -1, -1):
        steps_left = float(steps.horizon - d)
        guesses.frontier[d] = rate * annuity(rules.bound.discount, steps_left)
        if d > deepest:
            continue
        is_rim = d == deepest and d + 1 < steps.horizon
        first_stage, end_stage = layers.starts[d], layers.starts[d + 1]
        value_sum, num_sampled = 0.0, 0
        mark_layer(layers, d + 1, steps)
        for k in range(first_stage, end_stage):
            stage, actions_sampled = layers.stages[k], 0
            if not is_rim:
                actions_sampled = stage_means(
                    g, stage["node"], d, guesses, steps, rules
                )
            guesses.value[k] = math.nan
            if actions_sampled > 0:
                value = close_node(g, stage["node"], rules)
                value = inside(value, stage["lower"], stage["upper"])
                guesses.value[k] = value
                value_sum += value
                num_sampled += 1
        forget_layer(layers, d + 1, steps)
        if num_sampled > 0:
            guesses.frontier[d] = value_sum / num_sampled
        for k in range(first_stage, end_stage):
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
    num_sampled = stage_means(g, layers.stages[at]["node"], d, guesses, steps, rules)
    forget_layer(layers, d + 1, steps)
    return num_sampled
