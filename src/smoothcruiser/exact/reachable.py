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

The state of a search for V = TV: the model, its passes, and the bound of a point.

Symbols and proofs are those of ``solver``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.errors import Interrupted, InvalidInput, OracleError, Unpayable
from smoothcruiser.exact import elimination
from smoothcruiser.exact import elimination as flow
from smoothcruiser.exact.loops import Model
from smoothcruiser.exact.model import Kernels, Watch, room_for_policy
from smoothcruiser.exact.solution import SLACK, UNIT
from smoothcruiser.operators import Operator
from smoothcruiser.operators.dispatch import is_greedy
from smoothcruiser.problem.declaration_checks import is_undiscounted
from smoothcruiser.problem.model.known_outcomes import (
    READ_AGAIN,
    answered_again,
    check_ends,
    check_model,
    read_row,
    same_rows,
)
from smoothcruiser.problem.model.tabular import Bools, Floats, Ints, Tables
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import answers_changed
from smoothcruiser.states.identity import check_recognizable, is_fixed

MOST_STATES = (
    200_000  # about ten seconds of Python with a handful of outcomes per pair
)


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


def known_model(problem: Problem, watch: Watch | None = None) -> KnownModel:
    """The tables of ``problem``, or those of the states that ``outcomes`` leads to."""
    if problem.tables is not None:
        return KnownModel(problem.tables)
    check_model(problem)
    return explore(problem, watch=watch)


def explore(
    problem: Problem, *, most_states: int | None = None, watch: Watch | None = None
) -> KnownModel:
    """Tables of the states reachable from ``initial_state``, and these states in order.

    With a horizon they are the states within it. Raises ``TooLarge`` where there
    are more than ``most_states`` (by default ``MOST_STATES``), or where the time of
    ``watch`` is up first; ``Interrupted`` where it learns from the progress function that
    it is to stop.
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
        if watch.clock.left() < 0.0:
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
    numbered.ask_again(tables, watch)
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

    def ask_again(self, tables: Tables, watch: Watch) -> None:
        """Refuse a model that answers differently when it is asked again.

        Nothing more is asked when time is up.
        """
        problem, num_actions = self.problem, self.problem.num_actions
        listed_pairs = np.flatnonzero(np.diff(tables.start))
        for pair in listed_pairs[:: 1 + len(listed_pairs) // READ_AGAIN].tolist():
            if watch.clock.left() < 0.0:
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


UNLIMITED = 2**62


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Values with their bound, how they were computed, and why the bound is no smaller."""

    values: Floats
    bound: float
    method: str
    stages: Floats | None = None
    note: str = ""


@dataclass(frozen=True, eq=False)
class SweptValues:
    """A value function with its sweep."""

    v: Floats
    w: Floats  # Tv
    width: float  # of w - v
    middle: float  # of w - v
    top: float  # no number of v, w or the answer computed from them is larger


