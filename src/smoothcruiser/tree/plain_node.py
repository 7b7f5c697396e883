"""A node of a tree in plain Python, with its statistics and its boxes."""

from __future__ import annotations

from typing import Any

from smoothcruiser.tree.widening import MoveAnswers


class PlainNode:
    """A decision of one player: mutable statistics over its legal actions."""

    __slots__ = (
        "actions",
        "children",
        "entropies",
        "entropy",
        "first",
        "highs",
        "lows",
        "n",
        "outcomes",
        "paid",
        "sign",
        "state",
        "totals",
        "value",
        "visits",
    )

    def __init__(self, state: Any, sign: float, actions: list[int]) -> None:
        self.state, self.sign, self.actions = state, sign, actions
        self.visits, self.value, self.first, self.entropy = 0, 0.0, 0.0, 0.0
        self.n, self.totals, self.entropies = (
            [0] * len(actions),
            [0.0] * len(actions),
            [0.0] * len(actions),
        )
        # (action, key of the next state) -> child, in the order they were met
        self.children: dict[tuple[int, Any], PlainNode] = {}
        # slot of an action -> its answers; empty where moves always sample
        self.outcomes: dict[int, MoveAnswers] = {}
        # the box of each action, where the tree solves or knows bounds; its reward, where
        # it solves
        self.lows: list[float] = []
        self.highs: list[float] = []
        self.paid: list[float] = []

    def open(self, low: float, high: float) -> None:
        """Give every action the same box."""
        num_actions = len(self.actions)
        self.lows, self.highs, self.paid = (
            [low] * num_actions,
            [high] * num_actions,
            [0.0] * num_actions,
        )

    def ends(self) -> list[tuple[float, float]]:
        """The boxes of the actions, from the mover's point of view."""
        if self.sign > 0.0:
            return list(zip(self.lows, self.highs, strict=True))
        boxes = zip(self.lows, self.highs, strict=True)
        return [(-high, -low) for low, high in boxes]

    def box(self) -> tuple[float, float]:
        """The two ends between which its value lies."""
        best = max if self.sign > 0.0 else min
        return best(self.lows), best(self.highs)

    def clip_to_box(self, j: int, value: float) -> float:
        """The nearest value that the box of an action holds."""
        return min(max(value, self.lows[j]), self.highs[j])

    def clip_values(self, x: list[float]) -> list[float]:
        """The signed values of its first actions, put into their boxes."""
        sign = self.sign
        return [sign * self.clip_to_box(j, sign * value) for j, value in enumerate(x)]

    def twin(self) -> PlainNode:
        """A copy with the same numbers, without children."""
        node_copy = PlainNode(self.state, self.sign, self.actions)
        node_copy.visits, node_copy.value, node_copy.first, node_copy.entropy = (
            self.visits,
            self.value,
            self.first,
            self.entropy,
        )
        node_copy.n, node_copy.totals, node_copy.entropies = (
            list(self.n),
            list(self.totals),
            list(self.entropies),
        )
        node_copy.lows, node_copy.highs, node_copy.paid = (
            list(self.lows),
            list(self.highs),
            list(self.paid),
        )
        return node_copy
