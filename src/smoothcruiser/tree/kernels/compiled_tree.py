"""A tree in compiled memory: growing arrays and the machine of ``tree.kernels.kernel``.

The arrays double when they are full. Tabular problems share one machine, cached
on disk. A user's oracle begins on another shared one, which calls it by address
(``tree.kernels.shared_machine``), and is compiled into its own machine once that
pays, with the same bits (``engines.compiled.tiers``). States may have any type that the engines can
store (numbers, tuples, NamedTuples, arrays); a hash built for the type tells them
apart.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from smoothcruiser.engines.compiled.kernel import allocate, load
from smoothcruiser.engines.compiled.tiers import (
    ADDRESS,
    INLINED,
    Handover,
    compile_user_functions,
    functions_of,
    tier_choice,
)
from smoothcruiser.errors import InvalidInput, OracleError, SmoothcruiserError
from smoothcruiser.jit.build import compile_function
from smoothcruiser.jit.interrupts import StopRequest
from smoothcruiser.jit.oracle import bounds_parts, first_line, oracle_parts
from smoothcruiser.jit.random.streams import Stream, stream
from smoothcruiser.jit.state_words import hashing
from smoothcruiser.jit.word_functions import is_shown
from smoothcruiser.problem.problem import Game, Problem
from smoothcruiser.problem.states import is_fixed
from smoothcruiser.tree.kernels import kernel
from smoothcruiser.tree.kernels.kernel import TreeStart
from smoothcruiser.tree.kernels.rules_kernel import bound_node, open_boxes
from smoothcruiser.tree.kernels.shared_machine import (
    MOST_WORDS,
    RowMachine,
    as_columns,
    copy_store,
)
from smoothcruiser.tree.plain.plain_nodes import Ends, Node, known_ends
from smoothcruiser.tree.proofs import spans_of
from smoothcruiser.tree.search_setting import complain
from smoothcruiser.tree.widening import limits_chance, outcome_tables

FIRST_ROOM = 1024  # nodes; doubled as needed

_machines: dict[Any, Any] = {}
_spoken: dict[Any, Any] = {}  # functions that are called by address, or None
_handovers: dict[Any, Handover] = {}


class Machine:
    """The compiled functions for one kind of problem."""

    def __init__(self, parts: dict[str, Any], extras: bool = False) -> None:
        """``extras`` says that ``grow`` has ``kernel.EXTRAS``; nothing else differs."""
        self.parts = parts
        grow_parts = kernel.with_extras(parts) if extras else parts
        self.grow = compile_function(kernel.grow, nogil=True, **grow_parts)
        parts_by_function = {
            name: {
                part_name: parts[part_name]
                for part_name in part_names
                if part_name in parts
            }
            for name, part_names in _PART_NAMES.items()
        }
        self.add_node = compile_function(
            kernel.add_node, **parts_by_function["add_node"]
        )
        self.move_states = compile_function(
            kernel.move_states, **parts_by_function["move_states"]
        )
        self.rehash = compile_function(kernel.rehash, **parts_by_function["rehash"])
        self.compact = compile_function(kernel.compact, **parts_by_function["rehash"])
        self.find_child = compile_function(
            kernel.find_child, **parts_by_function["rehash"]
        )
        self.allocate = parts.get("ALLOCATE") or compile_function(allocate)
        self.load = parts.get("LOAD") or compile_function(load)


_PART_NAMES = {
    "add_node": ("LEGAL", "PLAYER", "STORE"),
    "move_states": ("ALLOCATE", "LOAD", "STORE"),
    "rehash": ("LOAD", "STORE", "HASH", "SAME"),
}


def needs_extras(start: TreeStart) -> bool:
    """Whether a tree needs the machine with ``kernel.EXTRAS``."""
    setting = start.setting
    return (
        start.rule.warm
        or setting.bounds
        or setting.solves
        or setting.action_widening > 0.0
        or limits_chance(setting)
    )


def machine_for(
    problem: Problem, state: Any, extras: bool = False
) -> tuple[Machine, Any, Any]:
    """(machine, its data argument, the state in its form)."""
    machine, data, root_form = _plain_machine(problem, state)
    if not extras:
        return machine, data, root_form
    extras_key = ("extras", id(machine))  # which lives as long as this dictionary
    if extras_key not in _machines:
        _machines[extras_key] = Machine(machine.parts, extras=True)
    return _machines[extras_key], data, root_form


def _plain_machine(problem: Problem, state: Any) -> tuple[Machine, Any, Any]:
    """The same as ``machine_for``, without extras."""
    bound_parts: dict[str, Any] = {}
    if problem.value_gap is not None:
        bound_parts = {"BOUNDED": True} | bounds_parts(*(problem.value_bounds or ()))
    bound_functions = tuple(bound_parts.values())
    if problem.tables is not None:
        if ("tabular", bound_functions) not in _machines:
            _machines["tabular", bound_functions] = Machine(bound_parts)
        return (
            _machines["tabular", bound_functions],
            problem.tables.sampling,
            int(state),
        )
    import numba

    state_type = numba.typeof(state)
    player = problem.player if isinstance(problem, Game) else None
    terminal = problem.terminal if callable(problem.terminal) else None
    array_shape = (
        np.shape(state) if isinstance(state_type, numba.types.Array) else None
    )
    machine_key = (
        problem.oracle,
        problem.legal,
        terminal,
        player,
        bound_functions,
        state_type,
        array_shape,
    )
    if machine_key not in _machines:
        machine_parts = oracle_parts(
            problem.oracle, problem.legal, terminal, player, state_type, state
        )
        _machines[machine_key] = Machine(
            machine_parts | bound_parts | hashing(state_type)
        )
    return _machines[machine_key], (), state


def row_machine(problem: Problem, state: Any, extras: bool) -> RowMachine | None:
    """The machine that calls the problem's functions by address; None where none does."""
    import numba

    if problem.tables is not None or tier_choice() == INLINED:
        return None
    functions_key = (functions_of(problem), numba.typeof(state))
    if functions_key not in _spoken:
        spoken_functions = (
            compile_user_functions(problem, state)
            if is_shown(functions_key[1])
            else None
        )
        _spoken[functions_key] = (
            None
            if spoken_functions is None or spoken_functions.size > MOST_WORDS
            else spoken_functions
        )
    spoken_functions = _spoken[functions_key]
    return (
        None
        if spoken_functions is None
        else RowMachine(spoken_functions, state, extras)
    )


