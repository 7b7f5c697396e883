"""The counted model's values over the seen graph and their usual error, compiled.

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

Excess: how much choosing among noisy action values adds to a node's value. F is convex,
so F of means overestimates: E F(q^) >= F(q), by much where many actions are
nearly as good as the best one (the winner's curse). No deviation of the chosen action
says so. With n(a) the usual error of q^(a), two approximations; the smaller one counts.

- The mean of a maximum of normal variables, by Clark's moments ("The greatest of a finite
  set of random variables", 1961), action after action. The gaps to the best action are
  themselves too wide by noise: E (q^(b) - q^(a))**2 = (q(b) - q(a))**2 + n(a)**2 + n(b)**2.
  So each gap is taken for the root of its square less the noise, or for 0.
- For a smooth operator: half the second differences of F, each action moved by n(a) to
  both sides, which is half the trace of Hessian times covariance where n is small.

Influence: how much each pair's samples move the value. The usual standard error of
v(root) is that of the delta method: with m(s) the discounted visits of s under the
model's own policy pi = grad F(q),

    variance = sum over pairs of (m(s) pi(a | s) sigma(s, a))**2 / n(s, a),

sigma the deviation of r + gamma v(z) within the pair's samples. With a horizon one pair
serves many layers; their deviations are added before they are squared, as if they were
wholly correlated, which is on the safe side. The excess of choosing the best of noisy
action values at a node is no deviation and cancels over no nodes:
the sum of m(s) times it, for both players alike, is ``excess``.

Nothing here is a bound: the error leaves out outcomes that were never sampled. So
visits of nodes that have an action without samples are counted apart (``lost``): such
an action is only guessed to be no better than the others.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from smoothcruiser.certified.graph import Graph, Layers, Steps
from smoothcruiser.certified.sweeps.layers_kernel import is_usable, unload
from smoothcruiser.certified.sweeps.sweeps_kernel import SweepRules, write_policy
from smoothcruiser.operators.dispatch import builtin_value, is_greedy
from smoothcruiser.problem.model.tabular import Floats, Ints

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
    size, sign = g.nodes["size"][i], g.nodes["sign"][i]
    for a in range(size):
        rules.out[a] = sign * rules.q[a]
        rules.w[a] = rules.priors[g.pairs["action"][g.nodes["first"][i] + a]]
    value = builtin_value(
        rules.operator, rules.out[:size], rules.w[:size], rules.temperature
    )
    return float(sign * value)


def frontier_value(nodes: Any, node: int, frontier: float, claimed: bool) -> float:
    """The value of a node without samples."""
    low, high = nodes["lower"][node], nodes["upper"][node]
    return inside(0.5 * (low + high) if claimed else frontier, low, high)


def pair_mean(g: Graph, pair: int, guesses: Guesses, discount: float) -> float:
    """The mean of r + gamma v(z) over a pair's samples."""
    reward, weight, target = g.entries
    value, weighted_sum = guesses.value, 0.0
    start = g.pairs["start"][pair]
    for e in range(start, start + g.pairs["length"][pair]):
        next_value = value[target[e]]
        if math.isnan(next_value):
            next_value = frontier_value(
                g.nodes, target[e], guesses.frontier[0], guesses.claimed
            )
        weighted_sum += weight[e] * (reward[e] + discount * next_value)
    return float(weighted_sum / g.pairs["total"][pair])


def node_means(g: Graph, i: int, guesses: Guesses, rules: SweepRules) -> int:
    """Write the action values of a node to ``rules.q``; return how many are sampled."""
    nodes, pairs, q, discount = g.nodes, g.pairs, rules.q, rules.bound.discount
    pair, size = nodes["first"][i], nodes["size"][i]
    num_sampled, q_sum = 0, 0.0
    for a in range(size):
        q[a] = math.nan
        if pairs["total"][pair] > 0.0:
            mean = pair_mean(g, pair, guesses, discount)
            q[a] = inside(mean, pairs["q_lower"][pair], pairs["q_upper"][pair])
            num_sampled += 1
            q_sum += q[a]
        pair += 1
    fill_unsampled(size, num_sampled, q_sum, q)
    return num_sampled


