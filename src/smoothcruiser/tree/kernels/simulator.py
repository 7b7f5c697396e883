"""A problem as the interpreted machine sees it: checked calls of plain Python functions.

``tree.kernels.kernel`` calls it for steps, legal actions, ends, players, bounds, and for
the children of a move. Children are found by a dictionary of (node, action, key of the
next state). Errors name the state and the action; a stop may break off a step, and
nothing else.
"""

from __future__ import annotations

from marshal import dumps
from typing import Any

from smoothcruiser.problem.bounds import middle_at
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import Answer, call_oracle
from smoothcruiser.problem.wary_actions import (
    WARY_CALLS,
    InsistsOnInt,
    is_wary,
    make_wary,
)
from smoothcruiser.run_control.stop_requests import StopRequest
from smoothcruiser.states.state_copies import Guard
from smoothcruiser.tree.kernels.kernel import CALLS, EDGE
from smoothcruiser.tree.pruning import KnownBounds
from smoothcruiser.tree.search_numbers import Setting


def is_same_data(state: Any, known: Any) -> bool:
    """Whether two states are seen at once to be the same to the bit.

    ``marshal`` writes types and signs of zero, so equal bytes are the same values; it
    refuses objects of other classes.
    """
    if type(state) is not type(known):
        return False
    try:
        if isinstance(state, tuple):
            return dumps(tuple(state), 2) == dumps(tuple(known), 2)
        return dumps(state, 2) == dumps(known, 2)
    except ValueError:
        return False


class Simulator:
    """The functions of one problem, for one tree.

    ``meta`` are the tree's counts, and ``states`` those of its nodes: both are set
    whenever their memory is new.
    """

    def __init__(
        self, problem: Problem, setting: Setting, bounds: KnownBounds, meta: Any
    ) -> None:
        self.problem, self.setting, self.bounds, self.meta = (
            problem,
            setting,
            bounds,
            meta,
        )
        self.hold = StopRequest()
        # no step writes into the number of a state of tables
        guard = None if problem.tables is not None else Guard()
        self.checks = setting.low, setting.high, setting.ends, guard
        self.most_calls = 0
        self.states: list[Any] = []
        self.rollouts: Any = None  # from leaves, where a leaf has several
        self.children: dict[tuple[int, int, Any], int] = {}
        self.new_child: tuple[int, int, Any] = (0, 0, None)  # the one looked up last
        self.mover, self.is_terminal = problem.mover, problem.is_terminal
        self.has_keys = problem.key is not None
        self.holds_profile = getattr(problem.key, "holds_profile", False)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("A Simulator stays where its tree is.")

    # --- the step ---------------------------------------------------------------

    def step(self, state: Any, action: int, rng: Any) -> Answer:
        """The simulator's answer, checked."""
        hold = self.hold
        try:
            hold.begin()
            if self.meta[CALLS] <= WARY_CALLS:
                answer = self._early_call(state, action, rng)
            else:
                answer = call_oracle(self.problem, state, action, rng, *self.checks)
            hold.open = False
        except BaseException as error:
            if hold.broke(error):
                raise KeyboardInterrupt from error
            raise
        return answer

    def _early_call(self, state: Any, action: int, rng: Any) -> Answer:
        """One of the first answers: they notice actions that are read by name."""
        problem, meta, checks = self.problem, self.meta, self.checks
        # with room for a second call, where a step insists on an int
        if meta[CALLS] < self.most_calls and is_wary(problem):
            words_before = rng.words.copy()
            try:
                return call_oracle(
                    problem, state, make_wary(problem, action), rng, *checks
                )
            except InsistsOnInt:
                rng.words[:] = words_before
                meta[CALLS] += 1
        return call_oracle(problem, state, action, rng, *checks)

    def middle_of(self, state: Any) -> float:
        """The middle of the bounds on V at a leaf."""
        return middle_at(self.problem, state)

    def write_legal(self, state: Any, acts: Any) -> int:
        """The number of legal actions, which are written to ``acts``."""
        num_legal = 0
        for action in self.problem.legal_actions(state):
            acts[num_legal] = action
            num_legal += 1
        return num_legal

    # --- nodes --------------------------------------------------------------------

    def find_child(self, node: int, action: int, state: Any) -> int:
        """The number of a child, or -1; two states of one key have to be alike."""
        if self.has_keys or not isinstance(state, tuple | int | str):
            self.new_child = (node, action, self.problem.key_of(state))
            child = self.children.get(self.new_child, -1)
        else:
            self.new_child = (node, action, state)
            try:
                child = self.children.get(self.new_child, -1)
            except TypeError:  # an element of the tuple has no hash
                self.new_child = (node, action, self.problem.key_of(state))
                child = self.children.get(self.new_child, -1)
        if child >= 0 and state is not self.states[child]:
            self._check_alike(state, child)
        return child

    def _check_alike(self, state: Any, child: int) -> None:
        """Refuse a state with the key of a child that has another profile."""
        if self.holds_profile:
            return
        known_state = self.states[child]
        if not self.has_keys and is_same_data(state, known_state):
            return
        known_profile = self.problem.profile(known_state)
        self.problem.check_alike(state, known_state, known_profile)

    def enter_child(self, child: int) -> None:
        """Let the next state that was not found be the new child."""
        self.children[self.new_child] = child

    def renumber(self, new_number: list[int]) -> None:
        """Give the children their new numbers; -1 are dropped."""
        self.children = {
            (new_number[node], action, key): new_number[child]
            for (node, action, key), child in self.children.items()
            if new_number[child] > 0
        }

    def apply_bounds(
        self, num_moves: int, state: Any, ints: Any, boxes: Any, node: int
    ) -> None:
        """Give a new node the bounds that are known of its state."""
        known_row = self.bounds.row_at(self.problem.key_of(state), num_moves)
        K = self.setting.num_actions
        for a in range(K):
            boxes[node, a] = -float("inf") if known_row is None else known_row.lows[a]
            boxes[node, K + a] = (
                float("inf") if known_row is None else known_row.highs[a]
            )
        if known_row is not None:
            for a in known_row.excluded:
                ints[node, EDGE + a] = -1