class CompiledTree:
    """The tree of a compiled problem."""

    name = "compiled"
    least_slice = 1  # calls
    slice_seconds = 0.0

    def __init__(self, start: TreeStart, inlined: bool = False) -> None:
        """A tree with its root; ``inlined`` says that nothing is called by address."""
        problem, setting = start.problem, start.setting
        self.problem, self.rule, self.setting = problem, start.rule, setting
        self.rng: Stream = start.rng
        self.head, self.weights = np.array(start.head), np.array(start.weights)
        self.handover: Handover | None = None
        self._calls_counted = 0  # calls that the handover knows of
        start_time = time.perf_counter()
        self.meta = np.zeros(6, np.int64)
        self.fault = np.zeros(1)
        try:
            root_form = self._choose_machine(start, inlined)
            node_capacity = min(FIRST_ROOM, setting.most_nodes)
            self.nodes = self._empty_nodes(node_capacity)
            spans = spans_of(problem, setting)
            known_tables = start.bounds.tables(setting.num_actions)
            self.workspace = kernel.workspace_for(
                start.rule, setting, self.weights, spans, *known_tables
            )
            self.states = self.machine.allocate(node_capacity)
            # For a rollout's state, a state at fault, and a state that waits.
            self.scratch = self.machine.allocate(3)
            self._make_root(root_form, start.state, setting.elapsed)
            self._simulate(0, 0)
        except SmoothcruiserError:
            raise
        except Exception as error:
            raise InvalidInput(
                "The oracle could not be compiled into the tree search: "
                f"{first_line(error)} Check that step, legal, terminal and player "
                "take the states that step returns, or use executor='reference'."
            ) from error
        self.compile_seconds = time.perf_counter() - start_time

    def _choose_machine(self, start: TreeStart, inlined: bool) -> Any:
        """Choose the machine; returns the root's state in its form."""
        self.machine: Any
        state, extras = start.state, needs_extras(start)
        row_tree_machine = (
            None if inlined else row_machine(self.problem, state, extras)
        )
        if row_tree_machine is None:
            self.machine, self.data, root_form = machine_for(
                self.problem, state, extras
            )
            return root_form
        handover_key = (
            functions_of(self.problem),
            row_tree_machine.spoken.kind,
            type(self.rule),
            extras,
        )
        later_machine = _handovers.setdefault(
            handover_key, Handover(lambda: build_inlined(start))
        )
        if later_machine.built is not None and tier_choice() != ADDRESS:
            self.machine, self.data, root_form = machine_for(
                self.problem, state, extras
            )
            return root_form
        self.handover = None if tier_choice() == ADDRESS else later_machine
        self.machine, self.data = row_tree_machine, row_tree_machine.data
        return int(row_tree_machine.root.ctypes.data)

    def _hand_over(self) -> None:
        """Continue with the machine that has the functions in it, once it is ready."""
        if self.handover is None:
            return
        num_calls = int(self.meta[kernel.CALLS])
        machine = self.handover.after(num_calls - self._calls_counted)
        self._calls_counted = num_calls
        if machine is not None:
            self._move_states(machine)

    def _move_states(self, machine: Machine) -> None:
        """Move the states from rows to the columns of ``machine``."""
        num_nodes, state_rows, scratch_rows = (
            int(self.meta[kernel.COUNT]),
            self.states,
            self.scratch,
        )
        self.machine, self.data, self.handover = machine, (), None
        self.states, self.scratch = (
            machine.allocate(len(state_rows)),
            machine.allocate(3),
        )
        as_columns(state_rows, self.states, num_nodes)
        as_columns(scratch_rows, self.scratch, len(scratch_rows))
        machine.rehash(self.nodes.ints, self.nodes.table, self.states, num_nodes)

    def _empty_nodes(self, node_capacity: int) -> kernel.Nodes:
        K = self.setting.num_actions
        table_size = 4
        while table_size < 2 * node_capacity:
            table_size *= 2
        num_columns = kernel.TOTAL + (2 * K if self.rule.entropy > 0.0 else K)
        return kernel.Nodes(
            np.empty((node_capacity, kernel.EDGE + 2 * K), np.int64),
            np.empty((node_capacity, num_columns)),
            np.full(table_size, -1, np.int64),
            *outcome_tables(node_capacity if limits_chance(self.setting) else 0, K),
            np.empty((node_capacity, 3 * K) if self._is_boxed else (1, 1)),
        )

    def _double_memory(self) -> None:
        old_nodes, num_nodes = self.nodes, int(self.meta[kernel.COUNT])
        node_capacity = min(2 * len(old_nodes.ints), self.setting.most_nodes)
        self.nodes = self._empty_nodes(node_capacity)
        self.nodes.ints[:num_nodes], self.nodes.floats[:num_nodes] = (
            old_nodes.ints[:num_nodes],
            old_nodes.floats[:num_nodes],
        )
        self.nodes.outcomes[:num_nodes] = old_nodes.outcomes[:num_nodes]
        self.nodes.paid[:num_nodes] = old_nodes.paid[:num_nodes]
        if self._is_boxed:
            self.nodes.boxes[:num_nodes] = old_nodes.boxes[:num_nodes]
        self.states = self.machine.move_states(self.states, node_capacity, num_nodes)
        self.machine.rehash(self.nodes.ints, self.nodes.table, self.states, num_nodes)

    def _simulate(self, simulations: int, calls: int) -> int:
        return int(
            self.machine.grow(
                self.rule,
                self.setting,
                self.head,
                self.weights,
                self.data,
                self.nodes,
                self.workspace,
                self.states,
                self.scratch,
                self.meta,
                self.fault,
                simulations,
                calls,
                self.rng,
            )
        )

    def grow_to(self, simulations: int, calls: int) -> bool:
        """Grow until the counts reach these totals.

        It returns False where the calls were used up first.
        """
        self.prepare()
        return self.grow_slice(simulations, calls)

    def prepare(self) -> None:
        """Change to the machine with the user's functions in it, once it is ready."""
        self._hand_over()

    def grow_slice(self, simulations: int, calls: int) -> bool:
        """Grow like ``grow_to``, in any thread."""
        while True:
            try:
                status = self._simulate(simulations, calls)
            except (SmoothcruiserError, KeyboardInterrupt):
                raise
            except BaseException as error:
                raise OracleError(
                    f"The oracle raised {type(error).__name__}: {error}; fix the "
                    "simulator (executor='reference' says where)."
                ) from error
            if status == kernel.NO_ROOM:
                self._double_memory()
                continue
            if status in (kernel.DONE, kernel.CUT, kernel.PROVEN):
                return status != kernel.CUT
            fault_state, action = (
                self.machine.load(self.scratch, 1),
                int(self.meta[kernel.FAULT]),
            )
            complain(
                self.problem,
                self.setting,
                status,
                fault_state,
                action,
                float(self.fault[0]),
            )

    def twin(self) -> CompiledTree:
        """A copy that grows by itself and shares the machine and the problem's data."""
        tree_copy = copy.copy(self)
        if isinstance(self.machine, RowMachine):
            tree_copy.machine = self.machine.twin()
            tree_copy.data = tree_copy.machine.data
        tree_copy.nodes = kernel.Nodes(*copy_store(tuple(self.nodes)))
        tree_copy.workspace = kernel.Workspace(*copy_store(tuple(self.workspace)))
        tree_copy.states, tree_copy.scratch = (
            copy_store(self.states),
            copy_store(self.scratch),
        )
        tree_copy.meta, tree_copy.fault, tree_copy.rng = (
            self.meta.copy(),
            self.fault.copy(),
            copy.deepcopy(self.rng),
        )
        return tree_copy

    def listen(self, hold: StopRequest) -> None:
        """Do nothing: machine code is not broken off; a slice of it is short."""

    def flush(self) -> None:
        """Do nothing: no leaf waits."""

    def warm(self) -> None:
        """Compile the functions of a move, and count their time as compile time."""
        start_time = time.perf_counter()
        self.machine.find_child(
            self.nodes.ints,
            self.nodes.table,
            self.states,
            0,
            0,
            self.machine.load(self.states, 0),
        )
        self.machine.compact(self.nodes, self.states, self.meta, 0)
        self.compile_seconds += time.perf_counter() - start_time

    def spend(self, calls: int) -> None:
        """Count calls that were made elsewhere."""
        self.meta[kernel.CALLS] += calls

    def take_over(self, counts: tuple[int, int, int, int]) -> None:
        """Continue the counts of another tree."""
        self.meta[kernel.SIMULATIONS], self.meta[kernel.CALLS] = counts[1], counts[2]

    # --- reading --------------------------------------------------------------

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """(nodes, simulations, calls, deepest node)."""
        meta = self.meta
        return (
            int(meta[kernel.COUNT]),
            int(meta[kernel.SIMULATIONS]),
            int(meta[kernel.CALLS]),
            int(meta[kernel.DEEPEST]),
        )

    def node(self, i: int) -> Node:
        """Node ``i``; 0 is the root."""
        ints, floats = self.nodes.ints[i], self.nodes.floats[i]
        open_actions = [
            a for a in range(self.setting.num_actions) if ints[kernel.EDGE + a] >= 0
        ][: kernel.count_open_actions(self.setting, self.nodes.ints, i, 0)]
        return Node(
            number=i,
            state=self._state(i),
            player=1 if floats[kernel.SIGN] > 0 else 2,
            visits=int(ints[kernel.VISITS]),
            value=float(floats[kernel.VALUE]),
            first=float(floats[kernel.FIRST]),
            actions=tuple(open_actions),
            edge_visits=tuple(int(ints[kernel.EDGE + a]) for a in open_actions),
            edge_totals=tuple(float(floats[kernel.TOTAL + a]) for a in open_actions),
            boxes=self._boxes(i, open_actions) if self.setting.solves else (),
            bounds=known_ends(self._boxes(i, open_actions))
            if self.setting.bounds
            else (),
        )

    @property
    def _is_boxed(self) -> bool:
        return self.setting.solves or self.setting.bounds

    def _boxes(self, i: int, actions: list[int]) -> Ends:
        """The boxes of some actions of node ``i``, where the tree has any."""
        box_row, K = self.nodes.boxes[i], self.setting.num_actions
        return tuple((float(box_row[a]), float(box_row[K + a])) for a in actions)

    @property
    def inexact(self) -> bool:
        """Whether a number in a box was rounded."""
        return bool(self.meta[kernel.INEXACT])

    def _state(self, i: int) -> Any:
        """The state of node ``i``.

        An array is copied, since its memory is written again when the tree
        moves.
        """
        state = self.machine.load(self.states, i)
        return state if is_fixed(state) else copy.deepcopy(state)

    def children(self, i: int) -> Iterator[tuple[int, int]]:
        """(action, node) of the children of node ``i``, in the order they were met."""
        num_nodes = int(self.meta[kernel.COUNT])
        for child in (
            np.flatnonzero(self.nodes.ints[i + 1 : num_nodes, kernel.PARENT] == i)
            + i
            + 1
        ):
            yield int(self.nodes.ints[child, kernel.ACTION]), int(child)

    def child(self, i: int, action: int, after: Any) -> int | None:
        """The node of next state ``after``, if there is one."""
        after = int(after) if self.problem.tables is not None else after
        child_number = self.machine.find_child(
            self.nodes.ints, self.nodes.table, self.states, i, action, after
        )
        return int(child_number) if child_number >= 0 else None

    def restart(self, state: Any) -> None:
        """Begin anew at ``state``, one move later, with the same stream and counts."""
        root_form: Any = state
        if isinstance(self.machine, RowMachine):
            self.machine.root = self.machine.spoken.words(state)
            root_form = int(self.machine.root.ctypes.data)
        elif self.problem.tables is not None:
            root_form = int(state)
        self.workspace.held[kernel.HELD] = kernel.NOTHING_HELD
        self.meta[kernel.COUNT] = self.meta[kernel.DEEPEST] = 0
        self.nodes.table[:] = -1
        self._make_root(root_form, state, self.setting.elapsed + 1)

    def _make_root(self, root_form: Any, state: Any, moves: int) -> None:
        """Make the root; ``root_form`` is its state as the machine takes it."""
        setting, nodes, spans = self.setting, self.nodes, self.workspace.spans
        root = self.machine.add_node(
            setting,
            self.data,
            nodes.ints,
            nodes.floats,
            self.states,
            self.meta,
            -1,
            -1,
            root_form,
        )
        if root < 0:
            complain(self.problem, setting, -root, state, 0, 0.0)
        if setting.bounds:  # then the form of a state is its number
            known_states, known_bounds = self.workspace.known, self.workspace.ends
            ints, boxes = nodes.ints, nodes.boxes
            bound_node(
                known_states,
                known_bounds,
                moves,
                root_form,
                ints,
                kernel.EDGE,
                boxes,
                0,
            )
        if setting.solves:
            span_low, span_high = spans[min(moves, len(spans) - 1)]
            open_boxes(nodes.boxes, 0, setting.num_actions, span_low, span_high)

    @property
    def is_solved(self) -> bool:
        """Whether the root is proven, so that nothing is left to search."""
        return self.setting.solves and self.node(0).is_proven

    def pause_workers(self) -> None:
        """Do nothing: there are no workers."""

    def close(self) -> None:
        """Do nothing: there are no workers."""

    def advance(self, child: int) -> None:
        """Make ``child`` the root and forget the nodes that are not below it."""
        self.workspace.held[kernel.HELD] = kernel.NOTHING_HELD
        self.machine.compact(self.nodes, self.states, self.meta, child)


def build_inlined(start: TreeStart) -> Machine:
    """The machine with the problem's functions in it, compiled for a tree's rule."""
    tree = CompiledTree(replace(start, rng=stream(0)), inlined=True)
    return tree.machine  # type: ignore[no-any-return]
