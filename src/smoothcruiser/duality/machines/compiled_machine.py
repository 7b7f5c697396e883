"""Paths with a learned value in machine code (``path_kernel`` with compiled parts).

``CompiledMachine`` runs blocks of paths in one call, without Python's lock. Where W or
the policy is Python's, ``MixedMachine`` interprets the driver over compiled leaves: the
steps of a layer run in machine code, W is asked for all their next states at once, and
machine code reads its answers.
"""

from __future__ import annotations

import math
import threading
import time
from functools import lru_cache
from typing import Any, Self

import numpy as np

from smoothcruiser.duality.machines import path_kernel
from smoothcruiser.duality.machines.gap_rules import GapRule, count_columns
from smoothcruiser.duality.machines.path_kernel import PathWorld
from smoothcruiser.duality.machines.path_machines import (
    Floats,
    PathCritic,
    PathFault,
    PathTask,
    PythonWalks,
    fault_error,
)
from smoothcruiser.duality.machines.path_memory import PathArrays
from smoothcruiser.engines.compiled.kernel import allocate
from smoothcruiser.engines.pools.threads import Threads
from smoothcruiser.errors import OracleError, SmoothcruiserError
from smoothcruiser.jit.build import compile_function, is_compiled
from smoothcruiser.jit.forms import bind_parts
from smoothcruiser.jit.oracle import next_state_type
from smoothcruiser.jit.random.mirrored_streams import MirroredStream, first_words
from smoothcruiser.operators.operator_functions import parts_of
from smoothcruiser.states.codec import NEGATIVE_ZERO, hashing
from smoothcruiser.tree.kernels import kernel
from smoothcruiser.tree.kernels.compiled_tree import machine_for

KEY_IN_PYTHON = (
    "key= is not compiled, so the states of a path are merged where they are equal"
)
BATCH_ROWS = 65_536  # results of steps for which a W in Python is asked at once
# the functions of the kernel that are machine code under an interpreted driver
LEAVES = (
    "expand_nodes",
    "follow_noise",
    "move_state",
    "is_same",
    "absorb_nodes",
    "average_nodes",
    "fold_layers",
    "read_table",
    "respond_greedily",
    "weigh_policy",
    "choose_action",
    "list_legal",
    "mover_sign",
    "write_words",
    "write_position",
    "place_root",
    "fill_values",
)
_kernels: dict[Any, Any] = {}


