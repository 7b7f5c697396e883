"""The data layout of certified search: flat arrays that compiled code reads.

A node is a state; node 0 is the end, with value 0: every terminal state and
every state after the last step. Where there is a horizon, a stage is a node
with a number of steps left; the stages of one number are neighbours
(``Layers``), and a node holds the bounds of the number under consideration. A
pair is a node with one legal action; the pairs of a node are neighbours. An
entry is a distinct outcome (next state, reward) of a pair with the number of
times it came, or with its probability where the model is known. The entries of
a pair are neighbours in a pool, in a block with room for a quarter more than
there are at the most (``memory_kernel.room_class``); a block that became too
small is given to the next pair that needs one of its size, and the pool is
packed whenever it grows.

Records are as small as their contents allow: docs/certified.md, section 9.
Indices have 32 bits, so that a memory numbers at most ``MOST`` nodes, pairs or
places in the pool. Loops name a node, a pair or an entry by its number and read
columns, ``g.pairs["total"][pair]``: compiled code finds the field of a record
there, and the interpreter a memoryview of it (``jit.forms``). Entries have
columns of their own, because records of 20 bytes have no views.

A pair has the fields below and those that its bound needs (``pair_type``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.problem.model.tabular import Ints

END = 0  # the node of every terminal state
END_RAW = -(2**63)  # the next state where the step said ``terminated``
MOST = 2**31 - 1  # nodes, pairs and places in the pool, each
# places in ``sizes``: entries used, hash slots used, entries in blocks that are free, and
# for each class of blocks 1 + the place of the first one that is free
ENTRIES, HASHED, IDLE, FREE = 0, 1, 2, 3
CLASSES = 128  # of blocks of entries: four for each power of two up to 2**31
# why the bounds of a node may have to be computed anew (``sweeps_kernel``): they moved
# when it was last its turn, it has new samples, and a bound's choices were only kept
MOVED, SAMPLED, KEPT = 1, 2, 4
UNMET = 2**31 - 1  # the depth of a node that no query has met
STREAM_BYTES = 32  # of a pair's stream: four words of 64 bits

NODE = np.dtype(
    [
        ("lower", "f8"),  # L(s)
        ("upper", "f8"),  # U(s)
        ("q_low", "f8"),  # m: no Q of this node is below
        ("q_high", "f8"),  # M
        # discounted visits of the optimistic walk from the requested state
        ("mass", "f8"),
        ("residual", "f8"),  # mass not yet passed on
        ("first", "i4"),  # the node's first pair
        ("size", "i4"),  # its number of pairs; 0 for the end
        # with a horizon: the fewest steps in which it was reached, and whether it was
        # sampled for the last step alone, so that its outcomes are rewards only
        ("depth", "i4"),
        ("last", "i1"),
        ("sign", "i1"),  # 1 where max moves, -1 where min does
        ("listed", "i1"),  # whether the current query has met it
        ("stale", "i1"),  # why its bounds may have to be computed anew: marks
    ],
    align=True,
)
STAGE = np.dtype(
    [
        ("lower", "f8"),
        ("upper", "f8"),
        ("mass", "f8"),  # visits of the optimistic walk from the requested state
        ("node", "i8"),
    ],
    align=True,
)
PAIR: tuple[tuple[str, str], ...] = (
    ("total", "f8"),  # samples; 1 where its row of a known model was read
    ("cost", "f8"),  # log(2 / (delta p_k)); 0 where outcomes are exact
    ("q_lower", "f8"),
    ("q_upper", "f8"),
    ("slope_up", "f8"),  # minus the derivative of the upper radius by n, times n**2
    ("slope_down", "f8"),
    ("policy", "f8"),  # of the optimistic walk
    ("gain", "f8"),  # by how much one more sample narrows the answer
    # its entries are start .. start + length - 1 of the pool
    ("start", "i4"),
    ("length", "i4"),
    ("node", "i4"),
    ("action", "u2"),
)
FEW_ACTIONS = 2**16  # that two bytes can number
ENTRY = np.dtype(  # as snapshots keep it: 20 bytes
    [
        ("reward", "f8"),
        ("weight", "f8"),  # times seen, or its probability
        ("target", "i4"),  # the next state's node
    ]
)
# an entry, by its pair and its place there
PLACE = np.dtype([("pair", "i4"), ("place", "i4")], align=True)


class Entries(NamedTuple):
    """The pool of entries, by column; the fields are those of ENTRY."""

    reward: Any  # (E,) of floats
    weight: Any  # (E,)
    target: Any  # (E,) of 32 bits

    @property
    def size(self) -> int:
        """The number of places."""
        return len(self.reward)

    @property
    def nbytes(self) -> int:
        """The size of the columns in bytes."""
        return sum(column.nbytes for column in self)

    def at(self, places: Any) -> Entries:
        """The columns at some places; those of a slice are views."""
        return Entries(*(column[places] for column in self))

    def records(self) -> Any:
        """A copy as records, as snapshots keep them."""
        records = np.zeros(self.size, ENTRY)
        for name, column in zip(self._fields, self, strict=True):
            records[name] = column
        return records


class Graph(NamedTuple):
    """The arrays that loops read, with free room behind the used part."""

    nodes: Any  # (N,) of NODE
    pairs: Any  # (P,) of ``pair_type``
    entries: Entries  # (E,)
    # (2**b,) of PLACE: hash table of the entries of pairs with more than SHORT_SCAN
    # entries; pair -1 is a free slot
    slots: Any
    sizes: Ints  # (FREE + CLASSES,): numbers of used and of free places


class Layers(NamedTuple):
    """Stages, layer after layer: layer d is d steps after the requested state."""

    stages: Any  # (S,) of STAGE
    starts: Ints  # (D + 2,): layer d is stages[starts[d]:starts[d + 1]]
    # (D + 1,): the first stages of each layer are those in reach of the query
    counts: Ints


class Steps(NamedTuple):
    """Facts about layers before the first sample, and working memory."""

    # (D + 1, 2, 4): for the layers that may be listed and for max and min to move,
    # the bounds on V and on Q that the facts give
    boxes: Any
    horizon: int
    place: Ints  # (N,): 1 + the place of a node's stage in a layer, 0 if it has none
    claims: Any  # (N, 2): the user's bounds on V; (0, 2) without them


def pair_type(fields: tuple[tuple[str, str], ...], num_actions: int = 0) -> Any:
    """The type of a pair with a bound that remembers ``fields`` between sweeps."""
    wide_types = {"action": "i4"} if num_actions > FEW_ACTIONS else {}
    base_fields = [
        (field_name, wide_types.get(field_name, kind)) for field_name, kind in PAIR
    ]
    return np.dtype([*base_fields, *fields], align=True)


def empty_graph(fields: tuple[tuple[str, str], ...], num_actions: int = 0) -> Graph:
    """A graph that holds the end and nothing else, with room for the first states."""
    return Graph(
        np.zeros(64, NODE),
        np.zeros(256, pair_type(fields, num_actions)),
        free_entries(1024),
        free_slots(1024),
        np.zeros(FREE + CLASSES, np.int64),
    )


def free_entries(size: int) -> Entries:
    """A pool of ``size`` places."""
    return Entries(*(np.zeros(size, ENTRY[name]) for name in Entries._fields))


def free_slots(size: int) -> Any:
    """An empty hash table of ``size`` = 2**b slots."""
    slots = np.zeros(size, PLACE)
    slots["pair"] = -1
    return slots


def empty_layers(g: Graph) -> tuple[Layers, Steps]:
    """One layer of a horizon of one step, without a state of the graph in it."""
    starts, counts = np.zeros(2, dtype=np.int64), np.zeros(1, dtype=np.int64)
    places, no_claims = np.zeros(len(g.nodes), dtype=np.int64), np.zeros((0, 2))
    steps = Steps(np.zeros((1, 2, 4)), 1, places, no_claims)
    return Layers(np.zeros(1, STAGE), starts, counts), steps
