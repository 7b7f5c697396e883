"""A tree of any step and any state: ``tree.kernels.kernel`` interpreted by CPython.

The machine reads and writes memoryviews of the tree's arrays, whose elements are Python
numbers; states are a list of objects. It samples from the same stream in the same order
and does the same arithmetic as the compiled one, so the two trees agree to the last bit
on problems that both can run. No Numba is needed.

A tree travels to a worker and back as its arrays, states and counts; the problem does
not: every worker has its own.
"""

from __future__ import annotations

from typing import Any, Self

from smoothcruiser.jit.forms import interpreted_form, view_memory
from smoothcruiser.problem.problem import Problem
from smoothcruiser.run_control.call_seconds import limit_call_seconds
from smoothcruiser.run_control.stop_requests import StopRequest
from smoothcruiser.states.state_copies import lend_copy
from smoothcruiser.tree.kernels import kernel
from smoothcruiser.tree.kernels.array_tree import ArrayTree, TreeStart, needs_extras
from smoothcruiser.tree.kernels.leaf_values import LeafRollouts, mean_rollout
from smoothcruiser.tree.kernels.simulator import Simulator
from smoothcruiser.tree.pruning import KnownBounds

PackedTree = dict[str, Any]
# attributes that stay where a tree is
STAYS = frozenset(
    ("problem", "machine", "data", "leaves", "views", "constants", "nodes", "states")
)


class PlainMachine:
    """The interpreted functions for one tree; its children are a dictionary."""

    def __init__(
        self, simulator: Simulator, extras: bool, means: bool, pick: Any = None
    ) -> None:
        """``means``: a leaf is worth the mean of several rollouts."""
        self.simulator = simulator
        constants: dict[str, Any] = {"EXTRAS": True} if extras else {}
        if means:
            constants["ROLLOUT"] = mean_rollout
        self.grow = interpreted_form(
            kernel.grow, {} if pick is None else {"own_pick": pick}, **constants
        )

    def allocate(self, capacity: int) -> list[Any]:
        """Memory for ``capacity`` states."""
        states: list[Any] = [None] * capacity
        return states

    def load(self, states: list[Any], i: int) -> Any:
        """The state in row ``i``."""
        return states[i]

    def lend_states(self, states: list[Any], count: int) -> list[Any]:
        """The first ``count`` states, for a function that may write into them."""
        return [lend_copy(state) for state in states[:count]]

    def move_states(self, old: list[Any], capacity: int, count: int) -> list[Any]:
        """Memory for states that begins with the first ``count`` of ``old``."""
        return old[:count] + [None] * (capacity - count)

    def add_node(self, *arguments: Any) -> int:
        """As in ``kernel``, over arrays."""
        *numbers, state = arguments
        add_node: Any = kernel.add_node
        node: int = add_node(*view_memory(tuple(numbers)), state)
        return node

    def rehash(self, *arguments: Any) -> None:
        """Do nothing: the dictionary of children keeps their numbers."""

    def compact(self, nodes: Any, states: list[Any], meta: Any, root: int) -> None:
        """As in ``kernel``, over arrays."""
        new_number = kernel.compact(nodes, states, meta, root)
        self.simulator.renumber(new_number.tolist())

    def forget_children(self, table: Any) -> None:
        """Forget all children."""
        self.simulator.children.clear()

    def bound_root(
        self, data: Any, workspace: Any, num_moves: int, state: Any, nodes: Any
    ) -> None:
        """Give the root the bounds that are known of its state."""
        data.apply_bounds(num_moves, state, nodes.ints, nodes.boxes, 0)


