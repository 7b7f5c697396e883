"""The known model of a problem: its tables, or the graph explored from ``outcomes``.

``outcomes(state, action) -> [(probability, reward, next_state)]``: walk from
``initial_state``, number the states in the order they are met, and write
compressed rows. Illegal actions and terminal states get empty rows. States with
equal keys are one (``Problem.key_of``); a state that comes back under the key
of another must have the same mover, legal actions and end. With a horizon the
walk ends after that many steps: a state met there has no step left, so its rows
stay empty and it is marked terminal, worth 0. After the walk some rows, movers,
legal actions and ends are asked for again, and every state that can be written into
must still have its key: a model that changes has no values. This file decides
nothing about values, and leaves out graphs too large for Python loops: certified
search reads the rows that its answer needs.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.errors import Interrupted, InvalidInput, OracleError
from smoothcruiser.exact.watch import Watch
from smoothcruiser.problem.answers import answers_changed
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.rows import (
    READ_AGAIN,
    answered_again,
    check_ends,
    check_model,
    read_row,
    same_rows,
)
from smoothcruiser.problem.states import check_recognizable, is_fixed
from smoothcruiser.problem.tabular import Bools, Ints, Tables
from smoothcruiser.problem.undiscounted import is_undiscounted

MOST_STATES = 200_000  # about ten seconds of Python with a handful of outcomes per pair


class TooLarge(InvalidInput):
    """A model was not explored to its end; ``states`` were met until then."""

    def __init__(self, sentence: str, states: int) -> None:
        super().__init__(sentence)
        self.states = states


class KnownModel(NamedTuple):
    """A known model.

    ``states`` and ``depth`` are None where the problem has tables: then states are
    numbers already.
    """

    tables: Tables
    states: tuple[Any, ...] | None = None  # the state of each row
    # (S,), the fewest steps from the initial state, 0 in terminal states; None if no
    # horizon truncated the walk
    depth: Ints | None = None

    def unknown(self, horizon: int, remaining: int) -> Bools:
        """(S,): where a value depends on unexplored states beyond the horizon.

        The value is that with ``remaining`` steps left.
        """
        if self.depth is None:
            return np.zeros(self.tables.num_states, dtype=np.bool_)
        is_unknown: Bools = self.depth + remaining > horizon
        return is_unknown


def known_model(
    problem: Problem, deadline: float = math.inf, watch: Watch | None = None
) -> KnownModel:
    """The tables of ``problem``, or those of the states that ``outcomes`` leads to."""
    if problem.tables is not None:
        return KnownModel(problem.tables)
    check_model(problem)
    return explore(problem, deadline=deadline, watch=watch)


def explore(
    problem: Problem,
    *,
    most_states: int | None = None,
    deadline: float = math.inf,
    watch: Watch | None = None,
) -> KnownModel:
    """Tables of the states reachable from ``initial_state``, and these states in order.

    With a horizon they are the states within it. Raises ``TooLarge`` where there
    are more than ``most_states`` (by default ``MOST_STATES``), or where
    ``time.perf_counter()`` passes ``deadline`` first; ``Interrupted`` where ``watch``
    learns from the progress function that it is to stop.
    """
    watch = Watch() if watch is None else watch
    watch.begin("exploring")
    check_ends(problem)
    numbered = _NumberedStates(
        problem, MOST_STATES if most_states is None else most_states
    )
    depth: list[int] = numbered.depth
    was_cut = False
    row_lengths: list[int] = []
    next_rows: list[int] = []
    probabilities: list[float] = []
    rewards: list[float] = []
    player: list[int] = []
    terminal: list[bool] = []
    legal: list[list[bool]] = []
    # grows while we walk: first met, first expanded
    for row, state in enumerate(numbered.states):
        if time.perf_counter() > deadline:
            raise TooLarge(
                f"The time was up when {len(numbered.states):,} states had been met and "
                f"{row:,} of them explored; allow more, or {_instead(problem)}.",
                len(numbered.states),
            )
        if watch.report_states(len(numbered.states)):
            raise Interrupted(
                "The progress function returned False when "
                f"{len(numbered.states):,} states had been met, and not all."
            )
        profile = numbered.profiles[row]
        if profile is None:
            depth[row] = 0
        elif depth[row] == problem.horizon:
            profile, was_cut = None, True
        legal_set = set() if profile is None else set(profile[1:])
        terminal.append(profile is None)
        player.append(1 if profile is None else profile[0])
        legal.append([action in legal_set for action in range(problem.num_actions)])
        for action in range(problem.num_actions):
            row_outcomes = (
                read_row(problem, state, action) if action in legal_set else []
            )
            row_lengths.append(len(row_outcomes))
            for p, reward, next_state in row_outcomes:
                next_rows.append(numbered.number_of(next_state, depth[row] + 1))
                probabilities.append(p)
                rewards.append(reward)
    tables = Tables(
        start=np.concatenate([[0], np.cumsum(row_lengths)]).astype(np.int64),
        next_state=np.array(next_rows, dtype=np.int64),
        prob=np.array(probabilities, dtype=np.float64),
        reward=np.array(rewards, dtype=np.float64),
        player=np.array(player, dtype=np.int8),
        terminal=np.array(terminal, dtype=np.bool_),
        legal=np.array(legal, dtype=np.bool_),
    )
    numbered.check_untouched()
    numbered.ask_again(tables, deadline)
    return KnownModel(
        tables,
        tuple(numbered.states),
        np.array(depth, dtype=np.int64) if was_cut else None,
    )


def _instead(problem: Problem) -> str:
    """The remedy where there are too many states."""
    if is_undiscounted(problem):
        return "give horizon= or a discount below 1, and use certified search"
    return "use certified search"


class _NumberedStates:
    """The states met so far, numbered by key, with the profile and depth of each."""

    def __init__(self, problem: Problem, most: int) -> None:
        self.problem, self.most = problem, most
        self.states: list[Any] = []
        self.profiles: list[tuple[int, ...] | None] = []
        self.depth: list[int] = []
        self._number: dict[Any, int] = {}
        self._types: set[type] = set()  # of the states met so far
        self.number_of(problem.start(), 0)

    def number_of(self, state: Any, depth: int) -> int:
        """The row of ``state``, met after ``depth`` steps; new if its key is new."""
        key = self.problem.key_of(state)
        row = self._number.get(key)
        if row is not None:
            self.problem.check_alike(state, self.states[row], self.profiles[row])
            return row
        if len(self.states) >= self.most:
            raise TooLarge(
                f"More than {self.most} states can be reached: too many for exact; "
                f"{_instead(self.problem)}, which reads outcomes= where it needs them.",
                len(self.states),
            )
        if type(state) not in self._types:
            self._types.add(type(state))
            check_recognizable(state, key)
        row = self._number[key] = len(self.states)
        self.states.append(state)
        self.profiles.append(self.problem.profile(state))
        self.depth.append(depth)
        return row

    def check_untouched(self) -> None:
        """Refuse states that ``outcomes`` has written into."""
        for row, state in enumerate(self.states):
            if self.problem.key is None and is_fixed(state):
                continue
            if self._number.get(self.problem.key_of(state)) != row:
                raise OracleError(
                    "outcomes changed a state it was given, which has become "
                    f"{state!r:.60}; copy the state there and change the copy."
                )

    def ask_again(self, tables: Tables, deadline: float) -> None:
        """Refuse a model that answers differently when it is asked again.

        Nothing more is asked when time is up.
        """
        problem, num_actions = self.problem, self.problem.num_actions
        listed_pairs = np.flatnonzero(np.diff(tables.start))
        for pair in listed_pairs[:: 1 + len(listed_pairs) // READ_AGAIN].tolist():
            if time.perf_counter() > deadline:
                return
            row, action = divmod(pair, num_actions)
            state, row_slice = self.states[row], slice(*tables.start[pair : pair + 2])
            if problem.profile(state) != self.profiles[row]:
                raise answers_changed(state)
            stored_columns = (
                tables.next_state[row_slice],
                tables.reward[row_slice],
                tables.prob[row_slice],
            )
            new_outcomes = [
                (self._number.get(problem.key_of(z), -1), reward, p)
                for p, reward, z in read_row(problem, state, action)
            ]
            old_columns = [column.tolist() for column in stored_columns]
            if not same_rows(list(zip(*old_columns, strict=True)), new_outcomes):
                raise answered_again(state, action)
