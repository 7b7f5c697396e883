"""One node of a search tree, as data to read.

A tree's ``estimate``, its views and its policies are built from it. Code that reads or
grows a ``Tree`` knows it as a ``SearchTree``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.search_numbers import Setting, TreeRule

Ends = tuple[tuple[float, float], ...]  # of each action


def known_ends(ends: Ends) -> Ends:
    """Bounds of actions, none where nothing is known of any."""
    return (
        ends if any(-math.inf < low or high < math.inf for low, high in ends) else ()
    )


@dataclass(frozen=True)
class Node:
    """The statistics of a state where a player moves."""

    number: int
    state: Any
    player: int
    visits: int
    value: float  # passed up, from the max player's point of view
    first: float  # its first estimate
    actions: tuple[int, ...]  # legal actions, in order
    edge_visits: tuple[int, ...]
    edge_totals: tuple[float, ...]
    # of each legal action, where the tree solves: two ends that hold for sure
    boxes: Ends = ()
    # of each action that is not excluded, where the tree has bounds= (``tree.pruning``)
    bounds: Ends = ()
    prior: tuple[float, ...] | None = None  # shares of the legal actions
    first_q: tuple[float, ...] | None = None  # values of untried ones, where asked for

    @property
    def sign(self) -> float:
        """+1 where max moves, -1 where min does."""
        return 1.0 if self.player == 1 else -1.0

    @property
    def size(self) -> int:
        """The number of its actions: of the open ones, where they open one by one."""
        return len(self.actions)

    def q_values(self, rule: TreeRule, head: float) -> list[float]:
        """Q of each legal action, from the max player's point of view.

        Untried actions have the value that the search assumes (``head`` is
        F(0)).
        """
        untried_value = (
            rule.initial
            if not math.isnan(rule.initial)
            else self.first - self.sign * head
        )
        first_values = self.first_q or [untried_value] * len(self.actions)
        edge_sums = zip(self.edge_totals, self.edge_visits, first_values, strict=True)
        mean_values = [
            total / visits if visits > 0 else first_value
            for total, visits, first_value in edge_sums
        ]
        ends = self.boxes or self.bounds
        if not ends:
            return mean_values
        return [
            min(max(q, low), high)
            for q, (low, high) in zip(mean_values, ends, strict=True)
        ]

    @property
    def box(self) -> tuple[float, float] | None:
        """The two ends between which V lies for sure; None where nothing is sure."""
        if not self.boxes:
            return None
        best = max if self.player == 1 else min
        return best(low for low, _ in self.boxes), best(high for _, high in self.boxes)

    @property
    def is_proven(self) -> bool:
        """Whether its value is known for sure."""
        box = self.box
        return box is not None and box[0] == box[1]

    def recommendable_slots(self) -> list[int]:
        """The slots of actions that may be recommended: all, where nothing is sure.

        Left out are those that cannot be better than another one is for sure.
        """
        if not self.boxes:
            return list(range(len(self.actions)))
        signed_boxes = [
            (low, high) if self.player == 1 else (-high, -low)
            for low, high in self.boxes
        ]
        sure_value = max(low for low, _ in signed_boxes)
        return [
            j
            for j, (low, high) in enumerate(signed_boxes)
            if high > sure_value or low >= sure_value
        ]


class SearchTree(Protocol):
    """A ``Tree`` as the code that grows it and writes about it knows it."""

    problem: Problem
    method: Any
    rule: TreeRule
    state: Any
    seed: int
    elapsed: int  # moves made since the tree was created
    head: list[float]
    bounds: Any
    compute: Any
    backend: Any
    refuted: Any

    @property
    def setting(self) -> Setting:
        """The problem and the limits in numbers."""

    @property
    def num_nodes(self) -> int:
        """Nodes in memory."""

    @property
    def simulations(self) -> int:
        """Simulations finished."""

    @property
    def num_calls(self) -> int:
        """Oracle calls made."""

    @property
    def deepest(self) -> int:
        """Depth of the deepest node that was added."""

    @property
    def inexact(self) -> bool:
        """Whether a number in a box was rounded."""

    def node(self, number: int) -> Node:
        """A node's statistics; 0 is the root."""

    def q_values(self, number: int = 0) -> list[float]:
        """Values of a node's legal actions."""
