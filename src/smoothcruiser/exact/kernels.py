"""The loops of the exact solver: plain functions over one flat model, compiled on first use.

legend   symbol   here
  Q_V             ``q``: expected reward + gamma * mean of V over next states, written by ``fill_q``
  TV              F_s(Q_V(s, .)), written by ``fill_values``; -F(-Q) where the min player moves
  pi              grad F(Q_V), written by ``fill_policy``
  T_pi X          F(Q_V) + <pi, Q_X - Q_V>: one sweep of the policy pi, ``evaluate``

Rewards enter through their expectation only, so a sweep reads one probability and one value a successor. Action values and operators
are two passes: operators that are plain Python functions (``CustomOperator``) then need no second set of kernels.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.problem.jit import compiled, is_compiled
from smoothcruiser.problem.operators import CustomOperator, Max, Operator, builtin_gradient, builtin_value
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import Bools, Floats, Ints, Tables


class Model(NamedTuple):
    """What the kernels read, and the action values they write. Row s*A + a; terminal states have sign 0."""

    start: Ints  # (S*A + 1,)
    next_state: Ints  # (nnz,)
    prob: Floats  # (nnz,)
    reward: Floats  # (S*A,), expected over next states; 0 where not live
    live: Bools  # (S, A): legal and not terminal
    sign: Floats  # (S,): 1 max, -1 min, 0 terminal
    weights: Floats  # (A,), prior weights
    q: Floats  # (S*A,), written by fill_q
    full: bool  # every row lists all S states in order, so that indices need not be read
    code: int
    temperature: float
    discount: float
    reward_top: float = 0.0  # the largest |reward| of a live pair, for the bound on rounding


# --- plain functions ---------------------------------------------------------------------------------------------------------


def apply_value(code: int, q: Any, w: Any, t: float) -> float:
    """F(q); a user's compiled operator takes this function's place."""
    return builtin_value(code, q, w, t)


def apply_gradient(code: int, q: Any, w: Any, t: float, out: Any) -> None:
    """Gradient of F at q; a user's compiled operator takes this function's place."""
    builtin_gradient(code, q, w, t, out)


def row_mean(m: Model, v: Floats, row: int) -> float:
    """Sum of prob * v over the successors of ``row``; four running sums, because one would wait for each addition."""
    low, high = m.start[row], m.start[row + 1]
    whole = low + (high - low) // 4 * 4
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    if m.full:
        for i in range(low, whole, 4):
            j = i - low
            a += m.prob[i] * v[j]
            b += m.prob[i + 1] * v[j + 1]
            c += m.prob[i + 2] * v[j + 2]
            d += m.prob[i + 3] * v[j + 3]
    else:
        for i in range(low, whole, 4):
            a += m.prob[i] * v[m.next_state[i]]
            b += m.prob[i + 1] * v[m.next_state[i + 1]]
            c += m.prob[i + 2] * v[m.next_state[i + 2]]
            d += m.prob[i + 3] * v[m.next_state[i + 3]]
    for i in range(whole, high):
        a += m.prob[i] * v[m.next_state[i]]
    return (a + b) + (c + d)


def fill_reward(m: Model, paid: Floats) -> float:
    """The largest |reward| of the live rows; their means are written. Rows that are not live may hold anything and are not read."""
    top = 0.0
    for s in range(len(m.sign)):
        for a in range(len(m.weights)):
            row = s * len(m.weights) + a
            total = 0.0
            if m.live[s, a]:
                for i in range(m.start[row], m.start[row + 1]):
                    total += m.prob[i] * paid[i]
                    top = max(top, abs(paid[i]))
            m.reward[row] = total
    return top


def fill_q(m: Model, v: Floats) -> None:
    """Q_V of every live pair."""
    for s in range(len(m.sign)):
        for a in range(len(m.weights)):
            if m.live[s, a]:
                row = s * len(m.weights) + a
                m.q[row] = m.reward[row] + m.discount * row_mean(m, v, row)


def gather(m: Model, s: int, q: Floats, w: Floats) -> int:
    """How many actions are legal in s; their signed values and weights are packed into ``q`` and ``w``."""
    k = 0
    for a in range(len(m.weights)):
        if m.live[s, a]:
            q[k] = m.sign[s] * m.q[s * len(m.weights) + a]
            w[k] = m.weights[a]
            k += 1
    return k


def fill_values(m: Model, out: Floats) -> None:
    """TV from Q_V."""
    q, w = np.empty(len(m.weights)), np.empty(len(m.weights))
    for s in range(len(m.sign)):
        out[s] = 0.0
        if m.sign[s] != 0.0:
            k = gather(m, s, q, w)
            out[s] = m.sign[s] * apply_value(m.code, q[:k], w[:k], m.temperature)


def fill_policy(m: Model, policy: Floats) -> None:
    """The policy grad F(Q_V), 0 where an action is not legal."""
    q, w, g = np.empty(len(m.weights)), np.empty(len(m.weights)), np.empty(len(m.weights))
    for s in range(len(m.sign)):
        if m.sign[s] != 0.0:
            k = gather(m, s, q, w)
            apply_gradient(m.code, q[:k], w[:k], m.temperature, g[:k])
        i = 0
        for a in range(len(m.weights)):
            policy[s, a] = 0.0
            if m.live[s, a]:
                policy[s, a] = g[i]
                i += 1


def fill_income(m: Model, policy: Floats, value: Floats, income: Floats) -> None:
    """The constant part of T_pi: F(Q) - <pi, Q - r>, with ``value`` = F(Q) = TV."""
    for s in range(len(m.sign)):
        total = value[s]
        for a in range(len(m.weights)):
            if policy[s, a] != 0.0:
                row = s * len(m.weights) + a
                total -= policy[s, a] * (m.q[row] - m.reward[row])
        income[s] = total


def evaluate(m: Model, policy: Floats, income: Floats, x: Floats, y: Floats, most: int, enough: float) -> int:
    """The number of sweeps X <- T_pi X done: ``most``, or fewer once a sweep's width is at most ``enough``; the result is left in ``x``."""
    for sweep in range(most):
        low, high = math.inf, -math.inf
        for s in range(len(m.sign)):
            total = 0.0
            for a in range(len(m.weights)):
                if policy[s, a] != 0.0:
                    total += policy[s, a] * row_mean(m, x, s * len(m.weights) + a)
            y[s] = income[s] + m.discount * total
            low = min(low, y[s] - x[s])
            high = max(high, y[s] - x[s])
        for s in range(len(m.sign)):
            x[s] = y[s]
        if high - low <= enough:
            return sweep + 1
    return most


