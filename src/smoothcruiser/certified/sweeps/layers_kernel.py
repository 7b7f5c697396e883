"""Bounds by steps left with a horizon, by induction without a discount, compiled.

With a horizon, bounds depend on the number of steps left. A pair has one law,
whatever number of steps is left. So its samples serve all of them, and only the
bounds on V differ: layer d of ``Layers`` holds those of the states that d steps
lead to, with H - d steps left. For one layer, the nodes are made to hold the
bounds of the next one (``load``), and everything else is as in a sweep without
a horizon. There are no cycles, so one pass from the deepest layer up is final.

The order of the passes cannot break a bound.

At discount 1 without a horizon sweeps from above need not come down: where play
can go round for ever, every state keeps the other's bound. With rewards of one
sign V is the least fixed point of the backup T from 0, so any f >= 0 with T f
<= f is at least V (Park's induction). Where the bound of a pair holds for every
function at once (``bounds.law``) or is exact, T f is at most the backup of f by
the bounds of the pairs, which can be computed. ``climb`` looks for such an f
from the lower bounds upwards, and ``is_inductive`` is the proof: nothing before
it matters. All of it is mirrored where no reward is above 0.

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
from smoothcruiser.certified.graph import Graph, Layers, Steps
from smoothcruiser.certified.sweeps.steering_kernel import pair_gain, set_policy
from smoothcruiser.certified.sweeps.sweeps_kernel import (
    BOUND,
    SweepRules,
    close_bound,
    exact_side,
    has_crossed_pairs,
    node_bound,
    update_pair,
)
from smoothcruiser.problem.model.tabular import Floats, Ints

V_LOW, V_HIGH, Q_LOW, Q_HIGH = 0, 1, 2, 3  # places in ``Steps.boxes``
CROWDED, CROSSED = -1, -2  # results of a pass; CROSSED - node names the node


def start_stage(g: Graph, stages: Any, stage: int, d: int, steps: Steps) -> None:
    """Write the bounds that a stage has before the first sample."""
    node, lowers, uppers = stages["node"][stage], stages["lower"], stages["upper"]
    player = 0 if g.nodes["sign"][node] > 0.0 else 1
    low, high = steps.boxes[d, player, V_LOW], steps.boxes[d, player, V_HIGH]
    if len(steps.claims) > 0:
        low = max(low, steps.claims[node, 0])
        high = min(high, steps.claims[node, 1])
    # a claim that is tight to the last digit
    if low > high and low - high <= 1e-12 * (abs(low) + abs(high)):
        low, high = high, low
    lowers[stage], uppers[stage] = low, high


def list_layers(g: Graph, old: Layers, new: Layers, order: Ints, steps: Steps) -> int:
    """List the nodes that the requested one, ``order[0]``, leads to, layer by layer.

    ``new`` has as many layers as are wanted. Stages that ``old`` has keep their
    bounds, in reach or not. Returns the number of nodes listed in ``order``, or
    CROWDED where ``new`` has no room.
    """
    num_listed = 1
    deepest = len(new.counts) - 1
    new.starts[0], new.counts[0] = 0, 1
    new.stages["node"][0] = order[0]
    for d in range(deepest + 1):
        first_stage, num_reached = new.starts[d], new.counts[d]
        for i in range(old.starts[d], old.starts[d + 1]):
            steps.place[old.stages["node"][i]] = i + 1
        for i in range(first_stage, first_stage + num_reached):
            node = new.stages["node"][i]
            if g.nodes["depth"][node] > d:
                g.nodes["depth"][node] = d
            old_place = steps.place[new.stages["node"][i]]
            new.stages["mass"][i] = 0.0
            if old_place > 0:
                new.stages["lower"][i] = old.stages["lower"][old_place - 1]
                new.stages["upper"][i] = old.stages["upper"][old_place - 1]
                steps.place[new.stages["node"][i]] = 0
            else:
                start_stage(g, new.stages, i, d, steps)
        end_stage = first_stage + num_reached
        is_crowded = end_stage + old.starts[d + 1] - old.starts[d] > len(
            new.stages["node"]
        )
        for i in range(old.starts[d], old.starts[d + 1]):
            node = old.stages["node"][i]
            if steps.place[node] > 0 and not is_crowded:
                new.stages["node"][end_stage] = node
                new.stages["mass"][end_stage] = 0.0
                new.stages["lower"][end_stage] = old.stages["lower"][i]
                new.stages["upper"][end_stage] = old.stages["upper"][i]
                end_stage += 1
            steps.place[node] = 0
        new.starts[d + 1] = end_stage
        if is_crowded:
            return CROWDED
        if d == deepest:
            break
        next_stage = end_stage
        for i in range(first_stage, first_stage + num_reached):
            node = new.stages["node"][i]
            first_pair = g.nodes["first"][node]
            for p in range(first_pair, first_pair + g.nodes["size"][node]):
                start = g.pairs["start"][p]
                for e in range(start, start + g.pairs["length"][p]):
                    target = g.entries.target[e]
                    if g.nodes["size"][target] == 0 or steps.place[target] > 0:
                        continue
                    if next_stage >= len(new.stages["node"]):
                        is_crowded = True
                        continue
                    steps.place[target] = 1
                    new.stages["node"][next_stage] = target
                    next_stage += 1
                    if g.nodes["listed"][target] == 0:
                        g.nodes["listed"][target] = 1
                        order[num_listed] = target
                        num_listed += 1
        for i in range(end_stage, next_stage):
            steps.place[new.stages["node"][i]] = 0
        if is_crowded:
            return CROWDED
        new.counts[d + 1] = next_stage - end_stage
    return num_listed


def load(g: Graph, layers: Layers, d: int, steps: Steps) -> None:
    """Make the nodes hold the bounds of layer ``d``, and ``place`` its stages.

    ``unload`` takes back the layer that was loaded before.
    """
    if d == steps.horizon:  # nothing is left: all are worth 0
        for i in range(len(g.nodes["size"])):
            g.nodes["lower"][i] = 0.0
            g.nodes["upper"][i] = 0.0
        return
    for i in range(layers.starts[d], layers.starts[d + 1]):
        node = layers.stages["node"][i]
        g.nodes["lower"][node] = layers.stages["lower"][i]
        g.nodes["upper"][node] = layers.stages["upper"][i]
        steps.place[layers.stages["node"][i]] = i + 1


def unload(layers: Layers, d: int, steps: Steps) -> None:
    """Forget the places of a layer."""
    if d < steps.horizon:
        for i in range(layers.starts[d], layers.starts[d + 1]):
            steps.place[layers.stages["node"][i]] = 0


def is_usable(g: Graph, p: int, d: int, steps: Steps) -> bool:
    """Whether the samples of a pair serve layer ``d``.

    Those for the last step have rewards only.
    """
    is_last = g.nodes["last"][g.pairs["node"][p]] == 1
    return bool(g.pairs["total"][p] > 0.0 and (not is_last or d == steps.horizon - 1))


def open_stage(
    g: Graph,
    stages: Any,
    stage: int,
    d: int,
    tune: int,
    steps: Steps,
    rules: SweepRules,
) -> None:
    """Write the bounds of a stage's pairs, with the next layer loaded."""
    node = stages["node"][stage]
    player = 0 if g.nodes["sign"][node] > 0.0 else 1
    low, high = steps.boxes[d, player, Q_LOW], steps.boxes[d, player, Q_HIGH]
    g.nodes["q_low"][node], g.nodes["q_high"][node] = low, high
    outcomes = Outcomes(g.nodes, g.pairs, g.entries)
    first_pair = g.nodes["first"][node]
    for p in range(first_pair, first_pair + g.nodes["size"][node]):
        g.pairs["q_lower"][p], g.pairs["q_upper"][p] = low, high
        if is_usable(g, p, d, steps):
            update_pair(outcomes, p, True, tune, rules)
            update_pair(outcomes, p, False, tune, rules)