class CompiledMachine:
    """All in machine code."""

    name = "compiled"
    looks, doubts = 0, ""  # machine code is not inspected while it runs
    deadline = math.inf
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    def __init__(self, task: PathTask) -> None:
        self.task, self.setting = task, task.setting
        problem, K = task.problem, task.problem.num_actions
        operator = problem.operator
        self.machine, self.data, self.root = machine_for(problem, task.state)
        self.key = problem.key if is_compiled(problem.key) else None
        if problem.key is not None and self.key is None:
            self.notes = (KEY_IN_PYTHON,)
        is_tabular = problem.tables is not None
        reserve = compile_function(allocate) if is_tabular else self.machine.allocate
        self.world = PathWorld(
            operator.code,
            operator.strength,
            task.policy_kind,
            1,
            task.steps_left,
            self.key is not None,
        )
        table = task.policy
        if not isinstance(table, np.ndarray):
            table = np.zeros((1, K))
        self.policy = np.ascontiguousarray(table, dtype=np.float64)
        self.memory = PathArrays(K, np.array(operator.weights(K)), reserve)
        self.rng = MirroredStream((1, 2, 3, 4))
        self.stop = np.zeros(1, np.int64)
        self.firsts = [
            np.array(first_words(task.seed, p), np.uint64) for p in range(2)
        ]
        self.calls = 0
        self.thread: Threads | None = None
        self.replace_critic(task.critic)

    # --- parts --------------------------------------------------------------------

    def replace_critic(self, critic: PathCritic) -> None:
        """As in ``PathMachine``."""
        self.critic = critic
        compiled_critic = self.read_critic(critic)
        self.critic_data = compiled_critic[1]
        self.kernel = self.build_kernel(compiled_critic[0])

    def read_critic(self, critic: PathCritic) -> tuple[Any, Any]:
        """W in machine code, and its data."""
        compiled_critic = critic_parts(self.task, critic)
        assert compiled_critic is not None
        return compiled_critic

    def build_kernel(self, critic: Any) -> Any:
        """The kernel of all paths."""
        return _kernel_for(
            path_kernel.play_paths, self.kernel_parts(critic), self.machine
        )

    def kernel_parts(self, critic: Any) -> dict[str, Any]:
        """The parts of the kernel in machine code."""
        from smoothcruiser.jit import memory

        own_parts = parts_of(self.task.problem.operator, omega=True)
        parts = {
            name: function
            for name, function in self.machine.parts.items()
            if name not in ("ALLOCATE", "LEAF", "KEEP", "BELOW", "ABOVE", "BOUNDED")
        }
        if parts:
            parts["ROW"] = compile_function(_no_row)
        if "SAME" in parts:
            parts["EQUAL"] = parts["SAME"]
            if self.machine.codec is not None and self.machine.codec.is_exact:
                parts["hash_row"] = word_hash(self.machine.codec.size)
        if self.key is not None:
            parts.pop("hash_row", None)
            parts |= key_parts(self.key, self.task)
        if critic not in (None, path_kernel.table_value):
            parts["CRITIC"] = critic
        elif critic is not None and parts:
            parts["CRITIC"] = compile_function(critic)
        if own_parts is not None:
            parts |= {
                "VALUE": own_parts.value,
                "GRADIENT": own_parts.gradient,
                "OMEGA": own_parts.omega,
            }
        if not parts:
            parts["salt"] = "tables"
        return parts | {"borrow_array": memory.uncounted}

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
        memory = self.memory
        return int(
            self.kernel(
                self.setting,
                rule,
                self.world,
                self.data,
                self.critic_data,
                self.policy,
                times,
                memory.graph,
                memory.batch,
                memory.paper,
                self.root,
                first,
                most_calls,
                samples,
                self.rng,
                self.stop.ctypes.data,
            )
        )

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
                    thread.map(_call_kernel, iter([block]), report)
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
        return self.machine.load(states, row)


