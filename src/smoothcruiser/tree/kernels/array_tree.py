"""A tree over growing arrays, whatever form of ``tree.kernels.kernel`` grows it.

The arrays double when they are full. ``CompiledTree`` and ``PlainTree`` choose the machine:
its functions, the form of states, and the answer to an error.

The arguments that every tree begins with.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from smoothcruiser.problem.bounds import bounds_at
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import (
    answers_changed,
    at_pair,
    bad_player,
    reward_outside,
    undeclared_end,
)
from smoothcruiser.run_control.stop_requests import StopRequest
from smoothcruiser.tree.kernels import kernel
from smoothcruiser.tree.kernels.rules_kernel import open_boxes
from smoothcruiser.tree.node import Ends, Node, known_ends
from smoothcruiser.tree.proofs import broken_claim, spans_of, two_outcomes
from smoothcruiser.tree.pruning import KnownBounds
from smoothcruiser.tree.search_numbers import OWN_PICK, Setting, TreeRule
from smoothcruiser.tree.widening import limits_chance, outcome_tables

FIRST_ROOM = 1024  # nodes; doubled as needed
NUM_SCRATCH = 4  # states beside those of nodes


@dataclass(frozen=True, eq=False)
class TreeStart:
    """The search in numbers, its root and its stream."""

    problem: Problem
    rule: TreeRule
    setting: Setting
    head: Any  # F(0) over k actions, k = 0..K
    weights: Any  # of the actions, where the problem's operator has a prior
    state: Any  # the root
    rng: Any
    bounds: KnownBounds  # which exclude actions
    pick: Any = None  # ``Search.pick``, where the rule's descent is OWN_PICK


def needs_extras(rule: TreeRule, setting: Setting) -> bool:
    """Whether a tree needs the machine with ``kernel.EXTRAS``."""
    return (
        rule.warm
        or rule.descent == OWN_PICK
        or setting.bounds
        or setting.solves
        or setting.action_widening > 0.0
        or limits_chance(setting)
    )


def copy_store(stored: Any) -> Any:
    """A copy of a store of states: an array or a list, or a tuple of stores."""
    return (
        tuple(copy_store(field_store) for field_store in stored)
        if isinstance(stored, tuple)
        else stored.copy()
    )


class ArrayTree:
    """Nodes in arrays, and a machine that adds to them."""

    name: str
    least_slice: int  # calls
    slice_seconds = 0.0
    compile_seconds = 0.0
    machine: Any
    data: Any  # the machine's first argument, which has the problem

    def set_numbers(self, start: TreeStart) -> None:
        """Set the search and the counts, before there is a machine."""
        self.problem, self.rule, self.setting = (
            start.problem,
            start.rule,
            start.setting,
        )
        self.rng = start.rng
        self.head, self.weights = np.array(start.head), np.array(start.weights)
        self.meta = np.zeros(6, np.int64)
        self.fault = np.zeros(1)

    def make_nodes(self, start: TreeStart, root_form: Any) -> None:
        """Make the memory and the root; ``root_form`` is its state for the machine."""
        setting = start.setting
        node_capacity = min(FIRST_ROOM, setting.most_nodes)
        self.nodes = self.empty_nodes(node_capacity)
        self.workspace = kernel.workspace_for(
            start.rule,
            setting,
            self.weights,
            spans_of(self.problem.facts).copy()
            if setting.solves
            else np.zeros((1, 2)),  # nothing is to be proven
            *self._known_tables(start),
        )
        self.states = self.machine.allocate(node_capacity)
        # For a rollout's state, a state at fault, a state that waits in its rollout, and
        # the leaf where that began.
        self.scratch = self.machine.allocate(NUM_SCRATCH)
        self._make_root(root_form, start.state, setting.elapsed)

    def _known_tables(self, start: TreeStart) -> tuple[Any, Any]:
        """The known bounds as arrays, where states are numbers."""
        return start.bounds.tables(self.setting.num_actions)

    def empty_nodes(self, node_capacity: int) -> kernel.Nodes:
        """Memory for so many nodes."""
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
        self.nodes = self.empty_nodes(node_capacity)
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
        """Change to a better machine, where there is one."""

    @abstractmethod
    def grow_slice(self, simulations: int, calls: int) -> bool:
        """Grow like ``grow_to``, in any thread."""

    def _grow_on(self, simulations: int, calls: int) -> bool:
        """Run the machine, with new memory as it needs it."""
        while True:
            status = self._simulate(simulations, calls)
            if status == kernel.NO_ROOM:
                self._double_memory()
                continue
            if status in (kernel.DONE, kernel.CUT, kernel.PROVEN):
                return status != kernel.CUT
            fault_state = self.machine.load(self.scratch, 1)
            self._complain(status, fault_state, int(self.meta[kernel.FAULT]))

    def _complain(self, status: int, state: Any, action: int = 0) -> None:
        """Raise the error that a kernel could only report by a number."""
        complain(
            self.problem, self.setting, status, state, action, float(self.fault[0])
        )

    def twin(self) -> Self:
        """A copy that grows by itself; the problem's data are shared."""
        tree_copy = copy.copy(self)
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
        """Compile the functions of a move, where any are compiled."""

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

    @property
    def calls(self) -> int:
        """Calls so far, for watchdogs."""
        return int(self.meta[kernel.CALLS])

    def _state(self, i: int) -> Any:
        """The state of node ``i``, which the tree does not change any more."""
        return self.machine.load(self.states, i)

    def children(self, i: int) -> Iterator[tuple[int, int]]:
        """(action, node) of the children of node ``i``, in the order they were met."""
        num_nodes = int(self.meta[kernel.COUNT])
        for child in (
            np.flatnonzero(self.nodes.ints[i + 1 : num_nodes, kernel.PARENT] == i)
            + i
            + 1
        ):
            yield int(self.nodes.ints[child, kernel.ACTION]), int(child)

    @abstractmethod
    def child(self, i: int, action: int, after: Any) -> int | None:
        """The node of next state ``after``, if there is one."""

    @abstractmethod
    def root_form(self, state: Any) -> Any:
        """A root's state as the machine takes it."""

    def restart(self, state: Any) -> None:
        """Begin anew at ``state``, one move later, with the same stream and counts."""
        self.workspace.held[kernel.HELD] = kernel.NOTHING_HELD
        self.meta[kernel.COUNT] = self.meta[kernel.DEEPEST] = 0
        self.machine.forget_children(self.nodes.table)
        self._make_root(self.root_form(state), state, self.setting.elapsed + 1)

    def _make_root(self, root_form: Any, state: Any, moves: int) -> None:
        setting, nodes, spans = self.setting, self.nodes, self.workspace.spans
        root = self.machine.add_node(
            setting,
            self.data,
            nodes.ints,
            nodes.floats,
            self.states,
            self.meta,
            self.workspace.acts,
            -1,
            -1,
            root_form,
        )
        if root < 0:
            self._complain(-root, state)
        if setting.bounds:
            self.machine.bound_root(self.data, self.workspace, moves, root_form, nodes)
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


def complain(
    problem: Problem,
    setting: Setting,
    status: int,
    state: Any,
    action: int,
    reward: float,
) -> None:
    """Raise the error that a kernel could only report by a number."""
    if status == kernel.FEW_ACTIONS:
        problem.legal_actions(state)  # raises with the number of legal actions
    if status == kernel.BAD_PLAYER:
        raise bad_player(state, "another number")
    if status == kernel.BAD_BOUNDS:
        bounds_at(problem, state)  # raises with the numbers
        raise answers_changed(state)
    if status == kernel.TWO_OUTCOMES:
        raise two_outcomes(at_pair(state, action))
    if status == kernel.BROKEN_CLAIM:
        raise broken_claim(problem, state)
    if status == kernel.BAD_REWARD:
        raise reward_outside(
            reward,
            at_pair(state, action),
            setting.low,
            setting.high,
            problem.minimizes,
        )
    raise undeclared_end(at_pair(state, action))
