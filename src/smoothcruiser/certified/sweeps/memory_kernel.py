"""Loops that enter samples in the memory of certified search.

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
from smoothcruiser.jit.forms import interpret_as
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.states.table_kernel import MASK, mix_number, mix_word

MANY_OUTCOMES = 64
GRID_CELLS = 32
# a scan of 16 entries costs as much as one look-up in the hash table (about 10 ns)
SHORT_SCAN = 16
LARGEST_CODE = 9e18  # of a reward in a hash: below 2**63, whatever the reward


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
    fixed_point = min(max(reward * 1048576.0, -LARGEST_CODE), LARGEST_CODE)
    word = mix_word(word + np.uint64(np.int64(fixed_point)))
    return np.int64(word & np.uint64(size - 1))  # type: ignore[return-value]


def interpreted_hash(pair: int, target: int, reward: float, size: int) -> int:
    """Return ``hash_slot``, with Python's numbers."""
    word = mix_number((pair * 0x9E3779B97F4A7C15 + target) & MASK)
    fixed_point = min(max(reward * 1048576.0, -LARGEST_CODE), LARGEST_CODE)
    return mix_number((word + int(fixed_point)) & MASK) & (size - 1)


def rounding_number(pair: int, n: float, salt: Any) -> float:
    """Return the number in [0, 1) that rounds the reward of sample ``n`` of a pair."""
    word = mix_word(mix_word(np.uint64(pair) + salt) + np.uint64(n))
    return float(np.float64(np.int64(word >> np.uint64(11))) * 2.0**-53)


def interpreted_number(pair: int, n: float, salt: Any) -> float:
    """Return ``rounding_number``, with Python's numbers."""
    word = mix_number((mix_number((pair + int(salt)) & MASK) + int(n)) & MASK)
    return (word >> 11) * 2.0**-53


interpret_as(hash_slot, interpreted_hash)
interpret_as(rounding_number, interpreted_number)


def scan_entries(
    targets: Ints, rewards: Floats, start: int, length: int, target: int, reward: float
) -> int:
    """Return the place of an outcome among a pair's few entries, -1 where it is new.

    Columns come as arguments: each column that compiled code takes from a record is a
    counted reference, which costs more than the scan (``record``).
    """
    for e in range(start, start + length):
        if targets[e] == target and rewards[e] == reward:
            return e - start
    return -1


def find_hashed(g: Graph, p: int, target: int, reward: float) -> int:
    """Return the place of an outcome within a pair of many, -1 where it is new."""
    rewards, _, targets = g.entries
    start, slot_pairs, slot_places = (
        g.pairs["start"][p],
        g.slots["pair"],
        g.slots["place"],
    )
    num_slots = len(slot_pairs)
    slot = hash_slot(p, target, reward, num_slots)
    while slot_pairs[slot] >= 0:
        if slot_pairs[slot] == p:
            entry_place = slot_places[slot]
            e = start + entry_place
            if targets[e] == target and rewards[e] == reward:
                return int(entry_place)
        slot = (slot + 1) & (num_slots - 1)
    return -1


def insert_hash(g: Graph, p: int, place: int) -> None:
    """Enter one entry in the hash table, which has a free slot."""
    num_slots = len(g.slots["pair"])
    entry = g.pairs["start"][p] + place
    slot = hash_slot(p, g.entries.target[entry], g.entries.reward[entry], num_slots)
    while g.slots["pair"][slot] >= 0:
        slot = (slot + 1) & (num_slots - 1)
    g.slots["pair"][slot] = p
    g.slots["place"][slot] = place
    g.sizes[HASHED] += 1