class MixedMachine(CompiledMachine):
    """The driver in Python over a compiled step; W or the policy is Python's."""

    name = "compiled"

    def read_critic(self, critic: PathCritic) -> tuple[Any, Any]:
        """W in machine code where it is, and its data."""
        compiled_critic = critic_parts(self.task, critic)
        self.has_python_critic = compiled_critic is None
        return (None, ()) if compiled_critic is None else compiled_critic

    def build_kernel(self, critic: Any) -> Any:
        """The interpreted driver over its leaves."""
        parts = self.kernel_parts(critic)
        leaves = {
            name: _kernel_for(getattr(path_kernel, name), parts, self.machine)
            for name in LEAVES
        }
        self.compiled_expand = leaves["expand_nodes"]
        leaves["expand_nodes"] = self._expand
        if self.has_python_critic:
            leaves["fill_values"] = self._fill
        leaves["flag_at"] = lambda stop: self._is_late()
        leaves["start_stream"] = lambda stream, words, row: stream.restart(
            words[row].tolist()
        )
        leaves["borrow_array"] = lambda array: array
        if self.task.start_walk is not None:
            walks = PythonWalks(self.task)
            leaves["begin_walk"] = walks.begin
            leaves["note_action"] = walks.note
            leaves["assign_policy"] = self._assigner(walks)
        return bind_parts(path_kernel.play_paths, leaves)

    def chunk_of(self, rule: GapRule) -> int:
        """The nodes of a batch."""
        rows = self.setting.num_actions * (1 + rule.num_inner)
        chunk = max(1, BATCH_ROWS // rows)
        self.world = self.world._replace(chunk=chunk)
        return chunk

    def run_block(self, *block: Any) -> int:
        """The status of the kernel, until a stop or the deadline."""
        try:
            with self.task.hold.opened():
                return self._in_time(lambda: self.call_kernel(*block))
        except KeyboardInterrupt:
            return kernel.CUT

    def _is_late(self) -> int:
        return int(self.stop[0] != 0 or time.perf_counter() > self.deadline)

    def _expand(self, *arguments: Any) -> int:
        return kernel.CUT if self._is_late() else int(self.compiled_expand(*arguments))

    def _fill(self, critic: Any, steps_left: int, batch: Any, count: int) -> int:
        """Ask W in Python for all next states of a batch at once."""
        rows = np.flatnonzero(batch.flags[:count] == path_kernel.ALIVE)
        if len(rows):
            states = self._decode(batch.states[rows])
            steps = None if steps_left < 0 else steps_left
            batch.values[rows] = self.critic.values(states, steps)
        return kernel.DONE

    def _decode(self, rows: Any) -> Any:
        codec = self.machine.codec
        return rows.tolist() if codec is None else codec.decode(rows)

    def _assigner(self, walks: PythonWalks) -> Any:
        def assign_policy(*arguments: Any) -> int:
            graph, node = arguments[7], arguments[11]
            state = self.load_state(graph.states, node)
            K = self.setting.num_actions
            graph.shares[node * K : node * K + K] = walks.shares(state)
            return kernel.DONE

        return assign_policy


def compile_machine(task: PathTask) -> CompiledMachine:
    """The machine over a compiled step."""
    is_python = task.start_walk is not None or critic_parts(task, task.critic) is None
    return MixedMachine(task) if is_python else CompiledMachine(task)


def critic_parts(task: PathTask, critic: PathCritic) -> tuple[Any, Any] | None:
    """W in machine code; a table of a tabular problem needs no function of its own."""
    return critic.compiled_parts(_state_type(task))


@lru_cache(maxsize=64)
def word_hash(size: int) -> Any:
    """A hash of the words of a state, where equal states have equal words.

    Hashes of Python's floats take longer than some steps. -0.0 is 0.0.
    """
    from numba import njit

    golden, shift = path_kernel.GOLDEN, path_kernel.U29

    def hash_words(states: Any, row: int) -> Any:
        bits = np.uint64(0)
        for k in range(size):
            word = states[row, k]
            if word != NEGATIVE_ZERO:
                bits = (bits ^ np.uint64(word)) * golden
            bits ^= bits >> shift
        return bits

    return njit(hash_words)


@lru_cache(maxsize=64)
def _key_functions(key: Any, state_type: Any) -> dict[str, Any]:
    from numba import njit

    key.compile((state_type,))
    key_type = key.overloads[state_type,].signature.return_type
    functions = hashing(key_type)
    hash_key, same_key = functions["HASH"], functions["SAME"]

    def key_hash(state: Any) -> Any:
        return hash_key(key(state))

    def key_same(first: Any, second: Any) -> Any:
        return same_key(key(first), key(second))

    return {"HASH": njit(key_hash), "SAME": njit(key_same)}


def key_parts(key: Any, task: PathTask) -> dict[str, Any]:
    """The functions that tell states apart by their key."""
    return _key_functions(key, _state_type(task))


def _state_type(task: PathTask) -> Any:
    """The Numba type of the states in memory."""
    import numba

    if task.problem.tables is not None:
        return numba.int64
    return next_state_type(task.problem.oracle, numba.typeof(task.state))


def _call_kernel(machine: CompiledMachine, block: Any) -> int:
    return machine.call_kernel(*block)


def _no_row(state: Any) -> int:
    """Row 0, for states that are no rows of a table."""
    return 0


def _kernel_for(function: Any, parts: dict[str, Any], machine: Any) -> Any:
    """The compiled form of a function of the kernel, kept for the next run.

    The parts are kept beside it, so that their identities stay their own.
    """
    key = (function, *((name, id(part)) for name, part in sorted(parts.items())))
    if key not in _kernels:
        built_kernel = compile_function(function, nogil=True, **parts)
        _kernels[key] = (built_kernel, parts, machine)
    return _kernels[key][0]