class SweepSearch:
    """The model, its loops, and the count of passes, which alone changes."""

    def __init__(
        self,
        model: Model,
        kernels: Kernels,
        operator: Operator,
        max_sweeps: int | None,
        *,
        finite: bool,
    ) -> None:
        self.model, self.kernels, self.finite = model, kernels, finite
        self.max_sweeps, self.sweeps = max_sweeps, 0
        self.over = Watch()  # says when to stop with the best point so far
        self.tables: Tables | None = None  # the source of the model
        self.slow = False  # an evaluation has used up its sweeps
        self.room = room_for_policy(model)
        self.eliminated: Floats | None = None  # rows of the last elimination
        self.flowed = False  # whether ``flow`` was tried
        self.clamped = not operator.shift_invariant or bool(np.any(model.sign == 0.0))
        self.rounding_scale = operator.rounding_scale(model.live.shape[1])
        self.longest = int(np.max(np.diff(model.start), initial=1))
        live_rewards = model.reward[model.live.reshape(-1)]
        self.span = (
            float(np.max(live_rewards) - np.min(live_rewards))
            if len(live_rewards)
            else 0.0
        )

    def backup(self, v: Floats, *, zero: bool = False) -> SweptValues:
        """One sweep of T: the values, and how far they moved.

        At v = 0 action values are rewards, and the transitions need not be
        read.
        """
        m, find_difference = self.model, self.kernels.difference
        if zero:
            m.q[:] = m.reward
        else:
            self.kernels.q(m, v)
            self.sweeps += 1
            self.over.count_sweeps(1)
        w = np.empty(len(v))
        self.kernels.values(m, w)
        min_gap, max_gap, max_size = find_difference(v, w)
        if math.isnan(max_size):
            raise InvalidInput(
                "A value is NaN or infinite after one sweep: the operator must "
                "return finite numbers; see check_operator."
            )
        if self.clamped:
            min_gap, max_gap = min(min_gap, 0.0), max(max_gap, 0.0)
        middle = 0.5 * (min_gap + max_gap)
        return SweptValues(
            v,
            w,
            max_gap - min_gap,
            middle,
            max_size if self.finite else max_size + abs(middle) / (1.0 - m.discount),
        )

    def rounding(self, top: float) -> float:
        """Eta: how far a computed sweep may be from TV where no value exceeds ``top``.

        Derivation, in units of 2**-53. Action values, relative to Q = max |r| +
        gamma top, for n successors: n + 2 for the normalization of the stored
        rows (we solve the problem with rows that sum to 1), n + 1 for the mean
        reward, n + 1 for the mean of V (in any order), 2 for the last two
        operations.

        Operators, k actions (F is 1-Lipschitz): shifts and quotients by lambda
        4 span(q) <= 8 Q; sums of k exponentials and logarithms lambda (k + 8 +
        log k); sparsemax's threshold is k + 3 off and costs lambda k times
        that, its sums lambda (2k + 8); the square root's dual form is of second
        order in its level, its sum costs lambda k sqrt k. All are below lambda
        (2k^2 + 16). A user's operator is assumed to be computed as well as
        that, with |F(0)| in the place of lambda.
        """
        k = len(self.model.weights)
        q_size = self.model.reward_top + self.model.discount * top
        return UNIT * (
            q_size * (3.0 * self.longest + 14.0)
            + self.rounding_scale * (2.0 * k * k + 16.0)
        )

    def flow(self, enough: float) -> Floats | None:
        """Values that a sweep in place changes by at most ``enough``, or None.

        It is tried once, for Max without a min player and where an order of levels
        exists: later steps polish the result, or do without.
        """
        if self.flowed or not is_greedy(self.model.code):
            return None
        self.flowed, narrow = True, self.narrow()
        if narrow is None or float(np.min(self.model.sign)) < 0.0:
            return None
        flow_steps = flow.flow(self.model, narrow.order)
        if flow_steps is None:
            return None
        flow_values, passes = flow_steps.values(enough, self.remaining(), self.over)
        self.sweeps += passes
        return flow_values

    def narrow(self) -> elimination.NarrowOrder | None:
        """The order in which policies are cheap to eliminate, if there is one."""
        if self.tables is None:
            return None
        return elimination.narrow(self.tables, self.model)

    def settle(
        self, narrow: elimination.NarrowOrder, x: Floats, sweeps: int
    ) -> Floats:
        """``x`` after sweeps of T for Max in place."""
        sweeps = min(sweeps, self.remaining())
        narrow.settle(self.model, x, sweeps)
        self.sweeps += sweeps
        self.over.count_sweeps(sweeps)
        return x

    def remaining(self) -> int:
        """The number of passes that are still allowed."""
        return (
            max(1, self.max_sweeps - self.sweeps)
            if self.max_sweeps is not None
            else UNLIMITED
        )

    def check_budget(self, best: SweptValues | None, aim: float) -> None:
        """Refuse to continue once ``max_sweeps`` is used up."""
        if self.max_sweeps is None or self.sweeps < self.max_sweeps:
            return
        reached_text = (
            ""
            if best is None
            else (
                f"; they reached max |values - V*| <= {self.proven_bound(best):.3g}, not "
                f"{aim:.3g}"
            )
        )
        raise Unpayable(
            f"max_sweeps={self.max_sweeps} passes were not enough{reached_text}; raise "
            "max_sweeps, or tolerance."
        )

    def floor(self, top: float) -> float:
        """The part of the bound that rounding adds, summed over all later sweeps.

        It is eta and the last bit of the difference itself.
        """
        return SLACK * (
            (self.rounding(top) + 2.0 * UNIT * top) / (1.0 - self.model.discount)
            + 2.0 * UNIT * top
        )

    def proven_bound(self, point: SweptValues) -> float:
        """Return the proven distance of ``answer(point)`` from V*."""
        gamma = self.model.discount
        return SLACK * 0.5 * point.width * gamma / (1.0 - gamma) + self.floor(
            point.top
        )

    def is_rounded(self, point: SweptValues) -> bool:
        """Whether rounding may keep the width from shrinking."""
        return self.proven_bound(point) <= 8.0 * self.floor(point.top)

    def answer(
        self, point: SweptValues, bound: float, method: str, note: str
    ) -> SearchResult:
        """The middle of MacQueen's two lines.

        From v + lo/(1-gamma) <= V* <= v + hi/(1-gamma), action values shift by
        the same.
        """
        gamma = self.model.discount
        shift = point.middle * gamma / (1.0 - gamma)
        self.model.q[:] += shift
        return SearchResult(
            np.where(self.model.sign == 0.0, 0.0, point.w + shift),
            bound,
            method,
            note=note,
        )