def close_stage(g: Graph, stages: Any, stage: int, rules: SweepRules) -> bool:
    """Write the bounds of a stage from those of its pairs; whether they are crossed."""
    node = stages["node"][stage]
    stages["upper"][stage] = min(
        stages["upper"][stage], node_bound(g, node, True, rules)
    )
    stages["lower"][stage] = max(
        stages["lower"][stage], node_bound(g, node, False, rules)
    )
    is_crossed = stages["lower"][stage] > stages["upper"][stage]
    return bool(is_crossed or has_crossed_pairs(g, node))


def sweep_layers(
    g: Graph, layers: Layers, tune: int, steps: Steps, rules: SweepRules
) -> int:
    """Pass from the deepest layer up to the requested node; CROSSED - node is an error.

    The deepest layer keeps its bounds, unless it has one step left. At the end the
    nodes hold the first layer, and the requested node's pairs their bounds.
    """
    deepest = len(layers.counts) - 1
    if deepest + 1 < steps.horizon:
        deepest -= 1
    for d in range(deepest, -1, -1):
        load(g, layers, d + 1, steps)
        for i in range(layers.starts[d], layers.starts[d] + layers.counts[d]):
            open_stage(g, layers.stages, i, d, tune, steps, rules)
            if close_stage(g, layers.stages, i, rules):
                unload(layers, d + 1, steps)
                return int(CROSSED - layers.stages["node"][i])
        unload(layers, d + 1, steps)
    load(g, layers, 0, steps)
    unload(layers, 0, steps)
    return 0


