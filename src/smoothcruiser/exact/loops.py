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

from smoothcruiser.operators.dispatch import builtin_gradient, builtin_value, is_greedy
from smoothcruiser.problem.model.tabular import Bools, Floats, Ints

# Indices are unsigned: compiled code then need not handle negative ones, and a
# sweep is twice as fast.
Indices = NDArray[np.uint32]
Starts = NDArray[np.uint64]


class Model(NamedTuple):
    """The arrays that the kernels read, and the action values that they write.

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
    room: Floats  # (3*A,), for the legal actions of one state
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
    max_reward = 0.0
    for s in range(num_states):
        for a in range(num_actions):
            row = s * num_actions + a
            mean_reward = 0.0
            if live[s, a]:
                for i in range(start[row], start[row + 1]):
                    mean_reward += prob[i] * paid[i]
                    max_reward = max(max_reward, abs(paid[i]))
            reward[row] = mean_reward
    return max_reward


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
                mean_value = 0.0
                for i in range(start[row], start[row + 1]):
                    mean_value += prob[i] * v[next_state[i]]
                q[row] = reward[row] + m.discount * mean_value


def greedy(m: Model, s: int) -> tuple[int, float]:
    """The first best action of s for Max, and its signed value.

    No branch depends on a value, since random data would mispredict it.
    """
    num_actions = m.live.shape[1]
    best_action, best_value = 0, -math.inf
    for a in range(num_actions):
        signed_value = (
            m.sign[s] * m.q[s * num_actions + a] if m.live[s, a] else -math.inf
        )
        is_better = signed_value > best_value
        best_action = a if is_better else best_action
        best_value = signed_value if is_better else best_value
    return best_action, best_value


def fill_values(m: Model, out: Floats) -> None:
    """Write TV from Q_V.

    Where every action is legal the buffers are passed whole, because a slice
    costs more than a maximum of four numbers.
    """
    if is_greedy(m.code):
        for s in range(len(out)):
            out[s] = m.sign[s] * greedy(m, s)[1] if m.sign[s] != 0.0 else 0.0
        return
    live, sign, weights, action_values = m.live, m.sign, m.weights, m.q
    num_states, num_actions = live.shape
    q, w = m.room[:num_actions], m.room[num_actions : 2 * num_actions]
    for s in range(num_states):
        out[s] = 0.0
        if sign[s] != 0.0:
            k = 0
            for a in range(num_actions):
                if live[s, a]:
                    q[k] = sign[s] * action_values[s * num_actions + a]
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
    live, sign, weights, action_values = m.live, m.sign, m.weights, m.q
    num_states, num_actions = live.shape
    q, w = m.room[:num_actions], m.room[num_actions : 2 * num_actions]
    g = m.room[2 * num_actions : 3 * num_actions]
    for s in range(num_states):
        k = 0
        for a in range(num_actions):
            if live[s, a]:
                q[k] = sign[s] * action_values[s * num_actions + a]
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
    write_at = 0
    for s in range(num_states):
        packed.start[s] = write_at
        row_income = value[s]
        for a in range(num_actions):
            if policy[s, a] != 0.0:
                row = s * num_actions + a
                row_income -= policy[s, a] * (q[row] - reward[row])
                action_weight = m.discount * policy[s, a]
                for i in range(start[row], start[row + 1]):
                    packed.weight[write_at] = action_weight * prob[i]
                    packed.target[write_at] = next_state[i]
                    write_at += 1
        packed.income[s] = row_income
    packed.start[num_states] = write_at


def pack_greedy(m: Model, value: Floats, packed: Packed) -> None:
    """``pack`` of the policy of Max, to the last bit, without writing that policy."""
    start, next_state, prob = m.start, m.next_state, m.prob
    num_states, num_actions = m.live.shape
    write_at = 0
    for s in range(num_states):
        packed.start[s] = write_at
        row_income = value[s]
        if m.sign[s] != 0.0:
            row = s * num_actions + greedy(m, s)[0]
            row_income -= m.q[row] - m.reward[row]
            for i in range(start[row], start[row + 1]):
                packed.weight[write_at] = m.discount * prob[i]
                packed.target[write_at] = next_state[i]
                write_at += 1
        packed.income[s] = row_income
    packed.start[num_states] = write_at


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
        min_gap, max_gap = math.inf, -math.inf
        for s in range(len(x)):
            new_value = income[s]
            for i in range(start[s], start[s + 1]):
                new_value += weight[i] * x[target[i]]
            y[s] = new_value
            gap = new_value - x[s]
            min_gap = gap if gap < min_gap else min_gap
            max_gap = gap if gap > max_gap else max_gap
        for s in range(len(x)):
            x[s] = y[s]
        if max_gap - min_gap <= enough:
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
    min_gap, max_gap, max_size = math.inf, -math.inf, 0.0
    for s in range(len(v)):
        gap = w[s] - v[s]
        if not abs(gap) < math.inf:
            return min_gap, max_gap, math.nan
        min_gap = min(min_gap, gap)
        max_gap = max(max_gap, gap)
        max_size = max(max_size, max(abs(v[s]), abs(w[s])))
    return min_gap, max_gap, max_size
