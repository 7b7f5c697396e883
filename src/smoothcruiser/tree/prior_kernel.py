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

legend  x, n: signed values and visits; p, here ``w``: the prior; v, here
        ``first_value``: the evaluator's signed value of the node; g: ``gumbels``, by
        action

Not in this file: the sources of priors (``tree.evaluators``).
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
    num_phases = math.ceil(math.log2(considered))
    visits_given, actions_left = 0, considered
    plan: list[int] = []
    while len(plan) < simulations:
        for _ in range(max(1, simulations // (num_phases * actions_left))):
            plan += [visits_given] * actions_left
            visits_given += 1
        actions_left = max(2, actions_left // 2)
    return plan[:simulations]


def shares_of(prior: Any, acts: Any, size: int, out: Any) -> bool:
    """Write the shares of the legal actions' weights; False where they are unusable.

    Weights of illegal actions are ignored. The legal ones have to be finite, at least 0
    and not all 0.
    """
    total_weight = 0.0
    for j in range(size):
        weight = prior[acts[j]]
        if not 0.0 <= weight < math.inf:
            return False
        total_weight += weight
    if not 0.0 < total_weight < math.inf:
        return False
    for j in range(size):
        out[j] = prior[acts[j]] / total_weight
    return True


def best_untried(x: Any, n: Any, size: int) -> int:
    """The untried slot with the largest value, -1 where all were tried."""
    best_slot = -1
    for j in range(size):
        if n[j] == 0 and (best_slot < 0 or x[j] > x[best_slot]):
            best_slot = j
    return best_slot


def prior_pick(rule: TreeRule, x: Any, n: Any, w: Any, size: int) -> int:
    """The slot that PUCT selects; the first of equals wins."""
    total_visits = 1
    lowest_value, highest_value = math.inf, -math.inf
    for j in range(size):
        total_visits += n[j]
        lowest_value, highest_value = min(lowest_value, x[j]), max(highest_value, x[j])
    is_scaled = math.isnan(rule.exploration)
    c = USUAL_EXPLORATION if is_scaled else rule.exploration
    c += math.log((total_visits + rule.base) / rule.base)
    bonus_scale = c * math.sqrt(float(total_visits))
    best_slot = 0
    best_score = -math.inf
    for j in range(size):
        value = x[j]
        if is_scaled:
            value = (
                (value - lowest_value) / (highest_value - lowest_value)
                if highest_value - lowest_value > LEAST_SPREAD
                else 0.0
            )
        score = value + bonus_scale * w[j] / (1 + n[j])
        if score > best_score:
            best_score = score
            best_slot = j
    return best_slot


def logit(share: float) -> float:
    """The logarithm of a share of the prior."""
    return max(math.log(share), LEAST_LOGIT) if share > 0.0 else LEAST_LOGIT


def transform_values(
    rule: TreeRule, x: Any, n: Any, w: Any, first_value: float, size: int, y: Any
) -> None:
    """Write s(q) of the completed values to ``y``."""
    total_visits, most_visits = 0, 0
    tried_mass, tried_sum = 0.0, 0.0
    for j in range(size):
        total_visits += n[j]
        most_visits = max(most_visits, n[j])
        if n[j] > 0:
            tried_mass += w[j]
            tried_sum += w[j] * x[j]
    mixed_value = first_value
    if tried_mass > 0.0:
        mixed_value = (first_value + total_visits * (tried_sum / tried_mass)) / (
            1 + total_visits
        )
    lowest_value, highest_value = math.inf, -math.inf
    for j in range(size):
        y[j] = x[j] if n[j] > 0 else mixed_value
        lowest_value, highest_value = min(lowest_value, y[j]), max(highest_value, y[j])
    value_spread = max(highest_value - lowest_value, LEAST_SPREAD)
    visit_scale = (rule.visit_offset + most_visits) * rule.value_scale
    for j in range(size):
        y[j] = visit_scale * ((y[j] - lowest_value) / value_spread)


def improved_policy(
    rule: TreeRule,
    x: Any,
    n: Any,
    w: Any,
    first_value: float,
    size: int,
    y: Any,
    p: Any,
) -> None:
    """Write pi' = softmax(log p + s(q)) to ``p``; ``y`` is workspace."""
    transform_values(rule, x, n, w, first_value, size, y)
    largest_logit = -math.inf
    for j in range(size):
        y[j] += logit(w[j])
        largest_logit = max(largest_logit, y[j])
    exp_sum = 0.0
    for j in range(size):
        p[j] = math.exp(y[j] - largest_logit)
        exp_sum += p[j]
    for j in range(size):
        p[j] /= exp_sum


def improved_pick(
    rule: TreeRule,
    x: Any,
    n: Any,
    w: Any,
    first_value: float,
    size: int,
    y: Any,
    p: Any,
) -> int:
    """The slot with its visits furthest behind the improved policy."""
    improved_policy(rule, x, n, w, first_value, size, y, p)
    total_visits = 1
    for j in range(size):
        total_visits += n[j]
    best_slot = 0
    best_score = -math.inf
    for j in range(size):
        score = p[j] - n[j] / total_visits
        if score > best_score:
            best_score = score
            best_slot = j
    return best_slot


def halving_pick(
    rule: TreeRule, x: Any, n: Any, w: Any, first_value: float, acts: Any, size: int,
    root: Any, y: Any,
) -> int:  # fmt: skip
    """The root's slot by sequential halving, -1 where its plan is over."""
    visits_made = 0
    for j in range(size):
        visits_made += n[j] - root.since[acts[j]]
    if visits_made >= len(root.plan):
        return -1
    transform_values(rule, x, n, w, first_value, size, y)
    return halving_best(n, w, acts, size, root, root.plan[visits_made], y)


def halving_best(
    n: Any, w: Any, acts: Any, size: int, root: Any, visits: int, y: Any
) -> int:
    """The slot with the largest g + log p + s(q) among those with ``visits``, or -1.

    Visits are counted from when the node became the root.
    """
    best_slot = -1
    best_score = -math.inf
    for j in range(size):
        if n[j] - root.since[acts[j]] == visits:
            score = root.gumbels[acts[j]] + logit(w[j]) + y[j]
            if score > best_score:
                best_score = score
                best_slot = j
    return best_slot
