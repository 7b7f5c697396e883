"""The data layout of certified search: flat arrays that compiled code reads.

A node is a state; node 0 is the end, with value 0: every terminal state and every
state after the last step. Where there is a horizon, a stage is a node with a number
of steps left; the stages of one number are neighbours (``Layers``), and what a node
holds are the bounds of the number that is looked at. A pair is a node with one legal
action; the pairs of a node are neighbours. An entry is a distinct outcome (next state,
reward) of a pair with the number of times it came, or with its probability where the
model is known. The entries of a pair are neighbours in a pool and move to its end when
they need room, so the pool is at most about four times as large as what was seen.

A pair has the fields below and those that its bound needs (``pair_type``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.problem.tabular import Ints

END = 0  # the node of every terminal state
END_RAW = -(2**63)  # what stands for the next state where the step said ``terminated``
UNRESOLVED = -1  # the node of an entry whose state was not looked up yet
ENTRIES, HASHED, WAITING = 0, 1, 2  # places in ``sizes``
UNMET = 2**31 - 1  # the depth of a node that no query has met
STREAM_BYTES = 32  # of a pair's stream: four words of 64 bits

NODE = np.dtype(
    [
        ("lower", "f8"),  # L(s)
        ("upper", "f8"),  # U(s)
        ("q_low", "f8"),  # m: no Q of this node is below
        ("q_high", "f8"),  # M
        ("sign", "f8"),  # 1 where max moves, -1 where min does
        # discounted visits of the optimistic walk from the requested state
        ("mass", "f8"),
        ("residual", "f8"),  # mass not yet passed on
        # what the user's functions say of V, where there are any
        ("claim_low", "f8"),
        ("claim_high", "f8"),
        ("first", "i8"),  # the node's first pair
        ("size", "i4"),  # its number of pairs; 0 for the end
        ("listed", "i4"),  # whether the current query has met it
        # with a horizon: the fewest steps in which it was reached, and whether it was
        # sampled for the last step alone, so that its outcomes are rewards only
        ("depth", "i4"),
        ("last", "i4"),
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
    ("prior", "f8"),
    # its entries are start .. start + length - 1 of the pool, with space for ``room``
    ("start", "i8"),
    ("length", "i4"),
    ("room", "i4"),
    ("node", "i4"),
    ("action", "i4"),
)
ENTRY = np.dtype(
    [
        ("raw", "i8"),  # the next state as the oracle's number
        ("reward", "f8"),
        ("weight", "f8"),  # times seen, or its probability
        ("target", "i8"),  # the next state's node
    ],
    align=True,
)
# an entry, by its pair and its place there
PLACE = np.dtype([("pair", "i4"), ("place", "i4")], align=True)


class Graph(NamedTuple):
    """The arrays that compiled code reads, with free room behind the used part."""

    nodes: Any  # (N,) of NODE
    pairs: Any  # (P,) of ``pair_type``
    entries: Any  # (E,) of ENTRY
    # (2**b,) of PLACE: hash table of the entries of pairs with more than SHORT_SCAN
    # entries; pair -1 is a free slot
    slots: Any
    waiting: Any  # (W,) of PLACE: entries without a node yet
    sizes: Ints  # (3,): entries used, hash slots used, entries waiting


class Layers(NamedTuple):
    """Stages, layer after layer: layer d is d steps after the requested state."""

    stages: Any  # (S,) of STAGE
    starts: Ints  # (D + 2,): layer d is stages[starts[d]:starts[d + 1]]
    # (D + 1,): the first stages of each layer are those in reach of the query
    counts: Ints


def pair_type(fields: tuple[tuple[str, str], ...]) -> Any:
    """The type of a pair whose bound remembers ``fields`` between sweeps."""
    return np.dtype([*PAIR, *fields], align=True)


def empty_graph(fields: tuple[tuple[str, str], ...]) -> Graph:
    """A graph that holds the end and nothing else, with room for the first states."""
    return Graph(
        np.zeros(64, NODE),
        np.zeros(256, pair_type(fields)),
        np.zeros(1024, ENTRY),
        free_slots(1024),
        np.zeros(1024, PLACE),
        np.zeros(3, np.int64),
    )


def free_slots(size: int) -> Any:
    """An empty hash table of ``size`` = 2**b slots."""
    slots = np.zeros(size, PLACE)
    slots["pair"] = -1
    return slots
