"""How much each pair's samples move the counted model's value, compiled.

The usual standard error of v(root) is that of the delta method: with m(s) the discounted
visits of s under the model's own policy pi = grad F(q),

    variance = sum over pairs of (m(s) pi(a | s) sigma(s, a))**2 / n(s, a),

sigma the deviation of r + gamma v(z) within the pair's samples. With a horizon one pair
serves many layers; their deviations are added before they are squared, as if they were
wholly correlated, which is on the safe side. The excess of choosing the best of noisy
action values at a node (``choice_kernel``) is no deviation and cancels over no nodes:
the sum of m(s) times it, for both players alike, is ``excess``.

It is no bound: it leaves out outcomes that were never sampled. So visits of nodes that
have an action without samples are counted apart (``lost``): such an action is only
guessed to be no better than the others.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from smoothcruiser.certified.choice_kernel import choice_excess
from smoothcruiser.certified.counted_kernel import (
    Guesses,
    forget_layer,
    mark_layer,
    node_means,
    stage_means,
)
from smoothcruiser.certified.graph import Graph, Layers
from smoothcruiser.certified.layers_kernel import Steps, is_usable
from smoothcruiser.certified.sweeps_kernel import SweepRules, write_policy
from smoothcruiser.problem.tabular import Floats, Ints

LATE = 0.03  # of all visits: the part that may be left out


class Influence(NamedTuple):
    """Visits, and the samples' deviations weighted by them."""

    mass: Floats  # (N,) or (S,): visits
    residual: Floats  # (N,): visits not yet passed on
    policy: Floats  # (P,)
    weight: Floats  # (P,): m pi
    spread: Floats  # (P,): m pi sigma
    lost: Floats  # (1,): visits of nodes with an action that was never sampled
    noise: Floats  # (K,): usual errors of a node's action values
    excess: Floats  # (1,): added to the value by choosing among noisy action values


def face_mover(g: Graph, i: int, rules: Any) -> None:
    """Turn the action values in ``rules.q`` to the mover's side, with its priors."""
    node = g.nodes[i]
    for a in range(node["size"]):
        rules.w[a] = rules.priors[g.pairs[node["first"] + a]["action"]]
        rules.q[a] *= node["sign"]


def set_shares(g: Graph, i: int, sampled: int, policy: Floats, rules: Any) -> None:
    """Write the policy at the action values in ``rules.q``, which face the mover then."""
    node = g.nodes[i]
    size, first_pair = node["size"], node["first"]
    face_mover(g, i, rules)
    if sampled == 0:
        for a in range(size):
            policy[first_pair + a] = 0.0
        return
    write_policy(size, rules, policy[first_pair : first_pair + size])


def add_spread(
    influence: Influence, p: int, flow: float, pair: Any, first: float, second: float
) -> float:
    """Add a pair's deviation, from the sums of x and of x**2 over its samples.

    Returns the usual error of its action value.
    """
    mean = first / pair["total"]
    if flow > 0.0:
        influence.weight[p] += flow
    if pair["cost"] == 0.0 or pair["total"] <= 1.5:
        return 0.0
    square = max(0.0, second / pair["total"] - mean * mean)
    deviation = math.sqrt(square * pair["total"] / (pair["total"] - 1.0))
    if flow > 0.0:
        influence.spread[p] += flow * deviation
    return deviation / math.sqrt(pair["total"])