def flow_layers(
    g: Graph,
    layers: Layers,
    source: Floats,
    least: float,
    tune: int,
    steps: Steps,
    rules: SweepRules,
) -> float:
    """Add to the gains of all pairs; return the width that the deepest layer leaves.

    Gains and masses are 0 before. Visits pass from the requested node, with its actions
    in proportion to ``source``, layer by layer; a stage where visits times width are
    below ``least`` passes none on. The return value is the sum of that product over the
    deepest layer, unless it has one step left.
    """
    deepest = len(layers.counts) - 1
    has_rim = deepest + 1 < steps.horizon
    width_left = 0.0
    for d in range(deepest + 1):
        if has_rim and d == deepest:
            for i in range(layers.starts[d], layers.starts[d] + layers.counts[d]):
                width_left += layers.stages["mass"][i] * (
                    layers.stages["upper"][i] - layers.stages["lower"][i]
                )
            break
        load(g, layers, d + 1, steps)
        for i in range(layers.starts[d], layers.starts[d] + layers.counts[d]):
            width = layers.stages["upper"][i] - layers.stages["lower"][i]
            if d > 0 and layers.stages["mass"][i] * width <= least:
                continue
            open_stage(g, layers.stages, i, d, tune, steps, rules)
            set_policy(g, layers.stages["node"][i], width, rules)
            node = layers.stages["node"][i]
            for a in range(g.nodes["size"][node]):
                p = g.nodes["first"][node] + a
                flow = (
                    source[a]
                    if d == 0
                    else layers.stages["mass"][i] * g.pairs["policy"][p]
                )
                is_usable_pair = is_usable(g, p, d, steps)
                if is_usable_pair or g.pairs["total"][p] == 0.0:
                    g.pairs["gain"][p] += flow * pair_gain(g, node, p, rules.near)
                if not is_usable_pair or d + 1 == steps.horizon:
                    continue
                flow_share = flow * rules.bound.discount / g.pairs["total"][p]
                start = g.pairs["start"][p]
                for e in range(start, start + g.pairs["length"][p]):
                    place_number = steps.place[g.entries.target[e]]
                    if place_number > 0:
                        layers.stages["mass"][place_number - 1] += (
                            flow_share * g.entries.weight[e]
                        )
        unload(layers, d + 1, steps)
    show_stage(g, layers, 0, layers.starts[0], tune, steps, rules)
    return width_left


def leads_on(g: Graph, node: int, d: int, steps: Steps) -> bool:
    """Whether the layer that is loaded has all that the node's outcomes lead to."""
    first_pair = g.nodes["first"][node]
    for p in range(first_pair, first_pair + g.nodes["size"][node]):
        start = g.pairs["start"][p]
        for e in range(start, start + g.pairs["length"][p]):
            target = g.entries.target[e]
            if g.nodes["size"][target] > 0 and steps.place[target] == 0:
                return d + 1 == steps.horizon
    return True


def show_stage(
    g: Graph,
    layers: Layers,
    d: int,
    at: int,
    tune: int,
    steps: Steps,
    rules: SweepRules,
) -> None:
    """Make the pairs of a stage hold their bounds, and its node those of V.

    Where the next layer is not there, or lacks a state that was met for another query,
    the pairs have the bounds that the facts give.
    """
    node = layers.stages["node"][at]
    player = 0 if g.nodes["sign"][node] > 0.0 else 1
    low, high = steps.boxes[d, player, Q_LOW], steps.boxes[d, player, Q_HIGH]
    first_pair = g.nodes["first"][node]
    for p in range(first_pair, first_pair + g.nodes["size"][node]):
        g.pairs["q_lower"][p], g.pairs["q_upper"][p] = low, high
    if d < len(layers.counts) - 1 or d + 1 == steps.horizon:
        load(g, layers, d + 1, steps)
        if leads_on(g, node, d, steps):
            open_stage(g, layers.stages, at, d, tune, steps, rules)
        unload(layers, d + 1, steps)
    g.nodes["lower"][node] = layers.stages["lower"][at]
    g.nodes["upper"][node] = layers.stages["upper"][at]


