"""The root of Gumbel MuZero: its Gumbel numbers, its plan, and its recommendation.

The numbers are drawn once for each root, from a stream of their own, and stay the same
while the root does. The plan is that of sequential halving over the simulations that
are expected; a tree that grows further goes on by the rule of the nodes below.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from smoothcruiser.jit.keys import GUMBEL, Key
from smoothcruiser.jit.streams import stream
from smoothcruiser.tree.asking_kernel import GumbelRoot
from smoothcruiser.tree.node import Node
from smoothcruiser.tree.prior_kernel import (
    considered_visits,
    halving_best,
    improved_policy,
    transform_values,
)
from smoothcruiser.tree.prior_searches import PLANNED, Gumbel
from smoothcruiser.tree.searches import IMPROVED

if TYPE_CHECKING:
    from smoothcruiser.tree.tree import Tree


def plan_root(tree: Tree, simulations: int | None) -> None:
    """Give a root of Gumbel MuZero its numbers, unless it has them."""
    search, gumbel_root = tree.method, getattr(tree._backend, "gumbel", None)
    if not isinstance(search, Gumbel) or gumbel_root is None or len(gumbel_root.plan):
        return
    K, root = tree.problem.num_actions, tree.node(0)
    rng = stream(tree.seed, Key.TREE, tree.elapsed, GUMBEL)
    gumbel_numbers = [
        -math.log(-math.log(_positive_uniform(rng.random()))) * search.noise
        for _ in range(K)
    ]
    visits_before = np.zeros(K, np.int64)
    visits_before[list(root.actions)] = root.edge_visits
    num_planned = search.planned or simulations or PLANNED
    num_considered = min(search.considered, len(root.actions), num_planned)
    visit_plan = np.array(considered_visits(num_considered, num_planned), np.int64)
    tree._backend.gumbel = GumbelRoot(
        np.array(gumbel_numbers), visits_before, visit_plan
    )


def _positive_uniform(u: float) -> float:
    """A uniform number away from 0, where its logarithm ends."""
    return max(u, 2.0**-60)


def gumbel_action(tree: Tree, node: Node) -> int:
    """The action of a Gumbel root: the best of the most visited ones."""
    gumbel_root, rule, num_legal = tree._backend.gumbel, tree.rule, len(node.actions)
    x = [node.sign * q for q in tree.q_values(0)]
    n, w, y = list(node.edge_visits), list(node.prior or ()), [0.0] * num_legal
    transform_values(rule, x, n, w, node.sign * node.first, num_legal, y)
    acts = node.actions
    most_visits = max(n[j] - int(gumbel_root.since[a]) for j, a in enumerate(acts))
    best_slot = halving_best(n, w, acts, num_legal, gumbel_root, most_visits, y)
    return acts[best_slot]


def search_policy(tree: Tree, number: int = 0) -> list[float]:
    """The training target of a policy at a node: shares of all K actions."""
    node = tree.node(number)
    num_legal, action_shares = len(node.actions), [0.0] * tree.problem.num_actions
    legal_shares = [0.0] * num_legal
    if tree.rule.descent == IMPROVED:
        x = [node.sign * q for q in tree.q_values(number)]
        n, w = list(node.edge_visits), list(node.prior or ())
        first_value, y = node.sign * node.first, [0.0] * num_legal
        improved_policy(tree.rule, x, n, w, first_value, num_legal, y, legal_shares)
    else:
        total_visits = sum(node.edge_visits)
        legal_shares = [
            n / total_visits if total_visits else 1.0 / num_legal
            for n in node.edge_visits
        ]
    for action, share in zip(node.actions, legal_shares, strict=True):
        action_shares[action] = share
    return action_shares
