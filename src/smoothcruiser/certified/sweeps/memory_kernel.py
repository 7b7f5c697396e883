"""Compiled loops that enter samples in the memory of certified search.

Entries differ by the next state's node and by the reward: rewards are part of an
outcome because the bounds are not linear in them. A pair with more than ``MANY_OUTCOMES`` outcomes
(continuous rewards, say) has its new rewards rounded at random to a grid of
``GRID_CELLS`` cells with the mean kept: r' takes the two neighbours of r with
weights that make E[r' | r] = r. The samples of r' + gamma V(z) then have the
same mean Q and the same range, which is all that the radii need. The variance
grows by (rho / (2 GRID_CELLS))**2 at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.certified.graph import (
    CLASSES,
    ENTRIES,
    FREE,
    HASHED,
    IDLE,
    SAMPLED,
    Graph,
)
from smoothcruiser.problem.model.tabular import Floats, Ints

MANY_OUTCOMES = 64
GRID_CELLS = 32
# a scan of 16 entries costs as much as one look-up in the hash table (about 10 ns)
SHORT_SCAN = 16


def mix_word(x: Any) -> Any:
    """Return Stafford's mix 13 of a 64-bit word, the finalizer of SplitMix64.

    It serves for hashing and for seeding streams by position.
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def room_class(length: int) -> int:
    """Return the class of the smallest block with room for ``length`` >= 1 entries.

    Blocks have 1, 2, ..., 8, 10, 12, 14, 16, 20, ... entries: a quarter more at most.
    """
    last_index, shift = length - 1, 0
    while last_index >> shift >= 8:
        shift += 1
    return (last_index >> shift) + 4 * shift


def room_of(length: int) -> int:
    """Return the number of entries that a block for ``length`` >= 1 of them holds."""
    last_index, shift = length - 1, 0
    while last_index >> shift >= 8:
        shift += 1
    return ((last_index >> shift) + 1) << shift


def hash_slot(pair: int, target: int, reward: float, size: int) -> int:
    """Return the first slot to try, in a table of ``size`` = 2**b slots."""
    word = mix_word(
        np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(target)
    )
    # equal rewards hash alike; near ones may too, and a comparison separates them
    word = mix_word(word + np.uint64(np.int64(reward * 1048576.0)))
    return np.int64(word & np.uint64(size - 1))  # type: ignore[return-value]


def find_entry(g: Graph, p: int, target: int, reward: float) -> int:
    """Return the place of an outcome within pair ``p``, -1 where it is new."""
    start, length = g.pairs[p]["start"], g.pairs[p]["length"]
    if length <= SHORT_SCAN:
        for entry_place in range(length):
            if (
                g.entries[start + entry_place]["target"] == target
                and g.entries[start + entry_place]["reward"] == reward
            ):
                return entry_place
        return -1
    num_slots = len(g.slots)
    slot = hash_slot(p, target, reward, num_slots)
    while g.slots[slot]["pair"] >= 0:
        if g.slots[slot]["pair"] == p:
            entry_place = g.slots[slot]["place"]
            if (
                g.entries[start + entry_place]["target"] == target
                and g.entries[start + entry_place]["reward"] == reward
            ):
                return int(entry_place)
        slot = (slot + 1) & (num_slots - 1)
    return -1


def insert_hash(g: Graph, p: int, place: int) -> None:
    """Enter one entry in the hash table, which has a free slot."""
    num_slots = len(g.slots)
    entry = g.entries[g.pairs[p]["start"] + place]
    slot = hash_slot(p, entry["target"], entry["reward"], num_slots)
    while g.slots[slot]["pair"] >= 0:
        slot = (slot + 1) & (num_slots - 1)
    g.slots[slot]["pair"] = p
    g.slots[slot]["place"] = place
    g.sizes[HASHED] += 1


def take_block(g: Graph, length: int) -> int:
    """Return the start of a block for ``length`` entries; there is room for one."""
    head = FREE + room_class(length)
    if g.sizes[head] > 0:
        start = g.sizes[head] - 1
        g.sizes[head] = g.entries[start]["target"]
        g.sizes[IDLE] -= room_of(length)
        return int(start)
    start = g.sizes[ENTRIES]
    g.sizes[ENTRIES] += room_of(length)
    return int(start)