def best_slope(g: Graph, i: int, slope: Floats, rules: SweepRules) -> float:
    """The change of the node's value per unit of shift that it has not yet seen."""
    pairs, entries = g.pairs, g.entries
    best_action, best_q = -1, -math.inf
    for a in range(g.nodes["size"][i]):
        q = g.nodes["sign"][i] * rules.q[a]
        if pairs["total"][g.nodes["first"][i] + a] > 0.0 and q > best_q:
            best_action, best_q = a, q
    pair, weighted_slope = g.nodes["first"][i] + best_action, 0.0
    start = pairs["start"][pair]
    for e in range(start, start + pairs["length"][pair]):
        weighted_slope += entries.weight[e] * slope[entries.target[e]]
    return float(rules.bound.discount * weighted_slope / pairs["total"][pair])


def pass_nodes(
    g: Graph, order: Ints, count: int, guesses: Guesses, rules: SweepRules
) -> tuple[float, float]:
    """Pass once over the listed nodes.

    Returns the largest change, and the shift of all old values after which the sum of
    the changes would have been 0.
    """
    value, slope = guesses.value, guesses.slope
    for i in range(1, len(slope)):
        slope[i] = 1.0
    slope[0] = 0.0  # the end
    largest_change, drift, rigid = 0.0, 0.0, 0.0
    for k in range(count - 1, -1, -1):
        i = order[k]
        value_before = value[i]
        new_value = frontier_value(g.nodes, i, guesses.frontier[0], guesses.claimed)
        if math.isnan(value_before):
            value_before = new_value
        if node_means(g, i, guesses, rules) > 0:
            solved_value = close_node(g, i, rules)
            new_value = inside(solved_value, g.nodes["lower"][i], g.nodes["upper"][i])
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
        shifted_value = value[i] + shift * slope[i]
        value[i] = inside(shifted_value, g.nodes["lower"][i], g.nodes["upper"][i])
        first_pair = g.nodes["first"][i]
        for p in range(first_pair, first_pair + g.nodes["size"][i]):
            if g.pairs["total"][p] > 0.0:
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
        for a in range(g.nodes["size"][i]):
            q[g.nodes["first"][i] + a] = rules.q[a]


def annuity(discount: float, steps: float) -> float:
    """The sum of discount**k over k < steps."""
    if discount == 1.0:
        return steps
    return float((1.0 - discount**steps) / (1.0 - discount))


def mark_layer(layers: Layers, d: int, steps: Steps) -> None:
    """Write the places of a layer's stages, which ``unload`` takes back."""
    if d < steps.horizon and d < len(layers.counts):
        for i in range(layers.starts[d], layers.starts[d + 1]):
            steps.place[layers.stages["node"][i]] = i + 1


def forget_layer(layers: Layers, d: int, steps: Steps) -> None:
    """Take the places of a layer back."""
    if d < len(layers.counts):
        unload(layers, d, steps)


def stage_means(
    g: Graph, i: int, d: int, guesses: Guesses, steps: Steps, rules: SweepRules
) -> int:
    """Write the action values of node i in layer d, with the next layer marked."""
    discount = rules.bound.discount
    num_sampled, q_sum = 0, 0.0
    for a in range(g.nodes["size"][i]):
        pair = g.nodes["first"][i] + a
        rules.q[a] = math.nan
        if is_usable(g, g.nodes["first"][i] + a, d, steps):
            weighted_sum = 0.0
            start = g.pairs["start"][pair]
            for e in range(start, start + g.pairs["length"][pair]):
                next_value = 0.0
                if d + 1 < steps.horizon and g.nodes["size"][g.entries.target[e]] > 0:
                    place_number = steps.place[g.entries.target[e]]
                    next_value = guesses.frontier[d + 1]
                    if place_number > 0:
                        next_value = guesses.value[place_number - 1]
                weighted_sum += g.entries.weight[e] * (
                    g.entries.reward[e] + discount * next_value
                )
            rules.q[a] = weighted_sum / g.pairs["total"][pair]
            num_sampled += 1
            q_sum += rules.q[a]
    fill_unsampled(g.nodes["size"][i], num_sampled, q_sum, rules.q)
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
            actions_sampled = 0
            if not is_rim:
                actions_sampled = stage_means(
                    g, layers.stages["node"][k], d, guesses, steps, rules
                )
            guesses.value[k] = math.nan
            if actions_sampled > 0:
                value = close_node(g, layers.stages["node"][k], rules)
                value = inside(
                    value, layers.stages["lower"][k], layers.stages["upper"][k]
                )
                guesses.value[k] = value
                value_sum += value
                num_sampled += 1
        forget_layer(layers, d + 1, steps)
        if num_sampled > 0:
            guesses.frontier[d] = value_sum / num_sampled
        for k in range(first_stage, end_stage):
            if math.isnan(guesses.value[k]):
                value = guesses.frontier[d]
                if guesses.claimed:
                    value = 0.5 * (
                        layers.stages["lower"][k] + layers.stages["upper"][k]
                    )
                guesses.value[k] = inside(
                    value, layers.stages["lower"][k], layers.stages["upper"][k]
                )


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
    num_sampled = stage_means(g, layers.stages["node"][at], d, guesses, steps, rules)
    forget_layer(layers, d + 1, steps)
    return num_sampled


