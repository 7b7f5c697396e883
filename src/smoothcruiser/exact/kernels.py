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
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.problem.jit import compiled, is_compiled
from smoothcruiser.problem.operators import CustomOperator, Max, Operator, builtin_gradient, builtin_value
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import Bools, Floats, Ints, Tables


class Model(NamedTuple):
    """What the kernels read, and the action values they write. Row s*A + a; terminal states have sign 0."""

    start: Ints  # (S*A + 1,)
    next_state: NDArray[np.uint32]  # (nnz,); unsigned, so that compiled code need not look for negative indices
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


def fill_reward(m: Model, paid: Floats) -> float:
    """The largest |reward| of the live rows; their means are written. Rows that are not live may hold anything and are not read."""
    start, prob, reward, live = m.start, m.prob, m.reward, m.live
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
    """Q_V of every live pair."""
    start, next_state, prob, reward, live, q = m.start, m.next_state, m.prob, m.reward, m.live, m.q
    num_states, num_actions = live.shape
    for s in range(num_states):
        for a in range(num_actions):
            if live[s, a]:
                row = s * num_actions + a
                mean = 0.0
                for i in range(start[row], start[row + 1]):
                    mean += prob[i] * v[next_state[i]]
                q[row] = reward[row] + m.discount * mean


def fill_values(m: Model, out: Floats) -> None:
    """TV from Q_V. Where every action is legal the buffers are passed whole: a slice costs more than a maximum of four numbers."""
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
    """The policy grad F(Q_V), 0 where an action is not legal."""
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
    start, next_state, prob = m.start, m.next_state, m.prob
    num_states, num_actions = policy.shape
    for sweep in range(most):
        low, high = math.inf, -math.inf
        for s in range(num_states):
            total = 0.0
            for a in range(num_actions):
                if policy[s, a] != 0.0:
                    row = s * num_actions + a
                    mean = 0.0
                    for i in range(start[row], start[row + 1]):
                        mean += prob[i] * x[next_state[i]]
                    total += policy[s, a] * mean
            y[s] = income[s] + m.discount * total
            low = min(low, y[s] - x[s])
            high = max(high, y[s] - x[s])
        for s in range(num_states):
            x[s] = y[s]
        if high - low <= enough:
            return sweep + 1
    return most


def fill_matrix(m: Model, policy: Floats, out: Floats) -> None:
    """I - gamma P_pi, dense, into zeros."""
    start, next_state, prob = m.start, m.next_state, m.prob
    num_states, num_actions = policy.shape
    for s in range(num_states):
        out[s, s] += 1.0
        for a in range(num_actions):
            if policy[s, a] != 0.0:
                row = s * num_actions + a
                share = m.discount * policy[s, a]
                for i in range(start[row], start[row + 1]):
                    out[s, next_state[i]] -= share * prob[i]


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
    sparse_q: Callable[[Model, Floats], None]
    values: Callable[[Model, Floats], None]
    policy: Callable[[Model, Floats], None]
    income: Callable[[Model, Floats, Floats, Floats], None]
    sparse_evaluate: Callable[[Model, Floats, Floats, Floats, Floats, int, float], int]
    sparse_matrix: Callable[[Model, Floats, Floats], None]
    difference: Callable[[Floats, Floats], tuple[float, float, float]]

    def q(self, m: Model, v: Floats) -> None:
        """Q_V of every live pair; dense tables go through BLAS, three times as fast as a loop may be without reordering sums."""
        if not m.full:
            self.sparse_q(m, v)
            return
        np.dot(m.prob.reshape(len(m.q), len(v)), v, out=m.q)
        np.multiply(m.q, m.discount, out=m.q)
        np.add(m.q, m.reward, out=m.q)

    def matrix(self, m: Model, policy: Floats) -> Floats:
        """I - gamma P_pi, dense (S, S)."""
        out = np.zeros((len(m.sign), len(m.sign)))
        self.sparse_matrix(m, policy, out)
        return out

    def evaluate(self, m: Model, policy: Floats, income: Floats, x: Floats, most: int, enough: float) -> int:
        """The number of sweeps X <- T_pi X done on ``x`` in place; see the function above."""
        if not m.full:
            return self.sparse_evaluate(m, policy, income, x, np.empty(len(x)), most, enough)
        matrix = self.matrix(m, policy)
        for sweep in range(most):
            step = income - matrix @ x  # T_pi X - X
            x += step
            if float(np.max(step) - np.min(step)) <= enough:
                return sweep + 1
        return most


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
        sparse_q=compiled(fill_q),
        values=compiled(fill_values, **picked.get("apply_value", {})),
        policy=compiled(fill_policy, **picked.get("apply_gradient", {})),
        income=compiled(fill_income),
        sparse_evaluate=compiled(evaluate),
        sparse_matrix=compiled(fill_matrix),
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

    return replace(_kernels(None, None), values=values, policy=policy)


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
        next_state=tables.next_state.astype(np.uint32),
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
    start, index = np.arange(num_actions + 1, dtype=np.int64), np.zeros(num_actions, dtype=np.uint32)
    temperature = float(operator.strength)
    model = Model(start, index, each, np.zeros(num_actions), live, one, each, np.zeros(num_actions), False, operator.code, temperature, 0.5)
    kernels.reward(model, each)
    kernels.q(model, zero)
    kernels.values(model, one.copy())
    kernels.policy(model, grid)
    kernels.income(model, grid, one, zero)
    kernels.evaluate(model, grid, zero, one.copy(), 1, 0.0)
    kernels.matrix(model, grid)
    kernels.difference(one, zero)
    _warmed.add(id(kernels.values))
    return time.perf_counter() - begin