class PlainTree(ArrayTree):
    """The tree of a problem with plain Python functions."""

    name = "reference"

    def __init__(self, start: TreeStart, leaves: LeafRollouts | None = None) -> None:
        self.set_numbers(start)
        self.leaves, self.pick = leaves or LeafRollouts(), start.pick
        self.set_machine(start.problem, start.bounds)
        self.make_nodes(start, start.state)
        self.data.states = self.states
        self.views: Any = None  # memoryviews of the arrays, and the arrays they are of

    def set_machine(self, problem: Problem, bounds: KnownBounds) -> None:
        """Give the tree the functions of a problem."""
        self.problem = problem
        self.data = Simulator(problem, self.setting, bounds, self.meta.data)
        self.data.rollouts = self.leaves
        self.machine = self._machine()

    def _machine(self) -> Any:
        extras = needs_extras(self.rule, self.setting)
        return PlainMachine(self.data, extras, self.leaves.count > 1, self.pick)

    def _known_tables(self, start: TreeStart) -> tuple[Any, Any]:
        """No arrays: bounds are found by the key of a state."""
        return KnownBounds().tables(self.setting.num_actions)

    # --- growing --------------------------------------------------------------------

    @property
    def least_slice(self) -> int:  # type: ignore[override]
        """Calls of a slice at the least: rollouts at once must not be cut short."""
        return (
            1 if self.leaves.spread is None else self.leaves.count * self.setting.limit
        )

    def grow_slice(self, simulations: int, calls: int) -> bool:
        """Grow like ``grow_to``."""
        self.data.most_calls = calls
        self.data.setting = self.setting
        if self.workspace.held[kernel.HELD] == kernel.NOTHING_HELD:
            self.leaves.forget()
        with limit_call_seconds(self, self.problem.call_seconds):
            return self._grow_on(simulations, calls)

    def view_arrays(self) -> Any:
        """The arguments of the machine: memoryviews, made anew where arrays are."""
        if self.views is None or self.views[0] is not self.nodes:
            arrays = (self.nodes, self.workspace, self.meta, self.fault)
            self.views = self.nodes, view_memory(arrays)
            self.constants = view_memory((self.head, self.weights))
            self.data.states, self.data.meta = self.states, self.views[1][2]
        return self.views[1]

    def _simulate(self, simulations: int, calls: int) -> int:
        nodes, workspace, meta, fault = self.view_arrays()
        status: int = self.machine.grow(
            self.rule,
            self.setting,
            *self.constants,
            self.data,
            nodes,
            workspace,
            self.states,
            self.scratch,
            meta,
            fault,
            simulations,
            calls,
            self.rng,
        )
        return status

    def listen(self, hold: StopRequest) -> None:
        """Let a stop break off a call of the step."""
        self.data.hold = hold

    # --- nodes ----------------------------------------------------------------------

    def child(self, i: int, action: int, after: Any) -> int | None:
        """The node of next state ``after``, if there is one."""
        simulator: Simulator = self.data
        return simulator.children.get((i, action, self.problem.key_of(after)))

    def root_form(self, state: Any) -> Any:
        """The state itself."""
        return state

    def twin(self) -> Self:
        """A copy that grows by itself; states are shared, since nobody writes into them."""
        tree_copy = super().twin()
        tree_copy.views = None
        tree_copy.leaves = self.leaves.twin()  # workers are the original's
        tree_copy.set_machine(self.problem, self.data.bounds)
        tree_copy.data.children = dict(self.data.children)
        tree_copy.data.states = tree_copy.states
        return tree_copy

    # --- journeys -------------------------------------------------------------------

    def pack(self) -> PackedTree:
        """The tree as plain data, without its problem."""
        num_nodes = self.counts[0]
        packed = {
            name: value for name, value in self.__dict__.items() if name not in STAYS
        }
        return packed | {
            "nodes": tuple(
                array[: max(1, num_nodes)] if name != "table" else array
                for name, array in zip(self.nodes._fields, self.nodes, strict=True)
            ),
            "states": self.states[:num_nodes],
            "children": self.data.children,
            "bounds": self.data.bounds,
            "leaves": self.leaves.twin(),
        }

    def unpack(self, packed: PackedTree) -> None:
        """Replace the contents of this tree by a packed one; problem and hold stay."""
        numbers = dict(packed)
        children, bounds = numbers.pop("children"), numbers.pop("bounds")
        rollouts = self.__dict__.get("leaves", numbers["leaves"])
        self.__dict__.update(numbers)
        self.leaves = rollouts  # with its workers
        self.nodes = kernel.Nodes(*packed["nodes"])
        self.views = None
        hold = self.data.hold if "data" in self.__dict__ else StopRequest()
        self.set_machine(self.problem, bounds)
        self.data.children, self.data.hold = children, hold
        self.data.states = self.states

    @classmethod
    def from_packed(cls, problem: Problem, packed: PackedTree) -> Self:
        """The tree that was packed, for ``problem``."""
        tree = object.__new__(cls)
        tree.problem = problem
        tree.unpack(packed)
        return tree

    def pause_workers(self) -> None:
        """Do nothing: workers of leaves are kept until the end."""

    def close(self) -> None:
        """End the workers, if there are any."""
        self.leaves.close()
