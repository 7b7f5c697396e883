"""The nodes of a plain tree: how they are numbered, read, copied and left behind."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.kernel import Setting
from smoothcruiser.tree.node import Node, known_ends
from smoothcruiser.tree.plain_node import PlainNode


class PlainNodes(ABC):
    """Nodes below a root, numbered in breadth-first order."""

    problem: Problem
    root: PlainNode
    setting: Setting
    rng: Any
    num_nodes: int
    deepest: int
    spread: Any
    pool: Any
    answers: list[Any]
    unborn: set[int]
    _order: list[PlainNode] | None = None

    @abstractmethod
    def _opened(self, node: PlainNode, begun: int) -> int:
        """How many actions of a node are open."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop the record of a simulation that waits."""

    def _listed(self) -> list[PlainNode]:
        """The nodes in breadth-first order, which numbers them."""
        if self._order is None:
            self._order = [self.root]
            for node in self._order:
                self._order.extend(node.children.values())
            self._numbers = {id(node): i for i, node in enumerate(self._order)}
        return self._order

    def node(self, i: int) -> Node:
        """Node ``i``; 0 is the root."""
        node = self._listed()[i]
        most = self._opened(node, 0)
        boxes = tuple(zip(node.lows[:most], node.highs[:most], strict=True))
        return Node(
            number=i,
            state=node.state,
            player=1 if node.sign > 0 else 2,
            visits=node.visits,
            value=node.value,
            first=node.first,
            actions=tuple(node.actions[:most]),
            edge_visits=tuple(node.n[:most]),
            edge_totals=tuple(node.totals[:most]),
            boxes=boxes if self.setting.solves else (),
            bounds=known_ends(boxes) if self.setting.bounds else (),
        )

    def children(self, i: int) -> Iterator[tuple[int, int]]:
        """(action, node) of the children of node ``i``, in the order they were met."""
        for (action, _), child in self._listed()[i].children.items():
            yield action, self._numbers[id(child)]

    def child(self, i: int, action: int, after: Any) -> int | None:
        """The node of next state ``after``, if there is one."""
        found = self._listed()[i].children.get((action, self.problem.key_of(after)))
        return None if found is None else self._numbers[id(found)]

    def twin(self) -> Self:
        """A copy that grows by itself.

        States are shared, since nobody writes into them.
        """
        other = copy.copy(self)
        other.spread = other.pool = None  # workers are the original's
        twins = {id(node): node.twin() for node in self._listed()}
        for node in self._listed():
            twins[id(node)].children = {
                key: twins[id(child)] for key, child in node.children.items()
            }
            twins[id(node)].outcomes = {
                slot: seen.twin(twins) for slot, seen in node.outcomes.items()
            }
        other.root = twins[id(self.root)]
        other.rng, other.answers, other._order = (
            copy.deepcopy(self.rng),
            list(self.answers),
            None,
        )
        other.unborn = {id(twins[number]) for number in self.unborn}
        return other

    def advance(self, child: int) -> None:
        """Make ``child`` the root and forget what is not below it."""
        self.root = self._listed()[child]
        self._forget()
        self._order = None
        self.num_nodes, self.deepest = len(self._listed()), -1
        level = [self.root]
        while level:
            self.deepest += 1
            level = [below for node in level for below in node.children.values()]
