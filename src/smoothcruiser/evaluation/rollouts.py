"""The rollouts of ``evaluate`` in compiled code (``plain_rollouts`` has them in Python).

Compiled code serves arrays (S, A) over tables and trees of compiled problems;
Python serves everything else. Both keep two streams for the life of an
evaluation, under spawn keys of their own, so the samples are fresh whatever
stream found the policy: one for world and policy, one for the lengths of paths.
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
from smoothcruiser.engines.compiled.tiers import ADDRESS, Handover, tier_choice
from smoothcruiser.engines.pools.threads import Threads
from smoothcruiser.errors import OracleError, SmoothcruiserError
from smoothcruiser.evaluation import kernel as evaluate_kernel
from smoothcruiser.evaluation.critics import (
    ArrayCritic,
    Critic,
    constant_value,
    not_finite,
)
from smoothcruiser.evaluation.path_rules import COLUMNS, PathRule
from smoothcruiser.jit.build import compile_function
from smoothcruiser.jit.random import Key
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.operators import Operator
from smoothcruiser.operators.operator_functions import parts_of
from smoothcruiser.problem.problem import Problem
from smoothcruiser.run_control.stop_requests import StopRequest
from smoothcruiser.tree.kernels import kernel
from smoothcruiser.tree.kernels.compiled_tree import machine_for
from smoothcruiser.tree.kernels.shared_machine import RowMachine, state_words
from smoothcruiser.tree.search_numbers import Setting, TreeRule
from smoothcruiser.tree.tree import Tree

_kernels: dict[Any, Any] = {}
NO_CRITIC = np.zeros((1, 1))  # the data of a critic that no rule asks


@dataclass(frozen=True)
class RolloutTask:
    """The data that all rollouts of one evaluation share."""

    problem: Problem
    state: Any  # where they start
    setting: Setting
    seed: int
    hold: StopRequest = field(
        default_factory=StopRequest
    )  # says whether Ctrl-C was pressed
    critic: Critic | None = None


class Rollouts(Protocol):
    """A source of paths."""

    name: str
    deadline: float  # no step begins after it, in the clock of ``perf_counter``
    assumed: tuple[str, ...]  # of its policy, beside those of every policy
    notes: tuple[str, ...]  # how its policy was read
    critic: Critic | None  # the control variate

    @property
    def looks(self) -> int:
        """The number of checks that the step does not write into its state."""

    @property
    def doubts(self) -> str:
        """The questions that these checks could not decide."""

    @property
    def random(self) -> bool:
        """Whether the policy has left anything to chance so far."""

    @property
    def calls(self) -> int:
        """Oracle calls so far."""

    def spend(self, calls: int) -> None:
        """Count calls that were made elsewhere."""

    def run_paths(self, count: int, most_calls: int, rule: PathRule) -> Any:
        """The samples of the paths finished, one row each (``path_rules``).

        There are fewer than ``count`` where the calls are used up, the time is up, or
        the run was stopped by hand. The path under way is then dropped, and no other
        follows: paths come in a fixed order, so that short ones are not preferred, and
        the intervals hold at every count (``path_fitting``).
        """

    def close(self) -> None:
        """Release threads, where there are any."""


class CompiledPolicy(NamedTuple):
    """A policy as the kernel reads it, with the compiled world it is played in."""

    machine: Any  # the compiled oracle; None for tables
    data: Any  # read by the oracle
    state: Any  # the first state, in compiled form
    table: Any  # probabilities, one row per state or per node of the tree
    nodes: Any = None  # integers and hashes of a tree's nodes; None for tables
    states: Any = None  # the states of a tree's nodes
    held: Any = None  # has to live as long: a state that is an address
    critic: Any = None  # compiled; None for arrays by state, and without a critic
    critic_data: Any = NO_CRITIC
    parts: dict[str, Any] | None = None  # of the kernel, in the place of others


class _Loop(NamedTuple):
    """A policy with the compiled rollouts of its world."""

    policy: CompiledPolicy
    kernel: Any
    nodes: Any
    states: Any
    scratch: Any


def _make_loop(policy: CompiledPolicy, operator: Operator) -> _Loop:
    """Prepare the rollouts of ``policy``; they are compiled when they first run."""
    machine, nodes, states = policy.machine, policy.nodes, policy.states
    if nodes is None:
        nodes = (np.zeros((1, 1), np.int64), np.zeros(1, np.int64))
        states = np.zeros(1, np.int64)
    reserve_states = (
        compile_function(allocate) if machine is None else machine.allocate
    )
    return _Loop(
        policy, _kernel_for(policy, operator), nodes, states, reserve_states(2)
    )


def _no_row(state: Any) -> int:
    """Row 0, for states that are no rows of a table."""
    return 0


def _operator_parts(operator: Operator) -> dict[str, Any]:
    own_parts = parts_of(operator, omega=True)
    if own_parts is None:
        return {}
    return {
        "GRADIENT": own_parts.gradient,
        "OMEGA": own_parts.omega,
        "UNINFORMED": own_parts.blind,
    }


class CompiledRollouts:
    """Rollouts in compiled code."""

    name = "compiled"
    looks, doubts = 0, ""  # machine code is not inspected while it runs
    deadline = math.inf
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        task: RolloutTask,
        policy: CompiledPolicy,
        whole: Callable[[], CompiledPolicy] | None = None,
    ) -> None:
        """``whole`` is for a policy in a world that is called by address.

        It returns the same policy with the user's functions inside.
        """
        self.problem, self.setting = task.problem, task.setting
        self.critic = task.critic
        self.follows = policy.nodes is not None
        operator = task.problem.operator
        self.weights = np.array(operator.weights(task.problem.num_actions))
        self.meta, self.fault = np.zeros(5, np.int64), np.zeros(1)
        self.rng = stream(task.seed, Key.ROLLOUTS)
        self.coins = stream(task.seed, Key.COINS)
        self.lots = np.zeros(1)  # whether the policy ever drew lots
        self.hold, self.stop = task.hold, np.zeros(1, np.int64)
        self.loop = _make_loop(policy, operator)
        self._compile(self.loop)
        self.later = None
        if whole is not None:
            self.later = Handover(lambda: self._compile(_make_loop(whole(), operator)))
        self._counted = 0  # calls that the handover knows of
        # The main thread has to be free to receive a stop.
        self.thread = Threads(1, self, self._interrupt)

    def _interrupt(self) -> None:
        self.stop[0] = 1

    def _compile(self, loop: _Loop) -> _Loop:
        """Compile ``loop`` by running nothing in it."""
        meta, lots = np.zeros_like(self.meta), np.zeros_like(self.lots)
        self._in_loop(loop, meta, lots, PathRule(), 0, np.zeros((0, COLUMNS)))
        return loop

    def _hand_over(self) -> None:
        """Go on with the user's functions inside the loop, once that is compiled."""
        if self.later is None:
            return
        new_loop = self.later.after(self.calls - self._counted)
        self._counted = self.calls
        if new_loop is not None:
            self.loop, self.later = new_loop, None

    def close(self) -> None:
        """End the thread."""
        self.thread.close()

    @classmethod
    def of_table(cls, task: RolloutTask, table: Any) -> CompiledRollouts:
        """Rollouts of an array (S, A) on a tabular problem."""
        assert task.problem.tables is not None
        data = task.problem.tables.sampling
        policy = CompiledPolicy(None, data, int(task.state), table)
        if task.critic is not None:
            policy = policy._replace(critic_data=tabulate_critic(task))
        return cls(task, policy)

    @classmethod
    def of_tree(cls, task: RolloutTask, tree: Tree) -> CompiledRollouts:
        """Rollouts of a compiled tree's policy from its root."""
        tree_backend = tree.backend
        num_nodes, K = tree.num_nodes, task.problem.num_actions
        table = np.empty((num_nodes, K))
        operator = task.problem.operator
        rule: TreeRule = tree.rule
        own_parts = _operator_parts(operator)
        compile_function(evaluate_kernel.node_policies, **own_parts)(
            rule,
            tree_backend.setting,
            tree_backend.nodes.ints,
            tree_backend.nodes.floats,
            num_nodes,
            K,
            tree_backend.head,
            operator.code,
            np.array(operator.weights(K)),
            operator.strength,
            table,
        )
        table[0] = tree.policy(0)  # of a root with a rule of its own (Gumbel MuZero)
        nodes = (tree_backend.nodes.ints, tree_backend.nodes.table)
        first_state = tree_backend.node(0).state
        machine, states = tree_backend.machine, tree_backend.states
        if not isinstance(machine, RowMachine):
            policy = CompiledPolicy(
                machine, tree_backend.data, first_state, table, nodes, states
            )
            return cls(task, _with_critic(task, policy, first_state))
        machine = machine.twin()  # the tree may go on with its own
        root_words = machine.spoken.words(first_state)
        state_address, data = int(root_words.ctypes.data), machine.data
        policy = CompiledPolicy(
            machine, data, state_address, table, nodes, states, root_words
        )

        def build_whole() -> Any:
            return _with_functions(task.problem, policy, first_state, num_nodes)

        if task.critic is not None:
            return cls(task, _with_critic(task, build_whole(), first_state))
        return cls(task, policy, None if tier_choice() == ADDRESS else build_whole)

    def replace_table(self, table: Any, critic_data: Any) -> None:
        """Play another policy with another critic from now on, of the same types."""
        policy = self.loop.policy._replace(table=table, critic_data=critic_data)
        self.loop = self.loop._replace(policy=policy)

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

    def run_loop(
        self, rule: PathRule, most_calls: int, samples: Any
    ) -> tuple[int, int]:
        """Run paths by a rule; return the status and the number finished."""
        return self._in_loop(
            self.loop, self.meta, self.lots, rule, most_calls, samples
        )

    def _in_loop(
        self,
        loop: _Loop,
        meta: Any,
        lots: Any,
        rule: PathRule,
        most_calls: int,
        samples: Any,
    ) -> tuple[int, int]:
        operator = self.problem.operator
        status, num_finished = loop.kernel(
            self.setting,
            operator.code,
            operator.strength,
            self.weights,
            loop.policy.data,
            loop.policy.table,
            self.follows,
            loop.nodes[0],
            loop.nodes[1],
            loop.states,
            loop.scratch,
            loop.policy.state,
            meta,
            self.fault,
            rule,
            most_calls,
            samples,
            lots,
            self.rng,
            self.coins,
            self.stop.ctypes.data,
            loop.policy.critic_data,
        )
        return int(status), int(num_finished)

    def run_paths(self, count: int, most_calls: int, rule: PathRule) -> Any:
        """As in ``Rollouts``."""
        self._hand_over()
        samples = np.empty((count, COLUMNS))
        try:
            status, num_finished = self._in_time(rule, most_calls, samples)
        except (SmoothcruiserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise OracleError(
                f"The oracle raised {type(error).__name__}: {error}; "
                "fix the simulator (executor='reference' says where)."
            ) from error
        if status not in (kernel.DONE, kernel.CUT):
            self._complain(status)
        return samples[:num_finished]

    def _in_time(self, *rollouts: Any) -> tuple[int, int]:
        """The result of ``run_loop``, in the thread, until a stop or the deadline."""
        outcomes: list[tuple[int, int]] = []

        def report(_: Any, outcome: tuple[int, int]) -> bool:
            outcomes.append(outcome)
            return True

        seconds_left = min(self.deadline - time.perf_counter(), threading.TIMEOUT_MAX)
        timer = threading.Timer(max(0.0, seconds_left), self._interrupt)
        timer.daemon = True
        if self.deadline < math.inf:  # starting a thread takes longer than ten paths
            timer.start()
        try:
            with self.hold.opened():
                self.thread.map(_run_rollouts, iter([rollouts]), report)
        except KeyboardInterrupt:
            outcomes += [
                outcome
                for outcome in self.thread.abandoned_results
                if isinstance(outcome, tuple)
            ]
        finally:
            timer.cancel()
        # a call that did not return even then is left behind (``Threads``)
        return outcomes[-1] if outcomes else (kernel.CUT, 0)

    def _complain(self, status: int) -> None:
        from smoothcruiser.tree.kernels.array_tree import complain

        machine, scratch = self.loop.policy.machine, self.loop.scratch
        fault_state = int(scratch[1]) if machine is None else machine.load(scratch, 1)
        if status == evaluate_kernel.BAD_WORTH:
            if self.critic is not None:
                steps = 1 if self.critic.uses_steps else None
                self.critic.value_at(fault_state, steps)  # raises with the number
            raise not_finite(math.nan, fault_state)
        action, reward = int(self.meta[kernel.FAULT]), float(self.fault[0])
        complain(self.problem, self.setting, status, fault_state, action, reward)


def _run_rollouts(rollouts: CompiledRollouts, item: Any) -> tuple[int, int]:
    return rollouts.run_loop(*item)


def _kernel_for(policy: CompiledPolicy, operator: Operator) -> Any:
    """The compiled rollouts for one compiled oracle, kept for the next evaluation.

    The oracle is kept beside its kernel, so that its identity stays its own.
    """
    own_parts, machine = _operator_parts(operator), policy.machine
    if isinstance(machine, RowMachine):
        return compile_function(
            evaluate_kernel.policy_rollouts,
            nogil=True,
            **_row_parts(machine, own_parts),
        )
    if policy.critic is not None:
        own_parts["CRITIC"] = policy.critic
    own_parts |= policy.parts or {}
    machine_parts: dict[str, Any] = {}
    if machine is not None and machine.parts:
        machine_parts = {"CRITIC": compile_function(constant_value)} | machine.parts
        machine_parts |= {"ROW": compile_function(_no_row)}
    cache_key = (id(machine) if machine_parts else 0, *own_parts.values())
    if cache_key not in _kernels:
        used_parts = {
            name: function
            for name, function in machine_parts.items()
            if name != "ALLOCATE"
        }
        built_kernel = compile_function(
            evaluate_kernel.policy_rollouts, nogil=True, **used_parts | own_parts
        )
        _kernels[cache_key] = (built_kernel, machine)
    return _kernels[cache_key][0]


def tabulate_critic(task: RolloutTask) -> Any:
    """(T, S) The critic's values of all states of a tabular problem, once each."""
    problem, critic = task.problem, task.critic
    assert problem.tables is not None
    assert critic is not None
    if isinstance(critic, ArrayCritic):
        return critic.stages
    stages = critic.tabulate(problem.tables.num_states, problem.horizon)
    return NO_CRITIC if stages is None else stages


def _with_critic(
    task: RolloutTask, policy: CompiledPolicy, state: Any
) -> CompiledPolicy:
    """The policy with the task's critic in machine code, where there is one."""
    if task.critic is None:
        return policy
    if task.problem.tables is not None:
        return policy._replace(critic_data=tabulate_critic(task))
    parts = critic_parts(task.critic, state)
    assert parts is not None
    return policy._replace(critic=parts[0], critic_data=parts[1])


def critic_parts(critic: Critic, state: Any) -> Any:
    """The compiled critic and its data for states like ``state``; None: Python only."""
    from numba import typeof

    try:
        return critic.compiled_parts(typeof(state))
    except ValueError:  # no type of machine code
        return None


def _row_parts(machine: RowMachine, own_parts: dict[str, Any]) -> dict[str, Any]:
    """The parts of the rollouts that all users share, which come from the disk.

    A user's own operator stands in the code, and no disk knows it.
    """
    machine_parts = machine.parts | {"ROW": compile_function(_no_row)} | own_parts
    if own_parts:
        del machine_parts["salt"]
    return machine_parts


def _with_functions(
    problem: Problem, policy: CompiledPolicy, first_state: Any, num_nodes: int
) -> CompiledPolicy:
    """The policy of a tree of ``num_nodes``, with the user's functions inside."""
    machine, data, state = machine_for(problem, first_state)
    tree_rows, (ints, hashes) = policy.states, policy.nodes
    states, hash_table = machine.allocate(len(tree_rows)), np.empty_like(hashes)
    states[:num_nodes] = state_words(tree_rows[:num_nodes])
    machine.rehash(ints, hash_table, states, num_nodes)
    return CompiledPolicy(
        machine, data, state, policy.table, (ints, hash_table), states
    )
