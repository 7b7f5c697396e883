"""How a compiled node leaves out what known bounds exclude (``tree.pruning``).

The actions are marked as illegal ones are, so that nothing else in the machine knows of
them. The rows are sorted by time and state: one binary search per new node.
"""

from __future__ import annotations

from typing import Any

ANY_TIME = -1  # in the first column, where no steps are counted
TIME, STATE, FLAGS = range(3)  # columns of a row: moves made, state, then K flags


def leave_out(
    excluded: Any, time: int, state: int, ints: Any, edge: int, node: int
) -> None:
    """Mark the excluded actions of a new node; ``edge`` is the first of its K columns."""
    if len(excluded) == 0:
        return
    if excluded[0, TIME] == ANY_TIME:
        time = ANY_TIME
    low, high = 0, len(excluded) - 1
    while low < high:
        middle = (low + high) // 2
        before = excluded[middle, TIME] < time or (
            excluded[middle, TIME] == time and excluded[middle, STATE] < state
        )
        if before:
            low = middle + 1
        else:
            high = middle
    if excluded[low, TIME] != time or excluded[low, STATE] != state:
        return
    for a in range(excluded.shape[1] - FLAGS):
        if excluded[low, FLAGS + a] == 1:
            ints[node, edge + a] = -1
