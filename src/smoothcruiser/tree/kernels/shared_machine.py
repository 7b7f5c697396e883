"""The tree machine that all users share: it calls their functions by address.

States are rows of whole numbers: [which words are floats, W, w_1, ..., w_W], and to the
machine a state is the address of W (``jit.by_address``). Two states are the same where
all words are, except that 0.0 and -0.0 are equal and NaN is equal to nothing, as in the
machine with the step inside.

Not in this file: states that hold arrays, or numbers that Python would give
another type. They have a machine of their own from the start.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.jit import by_address
from smoothcruiser.jit.build import compile_function, source_fingerprint
from smoothcruiser.jit.memory import float_at, int_at, put_int
from smoothcruiser.states.codec import NEGATIVE_ZERO, WORD
from smoothcruiser.tree.kernels import kernel
from smoothcruiser.tree.kernels.parts_kernel import (
    MOVE_PARTS,
    NODE_PARTS,
    bound_root,
    choose_parts,
    empty_table,
    find_child,
    kernel_parts,
    with_extras,
)

MOST_WORDS = 63  # bits of a mask


def load(states: Any, i: int) -> Any:
    """The address of the state in row ``i``."""
    return states.ctypes.data + (i * states.shape[1] + 1) * WORD


def store(states: Any, i: int, state: int) -> None:
    """Copy a state to row ``i``."""
    address = states.ctypes.data + (i * states.shape[1] + 1) * WORD
    if address != state:
        for w in range(int_at(state, 0) + 1):
            put_int(address, w, int_at(state, w))


def keep(states: Any, i: int, state: int) -> Any:
    """Copy a state to row ``i``, and go on with the copy."""
    address = states.ctypes.data + (i * states.shape[1] + 1) * WORD
    if address != state:
        for w in range(int_at(state, 0) + 1):
            put_int(address, w, int_at(state, w))
    return address


def state_hash(state: int) -> Any:
    """A hash of words; 0.0 and -0.0 have the same."""
    mixed_bits = 0
    for w in range(1, int_at(state, 0) + 1):
        word = int_at(state, w)
        mixed_bits = 1000003 * mixed_bits + (0 if word == NEGATIVE_ZERO else word)
    return mixed_bits


def same(stored: int, compared: int) -> bool:
    """Whether a stored state is equal to another one."""
    float_mask = int_at(stored, -1)
    for w in range(1, int_at(stored, 0) + 1):
        if (float_mask >> (w - 1)) & 1:
            if float_at(stored, w) != float_at(compared, w):
                return False
        elif int_at(stored, w) != int_at(compared, w):
            return False
    return True


def _machine_parts() -> dict[str, Any]:
    row_functions = {
        "LOAD": load,
        "STORE": store,
        "KEEP": keep,
        "HASH": state_hash,
        "SAME": same,
    }
    machine_parts = by_address.parts()
    machine_parts |= {
        name: compile_function(function) for name, function in row_functions.items()
    }
    machine_parts["salt"] += f"_{source_fingerprint(load)}"
    del machine_parts["FRAGILE"]
    return machine_parts


class RowMachine:
    """The shared machine with the functions of one problem, for one tree."""

    def __init__(self, spoken: Any, state: Any, extras: bool) -> None:
        """``state`` is the root's."""
        self.spoken = spoken
        self.room, self.root = spoken.buffer(), spoken.words(state)
        self.mask = sum(
            1 << w for w, is_float in enumerate(spoken.codec.floats) if is_float
        )
        self.parts = parts = _machine_parts()
        machine_parts = kernel_parts(parts)
        grow_parts = (
            with_extras(machine_parts, by_number=False) if extras else machine_parts
        )
        self.grow = compile_function(kernel.grow, nogil=True, **grow_parts)
        self.add_node = compile_function(
            kernel.add_node, **choose_parts(machine_parts, NODE_PARTS)
        )
        self.compact = compile_function(
            kernel.compact, **choose_parts(machine_parts, MOVE_PARTS)
        )
        self.rehash = machine_parts["REHASH"]
        self._find = compile_function(
            find_child, **choose_parts(parts, ("LOAD", "HASH", "SAME"))
        )

    forget_children = staticmethod(empty_table)
    bound_root = staticmethod(bound_root)

    @property
    def data(self) -> tuple[int, int]:
        """The machine's data argument."""
        return self.spoken.address, int(self.room.ctypes.data)

    def twin(self) -> RowMachine:
        """The machine for a tree that grows at the same time."""
        machine_copy: RowMachine = object.__new__(RowMachine)
        machine_copy.__dict__.update(self.__dict__)
        machine_copy.room = self.spoken.buffer()
        return machine_copy

    def allocate(self, capacity: int) -> Any:
        """Memory for ``capacity`` states."""
        state_rows = np.zeros((capacity, 2 + self.spoken.size), dtype=np.int64)
        state_rows[:, 0], state_rows[:, 1] = self.mask, self.spoken.size
        return state_rows

    def move_states(self, old: Any, capacity: int, count: int) -> Any:
        """Memory for states that begins with the first ``count`` of ``old``."""
        state_rows = self.allocate(capacity)
        state_rows[:count] = old[:count]
        return state_rows

    def load(self, states: Any, i: int) -> Any:
        """The state in row ``i``, for Python."""
        return self.spoken.codec.decode(state_words(states[i : i + 1]))[0]

    def find_child(
        self, ints: Any, table: Any, states: Any, node: int, action: int, after: Any
    ) -> int:
        """As in ``kernel``, for a state of Python."""
        after_words = self.spoken.words(after)
        if self.spoken.codec.decode(after_words[None, 1:]) != [after]:
            return -1  # of another type
        address = int(after_words.ctypes.data)
        return int(self._find(ints, table, states, node, action, address))


def state_words(rows: Any) -> Any:
    """The words of the states in rows of this machine."""
    return rows[:, 2:]
