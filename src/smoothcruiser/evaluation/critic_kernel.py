"""Critics as machine code: a value by state number, or by state in a hash table.

Every critic that compiled code reads is a function ``value(data, steps_left, state)``.
``steps_left`` is -1 where there is no horizon. Here are the two that need no function
of the user's:

  array_value   data: (T, S) values; row ``steps_left``, or the only one; column the
                number of the state
  keyed_value   data: (slots, rows, values); ``rows`` has the words of states, ``slots``
                is their hash table, ``values`` is (T, S + 1): the last column is the
                value of states that are not there

NaN says that a state has no value; whoever reads it complains. ``HASH``, ``SAME`` and
``LOAD`` stand for the functions of one form of state (``states.codec``).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.states.table_kernel import mix_word
from smoothcruiser.tree.kernels.parts_kernel import same, state_hash

HASH, SAME = state_hash, same
FREE = -1  # in the place of a row number, in a slot


def load_row(rows: Any, i: int) -> Any:
    """The state in row ``i``."""
    return rows[i]


LOAD = load_row


def stage_of(values: Any, steps_left: int) -> int:
    """The row of ``values`` for so many steps left."""
    return max(0, min(steps_left, len(values) - 1))


def array_value(data: Any, steps_left: int, state: Any) -> float:
    """The value of a state that is a number; NaN where it is no column."""
    if state < 0 or state >= data.shape[1]:
        return math.nan
    return data[stage_of(data, steps_left), state]  # type: ignore[no-any-return]


def find_place(slots: Any, rows: Any, state: Any) -> int:
    """The slot of a state: the one that holds it, or the free one for it."""
    last_slot = len(slots) - 1
    slot = np.int64(mix_word(np.uint64(HASH(state))) & np.uint64(last_slot))
    while slots[slot] != FREE:
        if SAME(LOAD(rows, slots[slot]), state):
            break
        slot = (slot + 1) & last_slot
    return slot  # type: ignore[return-value]


def enter_rows(slots: Any, rows: Any) -> None:
    """Fill the hash table of all rows; of equal ones the first stays."""
    for i in range(len(rows)):
        place = find_place(slots, rows, LOAD(rows, i))
        if slots[place] == FREE:
            slots[place] = i


def keyed_value(data: Any, steps_left: int, state: Any) -> float:
    """The value of a state by its row, that of absent states where it has none."""
    slots, rows, values = data
    column = slots[find_place(slots, rows, state)]
    if column == FREE:
        column = values.shape[1] - 1
    return values[stage_of(values, steps_left), column]  # type: ignore[no-any-return]


class KeyedFunctions(NamedTuple):
    """The compiled functions of one form of state."""

    enter_rows: Any
    find_place: Any
    value: Any


@cache
def keyed_functions(codec: Any) -> KeyedFunctions:
    """The compiled functions over states of ``codec``, a ``states.codec.StateCodec``."""
    from smoothcruiser.jit.build import compile_function

    parts = {name: codec.row_parts[name] for name in ("LOAD", "HASH", "SAME")}
    return KeyedFunctions(
        compile_function(enter_rows, **parts),
        compile_function(find_place, **parts),
        compile_function(keyed_value, **parts),
    )


def make_slots(codec: Any, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The hash table of rows of words, at most half full."""
    num_slots = 2
    while num_slots < 2 * len(rows):
        num_slots *= 2
    slots = np.full(num_slots, FREE, np.int64)
    keyed_functions(codec).enter_rows(slots, rows)
    return slots
