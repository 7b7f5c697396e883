"""The loops of the exact solver: plain functions, compiled on first use.

They read one flat model.

legend   symbol   here
  Q_V             ``q``: expected reward + gamma * mean of V over next states,
                  written by ``fill_q``
  TV              F_s(Q_V(s, .)), written by ``fill_values``; -F(-Q) where the
                  min player moves
  pi              grad F(Q_V), written by ``fill_policy``
  T_pi X          F(Q_V) + <pi, Q_X - Q_V>: one sweep of the policy pi; its rows
                  are packed once (``pack``) and swept (``evaluate``)

Rewards enter through their expectation only, so a sweep reads one probability
and one value per successor. Action values and operators are two passes: operators
that are plain Python functions (``CustomOperator``) then need no second set of
kernels.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.operators.dispatch import (
    builtin_gradient,
    builtin_value,
    is_greedy,
)
from smoothcruiser.problem.tabular import Bools, Floats, Ints

# Indices are unsigned: compiled code then need not handle negative ones, and a
# sweep is twice as fast.
Indices = NDArray[np.uint32]
Starts = NDArray[np.uint64]


class Model(NamedTuple):
    """What the kernels read, and the action values that they write.

    Row s*A + a belongs to the pair (s, a); terminal states have sign 0.
    """

    start: Starts  # (S*A + 1,)
    next_state: Indices  # (nnz,), empty where full
    prob: Floats  # (nnz,)
    reward: Floats  # (S*A,), expected over next states; 0 where not live
    live: Bools  # (S, A): legal and not terminal
    sign: Floats  # (S,): 1 max, -1 min, 0 terminal
    weights: Floats  # (A,), prior weights
    q: Floats  # (S*A,), written by fill_q
    full: bool  # every row lists all S states in order: the tables are a dense matrix
    code: int
    temperature: float
    discount: float
    # the largest |reward| of a live pair, for the bound on rounding
    reward_top: float = 0.0


class Packed(NamedTuple):
    """One policy's sweep T_pi: the rows it uses, times gamma * pi(a|s) * prob."""

    start: Starts  # (S + 1,)
    target: Indices  # (nnz,), used up to start[S]
    weight: Floats  # (nnz,)
    income: Floats  # (S,)


def is_full(start: Ints, next_state: Ints, size: int) -> bool:
    """Whether every row lists the states 0..size-1 in order."""
    for row in range(len(start) - 1):
        if start[row] != row * size or start[row + 1] != (row + 1) * size:
            return False
        for j in range(size):
            if next_state[row * size + j] != j:
                return False
    return True


def apply_value(code: int, q: Any, w: Any, t: float) -> float:
    """F(q); a user's compiled operator takes this function's place."""
    return builtin_value(code, q, w, t)


def apply_gradient(code: int, q: Any, w: Any, t: float, out: Any) -> None:
    """Gradient of F at q; a user's compiled operator takes this function's place."""
    builtin_gradient(code, q, w, t, out)


def fill_reward(
    start: Ints, prob: Floats, paid: Floats, live: Bools, reward: Floats
) -> float:
    """The largest |reward| of the live rows; their means are written to ``reward``.

    Rows that are not live may hold anything and are not read.
    """
    num_states, num_actions = live.shape
    top = 0.0
    for s in range(num_states):
        for a in range(num_actions):
            row = s * num_actions + a
            total = 0.0
            if live[s, a]:
                for i in range(start[row], start[row + 1]):
                    total += prob[i] * paid[i]
                    top = max(top, abs(paid[i]))
            reward[row] = total
    return top


def fill_q(m: Model, v: Floats) -> None:
    """Write Q_V of every live pair."""
    start, next_state, prob, reward, live, q = (
        m.start,
        m.next_state,
        m.prob,
        m.reward,
        m.live,
        m.q,
    )
    num_states, num_actions = live.shape
    for s in range(num_states):
        for a in range(num_actions):
            if live[s, a]:
                row = s * num_actions + a
                mean = 0.0
                for i in range(start[row], start[row + 1]):
                    mean += prob[i] * v[next_state[i]]
                q[row] = reward[row] + m.discount * mean


def greedy(m: Model, s: int) -> tuple[int, float]:
    """The first best action of s for Max, and its signed value.

    No branch depends on a value, since random data would mispredict it.
    """
    num_actions = m.live.shape[1]
    best, top = 0, -math.inf
    for a in range(num_actions):
        x = m.sign[s] * m.q[s * num_actions + a] if m.live[s, a] else -math.inf
        better = x > top
        best = a if better else best
        top = x if better else top
    return best, top


