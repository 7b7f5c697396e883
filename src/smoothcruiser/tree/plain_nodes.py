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
    pending_nodes: set[int]
    _order: list[PlainNode] | None = None

    @abstractmethod
    def _count_open(self, node: PlainNode, begun: int) -> int:
        """The number of open actions of a node."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop the record of a simulation that waits."""

    def _ordered_nodes(self) -> list[PlainNode]:
        """The nodes in breadth-first order, which numbers them."""
        if self._order is None:
            self._order = [self.root]
            for node in self._order:
                self._order.extend(node.children.values())
            self._numbers = {id(node): i for i, node in enumerate(self._order)}
        return self._order

    def node(self, i: int) -> Node:
        """Node ``i``; 0 is the root."""
        node = self._ordered_nodes()[i]
        num_open = self._count_open(node, 0)
        boxes = tuple(zip(node.lows[:num_open], node.highs[:num_open], strict=True))
        return Node(
            number=i,
            state=node.state,
            player=1 if node.sign > 0 else 2,
            visits=node.visits,
            value=node.value,
            first=node.first,
            actions=tuple(node.actions[:num_open]),
            edge_visits=tuple(node.n[:num_open]),
            edge_totals=tuple(node.totals[:num_open]),
            boxes=boxes if self.setting.solves else (),
            bounds=known_ends(boxes) if self.setting.bounds else (),
        )

    def children(self, i: int) -> Iterator[tuple[int, int]]:
        """(action, node) of the children of node ``i``, in the order they were met."""
        for (action, _), child in self._ordered_nodes()[i].children.items():
            yield action, self._numbers[id(child)]

    def child(self, i: int, action: int, after: Any) -> int | None:
        """The node of next state ``after``, if there is one."""
        child_node = self._ordered_nodes()[i].children.get(
            (action, self.problem.key_of(after))
        )
        return None if child_node is None else self._numbers[id(child_node)]

    def twin(self) -> Self:
        """A copy that grows by itself.

        States are shared, since nobody writes into them.
        """
        tree_copy = copy.copy(self)
        tree_copy.spread = tree_copy.pool = None  # workers are the original's
        node_copies = {id(node): node.twin() for node in self._ordered_nodes()}
        for node in self._ordered_nodes():
            node_copies[id(node)].children = {
                key: node_copies[id(child)] for key, child in node.children.items()
            }
            node_copies[id(node)].outcomes = {
                slot: move_answers.twin(node_copies)
                for slot, move_answers in node.outcomes.items()
            }
        tree_copy.root = node_copies[id(self.root)]
        tree_copy.rng, tree_copy.answers, tree_copy._order = (
            copy.deepcopy(self.rng),
            list(self.answers),
            None,
        )
        tree_copy.pending_nodes = {
            id(node_copies[node_id]) for node_id in self.pending_nodes
        }
        return tree_copy

    def advance(self, child: int) -> None:
        """Make ``child`` the root and forget the nodes that are not below it."""
        self.root = self._ordered_nodes()[child]
        self._forget()
        self._order = None
        self.num_nodes, self.deepest = len(self._ordered_nodes()), -1
        level_nodes = [self.root]
        while level_nodes:
            self.deepest += 1
            level_nodes = [
                below for node in level_nodes for below in node.children.values()
            ]
