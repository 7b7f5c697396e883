"""Known bounds: a tree with ``bounds=`` never tries actions that they exclude.

A memory of certified search has bounds L(s, a) <= Q(s, a) <= U(s, a) for the states that
it has met, and all of them hold together with probability 1 - delta. Where they hold,
the operator is Max and max moves, an action with

    U(s, a) < max_b L(s, b)

is not best in s, and V is the same without it (min mirrors: L(s, a) > min_b U(s, b)). So
a tree may search the smaller problem. Its nodes treat such an action as if it were
illegal; rollouts from leaves stay blind. An action with the largest L is never excluded,
so that every node keeps one. With a horizon, bounds are those of the steps left.

The values of the other actions are put inside their bounds wherever a node is known:
when it chooses, when it passes a value up that is made of them, and when it is read.
Returns themselves are not: one sample may well lie outside the bounds of the mean.

An exact ``Solution`` excludes in the same way: L and U are its q_values, less and plus
``residual_bound``.

The bounds are read once, when the tree is made; a memory that goes on learning changes
no tree. Not in this file: a certificate. The search itself samples no bound, and the
memory's certificate of the root belongs to the memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import Max
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.problem.fingerprint.walk import INITIAL
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.evaluators import is_memory, named_object
from smoothcruiser.tree.kernels.rules_kernel import ANY_TIME, FLAGS

if TYPE_CHECKING:
    from smoothcruiser.exact.solution import Solution


class KnownRow(NamedTuple):
    """Bounds on the values of a state's actions: infinite where nothing is known."""

    lows: list[float]
    highs: list[float]
    excluded: frozenset[int]


StateTime = tuple[Any, int]  # the key of a state, and the moves made before it


@dataclass(frozen=True, eq=False)
class KnownBounds:
    """Bounds on the values of actions in the states that are known.

    Where there is no horizon, the moves of a place are ``ANY_TIME``.
    """

    rows: dict[StateTime, KnownRow] = field(default_factory=dict)
    confidence: float = 1.0  # that all of them hold together
    timed: bool = False

    def row_at(self, key: Hashable, moves: int) -> KnownRow | None:
        """The known bounds of a state after so many moves."""
        return self.rows.get((key, moves if self.timed else ANY_TIME))

    def middles(self, key: Hashable, moves: int) -> dict[int, float]:
        """Values of a state's excluded actions, which a tree does not estimate."""
        row = self.row_at(key, moves)
        if row is None:
            return {}
        return {a: 0.5 * (row.lows[a] + row.highs[a]) for a in row.excluded}

    @property
    def excluded_actions(self) -> dict[StateTime, frozenset[int]]:
        """The actions that are left out, where there are any."""
        excluded_by_place = {place: row.excluded for place, row in self.rows.items()}
        return {
            place: actions for place, actions in excluded_by_place.items() if actions
        }

    @property
    def sentence(self) -> str:
        """The number of exclusions in a sentence, for the notes of an estimate."""
        excluded_actions = self.excluded_actions
        known_text = f"bounds= knew {len(self.rows):,} states"
        if not excluded_actions:
            return f"{known_text} and left out no action."
        num_excluded = sum(map(len, excluded_actions.values()))
        is_sure = self.confidence == 1.0
        chance_text = (
            "" if is_sure else f"with probability at least {self.confidence:g} "
        )
        return (
            f"{known_text} and left out {num_excluded:,} actions; {chance_text}none of "
            "these is best."
        )

    def tables(self, num_actions: int) -> tuple[Ints, Floats]:
        """The rows as arrays for ``rules_kernel``, where states are whole numbers."""
        known_states = np.zeros((len(self.rows), FLAGS + num_actions), np.int64)
        known_bounds = np.zeros((len(self.rows), 2 * num_actions))
        sorted_rows = sorted(self.rows.items(), key=lambda item: item[0][::-1])
        for i, ((state, moves), known_row) in enumerate(sorted_rows):
            known_states[i, :FLAGS] = moves, state
            known_states[i, [FLAGS + a for a in known_row.excluded]] = 1
            known_bounds[i] = known_row.lows + known_row.highs
        return known_states, known_bounds


