"""Loops of ``flow``: a model with states numbered from high values to low ones.

All but the first two read such a model, and none but these allocates or sorts. This
file leaves out when they are worth it (``flow``).
"""

from __future__ import annotations

import math
from typing import Any


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
                    best_value = max(best_value, m.reward[row] + m.discount * best_next)
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
