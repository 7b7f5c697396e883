"""Boxes of a plain tree that solves: ``tree.proof_kernel`` over lists.

A box holds the value of an action for sure. The end of a play is carried up the path
that led to it; descents leave out actions that a box has decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smoothcruiser.problem.answers import at_pair
from smoothcruiser.tree.plain_node import PlainNode
from smoothcruiser.tree.proof import broken_claim, two_outcomes
from smoothcruiser.tree.proof_kernel import is_exact
from smoothcruiser.tree.template import Step

if TYPE_CHECKING:
    from smoothcruiser.tree.plain import PlainTree


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
