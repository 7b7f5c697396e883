"""Actions that known bounds exclude: a tree with ``bounds=`` never tries them.

A memory of certified search has bounds L(s, a) <= Q(s, a) <= U(s, a) for the states that
it has met, and all of them hold together with probability 1 - delta. Where they hold,
the operator is Max and max moves, an action with

    U(s, a) < max_b L(s, b)

is not best in s, and V is the same without it (min mirrors: L(s, a) > min_b U(s, b)). So
a tree may search the smaller problem. Its nodes treat such an action as if it were
illegal; rollouts from leaves stay blind. An action with the largest L is never excluded,
so that every node keeps one. With a horizon, bounds are those of the steps left. What
the tree says of its root is put inside the bounds there.

An exact ``Solution`` excludes in the same way: L and U are its q_values, less and plus
``residual_bound``.

What this file decides: what is excluded, once, when the tree is made; a memory that goes
on learning changes no tree. What it leaves out: a certificate. The search itself samples
no bound, and what the memory certifies of the root is the memory's to say.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.exact.solution import Solution
from smoothcruiser.operators import Max
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.problem.fingerprint.walk import INITIAL
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import Ints
from smoothcruiser.tree.evaluators import is_memory, named_object
from smoothcruiser.tree.pruning_kernel import ANY_TIME, FLAGS

if TYPE_CHECKING:
    from smoothcruiser.tree.searches import Search


class KnownRow(NamedTuple):
    """Bounds on the values of a state's actions, NaN where an action is illegal."""

    state: Any
    remaining: int | None  # steps left, where the problem has a horizon
    sign: float  # +1 where max moves, -1 where min does
    intervals: Any  # (K, 2)


Place = tuple[Any, int]  # the key of a state, and the moves made before it


@dataclass(frozen=True, eq=False)
class KnownBounds:
    """Bounds on the values of actions, and what they exclude.

    Where there is no horizon, the moves of a place are ``ANY_TIME``.
    """

    rows: dict[Place, KnownRow] = field(default_factory=dict)
    excluded: dict[Place, frozenset[int]] = field(default_factory=dict)
    confidence: float = 1.0  # that all bounds hold together
    timed: bool = False

    def left(self, key: Hashable, moves: int, actions: list[int]) -> list[int]:
        """Those of a state's legal actions that are not excluded."""
        out = self.excluded.get((key, moves if self.timed else ANY_TIME))
        return actions if out is None else [a for a in actions if a not in out]

    def informed(
        self, key: Hashable, moves: int, q: dict[int, float], value: float
    ) -> tuple[dict[int, float], float]:
        """Estimates of Q and V at a state, put inside their bounds.

        An action that was excluded has no estimate: it has the middle of its bounds.
        """
        row = self.rows.get((key, moves if self.timed else ANY_TIME))
        if row is None:
            return q, value
        ends = {
            a: (low, high)
            for a, (low, high) in enumerate(np.asarray(row.intervals).tolist())
            if low <= high
        }
        found = {
            a: min(max(q.get(a, 0.5 * (low + high)), low), high)
            for a, (low, high) in ends.items()
        }
        best = max if row.sign > 0.0 else min
        low = best((low for low, _ in ends.values()), default=value)
        high = best((high for _, high in ends.values()), default=value)
        return q | found, min(max(value, low), high)

    @property
    def sentence(self) -> str:
        """What it is worth, for the notes of an estimate."""
        if not self.excluded:
            return "bounds= excludes no action of any state yet."
        pairs = sum(len(out) for out in self.excluded.values())
        many = f"bounds= left out {pairs:,} actions of {len(self.excluded):,} states"
        sure = self.confidence == 1.0
        chance = "" if sure else f"with probability at least {self.confidence:g} "
        return f"{many}; {chance}none of them is best."

    def table(self, num_actions: int) -> Ints:
        """What is excluded, for ``pruning_kernel``: states are whole numbers."""
        found = np.zeros((len(self.excluded), FLAGS + num_actions), np.int64)
        places = sorted(self.excluded.items(), key=lambda item: item[0][::-1])
        for row, ((state, moves), out) in zip(found, places, strict=True):
            row[:FLAGS] = moves, state
            row[[FLAGS + a for a in out]] = 1
        return found


