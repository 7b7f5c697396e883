"""The tree machine that all users share: it calls their functions by address.

States are rows of whole numbers: [which words are floats, W, w_1, ..., w_W], and to the
machine a state is the address of W (``jit.by_address``). Two states are the same where
all words are, except that 0.0 and -0.0 are equal and NaN is equal to nothing, as in the
machine with the step inside.

What this file leaves out: states that hold arrays, or numbers that Python would give
another type. They have a machine of their own from the start.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.jit import by_address
from smoothcruiser.jit.build import compiled, source_fingerprint
from smoothcruiser.jit.memory import float_at, int_at, put_int
from smoothcruiser.tree import kernel

WORD = 8  # bytes
MOST_WORDS = 63  # bits of a mask
NEGATIVE_ZERO = -(2**63)  # the bits of -0.0


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
    mixed = 0
    for w in range(1, int_at(state, 0) + 1):
        word = int_at(state, w)
        mixed = 1000003 * mixed + (0 if word == NEGATIVE_ZERO else word)
    return mixed


def same(stored: int, other: int) -> bool:
    """Whether a stored state is equal to another one."""
    floats = int_at(stored, -1)
    for w in range(1, int_at(stored, 0) + 1):
        if (floats >> (w - 1)) & 1:
            if float_at(stored, w) != float_at(other, w):
                return False
        elif int_at(stored, w) != int_at(other, w):
            return False
    return True


def _parts() -> dict[str, Any]:
    own = {"LOAD": load, "STORE": store, "KEEP": keep, "HASH": state_hash, "SAME": same}
    parts = by_address.parts()
    parts |= {name: compiled(function) for name, function in own.items()}
    parts["salt"] += f"_{source_fingerprint(load)}"
    del parts["FRAGILE"]
    return parts


class RowMachine:
    """The shared machine with the functions of one problem, for one tree."""

    def __init__(self, spoken: Any, state: Any, extras: bool) -> None:
        """``state`` is the root's."""
        self.spoken = spoken
        self.room, self.root = spoken.buffer(), spoken.words(state)
        self.mask = sum(1 << w for w, real in enumerate(spoken.floats()) if real)
        self.parts = parts = _parts()
        some = {name: parts[name] for name in ("LOAD", "STORE", "HASH", "SAME", "salt")}
        few = {name: parts[name] for name in ("LEGAL", "PLAYER", "STORE", "salt")}
        every = kernel.with_extras(parts) if extras else parts
        self.grow = compiled(kernel.grow, nogil=True, **every)
        self.add_node = compiled(kernel.add_node, **few)
        self.rehash = compiled(kernel.rehash, **some)
        self.compact = compiled(kernel.compact, **some)
        self._find = compiled(kernel.find_child, **some)

    @property
    def data(self) -> tuple[int, int]:
        """The machine's data argument."""
        return self.spoken.address, int(self.room.ctypes.data)

    def twin(self) -> RowMachine:
        """The machine for a tree that grows at the same time."""
        other: RowMachine = object.__new__(RowMachine)
        other.__dict__.update(self.__dict__)
        other.room = self.spoken.buffer()
        return other

    def allocate(self, room: int) -> Any:
        """Room for states."""
        rows = np.zeros((room, 2 + self.spoken.size), dtype=np.int64)
        rows[:, 0], rows[:, 1] = self.mask, self.spoken.size
        return rows

    def move_states(self, old: Any, room: int, count: int) -> Any:
        """Room for states that begins with the first ``count`` of ``old``."""
        rows = self.allocate(room)
        rows[:count] = old[:count]
        return rows

    def load(self, states: Any, i: int) -> Any:
        """The state in row ``i``, for Python."""
        return self.spoken.state(states[i, 2:])

    def find_child(
        self, ints: Any, table: Any, states: Any, node: int, action: int, after: Any
    ) -> int:
        """As in ``kernel``, for a state of Python."""
        words = self.spoken.words(after)
        if self.spoken.state(words[1:]) != after:  # of another type
            return -1
        address = int(words.ctypes.data)
        return int(self._find(ints, table, states, node, action, address))


def as_columns(rows: Any, columns: Any, count: int) -> None:
    """Copy rows of words to the columns of ``jit.state_columns``."""
    for w, column in enumerate(_leaves(columns), start=2):
        words = np.ascontiguousarray(rows[:count, w])
        column[:count] = words.view(np.float64) if column.dtype.kind == "f" else words


def _leaves(columns: Any) -> list[Any]:
    if isinstance(columns, tuple):
        return [leaf for column in columns for leaf in _leaves(column)]
    return [columns]


def copied(stored: Any) -> Any:
    """A copy of a store of states, which is an array or a tuple of stores."""
    return (
        tuple(copied(part) for part in stored)
        if isinstance(stored, tuple)
        else stored.copy()
    )
