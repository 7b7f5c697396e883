"""A tree of a compiled problem: ``tree.kernels.kernel`` as machine code.

Tabular problems share one machine, cached
on disk. A user's oracle begins on another shared one, which calls it by address
(``tree.kernels.shared_machine``), and is compiled into its own machine once that
pays, with the same bits (``engines.compiled.tiers``). States may have any type that the engines can
store (numbers, tuples, NamedTuples, arrays); a hash built for the type tells them
apart.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Self

from smoothcruiser.engines.compiled.kernel import allocate
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
from smoothcruiser.jit.oracle import (
    bounds_parts,
    first_line,
    next_state_type,
    oracle_parts,
)
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.problem.problem import Problem
from smoothcruiser.states.codec import StateCodec, codec_of, state_shapes
from smoothcruiser.tree.kernels import kernel
from smoothcruiser.tree.kernels.array_tree import (
    NUM_SCRATCH,
    ArrayTree,
    TreeStart,
    needs_extras,
)
from smoothcruiser.tree.kernels.parts_kernel import (
    MOVE_PARTS,
    NODE_PARTS,
    bound_root,
    choose_parts,
    empty_table,
    find_child,
    kernel_parts,
    move_states,
    with_extras,
)
from smoothcruiser.tree.kernels.shared_machine import (
    MOST_WORDS,
    RowMachine,
    state_words,
)

_machines: dict[Any, Any] = {}
_spoken: dict[Any, Any] = {}  # functions that are called by address, or None
_handovers: dict[Any, Handover] = {}


class Machine:
    """The compiled functions for one kind of problem."""

    def __init__(
        self,
        parts: dict[str, Any],
        codec: StateCodec | None = None,
        extras: bool = False,
        pick: Any = None,
    ) -> None:
        """``extras``: ``grow`` has ``kernel.EXTRAS``, and the ``pick`` of a search."""
        self.codec = codec  # None: states are rows of tables
        self.parts, self.kernel_parts = parts, kernel_parts(parts)
        grow_parts = self.kernel_parts
        if extras:
            grow_parts = with_extras(grow_parts, "STEP" not in parts, pick)
        self.grow = compile_function(kernel.grow, nogil=True, **grow_parts)
        self.add_node = compile_function(
            kernel.add_node, **choose_parts(self.kernel_parts, NODE_PARTS)
        )
        self.compact = compile_function(
            kernel.compact, **choose_parts(self.kernel_parts, MOVE_PARTS)
        )
        self.rehash = self.kernel_parts["REHASH"]
        self.move_states = compile_function(
            move_states, **choose_parts(parts, ("ALLOCATE", "LOAD", "STORE"))
        )
        self.find_child = compile_function(
            find_child, **choose_parts(parts, ("LOAD", "HASH", "SAME"))
        )
        self.allocate = parts.get("ALLOCATE") or compile_function(allocate)

    def columns(self, states: Any, count: int) -> Any:
        """The states in the first rows: an array, or a tuple with one per field."""
        rows = states[:count]
        return rows.copy() if self.codec is None else self.codec.columns(rows)

    def load(self, states: Any, i: int) -> Any:
        """The state in row ``i``."""
        if self.codec is None:
            return int(states[i])
        return self.codec.decode(states[i : i + 1])[0]

    forget_children = staticmethod(empty_table)
    bound_root = staticmethod(bound_root)


def machine_for(
    problem: Problem, state: Any, extras: bool = False, pick: Any = None
) -> tuple[Machine, Any, Any]:
    """(machine, its data argument, the state in its form)."""
    machine, data, root_form = _plain_machine(problem, state)
    if not extras:
        return machine, data, root_form
    extras_key = "extras", id(machine), pick  # it lives as long as this dictionary
    if extras_key not in _machines:
        _machines[extras_key] = Machine(machine.parts, machine.codec, True, pick)
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
    player = problem.player_function
    terminal = problem.terminal if callable(problem.terminal) else None
    machine_key = (
        problem.oracle,
        problem.legal,
        terminal,
        player,
        bound_functions,
        state_type,
        state_shapes(state),
    )
    if machine_key not in _machines:
        machine_parts = oracle_parts(
            problem.oracle, problem.legal, terminal, player, state_type
        )
        codec = codec_of(next_state_type(problem.oracle, state_type), state)
        _machines[machine_key] = Machine(
            machine_parts | bound_parts | codec.row_parts, codec
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
            if codec_of(functions_key[1], state).is_plain
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


class CompiledTree(ArrayTree):
    """The tree of a compiled problem."""

    name = "compiled"
    least_slice = 1

    def __init__(self, start: TreeStart, inlined: bool = False) -> None:
        """A tree with its root; ``inlined`` says that nothing is called by address."""
        self.set_numbers(start)
        self.handover: Handover | None = None
        self._calls_counted = 0  # calls that the handover knows of
        start_time = time.perf_counter()
        try:
            root_form = self._choose_machine(start, inlined)
            self.make_nodes(start, root_form)
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
        state, extras = start.state, needs_extras(start.rule, start.setting)
        row_tree_machine = (
            None
            if inlined or start.pick is not None
            else row_machine(self.problem, state, extras)
        )
        if row_tree_machine is None:
            self.machine, self.data, root_form = machine_for(
                self.problem, state, extras, start.pick
            )
            return root_form
        handover_key = (
            functions_of(self.problem),
            row_tree_machine.spoken.codec.kind,
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
        """Move the states to the memory of ``machine``."""
        num_nodes, state_rows, scratch_rows = (
            int(self.meta[kernel.COUNT]),
            self.states,
            self.scratch,
        )
        self.machine, self.data, self.handover = machine, (), None
        self.states, self.scratch = (
            machine.allocate(len(state_rows)),
            machine.allocate(NUM_SCRATCH),
        )
        self.states[:num_nodes] = state_words(state_rows[:num_nodes])
        self.scratch[:] = state_words(scratch_rows)
        machine.rehash(self.nodes.ints, self.nodes.table, self.states, num_nodes)

    def prepare(self) -> None:
        """Change to the machine with the user's functions in it, once it is ready."""
        self._hand_over()

    def grow_slice(self, simulations: int, calls: int) -> bool:
        """Grow like ``grow_to``, in any thread."""
        try:
            return self._grow_on(simulations, calls)
        except (SmoothcruiserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise OracleError(
                f"The oracle raised {type(error).__name__}: {error}; fix the "
                "simulator (executor='reference' says where)."
            ) from error

    def twin(self) -> Self:
        """A copy that grows by itself and shares the machine and the problem's data."""
        tree_copy = super().twin()
        if isinstance(self.machine, RowMachine):
            tree_copy.machine = self.machine.twin()
            tree_copy.data = tree_copy.machine.data
        return tree_copy

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

    def child(self, i: int, action: int, after: Any) -> int | None:
        """The node of next state ``after``, if there is one."""
        after = int(after) if self.problem.tables is not None else after
        child_number = self.machine.find_child(
            self.nodes.ints, self.nodes.table, self.states, i, action, after
        )
        return int(child_number) if child_number >= 0 else None

    def root_form(self, state: Any) -> Any:
        """A root's state as the machine takes it."""
        if isinstance(self.machine, RowMachine):
            self.machine.root = self.machine.spoken.words(state)
            return int(self.machine.root.ctypes.data)
        return int(state) if self.problem.tables is not None else state


def build_inlined(start: TreeStart) -> Machine:
    """The machine with the problem's functions in it, compiled for a tree's rule."""
    tree = CompiledTree(replace(start, rng=stream(0)), inlined=True)
    return tree.machine  # type: ignore[no-any-return]
