"""Shared code of trees with evaluators, compiled or plain: moves, and steps left."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.asking_kernel import GumbelRoot, empty_gumbel_root
from smoothcruiser.tree.asks import TreeEvaluators
from smoothcruiser.tree.start import TreeStart


class EvaluatorTree:
    """A mixin, named before the tree class: it informs the root after every move."""

    problem: Problem
    evaluators: TreeEvaluators
    elapsed: int  # moves made before the root
    gumbel: GumbelRoot

    def set_evaluators(self, evaluators: TreeEvaluators, start: TreeStart) -> None:
        """Set the evaluators, before the tree has a root."""
        self.evaluators, self.elapsed = evaluators, start.setting.elapsed
        self.gumbel = empty_gumbel_root(evaluators.problem.num_actions)

    @abstractmethod
    def flush(self) -> None:
        """Answer the leaves that still wait."""

    @abstractmethod
    def _inform_root(self) -> None:
        """Ask about the root, which is then a node like any other."""

    def _remaining(self, depths: Iterable[int]) -> list[int] | None:
        """Steps left at some depths, where the problem has a horizon."""
        horizon = self.problem.horizon
        if horizon is None:
            return None
        return [horizon - self.elapsed - int(depth) for depth in depths]

    def restart(self, state: Any) -> None:
        """Begin anew at ``state``, one move later."""
        self.flush()
        super().restart(state)  # type: ignore[misc]
        self._inform_new_root()

    def advance(self, child: int) -> None:
        """Make ``child`` the root and forget the nodes that are not below it."""
        self.flush()
        super().advance(child)  # type: ignore[misc]
        self._inform_new_root()

    def _inform_new_root(self) -> None:
        self.gumbel = empty_gumbel_root(self.problem.num_actions)
        self.elapsed += 1
        self._inform_root()
