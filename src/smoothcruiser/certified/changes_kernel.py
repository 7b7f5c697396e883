"""A sweep that computes only the bounds that can have changed, compiled.

The bounds of a node follow from its samples and from the bounds of its next states. A
sweep gives every listed node its turn, last met first. So only two things can be new to
a node when its turn comes: samples entered since its last turn (``SAMPLED``), and next
states with bounds that moved on their own last turn (``MOVED``). Next states after it
in the list have had this sweep's turn, and those before it had theirs after it in the
last sweep. Where there is neither, computing its bounds again would give the same
bounds, and it is left as it is. A choice that a bound walks to (``WALK``) may be
another one wherever something moved since the last walk (``KEPT``). ``SCAN`` leaves out
nothing.

Bounds that are left as they are were valid and stay so (``sweeps_kernel``). The
decisions of this file cannot break a bound, only leave one wider. Code that moves
bounds or reorders the list between two sweeps has to mark the nodes, as
``Region.start`` does.
"""

from __future__ import annotations

from typing import Any

from smoothcruiser.certified.bounds.base import KEEP, SCAN, WALK
from smoothcruiser.certified.graph import KEPT, MOVED, SAMPLED, Graph
from smoothcruiser.certified.sweeps_kernel import SweepRules, backup_side
from smoothcruiser.problem.tabular import Ints


def is_stale(g: Graph, node: Any, tune: int) -> bool:
    """Whether the bounds of a node can be others than they are."""
    if tune == SCAN or node["stale"] & SAMPLED:
        return True
    if tune == WALK and node["stale"] & KEPT:
        return True
    for p in range(node["first"], node["first"] + node["size"]):
        pair = g.pairs[p]
        for e in range(pair["start"], pair["start"] + pair["length"]):
            if g.nodes[g.entries[e]["target"]]["stale"] & MOVED:
                return True
    return False


def sweep(g: Graph, order: Ints, count: int, tune: int, rules: SweepRules) -> float:
    """Pass once over the listed nodes, last met first, and return how much they closed.

    The sum is weighted by visits; ``order[0]`` is the requested node. Rounding may
    leave visits just below 0, which count as none, so the sum is not negative. Where
    the bounds of a node or of one of its pairs exclude each other, the pass ends with
    -1 minus the node's number.
    """
    total_closed = 0.0
    for i in range(count - 1, -1, -1):
        node = g.nodes[order[i]]
        if not is_stale(g, node, tune):
            node["stale"] &= KEPT
            continue
        closed = 0.0
        for side in range(2):
            closed += backup_side(
                g.nodes, g.pairs, g.entries, order[i], side == 0, tune, rules
            )
        node["stale"] = (MOVED if closed > 0.0 else 0) | (KEPT if tune == KEEP else 0)
        is_crossed = node["lower"] > node["upper"]
        for p in range(node["first"], node["first"] + node["size"]):
            is_crossed = is_crossed or g.pairs[p]["q_lower"] > g.pairs[p]["q_upper"]
        if is_crossed:
            return float(-1 - order[i])
        total_closed += max(0.0, node["mass"] + (1.0 if i == 0 else 0.0)) * closed
    return total_closed
