"""Rows of a model at discount 1, without self-loops, and the values of policies there.

A row is one choice of one state: reward + sum of weight * x(target). A row that may
stay in its own state is divided by the chance to leave it, which changes no total:
x = r + p x + rest is x = (r + rest)/(1 - p), and 1 - p is computed as the sum of
what leaves. So a rare exit keeps all its digits.

A policy picks one row for each state. It is *proper* if every play of it leads to the
outside (number n, worth 0) with probability 1. Then its value is the one solution of
x = r + W x, solved component by component. What this file leaves out: which policy
is best (``strategy``), and any proof (``proof``): nothing here is trusted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from smoothcruiser.errors import Unpayable
from smoothcruiser.exact import graph_kernel
from smoothcruiser.exact.model import PART_SECONDS
from smoothcruiser.exact.stopped import UNIT
from smoothcruiser.exact.watch import Watch
from smoothcruiser.jit.build import compiled
from smoothcruiser.problem.tabular import Bools, Floats, Ints

# States of one component that are eliminated one by one: 20 ms, exact to the last
# digits. Larger ones are swept, and solved by LAPACK where that does not end soon.
LARGEST_ELIMINATION = 400
LARGEST_SOLVE = 3_000  # 72 MB, a second or two
FASTER = 300  # multiplications of LAPACK in the time of one of a sweep, times 1/3
MOST_SWEEPS = 1_000_000  # of Gauss-Seidel for one policy; the proof says what they gave


@dataclass(eq=False)
class Work:
    """What a search has spent, and when it has to stop."""

    max_sweeps: int | None = None
    over: Watch = field(default_factory=Watch)
    sweeps: int = 0

    def spend(self, sweeps: int = 1) -> None:
        """Count passes over the transitions; refuse those beyond ``max_sweeps``."""
        self.sweeps += sweeps
        self.over.swept(sweeps)
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
    row: Ints  # (m,): which row of the model it stands for

    @cached_property
    def first(self) -> Ints:
        """(n + 1,): where the rows of each state begin."""
        return np.searchsorted(self.owner, np.arange(self.size + 1)).astype(np.int64)

    @cached_property
    def entry_row(self) -> Ints:
        """(nnz,): the row of each entry."""
        return np.repeat(np.arange(len(self.owner)), np.diff(self.start))

    @cached_property
    def backward(self) -> tuple[Ints, Ints]:
        """(back, row_of): the rows that lead to each state, as ``attract`` reads them."""
        order = np.argsort(self.target, kind="stable")
        back = np.searchsorted(self.target[order], np.arange(self.size + 1))
        return back.astype(np.int64), self.entry_row[order]

    def drift(self, x: Floats) -> tuple[Floats, Floats]:
        """(reward + W x - x, the size of its terms) of each row; ``x`` ends with a 0.

        It is summed as differences, so that states of equal value add no rounding.
        """
        step, wide = self.steps(x)
        count = len(self.owner)
        mean = sums(self.entry_row, self.weight * step, count)
        size = sums(self.entry_row, self.weight * wide, count)
        return self.reward + mean, np.abs(self.reward) + size

    def steps(self, x: Floats) -> tuple[Floats, Floats]:
        """(x(target) - x(owner), the size of its terms) of each entry.

        A function of two rows is their sum: the second holds the digits that the
        first has no room for.
        """
        here, there = self.owner[self.entry_row], self.target
        if x.ndim == 1:
            step = x[there] - x[here]
            return step, np.abs(step)
        coarse, fine = x[:, there] - x[:, here]
        return coarse + fine, np.abs(coarse) + np.abs(fine)

    def only(self, keep: Bools) -> Rows:
        """Some of the rows, all of the states."""
        inside = keep[self.entry_row]
        counts = np.diff(self.start)[keep]
        return Rows(
            self.size,
            self.owner[keep],
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            self.target[inside],
            self.weight[inside],
            self.reward[keep],
            self.pays[keep],
            self.row[keep],
        )

    def renamed(self, label: Ints, size: int) -> Rows:
        """The rows with other numbers for states; ``size`` is that of the outside."""
        named = np.append(label, size).astype(np.int64)
        owner, target = named[self.owner], named[self.target]
        return replace(self, size=size, owner=owner, target=target)

    def merged(self, label: Ints, size: int) -> Rows:
        """The rows between classes of states; ``label`` numbers them below ``size``.

        Rows that never leave their class are dropped.
        """
        named = np.append(label, size).astype(np.int64)
        owner, target = named[self.owner], named[self.target]
        leaves = target != owner[self.entry_row]
        count = len(self.owner)
        leaving = sums(self.entry_row, self.weight * leaves, count)
        keep = leaving > 0.0
        entry = leaves & keep[self.entry_row]
        counts = sums(self.entry_row, entry, count).astype(np.int64)
        order = np.argsort(owner[keep], kind="stable")
        rows, at = np.flatnonzero(keep)[order], gather(counts[keep], order)
        share = self.weight[entry] / leaving[self.entry_row[entry]]
        return Rows(
            size,
            owner[rows],
            np.concatenate([[0], np.cumsum(counts[rows])]).astype(np.int64),
            target[entry][at],
            share[at],
            self.reward[rows] / leaving[rows],
            self.pays[rows],
            self.row[rows],
        )


def sums(row: Ints, part: Floats | Bools, count: int) -> Floats:
    """(count,): the sum of ``part`` over the entries of each row."""
    return np.bincount(row, part, count).astype(np.float64)


def gather(counts: Ints, order: Ints) -> Ints:
    """Where the entries of segments of lengths ``counts`` lie, taken in ``order``."""
    begin = np.concatenate([[0], np.cumsum(counts)])[:-1][order]
    length = counts[order]
    ends = np.cumsum(length)
    shift = np.repeat(begin - (ends - length), length)
    found: Ints = np.arange(int(length.sum()), dtype=np.int64) + shift
    return found


def edges(rows: Rows) -> tuple[Ints, Ints]:
    """The graph of all rows together: where each state's edges begin, and targets."""
    return rows.start[rows.first], rows.target


