"""Rows of a model at discount 1, without self-loops, and the values of policies there.

A row is one choice of one state: reward + sum of weight * x(target). A row that may
stay in its own state is divided by the chance to leave it, which changes no total:
x = r + p x + rest is x = (r + rest)/(1 - p), and 1 - p is computed as the sum of the
weights that leave. So a rare exit keeps all its digits.

A policy picks one row for each state. It is *proper* if every play of it leads to the
outside (number n, worth 0) with probability 1. Then its value is the one solution of
x = r + W x, solved component by component. This file leaves out the best policy
(``strategy``) and any proof (``proof``): nothing here is trusted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from smoothcruiser.errors import Unpayable
from smoothcruiser.exact.model import EXACT, PART_SECONDS, Watch
from smoothcruiser.exact.solution import UNIT
from smoothcruiser.exact.undiscounted import graph_kernel
from smoothcruiser.problem.model.tabular import Bools, Floats, Ints

# States of one component that are eliminated one by one: 20 ms, exact to the last
# digits. Larger ones are swept, and solved by LAPACK where that does not end soon.
LARGEST_ELIMINATION = 400
LARGEST_SOLVE = 3_000  # 72 MB, a second or two
FASTER = 300  # multiplications of LAPACK in the time of one of a sweep, times 1/3
MOST_SWEEPS = 1_000_000  # of Gauss-Seidel for one policy; the proof bounds their error


@dataclass(eq=False)
class SweepBudget:
    """The passes that a search has spent, and its limits."""

    max_sweeps: int | None = None
    over: Watch = field(default_factory=Watch)
    sweeps: int = 0

    def spend(self, sweeps: int = 1) -> None:
        """Count passes over the transitions; refuse those beyond ``max_sweeps``."""
        self.sweeps += sweeps
        self.over.count_sweeps(sweeps)
        if self.max_sweeps is not None and self.sweeps > self.max_sweeps:
            raise Unpayable(
                f"max_sweeps={self.max_sweeps} passes were not enough to prove a bound "
                "at discount 1; raise max_sweeps."
            )


@dataclass(frozen=True, eq=False)
class Rows:
    """m rows of n states, sorted by state."""

    size: int  # n
    owner: Ints  # (m,)
    start: Ints  # (m + 1,)
    target: Ints  # (nnz,), n for the outside
    weight: Floats  # (nnz,), of a row they sum to 1
    reward: Floats  # (m,)
    pays: Bools  # (m,): some outcome of the row pays
    row: Ints  # (m,): the row of the model that it stands for

    @cached_property
    def first_rows(self) -> Ints:
        """(n + 1,): where the rows of each state begin."""
        return np.searchsorted(self.owner, np.arange(self.size + 1)).astype(np.int64)

    @cached_property
    def entry_row(self) -> Ints:
        """(nnz,): the row of each entry."""
        return np.repeat(np.arange(len(self.owner)), np.diff(self.start))

    @cached_property
    def backward(self) -> tuple[Ints, Ints]:
        """(back, row_of): the rows that lead to each state, as ``attract`` reads them."""
        entry_order = np.argsort(self.target, kind="stable")
        state_starts = np.searchsorted(
            self.target[entry_order], np.arange(self.size + 1)
        )
        return state_starts.astype(np.int64), self.entry_row[entry_order]

    def drift(self, x: Floats) -> tuple[Floats, Floats]:
        """(reward + W x - x, the size of its terms) of each row; ``x`` ends with a 0.

        It is summed as differences, so that states of equal value add no rounding.
        """
        value_steps, step_sizes = self.steps(x)
        num_rows = len(self.owner)
        mean_step = row_sums(self.entry_row, self.weight * value_steps, num_rows)
        term_size = row_sums(self.entry_row, self.weight * step_sizes, num_rows)
        return self.reward + mean_step, np.abs(self.reward) + term_size

    def steps(self, x: Floats) -> tuple[Floats, Floats]:
        """(x(target) - x(owner), the size of its terms) of each entry.

        A function of two rows is their sum: the second holds the digits that the
        first has no room for.
        """
        from_state, to_state = self.owner[self.entry_row], self.target
        if x.ndim == 1:
            value_steps = x[to_state] - x[from_state]
            return value_steps, np.abs(value_steps)
        coarse_steps, fine_steps = x[:, to_state] - x[:, from_state]
        return coarse_steps + fine_steps, np.abs(coarse_steps) + np.abs(fine_steps)

    def select_rows(self, keep: Bools) -> Rows:
        """Some of the rows, all of the states."""
        kept_entries = keep[self.entry_row]
        row_lengths = np.diff(self.start)[keep]
        return Rows(
            self.size,
            self.owner[keep],
            np.concatenate([[0], np.cumsum(row_lengths)]).astype(np.int64),
            self.target[kept_entries],
            self.weight[kept_entries],
            self.reward[keep],
            self.pays[keep],
            self.row[keep],
        )

    def renumber_states(self, label: Ints, size: int) -> Rows:
        """The rows with new numbers for states; ``size`` numbers the outside."""
        new_numbers = np.append(label, size).astype(np.int64)
        owner, target = new_numbers[self.owner], new_numbers[self.target]
        return replace(self, size=size, owner=owner, target=target)

    def merge_classes(self, label: Ints, size: int) -> Rows:
        """The rows between classes of states; ``label`` numbers them below ``size``.

        Rows that never leave their class are dropped.
        """
        new_numbers = np.append(label, size).astype(np.int64)
        owner, target = new_numbers[self.owner], new_numbers[self.target]
        leaves_class = target != owner[self.entry_row]
        num_rows = len(self.owner)
        leaving_weight = row_sums(self.entry_row, self.weight * leaves_class, num_rows)
        keep_row = leaving_weight > 0.0
        keep_entry = leaves_class & keep_row[self.entry_row]
        row_lengths = row_sums(self.entry_row, keep_entry, num_rows).astype(np.int64)
        row_order = np.argsort(owner[keep_row], kind="stable")
        kept_rows, entry_index = (
            np.flatnonzero(keep_row)[row_order],
            gather_entries(row_lengths[keep_row], row_order),
        )
        entry_weight = (
            self.weight[keep_entry] / leaving_weight[self.entry_row[keep_entry]]
        )
        return Rows(
            size,
            owner[kept_rows],
            np.concatenate([[0], np.cumsum(row_lengths[kept_rows])]).astype(np.int64),
            target[keep_entry][entry_index],
            entry_weight[entry_index],
            self.reward[kept_rows] / leaving_weight[kept_rows],
            self.pays[kept_rows],
            self.row[kept_rows],
        )


def row_sums(row: Ints, part: Floats | Bools, count: int) -> Floats:
    """(count,): the sum of ``part`` over the entries of each row."""
    return np.bincount(row, part, count).astype(np.float64)


def gather_entries(counts: Ints, order: Ints) -> Ints:
    """The indices of the entries of segments of lengths ``counts``, in ``order``."""
    segment_start = np.concatenate([[0], np.cumsum(counts)])[:-1][order]
    segment_length = counts[order]
    segment_end = np.cumsum(segment_length)
    index_shift = np.repeat(
        segment_start - (segment_end - segment_length), segment_length
    )
    entry_index: Ints = (
        np.arange(int(segment_length.sum()), dtype=np.int64) + index_shift
    )
    return entry_index


def edges(rows: Rows) -> tuple[Ints, Ints]:
    """The graph of all rows together: where each state's edges begin, and targets."""
    return rows.start[rows.first_rows], rows.target


