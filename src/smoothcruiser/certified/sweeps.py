"""How bounds travel over the seen graph, and where the next draws pay: the
loops of certified search, compiled.

The problem: with radii that hold, every seen state has L(s) <= V(s) <= U(s); F
is monotone, so

    U(s) <- min(U(s), F(Q_U)),  Q_U(a) <- min(Q_U(a), the upper bound of r + gamma U)      and L from below,

keep that true for max and min players alike, in any order and at any stop.
``sweep`` runs them backwards through the states in the order they were met, in
place (Gauss-Seidel), so news from far away passes many states at a time.

Where it pays: F is convex for the max player, so U(s) - L(s) <= sum over a of
pi(a) (Q_U - Q_L)(a) with pi = grad F(Q_U); it is concave for the min player,
and pi = grad F_min(Q_L) does the same. Unrolled, the width at the asked state
is at most

    sum over pairs of flow(s, a) * (radius up + radius down),    flow = discounted visits under pi and the observed frequencies.

``spread`` keeps the flow up to date (a linear system, solved by passing mass
on, from the last round's solution). The derivative of a radius by its n is
known in closed form, -reach * cost / n**2, so ``allocate`` gives draws to pairs
until the marginal gains flow * reach * cost / n**2 are level (water filling),
no pair more than quadrupled at a time.

legend   symbol      public name
  pi                 ``policy``      M - m   ``q_high - q_low``
  theta              ``level``: the marginal gain that is just worth a call

This file decides order, tolerance and allocation: none of it can break a bound.
It leaves out the radii (``certified_radii``).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from smoothcruiser.certified.bounds.betting import (
    UNIT,
    plain_mean,
    pole_guard,
    tilted_bound,
    value_rounding,
)
from smoothcruiser.certified.memory import Graph
from smoothcruiser.operators.dispatch import builtin_gradient, builtin_value
from smoothcruiser.problem.tabular import Floats, Ints

# draws of a new pair: with costs near 15 fewer say almost nothing, and more would
# be wasted on bad actions
FIRST_BATCH = 8
SOFTNESS = 0.1  # see set_policy
# a pair has at most four times as many draws after a round: enough to catch up, few
# enough to look again
MOST_GROWTH = 3.0
# The slope, n**2 times the derivative of the radius, is radius * n/2 where the
# radius falls like 1/sqrt(n), and twice that where it falls like 1/n. Where the
# best pole says far less than either (a draw at the edge of the range, too few
# draws for any pole), more draws still lead to one of the two.
SLOWEST = 1.0 / 64.0
# what a sweep does about poles: keeps them, walks downhill from them, or tries them
# all
KEEP, WALK, SCAN = 0, 1, 2
# a batch is at least an eighth of what the pair has: smaller ones cost more in
# bookkeeping than they tell
LEAST_SHARE = 0.125


class Rules(NamedTuple):
    """What does not change during a query."""

    discount: float
    operator: int
    temperature: float
    poles: Floats  # (J, 2): offset t_j and cost log(1/w_j)
    shrink: float  # 1; tests divide radii by 4 to see the promise break
    scale: float  # largest |value| in sight, for rounding
    q: Any  # (K,) of floats: scratch
    w: Any  # (K,)
    out: Any  # (K,)


def one_bound(
    nodes: Any,
    pair: Any,
    entries: Any,
    upper: bool,
    place: float,
    price: float,
    discount: float,
    scale: float,
) -> float:
    """The bound of one side of a pair at the pole that lies ``place`` ranges
    outside and costs ``price``.
    """
    start, stop, total = pair["start"], pair["start"] + pair["length"], pair["total"]
    if pair["cost"] == 0.0:  # outcomes are exact: only the sum is rounded
        slack = (stop - start + 4) * UNIT * scale
        mean = plain_mean(entries, nodes, start, stop, total, upper, discount)
        return float(mean + slack if upper else mean - slack)
    node = nodes[pair["node"]]
    offset = place * (node["q_high"] - node["q_low"])
    pole = node["q_high"] + offset if upper else node["q_low"] - offset
    guard = pole_guard(pole, scale)
    return tilted_bound(
        entries,
        nodes,
        start,
        stop,
        total,
        upper,
        discount,
        pole,
        pair["cost"] + price,
        guard,
    )


def far_pole(
    nodes: Any,
    pair: Any,
    entries: Any,
    upper: bool,
    tune: int,
    poles: Floats,
    discount: float,
    scale: float,
) -> tuple[int, float]:
    """The pole beyond the end of the range that bounds best, and its bound.

    WALK goes downhill from the last pole: the bound is convex in the pole but
    for the prices, which differ little. SCAN tries them all.
    """
    first = (
        1 if tune == SCAN else max(1, pair["pole_up"] if upper else pair["pole_down"])
    )
    best, bound = (
        first,
        one_bound(
            nodes,
            pair,
            entries,
            upper,
            poles[first, 0],
            poles[first, 1],
            discount,
            scale,
        ),
    )
    for step in (1, -1):
        at = first + step
        while 1 <= at < len(poles):
            other = one_bound(
                nodes, pair, entries, upper, poles[at, 0], poles[at, 1], discount, scale
            )
            if other < bound if upper else other > bound:
                best, bound = at, other
            elif tune == WALK:
                break
            at += step
        if best != first:
            break
    return best, bound


def tuned_bound(
    nodes: Any,
    pair: Any,
    entries: Any,
    upper: bool,
    tune: int,
    poles: Floats,
    discount: float,
    scale: float,
) -> float:
    """The bound of one side; WALK and SCAN look for the pole that bounds best,
    and note the slope there.

    Pole 0, at the end of the range, is tried apart: a draw at that end makes
    its bound the end itself, below those of the next poles while draws are few,
    so that a walk would never leave it.

    Slope: at a fixed pole the bound is pole -+ exp(. - cost/n), whose
    derivative by n is -+ cost/n**2 times
    |pole - bound|. It is 0 at a pole that a draw hit, so it is not taken to be less than ``SLOWEST`` allows.
    """
    if tune == KEEP or pair["cost"] == 0.0:
        at = pair["pole_up"] if upper else pair["pole_down"]
        return one_bound(
            nodes, pair, entries, upper, poles[at, 0], poles[at, 1], discount, scale
        )
    at, bound = far_pole(nodes, pair, entries, upper, tune, poles, discount, scale)
    nearest = one_bound(
        nodes, pair, entries, upper, poles[0, 0], poles[0, 1], discount, scale
    )
    if nearest <= bound if upper else nearest >= bound:
        at, bound = 0, nearest
    node = nodes[pair["node"]]
    reach = poles[at, 0] * (node["q_high"] - node["q_low"]) + (
        node["q_high"] - bound if upper else bound - node["q_low"]
    )
    start, stop = pair["start"], pair["start"] + pair["length"]
    mean = plain_mean(entries, nodes, start, stop, pair["total"], upper, discount)
    # less what rounding may have added
    radius = abs(bound - mean) - 4.0 * (stop - start + 8) * UNIT * scale
    slope = max(
        (pair["cost"] + poles[at, 1]) * reach,
        SLOWEST * pair["total"] * max(0.0, radius),
    )
    if upper:
        pair["pole_up"], pair["slope_up"] = at, slope
    else:
        pair["pole_down"], pair["slope_down"] = at, slope
    return bound


def backup_side(
    nodes: Any, pairs: Any, entries: Any, i: int, upper: bool, tune: int, rules: Rules
) -> float:
    """Bring the upper (or lower) bounds of node ``i`` up to date; by how much
    its value's bound closed.
    """
    node = nodes[i]
    size, sign, first = node["size"], node["sign"], node["first"]
    for a in range(size):
        pair = pairs[first + a]
        if pair["total"] > 0.0:
            bound = tuned_bound(
                nodes,
                pair,
                entries,
                upper,
                tune,
                rules.poles,
                rules.discount,
                rules.scale,
            )
            if rules.shrink != 1.0:  # wrong on purpose, for tests
                start, stop = pair["start"], pair["start"] + pair["length"]
                mean = plain_mean(
                    entries, nodes, start, stop, pair["total"], upper, rules.discount
                )
                bound = mean + (bound - mean) * rules.shrink
            if upper and bound < pair["q_upper"]:
                pair["q_upper"] = bound
            elif not upper and bound > pair["q_lower"]:
                pair["q_lower"] = bound
        rules.q[a] = sign * (pair["q_upper"] if upper else pair["q_lower"])
        rules.w[a] = pair["prior"]
    value = sign * builtin_value(
        rules.operator, rules.q[:size], rules.w[:size], rules.temperature
    )
    rounding = value_rounding(size, rules.scale, rules.temperature)
    closed = 0.0
    if upper:
        closed = node["upper"] - (value + rounding)
        if closed > 0.0:
            node["upper"] = value + rounding
    else:
        closed = (value - rounding) - node["lower"]
        if closed > 0.0:
            node["lower"] = value - rounding
    return float(max(0.0, closed))


def sweep(g: Graph, order: Ints, count: int, tune: int, rules: Rules) -> float:
    """One pass over the listed nodes, last met first; by how much, weighed by
    visits, they closed. ``order[0]`` is the asked one.

    Where the bounds of a node or of one of its pairs exclude each other the
    pass ends with minus the node's number.
    """
    nodes, pairs, entries = g.nodes, g.pairs, g.entries
    total = 0.0
    for i in range(count - 1, -1, -1):
        node = nodes[order[i]]
        closed = 0.0
        for side in range(2):
            closed += backup_side(
                nodes, pairs, entries, order[i], side == 0, tune, rules
            )
        crossed = node["lower"] > node["upper"]
        for p in range(node["first"], node["first"] + node["size"]):
            crossed = crossed or pairs[p]["q_lower"] > pairs[p]["q_upper"]
        if crossed:
            return float(-order[i])
        total += (node["mass"] + (1.0 if i == 0 else 0.0)) * closed
    return total


def set_policy(g: Graph, i: int, rules: Rules) -> None:
    """Write the policy of the optimistic walk at node ``i``: half grad F at Q_U
    (max; at Q_L for min), half a softmax there.

    The softmax has a tenth of the node's width as temperature: actions that
    lead now by less than this round's likely progress share the draws. grad F
    alone (plain max above all) would double one action at a time, long past
    what it needs.
    """
    node = g.nodes[i]
    size = node["size"]
    top = -math.inf
    for a in range(size):
        pair = g.pairs[node["first"] + a]
        rules.q[a] = pair["q_upper"] if node["sign"] > 0.0 else -pair["q_lower"]
        rules.w[a] = pair["prior"]
        top = max(top, rules.q[a])
    builtin_gradient(
        rules.operator,
        rules.q[:size],
        rules.w[:size],
        rules.temperature,
        rules.out[:size],
    )
    width = SOFTNESS * (node["upper"] - node["lower"])
    total = 0.0
    for a in range(size):
        rules.q[a] = math.exp((rules.q[a] - top) / width) if width > 0.0 else 1.0
        total += rules.q[a]
    for a in range(size):
        g.pairs[node["first"] + a]["policy"] = 0.5 * (rules.out[a] + rules.q[a] / total)


def pass_on(
    g: Graph, p: int, share: float, order: Ints, count: int, rules: Rules
) -> int:
    """Send ``share`` of mass through pair ``p`` to its next states; the number
    of listed nodes, which may have grown.
    """
    pair = g.pairs[p]
    if pair["total"] == 0.0:
        return count
    share *= rules.discount / pair["total"]
    for e in range(pair["start"], pair["start"] + pair["length"]):
        target = g.entries[e]["target"]
        node = g.nodes[target]
        if node["size"] == 0:
            continue
        node["residual"] += share * g.entries[e]["weight"]
        if node["listed"] == 0:
            node["listed"] = 1
            set_policy(g, target, rules)
            order[count] = target
            count += 1
    return count


def reach(g: Graph, order: Ints, count: int) -> int:
    """List every node that outcomes seen so far lead to from the listed ones;
    the number of listed nodes.
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
    rules: Rules,
) -> int:
    """Bring masses up to date for walks that start with the asked state's
    actions in proportion to ``source``; the listed nodes.

    Starts from the masses of last time: what they fail to balance is the
    residual, which is then passed on in the order of discovery until what is
    left at each node matters less than ``least`` (mass times width) or
    ``passes`` are over.
    """
    for i in range(count):
        node = g.nodes[order[i]]
        node["residual"] = -node["mass"]
        set_policy(g, order[i], rules)
    known = count
    for turn in range(1 + passes):
        busy = turn == 0
        i = 0
        while i < (known if turn == 0 else count):
            node = g.nodes[order[i]]
            moving = node["mass"] if turn == 0 else node["residual"]
            if turn > 0 and abs(moving) * (node["upper"] - node["lower"]) > least:
                node["mass"] += moving
                node["residual"] = 0.0
                busy = True
            elif turn > 0:
                moving = 0.0
            for a in range(node["size"]):
                p = node["first"] + a
                share = moving * g.pairs[p]["policy"] + (
                    source[a] if turn == 0 and i == 0 else 0.0
                )
                if share != 0.0:
                    count = pass_on(g, p, share, order, count, rules)
            i += 1
        if not busy:
            break
    set_gains(g, order, count, source)
    return count


