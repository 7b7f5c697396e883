"""Loops over the graph of a model at discount 1: plain functions, compiled on first use.

A graph has n states and m rows; row i belongs to state ``owner[i]`` and leads to
``target[start[i]:start[i + 1]]`` with ``weight`` there. Number n is the outside, with
value 0. This file leaves out which sets and rows are needed (``strategy``,
``chains``).
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
    rows_left = np.zeros(num_states, dtype=np.int64)  # alive rows that do not hit yet
    queue = np.empty(num_states, dtype=np.int64)
    head, tail = 0, 0
    for row in range(num_rows):
        if alive[row]:
            rows_left[owner[row]] += 1
    for s in range(num_states):
        if member[s]:
            queue[tail] = s
            tail += 1
    for row in range(num_rows):
        if alive[row] and hit[row]:
            s = owner[row]
            rows_left[s] -= 1
            if not member[s] and (wants[s] or rows_left[s] == 0):
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
                rows_left[s] -= 1
                if not member[s] and (wants[s] or rows_left[s] == 0):
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
    low_link = np.zeros(n, dtype=np.int64)
    next_edge = np.zeros(n, dtype=np.int64)  # the next edge of a state on the path
    path = np.empty(n, dtype=np.int64)
    stack = np.empty(n, dtype=np.int64)
    num_components, num_met, stack_height = 0, 0, 0
    for root in range(n):
        if index[root] >= 0:
            continue
        depth = 0
        path[0] = root
        index[root] = low_link[root] = num_met
        num_met += 1
        stack[stack_height] = root
        stack_height += 1
        label[root] = -1
        next_edge[root] = start[root]
        while depth >= 0:
            s = path[depth]
            if next_edge[s] < start[s + 1]:
                z = target[next_edge[s]]
                next_edge[s] += 1
                if z >= n:
                    continue
                if index[z] < 0:
                    index[z] = low_link[z] = num_met
                    num_met += 1
                    stack[stack_height] = z
                    stack_height += 1
                    label[z] = -1
                    next_edge[z] = start[z]
                    depth += 1
                    path[depth] = z
                elif label[z] < 0:  # still on the stack
                    low_link[s] = min(low_link[s], index[z])
                continue
            if low_link[s] == index[s]:
                while True:
                    stack_height -= 1
                    z = stack[stack_height]
                    label[z] = num_components
                    if z == s:
                        break
                num_components += 1
            depth -= 1
            if depth >= 0:
                parent_state = path[depth]
                low_link[parent_state] = min(low_link[parent_state], low_link[s])
    return num_components


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
    subtraction (Grassmann, Taksar and Heyman 1985): the weights that leave are summed,
    never 1 minus those that stay, so that rare exits keep all their digits. ``place`` is
    memory for n numbers.
    """
    for b in range(first, len(block) - 1):
        block_start, block_end = block[b], block[b + 1]
        block_size = block_end - block_start
        if block_size > largest:
            return b
        for k in range(block_size):
            place[order[block_start + k]] = k
        inside = np.zeros((block_size, block_size))
        out_weight = np.zeros(block_size)
        row_income = np.empty(block_size)
        leaving_weight = 0.0
        for k in range(block_size):
            s = order[block_start + k]
            state_value = income[s]
            for i in range(start[s], start[s + 1]):
                z = target[i]
                # places of earlier blocks are stale: they name another state
                if (
                    z < len(place)
                    and place[z] < block_size
                    and order[block_start + place[z]] == z
                ):
                    inside[k, place[z]] += weight[i]
                else:
                    out_weight[k] += weight[i]
                    state_value += weight[i] * x[z]
            row_income[k] = state_value
            leaving_weight += out_weight[k]
        if leaving_weight <= 0.0:
            return -1 - b
        for m in range(block_size - 1, 0, -1):
            exit_weight = out_weight[m]
            for j in range(m):
                exit_weight += inside[m, j]
            if exit_weight <= 0.0:
                return -1 - b
            for i in range(m):
                row_share = inside[i, m] / exit_weight
                if row_share > 0.0:
                    for j in range(m):
                        inside[i, j] += row_share * inside[m, j]
                    out_weight[i] += row_share * out_weight[m]
                    row_income[i] += row_share * row_income[m]
        for m in range(block_size):
            exit_weight = out_weight[m]
            state_value = row_income[m]
            for j in range(m):
                exit_weight += inside[m, j]
                state_value += inside[m, j] * x[order[block_start + j]]
            if exit_weight <= 0.0:
                return -1 - b
            x[order[block_start + m]] = state_value / exit_weight
    return len(block) - 1


def relax(
    states: Any, start: Any, target: Any, weight: Any, income: Any, x: Any, most: int
) -> float:
    """The largest change of the last of ``most`` Gauss-Seidel sweeps over ``states``."""
    max_change = 0.0
    for _ in range(most):
        max_change = 0.0
        for k in range(len(states)):
            s = states[k]
            new_value = income[s]
            exit_weight = 0.0
            for i in range(start[s], start[s + 1]):
                if target[i] != s:
                    new_value += weight[i] * x[target[i]]
                    exit_weight += weight[i]
            new_value /= exit_weight
            max_change = max(max_change, abs(new_value - x[s]))
            x[s] = new_value
    return max_change
