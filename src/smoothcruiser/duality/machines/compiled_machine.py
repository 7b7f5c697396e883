"""Paths with a learned value in machine code (``path_kernel`` with compiled parts).

``CompiledMachine`` runs blocks of paths in one call, without Python's lock: a driver that
is ready on the disk calls the problem's server by address (``calls_kernel``). Where W or
the policy is Python's, the same driver calls Python back (``MixedMachine``): the steps of
a layer run in machine code, and W is asked for all their next states at once.
"""

from __future__ import annotations

import ctypes
import math
import threading
import time
from typing import Any, Self

import numpy as np

from smoothcruiser.duality.machines import calls_kernel, path_kernel
from smoothcruiser.duality.machines.gap_rules import GapRule, count_columns
from smoothcruiser.duality.machines.path_kernel import PathWorld, step_setting
from smoothcruiser.duality.machines.path_memory import PathArrays
from smoothcruiser.duality.machines.path_tasks import (
    Floats,
    PathCritic,
    PathFault,
    PathTask,
    fault_error,
)
from smoothcruiser.duality.machines.python_policies import PythonWalks
from smoothcruiser.duality.machines.step_servers import (
    Server,
    build_server,
    state_type,
)
from smoothcruiser.engines.pools.threads import Threads
from smoothcruiser.errors import InvalidInput, OracleError, SmoothcruiserError
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.jit.random.mirrored_streams import MirroredStream, first_words
from smoothcruiser.operators.operator_functions import parts_of
from smoothcruiser.tree.kernels import kernel

KEY_IN_PYTHON = (
    "key= is not compiled, so the states of a path are merged where they are equal"
)
BATCH_ROWS = 65_536  # results of steps for which a W in Python is asked at once
ANSWER = ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_int64,) * 3)


