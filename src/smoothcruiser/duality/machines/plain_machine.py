"""Paths with a learned value for every step and every state, interpreted.

They are the source of the paths in machine code (``path_kernel``), with Python's
problem, W, policy and lists in its parts, and the same bits. W is asked for all next
states of a layer at once.
"""

from __future__ import annotations

import math
import operator as operators
import time
from typing import Any, Self

import numpy as np

from smoothcruiser.duality.machines import path_kernel
from smoothcruiser.duality.machines.gap_rules import GapRule, count_columns
from smoothcruiser.duality.machines.path_kernel import PathWorld, step_setting
from smoothcruiser.duality.machines.path_memory import PathLists
from smoothcruiser.duality.machines.path_tasks import (
    Floats,
    PathCritic,
    PathFault,
    PathTask,
    fault_error,
)
from smoothcruiser.duality.machines.python_policies import PythonWalks
from smoothcruiser.evaluation.plain_rollouts import Lists
from smoothcruiser.jit.forms import bind_parts
from smoothcruiser.jit.random.mirrored_streams import (
    FLIPPED,
    MirroredStream,
    first_words,
    position_words,
)
from smoothcruiser.problem.step_errors import call_oracle
from smoothcruiser.run_control.call_seconds import limit_call_seconds
from smoothcruiser.states.identity import check_recognizable, is_fixed, state_key
from smoothcruiser.states.state_copies import Guard, copy_state
from smoothcruiser.tree.kernels import kernel

BATCH_ROWS = 65_536  # results of steps for which W is asked at once
CHECKED_STATES = 16  # objects and arrays that are compared with a copy


def first_numbers(numbers: list[float], size: int) -> list[float]:
    """The first numbers; the list itself where these are all, so that it is written."""
    return numbers if size == len(numbers) else numbers[:size]


