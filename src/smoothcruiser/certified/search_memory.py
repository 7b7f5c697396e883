"""The memory of certified search: the states seen, and the graph of their pairs.

The graph holds pairs and outcomes, and grows by doubling. The memory also
counts the calls of the step behind it, over all queries.

This file decides which states are one node and when arrays grow. It leaves out
the data layout (``graph``), how samples are entered (``memory_kernel``), bounds
(``sweeps_kernel``) and where outcomes come from (``sampler``).
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.certified.bounds import BOUNDS, DEFAULT
from smoothcruiser.certified.bounds.base import Bound
from smoothcruiser.certified.graph import (
    END,
    END_RAW,
    ENTRIES,
    ENTRY,
    HASHED,
    IDLE,
    MOST,
    NODE,
    SAMPLED,
    STREAM_BYTES,
    UNMET,
    Entries,
    empty_graph,
    free_entries,
    free_slots,
)
from smoothcruiser.certified.query_limits import (
    PYTHON_BYTES,
    MemoryFull,
    MemoryLimit,
    Target,
    size_of,
)
from smoothcruiser.certified.sweeps.memory_kernel import SHORT_SCAN, room_of
from smoothcruiser.certified.sweeps.ranges import box
from smoothcruiser.errors import OracleError
from smoothcruiser.problem.bounds import Interval, bounds_at
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import answers_changed
from smoothcruiser.states.identity import check_recognizable, identical, is_fixed
from smoothcruiser.states.table import NumberNodes, NumberStates, copy_larger, larger

# states: their mover and legal actions are requested again after a query
ASKED_AGAIN = 512
# of a state that is a number, twice: its number, and slots that are 3/8 full or more
NUMBER_BYTES = 2 * (8 + 11)
ASKED_BOUNDS = 16  # the first states, for bounds on V: a critic may be slow


class KeyedState(NamedTuple):
    """A node of a state that is no plain value, with data to compare later states."""

    node: int
    state: Any
    profile: tuple[int, ...] | None


class Memory:
    """States, pairs and outcomes seen so far; it owns the arrays."""

    def __init__(
        self,
        problem: Problem,
        bound: Bound = BOUNDS[DEFAULT],
        room: MemoryLimit = MemoryLimit(),
    ) -> None:
        self.problem, self.room = problem, room
        self.states: Any = [None]  # the state of each node; node 0 is the end
        self.nodes: Any = {}  # of plain values: their keys suffice
        self.others: dict[Any, KeyedState] = {}  # of all others, by their keys
        self.terminal_values: dict[
            Any, Any
        ] = {}  # plain values that are terminal, by their keys
        self._types: set[type] = set()  # of the states checked so far
        self._state_bytes = PYTHON_BYTES  # of the largest state measured
        self._fit = 0  # so many states fit for certain
        self.num_pairs = 0
        self.num_calls = 0  # of the step, and rows of outcomes= that were read
        self.num_rows = 0  # of these, the rows
        self._boxes: dict[int, tuple[float, float, float, float]] = {}
        # with a horizon: the user's bounds on V at each node, if there are any
        self.claims: Floats = np.zeros((0, 2))
        self.stream_bytes = STREAM_BYTES  # per pair, for its stream
        self.layer_bytes = 0  # of the bounds by steps left, which a region keeps
        self.key_bytes = 0  # of the states as words, which a sampler keeps
        # bounds on V at some nodes that rest on other samples than those of pairs
        self.other_ends: dict[int, Interval] = {}
        # (state, range of V, the user's bounds within it) of the first ones
        self._claims: list[tuple[Any, Interval | None, Interval]] = []
        self.weights = np.array(problem.operator.weights(problem.num_actions))
        self.graph = empty_graph(bound.fields, problem.num_actions)

    def hold_numbers(self) -> None:
        """Keep states as bare numbers: all of them are whole numbers of 64 bits."""
        if isinstance(self.states, NumberStates):
            return
        known_states, known_nodes = self.states[1:], self.nodes
        self.states, self._state_bytes = NumberStates(), 0
        self.states.extend(known_states)
        if self.problem.key is None:
            self.nodes = NumberNodes(self.states)
            self.nodes.update(known_nodes.items())
        else:
            self._state_bytes = PYTHON_BYTES

    @property
    def num_nodes(self) -> int:
        """The number of nodes, the end included."""
        return len(self.states)

    @property
    def num_entries(self) -> int:
        """The number of distinct outcomes seen."""
        return int(self.graph.pairs["length"][: self.num_pairs].sum())

    @property
    def num_bytes(self) -> int:
        """The size of the arrays in bytes."""
        number_bytes = (
            self.states.nbytes if isinstance(self.states, NumberStates) else 0
        )
        array_bytes = sum(array.nbytes for array in self.graph)
        return array_bytes + number_bytes + self.claims.nbytes

    @property
    def num_kept(self) -> int:
        """The number of states that are remembered, ends included."""
        return len(self.nodes) + len(self.others)

    def _count_fitting(self) -> int:
        """A number of states that have room: the real one may be larger."""
        nodes, pairs = self.graph.nodes, self.graph.pairs
        # every array that grows is there twice for a moment
        free_bytes = (
            self.room.max_bytes
            - self._used_bytes(0)
            - 2 * (nodes.nbytes + pairs.nbytes)
        )
        pair_bytes = pairs.itemsize + self.stream_bytes
        state_bytes = self._state_bytes + 2 * (
            nodes.itemsize + self.problem.num_actions * pair_bytes
        )
        if isinstance(self.states, NumberStates):
            free_bytes -= 2 * self.states.nbytes
            state_bytes += NUMBER_BYTES
        num_fitting = max(0, int(free_bytes // state_bytes))
        if self.room.max_states is None:
            return self.num_kept + num_fitting
        return min(self.num_kept + num_fitting, self.room.max_states)

    def is_crowded(self, more_states: int) -> bool:
        """Whether there may be no room for so many new states."""
        if self.num_kept + more_states > self._fit:
            self._fit = self._count_fitting()
        return self.num_kept + more_states > self._fit

    def _used_bytes(self, more_states: int) -> int:
        """The bytes of the arrays, of the pairs' streams, and of the states."""
        state_bytes = self._state_bytes * (self.num_kept + more_states)
        array_bytes = self.num_bytes + self.layer_bytes + self.key_bytes
        return array_bytes + self.stream_bytes * self.num_pairs + state_bytes

    def has_bytes(self, more_bytes: int) -> bool:
        """Whether so many bytes more are allowed."""
        return self._used_bytes(0) + more_bytes <= self.room.max_bytes

    def _check_states(self, more_states: int) -> None:
        """Raise ``MemoryFull`` where there is no room for so many new states."""
        if more_states == 0 or not self.is_crowded(more_states):
            return
        max_states = self.room.max_states
        if max_states is not None and self.num_kept + more_states > max_states:
            raise MemoryFull("max_states")
        grown_bytes = 0
        pairs_needed = self.num_pairs + more_states * self.problem.num_actions
        for array, size_needed in (
            (self.graph.nodes, len(self.states) + more_states),
            (self.graph.pairs, pairs_needed),
        ):
            if size_needed > len(array):
                grown_bytes += larger(len(array), size_needed) * array.itemsize
        if isinstance(self.states, NumberStates):
            grown_bytes += self.states.grown_bytes(more_states)
        grown_bytes += self.stream_bytes * more_states * self.problem.num_actions
        self._check_indices(pairs_needed)
        if self._used_bytes(more_states) + grown_bytes > self.room.max_bytes:
            raise MemoryFull(self.room.why)

    def _check_indices(self, size_needed: int) -> None:
        """Raise ``MemoryFull`` where an array would have places that no index has."""
        if size_needed > MOST:
            raise MemoryFull("indices")

    def admit(self, raws: Ints) -> None:
        """Raise ``MemoryFull`` where the next states of samples would not fit.

        ``raws`` are states as whole numbers. It is called before they are entered, so
        that a batch fits as a whole or waits.
        """
        has_keys, new_keys = self.problem.key is not None, set()
        if isinstance(self.nodes, NumberNodes):
            return self._check_states(len(self.states.find_numbers(raws)[1]))
        for state in np.unique(raws).tolist():
            if state == END_RAW:
                continue
            key: Any = self.problem.key_of(state) if has_keys else state
            if key not in self.nodes and key not in self.others:
                new_keys.add(key)
        self._check_states(len(new_keys))

    def pairs_of(self, node: int) -> Any:
        """The pairs of a node, as a view."""
        first_pair = self.graph.nodes[node]["first"]
        num_pairs = self.graph.nodes[node]["size"]
        return self.graph.pairs[first_pair : first_pair + num_pairs]

    def interval(self, node: int) -> tuple[float, float]:
        """Return the bounds on the value of a node, those from elsewhere included."""
        node_row = self.graph.nodes[node]
        lower_bound, upper_bound = float(node_row["lower"]), float(node_row["upper"])
        if node in self.other_ends:
            other_low, other_high = self.other_ends[node]
            return max(lower_bound, other_low), min(upper_bound, other_high)
        return lower_bound, upper_bound

    def half_width(self, node: int, target: Target) -> float:
        """Return half the width of the node's interval, or of its widest action's.

        The value's is no wider than that but for rounding, which counts too.
        """
        lower_bound, upper_bound = self.interval(node)
        width = upper_bound - lower_bound
        if target == "value":
            return 0.5 * width
        pairs = self.pairs_of(node)
        return 0.5 * max(width, float((pairs["q_upper"] - pairs["q_lower"]).max()))

    def node_of(self, state: Any, *, admitted: bool = False) -> int:
        """Return the node of a state; 0 if it is over.

        A new state gets a new node. A state that is no plain value may have the
        key of another without being the same, so mover, legal actions and end
        are compared whenever a key comes back. Raises ``MemoryFull`` for a new state
        that has no room, unless it was ``admitted``.
        """
        problem = self.problem
        key: Any = problem.key_of(state)
        if problem.key is None and is_fixed(state):
            known_node = self.nodes.get(key)
            if known_node is None:
                self._check_states(0 if admitted else 1)
                (known_node,) = self.add_nodes([state])
                self.nodes[key] = known_node
                if known_node == END:
                    self.terminal_values[key] = state
            else:
                known_state = self.states[known_node]
                if known_node == END:
                    known_state = self.terminal_values.get(key, state)
                if not identical(state, known_state):
                    problem.check_alike(
                        state, known_state, self.profile_of(known_node)
                    )
            return int(known_node)
        if key not in self.others:
            self._check_states(0 if admitted else 1)
            (node,) = self.add_nodes([state])
            self.others[key] = KeyedState(node, state, self.profile_of(node))
            return node
        seen_state = self.others[key]
        problem.check_alike(state, seen_state.state, seen_state.profile)
        return seen_state.node

    def find_node(self, state: Any) -> int | None:
        """The node of a state; None if it was never seen."""
        key = self.problem.key_of(state)
        seen_state = self.others.get(key)
        return self.nodes.get(key) if seen_state is None else seen_state.node

    def list_nodes(self) -> list[tuple[Any, int]]:
        """The key and the node of every state that is recognized."""
        other_nodes = [(key, seen.node) for key, seen in self.others.items()]
        return [*self.nodes.items(), *other_nodes]

    def check_untouched(self, deadline: float = math.inf) -> None:
        """Refuse a state if its key has changed because a step wrote into it.

        Also refuse companion functions if their answers have changed; bounds on V are
        requested again until ``time.perf_counter()`` passes ``deadline``.
        """
        problem = self.problem
        if problem.tables is None:
            for node in range(1, self.num_nodes, 1 + self.num_nodes // ASKED_AGAIN):
                if problem.profile(self.states[node]) != self.profile_of(node):
                    raise answers_changed(self.states[node])
        for state, value_range, claimed_interval in self._claims:
            if time.perf_counter() > deadline:
                break
            for _ in range(2):  # answers that take turns differ from one of two
                if bounds_at(problem, state, value_range) != claimed_interval:
                    raise answers_changed(state)
        for key, seen_state in self.others.items():
            if seen_state.node == END:
                continue
            if self.others.get(problem.key_of(seen_state.state)) is not seen_state:
                raise OracleError(
                    "The oracle changed the state it was given: a state with key "
                    f"{key!r} has become {seen_state.state!r}. "
                    "Copy the state in step, change the copy and return it: other "
                    "samples start from the same state."
                )

    def profile_of(self, node: int) -> tuple[int, ...] | None:
        """Return the stored ``Problem.profile`` of the node's state."""
        if node == END:
            return None
        first_pair, num_pairs, sign = (
            self.graph.nodes[node][name] for name in ("first", "size", "sign")
        )
        return (
            1 if sign > 0.0 else 2,
            *self.graph.pairs["action"][first_pair : first_pair + num_pairs].tolist(),
        )

    def _check_recognizable(self, state: Any) -> None:
        """Refuse states that would not be recognized when they come back.

        It checks the first state of each type, then one at every power of two.
        """
        num_states = len(self.states)
        if type(state) not in self._types or num_states & (num_states - 1) == 0:
            self._types.add(type(state))
            if not isinstance(self.nodes, NumberNodes):
                state_bytes = PYTHON_BYTES + size_of(state)
                self._state_bytes = max(self._state_bytes, state_bytes)
            check_recognizable(state, self.problem.key_of(state))

    def add_nodes(self, states: list[Any]) -> list[int]:
        """Return the nodes of new states; terminal ones share the end.

        It adds many at a time, because NumPy is slow one by one.
        """
        problem = self.problem
        first_node, first_pair = len(self.states), self.num_pairs
        node_rows: list[tuple[Any, ...]] = []
        new_states: list[Any] = []
        claims: list[Interval] = []
        pair_owners: list[int] = []
        pair_actions: list[int] = []
        state_nodes: list[int] = []
        for state in states:
            self._check_recognizable(state)
            if problem.is_terminal(state):
                state_nodes.append(END)
                continue
            player, actions = problem.mover(state), problem.legal_actions(state)
            if player not in self._boxes:
                self._boxes[player] = box(problem.facts, player, problem.horizon)
            new_node = first_node + len(node_rows)
            v_low, v_high, q_low, q_high = self._boxes[player]
            if problem.value_gap is not None:
                # a horizon has a range for each number of steps left (``layers``)
                value_range = None if problem.horizon else (v_low, v_high)
                claim_low, claim_high = bounds_at(problem, state, value_range)
                if len(self._claims) < ASKED_BOUNDS:
                    self._claims.append((state, value_range, (claim_low, claim_high)))
                claims.append((claim_low, claim_high))
                if value_range is not None:
                    v_low, v_high = claim_low, claim_high
            pair_start, sign = first_pair + len(pair_actions), 1 if player == 1 else -1
            node_rows.append(
                (
                    *(v_low, v_high, q_low, q_high, 0.0, 0.0),
                    *(pair_start, len(actions), UNMET, 0, sign, 0, SAMPLED),
                )
            )
            pair_owners += [new_node] * len(actions)
            pair_actions += actions
            new_states.append(state)
            state_nodes.append(new_node)
        self.states.extend(new_states)
        self.num_pairs += len(pair_actions)
        self._grow("nodes", first_node + len(node_rows))
        self._grow("pairs", self.num_pairs)
        nodes, pairs = self.graph.nodes, self.graph.pairs[first_pair : self.num_pairs]
        nodes[first_node : first_node + len(node_rows)] = np.array(node_rows, NODE)
        pairs["node"], pairs["action"] = pair_owners, pair_actions
        if problem.horizon and claims:
            self.claims = copy_larger(self.claims, first_node + len(node_rows))
            self.claims[first_node : first_node + len(node_rows)] = claims
        pairs["q_lower"] = nodes["q_low"][pair_owners]
        pairs["q_upper"] = nodes["q_high"][pair_owners]
        return state_nodes

    def target_nodes(self, numbers: Ints) -> Ints:
        """Return the nodes of next states, numbers of a compiled step or END_RAW.

        New ones get their nodes in the order of their numbers.
        """
        nodes, new_numbers = self.states.find_numbers(numbers)
        if len(new_numbers) == 0:
            return nodes  # type: ignore[no-any-return]
        if self.problem.key is None:
            new_nodes = self.add_nodes(new_numbers.tolist())
        else:
            new_nodes = [
                self.node_of(number, admitted=True) for number in new_numbers.tolist()
            ]
        self.states.stand_for(new_numbers[:, None], np.array(new_nodes))
        return self.states.find_numbers(numbers)[0]  # type: ignore[no-any-return]

    def add_plain(self, states: list[Any]) -> list[int]:
        """Return the nodes of new states that are plain values and have room."""
        new_nodes = self.add_nodes(states)
        for state, node in zip(states, new_nodes, strict=True):
            self.nodes[state] = node
            if node == END:
                self.terminal_values[state] = state
        return new_nodes

    def enter_rows(
        self,
        pairs: Ints,
        lengths: Ints,
        targets: Ints,
        rewards: Floats,
        weights: Floats,
    ) -> None:
        """Enter whole rows of a known model, one for each pair.

        The outcomes of a row are neighbours. Raises ``MemoryFull`` where the memory may
        not hold that much, and enters none.
        """
        self.check_turns(np.repeat(pairs, lengths), targets)
        entries_used = int(self.graph.sizes[ENTRIES])
        entries_needed = entries_used + len(targets)
        pool_size = self.graph.entries.size
        if entries_needed > pool_size:
            grown_bytes = larger(pool_size, entries_needed) * ENTRY.itemsize
            if self._used_bytes(0) + grown_bytes > self.room.max_bytes:
                raise MemoryFull(self.room.why)
            self._fit = 0
            columns = (copy_larger(c, entries_needed) for c in self.graph.entries)
            self.graph = self.graph._replace(entries=Entries(*columns))
        g, entry_ends = self.graph, entries_used + np.cumsum(lengths)
        row_columns = g.entries.at(slice(entries_used, entries_needed))
        row_columns.target[:], row_columns.reward[:] = targets, rewards
        row_columns.weight[:] = weights
        g.pairs["start"][pairs], g.pairs["total"][pairs] = entry_ends - lengths, 1.0
        g.pairs["length"][pairs] = lengths
        g.nodes["stale"][g.pairs["node"][pairs]] |= SAMPLED
        g.sizes[ENTRIES] = entries_needed

    def check_turns(self, pairs: Ints, targets: Ints) -> None:
        """Refuse a move that keeps the turn where turns were declared to alternate.

        The bounds rely on that declaration.
        """
        if not self.problem.facts.alternating:
            return
        g = self.graph
        turn_kept = (targets != END) & (
            g.nodes["sign"][g.pairs["node"][pairs]] == g.nodes["sign"][targets]
        )
        if turn_kept.any():
            bad_pair = g.pairs[pairs[np.flatnonzero(turn_kept)[0]]]
            raise OracleError(
                f"alternating=True, but action {bad_pair['action']} in state "
                f"{self.states[bad_pair['node']]!r} keeps the turn; drop alternating=."
            )

    def make_room(self, loops: Any) -> None:
        """Make room for entries, and in the hash table, where they are nearly full.

        Raises ``MemoryFull`` where the memory may not hold that much.
        """
        g = self.graph
        longest_row = int(g.pairs["length"][: self.num_pairs].max(initial=1))
        entries_needed = room_of(longest_row + 1) + 64
        entries_full = int(g.sizes[ENTRIES]) + entries_needed > g.entries.size
        live_entries = int(g.sizes[ENTRIES] - g.sizes[IDLE])
        pool_size = larger(live_entries, live_entries + entries_needed)
        slots_crowded = 2 * (int(g.sizes[HASHED]) + 2 * SHORT_SCAN) > len(g.slots)
        grown_bytes = 2 * g.slots.nbytes if slots_crowded else 0
        grown_bytes += pool_size * ENTRY.itemsize if entries_full else 0
        self._check_indices(pool_size)
        if self._used_bytes(0) + grown_bytes > self.room.max_bytes:
            raise MemoryFull(self.room.why)
        self._fit = 0
        if entries_full:
            self.repack(pool_size, loops)
        if slots_crowded:
            self.graph = self.graph._replace(slots=free_slots(2 * len(g.slots)))
            loops.rehash(self.graph)

    def repack(self, pool_size: int, loops: Any) -> None:
        """Pack the outcomes into a pool of ``pool_size`` entries."""
        entry_pool = free_entries(pool_size)
        loops.repack(self.graph, entry_pool)
        self.graph = self.graph._replace(entries=entry_pool)

    def _grow(self, array_name: str, size_needed: int) -> None:
        larger_array = copy_larger(getattr(self.graph, array_name), size_needed)
        self.graph = self.graph._replace(**{array_name: larger_array})
