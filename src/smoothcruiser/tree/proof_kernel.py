"""Bounds that hold: the box of every action in a tree without chance.

Where every pair (state, action) has one outcome and the operator is Max, the end of a
line of play is a fact, and facts go up (score bounded tree search, Cazenave and
Saffidine 2010; with wins and losses alone it is MCTS-Solver, Winands et al. 2008):

    box(s, a) = r + gamma box(z),  {r} where the play ends with the move
    box(s)    = [max_a low(s, a), max_a high(s, a)]      min where min moves

An action that was not tried has the box that the declared rewards allow
(``Facts.q_bounds``). A box is *closed* where its ends are equal: the value is proven.
The descent leaves out actions with a closed box, and those that cannot be better
than another one is for sure: low(s, b) >= high(s, a), from the mover's point of view.
A node with an open box keeps at least one action: the one with the best high end has
low <= max low < high.

legend   symbol, name here
  box(s, a)   ``boxes[node, a]``, ``boxes[node, K + a]``: the ends, for max
  r           ``boxes[node, 2 K + a]``: the reward of the move, to notice another one

The file is plain Python that ``jit.build`` compiles; ``tree.plain`` has the same steps
over lists. Not in this file: sentences about a box (``tree.proof``).
"""

from __future__ import annotations

import math
from typing import Any

# how ``prove`` ended
SAME_BOXES, NEW_BOXES, ROUNDED, BROKEN = range(4)


def open_boxes(boxes: Any, node: int, K: int, low: float, high: float) -> None:
    """Give every action of a new node the box that the rewards allow."""
    for a in range(K):
        boxes[node, a] = low
        boxes[node, K + a] = high
        boxes[node, 2 * K + a] = 0.0


def keep_undecided(
    boxes: Any, node: int, sign: float, K: int, acts: Any, n: Any, x: Any, h: Any, size: int
) -> int:  # fmt: skip
    """The number of actions that are worth a descent; they are moved to the front.

    Their signed values ``x`` are put into their boxes.
    """
    sure_value = -math.inf  # of the mover's best action
    for j in range(size):
        a = acts[j]
        low = boxes[node, a] if sign > 0.0 else -boxes[node, K + a]
        if low > sure_value:
            sure_value = low
    num_kept = 0
    for j in range(size):
        a = acts[j]
        low = boxes[node, a] if sign > 0.0 else -boxes[node, K + a]
        high = boxes[node, K + a] if sign > 0.0 else -boxes[node, a]
        if high > low and high > sure_value:
            value = x[j]
            if value < low:
                value = low
            if value > high:
                value = high
            acts[num_kept], n[num_kept], x[num_kept], h[num_kept] = a, n[j], value, h[j]
            num_kept += 1
    return num_kept if num_kept > 0 else size


def clip(
    boxes: Any, node: int, sign: float, K: int, acts: Any, x: Any, size: int
) -> None:
    """Put the signed values of all actions into their boxes."""
    for j in range(size):
        x[j] = sign * clip_to_box(boxes, node, acts[j], K, sign * x[j])


def clip_to_box(boxes: Any, node: int, action: int, K: int, value: float) -> float:
    """The nearest value that the box of an action holds."""
    if value < boxes[node, action]:
        return boxes[node, action]  # type: ignore[no-any-return]
    if value > boxes[node, K + action]:
        return boxes[node, K + action]  # type: ignore[no-any-return]
    return value


def box_of(ints: Any, edge: int, boxes: Any, node: int, sign: float, K: int) -> Any:
    """The two ends of a node's box; ``edge`` is the first column of edge visits."""
    box_low, box_high = -sign * math.inf, -sign * math.inf
    for a in range(K):
        if ints[node, edge + a] >= 0:
            if sign * boxes[node, a] > sign * box_low:
                box_low = boxes[node, a]
            if sign * boxes[node, K + a] > sign * box_high:
                box_high = boxes[node, K + a]
    return box_low, box_high


def is_exact(a: float, b: float, total: float) -> bool:
    """Whether ``total``, the rounded sum of two numbers, is their sum."""
    return total - a == b and total - b == a


def prove(
    ints: Any, edge: int, floats: Any, column: int, boxes: Any, path: Any, rewards: Any,
    depth: int, discount: float, slack: float, K: int,
) -> int:  # fmt: skip
    """Carry the end of a play of ``depth`` moves up, and return the outcome.

    ``column`` is that of a node's sign. ROUNDED says that a number was rounded, BROKEN
    that the declared rewards exclude the value of the play.
    """
    box_low, box_high = 0.0, 0.0
    outcome = SAME_BOXES
    for i in range(depth - 1, -1, -1):
        node, action, reward = path[i, 0], path[i, 1], rewards[i]
        low_end, high_end = reward + discount * box_low, reward + discount * box_high
        is_scaled = discount != 1.0 and (box_low != 0.0 or box_high != 0.0)
        if is_scaled or not (
            is_exact(reward, box_low, low_end) and is_exact(reward, box_high, high_end)
        ):
            outcome = ROUNDED
        elif outcome == SAME_BOXES:
            outcome = NEW_BOXES
        if (
            low_end > boxes[node, K + action] + slack
            or high_end < boxes[node, action] - slack
        ):
            return BROKEN
        if low_end <= boxes[node, action] and high_end >= boxes[node, K + action]:
            return outcome
        if low_end > boxes[node, action]:
            boxes[node, action] = low_end
        if high_end < boxes[node, K + action]:
            boxes[node, K + action] = high_end
        if boxes[node, action] > boxes[node, K + action]:  # by rounding alone
            boxes[node, action], boxes[node, K + action] = low_end, high_end
        box_low, box_high = box_of(ints, edge, boxes, node, floats[node, column], K)
    return outcome
