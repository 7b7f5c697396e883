"""A plain tree that asks an evaluator at its leaves: the specification of ``asking_kernel``.

A descent that ends in a new leaf waits with its path instead of being backed up;
``_settle`` answers and backs up all that wait, in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from smoothcruiser.problem.bounds import middle_at
from smoothcruiser.problem.states import lent
from smoothcruiser.tree.asker import Asker
from smoothcruiser.tree.asks import Asks
from smoothcruiser.tree.evaluators.base import Leaves
from smoothcruiser.tree.node import Node
from smoothcruiser.tree.plain import PlainTree
from smoothcruiser.tree.plain_node import PlainNode
from smoothcruiser.tree.prior_kernel import (
    best_untried,
    halving_pick,
    improved_pick,
    prior_pick,
    shares_of,
)
from smoothcruiser.tree.searches import (
    IMPROVED,
    PARENT_PRIOR,
    PRIOR_UPPER,
    UPPER,
    VISITS_PRIOR,
)
from smoothcruiser.tree.selection import (
    descent_policy,
    drawn,
    upper_pick,
    visit_shares,
)
from smoothcruiser.tree.start import TreeStart
from smoothcruiser.tree.template import Selection, Step


class AskingNode(PlainNode):
    """A node with a prior, first values, and visits that wait."""

    __slots__ = ("first_q", "prior", "waits")

    def __init__(self, state: Any, sign: float, actions: list[int]) -> None:
        super().__init__(state, sign, actions)
        # zeros until it is informed
        self.prior, self.first_q = [0.0] * len(actions), [0.0] * len(actions)
        self.waits = [0] * len(actions)

    def twin(self) -> AskingNode:
        """A copy with the same numbers, without children."""
        other = AskingNode(self.state, self.sign, self.actions)
        for name in PlainNode.__slots__:
            value = getattr(self, name)
            kept = list(value) if isinstance(value, list) else value
            setattr(other, name, {} if isinstance(value, dict) else kept)
        other.prior, other.first_q = list(self.prior), list(self.first_q)
        other.waits = list(self.waits)
        return other


class WaitingPath(NamedTuple):
    """A descent whose leaf waits."""

    path: tuple[Step, ...]
    nodes: tuple[AskingNode, ...]
    leaf: AskingNode | None
    state: Any
    rolled: float


class AskingPlain(Asker, PlainTree):
    """The tree of any problem whose leaves are evaluated."""

    node_class = AskingNode
    root: AskingNode
    nodes: list[AskingNode]  # type: ignore[assignment]

    def __init__(self, asks: Asks, start: TreeStart) -> None:
        self.ask_with(asks, start)
        self.numbers = asks.numbers
        self.queue: list[WaitingPath] = []
        self.collided = self.num_asked = self.num_clipped = 0
        self.collides = False
        super().__init__(start)
        self._inform_root()

    # --- the loop -------------------------------------------------------------

    def _run(self, simulations: int, calls: int) -> bool:
        while True:
            queued = len(self.queue)
            if queued and (
                queued == self.numbers.batch
                or self.collided >= self.numbers.collisions
                or self.simulations + queued >= simulations
            ):
                self._settle()
            elif self.simulations >= simulations:
                return True
            elif not super()._run(self.simulations + 1, calls):
                return False
            elif len(self.queue) > queued:
                self.simulations -= 1  # it is not over yet

    def flush(self) -> None:
        """Answer the leaves that still wait."""
        if self.queue:
            self._settle()

    def _settle(self) -> None:
        numbers = self.numbers
        left = [len(waiting.path) for waiting in self.queue]
        rows = self.asks.answers(
            Leaves(
                len(self.queue),
                lambda: [lent(waiting.state) for waiting in self.queue],
                remaining=self._remaining(left),
            )
        ).tolist()
        for waiting, row in zip(self.queue, rows, strict=True):
            fresh = waiting.leaf is not None and waiting.leaf.visits == 0
            self._check(waiting.state, row, waiting.leaf if fresh else None)
        queue, self.queue, self.collided = self.queue, [], 0
        for waiting, row in zip(queue, rows, strict=True):
            for node, step in zip(waiting.nodes, waiting.path, strict=True):
                node.waits[node.actions.index(step.selection.action)] -= 1
            leaf = waiting.rolled
            if numbers.values:
                value = self._clipped(row[0])
                leaf = (
                    (1.0 - numbers.mix) * value + numbers.mix * leaf
                    if numbers.mix > 0.0
                    else value
                )
            self._arrive(waiting.leaf, leaf)
            self.nodes = list(waiting.nodes)
            super().backup(waiting.path, leaf)
            self.simulations += 1
        self.num_asked += len(queue)

    def _check(self, state: Any, row: list[float], node: AskingNode | None) -> None:
        good = not self.numbers.values or math.isfinite(row[0])
        if good and node is not None:
            good = self._inform(node, row)
        if not good:
            legal = self.problem.legal_actions(state)
            raise self.asks.complain(state, row, legal)

    def _inform(self, node: AskingNode, row: list[float]) -> bool:
        """Give a node its priors and first values; False where they are unusable."""
        numbers, K, size = self.numbers, self.setting.num_actions, len(node.actions)
        if numbers.by_prior:
            node.prior = [1.0 / size] * size
            weights = row[1 : 1 + K]
            if numbers.priors and not shares_of(
                weights, node.actions, size, node.prior
            ):
                return False
        if numbers.firsts:
            node.first_q = [row[1 + K + a] for a in node.actions]
            return all(math.isfinite(q) for q in node.first_q)
        return True

    def _clipped(self, value: float) -> float:
        inside = min(max(value, self.numbers.low), self.numbers.high)
        self.num_clipped += inside != value
        return inside

    def _arrive(self, node: AskingNode | None, leaf: float) -> None:
        if node is None:
            return
        if node.visits == 0:
            node.visits, node.value, node.first = 1, leaf, leaf
            return
        node.visits += 1
        node.value += (leaf - node.value) / node.visits
        node.first = node.value

    def _inform_root(self) -> None:
        """Ask about the root, which is then a node like any other."""
        if self.root.visits > 0:
            return
        state = self.root.state
        left = self._remaining([0])
        row = self.asks.answers(Leaves(1, lambda: [lent(state)], remaining=left))[
            0
        ].tolist()
        self._check(state, row, self.root)
        if self.numbers.values:
            self.num_asked += 1
            self._arrive(self.root, self._clipped(row[0]))

    # --- the rules of the template --------------------------------------------

    def is_leaf(self, state: Any, depth: int) -> bool:
        """Whether the descent ends at this state."""
        if depth == 0:
            self.leaf: AskingNode | None = None
            self.waits = self.collides = False
        return super().is_leaf(state, depth)

    def _enter(self, state: Any, depth: int) -> bool:
        """Whether the descent ends with the child of the last action."""
        parent, key = self.nodes[-1], (self.action, self.problem.key_of(state))
        known = parent.children.get(key)
        collides = known is not None and id(known) not in self.unborn
        ended = super()._enter(state, depth)
        if not ended and self.nodes[-1].visits == 0:  # it waits already
            self.fresh, self.collides = self.nodes.pop(), collides
            return True
        return ended

    def select_action(self, state: Any, depth: int) -> Selection:
        """The action that the method's tree policy selects."""
        node, rule, numbers = self.nodes[-1], self.rule, self.numbers
        x, h = self._gathered(node, len(node.n))
        n, visits, size = list(node.n), node.visits, len(x)
        for j, waits in enumerate(node.waits):
            if waits > 0:
                visits += waits
                n[j] += waits
                x[j] -= numbers.loss * waits / n[j]
        y, p = [0.0] * size, [0.0] * size
        j = -1
        if rule.descent == PRIOR_UPPER:
            j = prior_pick(rule, x, n, node.prior, size)
        elif rule.descent == IMPROVED:
            first = node.sign * node.first
            if node is self.root:
                w, acts = node.prior, node.actions
                j = halving_pick(rule, x, n, w, first, acts, size, self.gumbel, y)
            if j < 0:
                j = improved_pick(rule, x, n, node.prior, first, size, y, p)
        elif rule.descent == UPPER:
            if rule.warm:
                j = best_untried(x, n, size)
            if j < 0:
                j = upper_pick(rule, x, n, size, visits, self.rng)
        else:
            w = self._prior(node, depth, size)
            if rule.prior == VISITS_PRIOR:
                visit_shares(n, size, w)  # visits that wait count already
            descent_policy(rule, x, w, h, visits, y, p)
            j = drawn(p, size, self.rng)
            if rule.prior == PARENT_PRIOR:
                row = [1.0 / size] * self.setting.num_actions
                for a, share in zip(node.actions, p, strict=True):
                    row[a] = share
                self.policies.append(row)
        self.slot, self.action = j, node.actions[j]
        return Selection(self.action)

    def _gathered(self, node: PlainNode, most: int) -> tuple[list[float], list[float]]:
        x, h = super()._gathered(node, most)
        if self.rule.warm:
            assert isinstance(node, AskingNode)
            for j, n in enumerate(node.n):
                if n == 0:
                    x[j] = node.sign * node.first_q[j]
            if self.setting.bounds:
                x = node.clipped(x)
        return x, h

    def evaluate_leaf(self, state: Any, depth: int) -> float:
        """What a rollout says of a leaf, which waits for the rest."""
        self.waiting_state = state
        if depth == self.setting.limit:
            self.waits, self.fresh = self.numbers.deep, None
            if self.setting.beyond:
                return middle_at(self.problem, state)
            return self.setting.tail
        self.waits = True
        leaf, self.fresh = self.fresh, None
        assert leaf is None or isinstance(leaf, AskingNode)
        rolled = super().evaluate_leaf(state, depth) if self.numbers.mix > 0.0 else 0.0
        self.leaf = leaf
        return rolled

    def backup(self, path: Sequence[Step], leaf_value: float) -> None:
        """Let a path wait, or pass its end up where its value is known."""
        if not self.waits:
            super().backup(path, leaf_value)
            return
        for node, step in zip(self.nodes, path, strict=True):
            node.waits[node.actions.index(step.selection.action)] += 1
        self.collided += self.collides
        self.queue.append(
            WaitingPath(
                tuple(path),
                tuple(self.nodes),
                self.leaf,
                self.waiting_state,
                leaf_value,
            )
        )

    # --- reading --------------------------------------------------------------

    @property
    def asked(self) -> tuple[int, int]:
        """(leaves evaluated, values that were clipped)."""
        return self.num_asked, self.num_clipped

    def node(self, i: int) -> Node:
        """Node ``i``, with its priors and first values."""
        found, node = super().node(i), self._listed()[i]
        assert isinstance(node, AskingNode)
        return replace(
            found,
            prior=tuple(node.prior) if self.numbers.by_prior else None,
            first_q=tuple(node.first_q) if self.numbers.firsts else None,
        )

    def twin(self) -> AskingPlain:
        """A copy that grows by itself; leaves that wait are answered first."""
        self.flush()
        other = super().twin()
        assert isinstance(other, AskingPlain)
        other.queue = []
        return other
