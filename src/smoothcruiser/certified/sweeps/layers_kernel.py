"""Bounds by steps left with a horizon, by induction without a discount, compiled.

With a horizon, bounds depend on the number of steps left. A pair has one law, whatever
number of steps is left. So its samples serve all of them, and only the bounds on V
differ: layer d of ``Layers`` holds those of the states that d steps lead to, with H - d
steps left. For one layer, the nodes are made to hold the bounds of the next one
(``load``), and everything else is as in a sweep without a horizon. There are no cycles,
so one pass from the deepest layer up is final.

The order of the passes cannot break a bound.

At discount 1 without a horizon sweeps from above need not come down: where play can go
round for ever, every state keeps the other's bound. With rewards of one sign V is the
least fixed point of the backup T from 0, so any f >= 0 with T f <= f is at least V
(Park's induction). Where the bound of a pair holds for every function at once
(``bounds.law``) or is exact, T f is at most the backup of f by the bounds of the pairs,
which can be computed. ``climb`` looks for such an f from the lower bounds upwards, and
``is_inductive`` is the proof: nothing before it matters. All of it is mirrored where no
reward is above 0.

legend   symbol      public name
  f                  the ``upper`` (or ``lower``) of the listed nodes, for the time being
                     ``known``: the bounds that hold already; V <= f follows from
                     min(T f, known) <= f as well

The proof is in docs/certified.md, section 3b.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from smoothcruiser.certified.bounds.base import EVERY, KEEP, UNIT, Outcomes
from smoothcruiser.certified.graph import Graph, Layers
from smoothcruiser.certified.sweeps.steering_kernel import gain, set_policy
from smoothcruiser.certified.sweeps.sweeps_kernel import (
    BOUND,
    SweepRules,
    exact_side,
    node_bound,
    update_pair,
)
from smoothcruiser.problem.model.tabular import Floats, Ints

V_LOW, V_HIGH, Q_LOW, Q_HIGH = 0, 1, 2, 3  # places in ``Steps.boxes``
CROWDED, CROSSED = -1, -2  # results of a pass; CROSSED - node names the node


class Steps(NamedTuple):
    """Facts about layers before the first sample, and working memory."""

    # (D + 1, 2, 4): for the layers that may be listed and for max and min to move,
    # the bounds on V and on Q that the facts give
    boxes: Any
    horizon: int
    place: Ints  # (N,): 1 + the place of a node's stage in a layer, 0 if it has none
    claims: Any  # (N, 2): the user's bounds on V; (0, 2) without them


def start_stage(g: Graph, stage: Any, d: int, steps: Steps) -> None:
    """Write the bounds that a stage has before the first sample."""
    node = g.nodes[stage["node"]]
    box = steps.boxes[d, 0 if node["sign"] > 0.0 else 1]
    stage["lower"], stage["upper"] = box[V_LOW], box[V_HIGH]
    if len(steps.claims) > 0:
        stage["lower"] = max(box[V_LOW], steps.claims[stage["node"], 0])
        stage["upper"] = min(box[V_HIGH], steps.claims[stage["node"], 1])
    if stage["lower"] > stage["upper"]:
        low, high = stage["upper"], stage["lower"]
        # a claim that is tight to the last digit
        if high - low <= 1e-12 * (abs(low) + abs(high)):
            stage["lower"], stage["upper"] = low, high


def list_layers(g: Graph, old: Layers, new: Layers, order: Ints, steps: Steps) -> int:
    """List the nodes that the requested one, ``order[0]``, leads to, layer by layer.

    ``new`` has as many layers as are wanted. Stages that ``old`` has keep their
    bounds, in reach or not. Returns the number of nodes listed in ``order``, or
    CROWDED where ``new`` has no room.
    """
    num_listed = 1
    deepest = len(new.counts) - 1
    new.starts[0], new.counts[0] = 0, 1
    new.stages[0]["node"] = order[0]
    for d in range(deepest + 1):
        first_stage, num_reached = new.starts[d], new.counts[d]
        for i in range(old.starts[d], old.starts[d + 1]):
            steps.place[old.stages[i]["node"]] = i + 1
        for i in range(first_stage, first_stage + num_reached):
            stage = new.stages[i]
            node = g.nodes[stage["node"]]
            if node["depth"] > d:
                node["depth"] = d
            old_place = steps.place[stage["node"]]
            stage["mass"] = 0.0
            if old_place > 0:
                stage["lower"] = old.stages[old_place - 1]["lower"]
                stage["upper"] = old.stages[old_place - 1]["upper"]
                steps.place[stage["node"]] = 0
            else:
                start_stage(g, stage, d, steps)
        end_stage = first_stage + num_reached
        is_crowded = end_stage + old.starts[d + 1] - old.starts[d] > len(new.stages)
        for i in range(old.starts[d], old.starts[d + 1]):
            node = old.stages[i]["node"]
            if steps.place[node] > 0 and not is_crowded:
                kept_stage = new.stages[end_stage]
                kept_stage["node"], kept_stage["mass"] = node, 0.0
                kept_stage["lower"] = old.stages[i]["lower"]
                kept_stage["upper"] = old.stages[i]["upper"]
                end_stage += 1
            steps.place[node] = 0
        new.starts[d + 1] = end_stage
        if is_crowded:
            return CROWDED
        if d == deepest:
            break
        next_stage = end_stage
        for i in range(first_stage, first_stage + num_reached):
            node = g.nodes[new.stages[i]["node"]]
            for p in range(node["first"], node["first"] + node["size"]):
                pair = g.pairs[p]
                for e in range(pair["start"], pair["start"] + pair["length"]):
                    target = g.entries[e]["target"]
                    if g.nodes[target]["size"] == 0 or steps.place[target] > 0:
                        continue
                    if next_stage >= len(new.stages):
                        is_crowded = True
                        continue
                    steps.place[target] = 1
                    new.stages[next_stage]["node"] = target
                    next_stage += 1
                    if g.nodes[target]["listed"] == 0:
                        g.nodes[target]["listed"] = 1
                        order[num_listed] = target
                        num_listed += 1
        for i in range(end_stage, next_stage):
            steps.place[new.stages[i]["node"]] = 0
        if is_crowded:
            return CROWDED
        new.counts[d + 1] = next_stage - end_stage
    return num_listed


def load(g: Graph, layers: Layers, d: int, steps: Steps) -> None:
    """Make the nodes hold the bounds of layer ``d``, and ``place`` its stages.

    ``unload`` takes back the layer that was loaded before.
    """
    if d == steps.horizon:  # nothing is left: all are worth 0
        for i in range(len(g.nodes)):
            g.nodes[i]["lower"] = 0.0
            g.nodes[i]["upper"] = 0.0
        return
    for i in range(layers.starts[d], layers.starts[d + 1]):
        stage = layers.stages[i]
        node = g.nodes[stage["node"]]
        node["lower"], node["upper"] = stage["lower"], stage["upper"]
        steps.place[stage["node"]] = i + 1


def unload(layers: Layers, d: int, steps: Steps) -> None:
    """Forget the places of a layer."""
    if d < steps.horizon:
        for i in range(layers.starts[d], layers.starts[d + 1]):
            steps.place[layers.stages[i]["node"]] = 0


def is_usable(g: Graph, p: int, d: int, steps: Steps) -> bool:
    """Whether the samples of a pair serve layer ``d``.

    Those for the last step have rewards only.
    """
    is_last = g.nodes[g.pairs[p]["node"]]["last"] == 1
    return bool(g.pairs[p]["total"] > 0.0 and (not is_last or d == steps.horizon - 1))


def open_stage(
    g: Graph, stage: Any, d: int, tune: int, steps: Steps, rules: SweepRules
) -> None:
    """Write the bounds of a stage's pairs, with the next layer loaded."""
    node = g.nodes[stage["node"]]
    box = steps.boxes[d, 0 if node["sign"] > 0.0 else 1]
    node["q_low"], node["q_high"] = box[Q_LOW], box[Q_HIGH]
    outcomes = Outcomes(g.nodes, g.entries)
    for p in range(node["first"], node["first"] + node["size"]):
        pair = g.pairs[p]
        pair["q_lower"], pair["q_upper"] = box[Q_LOW], box[Q_HIGH]
        if is_usable(g, p, d, steps):
            update_pair(outcomes, pair, True, tune, rules)
            update_pair(outcomes, pair, False, tune, rules)


