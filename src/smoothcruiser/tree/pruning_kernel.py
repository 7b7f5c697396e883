"""How a compiled node learns the bounds that are known of its state (``tree.pruning``).

Actions that the bounds exclude are marked as illegal ones are, so that nothing else in
the machine knows of them. The bounds of the others become the node's boxes
(``proof_kernel.clip``). The rows are sorted by time and state: one binary search per new
node.
"""

from __future__ import annotations

import math
from typing import Any

ANY_TIME = -1  # in the first column, where no steps are counted
TIME, STATE, FLAGS = range(3)  # columns of a row: moves made, state, then K flags


def known_row(known: Any, time: int, state: int) -> int:
    """The row of a state after ``time`` moves, -1 where nothing is known of it."""
    if len(known) == 0:
        return -1
    if known[0, TIME] == ANY_TIME:
        time = ANY_TIME
    low, high = 0, len(known) - 1
    while low < high:
        middle = (low + high) // 2
        before = known[middle, TIME] < time or (
            known[middle, TIME] == time and known[middle, STATE] < state
        )
        if before:
            low = middle + 1
        else:
            high = middle
    return low if known[low, TIME] == time and known[low, STATE] == state else -1


def bound_node(
    known: Any, ends: Any, time: int, state: int, ints: Any, edge: int, boxes: Any, node: int
) -> None:  # fmt: skip
    """Give a new node its boxes, and mark its excluded actions.

    ``edge`` is the first of its K columns of edge visits. ``ends`` are K lower ends and K
    upper ends.
    """
    row = known_row(known, time, state)
    K = known.shape[1] - FLAGS
    for a in range(K):
        boxes[node, a] = -math.inf if row < 0 else ends[row, a]
        boxes[node, K + a] = math.inf if row < 0 else ends[row, K + a]
        if row >= 0 and known[row, FLAGS + a] == 1:
            ints[node, edge + a] = -1