ROOT_TWO, ROOT_TWO_PI = math.sqrt(2.0), math.sqrt(2.0 * math.pi)


def maximum_excess(q: Any, noise: Floats, size: int) -> float:
    """How far the mean of the maximum lies above the largest mean."""
    best = 0
    for a in range(size):
        if q[a] > q[best]:
            best = a
    mean, variance = 0.0, noise[best] * noise[best]
    for a in range(size):
        if a == best:
            continue
        action_variance = noise[a] * noise[a]
        gap = q[best] - q[a]
        gap = math.sqrt(
            max(0.0, gap * gap - action_variance - noise[best] * noise[best])
        )
        width = math.sqrt(variance + action_variance)
        if width == 0.0:
            continue
        gap_in_widths = (mean + gap) / width
        win_probability = 0.5 * math.erfc(-gap_in_widths / ROOT_TWO)
        density = width * math.exp(-0.5 * gap_in_widths * gap_in_widths) / ROOT_TWO_PI
        first_moment = mean * win_probability - gap * (1.0 - win_probability) + density
        second_moment = (mean * mean + variance) * win_probability
        second_moment += (gap * gap + action_variance) * (1.0 - win_probability) + (
            mean - gap
        ) * density
        mean = first_moment
        variance = max(0.0, second_moment - first_moment * first_moment)
    return float(max(0.0, mean))


def curvature_excess(noise: Floats, size: int, rules: Any) -> float:
    """Half the second differences of F at ``rules.q``, which is left as it was."""
    q, w = rules.q[:size], rules.w[:size]
    operator, temperature = rules.operator, rules.temperature
    value_here, excess = builtin_value(operator, q, w, temperature), 0.0
    for a in range(size):
        if noise[a] > 0.0:
            q_before = q[a]
            q[a] = q_before + noise[a]
            value_above = builtin_value(operator, q, w, temperature)
            q[a] = q_before - noise[a]
            value_below = builtin_value(operator, q, w, temperature)
            q[a] = q_before
            excess += 0.5 * (value_above + value_below - 2.0 * value_here)
    return float(max(0.0, excess))


def choice_excess(noise: Floats, size: int, rules: Any) -> float:
    """The excess of choosing at the mover's action values in ``rules.q``."""
    excess = maximum_excess(rules.q, noise, size)
    if excess > 0.0 and not is_greedy(rules.operator):
        excess = min(excess, curvature_excess(noise, size, rules))
    return excess


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
    for a in range(g.nodes["size"][i]):
        rules.w[a] = rules.priors[g.pairs["action"][g.nodes["first"][i] + a]]
        rules.q[a] *= g.nodes["sign"][i]


def set_shares(g: Graph, i: int, sampled: int, policy: Floats, rules: Any) -> None:
    """Write the policy at the action values in ``rules.q``, which face the mover then."""
    size, first_pair = g.nodes["size"][i], g.nodes["first"][i]
    face_mover(g, i, rules)
    if sampled == 0:
        for a in range(size):
            policy[first_pair + a] = 0.0
        return
    write_policy(size, rules, policy[first_pair : first_pair + size])


