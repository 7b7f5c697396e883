"""Searches that descend by a prior over actions: PUCT and Gumbel MuZero.

  method  descends by                                     passes up        recommends
  PUCT    argmax Q + c(N) p sqrt(N) / (1 + n)             the mean return  most visited
  Gumbel  at the root sequential halving of g + log p +   the mean return  the last one
          s(Q); below argmax pi' - n / (1 + sum n)                         left

The rules, with their symbols, are in ``tree.kernels.rules_kernel``. ``prior`` has one weight per
action of the player to move, and ``network`` returns (prior, value) at once. Without
either the prior is uniform; without a value a leaf is worth a rollout.

The root of Gumbel MuZero: its Gumbel numbers, its plan, and its recommendation.

The numbers are drawn once for each root, from a stream of their own, and stay the same
while the root does. The plan is that of sequential halving over the simulations that
are expected; a tree that grows further goes on by the rule of the nodes below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.random import GUMBEL, Key
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.operators import Max, Operator
from smoothcruiser.problem.arguments import is_whole
from smoothcruiser.tree.kernels.evaluator_kernel import GumbelRoot
from smoothcruiser.tree.kernels.rules_kernel import (
    considered_visits,
    halving_best,
    improved_policy,
    transform_values,
)
from smoothcruiser.tree.node import Node, SearchTree
from smoothcruiser.tree.search_numbers import IMPROVED, MEAN, PRIOR_UPPER, TreeRule
from smoothcruiser.tree.search_rules import TREE_SEARCHES, Search, check_finite

PLANNED = 64  # simulations of sequential halving where no number was given


@dataclass(frozen=True, kw_only=True)
class _Prior(Search):
    """The shared parameters of searches by a prior."""

    prior: Any = None  # one weight per action; None: equal ones
    network: Any = None  # (prior, value) from one function, instead of the two

    def __post_init__(self) -> None:
        self._read_evaluator("prior")
        self._read_evaluator("network")
        super().__post_init__()
        if self.network is not None and (self.prior or self.value) is not None:
            raise InvalidInput(
                f"{self.name}: network returns a prior and a value; give either it or "
                "prior= and value=."
            )
        if self.expansion != 1:
            raise InvalidInput(
                f"{self.name}: a node needs its prior before the descent goes on; "
                f"expansion must be 1, got {self.expansion!r}."
            )

    @property
    def asks(self) -> bool:
        return True

    def operator(self, problem_operator: Operator) -> Operator:
        return Max()

    def _rule(self, descent: int, exploration: float, **numbers: float) -> TreeRule:
        shared_numbers = {"up": MEAN, "code": Max.code, "most_visited": True}
        return self._rule_of(
            descent=descent, exploration=exploration, **shared_numbers, **numbers
        )


@dataclass(frozen=True, kw_only=True)
class PUCT(_Prior):
    """AlphaZero's rule (Silver et al. 2018): a prior steers the upper bounds."""

    # None: values are scaled to [0, 1] at each node, with c_0 = 1.25
    exploration: float | None = None
    base: float = 19_652.0  # as published: c grows once N is of this order
    name: ClassVar[str] = "puct"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite(self, "exploration", optional=True, least=0.0)
        check_finite(self, "base", least=1.0)

    def rule(self, problem_operator: Operator) -> TreeRule:  # noqa: D102
        c = math.nan if self.exploration is None else float(self.exploration)
        return self._rule(PRIOR_UPPER, c, base=float(self.base))


@dataclass(frozen=True, kw_only=True)
class Gumbel(_Prior):
    """Gumbel MuZero (Danihelka et al. 2022): good with very few simulations.

    Its root tries ``considered`` actions sampled without replacement from the prior and
    halves them; its recommendation is better than the prior in expectation.
    """

    considered: int = 16
    # None: those of the first growth, where it is limited by them, else 64
    planned: int | None = None
    noise: float = 1.0  # of the Gumbel numbers; 0: the best by prior and value
    value_scale: float = 0.1  # as published, for values scaled to [0, 1]
    visit_offset: float = 50.0
    name: ClassVar[str] = "gumbel"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("considered", "planned"):
            value = getattr(self, name)
            is_default = value is None and name == "planned"
            if not is_default and (not is_whole(value) or value < 1):
                raise InvalidInput(
                    f"{self.name}: {name} must be a whole number of at least 1, got "
                    f"{value!r}."
                )
        for name in ("noise", "value_scale", "visit_offset"):
            check_finite(self, name, least=0.0)

    def rule(self, problem_operator: Operator) -> TreeRule:  # noqa: D102
        value_scale, visit_offset = float(self.value_scale), float(self.visit_offset)
        return self._rule(
            IMPROVED, 0.0, value_scale=value_scale, visit_offset=visit_offset
        )


for _search in (PUCT(), Gumbel()):
    TREE_SEARCHES[_search.name] = _search


def plan_root(tree: SearchTree, search: Gumbel, simulations: int | None) -> None:
    """Give a root of Gumbel MuZero its numbers, unless it has them."""
    gumbel_root = getattr(tree.backend, "gumbel", None)
    if gumbel_root is None or len(gumbel_root.plan):
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
    tree.backend.gumbel = GumbelRoot(
        np.array(gumbel_numbers), visits_before, visit_plan
    )


def _positive_uniform(u: float) -> float:
    """A uniform number away from 0, where its logarithm ends."""
    return max(u, 2.0**-60)


def gumbel_action(tree: SearchTree, node: Node) -> int:
    """The action of a Gumbel root: the best of the most visited ones."""
    gumbel_root, rule, num_legal = tree.backend.gumbel, tree.rule, len(node.actions)
    x = [node.sign * q for q in tree.q_values(0)]
    n, w, y = list(node.edge_visits), list(node.prior or ()), [0.0] * num_legal
    transform_values(rule, x, n, w, node.sign * node.first, num_legal, y)
    acts = node.actions
    most_visits = max(n[j] - int(gumbel_root.since[a]) for j, a in enumerate(acts))
    best_slot = halving_best(n, w, acts, num_legal, gumbel_root, most_visits, y)
    return acts[best_slot]


def search_policy(tree: SearchTree, number: int = 0) -> list[float]:
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