class CompiledMachine:
    """All in machine code."""

    name = "compiled"
    looks, doubts = 0, ""  # machine code is not inspected while it runs
    deadline = math.inf
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    python_error: BaseException | None = None  # of a W or a policy in Python
    host = 0  # the address of Python's answers
    asks_values = False

    def __init__(self, task: PathTask) -> None:
        self.task, self.setting = task, task.setting
        problem, K = task.problem, task.problem.num_actions
        operator = problem.operator
        key = problem.key if is_compiled(problem.key) else None
        if problem.key is not None and key is None:
            self.notes = (KEY_IN_PYTHON,)
        self.replace_critic(task.critic)
        size = self.server.size
        self.world = PathWorld(
            operator.code,
            float(operator.strength),
            task.policy_kind,
            1,
            task.steps_left,
            key is not None,
            self.asks_values,
            size,
        )
        table = task.policy
        if not isinstance(table, np.ndarray):
            table = np.zeros((1, K))
        self.policy = np.ascontiguousarray(table, dtype=np.float64)
        self.root = self.server.words_of(task.state)
        self.memory = PathArrays(
            K,
            np.array(operator.weights(K), np.float64),
            lambda n: np.zeros((n, size), np.int64),
        )
        self.rng = MirroredStream((1, 2, 3, 4))
        self.stop = np.zeros(1, np.int64)
        self.firsts = [
            np.array(first_words(task.seed, p), np.uint64) for p in range(2)
        ]
        self.calls = 0
        self.thread: Threads | None = None
        self.driver = calls_kernel.build_driver(operator_parts(task))

    def replace_critic(self, critic: PathCritic) -> None:
        """As in ``PathMachine``."""
        if not self.asks_values and is_python(self.task, critic):
            raise InvalidInput("Machine code needs a W in machine code here.")
        self.critic = critic
        self.server: Server = build_server(self.task, critic)

    # --- paths --------------------------------------------------------------------

    @property
    def value_spans(self) -> Floats:
        """As in ``PathMachine``."""
        return self.memory.spans

    def twin(self) -> Self:
        """As in ``PathMachine``."""
        copy = type(self)(self.task)
        if self.critic is not self.task.critic:
            copy.replace_critic(self.critic)
        copy.deadline = self.deadline
        return copy

    def close(self) -> None:
        """End the thread."""
        if self.thread is not None:
            self.thread.close()

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
        samples = np.empty((count, count_columns(self.setting.num_actions)))
        if self.stop[0]:
            return samples[:0]
        memory, meta = self.memory, self.memory.paper.meta
        memory.prepare(rule, len(times), self.chunk_of(rule))
        first_word_pair = self.firsts[0 if pilot else 1]
        memory.paper = memory.paper._replace(first=first_word_pair)
        times = np.ascontiguousarray(times)
        status = path_kernel.GROW
        try:
            while status == path_kernel.GROW:
                status = self.run_block(rule, times, first, most_calls, samples)
                if status == path_kernel.GROW:
                    memory.grow()
        except (SmoothcruiserError, KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            if error is self.python_error:
                raise
            raise OracleError(
                f"The oracle raised {type(error).__name__}: {error}; "
                "fix the simulator (executor='reference' says where)."
            ) from error
        finally:
            self.calls += int(meta[path_kernel.CALLS])
        if status not in (kernel.DONE, kernel.CUT):
            raise fault_error(self.task, status, self._fault(status))
        return samples[: int(meta[path_kernel.ROW_NUMBER])]

    def chunk_of(self, rule: GapRule) -> int:
        """The nodes of a batch."""
        return 1

    def call_kernel(
        self, rule: GapRule, times: Floats, first: int, most_calls: int, samples: Any
    ) -> int:
        """The status of the kernel."""
        memory, stop = self.memory, int(self.stop.ctypes.data)
        request = self.server.request(
            self.setting, memory.batch, memory.paper, self.rng.share(), stop
        )
        status = self.driver(
            step_setting(self.setting),
            plain_rule(rule),
            self.world,
            (self.server.address, address_of(request)),
            self.host,
            address_of(self.policy),
            address_of(times),
            addresses_of(memory.graph),
            addresses_of(memory.batch),
            addresses_of(memory.paper),
            address_of(self.root),
            first,
            most_calls,
            len(samples),
            address_of(samples),
            self.rng,
        )
        return int(status)

    def run_block(self, *block: Any) -> int:
        """The status of the kernel, until a stop or the deadline.

        The main thread runs it in another, so that it is free to receive a stop.
        """
        if threading.current_thread() is not threading.main_thread():
            return self._in_time(lambda: self.call_kernel(*block))
        if self.thread is None:
            self.thread = Threads(1, self, self._interrupt)
        thread = self.thread
        statuses: list[int] = []

        def report(_: Any, status: int) -> bool:
            statuses.append(status)
            return True

        def run_all() -> int:
            try:
                with self.task.hold.opened():
                    thread.map(call_kernel_of, iter([block]), report)
            except KeyboardInterrupt:
                abandoned = thread.abandoned_results
                statuses.extend(s for s in abandoned if isinstance(s, int))
            return statuses[-1] if statuses else kernel.CUT

        return self._in_time(run_all)

    def _in_time(self, call: Any) -> int:
        if self.deadline == math.inf:
            return int(call())
        seconds_left = min(self.deadline - time.perf_counter(), threading.TIMEOUT_MAX)
        if seconds_left <= 0.0:
            return kernel.CUT
        timer = threading.Timer(seconds_left, self._interrupt)
        timer.daemon = True
        timer.start()
        try:
            return int(call())
        finally:
            timer.cancel()

    def _interrupt(self) -> None:
        self.stop[0] = 1

    def _fault(self, status: int) -> PathFault:
        memory, meta = self.memory, self.memory.paper.meta
        number, row = float(memory.paper.fault[0]), int(meta[path_kernel.FAULT_ROW])
        next_state = None
        if status in (path_kernel.BAD_VALUE, path_kernel.BAD_STATE):
            if status == path_kernel.BAD_VALUE:
                is_alive = memory.batch.flags == path_kernel.ALIVE
                bad_rows = np.flatnonzero(is_alive & ~np.isfinite(memory.batch.values))
                row = next((int(r) for r in bad_rows if r >= row), row)
                number = float(memory.batch.values[row])
            next_state = self.load_state(memory.batch.states, row)
        node = int(meta[path_kernel.FAULT_NODE])
        return PathFault(
            self.load_state(memory.graph.states, node),
            int(meta[path_kernel.FAULT_ACTION]),
            number,
            next_state,
        )

    def load_state(self, states: Any, row: int) -> Any:
        """A state as Python's."""
        return self.server.state_of(states, row)


class MixedMachine(CompiledMachine):
    """A compiled driver and step; W or the policy is Python's."""

    def __init__(self, task: PathTask) -> None:
        self.asks_values = is_python(task, task.critic)
        super().__init__(task)
        self.walks = PythonWalks(task) if task.start_walk is not None else None
        self.answer = ANSWER(self._answer)
        self.host = int(ctypes.cast(self.answer, ctypes.c_void_p).value or 0)

    def chunk_of(self, rule: GapRule) -> int:
        """The nodes of a batch."""
        rows = self.setting.num_actions * (1 + rule.num_inner)
        chunk = max(1, BATCH_ROWS // rows)
        self.world = self.world._replace(chunk=chunk)
        return chunk

    def replace_critic(self, critic: PathCritic) -> None:
        """As in ``PathMachine``."""
        self.asks_values = is_python(self.task, critic)
        super().replace_critic(critic)
        if hasattr(self, "world"):
            self.world = self.world._replace(asks_values=self.asks_values)

    def run_block(self, *block: Any) -> int:
        """The status of the kernel, until a stop or the deadline."""
        self.python_error = None
        try:
            with self.task.hold.opened():
                status = self._in_time(lambda: self.call_kernel(*block))
                if self.python_error is not None:
                    raise self.python_error
                return status
        except KeyboardInterrupt:
            return kernel.CUT

    def _answer(self, question: int, first: int, second: int) -> int:
        """Answer the driver; an error is raised once it has returned."""
        if self.python_error is not None:
            return path_kernel.PYTHON_ERROR
        try:
            if question == calls_kernel.VALUES:
                self._fill(first, second)
            elif question == calls_kernel.SHARES:
                self._write_shares(first)
            elif question == calls_kernel.BEGIN:
                self._walks.begin(None, None, first, second)
            else:
                self._walks.note(None, None, first)
        except BaseException as error:
            self.python_error = error
            return path_kernel.PYTHON_ERROR
        return kernel.DONE

    @property
    def _walks(self) -> PythonWalks:
        assert self.walks is not None
        return self.walks

    def _fill(self, steps_left: int, count: int) -> None:
        """Ask W in Python for all next states of a batch at once."""
        batch = self.memory.batch
        rows = np.flatnonzero(batch.flags[:count] == path_kernel.ALIVE)
        if len(rows):
            states = self.server.states_of(batch.states[rows])
            steps = None if steps_left < 0 else steps_left
            batch.values[rows] = self.critic.values(states, steps)

    def _write_shares(self, node: int) -> None:
        """Ask the policy in Python at a node."""
        graph, K = self.memory.graph, self.setting.num_actions
        state = self.load_state(graph.states, node)
        graph.shares[node * K : node * K + K] = self._walks.shares(state)


def is_python(task: PathTask, critic: PathCritic) -> bool:
    """Whether W has no form in machine code."""
    return critic.compiled_parts(state_type(task)) is None


def operator_parts(task: PathTask) -> dict[str, Any]:
    """The functions of an operator that is no built-in one."""
    own_parts = parts_of(task.problem.operator, omega=True)
    if own_parts is None:
        return {}
    return {
        "VALUE": own_parts.value,
        "GRADIENT": own_parts.gradient,
        "OMEGA": own_parts.omega,
    }


def address_of(array: Any) -> int:
    """Where an array begins."""
    return int(array.ctypes.data)


def addresses_of(arrays: Any) -> Any:
    """The addresses of a tuple of arrays."""
    return type(arrays)(*map(address_of, arrays))


def plain_rule(rule: GapRule) -> GapRule:
    """A rule with numbers of the declared types, for which there is machine code."""
    numbers: list[Any] = [
        type(usual)(value) for usual, value in zip(GapRule(1.0, 0), rule, strict=True)
    ]
    return GapRule(*numbers)


def compile_machine(task: PathTask) -> CompiledMachine:
    """The machine over a compiled step."""
    asks = task.start_walk is not None or is_python(task, task.critic)
    return MixedMachine(task) if asks else CompiledMachine(task)


def call_kernel_of(machine: CompiledMachine, block: Any) -> int:
    """The status of a block of paths, for a thread."""
    return machine.call_kernel(*block)
