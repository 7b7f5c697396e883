"""A plain tree that asks an evaluator at its leaves: the interpreted ``evaluator_kernel``.

All evaluators are asked in Python, compiled functions and arrays too.
"""

from __future__ import annotations

from typing import Any

from smoothcruiser.jit.forms import interpreted_form, view_memory
from smoothcruiser.tree.evaluators.base import Leaves
from smoothcruiser.tree.evaluators.evaluator_queue import TreeEvaluators
from smoothcruiser.tree.kernels import evaluator_kernel as asking
from smoothcruiser.tree.kernels.array_tree import TreeStart
from smoothcruiser.tree.kernels.evaluated_tree import EvaluatorTree
from smoothcruiser.tree.kernels.plain_tree import PlainMachine, PlainTree

_ROWS = ("paths", "rewards", "answers")  # fields that the machine reads row by row


class PlainEvaluatorTree(EvaluatorTree, PlainTree):
    """The tree of any problem with evaluators at its leaves."""

    waiting_views: Any = None  # memoryviews of ``waiting``

    def __init__(self, evaluators: TreeEvaluators, start: TreeStart) -> None:
        self.set_evaluators(evaluators, start)
        inside = not evaluators.evaluators  # then there is nothing to ask
        self.leaf_setting = self.leaf_setting._replace(inside=inside)
        self.waiting = asking.blank_waiting(
            start.setting, self.leaf_setting, [None] * self.leaf_setting.batch, ()
        )
        super().__init__(start)
        self._inform_root()

    def _machine(self) -> Any:
        machine = PlainMachine(self.data, extras=True, means=False)
        parts = {} if self.pick is None else {"own_pick": self.pick}
        machine.grow = interpreted_form(asking.grow, parts, EXTRAS=True)
        return machine

    def view_arrays(self) -> Any:
        """The arguments of the machine, those of leaves that wait among them."""
        arrays = super().view_arrays()
        if self.waiting_views is None:
            rows = {
                name: [row.data for row in getattr(self.waiting, name)]
                for name in _ROWS
            }
            views = view_memory(self.waiting._replace(states=()))
            self.waiting_views = views._replace(states=self.waiting.states, **rows)
        return arrays

    def _ask(self, simulations: int, calls: int) -> int:
        nodes, workspace, meta, fault = self.view_arrays()
        status: int = self.machine.grow(
            self.rule,
            self.setting,
            self.leaf_setting,
            view_memory(self.gumbel),
            *self.constants,
            self.data,
            nodes,
            workspace,
            self.states,
            self.scratch,
            self.waiting_views,
            meta,
            fault,
            simulations,
            calls,
            self.has_answers,
            self.rng,
        )
        return status

    def _leaves(self) -> Leaves:
        num_waiting = int(self.waiting.counts[asking.QUEUED])
        steps_left = self._remaining(self.waiting.steps[:num_waiting])
        return Leaves(
            num_waiting,
            lambda: self.machine.lend_states(self.waiting.states, num_waiting),
            remaining=steps_left,
        )

    def twin(self) -> Any:
        """A copy that grows by itself; leaves that wait are answered first."""
        self.flush()
        tree_copy = super().twin()
        tree_copy.waiting_views = None
        return tree_copy
