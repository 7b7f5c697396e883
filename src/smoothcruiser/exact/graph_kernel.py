"""Loops over the graph of a model at discount 1: plain functions, compiled on first use.

A graph has n states and m rows; row i belongs to state ``owner[i]`` and leads to
``target[start[i]:start[i + 1]]`` with ``weight`` there. Number n is the outside, whose
value is 0. What this file leaves out: which sets and which rows are asked for
(``qualitative``, ``chains``).
"""

from __future__ import annotations

from typing import Any

import numpy as np


def attract(
    back: Any,
    row_of: Any,
    owner: Any,
    alive: Any,
    wants: Any,
    member: Any,
    hit: Any,
    choice: Any,
) -> None:
    """Grow ``member`` to all states from which it is reached with positive probability.

    A row hits the set if one of its targets is a member, or ``hit`` says so. A state
    that ``wants`` joins by its first alive row that hits, which is written to
    ``choice``; any other joins once all of its alive rows hit. ``row_of[back[z]:
    back[z + 1]]`` are the rows that lead to z. A state without alive rows never joins.
    """
    num_states, num_rows = len(member), len(owner)
    left = np.zeros(num_states, dtype=np.int64)  # alive rows that do not hit yet
    queue = np.empty(num_states, dtype=np.int64)
    head, tail = 0, 0
    for row in range(num_rows):
        if alive[row]:
            left[owner[row]] += 1
    for s in range(num_states):
        if member[s]:
            queue[tail] = s
            tail += 1
    for row in range(num_rows):
        if alive[row] and hit[row]:
            s = owner[row]
            left[s] -= 1
            if not member[s] and (wants[s] or left[s] == 0):
                member[s] = True
                choice[s] = row
                queue[tail] = s
                tail += 1
    while head < tail:
        z = queue[head]
        head += 1
        for i in range(back[z], back[z + 1]):
            row = row_of[i]
            if alive[row] and not hit[row]:
                hit[row] = True
                s = owner[row]
                left[s] -= 1
                if not member[s] and (wants[s] or left[s] == 0):
                    member[s] = True
                    choice[s] = row
                    queue[tail] = s
                    tail += 1


def components(start: Any, target: Any, label: Any) -> int:
    """The number of strongly connected components; ``label`` gets that of each state.

    State s leads to ``target[start[s]:start[s + 1]]``, where numbers from n on are the
    outside. A component's number is above those of all that it leads to (Tarjan 1972).
    """
    n = len(label)
    index = np.full(n, -1, dtype=np.int64)
    low = np.zeros(n, dtype=np.int64)
    at = np.zeros(n, dtype=np.int64)  # the next edge of a state on the path
    path = np.empty(n, dtype=np.int64)
    stack = np.empty(n, dtype=np.int64)
    found, met, height = 0, 0, 0
    for root in range(n):
        if index[root] >= 0:
            continue
        depth = 0
        path[0] = root
        index[root] = low[root] = met
        met += 1
        stack[height] = root
        height += 1
        label[root] = -1
        at[root] = start[root]
        while depth >= 0:
            s = path[depth]
            if at[s] < start[s + 1]:
                z = target[at[s]]
                at[s] += 1
                if z >= n:
                    continue
                if index[z] < 0:
                    index[z] = low[z] = met
                    met += 1
                    stack[height] = z
                    height += 1
                    label[z] = -1
                    at[z] = start[z]
                    depth += 1
                    path[depth] = z
                elif label[z] < 0:  # still on the stack
                    low[s] = min(low[s], index[z])
                continue
            if low[s] == index[s]:
                while True:
                    height -= 1
                    z = stack[height]
                    label[z] = found
                    if z == s:
                        break
                found += 1
            depth -= 1
            if depth >= 0:
                before = path[depth]
                low[before] = min(low[before], low[s])
    return found


def substitute(
    order: Any,
    block: Any,
    first: int,
    largest: int,
    start: Any,
    target: Any,
    weight: Any,
    income: Any,
    x: Any,
    place: Any,
) -> int:
    """Solve x = income + weight x, block by block, and return where it ended.

    Block b is ``order[block[b]:block[b + 1]]``; blocks lead to earlier ones, to
    themselves and to the outside. The result is the number of blocks if all were
    solved, b where block b has more than ``largest`` states, and -1 - b where no row
    of block b leads out of it. Blocks are eliminated state by state without a
    subtraction (Grassmann, Taksar and Heyman 1985): what stays is summed, never
    1 minus what leaves, so that rare exits keep all their digits. ``place`` is room
    for n numbers.
    """
    for b in range(first, len(block) - 1):
        low, high = block[b], block[b + 1]
        size = high - low
        if size > largest:
            return b
        for k in range(size):
            place[order[low + k]] = k
        inside = np.zeros((size, size))
        out = np.zeros(size)
        total = np.empty(size)
        leaving = 0.0
        for k in range(size):
            s = order[low + k]
            value = income[s]
            for i in range(start[s], start[s + 1]):
                z = target[i]
                # places of earlier blocks are stale: they name another state
                if z < len(place) and place[z] < size and order[low + place[z]] == z:
                    inside[k, place[z]] += weight[i]
                else:
                    out[k] += weight[i]
                    value += weight[i] * x[z]
            total[k] = value
            leaving += out[k]
        if leaving <= 0.0:
            return -1 - b
        for m in range(size - 1, 0, -1):
            stays = out[m]
            for j in range(m):
                stays += inside[m, j]
            if stays <= 0.0:
                return -1 - b
            for i in range(m):
                share = inside[i, m] / stays
                if share > 0.0:
                    for j in range(m):
                        inside[i, j] += share * inside[m, j]
                    out[i] += share * out[m]
                    total[i] += share * total[m]
        for m in range(size):
            stays = out[m]
            value = total[m]
            for j in range(m):
                stays += inside[m, j]
                value += inside[m, j] * x[order[low + j]]
            if stays <= 0.0:
                return -1 - b
            x[order[low + m]] = value / stays
    return len(block) - 1


def relax(
    states: Any, start: Any, target: Any, weight: Any, income: Any, x: Any, most: int
) -> float:
    """The largest change of the last of ``most`` Gauss-Seidel sweeps over ``states``."""
    change = 0.0
    for _ in range(most):
        change = 0.0
        for k in range(len(states)):
            s = states[k]
            value = income[s]
            stays = 0.0
            for i in range(start[s], start[s + 1]):
                if target[i] != s:
                    value += weight[i] * x[target[i]]
                    stays += weight[i]
            value /= stays
            change = max(change, abs(value - x[s]))
            x[s] = value
    return change
