"""A compiled tree that asks an evaluator at its leaves (``tree.asking_kernel``).

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
from smoothcruiser.jit.build import compiled
from smoothcruiser.tree import asking_kernel as asking
from smoothcruiser.tree import kernel
from smoothcruiser.tree.asker import Asker
from smoothcruiser.tree.asks import Asks
from smoothcruiser.tree.compiled import CompiledTree, Machine, machine_for
from smoothcruiser.tree.evaluators.base import Leaves, named_like
from smoothcruiser.tree.node import Node
from smoothcruiser.tree.rows import copied
from smoothcruiser.tree.start import TreeStart

_machines: dict[Any, AskingMachine] = {}


class AskingMachine:
    """The compiled functions for one kind of problem and one evaluator."""

    def __init__(self, machine: Machine, evaluate: Any) -> None:
        self.kept = machine, evaluate
        self.load, self.allocate = machine.load, machine.allocate
        self.add_node, self.move_states = machine.add_node, machine.move_states
        self.rehash, self.compact = machine.rehash, machine.compact
        self.find_child, self.parts = machine.find_child, machine.parts
        parts = dict(machine.parts)
        parts.pop("ALLOCATE", None)
        if evaluate is not None:
            parts["EVALUATE"] = evaluate
        self.ask = compiled(asking.grow, nogil=True, **kernel.with_extras(parts))
        self.inform = compiled(asking.inform)


def machine_of(machine: Machine, asks: Asks) -> AskingMachine:
    """The machine with the evaluators' compiled functions in it."""
    given = asks.machines or {}
    key = (id(machine), *sorted((name, id(f)) for name, f in given.items()))
    if key not in _machines:
        inside = None  # that of tabular problems: it reads arrays
        if given:
            inside = _inside(given, asks.problem.num_actions)
        elif asks.problem.tables is None:
            inside = compiled(asking.nothing)
        _machines[key] = AskingMachine(machine, inside)
    return _machines[key]


def _inside(given: dict[str, Any], K: int) -> Any:
    """EVALUATE of compiled functions: it writes their answers to a row."""
    from numba import njit

    parts = [_part(name, function, K) for name, function in given.items()]

    @njit
    def nothing(state: Any, row: Any) -> Any:
        return True

    first, second, third = (parts + [nothing] * 3)[:3]

    @njit
    def evaluate(tables: Any, state: Any, row: Any) -> Any:
        return first(state, row) and second(state, row) and third(state, row)

    return evaluate


def _part(name: str, function: Any, K: int) -> Any:
    from numba import njit

    place = 1 + K if name == "initial_q" else 1

    @njit
    def value(state: Any, row: Any) -> Any:
        row[0] = function(state)
        return True

    @njit
    def actions(state: Any, row: Any) -> Any:
        found = function(state)
        if len(found) != K:
            return False
        for a in range(K):
            row[place + a] = found[a]
        return True

    @njit
    def network(state: Any, row: Any) -> Any:
        found, row[0] = function(state)
        if len(found) != K:
            return False
        for a in range(K):
            row[1 + a] = found[a]
        return True

    return {"value": value, "network": network}.get(name, actions)


