"""Rows of a known model in the place of samples.

Where a problem has ``outcomes=``, a pair is read and not sampled: its row is the law
itself, so it has no radius and takes no share of delta, and no oracle call is made.
A job is a pair that is read once; a row is entered as a whole as soon as it is read.

Nodes are numbered in the order in which rows name their states, whatever the blocks
in which rows are read, so that the clock changes no bit. New states of a block are
added together, because NumPy is slow one by one: where all of them are plain values
and there is room for certain. Otherwise states are added one by one, and a row that
has no room is left out as a whole (``room.Full``).

This file decides what of a row is kept: outcomes with the same next state and reward
are one. It leaves out what a row must be (``problem.rows``).
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from smoothcruiser.certified.graph import END
from smoothcruiser.certified.intake import Batch
from smoothcruiser.certified.limits import Ends
from smoothcruiser.certified.room import Full
from smoothcruiser.certified.sampling import ALWAYS_COMPARED, COMPARED_EVERY, Sampler
from smoothcruiser.errors import Interrupted, OracleError
from smoothcruiser.problem.answers import at
from smoothcruiser.problem.rows import (
    READ_AGAIN,
    Row,
    answered_again,
    check_rewards,
    read_row,
    same_rows,
)
from smoothcruiser.problem.states import identical, is_fixed, unchanged
from smoothcruiser.problem.tabular import Ints

BLOCK = 4096  # rows that are entered together
# for rows that are read again after a query: the clock cuts short slow models alone
LEAST_SECONDS = 0.1


class RowReader(Sampler):
    """Reads ``outcomes`` of the pairs of a batch; every job is one row."""

    resolved = True

    def draw(self, batch: Batch, most: int) -> None:
        """Read the next rows of a batch, at most ``most`` of them, and enter them.

        ``Full`` ends it before the row for which there is no room.
        """
        first, counts = batch.ahead(most)
        pairs = batch.pairs[first : first + len(counts)]
        for begin in range(0, len(pairs), BLOCK):
            self._read_block(pairs[begin : begin + BLOCK], batch)

    def read_again(self, limits: Ends) -> None:
        """Refuse a model that answers differently when it is asked again.

        Nothing more is read when time is up.
        """
        g, size = self.memory.graph, self.memory.num_pairs
        known = np.flatnonzero(g.pairs["total"][:size] > 0.0)
        least = time.perf_counter() + LEAST_SECONDS
        for pair in known[:: 1 + len(known) // READ_AGAIN]:
            if time.perf_counter() > max(least, limits.deadline):
                return
            found = g.pairs[pair]
            kept = g.entries[found["start"] : found["start"] + found["length"]]
            (node,), (action,) = self._places(pair[None])
            row = self._row(node, action)
            try:
                again = _merged(row, self._one_by_one(row, node))
            except Full:  # it names states that it did not name before
                again = [], [], []
            before = kept[["target", "reward", "weight"]].tolist()
            if not same_rows(before, list(zip(*again, strict=True))):
                raise answered_again(self.memory.states[node], action)

    def _places(self, pairs: Ints) -> tuple[list[int], list[int]]:
        """The nodes and the actions of pairs."""
        chosen = self.memory.graph.pairs[pairs]
        return chosen["node"].tolist(), chosen["action"].tolist()

    def _read_block(self, pairs: Ints, batch: Batch) -> None:
        nodes, actions = self._places(pairs)
        try:
            with self.hold.opened():  # nothing is entered so far
                rows = list(map(self._row, nodes, actions))
        except KeyboardInterrupt as stop:
            self.torn = any(map(self._is_torn, nodes))
            raise Interrupted("The search was stopped.") from stop
        left_out: Full | None = None
        found = None
        if not self.memory.is_crowded(sum(map(len, rows))):
            found = self._together(nodes, rows)
        if found is None:
            found = []
            for node, row in zip(nodes, rows, strict=True):
                try:
                    found.append(self._one_by_one(row, node))
                except Full as error:
                    left_out = error
                    break
        merged = [_merged(*each) for each in zip(rows, found, strict=False)]
        lengths = np.array([len(targets) for targets, _, _ in merged], dtype=np.int64)
        if merged:
            self.memory.enter_rows(
                pairs[: len(merged)],
                lengths,
                np.concatenate([row[0] for row in merged]).astype(np.int64),
                np.concatenate([row[1] for row in merged]),
                np.concatenate([row[2] for row in merged]),
            )
            new = slice(batch.drawn, batch.drawn + len(merged))
            batch.raws[new], batch.rewards[new] = (
                END,
                self.problem.facts.reward_range[0],
            )
            batch.drawn = batch.entered = new.stop
        if left_out is not None:
            raise left_out

    def _row(self, node: int, action: int) -> Row:
        """The row of a pair; that its state was left alone is checked now and then."""
        state = self.memory.states[node]
        before = self.guard.copied(state) if self.guard.due() else None
        row = read_row(self.problem, state, action)
        check_rewards(self.problem, row, state, action)
        if before is not None:
            self.guard.looks += 1
            if unchanged(before, state) is False:
                raise OracleError(
                    f"outcomes changed the state it was given: {before!r} became "
                    f"{state!r} {at(before, action)}; copy the state there and change "
                    "the copy."
                )
        return row

    def _one_by_one(self, row: Row, node: int) -> list[int]:
        """The nodes of a row's next states, each added when it is met."""
        if self.memory.graph.nodes["last"][node]:
            return [END] * len(row)
        return [self.memory.node_of(state) for _, _, state in row]

    def _together(self, nodes: list[int], rows: list[Row]) -> list[list[int]] | None:
        """The nodes of the next states of many rows, new ones added together.

        None where a state has to be looked at on its own, and nothing was added:
        it is no plain value, or it equals one that it is not (1 and True).
        """
        if self.problem.key is not None:
            return None
        memory, known = self.memory, self.memory.nodes
        last = memory.graph.nodes["last"]
        keys: dict[Any, int] = {}  # of new states: -1 - their number
        states: list[Any] = []
        again: dict[int, int] = {}  # how often a new state was met again
        found: list[list[int]] = []  # nodes, and numbers of new states
        for start, row in zip(nodes, rows, strict=True):
            targets: list[int] = []
            for _, _, state in () if last[start] else row:
                try:
                    node = known.get(state)
                    if node is None:
                        node = keys.get(state)
                except TypeError:  # it has no hash
                    return None
                if node is None:
                    if not is_fixed(state):
                        return None
                    node = keys[state] = -1 - len(states)
                    states.append(state)
                elif node < END:
                    if _due(again, node) and not identical(state, states[-1 - node]):
                        return None
                # equal values need not be the same state: 1 and True
                elif (
                    type(state) is not int or type(memory.states[node]) is not int
                ) and _due(self.arrivals, node):
                    memory.node_of(state)
                targets.append(node)
            found.append(targets or [END] * len(row))
        made = memory.add_plain(states)
        return [
            [node if node >= 0 else made[-1 - node] for node in row] for row in found
        ]


def _due(arrivals: dict[int, int], node: int) -> bool:
    """Whether an arrival at a node is to be compared with the first."""
    met = arrivals[node] = arrivals.get(node, -1) + 1
    return met < ALWAYS_COMPARED or met % COMPARED_EVERY == 0


def _merged(row: Row, nodes: list[int]) -> tuple[list[int], list[float], list[float]]:
    """Next nodes, rewards and probabilities, outcomes that are the same made one."""
    if len(set(nodes)) == len(nodes):
        return nodes, [r for _, r, _ in row], [p for p, _, _ in row]
    shares: dict[tuple[int, float], list[float]] = {}
    for (share, reward, _), node in zip(row, nodes, strict=True):
        if (node, reward) in shares:
            shares[node, reward].append(share)
        else:
            shares[node, reward] = [share]
    return (
        [node for node, _ in shares],
        [reward for _, reward in shares],
        [math.fsum(parts) for parts in shares.values()],
    )
