"""A tree in compiled memory: growing arrays and the machine of ``tree.kernel``.

The arrays double when they are full. Tabular problems share one machine, cached
on disk. A user's oracle begins on another shared one, which calls it by address
(``tree.rows``), and is compiled into its own machine once that pays, with the same
bits (``engines.compiled.handover``). States may have any type that the engines can store (numbers,
tuples, NamedTuples, arrays); a hash built for the type tells them apart.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from smoothcruiser.engines.compiled.handover import (
    ADDRESS,
    INLINED,
    Handover,
    checked,
    tier_choice,
)
from smoothcruiser.engines.compiled.kernel import allocate, load
from smoothcruiser.engines.compiled.speaking import speak
from smoothcruiser.engines.compiled.tiers import functions_of
from smoothcruiser.errors import InvalidInput, OracleError, SmoothcruiserError
from smoothcruiser.jit.build import compiled
from smoothcruiser.jit.hashing import hashing
from smoothcruiser.jit.interrupts import Hold
from smoothcruiser.jit.oracle import bounds_parts, first_line, oracle_parts
from smoothcruiser.jit.spoken import is_shown
from smoothcruiser.jit.streams import Stream, stream
from smoothcruiser.problem.problem import Game, Problem
from smoothcruiser.problem.states import is_fixed
from smoothcruiser.tree import kernel
from smoothcruiser.tree.complaints import complain
from smoothcruiser.tree.node import Ends, Node, known_ends
from smoothcruiser.tree.proof_kernel import open_boxes
from smoothcruiser.tree.pruning_kernel import bound_node
from smoothcruiser.tree.rows import MOST_WORDS, RowMachine, as_columns, copied
from smoothcruiser.tree.spans import spans_of
from smoothcruiser.tree.start import TreeStart
from smoothcruiser.tree.widening import limits_chance, tables

FIRST_ROOM = 1024  # nodes; doubled as needed

_machines: dict[Any, Any] = {}
_spoken: dict[Any, Any] = {}  # functions that are called by address, or None
_handovers: dict[Any, Handover] = {}


class Machine:
    """The compiled functions for one kind of problem."""

    def __init__(self, parts: dict[str, Any], extras: bool = False) -> None:
        """``extras`` says that ``grow`` has ``kernel.EXTRAS``; nothing else differs."""
        self.parts = parts
        every = kernel.with_extras(parts) if extras else parts
        self.grow = compiled(kernel.grow, nogil=True, **every)
        names = {
            name: {key: parts[key] for key in used if key in parts}
            for name, used in _USED.items()
        }
        self.add_node = compiled(kernel.add_node, **names["add_node"])
        self.move_states = compiled(kernel.move_states, **names["move_states"])
        self.rehash = compiled(kernel.rehash, **names["rehash"])
        self.compact = compiled(kernel.compact, **names["rehash"])
        self.find_child = compiled(kernel.find_child, **names["rehash"])
        self.allocate = parts.get("ALLOCATE") or compiled(allocate)
        self.load = parts.get("LOAD") or compiled(load)


_USED = {
    "add_node": ("LEGAL", "PLAYER", "STORE"),
    "move_states": ("ALLOCATE", "LOAD", "STORE"),
    "rehash": ("LOAD", "STORE", "HASH", "SAME"),
}


def has_extras(start: TreeStart) -> bool:
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
    machine, data, form = _plain_machine(problem, state)
    if not extras:
        return machine, data, form
    key = ("extras", id(machine))  # which lives as long as this dictionary
    if key not in _machines:
        _machines[key] = Machine(machine.parts, extras=True)
    return _machines[key], data, form


def _plain_machine(problem: Problem, state: Any) -> tuple[Machine, Any, Any]:
    """The same without extras."""
    bounds: dict[str, Any] = {}
    if problem.value_gap is not None:
        bounds = {"BOUNDED": True} | bounds_parts(*(problem.value_bounds or ()))
    own = tuple(bounds.values())
    if problem.tables is not None:
        if ("tabular", own) not in _machines:
            _machines["tabular", own] = Machine(bounds)
        return _machines["tabular", own], problem.tables.sampling, int(state)
    import numba

    kind = numba.typeof(state)
    player = problem.player if isinstance(problem, Game) else None
    terminal = problem.terminal if callable(problem.terminal) else None
    shape = np.shape(state) if isinstance(kind, numba.types.Array) else None
    key = (problem.oracle, problem.legal, terminal, player, own, kind, shape)
    if key not in _machines:
        parts = oracle_parts(
            problem.oracle, problem.legal, terminal, player, kind, state
        )
        _machines[key] = Machine(parts | bounds | hashing(kind))
    return _machines[key], (), state


def row_machine(problem: Problem, state: Any, extras: bool) -> RowMachine | None:
    """The machine that calls the problem's functions by address; None where none does."""
    import numba

    if problem.tables is not None or tier_choice() == INLINED:
        return None
    key = (functions_of(problem), numba.typeof(state))
    known = _spoken.get(key)
    if key not in _spoken or (known and not known.is_current()):
        found = speak(problem, state) if is_shown(key[1]) else None
        _spoken[key] = None if found is None or found.size > MOST_WORDS else found
    found = _spoken[key]
    return None if found is None else RowMachine(found, state, extras)


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
        self.later: Handover | None = None
        self._counted = 0  # calls that the handover knows of
        begin = time.perf_counter()
        self.meta = np.zeros(6, np.int64)
        self.fault = np.zeros(1)
        try:
            form = self._choose(start, inlined)
            room = min(FIRST_ROOM, setting.most_nodes)
            self.nodes = self._blank(room)
            spans = spans_of(problem, setting)
            known = start.bounds.tables(setting.num_actions)
            self.desk = kernel.desk_for(
                start.rule, setting, self.weights, spans, *known
            )
            self.states = self.machine.allocate(room)
            # For a rollout's state, a state at fault, and a state that waits.
            self.scratch = self.machine.allocate(3)
            self._plant(form, start.state, setting.elapsed)
            self._run(0, 0)
        except SmoothcruiserError:
            raise
        except Exception as error:
            raise InvalidInput(
                "The oracle could not be compiled into the tree search: "
                f"{first_line(error)} Check that step, legal, terminal and player "
                "take the states that step returns, or use executor='reference'."
            ) from error
        self.compile_seconds = time.perf_counter() - begin

    def _choose(self, start: TreeStart, inlined: bool) -> Any:
        """Choose the machine; returns the root's state in its form."""
        self.machine: Any
        state, extras = start.state, has_extras(start)
        rows = None if inlined else row_machine(self.problem, state, extras)
        if rows is None:
            self.machine, self.data, form = machine_for(self.problem, state, extras)
            return form
        key = (functions_of(self.problem), rows.spoken.kind, type(self.rule), extras)
        build = checked(lambda: built(start), rows.spoken)
        later = _handovers.setdefault(key, Handover(build))
        if later.built is not None and tier_choice() != ADDRESS:
            self.machine, self.data, form = machine_for(self.problem, state, extras)
            return form
        self.later = None if tier_choice() == ADDRESS else later
        self.machine, self.data = rows, rows.data
        return int(rows.root.ctypes.data)

    def _hand_over(self) -> None:
        """Go on with the machine that has the functions in it, once it is there."""
        if self.later is None:
            return
        calls = int(self.meta[kernel.CALLS])
        machine = self.later.after(calls - self._counted)
        self._counted = calls
        if machine is not None:
            self._move(machine)

    def _move(self, machine: Machine) -> None:
        """Take the states from rows to the columns of ``machine``."""
        count, rows, scratch = int(self.meta[kernel.COUNT]), self.states, self.scratch
        self.machine, self.data, self.later = machine, (), None
        self.states, self.scratch = machine.allocate(len(rows)), machine.allocate(3)
        as_columns(rows, self.states, count)
        as_columns(scratch, self.scratch, len(scratch))
        machine.rehash(self.nodes.ints, self.nodes.table, self.states, count)

    def _blank(self, room: int) -> kernel.Nodes:
        K = self.setting.num_actions
        size = 4
        while size < 2 * room:
            size *= 2
        columns = kernel.TOTAL + (2 * K if self.rule.entropy > 0.0 else K)
        return kernel.Nodes(
            np.empty((room, kernel.EDGE + 2 * K), np.int64),
            np.empty((room, columns)),
            np.full(size, -1, np.int64),
            *tables(room if limits_chance(self.setting) else 0, K),
            np.empty((room, 3 * K) if self._is_boxed else (1, 1)),
        )

    def _double(self) -> None:
        old, count = self.nodes, int(self.meta[kernel.COUNT])
        room = min(2 * len(old.ints), self.setting.most_nodes)
        self.nodes = self._blank(room)
        self.nodes.ints[:count], self.nodes.floats[:count] = (
            old.ints[:count],
            old.floats[:count],
        )
        self.nodes.outcomes[:count] = old.outcomes[:count]
        self.nodes.paid[:count] = old.paid[:count]
        if self._is_boxed:
            self.nodes.boxes[:count] = old.boxes[:count]
        self.states = self.machine.move_states(self.states, room, count)
        self.machine.rehash(self.nodes.ints, self.nodes.table, self.states, count)

    def _run(self, simulations: int, calls: int) -> int:
        return int(
            self.machine.grow(
                self.rule,
                self.setting,
                self.head,
                self.weights,
                self.data,
                self.nodes,
                self.desk,
                self.states,
                self.scratch,
                self.meta,
                self.fault,
                simulations,
                calls,
                self.rng,
            )
        )

    def run(self, simulations: int, calls: int) -> bool:
        """Grow until the counts reach these totals.

        It returns False where the calls were used up first.
        """
        self.prepare()
        return self.go(simulations, calls)

    def prepare(self) -> None:
        """Change to the machine with the user's functions in it, once it is there."""
        self._hand_over()

    def go(self, simulations: int, calls: int) -> bool:
        """The same as ``run``, in any thread."""
        while True:
            try:
                status = self._run(simulations, calls)
            except (SmoothcruiserError, KeyboardInterrupt):
                raise
            except BaseException as error:
                raise OracleError(
                    f"The oracle raised {type(error).__name__}: {error}; fix the "
                    "simulator (executor='reference' says where)."
                ) from error
            if status == kernel.NO_ROOM:
                self._double()
                continue
            if status in (kernel.DONE, kernel.CUT, kernel.PROVEN):
                return status != kernel.CUT
            where, action = (
                self.machine.load(self.scratch, 1),
                int(self.meta[kernel.FAULT]),
            )
            complain(
                self.problem, self.setting, status, where, action, float(self.fault[0])
            )

    def twin(self) -> CompiledTree:
        """A copy that grows by itself and shares the machine and the problem's data."""
        other = copy.copy(self)
        if isinstance(self.machine, RowMachine):
            other.machine = self.machine.twin()
            other.data = other.machine.data
        other.nodes = kernel.Nodes(*copied(tuple(self.nodes)))
        other.desk = kernel.Desk(*copied(tuple(self.desk)))
        other.states, other.scratch = copied(self.states), copied(self.scratch)
        other.meta, other.fault, other.rng = (
            self.meta.copy(),
            self.fault.copy(),
            copy.deepcopy(self.rng),
        )
        return other

    def listen(self, hold: Hold) -> None:
        """Do nothing: machine code is not broken off; a slice of it is short."""

    def flush(self) -> None:
        """Do nothing: no leaf waits."""

    def warm(self) -> None:
        """Compile what a move needs, and count its time as compile time."""
        begin = time.perf_counter()
        self.machine.find_child(
            self.nodes.ints,
            self.nodes.table,
            self.states,
            0,
            0,
            self.machine.load(self.states, 0),
        )
        self.machine.compact(self.nodes, self.states, self.meta, 0)
        self.compile_seconds += time.perf_counter() - begin

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
        m = self.meta
        return (
            int(m[kernel.COUNT]),
            int(m[kernel.SIMULATIONS]),
            int(m[kernel.CALLS]),
            int(m[kernel.DEEPEST]),
        )

    def node(self, i: int) -> Node:
        """Node ``i``; 0 is the root."""
        ints, floats = self.nodes.ints[i], self.nodes.floats[i]
        allowed = [
            a for a in range(self.setting.num_actions) if ints[kernel.EDGE + a] >= 0
        ][: kernel.opened(self.setting, self.nodes.ints, i, 0)]
        return Node(
            number=i,
            state=self._state(i),
            player=1 if floats[kernel.SIGN] > 0 else 2,
            visits=int(ints[kernel.VISITS]),
            value=float(floats[kernel.VALUE]),
            first=float(floats[kernel.FIRST]),
            actions=tuple(allowed),
            edge_visits=tuple(int(ints[kernel.EDGE + a]) for a in allowed),
            edge_totals=tuple(float(floats[kernel.TOTAL + a]) for a in allowed),
            boxes=self._boxes(i, allowed) if self.setting.solves else (),
            bounds=known_ends(self._boxes(i, allowed)) if self.setting.bounds else (),
        )

    @property
    def _is_boxed(self) -> bool:
        return self.setting.solves or self.setting.bounds

    def _boxes(self, i: int, actions: list[int]) -> Ends:
        """The boxes of some actions of node ``i``, where the tree has any."""
        row, K = self.nodes.boxes[i], self.setting.num_actions
        return tuple((float(row[a]), float(row[K + a])) for a in actions)

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
        count = int(self.meta[kernel.COUNT])
        for child in (
            np.flatnonzero(self.nodes.ints[i + 1 : count, kernel.PARENT] == i) + i + 1
        ):
            yield int(self.nodes.ints[child, kernel.ACTION]), int(child)

    def child(self, i: int, action: int, after: Any) -> int | None:
        """The node of next state ``after``, if there is one."""
        after = int(after) if self.problem.tables is not None else after
        found = self.machine.find_child(
            self.nodes.ints, self.nodes.table, self.states, i, action, after
        )
        return int(found) if found >= 0 else None

    def restart(self, state: Any) -> None:
        """Begin anew at ``state``, one move later, with the same stream and counts."""
        form: Any = state
        if isinstance(self.machine, RowMachine):
            self.machine.root = self.machine.spoken.words(state)
            form = int(self.machine.root.ctypes.data)
        elif self.problem.tables is not None:
            form = int(state)
        self.desk.held[kernel.HELD] = kernel.NOTHING_HELD
        self.meta[kernel.COUNT] = self.meta[kernel.DEEPEST] = 0
        self.nodes.table[:] = -1
        self._plant(form, state, self.setting.elapsed + 1)

    def _plant(self, form: Any, state: Any, moves: int) -> None:
        """Make the root; ``form`` is its state as the machine takes it."""
        setting, nodes, spans = self.setting, self.nodes, self.desk.spans
        root = self.machine.add_node(
            setting,
            self.data,
            nodes.ints,
            nodes.floats,
            self.states,
            self.meta,
            -1,
            -1,
            form,
        )
        if root < 0:
            complain(self.problem, setting, -root, state, 0, 0.0)
        if setting.bounds:  # then the form of a state is its number
            known, ends = self.desk.known, self.desk.ends
            ints, boxes = nodes.ints, nodes.boxes
            bound_node(known, ends, moves, form, ints, kernel.EDGE, boxes, 0)
        if setting.solves:
            low, high = spans[min(moves, len(spans) - 1)]
            open_boxes(nodes.boxes, 0, setting.num_actions, low, high)

    @property
    def over(self) -> bool:
        """Whether the root is proven, so that nothing is left to search."""
        return self.setting.solves and self.node(0).is_proven

    def rest(self) -> None:
        """Do nothing: there are no workers."""

    def close(self) -> None:
        """Do nothing: there are no workers."""

    def advance(self, child: int) -> None:
        """Make ``child`` the root and forget what is not below it."""
        self.desk.held[kernel.HELD] = kernel.NOTHING_HELD
        self.machine.compact(self.nodes, self.states, self.meta, child)


def built(start: TreeStart) -> Machine:
    """The machine with the problem's functions in it, compiled for a tree's rule."""
    tree = CompiledTree(replace(start, rng=stream(0)), inlined=True)
    return tree.machine  # type: ignore[no-any-return]
