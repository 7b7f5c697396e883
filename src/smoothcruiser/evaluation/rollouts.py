"""The rollouts of ``evaluate``, one class for compiled code and one for Python.

Compiled code serves arrays (S, A) over tables and trees of compiled problems;
Python serves everything else. Both keep one stream for the life of an
evaluation, under a spawn key of their own, so the samples are fresh whatever
stream found the policy.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from smoothcruiser.engines.compiled.kernel import allocate
from smoothcruiser.engines.pools.threads import Threads
from smoothcruiser.engines.watchdog import watched
from smoothcruiser.errors import InvalidInput, OracleError, SmoothcruiserError
from smoothcruiser.evaluation import kernel as evaluate_kernel
from smoothcruiser.evaluation.confidence import take
from smoothcruiser.jit.build import compiled
from smoothcruiser.jit.interrupts import Hold
from smoothcruiser.jit.keys import Key
from smoothcruiser.jit.streams import stream
from smoothcruiser.operators import Operator
from smoothcruiser.operators.parts import parts_of
from smoothcruiser.problem.answers import answered, beyond_total
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import Guard, copied
from smoothcruiser.tree import kernel
from smoothcruiser.tree.kernel import Setting
from smoothcruiser.tree.searches import TreeRule
from smoothcruiser.tree.selection import drawn
from smoothcruiser.tree.tree import Tree

# how far probabilities may be from summing to 1, as printed decimals are
SUM_TOLERANCE = 1e-6
ROUNDING = (
    1e-14  # relative error of a sum, per term; far above that of double precision
)

# (state, the action that led here or None) -> probabilities of all K actions,
# or None for the blind policy
Walk = Callable[[Any, int | None], Any]

_kernels: dict[Any, Any] = {}


@dataclass(frozen=True)
class RolloutTask:
    """What all rollouts of one evaluation share."""

    problem: Problem
    state: Any  # where they start
    setting: Setting
    seed: int
    hold: Hold = field(default_factory=Hold)  # says whether Ctrl-C was pressed


class Rollouts(Protocol):
    """A source of samples of X."""

    name: str
    compile_seconds: float
    deadline: float  # no step begins after it, in the clock of ``perf_counter``

    @property
    def looks(self) -> int:
        """How often the step was checked for writing into its state."""

    @property
    def doubts(self) -> str:
        """What these checks could not decide."""

    @property
    def random(self) -> bool:
        """Whether the policy has left anything to chance so far."""

    @property
    def calls(self) -> int:
        """Oracle calls so far."""

    @property
    def last(self) -> float:
        """X of the last rollout."""

    def spend(self, calls: int) -> None:
        """Count calls that were made elsewhere."""

    def run(
        self, count: int, most_calls: int, low: float, spread: float, sequence: Any
    ) -> int:
        """The number of rollouts finished, each taken into ``sequence``.

        It is below ``count`` where the calls are used up, the time is up, or the run
        was stopped by hand. The rollout under way is then dropped, and no other
        follows: the intervals hold at every count (``confidence``).
        """

    def close(self) -> None:
        """Release threads, where there are any."""


class CompiledPolicy(NamedTuple):
    """A policy as the kernel reads it, with the compiled world it is played in."""

    machine: Any  # the compiled oracle; None for tables
    data: Any  # what the oracle reads
    state: Any  # the first state, in compiled form
    table: Any  # probabilities, one row per state or per node of the tree
    nodes: Any = None  # integers and hashes of a tree's nodes; None for tables
    states: Any = None  # the states of a tree's nodes


def _no_row(state: Any) -> int:
    """Row 0, for states that are no rows of a table."""
    return 0


def _operator_parts(operator: Operator) -> dict[str, Any]:
    own = parts_of(operator, omega=True)
    if own is None:
        return {}
    return {"GRADIENT": own.gradient, "OMEGA": own.omega, "UNINFORMED": own.blind}


class CompiledRollouts:
    """Rollouts in compiled code."""

    name = "compiled"
    looks, doubts = 0, ""  # machine code is not inspected while it runs
    deadline = math.inf

    def __init__(self, task: RolloutTask, policy: CompiledPolicy) -> None:
        self.problem, self.setting, self.policy = task.problem, task.setting, policy
        self.follows = policy.nodes is not None
        self.nodes, self.states = policy.nodes, policy.states
        if not self.follows:
            self.nodes = (np.zeros((1, 1), np.int64), np.zeros(1, np.int64))
            self.states = np.zeros(1, np.int64)
        operator, machine = task.problem.operator, policy.machine
        self.weights = np.array(operator.weights(task.problem.num_actions))
        self.meta, self.fault = np.zeros(5, np.int64), np.zeros(1)
        reserve = compiled(allocate) if machine is None else machine.allocate
        self.scratch = reserve(2)
        self.rng = stream(task.seed, Key.ROLLOUTS)
        self.lots = np.zeros(2)  # whether the policy ever drew lots, and the last X
        self.hold, self.stop = task.hold, np.zeros(1, np.int64)
        begin = time.perf_counter()
        self.kernel = _kernel(machine, operator)
        self._run(0, 0, 0.0, 1.0, np.zeros(10))
        self.compile_seconds = time.perf_counter() - begin
        # The main thread has to be free to hear of a stop.
        self.thread = Threads(1, self, self._interrupt)

    def _interrupt(self) -> None:
        self.stop[0] = 1

    def close(self) -> None:
        """End the thread."""
        self.thread.close()

    @classmethod
    def of_table(cls, task: RolloutTask, table: Any) -> CompiledRollouts:
        """Rollouts of an array (S, A) on a tabular problem."""
        assert task.problem.tables is not None
        data = task.problem.tables.sampling
        return cls(task, CompiledPolicy(None, data, int(task.state), table))

    @classmethod
    def of_tree(cls, task: RolloutTask, tree: Tree) -> CompiledRollouts:
        """Rollouts of a compiled tree's policy from its root."""
        inner = tree._backend.whole()
        count, K = tree.num_nodes, task.problem.num_actions
        table = np.empty((count, K))
        operator = task.problem.operator
        rule: TreeRule = tree.rule
        own = _operator_parts(operator)
        compiled(evaluate_kernel.node_policies, **own)(
            rule,
            inner.setting,
            inner.nodes.ints,
            inner.nodes.floats,
            count,
            K,
            inner.head,
            operator.code,
            np.array(operator.weights(K)),
            operator.strength,
            table,
        )
        table[0] = tree.policy(0)  # of a root with a rule of its own (Gumbel MuZero)
        nodes = (inner.nodes.ints, inner.nodes.table)
        first = inner.node(0).state
        return cls(
            task,
            CompiledPolicy(
                inner.machine, inner.data, first, table, nodes, inner.states
            ),
        )

    @property
    def calls(self) -> int:
        """Oracle calls so far."""
        return int(self.meta[kernel.CALLS])

    def spend(self, calls: int) -> None:
        """Count calls that were made elsewhere."""
        self.meta[kernel.CALLS] += calls

    @property
    def random(self) -> bool:
        """Whether the policy has left anything to chance so far."""
        return bool(self.lots[0])

    @property
    def last(self) -> float:
        """X of the last rollout."""
        return float(self.lots[1])

    def _run(
        self, count: int, most_calls: int, low: float, spread: float, sequence: Any
    ) -> tuple[int, int]:
        operator = self.problem.operator
        status, finished = self.kernel(
            self.setting,
            operator.code,
            operator.strength,
            self.weights,
            self.policy.data,
            self.policy.table,
            self.follows,
            self.nodes[0],
            self.nodes[1],
            self.states,
            self.scratch,
            self.policy.state,
            self.meta,
            self.fault,
            count,
            most_calls,
            low,
            spread,
            sequence,
            self.lots,
            self.rng,
            self.stop.ctypes.data,
        )
        return int(status), int(finished)

    def run(
        self, count: int, most_calls: int, low: float, spread: float, sequence: Any
    ) -> int:
        """As in ``Rollouts``."""
        try:
            status, finished = self._in_time(count, most_calls, low, spread, sequence)
        except (SmoothcruiserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise OracleError(
                f"The oracle raised {type(error).__name__}: {error}; "
                "fix the simulator (executor='reference' says where)."
            ) from error
        if status not in (kernel.DONE, kernel.CUT):
            self._complain(status)
        return finished

    def _in_time(self, *rollouts: Any) -> tuple[int, int]:
        """What ``_run`` returns, in the thread, until a stop or the deadline."""
        found: list[tuple[int, int]] = []

        def report(_: Any, ended: tuple[int, int]) -> bool:
            found.append(ended)
            return True

        left = min(self.deadline - time.perf_counter(), threading.TIMEOUT_MAX)
        timer = threading.Timer(max(0.0, left), self._interrupt)
        timer.daemon = True
        timer.start()
        try:
            with self.hold.opened():
                self.thread.map(_run_rollouts, iter([rollouts]), report)
        except KeyboardInterrupt:
            found += [
                ended for ended in self.thread.abandoned if isinstance(ended, tuple)
            ]
        finally:
            timer.cancel()
        # a call that did not return even then is left behind (``Threads``)
        return found[-1] if found else (kernel.CUT, 0)

    def _complain(self, status: int) -> None:
        from smoothcruiser.tree.compiled import complain

        machine = self.policy.machine
        where = (
            int(self.scratch[1]) if machine is None else machine.load(self.scratch, 1)
        )
        action, reward = int(self.meta[kernel.FAULT]), float(self.fault[0])
        complain(self.problem, self.setting, status, where, action, reward)


def _run_rollouts(rollouts: CompiledRollouts, item: Any) -> tuple[int, int]:
    return rollouts._run(*item)


def _kernel(machine: Any, operator: Operator) -> Any:
    """The compiled rollouts for one compiled oracle, kept for the next evaluation.

    The oracle is kept beside its kernel, so that its identity stays its own.
    """
    parts: dict[str, Any] = {}
    if machine is not None and machine.parts:
        parts = machine.parts | {"ROW": compiled(_no_row)}
    own = _operator_parts(operator)
    key = (id(machine) if parts else 0, *own.values())
    if key not in _kernels:
        used = {name: part for name, part in parts.items() if name != "ALLOCATE"}
        built = compiled(evaluate_kernel.policy_rollouts, nogil=True, **used, **own)
        _kernels[key] = (built, machine)
    return _kernels[key][0]


class PlainRollouts:
    """Rollouts in Python; ``start_walk()`` returns the policy of one rollout."""

    name = "reference"
    compile_seconds = 0.0
    deadline = math.inf

    def __init__(self, task: RolloutTask, start_walk: Callable[[], Walk]) -> None:
        self.problem, self.state = task.problem, task.state
        self.setting, self.start_walk = task.setting, start_walk
        self.weights = task.problem.operator.weights(task.problem.num_actions)
        self.rng = stream(task.seed, Key.ROLLOUTS)
        self.random, self.last = False, 0.0
        self.calls = 0
        self.guard = Guard()
        self.hold = task.hold

    def close(self) -> None:
        """Do nothing: nothing is held."""

    @property
    def looks(self) -> int:
        """How often the step was checked for writing into its state."""
        return self.guard.looks

    @property
    def doubts(self) -> str:
        """What these checks could not decide."""
        return self.guard.doubts

    def spend(self, calls: int) -> None:
        """Count calls that were made elsewhere."""
        self.calls += calls

    def run(
        self, count: int, most_calls: int, low: float, spread: float, sequence: Any
    ) -> int:
        """As in ``Rollouts``."""
        before = copied(self.state)
        with watched(self, self.problem.call_seconds):
            finished = self._run(count, most_calls, low, spread, sequence)
        if not self.hold.came:  # a step that was broken off may leave it changed
            self.guard.compare(before, self.state, 0)
        return finished

    def _run(
        self, count: int, most_calls: int, low: float, spread: float, sequence: Any
    ) -> int:
        for finished in range(count):
            try:
                with self.hold.opened():
                    x = self._rollout(most_calls)
            except KeyboardInterrupt:
                return finished
            if x is None:
                return finished
            self.last = x
            self._check_total(x, low, low + spread)
            y = min(max((x - low) / spread, 0.0), 1.0) if spread > 0.0 else 0.0
            take(sequence, y)
        return count

    def _check_total(self, x: float, low: float, high: float) -> None:
        """Refuse a rollout that a declared total excludes, rounding apart."""
        total = self.problem.facts.total_range
        slack = ROUNDING * self.setting.limit * max(abs(low), abs(high), abs(x))
        if total is not None and not low - slack <= x <= high + slack:
            raise beyond_total(x, low, high)

    def _rollout(self, most_calls: int) -> float | None:
        """X of one rollout; None where calls or time are used up before its end."""
        operator, problem = self.problem.operator, self.problem
        policy = self.start_walk()
        state, action = self.state, None
        total, weight = 0.0, 1.0
        for _ in range(self.setting.limit):
            if self.calls >= most_calls or time.perf_counter() > self.deadline:
                return None
            actions = problem.legal_actions(state)
            w = [self.weights[a] for a in actions]
            p = self._probabilities(policy(state, action), state, actions, w)
            j = drawn(p, len(p), self.rng)
            self.random = self.random or p[j] < 1.0
            action = actions[j]
            sign = 1.0 if problem.mover(state) == 1 else -1.0
            self.calls += 1
            low, high, ends = self.setting.low, self.setting.high, self.setting.ends
            reward, state, over = answered(
                problem, state, action, self.rng, low, high, ends, self.guard
            )
            total += weight * (reward - sign * operator.omega(p, w))
            if over or (self.setting.ends and problem.is_terminal(state)):
                return total
            weight *= self.setting.discount
        return total + weight * self.setting.tail

    def _probabilities(
        self, found: Any, state: Any, actions: list[int], w: list[float]
    ) -> list[float]:
        """Checked probabilities of the legal actions; None is the blind policy."""
        if found is None:
            return self.problem.operator.blind(w)
        K = self.problem.num_actions
        try:
            values = [float(share) for share in found]
        except (TypeError, ValueError):
            raise InvalidInput(
                f"policy({state!r}) must give {K} "
                f"probabilities, one per action, got {found!r}."
            ) from None
        if len(values) != K:
            raise InvalidInput(
                f"policy({state!r}) must give {K} probabilities, "
                f"one per action, got {len(values)}: {values}."
            )
        p = [values[a] for a in actions]
        valid = all(0.0 <= share < math.inf for share in values)
        if not valid or not abs(sum(p) - 1.0) <= SUM_TOLERANCE:
            raise InvalidInput(
                f"policy({state!r}) must give probabilities of "
                f"legal actions that sum to 1, got {values}."
            )
        return [share / sum(p) for share in p]
