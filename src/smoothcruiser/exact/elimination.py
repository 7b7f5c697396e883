"""Linear systems of policies, x = income + W x, by elimination in a narrow order.

Where moves are local (a chain, a ring, a queue, a grid of few columns) the states can be
put in an order in which every edge is short. With edges of at most b places, elimination
costs S b^2 multiplications instead of S^3/3, and its result is the policy's value to
rounding, however slowly the model mixes. Sweeps need about 1/(1 - discount) passes for
that.

The order is that of levels of the model's graph (``level_order``), so it does not depend
on how the states are numbered, and it serves all policies. ``settle`` uses it once more:
one sweep of T in place carries news along the whole order, where a sweep of T carries
them by one move. Nothing here is trusted: ``solver`` bounds the error of whatever comes
out by a sweep of its own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from weakref import WeakKeyDictionary

import numpy as np

from smoothcruiser.exact import elimination_kernel as kernel
from smoothcruiser.exact.loops import Model, Packed
from smoothcruiser.jit.build import compile_function
from smoothcruiser.problem.tabular import Floats, Ints, Tables

# Multiplications of an elimination in the time in which a sweep reads one number: its
# inner loop has no indices.
FASTER = 4.0
MOST_ENTRIES = 2**24  # of the eliminated rows, 128 MB
LANES = 8  # numbers in the widest registers: loops without a rest are faster
WIDEST = 256  # half bandwidth; with all those entries it takes a second or two


@dataclass(frozen=True, eq=False)
class NarrowOrder:
    """An order of the S states in which no edge is longer than ``half``."""

    order: Ints  # (S,): the state at each place
    place: Ints  # (S,): the place of each state
    half: int

    @property
    def cost(self) -> float:
        """The cost of one elimination, in numbers that a sweep would read."""
        return len(self.order) * (self.half + 1.0) ** 2 / FASTER

    def allocate_rows(self) -> Floats:
        """Memory for the eliminated rows, which every policy of a search uses again.

        Their length is a multiple of ``LANES``, and three zeros end each.
        """
        row_width = -(-max(self.half, 1) // LANES) * LANES
        return np.empty((len(self.order), row_width + 4))

    def solve(self, packed: Packed, room: Floats) -> Floats | None:
        """The fixed point of a policy's sweep; None where it is not finite."""
        x = np.empty(len(self.order))
        compile_function(kernel.eliminate)(packed, self.order, self.place, room, x)
        return x if bool(np.all(np.isfinite(x))) else None

    def settle(self, m: Model, v: Floats, sweeps: int) -> None:
        """Sweep T for Max in place, back and forth along the order."""
        compile_function(kernel.settle)(m, self.order, v, sweeps)


_orders: WeakKeyDictionary[Tables, NarrowOrder | None] = WeakKeyDictionary()


def narrow(tables: Tables, m: Model) -> NarrowOrder | None:
    """The narrow order of a model, found once; None where there is none."""
    if tables not in _orders:
        _orders[tables] = None if m.full else _find_narrow(m)
    return _orders[tables]


def _find_narrow(m: Model) -> NarrowOrder | None:
    num_states, num_actions = m.live.shape
    start, target = m.start.astype(np.int64), m.next_state
    if not m.live.all():  # rows that are not live may lead anywhere
        row_lengths = np.where(m.live.reshape(-1), np.diff(start), 0)
        target = target[np.repeat(m.live.reshape(-1), np.diff(start))]
        start = np.concatenate([[0], np.cumsum(row_lengths)]).astype(np.int64)
    start = start[::num_actions].copy()
    max_width = min(WIDEST, MOST_ENTRIES // num_states)
    if compile_function(kernel.widest_level)(start, target, max_width) > max_width:
        return None
    state_order, state_place = (
        np.empty(num_states, dtype=np.int64),
        np.empty(num_states, dtype=np.int64),
    )
    half_width = int(
        compile_function(kernel.level_order)(start, target, state_order, state_place)
    )
    return (
        NarrowOrder(state_order, state_place, half_width)
        if half_width <= max_width
        else None
    )


@cache
def _compile_seconds() -> list[float]:
    """The seconds of compiling, until they are taken."""
    start_time = time.perf_counter()
    one_value, live_pairs = np.ones(1), np.ones((1, 1), dtype=np.bool_)
    row_start, next_index = np.arange(2, dtype=np.uint64), np.zeros(1, dtype=np.uint32)
    m = Model(
        row_start,
        next_index,
        one_value,
        one_value,
        live_pairs,
        one_value,
        one_value,
        one_value.copy(),
        False,
        0,
        0.0,
        0.5,
    )
    narrow_order = _find_narrow(m)
    assert narrow_order is not None
    narrow_order.solve(
        Packed(row_start, next_index, 0.5 * one_value, one_value),
        narrow_order.allocate_rows(),
    )
    narrow_order.settle(m, one_value.copy(), 1)
    return [time.perf_counter() - start_time]


def warm() -> float:
    """The seconds that compiling took; 0 after the first call."""
    pending_seconds = _compile_seconds()
    return pending_seconds.pop() if pending_seconds else 0.0
