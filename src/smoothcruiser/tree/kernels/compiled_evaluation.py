"""A compiled tree that asks an evaluator at its leaves (``tree.kernels.evaluator_kernel``).

Compiled functions and arrays answer inside the machine. For everything else the machine
returns when a batch of leaves waits, Python answers, and the machine goes on. Functions
are compiled into the machine from the start: nothing is called by address here.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.jit.build import compile_function
from smoothcruiser.tree.evaluators.base import Leaves, named_like
from smoothcruiser.tree.evaluators.evaluator_queue import TreeEvaluators
from smoothcruiser.tree.kernels import evaluator_kernel as asking
from smoothcruiser.tree.kernels import kernel
from smoothcruiser.tree.kernels.compiled_tree import CompiledTree, Machine, machine_for
from smoothcruiser.tree.kernels.evaluator_kernel import EvaluatorTree
from smoothcruiser.tree.kernels.kernel import TreeStart
from smoothcruiser.tree.kernels.shared_machine import copy_store
from smoothcruiser.tree.plain.plain_nodes import Node

_machines: dict[Any, EvaluatorMachine] = {}


class EvaluatorMachine:
    """The compiled functions for one kind of problem and one evaluator."""

    def __init__(self, machine: Machine, evaluate: Any) -> None:
        self.kept_alive = machine, evaluate
        self.load, self.allocate = machine.load, machine.allocate
        self.add_node, self.move_states = machine.add_node, machine.move_states
        self.rehash, self.compact = machine.rehash, machine.compact
        self.find_child, self.parts = machine.find_child, machine.parts
        kernel_parts = dict(machine.parts)
        kernel_parts.pop("ALLOCATE", None)
        if evaluate is not None:
            kernel_parts["EVALUATE"] = evaluate
        self.ask = compile_function(
            asking.grow, nogil=True, **kernel.with_extras(kernel_parts)
        )
        self.inform = compile_function(asking.inform_node)


def machine_of(machine: Machine, evaluators: TreeEvaluators) -> EvaluatorMachine:
    """The machine with the evaluators' compiled functions in it."""
    functions = evaluators.machines or {}
    machine_key = (
        id(machine),
        *sorted((name, id(function)) for name, function in functions.items()),
    )
    if machine_key not in _machines:
        evaluate_inside = None  # that of tabular problems: it reads arrays
        if functions:
            evaluate_inside = _compile_evaluators(
                functions, evaluators.problem.num_actions
            )
        elif evaluators.problem.tables is None:
            evaluate_inside = compile_function(asking.no_answer)
        _machines[machine_key] = EvaluatorMachine(machine, evaluate_inside)
    return _machines[machine_key]


def _compile_evaluators(evaluators: dict[str, Any], K: int) -> Any:
    """EVALUATE of compiled functions: it writes their answers to a row."""
    from numba import njit

    row_writers = [
        _row_writer(name, function, K) for name, function in evaluators.items()
    ]

    @njit
    def nothing(state: Any, row: Any) -> Any:
        return True

    first_writer, second_writer, third_writer = (row_writers + [nothing] * 3)[:3]

    @njit
    def evaluate(tables: Any, state: Any, row: Any) -> Any:
        return (
            first_writer(state, row)
            and second_writer(state, row)
            and third_writer(state, row)
        )

    return evaluate


def _row_writer(name: str, function: Any, K: int) -> Any:
    from numba import njit

    first_column = 1 + K if name == "initial_q" else 1

    @njit
    def value(state: Any, row: Any) -> Any:
        row[0] = function(state)
        return True

    @njit
    def actions(state: Any, row: Any) -> Any:
        action_values = function(state)
        if len(action_values) != K:
            return False
        for a in range(K):
            row[first_column + a] = action_values[a]
        return True

    @njit
    def network(state: Any, row: Any) -> Any:
        action_weights, row[0] = function(state)
        if len(action_weights) != K:
            return False
        for a in range(K):
            row[1 + a] = action_weights[a]
        return True

    return {"value": value, "network": network}.get(name, actions)