class ReferenceMachine:
    """All in Python."""

    name = "reference"
    deadline = math.inf
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    def __init__(self, task: PathTask) -> None:
        self.task, self.problem = task, task.problem
        self.stepped = task.problem  # the one with the step that is called
        self.setting, self.critic = task.setting, task.critic
        operator, K = task.problem.operator, task.problem.num_actions
        self.policy = (
            task.policy.tolist() if isinstance(task.policy, np.ndarray) else []
        )
        self.world = PathWorld(
            operator.code,
            operator.strength,
            task.policy_kind,
            1,
            task.steps_left,
            self.problem.key is not None,
        )
        self.steps = step_setting(task.setting)
        self.memory = PathLists(K, list(operator.weights(K)), lambda n: [None] * n)
        self.rng = MirroredStream((1, 2, 3, 4))
        self.position_words = task.position_words or position_words
        self.firsts = [first_words(task.seed, part) for part in range(2)]
        self.guard, self.calls = Guard(), 0
        # of the layer under way, by the key of a state
        self.nodes: dict[Any, int] = {}
        self.key: Any = None
        self.serial = self.num_checked = 0
        self.legal_state: Any = None
        self.legal_actions: list[int] = []
        self.walks = PythonWalks(task) if task.start_walk is not None else None
        self.kernel = bind_parts(path_kernel.play_paths, self.kernel_parts())

    @property
    def looks(self) -> int:
        """The number of checks that the step does not write into its state."""
        return self.guard.looks

    @property
    def doubts(self) -> str:
        """The questions that these checks could not decide."""
        return self.guard.doubts

    @property
    def value_spans(self) -> Floats:
        """As in ``PathMachine``."""
        return self.memory.spans

    def twin(self) -> Self:
        """As in ``PathMachine``."""
        copy = type(self)(self.task)
        copy.critic, copy.deadline = self.critic, self.deadline
        return copy

    def replace_critic(self, critic: PathCritic) -> None:
        """As in ``PathMachine``."""
        self.critic = critic

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def play_paths(
        self,
        first: int,
        count: int,
        rule: GapRule,
        times: Floats,
        most_calls: int,
        *,
        pilot: bool = False,
    ) -> Floats:
        """As in ``PathMachine``."""
        K, memory = self.setting.num_actions, self.memory
        samples = np.empty((count, count_columns(K)))
        chunk = max(1, BATCH_ROWS // (K * (1 + rule.num_inner)))
        self.world = self.world._replace(chunk=chunk)
        memory.prepare(rule, len(times), chunk)
        memory.paper = memory.paper._replace(first=self.firsts[0 if pilot else 1])
        state_before = copy_state(self.task.state)
        times_view = np.ascontiguousarray(times).reshape(-1).data
        status = path_kernel.GROW
        try:
            with (
                limit_call_seconds(self, self.problem.call_seconds),
                self.task.hold.opened(),
            ):
                while status == path_kernel.GROW:
                    status = self.kernel(
                        self.steps,
                        rule,
                        self.world,
                        None,
                        None,
                        self.policy,
                        times_view,
                        memory.graph,
                        memory.batch,
                        memory.paper,
                        self.task.state,
                        first,
                        most_calls,
                        count,
                        samples.reshape(-1).data,
                        self.rng,
                        None,
                    )
                    if status == path_kernel.GROW:
                        memory.grow()
        except KeyboardInterrupt:
            status = kernel.CUT
        finally:
            self.calls += memory.paper.meta[path_kernel.CALLS]
        if not self.task.hold.came:  # a step that was broken off may leave it changed
            self.guard.compare(state_before, self.task.state, 0)
        if status not in (kernel.DONE, kernel.CUT):
            raise fault_error(self.task, status, self._fault(status))
        return samples[: memory.paper.meta[path_kernel.ROW_NUMBER]]

    def _fault(self, status: int) -> PathFault:
        memory, meta = self.memory, self.memory.paper.meta
        row, number = meta[path_kernel.FAULT_ROW], memory.paper.fault[0]
        if status == path_kernel.BAD_VALUE:
            rows = range(row, len(memory.batch.values))
            row = next(
                (
                    r
                    for r in rows
                    if memory.batch.flags[r] == path_kernel.ALIVE
                    and not math.isfinite(memory.batch.values[r])
                ),
                row,
            )
            number = memory.batch.values[row]
        return PathFault(
            memory.graph.states[meta[path_kernel.FAULT_NODE]],
            meta[path_kernel.FAULT_ACTION],
            number,
            memory.batch.states[row],
        )

    # --- the parts of the kernel ----------------------------------------------

    def kernel_parts(self) -> dict[str, Any]:
        """The problem and the policy, by the names in the kernel."""
        problem, scalar = self.problem, self.problem.operator.scalar
        parts: dict[str, Any] = path_kernel.plain_numbers() | {
            "np": Lists,
            "LOAD": operators.getitem,
            "STORE": operators.setitem,
            "SAME": lambda x, y: True,  # told apart by keys
            "EQUAL": lambda x, y: state_key(x) == state_key(y),
            "STEP": self._step,
            "LEGAL": self._is_legal,
            "TERMINAL": lambda data, state: self.stepped.is_terminal(state),
            "VALUE": lambda code, q, w, t: scalar.value(q, w, t),
            "GRADIENT": lambda code, q, w, t, out: scalar.gradient(q, w, t, out),
            "OMEGA": lambda code, p, w, t: scalar.omega(p, w, t),
            "flag_at": lambda stop: time.perf_counter() > self.deadline,
            "sign_of": lambda setting, data, state: (
                1.0 if problem.mover(state) == 1 else -1.0
            ),
            "fill_values": self._fill,
            "find_node": self._find,
            "enter_node": self._enter,
            "write_position": self._write_position,
            "read_table": self._read_table,
            "first_floats": first_numbers,
        }
        if self.walks is not None:
            walks = self.walks
            parts |= {
                "begin_walk": walks.begin,
                "note_action": walks.note,
                "ask_policy": self._ask_policy,
            }
        return parts

    def _step(self, data: Any, state: Any, action: Any, rng: Any) -> Any:
        setting = self.setting
        return call_oracle(
            self.stepped,
            state,
            action,
            rng,
            setting.low,
            setting.high,
            setting.ends,
            self.guard,
        )

    def _is_legal(self, data: Any, state: Any, action: int) -> bool:
        if state is not self.legal_state or action == 0:
            self.legal_state = state
            self.legal_actions = self.problem.legal_actions(state)
        return action in self.legal_actions

    def _fill(
        self,
        world: Any,
        data: Any,
        critic: Any,
        steps_left: int,
        batch: Any,
        count: int,
    ) -> int:
        """Ask W for all next states of a batch at once."""
        flags = batch.flags
        rows = [row for row in range(count) if flags[row] == path_kernel.ALIVE]
        if rows:
            steps = None if steps_left < 0 else steps_left
            answers = self.critic.values([batch.states[row] for row in rows], steps)
            for row, value in zip(rows, np.asarray(answers).tolist(), strict=True):
                batch.values[row] = float(value)
        return kernel.DONE

    def _find(
        self,
        data: Any,
        states: Any,
        slots: Any,
        serials: Any,
        serial: int,
        size: int,
        others: Any,
        row: int,
    ) -> int:
        state = others[row]
        if serial != self.serial:
            self.nodes.clear()
            self.serial = serial
        self.key = self.problem.key_of(state)
        node = self.nodes.get(self.key)
        if node is None:
            self._check_state(state)
        return -1 if node is None else node

    def _check_state(self, state: Any) -> None:
        """Refuse a state that is not equal to a copy of itself."""
        if not is_fixed(state):
            self.num_checked += 1  # they are copied, so only some are
        if is_fixed(state) or self.num_checked <= CHECKED_STATES:
            check_recognizable(state, self.key)

    def _enter(
        self, slots: Any, serials: Any, serial: int, slot: int, node: int
    ) -> None:
        self.nodes[self.key] = node

    def _write_position(
        self, words: Any, row: int, first: Any, *position: int
    ) -> None:
        *numbers, mirrored = position
        mask = FLIPPED if mirrored else 0
        words[row] = (*self.position_words(first, *numbers), mask)

    def _read_table(
        self, setting: Any, policy: Any, states: Any, node: int, shares: Any
    ) -> None:
        K = self.setting.num_actions
        shares[node * K : node * K + K] = policy[states[node]]

    def _ask_policy(self, critic: Any, graph: Any, node: int) -> int:
        assert self.walks is not None
        K = self.setting.num_actions
        graph.shares[node * K : node * K + K] = self.walks.shares(graph.states[node])
        return kernel.DONE
