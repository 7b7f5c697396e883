"""The solver's view of a problem: a flat model, and loops for its operator.

Tables do not change, so what they alone determine (expected rewards, narrow
indices, whether they are dense) is worked out once and kept as long as they
live: a sweep over discounts or temperatures pays for it once. Dense tables go
through BLAS, which reads them three times as fast as a loop that may not
reorder its sums; the bound on rounding holds for any order.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from smoothcruiser.exact import loops
from smoothcruiser.exact.loops import Indices, Model, Packed, Starts
from smoothcruiser.exact.watch import Watch
from smoothcruiser.jit.build import compiled, is_compiled
from smoothcruiser.operators import Max, Operator
from smoothcruiser.operators.dispatch import is_greedy
from smoothcruiser.operators.parts import parts_of
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import Bools, Floats, Tables

# sweeps between two looks at the clock: at first, and for how long
FIRST_PART, PART_SECONDS = 16, 0.025


@dataclass(frozen=True, eq=False)
class Kernels:
    """The loops for one operator, ready to run."""

    fill_q: Callable[[Model, Floats], None]
    values: Callable[[Model, Floats], None]
    policy: Callable[[Model, Floats], None]
    pack: Callable[[Model, Floats, Floats, Packed], None]
    pack_greedy: Callable[[Model, Floats, Packed], None]
    evaluate: Callable[[Packed, Floats, Floats, int, float], int]
    unpack: Callable[[Packed, Floats], None]
    difference: Callable[[Floats, Floats], tuple[float, float, float]]

    def q(self, m: Model, v: Floats) -> None:
        """Q_V of every live pair."""
        if not m.full:
            self.fill_q(m, v)
            return
        np.dot(m.prob.reshape(len(m.q), len(v)), v, out=m.q)
        np.multiply(m.q, m.discount, out=m.q)
        np.add(m.q, m.reward, out=m.q)


@dataclass(frozen=True, eq=False)
class Evaluator:
    """T_pi X = income + matrix X for the policy at a point.

    It is kept as packed rows, or as a dense matrix where the tables are dense.
    """

    kernels: Kernels
    packed: Packed | None
    matrix: Floats | None  # gamma P_pi
    income: Floats
    reads: int  # numbers that one sweep reads

    def sweep(
        self, x: Floats, most: int, enough: float, watch: Watch | None = None
    ) -> int:
        """Sweep ``x`` in place, and return the number of sweeps.

        It is ``most``, or fewer once a sweep's width is at most ``enough`` or
        ``watch`` gives a reason to stop.
        """
        watch = Watch() if watch is None else watch
        done, part = 0, FIRST_PART
        while done < most and watch() is None:
            begin = time.perf_counter()
            found = self._sweep(x, min(part, most - done), enough)
            done += abs(found)
            watch.swept(abs(found))
            if found < 0:
                break
            if time.perf_counter() - begin < PART_SECONDS:
                part *= 2
        return done

    def _sweep(self, x: Floats, most: int, enough: float) -> int:
        """The number of sweeps, negative once one was narrow enough."""
        if self.packed is not None:
            return self.kernels.evaluate(self.packed, x, np.empty(len(x)), most, enough)
        assert self.matrix is not None
        for done in range(most):
            step = self.income + self.matrix @ x - x
            x += step
            if float(np.max(step) - np.min(step)) <= enough:
                return -(done + 1)
        return most

    def solve(self) -> Floats:
        """The fixed point of T_pi, by a dense linear solve."""
        matrix = self.matrix
        if matrix is None:
            assert self.packed is not None
            matrix = np.zeros((len(self.income), len(self.income)))
            self.kernels.unpack(self.packed, matrix)
        return np.asarray(
            np.linalg.solve(np.eye(len(self.income)) - matrix, self.income),
            dtype=np.float64,
        )


def room_for_policy(m: Model) -> Packed:
    """Memory for one policy's rows, which every step of a search uses again.

    What a sparse policy leaves untouched costs nothing.
    """
    size, room = len(m.sign), 0 if m.full else len(m.prob)
    return Packed(
        np.empty(size + 1, dtype=np.uint64),
        np.empty(room, dtype=np.uint32),
        np.empty(room),
        np.empty(size),
    )


def evaluator(kernels: Kernels, m: Model, value: Floats, packed: Packed) -> Evaluator:
    """T_pi for pi = grad F at the model's current action values.

    ``value`` is F of them; ``packed`` is overwritten.
    """
    if is_greedy(m.code) and not m.full:
        kernels.pack_greedy(m, value, packed)
    else:
        policy = np.empty(m.live.shape)
        kernels.policy(m, policy)
        if m.full:
            return _dense(kernels, m, value, policy)
        kernels.pack(m, policy, value, packed)
    reads = int(packed.start[len(value)])
    return Evaluator(kernels, packed, None, packed.income, reads)


def _dense(kernels: Kernels, m: Model, value: Floats, policy: Floats) -> Evaluator:
    cube = m.prob.reshape((*m.live.shape, len(value)))
    matrix = np.matmul(policy[:, None, :] * m.discount, cube)[:, 0, :]
    income = value - np.sum(policy * (m.q - m.reward).reshape(policy.shape), axis=1)
    return Evaluator(kernels, None, matrix, income, matrix.size)


# --- compiling ----------------------------------------------------------------


def kernels_for(operator: Operator) -> Kernels:
    """The loops for ``operator``.

    All built-in operators share one compiled set; others get their own, as a
    user's compiled functions do.
    """
    own = parts_of(operator)
    if own is None:
        return _kernels(None, None)
    return _kernels(own.value, own.gradient) if own.compiled else _interpreted(operator)


@cache
def _kernels(value: Any, gradient: Any) -> Kernels:
    own_value = {} if value is None else {"apply_value": value}
    own_gradient = {} if gradient is None else {"apply_gradient": gradient}
    return Kernels(
        fill_q=compiled(loops.fill_q),
        values=compiled(loops.fill_values, **own_value),
        policy=compiled(loops.fill_policy, **own_gradient),
        pack=compiled(loops.pack),
        pack_greedy=compiled(loops.pack_greedy),
        evaluate=compiled(loops.evaluate),
        unpack=compiled(loops.unpack),
        difference=compiled(loops.difference),
    )


def _interpreted(operator: Operator) -> Kernels:
    """The loops for an operator in plain Python: one call of it per state."""

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


# --- the model ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Digest:
    """What tables alone determine."""

    start: Starts
    next_state: Indices
    reward: Floats
    reward_top: float
    live: Bools
    sign: Floats
    full: bool


_digests: WeakKeyDictionary[Tables, _Digest] = WeakKeyDictionary()


def _digest(tables: Tables) -> _Digest:
    if tables not in _digests:
        live = np.ascontiguousarray(tables.legal & ~tables.terminal[:, None])
        sign = np.where(tables.terminal, 0.0, np.where(tables.player == 1, 1.0, -1.0))
        reward = np.zeros(live.size)
        top = float(
            compiled(loops.fill_reward)(
                tables.start, tables.prob, tables.reward, live, reward
            )
        )
        full = bool(
            compiled(loops.is_full)(tables.start, tables.next_state, tables.num_states)
        )
        narrow = (
            np.empty(0, dtype=np.uint32)
            if full
            else tables.next_state.astype(np.uint32)
        )
        _digests[tables] = _Digest(
            tables.start.astype(np.uint64), narrow, reward, top, live, sign, full
        )
    return _digests[tables]


def prepare(problem: Problem, tables: Tables) -> tuple[Model, Kernels, float]:
    """The model, the loops, and the seconds spent compiling (0 after the first)."""
    kernels = kernels_for(problem.operator)
    seconds = _warm(kernels, problem.operator, tables.num_actions)
    known = _digest(tables)
    model = Model(
        start=known.start,
        next_state=known.next_state,
        prob=tables.prob,
        reward=known.reward,
        live=known.live,
        sign=known.sign,
        weights=np.array(
            problem.operator.weights(tables.num_actions), dtype=np.float64
        ),
        q=np.zeros(len(known.reward)),
        full=known.full,
        code=problem.operator.code,
        temperature=float(problem.operator.strength),
        discount=float(problem.discount),
        reward_top=known.reward_top,
    )
    return model, kernels, seconds


_warmed: set[int] = set()  # ids of compiled loops, which ``_kernels`` keeps alive


def _warm(kernels: Kernels, operator: Operator, num_actions: int) -> float:
    """The seconds spent on compiling.

    Every compiled loop runs once on a single state that leads to itself, whose
    types are those of every model.
    """
    if not is_compiled(kernels.values):
        kernels, operator = _kernels(None, None), Max()
    if id(kernels.values) in _warmed:
        return 0.0
    begin = time.perf_counter()
    one, each = np.ones(1), np.ones(num_actions)
    live = np.ones((1, num_actions), dtype=np.bool_)
    start, index = (
        np.arange(num_actions + 1, dtype=np.int64),
        np.zeros(num_actions, dtype=np.uint32),
    )
    model = Model(
        start.astype(np.uint64),
        index,
        each,
        each,
        live,
        one,
        each,
        each.copy(),
        False,
        operator.code,
        float(operator.strength),
        0.5,
        1.0,
    )
    compiled(loops.fill_reward)(start, each, each, live, each.copy())
    compiled(loops.is_full)(start, index.astype(np.int64), 1)
    kernels.q(model, one)
    kernels.values(model, one.copy())
    room, policy = room_for_policy(model), np.empty(live.shape)
    kernels.policy(model, policy)
    kernels.pack(model, policy, one, room)
    kernels.pack_greedy(model, one, room)
    sweeps = evaluator(kernels, model, one, room)
    sweeps.sweep(one.copy(), 1, 0.0)
    sweeps.solve()
    kernels.difference(one, one)
    _warmed.add(id(kernels.values))
    return time.perf_counter() - begin