def take_block(g: Graph, length: int) -> int:
    """Return the start of a block for ``length`` entries; there is room for one."""
    head = FREE + room_class(length)
    if g.sizes[head] > 0:
        start = g.sizes[head] - 1
        g.sizes[head] = g.entries.target[start]
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
    length = g.pairs["length"][p]
    if length == 0 or length == room_of(length):
        old_start, new_start = g.pairs["start"][p], take_block(g, length + 1)
        for i in range(length):
            g.entries.reward[new_start + i] = g.entries.reward[old_start + i]
            g.entries.weight[new_start + i] = g.entries.weight[old_start + i]
            g.entries.target[new_start + i] = g.entries.target[old_start + i]
        if length > 0:
            head = FREE + room_class(length)
            g.entries.target[old_start] = g.sizes[head]
            g.sizes[head] = old_start + 1
            g.sizes[IDLE] += length
        g.pairs["start"][p] = new_start
    entry = g.pairs["start"][p] + length
    g.entries.reward[entry], g.entries.weight[entry] = reward, 0.0
    g.entries.target[entry] = target
    g.pairs["length"][p] = length + 1
    if length >= SHORT_SCAN:
        for entry_place in range(0 if length == SHORT_SCAN else length, length + 1):
            insert_hash(g, p, entry_place)
    return int(length)


def has_room(g: Graph, p: int) -> bool:
    """Return whether one more entry of pair ``p`` fits everywhere."""
    return bool(
        g.sizes[ENTRIES] + room_of(g.pairs["length"][p] + 1) <= len(g.entries.weight)
        and 2 * (g.sizes[HASHED] + SHORT_SCAN + 2) <= len(g.slots["pair"])
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
    lengths, totals, starts = g.pairs["length"], g.pairs["total"], g.pairs["start"]
    old_rewards, weights, old_targets = g.entries
    job_end = 0
    for job in range(len(pairs)):
        p, first_sample = pairs[job], max(job_end, done)
        job_end += counts[job]
        if first_sample < job_end:
            g.nodes["stale"][g.pairs["node"][p]] |= SAMPLED
        for i in range(first_sample, job_end):
            target, reward = targets[i], rewards[i]
            length = lengths[p]
            if length <= SHORT_SCAN:
                entry_place = scan_entries(
                    old_targets, old_rewards, starts[p], length, target, reward
                )
            else:
                entry_place = find_hashed(g, p, target, reward)
            if entry_place < 0:
                if not has_room(g, p):
                    return i
                if length >= MANY_OUTCOMES and high > low:
                    u = rounding_number(p, totals[p], salt)
                    reward = rounded_reward(reward, low, high, u)
                    entry_place = find_hashed(g, p, target, reward)
                if entry_place < 0:
                    entry_place = add_entry(g, p, target, reward)
            weights[starts[p] + entry_place] += 1.0
            totals[p] += 1.0
    return int(job_end)


def rehash(g: Graph) -> None:
    """Fill an empty hash table from the pairs.

    Rows of a known model have the total 1 and are never looked up.
    """
    g.sizes[HASHED] = 0
    for p in range(len(g.pairs["total"])):
        if g.pairs["length"][p] > SHORT_SCAN and g.pairs["total"][p] > 1.0:
            for entry_place in range(g.pairs["length"][p]):
                insert_hash(g, p, entry_place)


def repack(g: Graph, pool: Any) -> None:
    """Move all entries to ``pool``, each pair's in a block of its own, none free.

    A row of a known model has the total 1 and never grows.
    """
    entries_used = 0
    for p in range(len(g.pairs["total"])):
        if g.pairs["length"][p] > 0:
            start, length = g.pairs["start"][p], g.pairs["length"][p]
            for i in range(length):
                pool.reward[entries_used + i] = g.entries.reward[start + i]
                pool.weight[entries_used + i] = g.entries.weight[start + i]
                pool.target[entries_used + i] = g.entries.target[start + i]
            g.pairs["start"][p] = entries_used
            entries_used += room_of(length) if g.pairs["total"][p] != 1.0 else length
    g.sizes[ENTRIES], g.sizes[IDLE] = entries_used, 0
    for block_class in range(CLASSES):
        g.sizes[FREE + block_class] = 0
