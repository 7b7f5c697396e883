"""How bounds move over the seen graph, compiled.

The problem: with radii that hold, every seen state has L(s) <= V(s) <= U(s); F
is monotone, so

    U(s) <- min(U(s), F(Q_U)),
    Q_U(a) <- min(Q_U(a), the upper bound of r + gamma U),      and L from below,

keep that true for max and min players alike, in any order and at any stop.
A sweep runs them backwards through the states in the order they were met, in place
(Gauss-Seidel), so a change far away passes many states in one sweep.

It leaves out which states have their turn (``changes_kernel``), the bounds (``BOUND``
is replaced by that of the search) and where samples pay (``steering_kernel``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from smoothcruiser.certified.bounds.base import (
    UNIT,
    BoundRules,
    Outcomes,
    sample_mean,
    value_rounding,
)
from smoothcruiser.operators.dispatch import builtin_gradient, builtin_value


class SweepRules(NamedTuple):
    """The constants of a query, and scratch arrays."""

    bound: BoundRules
    operator: int
    temperature: float
    shrink: float  # 1; tests divide radii by 4 to see the promise break
    # how much the near bound of an action counts beside the far one when samples are
    # steered: it tells apart actions with equal far bounds
    tie: float
    priors: Any  # (K,) of floats: the operator's weight of each action
    q: Any  # (K,) of floats: scratch
    w: Any  # (K,)
    out: Any  # (K,)


def write_policy(size: int, rules: SweepRules, policy: Any) -> None:
    """Write grad F at the first ``size`` action values of ``rules.q``."""
    q, w = rules.q[:size], rules.w[:size]
    builtin_gradient(rules.operator, q, w, rules.temperature, policy)


def BOUND(g: Outcomes, pair: Any, upper: bool, tune: int, rules: BoundRules) -> float:
    """Stand for ``Bound.side``, which replaces it in the loops of a search."""
    raise NotImplementedError


def exact_side(g: Outcomes, pair: Any, upper: bool, rules: BoundRules) -> float:
    """Return the bound of one side where one sample is exact.

    Only the sum is rounded.
    """
    slack = (pair["length"] + 4) * UNIT * rules.scale
    mean = sample_mean(g, pair, upper, rules)
    return float(mean + slack if upper else mean - slack)


def update_pair(
    seen: Outcomes, pair: Any, upper: bool, tune: int, rules: SweepRules
) -> None:
    """Bring the upper (or lower) bound of a pair that has samples up to date."""
    if pair["cost"] == 0.0:
        bound = exact_side(seen, pair, upper, rules.bound)
    else:
        bound = BOUND(seen, pair, upper, tune, rules.bound)
    if rules.shrink != 1.0:  # wrong on purpose, for tests
        mean = sample_mean(seen, pair, upper, rules.bound)
        bound = mean + (bound - mean) * rules.shrink
    if upper and bound < pair["q_upper"]:
        pair["q_upper"] = bound
    elif not upper and bound > pair["q_lower"]:
        pair["q_lower"] = bound


def node_bound(node: Any, pairs: Any, upper: bool, rules: SweepRules) -> float:
    """The upper (or lower) bound on V that those of the node's pairs give."""
    num_actions, sign, first_pair = node["size"], node["sign"], node["first"]
    for a in range(num_actions):
        pair = pairs[first_pair + a]
        rules.q[a] = sign * (pair["q_upper"] if upper else pair["q_lower"])
        rules.w[a] = rules.priors[pair["action"]]
    value = sign * builtin_value(
        rules.operator, rules.q[:num_actions], rules.w[:num_actions], rules.temperature
    )
    rounding = value_rounding(num_actions, rules.bound.scale, rules.temperature)
    return float(value + rounding if upper else value - rounding)


def backup_side(
    nodes: Any,
    pairs: Any,
    entries: Any,
    i: int,
    upper: bool,
    tune: int,
    rules: SweepRules,
) -> float:
    """Bring the upper (or lower) bounds of node ``i`` up to date.

    Returns by how much the bound on its value closed.
    """
    outcomes, node = Outcomes(nodes, entries), nodes[i]
    for p in range(node["first"], node["first"] + node["size"]):
        if pairs[p]["total"] > 0.0:
            update_pair(outcomes, pairs[p], upper, tune, rules)
    value = node_bound(node, pairs, upper, rules)
    if upper:
        closed = node["upper"] - value
        if closed > 0.0:
            node["upper"] = value
    else:
        closed = value - node["lower"]
        if closed > 0.0:
            node["lower"] = value
    return float(max(0.0, closed))
