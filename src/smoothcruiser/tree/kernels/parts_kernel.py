"""The parts of the compiled tree machine: children by a hash, and a problem's functions.

``tree.kernels.kernel`` calls them in the place of its own, which call Python. The children
of (node, action) are found by a hash of (node, action, next state). The functions of the
problem are those of tables here; a user's compiled ones take their places.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from smoothcruiser.engines.compiled.kernel import (
    allocate,
    keep,
    load,
    middle_of,
    store,
    transition,
)
from smoothcruiser.jit.build import compile_function, source_fingerprint
from smoothcruiser.jit.primitives import (
    tabular_legal,
    tabular_player,
    tabular_terminal,
)
from smoothcruiser.tree.kernels.kernel import (
    ACTION,
    EDGE,
    PARENT,
    Floats,
    Ints,
    Nodes,
    Workspace,
)
from smoothcruiser.tree.kernels.rules_kernel import bound_node
from smoothcruiser.tree.search_numbers import Setting


def state_hash(state: int) -> Any:
    """The hash of a whole number, which is the number itself."""
    return state


def same(a: Any, b: Any) -> Any:
    """Whether two states are the same."""
    return a == b


STEP, LEGAL, TERMINAL, PLAYER = (
    transition,
    tabular_legal,
    tabular_terminal,
    tabular_player,
)
ALLOCATE, LOAD, STORE, KEEP = allocate, load, store, keep
HASH, SAME = state_hash, same


def slot_of(node: int, action: int, state: Any, size: int) -> int:
    """The slot where the search for a child begins.

    This is Fibonacci hashing of the pair and the state's hash (Knuth, TAOCP
    6.4).
    """
    mixed_bits = np.uint64(HASH(state)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
        node * 31 + action
    )
    mixed_bits = (mixed_bits ^ (mixed_bits >> np.uint64(29))) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    mixed_bits = mixed_bits ^ (mixed_bits >> np.uint64(32))
    return np.int64(mixed_bits & np.uint64(size - 1))  # type: ignore[return-value]


def find_child(
    ints: Ints, table: Ints, states: Any, node: int, action: int, next_state: Any
) -> int:
    """The child's number, or -1 minus the free slot where it would go."""
    table_slot = slot_of(node, action, next_state, len(table))
    while table[table_slot] >= 0:
        child = table[table_slot]
        if (
            ints[child, PARENT] == node
            and ints[child, ACTION] == action
            and SAME(LOAD(states, child), next_state)
        ):
            return child  # type: ignore[no-any-return]
        table_slot = (table_slot + 1) & (len(table) - 1)
    return -1 - table_slot


def rehash(ints: Ints, table: Ints, states: Any, count: int) -> None:
    """Empty the hash table and fill it again; the root (node 0) needs no entry."""
    table[:] = -1
    for i in range(1, count):
        table[
            -1
            - find_child(
                ints, table, states, ints[i, PARENT], ints[i, ACTION], LOAD(states, i)
            )
        ] = i


def move_states(old_states: Any, capacity: int, count: int) -> Any:
    """Memory for ``capacity`` states that begins with the first ``count`` old ones."""
    new_states = ALLOCATE(capacity)
    for i in range(count):
        STORE(new_states, i, LOAD(old_states, i))
    return new_states


