"""Compiled loops that enter samples in the memory of certified search.

Entries differ by ``raw``, the next state as a whole number (the oracle's own
number, or the node's where states are objects), so that a sample costs a short
scan and no look-up of nodes. Rewards are part of an outcome because the bounds
are not linear in them. A pair with more than ``MANY_OUTCOMES`` outcomes
(continuous rewards, say) has its new rewards rounded at random to a grid of
``GRID_CELLS`` cells with the mean kept: r' takes the two neighbours of r with
weights that make E[r' | r] = r. The samples of r' + gamma V(z) then have the
same mean Q and the same range, which is all that the radii need. The variance
grows by (rho / (2 GRID_CELLS))**2 at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.certified.graph import ENTRIES, HASHED, UNRESOLVED, WAITING, Graph
from smoothcruiser.problem.tabular import Floats, Ints

MANY_OUTCOMES = 64
GRID_CELLS = 32
# a scan of 16 entries costs as much as one look-up in the hash table (about 10 ns)
SHORT_SCAN = 16


def mixed(x: Any) -> Any:
    """Return Stafford's mix 13 of a 64-bit word, the finalizer of SplitMix64.

    It serves for hashing and for seeding streams by position.
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hash_slot(pair: int, raw: int, reward: float, size: int) -> int:
    """Return the first slot to try, in a table of ``size`` = 2**b slots."""
    word = mixed(np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(raw))
    # equal rewards hash alike; near ones may too, and a comparison separates them
    word = mixed(word + np.uint64(np.int64(reward * 1048576.0)))
    return np.int64(word & np.uint64(size - 1))  # type: ignore[return-value]


def find_entry(g: Graph, p: int, raw: int, reward: float) -> int:
    """Return the place of an outcome within pair ``p``, -1 where it is new."""
    start, length = g.pairs[p]["start"], g.pairs[p]["length"]
    if length <= SHORT_SCAN:
        for place in range(length):
            if (
                g.entries[start + place]["raw"] == raw
                and g.entries[start + place]["reward"] == reward
            ):
                return place
        return -1
    size = len(g.slots)
    slot = hash_slot(p, raw, reward, size)
    while g.slots[slot]["pair"] >= 0:
        if g.slots[slot]["pair"] == p:
            place = g.slots[slot]["place"]
            if (
                g.entries[start + place]["raw"] == raw
                and g.entries[start + place]["reward"] == reward
            ):
                return int(place)
        slot = (slot + 1) & (size - 1)
    return -1


def insert_hash(g: Graph, p: int, place: int) -> None:
    """Enter one entry in the hash table, which has a free slot."""
    size = len(g.slots)
    entry = g.entries[g.pairs[p]["start"] + place]
    slot = hash_slot(p, entry["raw"], entry["reward"], size)
    while g.slots[slot]["pair"] >= 0:
        slot = (slot + 1) & (size - 1)
    g.slots[slot]["pair"] = p
    g.slots[slot]["place"] = place
    g.sizes[HASHED] += 1


def add_entry(g: Graph, p: int, raw: int, target: int, reward: float) -> int:
    """Return the place of a new outcome of weight 0.

    The pair's entries are moved if they have no room. The caller has checked
    ``has_room``.
    """
    pair = g.pairs[p]
    length = pair["length"]
    if length == pair["room"]:
        old, fresh = pair["start"], g.sizes[ENTRIES]
        for i in range(length):
            g.entries[fresh + i]["raw"] = g.entries[old + i]["raw"]
            g.entries[fresh + i]["reward"] = g.entries[old + i]["reward"]
            g.entries[fresh + i]["weight"] = g.entries[old + i]["weight"]
            g.entries[fresh + i]["target"] = g.entries[old + i]["target"]
        pair["room"] = max(2, 2 * length)
        pair["start"] = fresh
        g.sizes[ENTRIES] += pair["room"]
    entry = g.entries[pair["start"] + length]
    entry["raw"], entry["reward"], entry["weight"], entry["target"] = (
        raw,
        reward,
        0.0,
        target,
    )
    pair["length"] = length + 1
    if length >= SHORT_SCAN:
        for place in range(0 if length == SHORT_SCAN else length, length + 1):
            insert_hash(g, p, place)
    if target == UNRESOLVED:
        g.waiting[g.sizes[WAITING]]["pair"] = p
        g.waiting[g.sizes[WAITING]]["place"] = length
        g.sizes[WAITING] += 1
    return int(length)


def has_room(g: Graph, p: int) -> bool:
    """Return whether one more entry of pair ``p`` fits everywhere."""
    return bool(
        g.sizes[ENTRIES] + max(2, 2 * g.pairs[p]["length"]) <= len(g.entries)
        and 2 * (g.sizes[HASHED] + SHORT_SCAN + 2) <= len(g.slots)
        and g.sizes[WAITING] < len(g.waiting)
    )


def rounded_reward(reward: float, low: float, high: float, u: float) -> float:
    """Return a neighbour of ``reward`` on the grid, always within [low, high].

    Its mean is ``reward`` for u uniform on [0, 1).
    """
    width = high - low
    x = (reward - low) / width * GRID_CELLS
    cell = int(x)
    if u < x - cell:
        cell += 1
    return high if cell >= GRID_CELLS else low + width * (cell / GRID_CELLS)


def record(
    g: Graph,
    pairs: Ints,
    counts: Ints,
    raws: Ints,
    rewards: Floats,
    done: int,
    resolved: bool,
    low: float,
    high: float,
    salt: Any,
) -> int:
    """Return the number of samples entered, those before ``done`` included.

    It is less than all where arrays have to grow first.
    """
    at = 0
    for job in range(len(pairs)):
        p, begin = pairs[job], max(at, done)
        at += counts[job]
        for i in range(begin, at):
            raw, reward = raws[i], rewards[i]
            place = find_entry(g, p, raw, reward)
            if place < 0:
                if not has_room(g, p):
                    return i
                if g.pairs[p]["length"] >= MANY_OUTCOMES and high > low:
                    word = mixed(
                        mixed(np.uint64(p) + salt) + np.uint64(g.pairs[p]["total"])
                    )
                    reward = rounded_reward(
                        reward,
                        low,
                        high,
                        np.float64(np.int64(word >> np.uint64(11))) * 2.0**-53,
                    )
                    place = find_entry(g, p, raw, reward)
                if place < 0:
                    place = add_entry(
                        g, p, raw, raw if resolved else UNRESOLVED, reward
                    )
            g.entries[g.pairs[p]["start"] + place]["weight"] += 1.0
            g.pairs[p]["total"] += 1.0
    return int(at)


def rehash(g: Graph) -> None:
    """Fill an empty hash table from the pairs.

    Rows of a known model, whose total is 1, are never looked up.
    """
    g.sizes[HASHED] = 0
    for p in range(len(g.pairs)):
        if g.pairs[p]["length"] > SHORT_SCAN and g.pairs[p]["total"] > 1.0:
            for place in range(g.pairs[p]["length"]):
                insert_hash(g, p, place)