def set_gains(g: Graph, order: Ints, count: int, source: Floats) -> None:
    """Write for every pair by how much one more draw narrows the answer: minus
    the derivative of flow * (radius up + radius down).
    """
    for i in range(count):
        node = g.nodes[order[i]]
        mass = max(0.0, node["mass"] + node["residual"])
        for a in range(node["size"]):
            pair = g.pairs[node["first"] + a]
            flow = mass * pair["policy"] + (source[a] if i == 0 else 0.0)
            n = pair["total"]
            if n == 0.0:
                pair["gain"] = (
                    flow * (node["q_high"] - node["q_low"]) / (2 * FIRST_BATCH)
                )
            elif pair["cost"] == 0.0:
                pair["gain"] = 0.0
            else:
                pair["gain"] = flow * (pair["slope_up"] + pair["slope_down"]) / (n * n)


def wanted(pair: Any, level: float, first_batch: int) -> int:
    """Draws that a pair should get when a call must be worth ``level``."""
    gain, n = pair["gain"], pair["total"]
    if gain <= level:
        return 0
    if n == 0.0:
        return first_batch
    extra = int(n * min(MOST_GROWTH, math.sqrt(gain / level) - 1.0))
    return extra if extra >= max(4.0, LEAST_SHARE * n) else 0


