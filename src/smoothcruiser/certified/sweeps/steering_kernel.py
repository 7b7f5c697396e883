"""Where the next samples pay: loops of certified search, compiled.

F is convex for the max player, so U(s) - L(s) <= sum over a of pi(a)
(Q_U - Q_L)(a) with pi = grad F(Q_U); it is concave for the min player, and
pi = grad F_min(Q_L) does the same. Unrolled, the width at the requested state
is at most

    sum over pairs of flow(s, a) * (radius up + radius down),

flow = discounted visits under pi and the observed frequencies. ``spread`` keeps
the flow up to date (a linear system, solved by passing mass on, from the last
round's solution). The bound of a pair reports its slope: minus the derivative
of the radius by n, times n**2. So ``allocate`` gives samples to pairs until the
marginal gains flow * slope / n**2 are level (water filling). No pair is more
than quadrupled at a time.

legend   symbol      public name
  pi                 ``policy``      M - m   ``q_high - q_low``
  theta              ``level``: the marginal gain that is just worth a call

This file decides the allocation of samples: it cannot break a bound.
"""

from __future__ import annotations

import math

from smoothcruiser.certified.graph import Graph
from smoothcruiser.certified.sweeps.sweeps_kernel import SweepRules, write_policy
from smoothcruiser.problem.model.tabular import Floats, Ints

# Samples of a new pair. With costs near 15 fewer say almost nothing, and more would
# be wasted on bad actions.
FIRST_BATCH = 8
SOFTNESS = 0.1  # see set_policy
# A pair has at most four times as many samples after a round: enough to catch up, few
# enough to check again in time.
MOST_GROWTH = 3.0
# A batch is at least an eighth of the pair's samples. Smaller ones cost more in
# bookkeeping than they are worth.
LEAST_SHARE = 0.125


def set_policy(g: Graph, i: int, wide: float, rules: SweepRules) -> None:
    """Write the policy of the optimistic walk at node ``i``, ``wide`` apart.

    It is half grad F at Q_U (max; at Q_L for min), half a softmax there. The softmax
    has a tenth of the node's width as temperature: actions that lead now by less than
    this round's likely progress share the samples. grad F alone (plain max above all)
    would double one action at a time, long past its need.
    """
    nodes, pairs, q, w, out = g.nodes, g.pairs, rules.q, rules.w, rules.out
    size, first_pair, sign = nodes["size"][i], nodes["first"][i], nodes["sign"][i]
    largest_q = -math.inf
    for a in range(size):
        pair = first_pair + a
        far_bound, near_bound = pairs["q_upper"][pair], pairs["q_lower"][pair]
        if sign < 0.0:
            far_bound, near_bound = -near_bound, -far_bound
        q[a] = far_bound + rules.tie * near_bound
        w[a] = rules.priors[pairs["action"][pair]]
        largest_q = max(largest_q, q[a])
    write_policy(size, rules, out[:size])
    softmax_width = SOFTNESS * wide
    softmax_sum = 0.0
    for a in range(size):
        q[a] = (
            math.exp((q[a] - largest_q) / softmax_width)
            if softmax_width > 0.0
            else 1.0
        )
        softmax_sum += q[a]
    policy = pairs["policy"]
    for a in range(size):
        policy[first_pair + a] = 0.5 * (out[a] + q[a] / softmax_sum)


def steered_width(g: Graph, i: int, rules: SweepRules) -> float:
    """U - L of a node, with the wish in the place of a near end that is farther."""
    lower, upper = g.nodes["lower"][i], g.nodes["upper"][i]
    if g.nodes["sign"][i] > 0.0:
        return float(max(0.0, upper - max(lower, rules.wish)))
    return float(max(0.0, min(upper, -rules.wish) - lower))


