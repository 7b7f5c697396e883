"""How bounds travel over the seen graph, and where the next draws pay: the loops of certified search, compiled.

The problem: with radii that hold, every seen state has L(s) <= V(s) <= U(s); F is monotone, so

    U(s) <- min(U(s), F(Q_U)),  Q_U(a) <- min(Q_U(a), the upper bound of r + gamma U)      and L from below,

keep that true for max and min players alike, in any order and at any stop. ``sweep`` runs them backwards through the states in the
order they were met, in place (Gauss-Seidel), so news from far away passes many states at a time.

Where it pays: F is convex for the max player, so U(s) - L(s) <= sum over a of pi(a) (Q_U - Q_L)(a) with pi = grad F(Q_U); it is concave for
the min player, and pi = grad F_min(Q_L) does the same. Unrolled, the width at the asked state is at most

    sum over pairs of flow(s, a) * (radius up + radius down),    flow = discounted visits under pi and the observed frequencies.

``spread`` keeps the flow up to date (a linear system, solved by passing mass on, from the last round's solution). The derivative of a
radius by its n is known in closed form, -reach * cost / n**2, so ``allocate`` gives draws to pairs until the marginal gains
flow * reach * cost / n**2 are level (water filling), no pair more than doubled at a time.

legend   symbol      public name
  pi                 ``policy``      M - m   ``q_high - q_low``
  theta              ``level``: the marginal gain that is just worth a call

This file decides order, tolerance and allocation: none of it can break a bound. It leaves out the radii (``certified_radii``).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from smoothcruiser.problem.operators import builtin_gradient, builtin_value
from smoothcruiser.problem.tabular import Floats, Ints
from smoothcruiser.search.certified_memory import Graph
from smoothcruiser.search.certified_radii import UNIT, plain_mean, tilted_bound

FIRST_BATCH = 8  # draws of a new pair: with costs near 15 fewer say almost nothing, and more would be wasted on bad actions
LEAST_SHARE = 0.125  # a batch is at least an eighth of what the pair has: smaller ones cost more in bookkeeping than they tell


class Rules(NamedTuple):
    """What does not change during a query."""

    discount: float
    operator: int
    temperature: float
    offsets: Floats  # of the poles
    costs: Floats
    shrink: float  # 1; tests divide radii by 4 to see the promise break
    scale: float  # largest |value| in sight, for rounding
    q: Floats  # (K,) scratch
    w: Floats  # (K,)
    out: Floats  # (K,)


def one_bound(g: Graph, pair: int, side: float, pole: int, rules: Rules) -> float:
    """The bound of one side at one pole."""
    node = g.node[pair]
    start, stop, total = g.start[pair], g.start[pair] + g.length[pair], g.total[pair]
    values = g.upper if side > 0.0 else g.lower
    low, high = g.q_low[node], g.q_high[node]
    if g.cost[pair] == 0.0:  # outcomes are exact: only the sum is rounded
        mean = plain_mean(values, g.target, g.reward, g.weight, start, stop, total, rules.discount)
        return mean + side * (stop - start + 4) * UNIT * rules.scale
    place = (high if side > 0.0 else low) + side * rules.offsets[pole] * (high - low)
    cost = g.cost[pair] + rules.costs[pole]
    guard = 4.0 * UNIT * (abs(place) + rules.scale)
    bound = tilted_bound(side, values, g.target, g.reward, g.weight, start, stop, total, rules.discount, place, cost, guard)
    if rules.shrink != 1.0:
        mean = plain_mean(values, g.target, g.reward, g.weight, start, stop, total, rules.discount)
        bound = mean + (bound - mean) * rules.shrink
    return bound


def tuned(g: Graph, pair: int, side: float, pole: int, rules: Rules) -> int:
    """The pole that bounds best, found by walking downhill from ``pole``; also writes the reach there."""
    best = one_bound(g, pair, side, pole, rules)
    if g.cost[pair] == 0.0:
        return pole
    for step in (1, -1):
        moved = False
        while 0 <= pole + step < len(rules.offsets):
            other = one_bound(g, pair, side, pole + step, rules)
            if side * (other - best) >= 0.0:
                break
            pole, best, moved = pole + step, other, True
        if moved:
            break
    node = g.node[pair]
    low, high = g.q_low[node], g.q_high[node]
    reach = (high - low) * rules.offsets[pole] + (high - best if side > 0.0 else best - low)
    if side > 0.0:
        g.reach_up[pair] = reach
    else:
        g.reach_down[pair] = reach
    return pole


def smooth_value(g: Graph, node: int, upper: bool, rules: Rules) -> float:
    """F of the node's upper (or lower) ends, without the allowance for rounding."""
    first, size, sign = g.first[node], g.size[node], g.sign[node]
    for a in range(size):
        rules.q[a] = sign * (g.q_upper[first + a] if upper else g.q_lower[first + a])
        rules.w[a] = g.prior[first + a]
    return sign * builtin_value(rules.operator, rules.q[:size], rules.w[:size], rules.temperature)