def asked(g: Graph, order: Ints, count: int, level: float, first_batch: int) -> int:
    """Draws that all pairs together should get at ``level``."""
    total = 0
    for i in range(count):
        node = g.nodes[order[i]]
        for p in range(node["first"], node["first"] + node["size"]):
            total += wanted(g.pairs[p], level, first_batch)
    return total


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
    """The number of jobs written to ``pairs`` and ``counts``: at most ``calls``
    draws, each worth ``floor`` where any is.

    A pair that has to catch up may so have a round for itself, while those that
    have enough wait.
    """
    top = 0.0
    best = -1
    for i in range(count):
        node = g.nodes[order[i]]
        for p in range(node["first"], node["first"] + node["size"]):
            if g.pairs[p]["gain"] > top:
                top, best = g.pairs[p]["gain"], p
    if best < 0 or calls < 1:
        return 0
    high = top
    # where all pairs are near the floor it tells nothing apart
    low = max(floor, top * 1e-20) if top > 4.0 * floor else top * 1e-20
    if asked(g, order, count, low, first_batch) <= calls:
        high = low
    else:
        for _ in range(40):  # halvings of log(high/low) <= 46: the level to 4e-11
            middle = math.sqrt(low * high)
            if asked(g, order, count, middle, first_batch) > calls:
                low = middle
            else:
                high = middle
    jobs = 0
    # at the second level there is room for some of the pairs that are tied there
    for level in (high, low):
        for i in range(count):
            node = g.nodes[order[i]]
            for p in range(node["first"], node["first"] + node["size"]):
                extra = wanted(g.pairs[p], level, first_batch)
                if 0 < extra <= calls:
                    pairs[jobs], counts[jobs] = p, extra
                    g.pairs[p]["gain"] = 0.0
                    jobs += 1
                    calls -= extra
    if jobs == 0:
        pairs[0], counts[0] = (
            best,
            min(calls, max(first_batch, int(g.pairs[best]["total"]))),
        )
        jobs = 1
    return jobs