def fill_values(m: Model, out: Floats) -> None:
    """Write TV from Q_V.

    Where every action is legal the buffers are passed whole, because a slice
    costs more than a maximum of four numbers.
    """
    if is_greedy(m.code):
        for s in range(len(out)):
            out[s] = m.sign[s] * greedy(m, s)[1] if m.sign[s] != 0.0 else 0.0
        return
    live, sign, weights, values = m.live, m.sign, m.weights, m.q
    num_states, num_actions = live.shape
    q, w = np.empty(num_actions), np.empty(num_actions)
    for s in range(num_states):
        out[s] = 0.0
        if sign[s] != 0.0:
            k = 0
            for a in range(num_actions):
                if live[s, a]:
                    q[k] = sign[s] * values[s * num_actions + a]
                    w[k] = weights[a]
                    k += 1
            if k == num_actions:
                out[s] = sign[s] * apply_value(m.code, q, w, m.temperature)
            else:
                out[s] = sign[s] * apply_value(m.code, q[:k], w[:k], m.temperature)


def fill_policy(m: Model, policy: Floats) -> None:
    """Write the policy grad F(Q_V), 0 where an action is not legal."""
    if is_greedy(m.code):
        for s in range(len(policy)):
            for a in range(policy.shape[1]):
                policy[s, a] = 0.0
            if m.sign[s] != 0.0:
                policy[s, greedy(m, s)[0]] = 1.0
        return
    live, sign, weights, values = m.live, m.sign, m.weights, m.q
    num_states, num_actions = live.shape
    q, w, g = np.empty(num_actions), np.empty(num_actions), np.empty(num_actions)
    for s in range(num_states):
        k = 0
        for a in range(num_actions):
            if live[s, a]:
                q[k] = sign[s] * values[s * num_actions + a]
                w[k] = weights[a]
                k += 1
        if k == num_actions:
            apply_gradient(m.code, q, w, m.temperature, g)
        elif k > 0:
            apply_gradient(m.code, q[:k], w[:k], m.temperature, g[:k])
        k = 0
        for a in range(num_actions):
            policy[s, a] = 0.0
            if live[s, a]:
                policy[s, a] = g[k]
                k += 1


def pack(m: Model, policy: Floats, value: Floats, packed: Packed) -> None:
    """Write T_pi in rows of its own: income + sum weight * X(target).

    ``value`` = F(Q) = TV; income = F(Q) - <pi, Q - r>.
    """
    start, next_state, prob, reward, q = m.start, m.next_state, m.prob, m.reward, m.q
    num_states, num_actions = policy.shape
    at = 0
    for s in range(num_states):
        packed.start[s] = at
        total = value[s]
        for a in range(num_actions):
            if policy[s, a] != 0.0:
                row = s * num_actions + a
                total -= policy[s, a] * (q[row] - reward[row])
                share = m.discount * policy[s, a]
                for i in range(start[row], start[row + 1]):
                    packed.weight[at] = share * prob[i]
                    packed.target[at] = next_state[i]
                    at += 1
        packed.income[s] = total
    packed.start[num_states] = at


def pack_greedy(m: Model, value: Floats, packed: Packed) -> None:
    """``pack`` of the policy of Max, to the last bit, without writing that policy."""
    start, next_state, prob = m.start, m.next_state, m.prob
    num_states, num_actions = m.live.shape
    at = 0
    for s in range(num_states):
        packed.start[s] = at
        total = value[s]
        if m.sign[s] != 0.0:
            row = s * num_actions + greedy(m, s)[0]
            total -= m.q[row] - m.reward[row]
            for i in range(start[row], start[row + 1]):
                packed.weight[at] = m.discount * prob[i]
                packed.target[at] = next_state[i]
                at += 1
        packed.income[s] = total
    packed.start[num_states] = at


def evaluate(packed: Packed, x: Floats, y: Floats, most: int, enough: float) -> int:
    """Sweep X <- T_pi X in place in ``x``, ``most`` times, and return that number.

    Once a sweep's width is at most ``enough`` it ends, with minus their number.
    """
    start, weight, target, income = (
        packed.start,
        packed.weight,
        packed.target,
        packed.income,
    )
    for sweep in range(most):
        low, high = math.inf, -math.inf
        for s in range(len(x)):
            total = income[s]
            for i in range(start[s], start[s + 1]):
                total += weight[i] * x[target[i]]
            y[s] = total
            gap = total - x[s]
            low = gap if gap < low else low
            high = gap if gap > high else high
        for s in range(len(x)):
            x[s] = y[s]
        if high - low <= enough:
            return -(sweep + 1)
    return most


def unpack(packed: Packed, out: Floats) -> None:
    """Add gamma P_pi to ``out``, as a dense matrix."""
    for s in range(len(out)):
        for i in range(packed.start[s], packed.start[s + 1]):
            out[s, packed.target[i]] += packed.weight[i]


def difference(v: Floats, w: Floats) -> tuple[float, float, float]:
    """Return (min, max of w - v, largest |v| or |w|).

    The last is NaN if one of them is not finite.
    """
    low, high, top = math.inf, -math.inf, 0.0
    for s in range(len(v)):
        gap = w[s] - v[s]
        if not abs(gap) < math.inf:
            return low, high, math.nan
        low = min(low, gap)
        high = max(high, gap)
        top = max(top, max(abs(v[s]), abs(w[s])))
    return low, high, top