def check_bounds(search: Any) -> None:
    """Refuse ``bounds=`` of another kind, or with what it does not go with."""
    if search.bounds is None:
        return
    found = search.bounds
    if isinstance(found, str):
        found = named_object(search.name, "bounds", found)
        object.__setattr__(search, "bounds", found)
    if not isinstance(found, Solution) and not is_memory(found):
        raise InvalidInput(
            f"{search.name}: bounds must be a Certified or a Solution of the problem, got "
            f"{type(found).__name__}."
        )
    if search.solve:
        raise InvalidInput(
            f"{search.name}: solve=True proves for sure, and bounds= may fail with the "
            "memory's delta; drop one of them."
        )


def bounds_of(problem: Problem, search: Search) -> KnownBounds:
    """The bounds of a search as they are now; none where it has none."""
    if search.bounds is None:
        return KnownBounds()
    if problem.operator != Max():
        raise InvalidInput(
            f"{search.name}: bounds= leaves out actions that are not best, and under "
            f"{problem.operator.label} all actions count; use operator=Max(), or give "
            "the memory as value=."
        )
    if search.operator(problem.operator) != Max():
        raise InvalidInput(
            f"{search.name}: bounds= needs a search for the plain maximum; use uct, bts, "
            "dents, puct or gumbel, or drop bounds."
        )
    if isinstance(search.bounds, Solution):
        rows, confidence = _solved(problem, search), 1.0
    else:
        _check_same(problem, search)
        table = search.bounds.table()
        rows, confidence = _remembered(table), table.confidence
    horizon = problem.horizon
    known = {}
    for row in rows:
        moves = ANY_TIME if horizon is None else horizon - (row.remaining or 0)
        known[problem.key_of(row.state), moves] = row
    excluded = {place: out for place, row in known.items() if (out := _worse(row))}
    return KnownBounds(known, excluded, confidence, timed=horizon is not None)


def _worse(row: KnownRow) -> frozenset[int]:
    """The actions that are not best: NaN excludes nothing and is never excluded."""
    ends = np.asarray(row.intervals, dtype=np.float64)
    low, high = ends[:, 0], ends[:, 1]
    if row.sign < 0.0:
        low, high = -high, -low
    floor = np.fmax.reduce(low)
    return frozenset(np.flatnonzero(high < floor).tolist())


def _remembered(table: Any) -> Iterator[KnownRow]:
    for row in table:
        sign = 1.0 if row.player == 1 else -1.0
        yield KnownRow(row.state, row.remaining, sign, row.q_intervals)


def _check_same(problem: Problem, search: Search) -> None:
    """Refuse a memory of another problem; where it starts makes no difference."""
    own = search.bounds.problem
    if own is problem:
        return
    changed = set(fingerprint(own).changes(fingerprint(problem).parts)) - {INITIAL}
    if changed:
        raise InvalidInput(
            f"{search.name}: bounds= is a memory of another problem "
            f"({', '.join(sorted(changed))} differ); give one of this problem."
        )


def _solved(problem: Problem, search: Search) -> Iterator[KnownRow]:
    solution: Solution = search.bounds
    q, states = solution.q_values, solution.states
    if solution.stages is not None:
        raise InvalidInput(
            f"{search.name}: bounds cannot be a Solution with a horizon, which knows the "
            "values of actions with all steps left only; give a Certified."
        )
    count = None if problem.tables is None else len(problem.tables.terminal)
    other = states is None and len(q) != count
    if other or q.shape[1] != problem.num_actions or solution.problem != problem.name:
        raise InvalidInput(
            f"{search.name}: bounds= is the Solution of another problem "
            f"({solution.problem!r:.40}, {len(q):,} states, {q.shape[1]} actions); give "
            "that of this one."
        )
    wide = solution.residual_bound
    low, high = np.nextafter(q - wide, -np.inf), np.nextafter(q + wide, np.inf)
    ends = np.stack([low, high], axis=2)
    for i, state in enumerate(range(len(q)) if states is None else states):
        if np.isfinite(q[i]).any():
            sign = 1.0 if problem.mover(state) == 1 else -1.0
            yield KnownRow(state, None, sign, ends[i])
