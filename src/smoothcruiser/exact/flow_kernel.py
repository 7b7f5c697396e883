"""Loops of ``flow``: a model whose states are numbered from high values to low ones.

All but the first two read such a model, and none but these allocates or sorts. What
this file leaves out: when they are worth it (``flow``).
"""

from __future__ import annotations

import math
from typing import Any


def potential(m: Any, order: Any, v: Any, sweeps: int) -> int:
    """The number of peaks of ``v``: what a player earns who can choose outcomes, about.

    He stays where a reward is for ever, or moves on; a peak is where he stays. The
    sweeps that write ``v`` go back and forth in ``order``, so that few of them reach
    every state.
    """
    start, next_state, live = m.start, m.next_state, m.live
    n, num_actions = live.shape
    for s in range(n):
        top = 0.0 if m.sign[s] == 0.0 else -math.inf
        for a in range(num_actions):
            if live[s, a]:
                top = max(top, m.reward[s * num_actions + a] / (1.0 - m.discount))
        v[s] = top
    peaks = 0
    for sweep in range(sweeps):
        peaks = 0
        for k in range(n):
            s = order[k] if sweep % 2 else order[n - 1 - k]
            top = -math.inf
            for a in range(num_actions):
                if live[s, a]:
                    row = s * num_actions + a
                    best = -math.inf
                    for i in range(start[row], start[row + 1]):
                        z = next_state[i]
                        best = max(best, v[z] if z != s else -math.inf)
                    top = max(top, m.reward[row] + m.discount * best)
            if m.sign[s] != 0.0:
                peaks += v[s] - top > 1e-9 * abs(v[s])  # not by rounding alone
            v[s] = max(v[s], top)
    return peaks


def renumber(m: Any, order: Any, place: Any, out: Any) -> None:
    """Write the live rows of ``m`` to ``out``, whose state k is ``order[k]``."""
    n, num_actions = m.live.shape
    at = 0
    for k in range(n):
        s = order[k]
        out.sign[k] = m.sign[s]
        for a in range(num_actions):
            row, new = s * num_actions + a, k * num_actions + a
            out.start[new] = at
            out.live[k, a] = m.live[s, a]
            out.reward[new] = m.reward[row]
            if m.live[s, a]:
                for i in range(m.start[row], m.start[row + 1]):
                    out.next_state[at] = place[m.next_state[i]]
                    out.prob[at] = m.prob[i]
                    at += 1
    out.start[n * num_actions] = at


def improve(m: Any, x: Any, packed: Any) -> float:
    """The largest change of one sweep of Max in place; its policy is packed."""
    start, next_state, prob, live = m.start, m.next_state, m.prob, m.live
    n, num_actions = live.shape
    at, most = 0, 0.0
    for k in range(n):
        packed.start[k] = at
        packed.income[k] = 0.0
        if m.sign[k] != 0.0:
            best, top = 0, -math.inf
            for a in range(num_actions):
                if live[k, a]:
                    row = k * num_actions + a
                    mean = 0.0
                    for i in range(start[row], start[row + 1]):
                        mean += prob[i] * x[next_state[i]]
                    value = m.reward[row] + m.discount * mean
                    better = value > top
                    best = row if better else best
                    top = value if better else top
            packed.income[k] = m.reward[best]
            for i in range(start[best], start[best + 1]):
                packed.weight[at] = m.discount * prob[i]
                packed.target[at] = next_state[i]
                at += 1
            most = max(most, abs(top - x[k]))
            x[k] = top
    packed.start[n] = at
    return most


def against(packed: Any) -> float:
    """The mean probability with which a policy moves to a lower value."""
    later, total = 0.0, 0.0
    for k in range(len(packed.income)):
        for i in range(packed.start[k], packed.start[k + 1]):
            total += packed.weight[i]
            later += packed.weight[i] if packed.target[i] > k else 0.0
    return later / total if total > 0.0 else 0.0


def follow(packed: Any, mass: Any, visits: Any, sweeps: int) -> None:
    """Move ``mass`` along the policy in place, from low values to high ones.

    ``visits`` is what left each state in the last sweep: in the limit, a multiple of
    the policy's stationary distribution.
    """
    start, target, weight = packed.start, packed.target, packed.weight
    n, total = len(mass), 0.0
    for _ in range(sweeps):
        for j in range(n):
            k = n - 1 - j
            here = mass[k]
            mass[k] = 0.0
            visits[k] = here
            for i in range(start[k], start[k + 1]):
                mass[target[i]] += here * weight[i]
    for k in range(n):
        total += mass[k]
    for k in range(n):
        mass[k] = mass[k] / total if total > 0.0 else 1.0 / n


def relax(packed: Any, visits: Any, x: Any, rounds: int, sweeps: int) -> None:
    """Sweep the policy in place, from high values to low ones.

    Before each round the constant is added with which ``visits`` see no change on
    average: sweeps alone would need 1/(1 - discount) of them to find it.
    """
    start, target, weight = packed.start, packed.target, packed.weight
    n = len(x)
    for _ in range(rounds):
        change, rest = 0.0, 0.0
        for k in range(n):
            total, kept = packed.income[k] - x[k], 1.0
            for i in range(start[k], start[k + 1]):
                total += weight[i] * x[target[i]]
                kept -= weight[i]
            change += visits[k] * total
            rest += visits[k] * kept
        shift = change / rest if rest > 0.0 else 0.0
        for k in range(n):
            x[k] += shift
        for _ in range(sweeps):
            for k in range(n):
                total = packed.income[k]
                for i in range(start[k], start[k + 1]):
                    total += weight[i] * x[target[i]]
                x[k] = total
