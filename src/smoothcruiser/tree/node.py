"""One node of a search tree, as data to read: what ``estimate``, the views and
the policies of a tree are made from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from smoothcruiser.tree.searches import TreeRule


@dataclass(frozen=True)
class Node:
    """Statistics of a state where somebody moves."""

    number: int
    state: Any
    player: int
    visits: int
    value: float  # what it passes up, in the max player's terms
    first: float  # its first estimate
    actions: tuple[int, ...]  # legal actions, in order
    edge_visits: tuple[int, ...]
    edge_totals: tuple[float, ...]

    @property
    def sign(self) -> float:
        """+1 where max moves, -1 where min does."""
        return 1.0 if self.player == 1 else -1.0

    def q_values(self, rule: TreeRule, head: float) -> list[float]:
        """Q of each legal action, in the max player's terms; untried ones as
        the search sees them (``head`` is F(0)).
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