def backup(g: Graph, node: int, rules: Rules, tune: bool) -> float:
    """Bring one state's bounds up to date; by how much they closed."""
    first, size = g.first[node], g.size[node]
    for pair in range(first, first + size):
        if g.total[pair] == 0.0:
            continue
        if tune:
            g.pole_up[pair] = tuned(g, pair, 1.0, g.pole_up[pair], rules)
            g.pole_down[pair] = tuned(g, pair, -1.0, g.pole_down[pair], rules)
        bound = one_bound(g, pair, 1.0, g.pole_up[pair], rules)
        if bound < g.q_upper[pair]:
            g.q_upper[pair] = bound
        bound = one_bound(g, pair, -1.0, g.pole_down[pair], rules)
        if bound > g.q_lower[pair]:
            g.q_lower[pair] = bound
    rounding = 16.0 * (size + 2) * UNIT * (rules.scale + rules.temperature)
    closed = 0.0
    above = smooth_value(g, node, True, rules) + rounding
    if above < g.upper[node]:
        closed += g.upper[node] - above
        g.upper[node] = above
    below = smooth_value(g, node, False, rules) - rounding
    if below > g.lower[node]:
        closed += below - g.lower[node]
        g.lower[node] = below
    return closed


def sweep(g: Graph, order: Ints, count: int, rules: Rules, tune: bool) -> float:
    """One pass over the listed nodes, last met first; by how much, weighed by visits, they closed. ``order[0]`` is the asked one."""
    closed = 0.0
    for i in range(count - 1, -1, -1):
        node = order[i]
        closed += (g.mass[node] + (1.0 if i == 0 else 0.0)) * backup(g, node, rules, tune)
    return closed


def set_policy(g: Graph, node: int, rules: Rules) -> None:
    """Write the optimistic policy of a node: grad F at Q_U for max, at Q_L for min."""
    first, size, sign = g.first[node], g.size[node], g.sign[node]
    for a in range(size):
        rules.q[a] = g.q_upper[first + a] if sign > 0.0 else -g.q_lower[first + a]
        rules.w[a] = g.prior[first + a]
    builtin_gradient(rules.operator, rules.q[:size], rules.w[:size], rules.temperature, rules.out[:size])
    for a in range(size):
        g.policy[first + a] = rules.out[a]


def pass_on(g: Graph, pair: int, share: float, order: Ints, count: int, rules: Rules) -> int:
    """Send ``share`` of mass through a pair to its next states; the number of listed nodes, which may have grown."""
    if g.total[pair] == 0.0:
        return count
    share *= rules.discount / g.total[pair]
    for e in range(g.start[pair], g.start[pair] + g.length[pair]):
        target = g.target[e]
        if g.size[target] == 0:
            continue
        g.residual[target] += share * g.weight[e]
        if not g.listed[target]:
            g.listed[target] = True
            set_policy(g, target, rules)
            order[count] = target
            count += 1
    return count