def pass_on(
    g: Graph, p: int, share: float, order: Ints, count: int, rules: SweepRules
) -> int:
    """Send ``share`` of mass through pair ``p`` to its next states.

    Returns the number of listed nodes, which may have grown.
    """
    nodes, pairs = g.nodes, g.pairs
    if pairs["total"][p] == 0.0:
        return count
    sizes, residual, listed = nodes["size"], nodes["residual"], nodes["listed"]
    targets, weights = g.entries.target, g.entries.weight
    share *= rules.bound.discount / pairs["total"][p]
    start = pairs["start"][p]
    for e in range(start, start + pairs["length"][p]):
        target = targets[e]
        if sizes[target] == 0:
            continue
        residual[target] += share * weights[e]
        if listed[target] == 0:
            listed[target] = 1
            set_policy(g, target, steered_width(g, target, rules), rules)
            order[count] = target
            count += 1
    return count


def reach(g: Graph, order: Ints, count: int) -> int:
    """List every node that the listed ones lead to by outcomes seen so far.

    Returns the number of listed nodes.
    """
    i = 0
    while i < count:
        node = order[i]
        first_pair = g.nodes["first"][node]
        for p in range(first_pair, first_pair + g.nodes["size"][node]):
            start = g.pairs["start"][p]
            for e in range(start, start + g.pairs["length"][p]):
                target = g.entries.target[e]
                if g.nodes["size"][target] > 0 and g.nodes["listed"][target] == 0:
                    g.nodes["listed"][target] = 1
                    order[count] = target
                    count += 1
        i += 1
    return count


def spread(
    g: Graph,
    order: Ints,
    count: int,
    source: Floats,
    least: float,
    passes: int,
    rules: SweepRules,
) -> int:
    """Bring masses up to date, and return the number of listed nodes.

    Walks start with the requested state's actions in proportion to ``source``. The
    masses of the last time are the starting point. Their imbalance is the residual. It
    is passed on in the order of discovery until the rest at each node matters less than
    ``least`` (mass times width) or ``passes`` are over.
    """
    nodes, policy = g.nodes, g.pairs["policy"]
    for i in range(count):
        node = order[i]
        nodes["residual"][node] = -nodes["mass"][node]
        set_policy(g, node, steered_width(g, node, rules), rules)
    known_count = count
    for pass_number in range(1 + passes):
        is_busy = pass_number == 0
        i = 0
        while i < (known_count if pass_number == 0 else count):
            node = order[i]
            if pass_number == 0:
                moving_mass = nodes["mass"][node]
            else:
                moving_mass = nodes["residual"][node]
                width = steered_width(g, node, rules)
                if abs(moving_mass) * width > least:
                    nodes["mass"][node] += moving_mass
                    nodes["residual"][node] = 0.0
                    is_busy = True
                else:
                    moving_mass = 0.0
            first_pair = nodes["first"][node]
            for a in range(nodes["size"][node]):
                pair_share = moving_mass * policy[first_pair + a] + (
                    source[a] if pass_number == 0 and i == 0 else 0.0
                )
                if pair_share != 0.0:
                    count = pass_on(g, first_pair + a, pair_share, order, count, rules)
            i += 1
        if not is_busy:
            break
    set_gains(g, order, count, source, rules)
    return count


def set_gains(
    g: Graph, order: Ints, count: int, source: Floats, rules: SweepRules
) -> None:
    """Write for every pair by how much one more sample narrows the answer.

    It is minus the derivative of flow * (radius up + radius down), or of the far radius
    alone (``SweepRules.near``).
    """
    nodes, policy, gains = g.nodes, g.pairs["policy"], g.pairs["gain"]
    for i in range(count):
        node = order[i]
        mass = max(0.0, nodes["mass"][node] + nodes["residual"][node])
        first_pair = nodes["first"][node]
        for a in range(nodes["size"][node]):
            pair = first_pair + a
            flow = mass * policy[pair] + (source[a] if i == 0 else 0.0)
            gains[pair] = flow * pair_gain(g, node, pair, rules.near)