def add_entry(g: Graph, p: int, target: int, reward: float) -> int:
    """Return the place of a new outcome of weight 0.

    The pair's entries are moved if they have no room. The caller has checked
    ``has_room``. A block that is left says in its first entry which one is free next.
    """
    pair = g.pairs[p]
    length = pair["length"]
    if length == 0 or length == room_of(length):
        old_start, new_start = pair["start"], take_block(g, length + 1)
        for i in range(length):
            g.entries[new_start + i]["reward"] = g.entries[old_start + i]["reward"]
            g.entries[new_start + i]["weight"] = g.entries[old_start + i]["weight"]
            g.entries[new_start + i]["target"] = g.entries[old_start + i]["target"]
        if length > 0:
            head = FREE + room_class(length)
            g.entries[old_start]["target"] = g.sizes[head]
            g.sizes[head] = old_start + 1
            g.sizes[IDLE] += length
        pair["start"] = new_start
    entry = g.entries[pair["start"] + length]
    entry["reward"], entry["weight"], entry["target"] = reward, 0.0, target
    pair["length"] = length + 1
    if length >= SHORT_SCAN:
        for entry_place in range(0 if length == SHORT_SCAN else length, length + 1):
            insert_hash(g, p, entry_place)
    return int(length)


def has_room(g: Graph, p: int) -> bool:
    """Return whether one more entry of pair ``p`` fits everywhere."""
    return bool(
        g.sizes[ENTRIES] + room_of(g.pairs[p]["length"] + 1) <= len(g.entries)
        and 2 * (g.sizes[HASHED] + SHORT_SCAN + 2) <= len(g.slots)
    )


def rounded_reward(reward: float, low: float, high: float, u: float) -> float:
    """Return a neighbour of ``reward`` on the grid, always within [low, high].

    Its mean is ``reward`` for u uniform on [0, 1).
    """
    width = high - low
    grid_position = (reward - low) / width * GRID_CELLS
    cell = int(grid_position)
    if u < grid_position - cell:
        cell += 1
    return high if cell >= GRID_CELLS else low + width * (cell / GRID_CELLS)


def record(
    g: Graph,
    pairs: Ints,
    counts: Ints,
    targets: Ints,
    rewards: Floats,
    done: int,
    low: float,
    high: float,
    salt: Any,
) -> int:
    """Return the number of samples entered, those before ``done`` included.

    It is less than all where arrays have to grow first.
    """
    job_end = 0
    for job in range(len(pairs)):
        p, first_sample = pairs[job], max(job_end, done)
        job_end += counts[job]
        if first_sample < job_end:
            g.nodes[g.pairs[p]["node"]]["stale"] |= SAMPLED
        for i in range(first_sample, job_end):
            target, reward = targets[i], rewards[i]
            entry_place = find_entry(g, p, target, reward)
            if entry_place < 0:
                if not has_room(g, p):
                    return i
                if g.pairs[p]["length"] >= MANY_OUTCOMES and high > low:
                    word = mix_word(
                        mix_word(np.uint64(p) + salt) + np.uint64(g.pairs[p]["total"])
                    )
                    reward = rounded_reward(
                        reward,
                        low,
                        high,
                        np.float64(np.int64(word >> np.uint64(11))) * 2.0**-53,
                    )
                    entry_place = find_entry(g, p, target, reward)
                if entry_place < 0:
                    entry_place = add_entry(g, p, target, reward)
            g.entries[g.pairs[p]["start"] + entry_place]["weight"] += 1.0
            g.pairs[p]["total"] += 1.0
    return int(job_end)


def rehash(g: Graph) -> None:
    """Fill an empty hash table from the pairs.

    Rows of a known model have the total 1 and are never looked up.
    """
    g.sizes[HASHED] = 0
    for p in range(len(g.pairs)):
        if g.pairs[p]["length"] > SHORT_SCAN and g.pairs[p]["total"] > 1.0:
            for entry_place in range(g.pairs[p]["length"]):
                insert_hash(g, p, entry_place)


def repack(g: Graph, pool: Any) -> None:
    """Move all entries to ``pool``, each pair's in a block of its own, none free.

    A row of a known model has the total 1 and never grows.
    """
    entries_used = 0
    for p in range(len(g.pairs)):
        pair = g.pairs[p]
        if pair["length"] > 0:
            for i in range(pair["length"]):
                old_entry, new_entry = (
                    g.entries[pair["start"] + i],
                    pool[entries_used + i],
                )
                new_entry["reward"], new_entry["weight"] = (
                    old_entry["reward"],
                    old_entry["weight"],
                )
                new_entry["target"] = old_entry["target"]
            pair["start"] = entries_used
            entries_used += (
                room_of(pair["length"]) if pair["total"] != 1.0 else pair["length"]
            )
    g.sizes[ENTRIES], g.sizes[IDLE] = entries_used, 0
    g.sizes[FREE : FREE + CLASSES] = 0