def close_stage(g: Graph, stage: Any, rules: SweepRules) -> bool:
    """Write the bounds of a stage from those of its pairs; whether they are crossed."""
    node = g.nodes[stage["node"]]
    stage["upper"] = min(stage["upper"], node_bound(node, g.pairs, True, rules))
    stage["lower"] = max(stage["lower"], node_bound(node, g.pairs, False, rules))
    is_crossed = stage["lower"] > stage["upper"]
    for p in range(node["first"], node["first"] + node["size"]):
        is_crossed = is_crossed or g.pairs[p]["q_lower"] > g.pairs[p]["q_upper"]
    return bool(is_crossed)


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
            open_stage(g, layers.stages[i], d, tune, steps, rules)
            if close_stage(g, layers.stages[i], rules):
                unload(layers, d + 1, steps)
                return int(CROSSED - layers.stages[i]["node"])
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
                stage = layers.stages[i]
                width_left += stage["mass"] * (stage["upper"] - stage["lower"])
            break
        load(g, layers, d + 1, steps)
        for i in range(layers.starts[d], layers.starts[d] + layers.counts[d]):
            stage = layers.stages[i]
            width = stage["upper"] - stage["lower"]
            if d > 0 and stage["mass"] * width <= least:
                continue
            open_stage(g, stage, d, tune, steps, rules)
            set_policy(g, stage["node"], width, rules)
            node = g.nodes[stage["node"]]
            for a in range(node["size"]):
                p = node["first"] + a
                pair = g.pairs[p]
                flow = source[a] if d == 0 else stage["mass"] * pair["policy"]
                is_usable_pair = is_usable(g, p, d, steps)
                if is_usable_pair or pair["total"] == 0.0:
                    pair["gain"] += flow * gain(node, pair)
                if not is_usable_pair or d + 1 == steps.horizon:
                    continue
                flow_share = flow * rules.bound.discount / pair["total"]
                for e in range(pair["start"], pair["start"] + pair["length"]):
                    place_number = steps.place[g.entries[e]["target"]]
                    if place_number > 0:
                        layers.stages[place_number - 1]["mass"] += (
                            flow_share * g.entries[e]["weight"]
                        )
        unload(layers, d + 1, steps)
    show_stage(g, layers, 0, layers.starts[0], tune, steps, rules)
    return width_left


def leads_on(g: Graph, node: Any, d: int, steps: Steps) -> bool:
    """Whether the layer that is loaded has all that the node's outcomes lead to."""
    for p in range(node["first"], node["first"] + node["size"]):
        pair = g.pairs[p]
        for e in range(pair["start"], pair["start"] + pair["length"]):
            target = g.entries[e]["target"]
            if g.nodes[target]["size"] > 0 and steps.place[target] == 0:
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
    stage = layers.stages[at]
    node = g.nodes[stage["node"]]
    box = steps.boxes[d, 0 if node["sign"] > 0.0 else 1]
    for p in range(node["first"], node["first"] + node["size"]):
        g.pairs[p]["q_lower"], g.pairs[p]["q_upper"] = box[Q_LOW], box[Q_HIGH]
    if d < len(layers.counts) - 1 or d + 1 == steps.horizon:
        load(g, layers, d + 1, steps)
        if leads_on(g, node, d, steps):
            open_stage(g, stage, d, tune, steps, rules)
        unload(layers, d + 1, steps)
    node["lower"], node["upper"] = stage["lower"], stage["upper"]


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
