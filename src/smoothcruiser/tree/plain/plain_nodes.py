"""One node of a search tree, as data to read.

A tree's ``estimate``, its views and its policies are built from it.

A node of a tree in plain Python, with its statistics and its boxes.

The nodes of a plain tree: how they are numbered, read, copied and left behind.

Boxes of a plain tree that solves: ``tree.kernels.rules_kernel`` over lists.

A box holds the value of an action for sure. The end of a play is carried up the path
that led to it; descents leave out actions that a box has decided.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import at_pair
from smoothcruiser.tree.kernels.kernel import Setting
from smoothcruiser.tree.kernels.rules_kernel import is_exact
from smoothcruiser.tree.proofs import broken_claim, two_outcomes
from smoothcruiser.tree.search_rules import TreeRule
from smoothcruiser.tree.template import Step
from smoothcruiser.tree.widening import MoveAnswers

if TYPE_CHECKING:
    from smoothcruiser.tree.plain.plain_tree import PlainTree


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


class PlainNode:
    """A decision of one player: mutable statistics over its legal actions."""

    __slots__: tuple[str, ...] = (
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


def undecided_slots(node: PlainNode) -> list[int]:
    """The slots of the actions that are worth a descent; all where none is."""
    signed_boxes = node.ends()
    sure_value = max(low for low, _ in signed_boxes)
    open_slots = [
        j
        for j, (low, high) in enumerate(signed_boxes)
        if high > low and high > sure_value
    ]
    return open_slots or list(range(len(signed_boxes)))


def prove(tree: PlainTree, path: Sequence[Step]) -> None:
    """Carry the end of a play up, if it ended, and refuse moves with two outcomes."""
    setting, discount = tree.setting, tree.setting.discount
    for node, step in zip(tree.nodes, path, strict=False):
        action = step.selection.action
        j = node.actions.index(action)
        child_keys = [child_key for move, child_key in node.children if move == action]
        # an end decides an action: one that is still open did not end before
        ends_now = step.ended and node.lows[j] < node.highs[j]
        differs = node.n[j] > 0 and (node.paid[j] != step.reward or ends_now)
        if differs or len(child_keys) > 1 or (child_keys and step.ended):
            raise two_outcomes(at_pair(step.state, action))
        node.paid[j] = step.reward
    at_limit = len(path) == setting.limit and setting.closes
    if not path[-1].ended and not at_limit:
        return
    box_low, box_high = 0.0, 0.0
    for i in range(len(path) - 1, -1, -1):
        node, reward = tree.nodes[i], path[i].reward
        j = node.actions.index(path[i].selection.action)
        low_end, high_end = reward + discount * box_low, reward + discount * box_high
        is_scaled = discount != 1.0 and (box_low != 0.0 or box_high != 0.0)
        sums_exact = is_exact(reward, box_low, low_end) and is_exact(
            reward, box_high, high_end
        )
        if is_scaled or not sums_exact:
            tree.inexact = True
        slack = setting.slack
        if low_end > node.highs[j] + slack or high_end < node.lows[j] - slack:
            raise broken_claim(tree.problem, tree.root.state)
        if low_end <= node.lows[j] and high_end >= node.highs[j]:
            return
        node.lows[j] = max(node.lows[j], low_end)
        node.highs[j] = min(node.highs[j], high_end)
        if node.lows[j] > node.highs[j]:  # by rounding alone
            node.lows[j], node.highs[j] = low_end, high_end
        box_low, box_high = node.box()