class AskingTree(Asker, CompiledTree):
    """The tree of a compiled problem whose leaves are evaluated."""

    machine: AskingMachine

    def __init__(self, asks: Asks, start: TreeStart) -> None:
        self.ask_with(asks, start)
        self.answered = False
        self.waiting: Any = None
        # what is wrong with them is not the oracle's fault
        if asks.machines is not None:
            asks.answers(Leaves(1, lambda: [start.state], remaining=[0]))
        super().__init__(start, inlined=True)
        self._inform_root()

    def _choose(self, start: TreeStart, inlined: bool) -> Any:
        machine, self.data, form = machine_for(self.problem, start.state)
        self.machine = machine_of(machine, self.asks)
        tables = self.asks.tables or tuple(np.zeros((0, 1)) for _ in range(3))
        self.waiting = asking.blank_waiting(
            self.setting,
            self.asks.numbers,
            self.machine.allocate(self.asks.numbers.batch),
            tables,
        )
        return form

    def _blank(self, room: int) -> kernel.Nodes:
        found, K = super()._blank(room), self.setting.num_actions
        numbers = self.asks.numbers
        blocks = 4 if numbers.firsts else 3 if numbers.batch > 1 else 2
        return found._replace(floats=np.zeros((room, kernel.TOTAL + blocks * K)))

    def _inform_root(self) -> None:
        """Ask about the root, which is then a node like any other."""
        if self.nodes.ints[0, kernel.VISITS] > 0:
            return
        state = self._state(0)
        left = self._remaining([0])
        row = self.asks.answers(Leaves(1, lambda: [state], remaining=left))[0]
        numbers, K = self.asks.numbers, self.setting.num_actions
        good = not numbers.values or np.isfinite(row[0])
        if not good or not self.machine.inform(
            numbers,
            self.nodes.ints,
            self.nodes.floats,
            0,
            K,
            row,
            self.desk.acts,
            self.desk.p,
        ):
            raise self.asks.complain(state, row, list(self.node(0).actions))
        if numbers.values:
            counts = self.waiting.counts
            value = asking.clipped(numbers, float(row[0]), counts)
            counts[asking.ASKED] += 1
            kernel.first_estimate(self.nodes.ints, self.nodes.floats, 0, value)

    def _leaves(self) -> Leaves:
        """The leaves that wait."""
        count = int(self.waiting.counts[asking.QUEUED])
        store = self.waiting.states

        def one_by_one() -> list[Any]:
            found = [self.machine.load(store, i) for i in range(count)]
            return copy.deepcopy(found)

        def by_field() -> Any:
            return named_like(self.machine.load(store, 0), _rows(store, count))

        left = self._remaining(self.waiting.steps[:count])
        return Leaves(count, one_by_one, by_field, left)

    def _run(self, simulations: int, calls: int) -> int:
        while True:
            status = int(
                self.machine.ask(
                    self.rule,
                    self.setting,
                    self.asks.numbers,
                    self.gumbel,
                    self.head,
                    self.weights,
                    self.data,
                    self.nodes,
                    self.desk,
                    self.states,
                    self.scratch,
                    self.waiting,
                    self.meta,
                    self.fault,
                    simulations,
                    calls,
                    self.answered,
                    self.rng,
                )
            )
            self.answered = False
            if status == asking.ASK:
                leaves = self._leaves()
                self.waiting.answers[: leaves.count] = self.asks.answers(leaves)
                self.answered = True
                continue
            if status == asking.BAD_ANSWER:
                raise self._bad_answer()
            return status

    def _bad_answer(self) -> SmoothcruiserError:
        leaves, i = self._leaves(), int(self.waiting.counts[asking.BAD_ROW])
        state = leaves.states[i]
        row = self.asks.answers(Leaves(1, lambda: [state], remaining=[0]))[0]
        return self.asks.complain(state, row, self.problem.legal_actions(state))

    def flush(self) -> None:
        """Answer the leaves that still wait."""
        queued = int(self.waiting.counts[asking.QUEUED])
        if queued:
            self._run(int(self.meta[kernel.SIMULATIONS]) + queued, 0)

    def twin(self) -> AskingTree:
        """A copy that grows by itself."""
        other = super().twin()
        assert isinstance(other, AskingTree)
        store = copied(self.waiting.states)
        arrays = {name: getattr(self.waiting, name).copy() for name in _OWN}
        other.waiting = self.waiting._replace(states=store, **arrays)
        return other

    def node(self, i: int) -> Node:
        """Node ``i``, with its priors and first values."""
        node, K = super().node(i), self.setting.num_actions
        numbers, floats = self.asks.numbers, self.nodes.floats[i]
        columns = np.array(node.actions)

        def block(number: int) -> tuple[float, ...]:
            return tuple(floats[kernel.TOTAL + number * K + columns].tolist())

        prior = block(1) if numbers.by_prior else None
        first_q = block(3) if numbers.firsts else None
        return replace(node, prior=prior, first_q=first_q)

    @property
    def asked(self) -> tuple[int, int]:
        """(leaves evaluated, values that were clipped)."""
        counts = self.waiting.counts
        return int(counts[asking.ASKED]), int(counts[asking.CLIPPED])

    def whole(self) -> AskingTree:
        """This tree: it calls nothing by address."""
        return self


_OWN = ("paths", "rewards", "steps", "rolled", "answers", "counts")


def _rows(store: Any, count: int) -> Any:
    """Copies of the first rows of a store, field by field."""
    if isinstance(store, tuple):
        return tuple(_rows(part, count) for part in store)
    return store[:count].copy()
