"""Actions that known bounds exclude: a tree with ``bounds=`` never tries them.

A memory of certified search has bounds L(s, a) <= Q(s, a) <= U(s, a) for the states that
it has met, and all of them hold together with probability 1 - delta. Where they hold,
the operator is Max and max moves, an action with

    U(s, a) < max_b L(s, b)

is not best in s, and V is the same without it (min mirrors: L(s, a) > min_b U(s, b)). So
a tree may search the smaller problem. Its nodes treat such an action as if it were
illegal; rollouts from leaves stay blind. An action with the largest L is never excluded,
so that every node keeps one. With a horizon, bounds are those of the steps left.

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
from smoothcruiser.tree.evaluators import named_object
from smoothcruiser.tree.pruning_kernel import ANY_TIME, FLAGS

if TYPE_CHECKING:
    from smoothcruiser.tree.searches import Search


class KnownRow(NamedTuple):
    """Bounds on the values of a state's actions, NaN where an action is illegal."""

    state: Any
    remaining: int | None  # steps left, where the problem has a horizon
    sign: float  # +1 where max moves, -1 where min does
    intervals: Any  # (K, 2)


@dataclass(frozen=True, eq=False)
class Excluded:
    """Which actions bounds exclude, by the key of a state and the moves made before it.

    Where there is no horizon, the moves are ``ANY_TIME``.
    """

    actions: dict[tuple[Any, int], frozenset[int]] = field(default_factory=dict)
    confidence: float = 1.0  # that none of them is best, all together
    timed: bool = False

    def left(self, key: Hashable, moves: int, actions: list[int]) -> list[int]:
        """Those of a state's legal actions that are not excluded."""
        out = self.actions.get((key, moves if self.timed else ANY_TIME))
        return actions if out is None else [a for a in actions if a not in out]

    def rows(self, num_actions: int) -> Ints:
        """The same for ``pruning_kernel``, where states are whole numbers."""
        found = np.zeros((len(self.actions), FLAGS + num_actions), np.int64)
        places = sorted(self.actions.items(), key=lambda item: item[0][::-1])
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


def is_memory(given: Any) -> bool:
    """Whether ``given`` is a ``Certified``, which is defined in a later layer."""
    return hasattr(given, "table") and hasattr(given, "query")


def excluded_by(problem: Problem, search: Search) -> Excluded:
    """What the bounds of a search exclude now; nothing where it has none."""
    if search.bounds is None:
        return Excluded()
    if problem.operator != Max():
        raise InvalidInput(
            f"{search.name}: bounds= leaves out actions that are not best, and under "
            f"{problem.operator.label} all actions count; use operator=Max(), or give "
            "the memory as value=."
        )
    if isinstance(search.bounds, Solution):
        rows, confidence = _solved(problem, search), 1.0
    else:
        _check_same(problem, search)
        table = search.bounds.table()
        rows, confidence = _remembered(table), table.confidence
    horizon = problem.horizon
    actions = {}
    for row in rows:
        out = _worse(row)
        if out:
            moves = ANY_TIME if horizon is None else horizon - (row.remaining or 0)
            actions[problem.key_of(row.state), moves] = out
    return Excluded(actions, confidence, timed=horizon is not None)


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