def spread_nodes(
    g: Graph,
    order: Ints,
    count: int,
    passes: int,
    guesses: Guesses,
    influence: Influence,
    rules: SweepRules,
) -> None:
    """Write weights and spreads of all pairs of listed nodes; all is 0 before."""
    discount, mass, residual = rules.bound.discount, influence.mass, influence.residual
    for k in range(count):
        num_sampled = node_means(g, order[k], guesses, rules)
        set_shares(g, order[k], num_sampled, influence.policy, rules)
    residual[order[0]] = 1.0
    total_visits = 0.0
    for _ in range(passes):
        for k in range(count):
            i = order[k]
            flow, node = residual[i], g.nodes[i]
            if flow <= 0.0:
                continue
            residual[i] = 0.0
            mass[i] += flow
            total_visits += flow
            for p in range(node["first"], node["first"] + node["size"]):
                pair = g.pairs[p]
                if pair["total"] == 0.0 or influence.policy[p] == 0.0:
                    continue
                flow_share = flow * discount * influence.policy[p] / pair["total"]
                for e in range(pair["start"], pair["start"] + pair["length"]):
                    target = g.entries[e]["target"]
                    if g.nodes[target]["size"] > 0:
                        residual[target] += flow_share * g.entries[e]["weight"]
        mass_left = 0.0
        for k in range(count):
            mass_left += residual[order[k]]
        if mass_left <= LATE * max(1.0 - discount, 1e-3) * total_visits:
            break
    for k in range(count):
        i, has_unsampled = order[k], False
        node = g.nodes[i]
        if mass[i] <= 0.0:
            continue
        for p in range(node["first"], node["first"] + node["size"]):
            pair = g.pairs[p]
            influence.noise[p - node["first"]] = 0.0
            if pair["total"] == 0.0:
                has_unsampled = True
                continue
            flow = mass[i] * influence.policy[p]
            value_sum, square_sum = 0.0, 0.0
            for e in range(pair["start"], pair["start"] + pair["length"]):
                entry = g.entries[e]
                next_value = guesses.value[entry["target"]]
                if math.isnan(next_value):
                    next_value = guesses.frontier[0]
                outcome_value = entry["reward"] + discount * next_value
                value_sum += entry["weight"] * outcome_value
                square_sum += entry["weight"] * outcome_value * outcome_value
            usual_error = add_spread(influence, p, flow, pair, value_sum, square_sum)
            influence.noise[p - node["first"]] = usual_error
        if has_unsampled:
            influence.lost[0] += mass[i]
        if node_means(g, i, guesses, rules) > 0:
            face_mover(g, i, rules)
            choice_added = choice_excess(influence.noise, node["size"], rules)
            influence.excess[0] += mass[i] * choice_added


def spread_layers(
    g: Graph,
    layers: Layers,
    root: int,
    guesses: Guesses,
    influence: Influence,
    steps: Steps,
    rules: SweepRules,
) -> None:
    """Write weights and spreads of all pairs that stage ``root`` of layer 0 leads to."""
    mass, discount = influence.mass, rules.bound.discount
    deepest = len(layers.counts) - 1
    mass[root] = 1.0
    for d in range(deepest + 1):
        is_rim = d == deepest and d + 1 < steps.horizon
        mark_layer(layers, d + 1, steps)
        for k in range(layers.starts[d], layers.starts[d + 1]):
            if mass[k] <= 0.0:
                continue
            i = layers.stages[k]["node"]
            num_sampled, node = 0, g.nodes[i]
            if not is_rim:
                num_sampled = stage_means(g, i, d, guesses, steps, rules)
            if num_sampled < node["size"]:
                influence.lost[0] += mass[k]
            if num_sampled == 0:
                continue
            set_shares(g, i, num_sampled, influence.policy, rules)
            for p in range(node["first"], node["first"] + node["size"]):
                flow, pair = mass[k] * influence.policy[p], g.pairs[p]
                influence.noise[p - node["first"]] = 0.0
                if not is_usable(g, p, d, steps):
                    continue
                value_sum, square_sum = 0.0, 0.0
                for e in range(pair["start"], pair["start"] + pair["length"]):
                    entry, next_value = g.entries[e], 0.0
                    place_number = steps.place[entry["target"]]
                    if d + 1 < steps.horizon and place_number > 0:
                        next_value = guesses.value[place_number - 1]
                        entry_share = entry["weight"] / pair["total"]
                        mass[place_number - 1] += flow * discount * entry_share
                    outcome_value = entry["reward"] + discount * next_value
                    value_sum += entry["weight"] * outcome_value
                    square_sum += entry["weight"] * outcome_value * outcome_value
                usual_error = add_spread(
                    influence, p, flow, pair, value_sum, square_sum
                )
                influence.noise[p - node["first"]] = usual_error
            choice_added = choice_excess(influence.noise, node["size"], rules)
            influence.excess[0] += mass[k] * choice_added
        forget_layer(layers, d + 1, steps)