def find_latest(
    data: Any, ints: Ints, table: Ints, states: Any, node: int, action: int, state: Any
) -> int:  # fmt: skip
    """``find_child``; the latest child is tried first, the only one of a certain move."""
    latest_child = ints[node, EDGE + (ints.shape[1] - EDGE) // 2 + action]
    if latest_child >= 0 and SAME(LOAD(states, latest_child), state):
        return latest_child  # type: ignore[no-any-return]
    return find_child(ints, table, states, node, action, state)


def enter_slot(
    data: Any, table: Ints, slot: int, node: int, action: int, state: Any, child: int
) -> None:  # fmt: skip
    """Write a new child to its free slot."""
    table[slot] = child


def list_legal(data: Any, state: Any, acts: Ints, K: int) -> int:
    """The number of legal actions, which are written to ``acts``.

    An action is written before it is known to be legal: a branch here is mispredicted
    again and again, since boards differ.
    """
    num_legal = 0
    for a in range(K):
        acts[num_legal] = a
        if LEGAL(data, state, a):
            num_legal += 1
    return num_legal


def leaf_value(data: Any, setting: Setting, state: Any) -> tuple[float, bool]:
    """The middle of the bounds on V at a leaf, and whether they keep their claim."""
    return middle_of(
        data, state, setting.gap, setting.value_low, setting.value_high, setting.slack
    )


def bound_known(
    data: Any, workspace: Workspace, num_moves: int, state: int, ints: Ints, boxes: Floats,
    node: int,
) -> None:  # fmt: skip
    """Give a new node the bounds that are known of its state, a number."""
    bound_node(
        workspace.known, workspace.ends, num_moves, state, ints, EDGE, boxes, node
    )


def empty_table(table: Ints) -> None:
    """Forget all children."""
    table[:] = -1


def bound_root(
    data: Any, workspace: Workspace, num_moves: int, state: int, nodes: Nodes
) -> None:
    """Give the root the bounds that are known of its state."""
    bound_known(data, workspace, num_moves, state, nodes.ints, nodes.boxes, 0)


# parts of the functions that add a node, and that move nodes
NODE_PARTS, MOVE_PARTS = (
    ("LEGAL_ACTIONS", "PLAYER", "STORE"),
    ("LOAD", "STORE", "REHASH"),
)
# the parts of the machine that are made of functions of the problem
_MADE_PARTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "LEGAL_ACTIONS": (list_legal, ("LEGAL",)),
    "FIND": (find_latest, ("LOAD", "HASH", "SAME")),
    "ENTER": (enter_slot, ()),
    "REHASH": (rehash, ("LOAD", "HASH", "SAME")),
    "LEAF_VALUE": (leaf_value, ("BELOW", "ABOVE")),
    "KNOWN_BOUNDS": (bound_known, ()),
}
# those of every step, which as calls cost a tenth of a search of board games
_INLINED = ("LEGAL_ACTIONS", "FIND")
_PROBLEM_PARTS = {
    "STEP": STEP,
    "TERMINAL": TERMINAL,
    "PLAYER": PLAYER,
    "LOAD": LOAD,
    "STORE": STORE,
    "KEEP": KEEP,
}


def own_sources() -> str:
    """A fingerprint of the sources of all parts here."""
    functions = [*_PROBLEM_PARTS.values(), *(made for made, _ in _MADE_PARTS.values())]
    fingerprints = "".join(source_fingerprint(function) for function in functions)
    return hashlib.sha256(fingerprints.encode()).hexdigest()[:12]


def table_salt(*, extras: bool) -> str:
    """The name on disk of the machine over tables."""
    return f"tables_{own_sources()}" + ("_extras" if extras else "")


def choose_parts(parts: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The replacements of these names, with the salt that tells them apart."""
    chosen_parts = {name: parts[name] for name in names if name in parts}
    return chosen_parts | {"salt": parts["salt"]} if "salt" in parts else chosen_parts


def kernel_parts(parts: dict[str, Any]) -> dict[str, Any]:
    """All parts of ``tree.kernels.kernel``: functions of a problem in the place of tables'.

    A machine is cached on disk where ``parts`` has a salt, or is empty.
    """
    from smoothcruiser.jit import memory  # which imports Numba

    made_parts = {
        name: compile_function(
            function,
            inlined=name in _INLINED,
            **(choose_parts(parts, names) if set(names) & set(parts) else {}),
        )
        for name, (function, names) in _MADE_PARTS.items()
    }
    problem_parts = {
        name: parts.get(name) or compile_function(function)
        for name, function in _PROBLEM_PARTS.items()
    }
    salt = parts.get("salt", None if parts else "tables")
    salted = {} if salt is None else {"salt": f"{salt}_{own_sources()}"}
    constants = {"BOUNDED": "BOUNDED" in parts, "PRUNES": False}
    return {**problem_parts, **made_parts, **constants, **salted} | {
        "borrow_array": memory.uncounted
    }


def with_extras(
    machine_parts: dict[str, Any], by_number: bool, pick: Any = None
) -> dict[str, Any]:
    """The parts of a machine with EXTRAS; ``by_number``: states are whole numbers.

    One with the ``pick`` of a search has no name on disk.
    """
    parts = {**machine_parts, "EXTRAS": True, "PRUNES": by_number}
    salt = parts.pop("salt", None)
    if pick is not None:
        return parts | {"own_pick": compile_function(pick)}
    return parts if salt is None else parts | {"salt": f"{salt}_extras"}
