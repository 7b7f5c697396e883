"""The descent, the value passed up and the recommendation of a node.

The six methods are small functions of one node's numbers.

Everything is seen from the mover's point of view: x[j] = sign * Q of the j-th
legal action, so that both players maximize x. The functions are plain Python
over lists or arrays and are compiled for the engine (``jit.build``). They do
scalar arithmetic in a fixed order, so that the plain and the compiled tree
agree to the last bit.

legend   symbol     name here
  x, n              ``x``, ``n``: signed values and visits of the ``size`` legal actions
  N(s)              ``visits`` of the node
  w, pi_0           prior weights of the actions (RENTS)
  h                 ``h``: signed entropy below each action (DENTS)
  p                 ``p``: the policy of the descent, written by ``descent_policy``
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.operators.dispatch import builtin_gradient, builtin_value
from smoothcruiser.operators.sampling import proportional
from smoothcruiser.tree.search_numbers import SMOOTH, TreeRule

# Adaptive exploration of a node with all values 0: a thousandth of a unit, so that
# it still explores.
SMALLEST_SCALE = 1e-3


def upper_pick(
    rule: TreeRule, x: Any, n: Any, size: int, visits: int, rng: Any
) -> int:
    """The slot that UCT selects: a random untried action, or the best upper bound.

    The bound is x + c sqrt(log N / n), and the first of equals wins.
    """
    num_untried = 0
    for j in range(size):
        if n[j] == 0:
            num_untried += 1
    if num_untried > 0:
        untried_left = rng.integers(num_untried)
        for j in range(size):
            if n[j] == 0:
                if untried_left == 0:
                    return j
                untried_left -= 1
    c = rule.exploration
    if math.isnan(c):
        c = SMALLEST_SCALE
        for j in range(size):
            if abs(x[j]) > c:
                c = abs(x[j])
    log_visits = math.log(float(visits)) if visits > 1 else 0.0
    best_slot = 0
    best_score = -math.inf
    for j in range(size):
        score = x[j] + c * math.sqrt(log_visits / n[j])
        if score > best_score:
            best_score = score
            best_slot = j
    return best_slot


def own_pick(rule: TreeRule, x: Any, n: Any, size: int, visits: int, rng: Any) -> int:
    """The slot of a rule that brings its own formula: ``Search.pick`` stands here."""
    return 0


def uniform_share(rule: TreeRule, size: int, visits: int) -> float:
    """The share l of uniform exploration in the descent policy.

    BTS and DENTS use min(1, e / log(N + exp 1)).

    E2W methods use min(1, e |A| / log(N + 1)).
    """
    if rule.exploration <= 0.0:
        return 0.0
    strength = rule.exploration * size if rule.counts_actions else rule.exploration
    log_visits = math.log(visits + rule.shift)
    return 1.0 if log_visits <= strength else strength / log_visits


def entropy_weight(rule: TreeRule, visits: int) -> float:
    """The weight b(N) = b(0) / log(N + exp 1) of the entropy in DENTS."""
    return rule.entropy / math.log(visits + math.e)


def descent_policy(
    rule: TreeRule, x: Any, w: Any, h: Any, visits: int, y: Any, p: Any
) -> None:
    """Write the policy (1 - l) grad F(x + b h) + l / |A| to ``p``.

    All arguments have one entry per action; ``y`` is workspace.
    """
    size = len(x)
    b = entropy_weight(rule, visits) if rule.entropy > 0.0 else 0.0
    for j in range(size):
        y[j] = x[j] + b * h[j] if b > 0.0 else x[j]
    t = (
        rule.temperature / math.log(visits + math.e)
        if rule.cools
        else rule.temperature
    )
    builtin_gradient(rule.code, y, w, t, p)
    exploration_share = uniform_share(rule, size, visits)
    for j in range(size):
        p[j] = (1.0 - exploration_share) * p[j] + exploration_share / size


def visit_shares(n: Any, size: int, w: Any) -> int:
    """The node's visits; each action's share of them is written to ``w``.

    Nothing is written where there are no visits.
    """
    total_visits = 0
    for j in range(size):
        total_visits += n[j]
    if total_visits > 0:
        for j in range(size):
            w[j] = n[j] / total_visits
    return total_visits


def sample_slot(p: Any, size: int, rng: Any) -> int:
    """An index sampled in proportion to ``p``, by one uniform and a running sum."""
    total_weight = 0.0
    for j in range(size):
        total_weight += p[j]
    return proportional(p, size, rng.random() * total_weight)


def passed_up(rule: TreeRule, x: Any, n: Any, w: Any) -> float:
    """The signed value of the node: F(x), or the best of the tried actions.

    Mean returns are kept by the backup itself.
    """
    if rule.up == SMOOTH:
        return builtin_value(rule.code, x, w, rule.temperature)
    best_value = -math.inf
    for j in range(len(x)):
        if n[j] > 0 and x[j] > best_value:
            best_value = x[j]
    return best_value


def entropy_below(p: Any, h: Any, size: int) -> float:
    """H(p) + <p, h>: the entropy of the node and of later nodes."""
    total_entropy = 0.0
    for j in range(size):
        if p[j] > 0.0:
            total_entropy += p[j] * (h[j] - math.log(p[j]))
    return total_entropy


def recommended_slot(rule: TreeRule, x: Any, n: Any, size: int) -> int:
    """The slot of the action to take: the most visited or the best value.

    The other criterion breaks ties, and tried actions come first.
    """
    best_slot = 0
    for j in range(1, size):
        if n[j] == 0 and n[best_slot] > 0:
            continue
        if n[best_slot] == 0 and n[j] > 0:
            best_slot = j
        elif rule.most_visited:
            if n[j] > n[best_slot] or (n[j] == n[best_slot] and x[j] > x[best_slot]):
                best_slot = j
        elif x[j] > x[best_slot] or (x[j] == x[best_slot] and n[j] > n[best_slot]):
            best_slot = j
    return best_slot
