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


def known_row(known: Any, num_moves: int, state: int) -> int:
    """The row of a state after ``num_moves`` moves, -1 where nothing is known of it."""
    if len(known) == 0:
        return -1
    if known[0, TIME] == ANY_TIME:
        num_moves = ANY_TIME
    low_row, high_row = 0, len(known) - 1
    while low_row < high_row:
        middle_row = (low_row + high_row) // 2
        is_before = known[middle_row, TIME] < num_moves or (
            known[middle_row, TIME] == num_moves and known[middle_row, STATE] < state
        )
        if is_before:
            low_row = middle_row + 1
        else:
            high_row = middle_row
    return (
        low_row
        if known[low_row, TIME] == num_moves and known[low_row, STATE] == state
        else -1
    )


def bound_node(
    known: Any, ends: Any, num_moves: int, state: int, ints: Any, edge: int, boxes: Any,
    node: int,
) -> None:  # fmt: skip
    """Give a new node its boxes, and mark its excluded actions.

    ``edge`` is the first of its K columns of edge visits. ``ends`` are K lower ends and K
    upper ends.
    """
    row = known_row(known, num_moves, state)
    K = known.shape[1] - FLAGS
    for a in range(K):
        boxes[node, a] = -math.inf if row < 0 else ends[row, a]
        boxes[node, K + a] = math.inf if row < 0 else ends[row, K + a]
        if row >= 0 and known[row, FLAGS + a] == 1:
            ints[node, edge + a] = -1
