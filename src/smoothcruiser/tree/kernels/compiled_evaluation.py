"""A compiled tree that asks an evaluator at its leaves (``tree.kernels.evaluator_kernel``).

Compiled functions and arrays answer inside the machine. For everything else the machine
returns when a batch of leaves waits, Python answers, and the machine goes on. Functions
are compiled into the machine from the start: nothing is called by address here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.jit.build import compile_function
from smoothcruiser.tree.evaluators.base import Leaves
from smoothcruiser.tree.evaluators.evaluator_queue import TreeEvaluators
from smoothcruiser.tree.kernels import evaluator_kernel as asking
from smoothcruiser.tree.kernels.array_tree import TreeStart
from smoothcruiser.tree.kernels.compiled_tree import CompiledTree, Machine, machine_for
from smoothcruiser.tree.kernels.evaluated_tree import EvaluatorTree
from smoothcruiser.tree.kernels.parts_kernel import (
    bound_root,
    empty_table,
    with_extras,
)

_machines: dict[Any, EvaluatorMachine] = {}


class EvaluatorMachine:
    """The compiled functions for one kind of problem and one evaluator."""

    def __init__(self, machine: Machine, evaluate: Any, pick: Any) -> None:
        self.kept_alive = machine, evaluate
        self.load, self.allocate = machine.load, machine.allocate
        self.columns = machine.columns
        self.forget_children, self.bound_root = empty_table, bound_root
        self.add_node, self.move_states = machine.add_node, machine.move_states
        self.rehash, self.compact = machine.rehash, machine.compact
        self.find_child, self.parts = machine.find_child, machine.parts
        machine_parts = with_extras(
            machine.kernel_parts, "STEP" not in machine.parts, pick
        )
        if evaluate is None:
            machine_parts["EVALUATE"] = compile_function(asking.answer_from_tables)
        else:
            machine_parts["EVALUATE"] = evaluate
            machine_parts.pop("salt", None)
        self.ask = compile_function(asking.grow, nogil=True, **machine_parts)


def machine_of(
    machine: Machine, evaluators: TreeEvaluators, pick: Any
) -> EvaluatorMachine:
    """The machine with the evaluators' compiled functions in it."""
    functions = evaluators.machines or {}
    machine_key = (
        id(machine),
        pick,
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
        _machines[machine_key] = EvaluatorMachine(machine, evaluate_inside, pick)
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
        # an error of the evaluators is not the oracle's fault
        if evaluators.machines is not None:
            evaluators.answers(Leaves(1, lambda: [start.state], remaining=[0]))
        super().__init__(start, inlined=True)
        self._inform_root()

    def _choose_machine(self, start: TreeStart, inlined: bool) -> Any:
        machine, self.data, root_form = machine_for(self.problem, start.state)
        self.machine = machine_of(machine, self.evaluators, start.pick)
        tables = self.evaluators.tables or tuple(np.zeros((0, 1)) for _ in range(3))
        self.waiting = asking.blank_waiting(
            self.setting,
            self.leaf_setting,
            self.machine.allocate(self.leaf_setting.batch),
            tables,
        )
        return root_form

    def _leaves(self) -> Leaves:
        """The leaves that wait."""
        num_waiting = int(self.waiting.counts[asking.QUEUED])
        state_store = self.waiting.states

        def one_by_one() -> list[Any]:
            return [self.machine.load(state_store, i) for i in range(num_waiting)]

        def by_field() -> Any:
            return self.machine.columns(state_store, num_waiting)

        steps_left = self._remaining(self.waiting.steps[:num_waiting])
        return Leaves(num_waiting, one_by_one, by_field, steps_left)

    def _ask(self, simulations: int, calls: int) -> int:
        return int(
            self.machine.ask(
                self.rule,
                self.setting,
                self.leaf_setting,
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