def check_bounds(search: Any) -> None:
    """Refuse ``bounds=`` of another kind, or with parameters that exclude it."""
    source = search.bounds
    if isinstance(source, str):
        source = named_object(search.name, "bounds", source)
        object.__setattr__(search, "bounds", source)
    if not _is_solution(source) and not is_memory(source):
        raise InvalidInput(
            f"{search.name}: bounds must be a Certified or a Solution of the problem, "
            f"got {type(source).__name__}."
        )
    if search.solve:
        raise InvalidInput(
            f"{search.name}: solve=True proves for sure, and bounds= may fail with the "
            "memory's delta; drop one of them."
        )


def _is_solution(given: Any) -> bool:
    from smoothcruiser.exact.solution import Solution

    return isinstance(given, Solution)


def bounds_of(problem: Problem, search: Any) -> KnownBounds:
    """The bounds of a search with ``bounds=`` as they are now."""
    if problem.operator != Max():
        raise InvalidInput(
            f"{search.name}: bounds= leaves out actions that are not best, and under "
            f"{problem.operator.label} all actions count; use operator=Max(), or give "
            "the memory as value=."
        )
    if search.operator(problem.operator) != Max():
        raise InvalidInput(
            f"{search.name}: bounds= needs a search for the plain maximum; use uct, "
            "bts, dents, puct or gumbel, or drop bounds."
        )
    if _is_solution(search.bounds):
        states_known, confidence = _solution_states(problem, search), 1.0
    else:
        _check_same(problem, search)
        table = search.bounds.table()
        states_known, confidence = _memory_states(table), table.confidence
    horizon = problem.horizon
    known_rows = {}
    for state, remaining, player, q_intervals in states_known:
        num_moves = ANY_TIME if horizon is None else horizon - (remaining or 0)
        known_rows[problem.key_of(state), num_moves] = row_of(player, q_intervals)
    return KnownBounds(known_rows, confidence, timed=horizon is not None)


def row_of(player: int, q_intervals: Any) -> KnownRow:
    """The bounds that intervals (K, 2) give to a state's actions; NaN gives none."""
    interval_array = np.asarray(q_intervals, dtype=np.float64)
    lower_ends, upper_ends = (
        np.fmax(interval_array[:, 0], -np.inf),
        np.fmin(interval_array[:, 1], np.inf),
    )
    is_excluded = (
        upper_ends < lower_ends.max() if player == 1 else lower_ends > upper_ends.min()
    )
    excluded_actions = frozenset(np.flatnonzero(is_excluded).tolist())
    return KnownRow(lower_ends.tolist(), upper_ends.tolist(), excluded_actions)


# a state, the steps left, the player to move, intervals (K, 2)
KnownState = tuple[Any, int | None, int, Any]


def _memory_states(table: Any) -> Iterator[KnownState]:
    for row in table:
        yield row.state, row.remaining, row.player, row.q_intervals


def _check_same(problem: Problem, search: Any) -> None:
    """Refuse a memory of another problem; where it starts makes no difference."""
    memory_problem = search.bounds.problem
    if memory_problem is problem:
        return
    changed_parts = set(
        fingerprint(memory_problem).changes(fingerprint(problem).parts)
    ) - {INITIAL}
    if changed_parts:
        raise InvalidInput(
            f"{search.name}: bounds= is a memory of another problem "
            f"({', '.join(sorted(changed_parts))} differ); give one of this problem."
        )


def _solution_states(problem: Problem, search: Any) -> Iterator[KnownState]:
    solution: Solution = search.bounds
    q_values, states = solution.q_values, solution.states
    if solution.stages is not None:
        raise InvalidInput(
            f"{search.name}: bounds cannot be a Solution with a horizon, which knows "
            "the values of actions with all steps left only; give a Certified."
        )
    num_states = None if problem.tables is None else len(problem.tables.terminal)
    other_states = states is None and len(q_values) != num_states
    if (
        other_states
        or q_values.shape[1] != problem.num_actions
        or solution.problem != problem.name
    ):
        raise InvalidInput(
            f"{search.name}: bounds= is the Solution of another problem "
            f"({solution.problem!r:.40}, {len(q_values):,} states, {q_values.shape[1]} "
            "actions); give that of this one."
        )
    residual_bound = solution.residual_bound
    lower_ends, upper_ends = (
        np.nextafter(q_values - residual_bound, -np.inf),
        np.nextafter(q_values + residual_bound, np.inf),
    )
    q_intervals = np.stack([lower_ends, upper_ends], axis=2)
    for i, state in enumerate(range(len(q_values)) if states is None else states):
        if np.isfinite(q_values[i]).any():
            yield state, None, problem.mover(state), q_intervals[i]