def pair_gain(g: Graph, node: int, pair: int, near: float) -> float:
    """By how much one more sample narrows the pair's bounds; ``near`` weighs one."""
    nodes, pairs = g.nodes, g.pairs
    n = pairs["total"][pair]
    if n == 0.0:
        span = nodes["q_high"][node] - nodes["q_low"][node]
        return float(span / (2 * FIRST_BATCH))
    if pairs["cost"][pair] == 0.0:
        return 0.0
    far_slope, near_slope = pairs["slope_up"][pair], pairs["slope_down"][pair]
    if nodes["sign"][node] < 0.0:
        far_slope, near_slope = near_slope, far_slope
    return float((far_slope + near * near_slope) / (n * n))


def wanted_samples(gain: float, n: float, level: float, first_batch: int) -> int:
    """Return the samples that a pair should get when a call must be worth ``level``."""
    if gain <= level:
        return 0
    if n == 0.0:
        return first_batch
    ratio = gain / level if level > 0.0 else math.inf
    extra_samples = int(n * min(MOST_GROWTH, math.sqrt(ratio) - 1.0))
    return extra_samples if extra_samples >= max(4.0, LEAST_SHARE * n) else 0


def total_wanted(
    g: Graph, order: Ints, count: int, level: float, first_batch: int
) -> int:
    """Return the samples that all pairs together should get at ``level``."""
    nodes, gains, totals = g.nodes, g.pairs["gain"], g.pairs["total"]
    total_samples = 0
    for i in range(count):
        first_pair = nodes["first"][order[i]]
        for p in range(first_pair, first_pair + nodes["size"][order[i]]):
            if gains[p] > level:
                total_samples += wanted_samples(
                    gains[p], totals[p], level, first_batch
                )
    return total_samples


def allocate(
    g: Graph,
    order: Ints,
    count: int,
    calls: int,
    floor: float,
    first_batch: int,
    pairs: Ints,
    counts: Ints,
) -> int:
    """Return the number of jobs written to ``pairs`` and ``counts``.

    They have at most ``calls`` samples, each worth ``floor`` where any is. So a
    pair that has to catch up may have a round for itself, while those that have
    enough wait.
    """
    largest_gain = 0.0
    best_pair = -1
    for i in range(count):
        node = order[i]
        first_pair = g.nodes["first"][node]
        for p in range(first_pair, first_pair + g.nodes["size"][node]):
            if g.pairs["gain"][p] > largest_gain:
                largest_gain, best_pair = g.pairs["gain"][p], p
    if best_pair < 0 or calls < 1:
        return 0
    upper_level = largest_gain
    # where all pairs are near the floor, it does not separate them
    lower_level = (
        max(floor, largest_gain * 1e-20)
        if largest_gain > 4.0 * floor
        else largest_gain * 1e-20
    )
    if total_wanted(g, order, count, lower_level, first_batch) <= calls:
        upper_level = lower_level
    else:
        for _ in range(40):  # halvings of log(high/low) <= 46: the level to 4e-11
            middle_level = math.sqrt(lower_level * upper_level)
            if total_wanted(g, order, count, middle_level, first_batch) > calls:
                lower_level = middle_level
            else:
                upper_level = middle_level
    num_jobs = 0
    # at the second level there is room for some of the pairs that are tied there
    for level in (upper_level, lower_level):
        for i in range(count):
            node = order[i]
            first_pair = g.nodes["first"][node]
            for p in range(first_pair, first_pair + g.nodes["size"][node]):
                gain, n = g.pairs["gain"][p], g.pairs["total"][p]
                extra_samples = wanted_samples(gain, n, level, first_batch)
                if 0 < extra_samples <= calls:
                    pairs[num_jobs], counts[num_jobs] = p, extra_samples
                    g.pairs["gain"][p] = 0.0
                    num_jobs += 1
                    calls -= extra_samples
    if num_jobs == 0:
        pairs[0] = best_pair
        counts[0] = min(calls, max(first_batch, int(g.pairs["total"][best_pair])))
        num_jobs = 1
    return num_jobs