def fill_matrix(m: Model, policy: Floats, out: Floats) -> None:
    """I - gamma P_pi, dense."""
    for s in range(len(m.sign)):
        for z in range(len(m.sign)):
            out[s, z] = 0.0
        out[s, s] = 1.0
        for a in range(len(m.weights)):
            if policy[s, a] != 0.0:
                row = s * len(m.weights) + a
                for i in range(m.start[row], m.start[row + 1]):
                    out[s, m.next_state[i]] -= m.discount * policy[s, a] * m.prob[i]


def difference(v: Floats, w: Floats) -> tuple[float, float, float]:
    """(min, max of w - v, largest |v| or |w|); the last is NaN if anything is not finite."""
    low, high, top = math.inf, -math.inf, 0.0
    for s in range(len(v)):
        gap = w[s] - v[s]
        if not abs(gap) < math.inf:
            return low, high, math.nan
        low = min(low, gap)
        high = max(high, gap)
        top = max(top, max(abs(v[s]), abs(w[s])))
    return low, high, top


# --- the same, compiled ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Kernels:
    """The loops for one operator, ready to run."""

    reward: Callable[[Model, Floats], float]
    q: Callable[[Model, Floats], None]
    values: Callable[[Model, Floats], None]
    policy: Callable[[Model, Floats], None]
    income: Callable[[Model, Floats, Floats, Floats], None]
    evaluate: Callable[[Model, Floats, Floats, Floats, Floats, int, float], int]
    matrix: Callable[[Model, Floats, Floats], None]
    difference: Callable[[Floats, Floats], tuple[float, float, float]]


def kernels_for(operator: Operator) -> Kernels:
    """The loops for ``operator``: all built-in ones share one compiled set, a user's compiled functions get their own."""
    if not isinstance(operator, CustomOperator):
        return _kernels(None, None)
    if is_compiled(operator.value_function) and is_compiled(operator.gradient_function):
        return _kernels(operator.value_function, operator.gradient_function)
    return _interpreted(operator)


@cache
def _kernels(value: Any, gradient: Any) -> Kernels:
    replaced = {} if value is None else {"apply_value": _value_adapter(value), "apply_gradient": _gradient_adapter(gradient)}
    picked = {name: {name: part} for name, part in replaced.items()}
    return Kernels(
        reward=compiled(fill_reward),
        q=compiled(fill_q),
        values=compiled(fill_values, **picked.get("apply_value", {})),
        policy=compiled(fill_policy, **picked.get("apply_gradient", {})),
        income=compiled(fill_income),
        evaluate=compiled(evaluate),
        matrix=compiled(fill_matrix),
        difference=compiled(difference),
    )