def farthest(seen: Outcomes, pair: int, upper: bool, rules: SweepRules) -> float:
    """The largest (smallest) r + V(z) of the pair's outcomes, rounding included.

    No rounding is needed where no outcome pays.
    """
    farthest_value, any_reward = -math.inf if upper else math.inf, False
    start = seen.pairs["start"][pair]
    for e in range(start, start + seen.pairs["length"][pair]):
        next_node = seen.entries.target[e]
        any_reward = any_reward or seen.entries.reward[e] != 0.0
        value = seen.entries.reward[e] + (
            seen.nodes["upper"][next_node] if upper else seen.nodes["lower"][next_node]
        )
        farthest_value = (
            max(farthest_value, value) if upper else min(farthest_value, value)
        )
    slack = 2.0 * UNIT * rules.bound.scale if any_reward else 0.0
    return float(farthest_value + slack if upper else farthest_value - slack)


def backed_up(g: Graph, i: int, upper: bool, rules: SweepRules) -> float:
    """The backup of f at a node by its pairs' bounds; plain max and min are exact."""
    outcomes = Outcomes(g.nodes, g.pairs, g.entries)
    best_bound = -math.inf
    first_pair = g.nodes["first"][i]
    for p in range(first_pair, first_pair + g.nodes["size"][i]):
        bound = g.pairs["q_upper"][p] if upper else g.pairs["q_lower"][p]
        if g.pairs["total"][p] > 0.0:
            if g.pairs["cost"][p] == 0.0:
                pair_bound = exact_side(outcomes, p, upper, rules.bound)
                farthest_value = farthest(outcomes, p, upper, rules)
                pair_bound = (
                    min(pair_bound, farthest_value)
                    if upper
                    else max(pair_bound, farthest_value)
                )
            else:
                pair_bound = BOUND(outcomes, p, upper, EVERY, rules.bound)
            bound = min(bound, pair_bound) if upper else max(bound, pair_bound)
        best_bound = max(best_bound, g.nodes["sign"][i] * bound)
    return float(g.nodes["sign"][i] * best_bound)


def push(g: Graph, order: Ints, count: int, upper: bool, rules: SweepRules) -> float:
    """Pass once over the listed nodes, updating only the pair that decides their bound.

    That is the pair with the best upper (or lower) bound; the others keep theirs, which
    hold as well. Returns by how much a bound closed at most.
    """
    nodes, pairs, outcomes = g.nodes, g.pairs, Outcomes(g.nodes, g.pairs, g.entries)
    largest_closed = 0.0
    for i in range(count - 1, -1, -1):
        node = order[i]
        best_pair, best_bound = nodes["first"][node], -math.inf
        first_pair = nodes["first"][node]
        for p in range(first_pair, first_pair + nodes["size"][node]):
            bound = pairs["q_upper"][p] if upper else pairs["q_lower"][p]
            if nodes["sign"][node] * bound > best_bound:
                best_pair, best_bound = p, nodes["sign"][node] * bound
        if pairs["total"][best_pair] == 0.0:
            continue
        update_pair(outcomes, best_pair, upper, KEEP, rules)
        largest_closed = max(largest_closed, close_bound(outcomes, node, upper, rules))
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
        node = order[i]
        value = on_grid(backed_up(g, order[i], upper, rules), cell, upper)
        if upper:
            value = min(value, known[i])
            if value > nodes["upper"][node]:
                largest_move = max(largest_move, value - nodes["upper"][node])
                nodes["upper"][node] = value
        else:
            value = max(value, known[i])
            if value < nodes["lower"][node]:
                largest_move = max(largest_move, nodes["lower"][node] - value)
                nodes["lower"][node] = value
    return largest_move


def is_inductive(
    g: Graph, order: Ints, count: int, known: Floats, upper: bool, rules: SweepRules
) -> bool:
    """Whether min(T f, known) <= f and 0 <= f at every listed node (>= below)."""
    for i in range(count):
        node = order[i]
        value = backed_up(g, node, upper, rules)
        if upper and max(0.0, min(value, known[i])) > g.nodes["upper"][node]:
            return False
        if not upper and min(0.0, max(value, known[i])) < g.nodes["lower"][node]:
            return False
    return True
