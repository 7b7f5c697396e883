"""UCT's choice read straight from a node's row, for compiled trees without extras.

It is ``kernel.gather`` followed by ``selection.upper_pick``, with the same numbers in the
same order and hence the same bits. Nothing is copied on the way: the copies took a fifth of
UCT's time on tic-tac-toe. Not in this file: every other descent.
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.tree.searches import TreeRule
from smoothcruiser.tree.selection import SMALLEST_SCALE


def upper_action(
    rule: TreeRule, ints: Any, edge: int, floats: Any, total: int, node: int, K: int,
    sign: float, visits: int, rng: Any,
) -> int:  # fmt: skip
    """The action that UCT selects: a random untried one, or the best upper bound.

    ``edge`` and ``total`` are the first columns of edge visits and of totals.
    """
    num_untried = 0
    for a in range(K):
        if ints[node, edge + a] == 0:
            num_untried += 1
    if num_untried > 0:
        untried_left = rng.integers(num_untried)
        for a in range(K):
            if ints[node, edge + a] == 0:
                if untried_left == 0:
                    return a
                untried_left -= 1
    c = rule.exploration
    if math.isnan(c):
        c = SMALLEST_SCALE
        for a in range(K):
            if ints[node, edge + a] > 0:
                c = max(c, abs(floats[node, total + a] / ints[node, edge + a]))
    log_visits = math.log(float(visits)) if visits > 1 else 0.0
    best_action = 0
    best_score = -math.inf
    for a in range(K):
        edge_visits = ints[node, edge + a]
        if edge_visits > 0:
            x = sign * (floats[node, total + a] / edge_visits)
            score = x + c * math.sqrt(log_visits / edge_visits)
            if score > best_score:
                best_score = score
                best_action = a
    return best_action
