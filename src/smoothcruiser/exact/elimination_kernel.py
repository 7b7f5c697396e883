"""Loops of the elimination in a narrow order: plain functions, compiled on first use.

In the graph of a model, state s leads to ``target[start[s]:start[s + 1]]``, whatever is
played. This file leaves out when an elimination pays (``elimination``, ``solver``).

Loops of ``elimination``: a model with states numbered from high values to low ones.

All but the first two read such a model, and none but these allocates or sorts. This
file leaves out when they are worth it (``elimination``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def widest_level(start: Any, target: Any, most: int) -> int:
    """The states of the widest level seen from state 0, in steps that may be taken.

    The search ends with the first level of more than ``most``: it rejects graphs without
    a narrow order after a few of them.
    """
    n = len(start) - 1
    is_seen = np.zeros(n, dtype=np.bool_)
    queue = np.empty(n, dtype=np.int64)
    queue[0], is_seen[0] = 0, True
    head, tail, widest = 0, 1, 1
    while head < tail and widest <= most:
        level_end = tail
        while head < level_end:
            s = queue[head]
            head += 1
            for i in range(start[s], start[s + 1]):
                if not is_seen[target[i]]:
                    is_seen[target[i]] = True
                    queue[tail] = target[i]
                    tail += 1
        widest = max(widest, tail - level_end)
    return widest


def reversed_edges(start: Any, target: Any, back: Any, source: Any) -> None:
    """Write the states that lead to each z to ``source[back[z]:back[z + 1]]``."""
    n = len(start) - 1
    back[:] = 0
    for i in range(len(target)):
        back[target[i] + 1] += 1
    for z in range(n):
        back[z + 1] += back[z]
    write_at = back[:n].copy()
    for s in range(n):
        for i in range(start[s], start[s + 1]):
            source[write_at[target[i]]] = s
            write_at[target[i]] += 1


def append_new(
    start: Any, target: Any, s: int, place: Any, order: Any, tail: int
) -> int:
    """Put the neighbours of s that have no place behind ``order``; its new end."""
    for i in range(start[s], start[s + 1]):
        z = target[i]
        if place[z] < 0:
            place[z] = tail
            order[tail] = z
            tail += 1
    return tail


def level_order(start: Any, target: Any, order: Any, place: Any) -> int:
    """The half bandwidth of the order by levels; ``order`` and ``place`` are written.

    Levels are taken in both directions of the edges, from a state that is far from
    another one (Cuthill and McKee 1969): an edge then joins two states of one level or
    of neighbouring ones.
    """
    n = len(order)
    back_start, source = (
        np.empty(n + 1, dtype=np.int64),
        np.empty(len(target), dtype=np.int64),
    )
    reversed_edges(start, target, back_start, source)
    for s in range(n):
        place[s] = -1
    num_done = 0
    for root in range(n):
        if place[root] >= 0:
            continue
        first_state = root
        for run in range(2):  # the second begins where the first ended
            place[first_state] = num_done
            order[num_done] = first_state
            head, tail = num_done, num_done + 1
            while head < tail:
                s = order[head]
                head += 1
                tail = append_new(start, target, s, place, order, tail)
                tail = append_new(back_start, source, s, place, order, tail)
            if run == 0:
                first_state = order[tail - 1]
                for k in range(num_done, tail):
                    place[order[k]] = -1
            else:
                num_done = tail
    half_width = 0
    for s in range(n):
        for i in range(start[s], start[s + 1]):
            half_width = max(half_width, abs(place[s] - place[target[i]]))
    return half_width


def eliminate(packed: Any, order: Any, place: Any, upper: Any, x: Any) -> None:
    """Write the solution of x = income + weight x to ``x``.

    Rows are eliminated one by one in ``order``; ``upper[i]`` keeps the weights of row i
    on itself and the ``half`` states after it, divided by its pivot. No pivots
    are exchanged: of a row, the weights sum to less than 1. Inner loops have one fixed
    length, which is faster than leaving out their zeros. Four earlier rows are taken
    off at once, so that the row is read and written once for them; their last columns
    are the three zeros that end each row of ``upper``.
    """
    start, target, weight = packed.start, packed.target, packed.weight
    n, half = upper.shape[0], upper.shape[1] - 4
    row = np.empty(2 * half + 4)  # row i, from place i - half on
    right_side = np.zeros(n + half)
    for i in range(n):
        s = order[i]
        row[:] = 0.0
        row[half] = 1.0
        first_place, row_total = i, packed.income[s]
        for e in range(start[s], start[s + 1]):
            j = place[target[e]]
            row[j - i + half] -= weight[e]
            first_place = min(first_place, j)
        k = first_place
        while k + 4 <= i:
            row_offset = k - i + half
            u0, u1, u2, u3 = upper[k], upper[k + 1], upper[k + 2], upper[k + 3]
            a = row[row_offset]
            b = row[row_offset + 1] - a * u0[1]
            c = row[row_offset + 2] - a * u0[2] - b * u1[1]
            d = row[row_offset + 3] - a * u0[3] - b * u1[2] - c * u2[1]
            row_tail, v0, v1, v2, v3 = (
                row[row_offset + 4 :],
                u0[4:],
                u1[3:],
                u2[2:],
                u3[1:],
            )
            for j in range(half):
                row_tail[j] -= a * v0[j] + b * v1[j] + (c * v2[j] + d * v3[j])
            row_total -= a * right_side[k] + b * right_side[k + 1]
            row_total -= c * right_side[k + 2] + d * right_side[k + 3]
            k += 4
        while k < i:
            row_offset = k - i + half
            share, upper_row, row_tail = (
                row[row_offset],
                upper[k],
                row[row_offset : row_offset + half + 1],
            )
            for j in range(1, half + 1):
                row_tail[j] -= share * upper_row[j]
            row_total -= share * right_side[k]
            k += 1
        pivot_row, row_tail = upper[i], row[half:]
        pivot_scale = 1.0 / row_tail[0]
        for j in range(half + 1):
            pivot_row[j] = row_tail[j] * pivot_scale
        pivot_row[half + 1 :] = 0.0
        right_side[i] = row_total * pivot_scale
    for i in range(n - 1, -1, -1):
        upper_row, solved_values = upper[i, 1:], right_side[i + 1 : i + 1 + half]
        row_total = right_side[i]
        for j in range(half):
            row_total -= upper_row[j] * solved_values[j]
        right_side[i] = row_total
        x[order[i]] = row_total


def settle(m: Any, order: Any, v: Any, sweeps: int) -> None:
    """Sweep T for Max in place, back and forth: each state reads the newest values."""
    start, next_state, prob, live = m.start, m.next_state, m.prob, m.live
    num_actions, n = live.shape[1], len(order)
    for sweep in range(sweeps):
        for k in range(n):
            s = order[k] if sweep % 2 else order[n - 1 - k]
            if m.sign[s] != 0.0:
                best_value = -math.inf
                for a in range(num_actions):
                    if live[s, a]:
                        row = s * num_actions + a
                        mean_value = 0.0
                        for i in range(start[row], start[row + 1]):
                            mean_value += prob[i] * v[next_state[i]]
                        best_value = max(
                            best_value,
                            m.sign[s] * (m.reward[row] + m.discount * mean_value),
                        )
                v[s] = m.sign[s] * best_value


def potential(m: Any, order: Any, v: Any, sweeps: int) -> int:
    """The number of peaks of ``v``: about the income of a player that chooses outcomes.

    It stays where a reward is for ever, or moves on; a peak is where it stays. The
    sweeps that write ``v`` go back and forth in ``order``, so that few of them reach
    every state.
    """
    start, next_state, live = m.start, m.next_state, m.live
    n, num_actions = live.shape
    for s in range(n):
        best_value = 0.0 if m.sign[s] == 0.0 else -math.inf
        for a in range(num_actions):
            if live[s, a]:
                best_value = max(
                    best_value, m.reward[s * num_actions + a] / (1.0 - m.discount)
                )
        v[s] = best_value
    num_peaks = 0
    for sweep in range(sweeps):
        num_peaks = 0
        for k in range(n):
            s = order[k] if sweep % 2 else order[n - 1 - k]
            best_value = -math.inf
            for a in range(num_actions):
                if live[s, a]:
                    row = s * num_actions + a
                    best_next = -math.inf
                    for i in range(start[row], start[row + 1]):
                        z = next_state[i]
                        best_next = max(best_next, v[z] if z != s else -math.inf)
                    best_value = max(
                        best_value, m.reward[row] + m.discount * best_next
                    )
            if m.sign[s] != 0.0:
                num_peaks += v[s] - best_value > 1e-9 * abs(
                    v[s]
                )  # not by rounding alone
            v[s] = max(v[s], best_value)
    return num_peaks


def renumber(m: Any, order: Any, place: Any, out: Any) -> None:
    """Write the live rows of ``m`` to ``out``; state k of ``out`` is ``order[k]``."""
    n, num_actions = m.live.shape
    write_at = 0
    for k in range(n):
        s = order[k]
        out.sign[k] = m.sign[s]
        for a in range(num_actions):
            row, new_row = s * num_actions + a, k * num_actions + a
            out.start[new_row] = write_at
            out.live[k, a] = m.live[s, a]
            out.reward[new_row] = m.reward[row]
            if m.live[s, a]:
                for i in range(m.start[row], m.start[row + 1]):
                    out.next_state[write_at] = place[m.next_state[i]]
                    out.prob[write_at] = m.prob[i]
                    write_at += 1
    out.start[n * num_actions] = write_at


def improve(m: Any, x: Any, packed: Any) -> float:
    """The largest change of one sweep of Max in place; its policy is packed."""
    start, next_state, prob, live = m.start, m.next_state, m.prob, m.live
    n, num_actions = live.shape
    write_at, max_change = 0, 0.0
    for k in range(n):
        packed.start[k] = write_at
        packed.income[k] = 0.0
        if m.sign[k] != 0.0:
            best_row, best_value = 0, -math.inf
            for a in range(num_actions):
                if live[k, a]:
                    row = k * num_actions + a
                    mean_value = 0.0
                    for i in range(start[row], start[row + 1]):
                        mean_value += prob[i] * x[next_state[i]]
                    row_value = m.reward[row] + m.discount * mean_value
                    is_better = row_value > best_value
                    best_row = row if is_better else best_row
                    best_value = row_value if is_better else best_value
            packed.income[k] = m.reward[best_row]
            for i in range(start[best_row], start[best_row + 1]):
                packed.weight[write_at] = m.discount * prob[i]
                packed.target[write_at] = next_state[i]
                write_at += 1
            max_change = max(max_change, abs(best_value - x[k]))
            x[k] = best_value
    packed.start[n] = write_at
    return max_change


def against(packed: Any) -> float:
    """The mean probability with which a policy moves to a lower value."""
    later_weight, total_weight = 0.0, 0.0
    for k in range(len(packed.income)):
        for i in range(packed.start[k], packed.start[k + 1]):
            total_weight += packed.weight[i]
            later_weight += packed.weight[i] if packed.target[i] > k else 0.0
    return later_weight / total_weight if total_weight > 0.0 else 0.0


def follow(packed: Any, mass: Any, visits: Any, sweeps: int) -> None:
    """Move ``mass`` along the policy in place, from low values to high ones.

    ``visits`` is the mass that left each state in the last sweep: in the limit, a multiple
    of the policy's stationary distribution.
    """
    start, target, weight = packed.start, packed.target, packed.weight
    n, total_mass = len(mass), 0.0
    for _ in range(sweeps):
        for j in range(n):
            k = n - 1 - j
            mass_here = mass[k]
            mass[k] = 0.0
            visits[k] = mass_here
            for i in range(start[k], start[k + 1]):
                mass[target[i]] += mass_here * weight[i]
    for k in range(n):
        total_mass += mass[k]
    for k in range(n):
        mass[k] = mass[k] / total_mass if total_mass > 0.0 else 1.0 / n


def relax(packed: Any, visits: Any, x: Any, rounds: int, sweeps: int) -> None:
    """Sweep the policy in place, from high values to low ones.

    Before each round the constant is added with which ``visits`` see no change on
    average: sweeps alone would need 1/(1 - discount) of them to find it.
    """
    start, target, weight = packed.start, packed.target, packed.weight
    n = len(x)
    for _ in range(rounds):
        mean_change, mean_loss = 0.0, 0.0
        for k in range(n):
            row_total, row_loss = packed.income[k] - x[k], 1.0
            for i in range(start[k], start[k + 1]):
                row_total += weight[i] * x[target[i]]
                row_loss -= weight[i]
            mean_change += visits[k] * row_total
            mean_loss += visits[k] * row_loss
        shift = mean_change / mean_loss if mean_loss > 0.0 else 0.0
        for k in range(n):
            x[k] += shift
        for _ in range(sweeps):
            for k in range(n):
                row_total = packed.income[k]
                for i in range(start[k], start[k + 1]):
                    row_total += weight[i] * x[target[i]]
                x[k] = row_total