def add_spread(
    g: Graph, influence: Influence, p: int, flow: float, first: float, second: float
) -> float:
    """Add a pair's deviation, from the sums of x and of x**2 over its samples.

    Returns the usual error of its action value.
    """
    n = g.pairs["total"][p]
    mean = first / n
    if flow > 0.0:
        influence.weight[p] += flow
    if g.pairs["cost"][p] == 0.0 or n <= 1.5:
        return 0.0
    square = max(0.0, second / n - mean * mean)
    deviation = math.sqrt(square * n / (n - 1.0))
    if flow > 0.0:
        influence.spread[p] += flow * deviation
    return deviation / math.sqrt(n)


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
            flow = residual[i]
            if flow <= 0.0:
                continue
            residual[i] = 0.0
            mass[i] += flow
            total_visits += flow
            first_pair = g.nodes["first"][i]
            for p in range(first_pair, first_pair + g.nodes["size"][i]):
                if g.pairs["total"][p] == 0.0 or influence.policy[p] == 0.0:
                    continue
                flow_share = (
                    flow * discount * influence.policy[p] / g.pairs["total"][p]
                )
                start = g.pairs["start"][p]
                for e in range(start, start + g.pairs["length"][p]):
                    target = g.entries.target[e]
                    if g.nodes["size"][target] > 0:
                        residual[target] += flow_share * g.entries.weight[e]
        mass_left = 0.0
        for k in range(count):
            mass_left += residual[order[k]]
        if mass_left <= LATE * max(1.0 - discount, 1e-3) * total_visits:
            break
    for k in range(count):
        i, has_unsampled = order[k], False
        if mass[i] <= 0.0:
            continue
        first_pair = g.nodes["first"][i]
        for p in range(first_pair, first_pair + g.nodes["size"][i]):
            influence.noise[p - first_pair] = 0.0
            if g.pairs["total"][p] == 0.0:
                has_unsampled = True
                continue
            flow = mass[i] * influence.policy[p]
            value_sum, square_sum = 0.0, 0.0
            start = g.pairs["start"][p]
            for e in range(start, start + g.pairs["length"][p]):
                next_value = guesses.value[g.entries.target[e]]
                if math.isnan(next_value):
                    next_value = guesses.frontier[0]
                outcome_value = g.entries.reward[e] + discount * next_value
                value_sum += g.entries.weight[e] * outcome_value
                square_sum += g.entries.weight[e] * outcome_value * outcome_value
            usual_error = add_spread(g, influence, p, flow, value_sum, square_sum)
            influence.noise[p - first_pair] = usual_error
        if has_unsampled:
            influence.lost[0] += mass[i]
        if node_means(g, i, guesses, rules) > 0:
            face_mover(g, i, rules)
            choice_added = choice_excess(influence.noise, g.nodes["size"][i], rules)
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
            i = layers.stages["node"][k]
            num_sampled = 0
            if not is_rim:
                num_sampled = stage_means(g, i, d, guesses, steps, rules)
            if num_sampled < g.nodes["size"][i]:
                influence.lost[0] += mass[k]
            if num_sampled == 0:
                continue
            set_shares(g, i, num_sampled, influence.policy, rules)
            first_pair = g.nodes["first"][i]
            for p in range(first_pair, first_pair + g.nodes["size"][i]):
                flow = mass[k] * influence.policy[p]
                influence.noise[p - first_pair] = 0.0
                if not is_usable(g, p, d, steps):
                    continue
                value_sum, square_sum = 0.0, 0.0
                start = g.pairs["start"][p]
                for e in range(start, start + g.pairs["length"][p]):
                    next_value = 0.0
                    place_number = steps.place[g.entries.target[e]]
                    if d + 1 < steps.horizon and place_number > 0:
                        next_value = guesses.value[place_number - 1]
                        entry_share = g.entries.weight[e] / g.pairs["total"][p]
                        mass[place_number - 1] += flow * discount * entry_share
                    outcome_value = g.entries.reward[e] + discount * next_value
                    value_sum += g.entries.weight[e] * outcome_value
                    square_sum += g.entries.weight[e] * outcome_value * outcome_value
                usual_error = add_spread(g, influence, p, flow, value_sum, square_sum)
                influence.noise[p - first_pair] = usual_error
            choice_added = choice_excess(influence.noise, g.nodes["size"][i], rules)
            influence.excess[0] += mass[k] * choice_added
        forget_layer(layers, d + 1, steps)
