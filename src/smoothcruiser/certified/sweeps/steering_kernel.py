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
from typing import Any

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
    node = g.nodes[i]
    size = node["size"]
    largest_q = -math.inf
    for a in range(size):
        pair = g.pairs[node["first"] + a]
        far_bound, near_bound = pair["q_upper"], pair["q_lower"]
        if node["sign"] < 0.0:
            far_bound, near_bound = -near_bound, -far_bound
        rules.q[a] = far_bound + rules.tie * near_bound
        rules.w[a] = rules.priors[pair["action"]]
        largest_q = max(largest_q, rules.q[a])
    write_policy(size, rules, rules.out[:size])
    softmax_width = SOFTNESS * wide
    softmax_sum = 0.0
    for a in range(size):
        rules.q[a] = (
            math.exp((rules.q[a] - largest_q) / softmax_width)
            if softmax_width > 0.0
            else 1.0
        )
        softmax_sum += rules.q[a]
    for a in range(size):
        g.pairs[node["first"] + a]["policy"] = 0.5 * (
            rules.out[a] + rules.q[a] / softmax_sum
        )


def pass_on(
    g: Graph, p: int, share: float, order: Ints, count: int, rules: SweepRules
) -> int:
    """Send ``share`` of mass through pair ``p`` to its next states.

    Returns the number of listed nodes, which may have grown.
    """
    pair = g.pairs[p]
    if pair["total"] == 0.0:
        return count
    share *= rules.bound.discount / pair["total"]
    for e in range(pair["start"], pair["start"] + pair["length"]):
        target = g.entries[e]["target"]
        node = g.nodes[target]
        if node["size"] == 0:
            continue
        node["residual"] += share * g.entries[e]["weight"]
        if node["listed"] == 0:
            node["listed"] = 1
            set_policy(g, target, node["upper"] - node["lower"], rules)
            order[count] = target
            count += 1
    return count


def reach(g: Graph, order: Ints, count: int) -> int:
    """List every node that the listed ones lead to by outcomes seen so far.

    Returns the number of listed nodes.
    """
    i = 0
    while i < count:
        node = g.nodes[order[i]]
        for p in range(node["first"], node["first"] + node["size"]):
            for e in range(
                g.pairs[p]["start"], g.pairs[p]["start"] + g.pairs[p]["length"]
            ):
                target = g.entries[e]["target"]
                if g.nodes[target]["size"] > 0 and g.nodes[target]["listed"] == 0:
                    g.nodes[target]["listed"] = 1
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
    for i in range(count):
        node = g.nodes[order[i]]
        node["residual"] = -node["mass"]
        set_policy(g, order[i], node["upper"] - node["lower"], rules)
    known_count = count
    for pass_number in range(1 + passes):
        is_busy = pass_number == 0
        i = 0
        while i < (known_count if pass_number == 0 else count):
            node = g.nodes[order[i]]
            moving_mass = node["mass"] if pass_number == 0 else node["residual"]
            if (
                pass_number > 0
                and abs(moving_mass) * (node["upper"] - node["lower"]) > least
            ):
                node["mass"] += moving_mass
                node["residual"] = 0.0
                is_busy = True
            elif pass_number > 0:
                moving_mass = 0.0
            for a in range(node["size"]):
                p = node["first"] + a
                pair_share = moving_mass * g.pairs[p]["policy"] + (
                    source[a] if pass_number == 0 and i == 0 else 0.0
                )
                if pair_share != 0.0:
                    count = pass_on(g, p, pair_share, order, count, rules)
            i += 1
        if not is_busy:
            break
    set_gains(g, order, count, source)
    return count


def set_gains(g: Graph, order: Ints, count: int, source: Floats) -> None:
    """Write for every pair by how much one more sample narrows the answer.

    It is minus the derivative of flow * (radius up + radius down).
    """
    for i in range(count):
        node = g.nodes[order[i]]
        mass = max(0.0, node["mass"] + node["residual"])
        for a in range(node["size"]):
            pair = g.pairs[node["first"] + a]
            flow = mass * pair["policy"] + (source[a] if i == 0 else 0.0)
            pair["gain"] = flow * gain(node, pair)


def gain(node: Any, pair: Any) -> float:
    """By how much one more sample narrows the pair's bounds."""
    n = pair["total"]
    if n == 0.0:
        return float((node["q_high"] - node["q_low"]) / (2 * FIRST_BATCH))
    if pair["cost"] == 0.0:
        return 0.0
    return float((pair["slope_up"] + pair["slope_down"]) / (n * n))


def wanted_samples(pair: Any, level: float, first_batch: int) -> int:
    """Return the samples that a pair should get when a call must be worth ``level``."""
    gain, n = pair["gain"], pair["total"]
    if gain <= level:
        return 0
    if n == 0.0:
        return first_batch
    extra_samples = int(n * min(MOST_GROWTH, math.sqrt(gain / level) - 1.0))
    return extra_samples if extra_samples >= max(4.0, LEAST_SHARE * n) else 0


def total_wanted(
    g: Graph, order: Ints, count: int, level: float, first_batch: int
) -> int:
    """Return the samples that all pairs together should get at ``level``."""
    total_samples = 0
    for i in range(count):
        node = g.nodes[order[i]]
        for p in range(node["first"], node["first"] + node["size"]):
            total_samples += wanted_samples(g.pairs[p], level, first_batch)
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
        node = g.nodes[order[i]]
        for p in range(node["first"], node["first"] + node["size"]):
            if g.pairs[p]["gain"] > largest_gain:
                largest_gain, best_pair = g.pairs[p]["gain"], p
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
            node = g.nodes[order[i]]
            for p in range(node["first"], node["first"] + node["size"]):
                extra_samples = wanted_samples(g.pairs[p], level, first_batch)
                if 0 < extra_samples <= calls:
                    pairs[num_jobs], counts[num_jobs] = p, extra_samples
                    g.pairs[p]["gain"] = 0.0
                    num_jobs += 1
                    calls -= extra_samples
    if num_jobs == 0:
        pairs[0], counts[0] = (
            best_pair,
            min(calls, max(first_batch, int(g.pairs[best_pair]["total"]))),
        )
        num_jobs = 1
    return num_jobs
