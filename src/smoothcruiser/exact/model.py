"""The solver's view of a problem: a flat model, and loops for its operator.

Tables do not change, so all that they alone determine (expected rewards, narrow
indices, whether they are dense) is computed once and kept as long as they live: a sweep
over discounts or temperatures pays for it once. Dense tables go through BLAS, which
reads them three times as fast as a loop that may not reorder its sums; the bound on
rounding holds for any order.

The solver asks its ``Watch`` between two sweeps whether to stop, and the ``Watch``
reports the progress then. It changes no result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from weakref import WeakKeyDictionary

import numpy as np

from smoothcruiser.exact import loops
from smoothcruiser.exact.loops import Indices, Model, Packed, Starts
from smoothcruiser.jit.forms import KernelFamily
from smoothcruiser.operators import Operator
from smoothcruiser.operators.dispatch import is_greedy
from smoothcruiser.operators.operator_functions import parts_of
from smoothcruiser.problem.model.tabular import Bools, Floats, Tables
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback, Phase, Phases
from smoothcruiser.run_control.control import Control, Limits, StopReason
from smoothcruiser.run_control.stop_requests import StopRequest

REPORT_SECONDS = 0.1  # between two reports
# the loops of the solver for built-in operators, interpreted or compiled
EXACT = KernelFamily(compiling=5.0)
# sweeps between two looks at the clock: at first, and for how long
FIRST_PART, PART_SECONDS = 16, 0.025


class Watch(Control):
    """The control of a solver: it reports whenever it is checked."""

    def __init__(
        self,
        progress: Callback | None = None,
        hold: StopRequest | None = None,
        seconds: float | None = None,
    ) -> None:
        hold = StopRequest() if hold is None else hold
        self.phases = Phases(progress, hold)
        super().__init__(Limits(seconds=seconds), hold, self.phases)
        self.sweeps = 0
        self.bound: float | None = None
        self._told = time.perf_counter()

    def __call__(self) -> StopReason | None:
        """The reason to stop now, after a report if one is due; None: go on."""
        if self._due:
            self._tell(done=self.sweeps or None)
        return self.check()

    def begin(self, phase: Phase, states: int | None = None) -> None:
        """Report that a phase begins."""
        self.phases.begin(phase, states=states, seconds=self.clock.elapsed())
        self._told = time.perf_counter()

    def report_states(self, states: int) -> bool:
        """Report the number of listed states, now and then; return whether to stop."""
        if self._due:
            self._tell(states=states)
        return self.phases.refused

    def count_sweeps(self, sweeps: int) -> None:
        """Count passes over the transitions."""
        self.sweeps += sweeps

    def note_bound(self, bound: float) -> None:
        """Keep the error that the sweeps have proven, for the next report."""
        self.bound = bound

    @property
    def _due(self) -> bool:
        if self.phases.callback is None:
            return False
        return time.perf_counter() - self._told >= REPORT_SECONDS

    def _tell(self, **facts: int | None) -> None:
        seconds_left = max(0.0, self.clock.left()) if self.clock.is_limited else None
        facts_now = {"seconds": self.clock.elapsed(), "seconds_left": seconds_left}
        self.phases.tell(half_width=self.bound, **facts_now, **facts)
        self._told = time.perf_counter()


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
        num_done, part_sweeps = 0, FIRST_PART
        while num_done < most and watch() is None:
            start_time = time.perf_counter()
            sweeps_made = self._sweep(x, min(part_sweeps, most - num_done), enough)
            num_done += abs(sweeps_made)
            watch.count_sweeps(abs(sweeps_made))
            if sweeps_made < 0:
                break
            if time.perf_counter() - start_time < PART_SECONDS:
                part_sweeps *= 2
        return num_done

    def _sweep(self, x: Floats, most: int, enough: float) -> int:
        """The number of sweeps, negative once one was narrow enough."""
        if self.packed is not None:
            return self.kernels.evaluate(
                self.packed, x, np.empty(len(x)), most, enough
            )
        assert self.matrix is not None
        for sweep_index in range(most):
            value_step = self.income + self.matrix @ x - x
            x += value_step
            if float(np.max(value_step) - np.min(value_step)) <= enough:
                return -(sweep_index + 1)
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

    Memory that a sparse policy leaves untouched costs nothing.
    """
    num_states, num_entries = len(m.sign), 0 if m.full else len(m.prob)
    return Packed(
        np.empty(num_states + 1, dtype=np.uint64),
        np.empty(num_entries, dtype=np.uint32),
        np.empty(num_entries),
        np.empty(num_states),
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
    numbers_read = int(packed.start[len(value)])
    return Evaluator(kernels, packed, None, packed.income, numbers_read)


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
    operator_parts = parts_of(operator)
    if operator_parts is None:
        return _built_in_kernels()
    if not operator_parts.compiled:
        return _python_kernels(operator)
    value, gradient = operator_parts.value, operator_parts.gradient
    return replace(
        _built_in_kernels(),
        values=EXACT.kernel(loops.fill_values, apply_value=value),
        policy=EXACT.kernel(loops.fill_policy, apply_gradient=gradient),
    )


@cache
def _built_in_kernels() -> Kernels:
    return Kernels(
        fill_q=EXACT.kernel(loops.fill_q),
        values=EXACT.kernel(loops.fill_values),
        policy=EXACT.kernel(loops.fill_policy),
        pack=EXACT.kernel(loops.pack),
        pack_greedy=EXACT.kernel(loops.pack_greedy),
        evaluate=EXACT.kernel(loops.evaluate),
        unpack=EXACT.kernel(loops.unpack),
        difference=EXACT.kernel(loops.difference),
    )


def _python_kernels(operator: Operator) -> Kernels:
    """The loops for an operator in plain Python: one call of it per state."""

    def state_values(m: Model, s: int) -> tuple[Bools, list[float], int]:
        live_actions = m.live[s]
        live_values = m.q.reshape(m.live.shape)[s, live_actions]
        return live_actions, [float(x) for x in live_values], 1 if m.sign[s] > 0 else 2

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
                live_actions, q, player = state_values(m, s)
                out[s, live_actions] = operator.gradient(q, player=player)

    return replace(_built_in_kernels(), values=values, policy=policy)


# --- the model ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _TableDigest:
    """The parts of a model that tables alone determine."""

    start: Starts
    next_state: Indices
    reward: Floats
    reward_top: float
    live: Bools
    sign: Floats
    full: bool


_digests: WeakKeyDictionary[Tables, _TableDigest] = WeakKeyDictionary()


def _digest(tables: Tables) -> _TableDigest:
    if tables not in _digests:
        live_pairs = np.ascontiguousarray(tables.legal & ~tables.terminal[:, None])
        sign = np.where(tables.terminal, 0.0, np.where(tables.player == 1, 1.0, -1.0))
        reward = np.zeros(live_pairs.size)
        max_reward = float(
            EXACT.kernel(loops.fill_reward)(
                tables.start, tables.prob, tables.reward, live_pairs, reward
            )
        )
        is_full = bool(
            EXACT.kernel(loops.is_full)(
                tables.start, tables.next_state, tables.num_states
            )
        )
        narrow_index = (
            np.empty(0, dtype=np.uint32)
            if is_full
            else tables.next_state.astype(np.uint32)
        )
        _digests[tables] = _TableDigest(
            tables.start.astype(np.uint64),
            narrow_index,
            reward,
            max_reward,
            live_pairs,
            sign,
            is_full,
        )
    return _digests[tables]


def prepare(problem: Problem, tables: Tables) -> tuple[Model, Kernels]:
    """The model, and the loops for its operator."""
    digest = _digest(tables)
    model = Model(
        start=digest.start,
        next_state=digest.next_state,
        prob=tables.prob,
        reward=digest.reward,
        live=digest.live,
        sign=digest.sign,
        weights=np.array(
            problem.operator.weights(tables.num_actions), dtype=np.float64
        ),
        q=np.zeros(len(digest.reward)),
        room=np.zeros(3 * tables.num_actions),
        full=digest.full,
        code=problem.operator.code,
        temperature=float(problem.operator.strength),
        discount=float(problem.discount),
        reward_top=digest.reward_top,
    )
    return model, kernels_for(problem.operator)