def components(rows: Rows) -> tuple[Ints, int]:
    """The strongly connected component of each state, and their number."""
    label = np.empty(rows.size, dtype=np.int64)
    start, target = edges(rows)
    return label, int(EXACT.kernel(graph_kernel.components)(start, target, label))


def policy_value(
    rows: Rows, choice: Ints, near: Floats, work: SweepBudget
) -> Floats | None:
    """x = r + W x of the policy ``choice``, 0 appended; None if it is not proper.

    ``near`` is where sweeps begin, in components too large to solve.
    """
    work.spend()
    n = rows.size
    row_lengths = np.diff(rows.start)
    entry_index = gather_entries(row_lengths, choice)
    start = np.concatenate([[0], np.cumsum(row_lengths[choice])]).astype(np.int64)
    target, weight, income = (
        rows.target[entry_index],
        rows.weight[entry_index],
        rows.reward[choice],
    )
    label = np.empty(n, dtype=np.int64)
    num_blocks = int(EXACT.kernel(graph_kernel.components)(start, target, label))
    state_order = np.argsort(label, kind="stable")
    block_start = np.searchsorted(
        label[state_order], np.arange(num_blocks + 1)
    ).astype(np.int64)
    x = np.zeros(n + 1)
    place_buffer = np.zeros(n, dtype=np.int64)
    solve_blocks, b = EXACT.kernel(graph_kernel.substitute), 0
    chain_arrays = (start, target, weight, income)
    while b < num_blocks:
        b = int(
            solve_blocks(
                state_order,
                block_start,
                b,
                LARGEST_ELIMINATION,
                *chain_arrays,
                x,
                place_buffer,
            )
        )
        if b < 0:
            return None
        if b < num_blocks:
            block_states = state_order[block_start[b] : block_start[b + 1]]
            x[block_states] = near[block_states]
            max_sweeps, num_states = MOST_SWEEPS, len(block_states)
            if num_states <= LARGEST_SOLVE:  # the cost of LAPACK, in sweeps
                max_sweeps = (
                    num_states**3
                    // (FASTER * int(row_lengths[choice[block_states]].sum()))
                    + 1
                )
            if (
                not _sweep_block(block_states, chain_arrays, x, work, max_sweeps)
                and num_states <= LARGEST_SOLVE
                and not _solve_dense(block_states, chain_arrays, x)
            ):
                return None
            b += 1
    return x if bool(np.all(np.isfinite(x))) else None


