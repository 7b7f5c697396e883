"""Trees that ask an evaluator at their leaves (``tree.kernels.evaluator_kernel``).

The machine returns when a batch of leaves waits, Python answers, and the machine goes on.
The two forms of the machine differ in how they get and hold states.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.states.state_copies import lend_copy
from smoothcruiser.tree.evaluators.base import Leaves
from smoothcruiser.tree.evaluators.evaluator_queue import TreeEvaluators
from smoothcruiser.tree.kernels import evaluator_kernel as asking
from smoothcruiser.tree.kernels import kernel
from smoothcruiser.tree.kernels.array_tree import ArrayTree, TreeStart, copy_store
from smoothcruiser.tree.kernels.evaluator_kernel import GumbelRoot, empty_gumbel_root
from smoothcruiser.tree.node import Node
from smoothcruiser.tree.search_numbers import LeafSetting

_COPIED_FIELDS = ("paths", "rewards", "steps", "rolled", "answers", "counts")


class EvaluatorTree(ArrayTree):
    """A mixin, named before the tree class: it informs the root after every move."""

    evaluators: TreeEvaluators
    leaf_setting: LeafSetting
    elapsed: int  # moves made before the root
    gumbel: GumbelRoot
    waiting: Any
    has_answers = False

    def set_evaluators(self, evaluators: TreeEvaluators, start: TreeStart) -> None:
        """Set the evaluators, before the tree has a root."""
        self.evaluators, self.elapsed = evaluators, start.setting.elapsed
        self.leaf_setting = evaluators.leaf_setting
        self.gumbel = empty_gumbel_root(evaluators.problem.num_actions)

    def empty_nodes(self, node_capacity: int) -> kernel.Nodes:
        """Memory for so many nodes, with the blocks of priors and of visits that wait."""
        nodes, K = super().empty_nodes(node_capacity), self.setting.num_actions
        leaf_setting = self.leaf_setting
        num_blocks = 4 if leaf_setting.firsts else 3 if leaf_setting.batch > 1 else 2
        return nodes._replace(
            floats=np.zeros((node_capacity, kernel.TOTAL + num_blocks * K))
        )

    def _inform_root(self) -> None:
        """Ask about the root, which is then a node like any other."""
        if self.nodes.ints[0, kernel.VISITS] > 0:
            return
        state = self._state(0)
        steps_left = self._remaining([0])
        answer_row = self.evaluators.answers(
            Leaves(1, lambda: [lend_copy(state)], remaining=steps_left)
        )[0]
        leaf_setting, K = self.leaf_setting, self.setting.num_actions
        is_usable = not leaf_setting.values or np.isfinite(answer_row[0])
        if not is_usable or not asking.inform_node(
            leaf_setting,
            self.nodes.ints,
            self.nodes.floats,
            0,
            K,
            answer_row.tolist(),
            self.workspace.acts,
            self.workspace.p,
        ):
            raise self.evaluators.answer_error(
                state, answer_row, list(self.node(0).actions)
            )
        if leaf_setting.values:
            counts = self.waiting.counts
            value = asking.clip_value(leaf_setting, float(answer_row[0]), counts)
            counts[asking.ASKED] += 1
            kernel.first_estimate(self.nodes.ints, self.nodes.floats, 0, value)

    @abstractmethod
    def _leaves(self) -> Leaves:
        """The leaves that wait."""

    @abstractmethod
    def _ask(self, simulations: int, calls: int) -> int:
        """Run the machine until it ends, or asks."""

    def _simulate(self, simulations: int, calls: int) -> int:
        while True:
            status = self._ask(simulations, calls)
            self.has_answers = False
            if status == asking.ASK:
                leaves = self._leaves()
                self.waiting.answers[: leaves.count] = self.evaluators.answers(leaves)
                self.has_answers = True
                continue
            if status == asking.BAD_ANSWER:
                raise self._bad_answer()
            return status

    def _bad_answer(self) -> SmoothcruiserError:
        leaves, leaf_index = self._leaves(), int(self.waiting.counts[asking.BAD_ROW])
        state = leaves.states[leaf_index]
        answer_row = self.evaluators.answers(
            Leaves(1, lambda: [state], remaining=[0])
        )[0]
        return self.evaluators.answer_error(
            state, answer_row, self.problem.legal_actions(state)
        )

    def flush(self) -> None:
        """Answer the leaves that still wait."""
        num_queued = int(self.waiting.counts[asking.QUEUED])
        if num_queued:
            self._simulate(int(self.meta[kernel.SIMULATIONS]) + num_queued, 0)

    def twin(self) -> Self:
        """A copy that grows by itself."""
        tree_copy = super().twin()
        state_store = copy_store(self.waiting.states)
        array_copies = {
            name: getattr(self.waiting, name).copy() for name in _COPIED_FIELDS
        }
        tree_copy.waiting = self.waiting._replace(states=state_store, **array_copies)
        return tree_copy

    def node(self, i: int) -> Node:
        """Node ``i``, with its priors and first values."""
        node, K = super().node(i), self.setting.num_actions
        leaf_setting, floats = self.leaf_setting, self.nodes.floats[i]
        action_columns = np.array(node.actions)

        def block(block_number: int) -> tuple[float, ...]:
            return tuple(
                floats[kernel.TOTAL + block_number * K + action_columns].tolist()
            )

        prior = block(1) if leaf_setting.by_prior else None
        first_q = block(3) if leaf_setting.firsts else None
        return replace(node, prior=prior, first_q=first_q)

    @property
    def evaluation_counts(self) -> tuple[int, int]:
        """(leaves evaluated, values that were clipped)."""
        counts = self.waiting.counts
        return int(counts[asking.ASKED]), int(counts[asking.CLIPPED])

    def _remaining(self, depths: Iterable[int]) -> list[int] | None:
        """Steps left at some depths, where the problem has a horizon."""
        horizon = self.problem.horizon
        if horizon is None:
            return None
        return [horizon - self.elapsed - int(depth) for depth in depths]

    def restart(self, state: Any) -> None:
        """Begin anew at ``state``, one move later."""
        self.flush()
        super().restart(state)
        self._inform_new_root()

    def advance(self, child: int) -> None:
        """Make ``child`` the root and forget the nodes that are not below it."""
        self.flush()
        super().advance(child)
        self._inform_new_root()

    def _inform_new_root(self) -> None:
        self.gumbel = empty_gumbel_root(self.problem.num_actions)
        self.elapsed += 1
        self._inform_root()
