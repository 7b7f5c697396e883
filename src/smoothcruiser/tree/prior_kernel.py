"""How a node descends by a prior over its actions: PUCT, and Gumbel MuZero's rules.

As in ``tree.selection`` everything is seen from the mover's point of view, over the
legal actions, in scalar arithmetic of a fixed order: one definition for the plain and
for the compiled tree.

  PUCT (Silver et al. 2018)
    argmax x + c(N) p sqrt(N) / (1 + n),  c(N) = c_0 + log((1 + N + base) / base)
    N = 1 + sum n, the visits of the node with its own evaluation. c_0 is
    ``exploration``; NaN: 1.25, and x is scaled to [0, 1] over the node's actions.
  Gumbel MuZero (Danihelka et al. 2022)
    completed values   q(a) = x where tried, else
                       v_mix = (v + (sum n) sum_tried p x / sum_tried p) / (1 + sum n)
    transform          s(q) = (visit_offset + max n) value_scale q, q scaled to [0, 1]
    improved policy    pi' = softmax(log p + s(q))                       (their eq. 4)
    below the root     argmax pi' - n / (1 + sum n)                      (their eq. 14)
    at the root        argmax g + log p + s(q) among the actions with as many visits as
                       sequential halving considers next; g are Gumbel(0) numbers that
                       were drawn once

legend  x, n: signed values and visits; p, here ``w``: the prior; v, here ``first``: the
        evaluator's signed value of the node; g: ``gumbels``, by action

What this file leaves out: where priors come from (``tree.evaluators``).
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.tree.searches import TreeRule

USUAL_EXPLORATION = 1.25  # c_0 of AlphaZero and MuZero, for values in [0, 1]
LEAST_SPREAD = 1e-8  # values closer than this count as equal when they are scaled
LEAST_LOGIT = -700.0  # of an action with prior 0: exp of it is still above 0


def considered_visits(considered: int, simulations: int) -> list[int]:
    """The visits that the chosen root action has had, for each simulation in turn.

    It is sequential halving over ``considered`` actions in ``simulations`` steps,
    written by visits: a phase gives each action that is left as many visits as its
    share of the simulations, at least one; then the better half goes on, two at the
    least.
    """
    if considered <= 1:
        return list(range(simulations))
    phases = math.ceil(math.log2(considered))
    visits, left = 0, considered
    plan: list[int] = []
    while len(plan) < simulations:
        for _ in range(max(1, simulations // (phases * left))):
            plan += [visits] * left
            visits += 1
        left = max(2, left // 2)
    return plan[:simulations]


def shares_of(prior: Any, acts: Any, size: int, out: Any) -> bool:
    """Write the shares of the legal actions' weights; False where they are unusable.

    Weights of illegal actions are ignored. The legal ones have to be finite, at least 0
    and not all 0.
    """
    total = 0.0
    for j in range(size):
        weight = prior[acts[j]]
        if not 0.0 <= weight < math.inf:
            return False
        total += weight
    if not 0.0 < total < math.inf:
        return False
    for j in range(size):
        out[j] = prior[acts[j]] / total
    return True


def best_untried(x: Any, n: Any, size: int) -> int:
    """The untried slot with the largest value, -1 where all were tried."""
    best = -1
    for j in range(size):
        if n[j] == 0 and (best < 0 or x[j] > x[best]):
            best = j
    return best


def prior_pick(rule: TreeRule, x: Any, n: Any, w: Any, size: int) -> int:
    """The slot that PUCT selects; the first of equals wins."""
    total = 1
    low, high = math.inf, -math.inf
    for j in range(size):
        total += n[j]
        low, high = min(low, x[j]), max(high, x[j])
    scaled = math.isnan(rule.exploration)
    c = USUAL_EXPLORATION if scaled else rule.exploration
    c += math.log((total + rule.base) / rule.base)
    reach = c * math.sqrt(float(total))
    best = 0
    top = -math.inf
    for j in range(size):
        value = x[j]
        if scaled:
            value = (value - low) / (high - low) if high - low > LEAST_SPREAD else 0.0
        score = value + reach * w[j] / (1 + n[j])
        if score > top:
            top = score
            best = j
    return best


def logit(share: float) -> float:
    """The logarithm of a share of the prior."""
    return max(math.log(share), LEAST_LOGIT) if share > 0.0 else LEAST_LOGIT


def transformed(
    rule: TreeRule, x: Any, n: Any, w: Any, first: float, size: int, y: Any
) -> None:
    """Write s(q) of the completed values to ``y``."""
    total, most = 0, 0
    mass, mean = 0.0, 0.0
    for j in range(size):
        total += n[j]
        most = max(most, n[j])
        if n[j] > 0:
            mass += w[j]
            mean += w[j] * x[j]
    mixed = first
    if mass > 0.0:
        mixed = (first + total * (mean / mass)) / (1 + total)
    low, high = math.inf, -math.inf
    for j in range(size):
        y[j] = x[j] if n[j] > 0 else mixed
        low, high = min(low, y[j]), max(high, y[j])
    spread = max(high - low, LEAST_SPREAD)
    scale = (rule.visit_offset + most) * rule.value_scale
    for j in range(size):
        y[j] = scale * ((y[j] - low) / spread)


def improved_policy(
    rule: TreeRule, x: Any, n: Any, w: Any, first: float, size: int, y: Any, p: Any
) -> None:
    """Write pi' = softmax(log p + s(q)) to ``p``; ``y`` is workspace."""
    transformed(rule, x, n, w, first, size, y)
    top = -math.inf
    for j in range(size):
        y[j] += logit(w[j])
        top = max(top, y[j])
    total = 0.0
    for j in range(size):
        p[j] = math.exp(y[j] - top)
        total += p[j]
    for j in range(size):
        p[j] /= total


def improved_pick(
    rule: TreeRule, x: Any, n: Any, w: Any, first: float, size: int, y: Any, p: Any
) -> int:
    """The slot whose visits are furthest behind the improved policy."""
    improved_policy(rule, x, n, w, first, size, y, p)
    total = 1
    for j in range(size):
        total += n[j]
    best = 0
    top = -math.inf
    for j in range(size):
        score = p[j] - n[j] / total
        if score > top:
            top = score
            best = j
    return best


def halving_pick(
    rule: TreeRule, x: Any, n: Any, w: Any, first: float, acts: Any, size: int,
    root: Any, y: Any,
) -> int:  # fmt: skip
    """The root's slot by sequential halving, -1 where its plan is over."""
    done = 0
    for j in range(size):
        done += n[j] - root.since[acts[j]]
    if done >= len(root.plan):
        return -1
    transformed(rule, x, n, w, first, size, y)
    return halving_best(n, w, acts, size, root, root.plan[done], y)


def halving_best(
    n: Any, w: Any, acts: Any, size: int, root: Any, visits: int, y: Any
) -> int:
    """The slot with the largest g + log p + s(q) among those with ``visits``, or -1.

    Visits are counted from when the node became the root.
    """
    best = -1
    top = -math.inf
    for j in range(size):
        if n[j] - root.since[acts[j]] == visits:
            score = root.gumbels[acts[j]] + logit(w[j]) + y[j]
            if score > top:
                top = score
                best = j
    return best
