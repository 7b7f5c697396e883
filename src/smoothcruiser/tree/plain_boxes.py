"""Boxes of a plain tree that solves: ``tree.proof_kernel`` over lists.

A box holds the value of an action for sure. The end of a play is carried up the path
that led to it; descents leave out what a box has decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smoothcruiser.problem.answers import at
from smoothcruiser.tree.plain_node import PlainNode
from smoothcruiser.tree.proof import broken_claim, two_outcomes
from smoothcruiser.tree.proof_kernel import is_exact
from smoothcruiser.tree.template import Step

if TYPE_CHECKING:
    from smoothcruiser.tree.plain import PlainTree


def undecided(node: PlainNode) -> list[int]:
    """The slots of the actions that are worth a descent; all where none is."""
    ends = node.ends()
    floor = max(low for low, _ in ends)
    kept = [j for j, (low, high) in enumerate(ends) if high > low and high > floor]
    return kept or list(range(len(ends)))


def prove(tree: PlainTree, path: Sequence[Step]) -> None:
    """Carry the end of a play up, if it ended, and refuse what chance would do."""
    setting, discount = tree.setting, tree.setting.discount
    for node, step in zip(tree.nodes, path, strict=False):
        action = step.selection.action
        j = node.actions.index(action)
        known = [key for move, key in node.children if move == action]
        # an end decides an action: one that is still open did not end before
        ends_now = step.ended and node.lows[j] < node.highs[j]
        again = node.n[j] > 0 and (node.paid[j] != step.reward or ends_now)
        if again or len(known) > 1 or (known and step.ended):
            raise two_outcomes(at(step.state, action))
        node.paid[j] = step.reward
    closed = len(path) == setting.limit and setting.closes
    if not path[-1].ended and not closed:
        return
    low, high = 0.0, 0.0
    for i in range(len(path) - 1, -1, -1):
        node, reward = tree.nodes[i], path[i].reward
        j = node.actions.index(path[i].selection.action)
        least, most = reward + discount * low, reward + discount * high
        scaled = discount != 1.0 and (low != 0.0 or high != 0.0)
        exact = is_exact(reward, low, least) and is_exact(reward, high, most)
        if scaled or not exact:
            tree.inexact = True
        slack = setting.slack
        if least > node.highs[j] + slack or most < node.lows[j] - slack:
            raise broken_claim(tree.problem, tree.root.state)
        if least <= node.lows[j] and most >= node.highs[j]:
            return
        node.lows[j] = max(node.lows[j], least)
        node.highs[j] = min(node.highs[j], most)
        if node.lows[j] > node.highs[j]:  # by rounding alone
            node.lows[j], node.highs[j] = least, most
        low, high = node.box()