def components(rows: Rows) -> tuple[Ints, int]:
    """The strongly connected component of each state, and their number."""
    label = np.empty(rows.size, dtype=np.int64)
    start, target = edges(rows)
    return label, int(compiled(graph_kernel.components)(start, target, label))


def policy_value(rows: Rows, choice: Ints, near: Floats, work: Work) -> Floats | None:
    """x = r + W x of the policy ``choice``, 0 appended; None if it is not proper.

    ``near`` is where sweeps begin, in components too large to solve.
    """
    work.spend()
    n = rows.size
    counts = np.diff(rows.start)
    at = gather(counts, choice)
    start = np.concatenate([[0], np.cumsum(counts[choice])]).astype(np.int64)
    target, weight, income = rows.target[at], rows.weight[at], rows.reward[choice]
    label = np.empty(n, dtype=np.int64)
    found = int(compiled(graph_kernel.components)(start, target, label))
    order = np.argsort(label, kind="stable")
    block = np.searchsorted(label[order], np.arange(found + 1)).astype(np.int64)
    x = np.zeros(n + 1)
    place = np.zeros(n, dtype=np.int64)
    solve, b = compiled(graph_kernel.substitute), 0
    parts = (start, target, weight, income)
    while b < found:
        b = int(solve(order, block, b, LARGEST_ELIMINATION, *parts, x, place))
        if b < 0:
            return None
        if b < found:
            states = order[block[b] : block[b + 1]]
            x[states] = near[states]
            most, size = MOST_SWEEPS, len(states)
            if size <= LARGEST_SOLVE:  # what LAPACK would cost, made of sweeps
                most = size**3 // (FASTER * int(counts[choice[states]].sum())) + 1
            if (
                not _sweep(states, parts, x, work, most)
                and size <= LARGEST_SOLVE
                and not _dense(states, parts, x)
            ):
                return None
            b += 1
    return x if bool(np.all(np.isfinite(x))) else None


Parts = tuple[Ints, Ints, Floats, Floats]


def _dense(states: Ints, parts: Parts, x: Floats) -> bool:
    """Solve one component by LAPACK; whether that was possible."""
    start, target, weight, income = parts
    n = len(x) - 1
    place = np.full(n + 1, -1, dtype=np.int64)
    place[states] = np.arange(len(states))
    counts = np.diff(start)
    at = gather(counts, states)
    row = np.repeat(np.arange(len(states)), counts[states])
    inside = place[target[at]] >= 0
    if bool(np.all(inside)):
        return False
    matrix = np.zeros((len(states), len(states)))
    np.add.at(matrix, (row[inside], place[target[at][inside]]), -weight[at][inside])
    leave = sums(row, weight[at], len(states))
    matrix[np.arange(len(states)), np.arange(len(states))] += leave
    known = sums(row, np.where(inside, 0.0, weight[at] * x[target[at]]), len(states))
    try:
        x[states] = np.linalg.solve(matrix, income[states] + known)
    except np.linalg.LinAlgError:
        return False
    return True


def _sweep(states: Ints, parts: Parts, x: Floats, work: Work, most: int) -> bool:
    """Whether Gauss-Seidel sweeps over one component came to change nothing."""
    kernel, done, part = compiled(graph_kernel.relax), 0, 16
    while done < most and work.over() is None:
        begin = time.perf_counter()
        part = min(part, most - done)
        change = float(kernel(states, *parts, x, part))
        done += part
        work.spend(part)
        if change <= 2.0 * UNIT * float(np.max(np.abs(x[states]))):
            return True
        if time.perf_counter() - begin < PART_SECONDS:
            part *= 2
    return False


def best_rows(rows: Rows, score: Floats) -> Ints:
    """(n,): the row of the largest ``score`` of each state, the first of equal ones."""
    top = np.maximum.reduceat(score, rows.first[:-1])
    best = score >= top[rows.owner]
    found = np.flatnonzero(best)
    return found[np.searchsorted(rows.owner[found], np.arange(rows.size))]
