"""Rows of a known model in the place of samples.

Where a problem has ``outcomes=``, a pair is read and not sampled: its row is the law
itself, so it has no radius and takes no share of delta, and no oracle call is made.
A job is a pair that is read once; a row is entered as a whole as soon as it is read.

A pair without a row (``outcomes`` returned None) is sampled, by the sampler that the
problem would have without ``outcomes=``; it is made when the first one is met. With
``deterministic=True`` one call of the step is a row.

Nodes are numbered in the order in which rows name their states, whatever the blocks
in which rows are read, so that the clock changes no bit. New states of a block are
added together, because NumPy is slow one by one: where all of them are plain values
and there is room for certain. Otherwise states are added one by one, and a row that
has no room is left out as a whole (``MemoryFull``).

This file decides which outcomes of a row are kept: those with the same next state and
reward are one. It leaves out the checks of a row (``problem.model.known_outcomes``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.certified.graph import END
from smoothcruiser.certified.query_limits import MemoryFull, QueryLimits
from smoothcruiser.certified.sample_batches import Batch
from smoothcruiser.certified.sampling.sampler import (
    ALWAYS_COMPARED,
    COMPARED_EVERY,
    Sampler,
)
from smoothcruiser.errors import Interrupted, OracleError
from smoothcruiser.jit.random.streams import from_words
from smoothcruiser.problem.model.known_outcomes import (
    READ_AGAIN,
    Row,
    answered_again,
    check_rewards,
    known_row,
    same_rows,
)
from smoothcruiser.problem.model.tabular import Bools, Ints
from smoothcruiser.problem.step_errors import at_pair, call_oracle
from smoothcruiser.states.identity import identical, is_fixed, is_unchanged
from smoothcruiser.states.table import NumberStates

if TYPE_CHECKING:
    from smoothcruiser.certified.search_memory import Memory
    from smoothcruiser.engines.inspection import Looks
    from smoothcruiser.problem.problem import Problem
    from smoothcruiser.run_control.stop_requests import StopRequest

BLOCK = 4096  # rows that are entered together
OVER = object()  # the next state of a call that ended the episode
# attributes that a reader shares with the sampler of its pairs without rows
SHARED = ("words", "guard", "arrivals", "hold", "deadline")
# for rows that are read again after a query: the clock cuts short slow models alone
LEAST_SECONDS = 0.1


class RowReader(Sampler):
    """Reads ``outcomes`` of the pairs of a batch; every job is one row.

    The jobs of a batch are all rows to read, or all pairs to sample.
    """

    def __init__(
        self,
        problem: Problem,
        memory: Memory,
        seed: int,
        make_inner: Callable[[StopRequest, float], Sampler],
    ) -> None:
        super().__init__(problem, memory, seed)
        self.missing: list[int] = []  # pairs found without a row, until they are taken
        self._called_at: list[
            int
        ] = []  # pairs of a block at which the step was called
        self._make_inner = make_inner
        self._inner: Sampler | None = None  # samples pairs without a row
        if isinstance(memory.states, NumberStates):  # a sampler was there before
            self._lend()

    # --- pairs without a row --------------------------------------------------

    @property
    def gives_nodes(self) -> bool:  # type: ignore[override]
        """Whether the next states of samples are nodes."""
        return self._inner is None or self._inner.gives_nodes

    @property
    def workers(self) -> int:  # type: ignore[override]
        """The processes that share a slice of samples."""
        return 0 if self._inner is None else self._inner.workers

    @property
    def ready(self) -> bool:  # type: ignore[override]
        """Whether ``look`` would get an answer at once."""
        return self._inner is None or self._inner.ready

    @property
    def looks(self) -> int | None:  # noqa: D102
        return self.guard.looks if self._inner is None else self._inner.looks

    def _lend(self) -> Sampler:
        """The sampler of pairs without a row, with the streams as they are now."""
        if self._inner is None:
            self._inner = self._make_inner(self.hold, self.deadline)
        for field_name in SHARED:
            setattr(self._inner, field_name, getattr(self, field_name))
        return self._inner

    def look(self, *arguments: Any) -> Looks:  # noqa: D102
        return self._lend().look(*arguments)

    def are_rows(self, pairs: Ints) -> Bools:  # noqa: D102
        pair_rows = self.memory.graph.pairs[pairs]
        is_unread: Bools = (pair_rows["total"] == 0.0) & (pair_rows["cost"] == 0.0)
        return is_unread

    def draw(self, batch: Batch, max_samples: int) -> None:
        """Read the next rows of a batch, at most ``max_samples``, and enter them.

        ``Full`` ends it before the row for which there is no room. A batch of pairs
        without rows is sampled.
        """
        first_job, counts = batch.next_samples(max_samples)
        pairs = batch.pairs[first_job : first_job + len(counts)]
        if not self.are_rows(pairs[:1])[0]:
            try:
                inner = self._lend()
            except KeyboardInterrupt as stop:  # while it waited for workers
                raise Interrupted("The search was stopped.") from stop
            try:
                inner.draw(batch, max_samples)
            finally:
                self.words, self.torn = inner.words, inner.torn
            return
        for block_start in range(0, len(pairs), BLOCK):
            self._read_block(pairs[block_start : block_start + BLOCK], batch)

    def take_up(self, batch: Batch) -> None:  # noqa: D102
        if self.memory.graph.pairs["cost"][batch.pairs[0]] > 0.0:
            self._lend().take_up(batch)

    def check_written(self, batch: Batch) -> None:  # noqa: D102
        if self._inner is not None:
            self._inner.check_written(batch)

    def close(self) -> None:  # noqa: D102
        if self._inner is not None:
            self._inner.close()

    # --- rows -----------------------------------------------------------------

    def read_again(self, limits: QueryLimits) -> int:
        """Refuse a model that answers differently when it is read again.

        Nothing more is read when time is up. Returns the calls of the step.
        """
        g, num_pairs = self.memory.graph, self.memory.num_pairs
        self._called_at = []
        known_pairs = np.flatnonzero(g.pairs["total"][:num_pairs] > 0.0)
        earliest_end = time.perf_counter() + LEAST_SECONDS
        for pair in known_pairs[:: 1 + len(known_pairs) // READ_AGAIN]:
            if time.perf_counter() > max(earliest_end, limits.control.deadline):
                break
            pair_row = g.pairs[pair]
            row_end = pair_row["start"] + pair_row["length"]
            entered = g.entries.at(slice(pair_row["start"], row_end))
            (node,), (action,) = self._places(pair[None])
            row = self._row(int(pair), node, action)
            if (row is None) != (pair_row["cost"] > 0.0):
                raise answered_again(self.memory.states[node], action)
            if row is None:
                continue
            try:
                merged_row = _merge_outcomes(row, self._one_by_one(row, node))
            except MemoryFull:  # it names states that it did not name before
                merged_row = [], [], []
            columns = (entered.target, entered.reward, entered.weight)
            entered_row = list(zip(*(c.tolist() for c in columns), strict=True))
            if not same_rows(entered_row, list(zip(*merged_row, strict=True))):
                raise answered_again(self.memory.states[node], action)
        return len(self._called_at)

    def _places(self, pairs: Ints) -> tuple[list[int], list[int]]:
        """The nodes and the actions of pairs."""
        pair_rows = self.memory.graph.pairs[pairs]
        return pair_rows["node"].tolist(), pair_rows["action"].tolist()

    def _read_block(self, pairs: Ints, batch: Batch) -> None:
        nodes, actions = self._places(pairs)
        self._called_at = []
        try:
            with self.hold.opened():  # nothing is entered so far
                block_rows = list(map(self._row, pairs.tolist(), nodes, actions))
        except KeyboardInterrupt as stop:
            self.torn = any(map(self._is_torn, nodes))
            calls_lost = len(self._called_at)
            raise Interrupted("The search was stopped.", calls=calls_lost) from stop
        row_places = [i for i, row in enumerate(block_rows) if row is not None]
        known_rows = [row for row in block_rows if row is not None]
        num_entered, left_out = self._enter_rows(
            pairs[row_places], [nodes[i] for i in row_places], known_rows
        )
        # a row that has no room is read again, with all rows after it
        num_read = len(pairs) if left_out is None else row_places[num_entered]
        self.missing += [
            int(pairs[i]) for i in range(num_read) if block_rows[i] is None
        ]
        num_called = int(np.isin(pairs[:num_read], self._called_at).sum())
        self.num_rows += num_entered - num_called
        new_samples = slice(batch.drawn, batch.drawn + num_read)
        batch.raws[new_samples], batch.rewards[new_samples] = (
            END,
            self.problem.facts.reward_range[0],
        )
        batch.drawn = batch.entered = new_samples.stop
        if left_out is not None:
            left_out.calls = len(self._called_at) - num_called
            raise left_out

    def _enter_rows(
        self, pairs: Ints, nodes: list[int], rows: list[Row]
    ) -> tuple[int, MemoryFull | None]:
        """Enter rows in their order; how many there was room for, and why no more."""
        left_out: MemoryFull | None = None
        next_nodes = None
        if not self.memory.is_crowded(sum(map(len, rows))):
            next_nodes = self._together(nodes, rows)
        if next_nodes is None:
            next_nodes = []
            for node, row in zip(nodes, rows, strict=True):
                try:
                    next_nodes.append(self._one_by_one(row, node))
                except MemoryFull as error:
                    left_out = error
                    break
        merged_rows = [
            _merge_outcomes(*row_and_nodes)
            for row_and_nodes in zip(rows, next_nodes, strict=False)
        ]
        lengths = np.array(
            [len(targets) for targets, _, _ in merged_rows], dtype=np.int64
        )
        if merged_rows:
            self.memory.enter_rows(
                pairs[: len(merged_rows)],
                lengths,
                np.concatenate([row[0] for row in merged_rows]).astype(np.int64),
                np.concatenate([row[1] for row in merged_rows]),
                np.concatenate([row[2] for row in merged_rows]),
            )
        return len(merged_rows), left_out

    def _row(self, pair: int, node: int, action: int) -> Row | None:
        """The row of a pair; that its state was left alone is checked now and then."""
        state = self.memory.states[node]
        state_before = self.guard.copy_state(state) if self.guard.due() else None
        row = known_row(self.problem, state, action)
        if row is None:
            return self._call_step(pair, state, action)
        check_rewards(self.problem, row, state, action)
        if state_before is not None:
            self.guard.looks += 1
            if is_unchanged(state_before, state) is False:
                raise OracleError(
                    f"outcomes changed the state it was given: {state_before!r} became "
                    f"{state!r} {at_pair(state_before, action)}; copy the state there and change "
                    "the copy."
                )
        return row

    def _call_step(self, pair: int, state: Any, action: int) -> Row | None:
        """The row of a pair that has none: one call, if that is declared to be enough.

        Every call continues the pair's stream, so that two of them are a test.
        """
        problem = self.problem
        if not problem.deterministic:
            return None
        facts, rng = problem.facts, from_words(self._streams(np.array([pair]))[0])
        reward, next_state, ended = call_oracle(
            problem,
            state,
            action,
            rng,
            *facts.reward_range,
            facts.terminals,
            self.guard,
        )
        self.words[pair] = rng.words
        self._called_at.append(pair)
        return [(1.0, reward, OVER if ended else next_state)]

    def _one_by_one(self, row: Row, node: int) -> list[int]:
        """The nodes of a row's next states, each added when it is met."""
        if self.memory.graph.nodes["last"][node]:
            return [END] * len(row)
        return [
            END if next_state is OVER else self.memory.node_of(next_state)
            for _, _, next_state in row
        ]

    def _together(self, nodes: list[int], rows: list[Row]) -> list[list[int]] | None:
        """The nodes of the next states of many rows, new ones added together.

        None, and nothing was added, where a state has to be compared on its own: it is
        no plain value, or it equals one that it is not (1 and True).
        """
        if self.problem.key is not None:
            return None
        memory, known_nodes = self.memory, self.memory.nodes
        is_last = memory.graph.nodes["last"]
        new_numbers: dict[Any, int] = {}  # of new states: -1 - their number
        new_states: list[Any] = []
        times_met: dict[int, int] = {}  # how often a new state was met again
        row_targets: list[list[int]] = []  # nodes, and numbers of new states
        for start_node, row in zip(nodes, rows, strict=True):
            targets: list[int] = []
            for _, _, state in () if is_last[start_node] else row:
                try:
                    node = known_nodes.get(state)
                    if node is None:
                        node = new_numbers.get(state)
                except TypeError:  # it has no hash
                    return None
                if node is None:
                    if not is_fixed(state):
                        return None
                    node = new_numbers[state] = -1 - len(new_states)
                    new_states.append(state)
                elif node < END:
                    if _due(times_met, node) and not identical(
                        state, new_states[-1 - node]
                    ):
                        return None
                # equal values need not be the same state: 1 and True
                elif (
                    type(state) is not int or type(memory.states[node]) is not int
                ) and _due(self.arrivals, node):
                    memory.node_of(state)
                targets.append(node)
            row_targets.append(targets or [END] * len(row))
        new_nodes = memory.add_plain(new_states)
        return [
            [node if node >= 0 else new_nodes[-1 - node] for node in row]
            for row in row_targets
        ]


def _due(arrivals: dict[int, int], node: int) -> bool:
    """Whether an arrival at a node is to be compared with the first."""
    num_arrivals = arrivals[node] = arrivals.get(node, -1) + 1
    return num_arrivals < ALWAYS_COMPARED or num_arrivals % COMPARED_EVERY == 0


def _merge_outcomes(
    row: Row, nodes: list[int]
) -> tuple[list[int], list[float], list[float]]:
    """Next nodes, rewards and probabilities, outcomes that are the same made one."""
    if len(set(nodes)) == len(nodes):
        return nodes, [r for _, r, _ in row], [p for p, _, _ in row]
    merged_shares: dict[tuple[int, float], list[float]] = {}
    for (share, reward, _), node in zip(row, nodes, strict=True):
        if (node, reward) in merged_shares:
            merged_shares[node, reward].append(share)
        else:
            merged_shares[node, reward] = [share]
    return (
        [node for node, _ in merged_shares],
        [reward for _, reward in merged_shares],
        [math.fsum(outcome_shares) for outcome_shares in merged_shares.values()],
    )