class CompiledEvaluatorTree(EvaluatorTree, CompiledTree):
    """The tree of a compiled problem with evaluators at its leaves."""

    machine: EvaluatorMachine

    def __init__(self, evaluators: TreeEvaluators, start: TreeStart) -> None:
        self.set_evaluators(evaluators, start)
        self.has_answers = False
        self.waiting: Any = None
        # an error of the evaluators is not the oracle's fault
        if evaluators.machines is not None:
            evaluators.answers(Leaves(1, lambda: [start.state], remaining=[0]))
        super().__init__(start, inlined=True)
        self._inform_root()

    def _choose_machine(self, start: TreeStart, inlined: bool) -> Any:
        machine, self.data, root_form = machine_for(self.problem, start.state)
        self.machine = machine_of(machine, self.evaluators)
        tables = self.evaluators.tables or tuple(np.zeros((0, 1)) for _ in range(3))
        self.waiting = asking.blank_waiting(
            self.setting,
            self.evaluators.leaf_setting,
            self.machine.allocate(self.evaluators.leaf_setting.batch),
            tables,
        )
        return root_form

    def _empty_nodes(self, room: int) -> kernel.Nodes:
        plain_nodes, K = super()._empty_nodes(room), self.setting.num_actions
        leaf_setting = self.evaluators.leaf_setting
        num_blocks = 4 if leaf_setting.firsts else 3 if leaf_setting.batch > 1 else 2
        return plain_nodes._replace(
            floats=np.zeros((room, kernel.TOTAL + num_blocks * K))
        )

    def _inform_root(self) -> None:
        """Ask about the root, which is then a node like any other."""
        if self.nodes.ints[0, kernel.VISITS] > 0:
            return
        state = self._state(0)
        steps_left = self._remaining([0])
        answer_row = self.evaluators.answers(
            Leaves(1, lambda: [state], remaining=steps_left)
        )[0]
        leaf_setting, K = self.evaluators.leaf_setting, self.setting.num_actions
        is_usable = not leaf_setting.values or np.isfinite(answer_row[0])
        if not is_usable or not self.machine.inform(
            leaf_setting,
            self.nodes.ints,
            self.nodes.floats,
            0,
            K,
            answer_row,
            self.workspace.acts,
            self.workspace.p,
        ):
            raise self.evaluators.answer_error(
                state, answer_row, list(self.node(0).actions)
            )
        if leaf_setting.values:
            counts = self.waiting.counts
            value = asking.clip_value(leaf_setting, float(answer_row[0]), counts)
            counts[asking.ASKED] += 1
            kernel.first_estimate(self.nodes.ints, self.nodes.floats, 0, value)

    def _leaves(self) -> Leaves:
        """The leaves that wait."""
        num_waiting = int(self.waiting.counts[asking.QUEUED])
        state_store = self.waiting.states

        def one_by_one() -> list[Any]:
            loaded_states = [
                self.machine.load(state_store, i) for i in range(num_waiting)
            ]
            return copy.deepcopy(loaded_states)

        def by_field() -> Any:
            return named_like(
                self.machine.load(state_store, 0), _copy_rows(state_store, num_waiting)
            )

        steps_left = self._remaining(self.waiting.steps[:num_waiting])
        return Leaves(num_waiting, one_by_one, by_field, steps_left)

    def _simulate(self, simulations: int, calls: int) -> int:
        while True:
            status = int(
                self.machine.ask(
                    self.rule,
                    self.setting,
                    self.evaluators.leaf_setting,
                    self.gumbel,
                    self.head,
                    self.weights,
                    self.data,
                    self.nodes,
                    self.workspace,
                    self.states,
                    self.scratch,
                    self.waiting,
                    self.meta,
                    self.fault,
                    simulations,
                    calls,
                    self.has_answers,
                    self.rng,
                )
            )
            self.has_answers = False
            if status == asking.ASK:
                leaves = self._leaves()
                self.waiting.answers[: leaves.count] = self.evaluators.answers(leaves)
                self.has_answers = True
                continue
            if status == asking.BAD_ANSWER:
                raise self._bad_answer()
            return status

    def _bad_answer(self) -> SmoothcruiserError:
        leaves, leaf_index = self._leaves(), int(self.waiting.counts[asking.BAD_ROW])
        state = leaves.states[leaf_index]
        answer_row = self.evaluators.answers(
            Leaves(1, lambda: [state], remaining=[0])
        )[0]
        return self.evaluators.answer_error(
            state, answer_row, self.problem.legal_actions(state)
        )

    def flush(self) -> None:
        """Answer the leaves that still wait."""
        num_queued = int(self.waiting.counts[asking.QUEUED])
        if num_queued:
            self._simulate(int(self.meta[kernel.SIMULATIONS]) + num_queued, 0)

    def twin(self) -> CompiledEvaluatorTree:
        """A copy that grows by itself."""
        tree_copy = super().twin()
        assert isinstance(tree_copy, CompiledEvaluatorTree)
        state_store = copy_store(self.waiting.states)
        array_copies = {
            name: getattr(self.waiting, name).copy() for name in _COPIED_FIELDS
        }
        tree_copy.waiting = self.waiting._replace(states=state_store, **array_copies)
        return tree_copy

    def node(self, i: int) -> Node:
        """Node ``i``, with its priors and first values."""
        node, K = super().node(i), self.setting.num_actions
        leaf_setting, floats = self.evaluators.leaf_setting, self.nodes.floats[i]
        action_columns = np.array(node.actions)

        def block(block_number: int) -> tuple[float, ...]:
            return tuple(
                floats[kernel.TOTAL + block_number * K + action_columns].tolist()
            )

        prior = block(1) if leaf_setting.by_prior else None
        first_q = block(3) if leaf_setting.firsts else None
        return replace(node, prior=prior, first_q=first_q)

    @property
    def evaluation_counts(self) -> tuple[int, int]:
        """(leaves evaluated, values that were clipped)."""
        counts = self.waiting.counts
        return int(counts[asking.ASKED]), int(counts[asking.CLIPPED])


_COPIED_FIELDS = ("paths", "rewards", "steps", "rolled", "answers", "counts")


def _copy_rows(store: Any, count: int) -> Any:
    """Copies of the first rows of a store, field by field."""
    if isinstance(store, tuple):
        return tuple(_copy_rows(field_store, count) for field_store in store)
    return store[:count].copy()