def spread(g: Graph, order: Ints, count: int, source: Floats, rules: Rules, least: float, passes: int) -> int:
    """Bring mass and flow up to date for visits that start with the asked state's actions in proportion to ``source``.

    Starts from the masses of last time: what they fail to balance is the residual, which is then passed on in the order of discovery
    until what is left at each node matters less than ``least`` (mass times width) or ``passes`` are over. Returns the listed nodes.
    """
    for i in range(count):
        node = order[i]
        g.residual[node] = -g.mass[node]
        set_policy(g, node, rules)
    root = order[0]
    for a in range(g.size[root]):
        count = pass_on(g, g.first[root] + a, source[a], order, count, rules)
    for i in range(count):
        node = order[i]
        if g.mass[node] != 0.0:
            for pair in range(g.first[node], g.first[node] + g.size[node]):
                count = pass_on(g, pair, g.mass[node] * g.policy[pair], order, count, rules)
    for _ in range(passes):
        busy = False
        i = 0
        while i < count:
            node = order[i]
            i += 1
            moving = g.residual[node]
            if abs(moving) * (g.upper[node] - g.lower[node]) <= least:
                continue
            busy = True
            g.mass[node] += moving
            g.residual[node] = 0.0
            for pair in range(g.first[node], g.first[node] + g.size[node]):
                if g.policy[pair] > 0.0:
                    count = pass_on(g, pair, moving * g.policy[pair], order, count, rules)
        if not busy:
            break
    set_gains(g, order, count, source, rules)
    return count


def set_gains(g: Graph, order: Ints, count: int, source: Floats, rules: Rules) -> None:
    """Write for every pair by how much one more draw narrows the answer: minus the derivative of flow * (radius up + radius down)."""
    for i in range(count):
        node = order[i]
        mass = g.mass[node] + g.residual[node]
        if mass < 0.0:
            mass = 0.0
        for a in range(g.size[node]):
            pair = g.first[node] + a
            flow = mass * g.policy[pair] + (source[a] if i == 0 else 0.0)
            g.flow[pair] = flow
            n = g.total[pair]
            if n == 0.0:
                g.gain[pair] = flow * (g.q_high[node] - g.q_low[node]) / (2 * FIRST_BATCH)
            elif g.cost[pair] == 0.0:
                g.gain[pair] = 0.0
            else:
                up = (g.cost[pair] + rules.costs[g.pole_up[pair]]) * g.reach_up[pair]
                down = (g.cost[pair] + rules.costs[g.pole_down[pair]]) * g.reach_down[pair]
                g.gain[pair] = flow * (up + down) / (n * n)


def wanted(g: Graph, pair: int, level: float, first_batch: int) -> int:
    """Draws that a pair should get when a call must be worth ``level``."""
    gain, n = g.gain[pair], g.total[pair]
    if gain <= level:
        return 0
    if n == 0.0:
        return first_batch
    extra = int(n * min(1.0, math.sqrt(gain / level) - 1.0))
    return extra if extra >= max(4.0, LEAST_SHARE * n) else 0


def allocate(g: Graph, order: Ints, count: int, calls: int, first_batch: int, pairs: Ints, counts: Ints) -> int:
    """The number of jobs written to ``pairs`` and ``counts``: at most ``calls`` draws, and at least one where a pair can gain."""
    top = 0.0
    best = -1
    for i in range(count):
        node = order[i]
        for pair in range(g.first[node], g.first[node] + g.size[node]):
            if g.gain[pair] > top:
                top, best = g.gain[pair], pair
    if best < 0:
        return 0
    low, high = math.log(top) - 50.0, math.log(top)
    for _ in range(40):
        middle = 0.5 * (low + high)
        level = math.exp(middle)
        asked = 0
        for i in range(count):
            node = order[i]
            for pair in range(g.first[node], g.first[node] + g.size[node]):
                asked += wanted(g, pair, level, first_batch)
        if asked > calls:
            low = middle
        else:
            high = middle
    jobs = 0
    for level in (math.exp(high), math.exp(low)):  # at the second level there is room for some of the pairs that are tied there
        for i in range(count):
            node = order[i]
            for pair in range(g.first[node], g.first[node] + g.size[node]):
                extra = wanted(g, pair, level, first_batch)
                if 0 < extra <= calls:
                    pairs[jobs], counts[jobs] = pair, extra
                    g.gain[pair] = 0.0
                    jobs += 1
                    calls -= extra
    if jobs == 0 and calls > 0:
        pairs[0], counts[0] = best, min(calls, max(first_batch, int(g.total[best])))
        jobs = 1
    return jobs
