"""A plain tree that asks an evaluator at its leaves: the specification of ``evaluator_kernel``.

A descent that ends in a new leaf waits with its path instead of being backed up;
``_back_up_waiting`` answers and backs up all that wait, in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from smoothcruiser.problem.bounds import middle_at
from smoothcruiser.problem.states import lend_copy
from smoothcruiser.tree.evaluators.base import Leaves
from smoothcruiser.tree.evaluators.evaluator_queue import TreeEvaluators
from smoothcruiser.tree.kernels.evaluator_kernel import EvaluatorTree
from smoothcruiser.tree.kernels.kernel import TreeStart
from smoothcruiser.tree.kernels.rules_kernel import (
    best_untried,
    halving_pick,
    improved_pick,
    prior_pick,
    shares_of,
)
from smoothcruiser.tree.plain.plain_nodes import Node, PlainNode
from smoothcruiser.tree.plain.plain_tree import PlainTree
from smoothcruiser.tree.search_rules import (
    IMPROVED,
    PARENT_PRIOR,
    PRIOR_UPPER,
    UPPER,
    VISITS_PRIOR,
)
from smoothcruiser.tree.selection import (
    descent_policy,
    sample_slot,
    upper_pick,
    visit_shares,
)
from smoothcruiser.tree.template import Selection, Step


class EvaluatedNode(PlainNode):
    """A node with a prior, first values, and visits that wait."""

    __slots__ = ("first_q", "prior", "waits")

    def __init__(self, state: Any, sign: float, actions: list[int]) -> None:
        super().__init__(state, sign, actions)
        # zeros until it is informed
        self.prior, self.first_q = [0.0] * len(actions), [0.0] * len(actions)
        self.waits = [0] * len(actions)

    def twin(self) -> EvaluatedNode:
        """A copy with the same numbers, without children."""
        node_copy = EvaluatedNode(self.state, self.sign, self.actions)
        for name in PlainNode.__slots__:
            value = getattr(self, name)
            value_copy = list(value) if isinstance(value, list) else value
            setattr(node_copy, name, {} if isinstance(value, dict) else value_copy)
        node_copy.prior, node_copy.first_q = list(self.prior), list(self.first_q)
        node_copy.waits = list(self.waits)
        return node_copy


class WaitingPath(NamedTuple):
    """A descent with a leaf that waits."""

    path: tuple[Step, ...]
    nodes: tuple[EvaluatedNode, ...]
    leaf: EvaluatedNode | None
    state: Any
    rolled: float


class PlainEvaluatorTree(EvaluatorTree, PlainTree):
    """The tree of any problem with evaluators at its leaves."""

    node_class = EvaluatedNode
    root: EvaluatedNode
    nodes: list[EvaluatedNode]  # type: ignore[assignment]

    def __init__(self, evaluators: TreeEvaluators, start: TreeStart) -> None:
        self.set_evaluators(evaluators, start)
        self.leaf_setting = evaluators.leaf_setting
        self.queue: list[WaitingPath] = []
        self.collided = self.num_asked = self.num_clipped = 0
        self.collides = False
        super().__init__(start)
        self._inform_root()

    # --- the loop -------------------------------------------------------------

    def _simulate(self, simulations: int, calls: int) -> bool:
        while True:
            num_queued = len(self.queue)
            if num_queued and (
                num_queued == self.leaf_setting.batch
                or self.collided >= self.leaf_setting.collisions
                or self.simulations + num_queued >= simulations
            ):
                self._back_up_waiting()
            elif self.simulations >= simulations:
                return True
            elif not super()._simulate(self.simulations + 1, calls):
                return False
            elif len(self.queue) > num_queued:
                self.simulations -= 1  # it is not over yet

    def flush(self) -> None:
        """Answer the leaves that still wait."""
        if self.queue:
            self._back_up_waiting()

    def _back_up_waiting(self) -> None:
        leaf_setting = self.leaf_setting
        path_lengths = [len(waiting_path.path) for waiting_path in self.queue]
        answer_rows = self.evaluators.answers(
            Leaves(
                len(self.queue),
                lambda: [lend_copy(waiting_path.state) for waiting_path in self.queue],
                remaining=self._remaining(path_lengths),
            )
        ).tolist()
        for waiting_path, answer_row in zip(self.queue, answer_rows, strict=True):
            is_new = waiting_path.leaf is not None and waiting_path.leaf.visits == 0
            self._check(
                waiting_path.state, answer_row, waiting_path.leaf if is_new else None
            )
        settled_paths, self.queue, self.collided = self.queue, [], 0
        for waiting_path, answer_row in zip(settled_paths, answer_rows, strict=True):
            for node, step in zip(waiting_path.nodes, waiting_path.path, strict=True):
                node.waits[node.actions.index(step.selection.action)] -= 1
            leaf_estimate = waiting_path.rolled
            if leaf_setting.values:
                value = self._clip_value(answer_row[0])
                leaf_estimate = (
                    (1.0 - leaf_setting.mix) * value + leaf_setting.mix * leaf_estimate
                    if leaf_setting.mix > 0.0
                    else value
                )
            self._count_arrival(waiting_path.leaf, leaf_estimate)
            self.nodes = list(waiting_path.nodes)
            super().backup(waiting_path.path, leaf_estimate)
            self.simulations += 1
        self.num_asked += len(settled_paths)

    def _check(
        self, state: Any, answer_row: list[float], node: EvaluatedNode | None
    ) -> None:
        is_usable = not self.leaf_setting.values or math.isfinite(answer_row[0])
        if is_usable and node is not None:
            is_usable = self._inform(node, answer_row)
        if not is_usable:
            legal_actions = self.problem.legal_actions(state)
            raise self.evaluators.answer_error(state, answer_row, legal_actions)

    def _inform(self, node: EvaluatedNode, answer_row: list[float]) -> bool:
        """Give a node its priors and first values; False where they are unusable."""
        leaf_setting, K, num_legal = (
            self.leaf_setting,
            self.setting.num_actions,
            len(node.actions),
        )
        if leaf_setting.by_prior:
            node.prior = [1.0 / num_legal] * num_legal
            prior_weights = answer_row[1 : 1 + K]
            if leaf_setting.priors and not shares_of(
                prior_weights, node.actions, num_legal, node.prior
            ):
                return False
        if leaf_setting.firsts:
            node.first_q = [answer_row[1 + K + a] for a in node.actions]
            return all(math.isfinite(q) for q in node.first_q)
        return True

    def _clip_value(self, value: float) -> float:
        clipped_value = min(max(value, self.leaf_setting.low), self.leaf_setting.high)
        self.num_clipped += clipped_value != value
        return clipped_value

    def _count_arrival(self, node: EvaluatedNode | None, leaf_estimate: float) -> None:
        if node is None:
            return
        if node.visits == 0:
            node.visits, node.value, node.first = 1, leaf_estimate, leaf_estimate
            return
        node.visits += 1
        node.value += (leaf_estimate - node.value) / node.visits
        node.first = node.value

    def _inform_root(self) -> None:
        """Ask about the root, which is then a node like any other."""
        if self.root.visits > 0:
            return
        state = self.root.state
        steps_left = self._remaining([0])
        answer_row = self.evaluators.answers(
            Leaves(1, lambda: [lend_copy(state)], remaining=steps_left)
        )[0].tolist()
        self._check(state, answer_row, self.root)
        if self.leaf_setting.values:
            self.num_asked += 1
            self._count_arrival(self.root, self._clip_value(answer_row[0]))

    # --- the rules of the template --------------------------------------------

    def is_leaf(self, state: Any, depth: int) -> bool:
        """Whether the descent ends at this state."""
        if depth == 0:
            self.leaf: EvaluatedNode | None = None
            self.waits = self.collides = False
        return super().is_leaf(state, depth)

    def _enter(self, state: Any, depth: int) -> bool:
        """Whether the descent ends with the child of the last action."""
        parent, child_key = self.nodes[-1], (self.action, self.problem.key_of(state))
        known_child = parent.children.get(child_key)
        collides = (
            known_child is not None and id(known_child) not in self.pending_nodes
        )
        descent_ended = super()._enter(state, depth)
        if not descent_ended and self.nodes[-1].visits == 0:  # it waits already
            self.new_leaf, self.collides = self.nodes.pop(), collides
            return True
        return descent_ended

    def select_action(self, state: Any, depth: int) -> Selection:
        """The action that the method's tree policy selects."""
        node, rule, leaf_setting = self.nodes[-1], self.rule, self.leaf_setting
        x, h = self._gather_values(node, len(node.n))
        n, node_visits, num_legal = list(node.n), node.visits, len(x)
        for j, num_waiting in enumerate(node.waits):
            if num_waiting > 0:
                node_visits += num_waiting
                n[j] += num_waiting
                x[j] -= leaf_setting.loss * num_waiting / n[j]
        y, p = [0.0] * num_legal, [0.0] * num_legal
        j = -1
        if rule.descent == PRIOR_UPPER:
            j = prior_pick(rule, x, n, node.prior, num_legal)
        elif rule.descent == IMPROVED:
            first_value = node.sign * node.first
            if node is self.root:
                w, acts = node.prior, node.actions
                j = halving_pick(
                    rule, x, n, w, first_value, acts, num_legal, self.gumbel, y
                )
            if j < 0:
                j = improved_pick(rule, x, n, node.prior, first_value, num_legal, y, p)
        elif rule.descent == UPPER:
            if rule.warm:
                j = best_untried(x, n, num_legal)
            if j < 0:
                j = upper_pick(rule, x, n, num_legal, node_visits, self.rng)
        else:
            w = self._prior(node, depth, num_legal)
            if rule.prior == VISITS_PRIOR:
                visit_shares(n, num_legal, w)  # visits that wait count already
            descent_policy(rule, x, w, h, node_visits, y, p)
            j = sample_slot(p, num_legal, self.rng)
            if rule.prior == PARENT_PRIOR:
                policy_row = [1.0 / num_legal] * self.setting.num_actions
                for a, share in zip(node.actions, p, strict=True):
                    policy_row[a] = share
                self.policies.append(policy_row)
        self.slot, self.action = j, node.actions[j]
        return Selection(self.action)

    def _gather_values(
        self, node: PlainNode, max_actions: int
    ) -> tuple[list[float], list[float]]:
        x, h = super()._gather_values(node, max_actions)
        if self.rule.warm:
            assert isinstance(node, EvaluatedNode)
            for j, n in enumerate(node.n):
                if n == 0:
                    x[j] = node.sign * node.first_q[j]
            if self.setting.bounds:
                x = node.clip_values(x)
        return x, h

    def evaluate_leaf(self, state: Any, depth: int) -> float:
        """The rollout's estimate of a leaf, which waits for the evaluators."""
        self.waiting_state = state
        if depth == self.setting.limit:
            self.waits, self.new_leaf = self.leaf_setting.deep, None
            if self.setting.beyond:
                return middle_at(self.problem, state)
            return self.setting.tail
        self.waits = True
        new_leaf, self.new_leaf = self.new_leaf, None
        assert new_leaf is None or isinstance(new_leaf, EvaluatedNode)
        rollout_return = (
            super().evaluate_leaf(state, depth) if self.leaf_setting.mix > 0.0 else 0.0
        )
        self.leaf = new_leaf
        return rollout_return

    def backup(self, path: Sequence[Step], leaf_value: float) -> None:
        """Let a path wait, or pass its end up where its value is known."""
        if not self.waits:
            super().backup(path, leaf_value)
            return
        for node, step in zip(self.nodes, path, strict=True):
            node.waits[node.actions.index(step.selection.action)] += 1
        self.collided += self.collides
        self.queue.append(
            WaitingPath(
                tuple(path),
                tuple(self.nodes),
                self.leaf,
                self.waiting_state,
                leaf_value,
            )
        )

    # --- reading --------------------------------------------------------------

    @property
    def evaluation_counts(self) -> tuple[int, int]:
        """(leaves evaluated, values that were clipped)."""
        return self.num_asked, self.num_clipped

    def node(self, i: int) -> Node:
        """Node ``i``, with its priors and first values."""
        plain_node, node = super().node(i), self._ordered_nodes()[i]
        assert isinstance(node, EvaluatedNode)
        return replace(
            plain_node,
            prior=tuple(node.prior) if self.leaf_setting.by_prior else None,
            first_q=tuple(node.first_q) if self.leaf_setting.firsts else None,
        )

    def twin(self) -> PlainEvaluatorTree:
        """A copy that grows by itself; leaves that wait are answered first."""
        self.flush()
        tree_copy = super().twin()
        assert isinstance(tree_copy, PlainEvaluatorTree)
        tree_copy.queue = []
        return tree_copy
