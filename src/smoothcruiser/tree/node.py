"""One node of a search tree, as data to read.

A tree's ``estimate``, its views and its policies are built from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from smoothcruiser.tree.searches import TreeRule


@dataclass(frozen=True)
class Node:
    """The statistics of a state where a player moves."""

    number: int
    state: Any
    player: int
    visits: int
    value: float  # what it passes up, from the max player's point of view
    first: float  # its first estimate
    actions: tuple[int, ...]  # legal actions, in order
    edge_visits: tuple[int, ...]
    edge_totals: tuple[float, ...]

    @property
    def sign(self) -> float:
        """+1 where max moves, -1 where min does."""
        return 1.0 if self.player == 1 else -1.0

    def q_values(self, rule: TreeRule, head: float) -> list[float]:
        """Q of each legal action, from the max player's point of view.

        Untried actions have the value that the search assumes (``head`` is
        F(0)).
        """
        untried = (
            rule.initial
            if not math.isnan(rule.initial)
            else self.first - self.sign * head
        )
        return [
            total / n if n > 0 else untried
            for total, n in zip(self.edge_totals, self.edge_visits, strict=True)
        ]