def _value_adapter(function: Any) -> Any:
    import numba

    return numba.njit(lambda code, q, w, t: function(q))


def _gradient_adapter(function: Any) -> Any:
    import numba

    def fill(code: int, q: Any, w: Any, t: float, out: Any) -> None:
        found = function(q)
        for a in range(len(q)):
            out[a] = found[a]

    return numba.njit(fill)


def _interpreted(operator: CustomOperator) -> Kernels:
    """The loops for an operator in plain Python: one call of the user's function a state."""

    def state_values(m: Model, s: int) -> tuple[Bools, list[float], int]:
        live = m.live[s]
        picked = m.q.reshape(m.live.shape)[s, live]
        return live, [float(x) for x in picked], 1 if m.sign[s] > 0 else 2

    def values(m: Model, out: Floats) -> None:
        for s in range(len(m.sign)):
            out[s] = 0.0
            if m.sign[s] != 0.0:
                _, q, player = state_values(m, s)
                out[s] = operator.value(q, player=player)

    def policy(m: Model, out: Floats) -> None:
        out[:] = 0.0
        for s in range(len(m.sign)):
            if m.sign[s] != 0.0:
                live, q, player = state_values(m, s)
                out[s, live] = operator.gradient(q, player=player)

    common = _kernels(None, None)
    return Kernels(common.reward, common.q, values, policy, common.income, common.evaluate, common.matrix, common.difference)


def model_of(problem: Problem, tables: Tables) -> Model:
    """The flat model of ``tables`` under the problem's operator and discount; rewards still to be filled."""
    num_states, num_actions = tables.num_states, tables.num_actions
    rows = num_states * num_actions
    full = len(tables.prob) == rows * num_states and bool(
        np.all(tables.next_state.reshape(rows, num_states) == np.arange(num_states, dtype=np.int64))
    )
    sign = np.where(tables.player == 1, 1.0, -1.0)
    sign[tables.terminal] = 0.0
    return Model(
        start=tables.start,
        next_state=tables.next_state,
        prob=tables.prob,
        reward=np.zeros(rows),
        live=np.ascontiguousarray(tables.legal & ~tables.terminal[:, None]),
        sign=sign,
        weights=np.array(problem.operator.weights(num_actions), dtype=np.float64),
        q=np.zeros(rows),
        full=full,
        code=problem.operator.code,
        temperature=problem.operator.strength,
        discount=float(problem.discount),
    )


def prepare(problem: Problem, tables: Tables) -> tuple[Model, Kernels, float]:
    """The model with its expected rewards, the loops, and the seconds that compiling took (0 once done in this process)."""
    kernels = kernels_for(problem.operator)
    seconds = _warm(kernels, problem.operator, tables.num_actions)
    model = model_of(problem, tables)
    top = kernels.reward(model, tables.reward)
    return model._replace(reward_top=float(top)), kernels, seconds


_warmed: set[int] = set()  # ids of compiled loops, which ``_kernels`` keeps alive


def _warm(kernels: Kernels, operator: Operator, num_actions: int) -> float:
    """Seconds spent on compiling: every compiled loop runs once on a single state that loops, whose types are those of every model."""
    if not is_compiled(kernels.values):
        kernels, operator = _kernels(None, None), Max()
    if id(kernels.values) in _warmed:
        return 0.0
    begin = time.perf_counter()
    one, zero, grid = np.ones(1), np.zeros(1), np.zeros((1, num_actions))
    live = np.ones((1, num_actions), dtype=np.bool_)
    each = np.ones(num_actions)
    start, index = np.arange(num_actions + 1, dtype=np.int64), np.zeros(num_actions, dtype=np.int64)
    temperature = float(operator.strength)
    model = Model(start, index, each, np.zeros(num_actions), live, one, each, np.zeros(num_actions), False, operator.code, temperature, 0.5)
    kernels.reward(model, each)
    kernels.q(model, zero)
    kernels.values(model, one.copy())
    kernels.policy(model, grid)
    kernels.income(model, grid, one, zero)
    kernels.evaluate(model, grid, zero, one.copy(), one.copy(), 1, 0.0)
    kernels.matrix(model, grid, np.zeros((1, 1)))
    kernels.difference(one, zero)
    _warmed.add(id(kernels.values))
    return time.perf_counter() - begin