Parts = tuple[Ints, Ints, Floats, Floats]


def _solve_dense(states: Ints, parts: Parts, x: Floats) -> bool:
    """Solve one component by LAPACK; whether that was possible."""
    start, target, weight, income = parts
    n = len(x) - 1
    block_place = np.full(n + 1, -1, dtype=np.int64)
    block_place[states] = np.arange(len(states))
    row_lengths = np.diff(start)
    entry_index = gather_entries(row_lengths, states)
    entry_row = np.repeat(np.arange(len(states)), row_lengths[states])
    is_inside = block_place[target[entry_index]] >= 0
    if bool(np.all(is_inside)):
        return False
    matrix = np.zeros((len(states), len(states)))
    np.add.at(
        matrix,
        (entry_row[is_inside], block_place[target[entry_index][is_inside]]),
        -weight[entry_index][is_inside],
    )
    leaving_weight = row_sums(entry_row, weight[entry_index], len(states))
    matrix[np.arange(len(states)), np.arange(len(states))] += leaving_weight
    known_income = row_sums(
        entry_row,
        np.where(is_inside, 0.0, weight[entry_index] * x[target[entry_index]]),
        len(states),
    )
    try:
        x[states] = np.linalg.solve(matrix, income[states] + known_income)
    except np.linalg.LinAlgError:
        return False
    return True


def _sweep_block(
    states: Ints, parts: Parts, x: Floats, work: SweepBudget, max_sweeps: int
) -> bool:
    """Whether Gauss-Seidel sweeps over one component came to change nothing."""
    relax_kernel, num_done, num_sweeps = EXACT.kernel(graph_kernel.relax), 0, 16
    while num_done < max_sweeps and work.over() is None:
        start_time = time.perf_counter()
        num_sweeps = min(num_sweeps, max_sweeps - num_done)
        max_change = float(relax_kernel(states, *parts, x, num_sweeps))
        num_done += num_sweeps
        work.spend(num_sweeps)
        if max_change <= 2.0 * UNIT * float(np.max(np.abs(x[states]))):
            return True
        if time.perf_counter() - start_time < PART_SECONDS:
            num_sweeps *= 2
    return False


def best_rows(rows: Rows, score: Floats) -> Ints:
    """(n,): the row of the largest ``score`` of each state, the first of equal ones."""
    top_score = np.maximum.reduceat(score, rows.first_rows[:-1])
    is_best = score >= top_score[rows.owner]
    best_index = np.flatnonzero(is_best)
    return best_index[np.searchsorted(rows.owner[best_index], np.arange(rows.size))]
