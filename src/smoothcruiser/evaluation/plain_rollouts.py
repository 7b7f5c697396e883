"""The rollouts of ``evaluate`` in Python, for every policy and problem."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.engines.watchdog import limit_call_seconds
from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation.path_rules import COLUMNS, Path, PathRule, path_length
from smoothcruiser.evaluation.rollouts import RolloutTask
from smoothcruiser.jit.keys import Key
from smoothcruiser.jit.streams import stream
from smoothcruiser.operators.adding import sum_in_order
from smoothcruiser.problem.answers import call_oracle
from smoothcruiser.problem.states import Guard, copy_state
from smoothcruiser.tree.selection import sample_slot

# how far probabilities may be from summing to 1, as printed decimals are
SUM_TOLERANCE = 1e-6

# (state, the action that led here or None) -> probabilities of all K actions,
# or None for the blind policy
Walk = Callable[[Any, int | None], Any]


class PlainRollouts:
    """Rollouts in Python; ``start_walk()`` returns the policy of one rollout."""

    name = "reference"
    deadline = math.inf
    assumed: tuple[str, ...] = ()  # of its policy, beside those of every policy
    notes: tuple[str, ...] = ()  # how its policy was read

    def __init__(self, task: RolloutTask, start_walk: Callable[[], Walk]) -> None:
        self.problem, self.state = task.problem, task.state
        self.setting, self.start_walk = task.setting, start_walk
        self.weights = task.problem.operator.weights(task.problem.num_actions)
        self.rng = stream(task.seed, Key.ROLLOUTS)
        self.coins = stream(task.seed, Key.COINS)
        self.random = False
        self.calls = 0
        self.guard = Guard()
        self.hold = task.hold

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    @property
    def looks(self) -> int:
        """The number of checks that the step does not write into its state."""
        return self.guard.looks

    @property
    def doubts(self) -> str:
        """The questions that these checks could not decide."""
        return self.guard.doubts

    def spend(self, calls: int) -> None:
        """Count calls that were made elsewhere."""
        self.calls += calls

    def run_paths(self, count: int, most_calls: int, rule: PathRule) -> Any:
        """As in ``Rollouts``."""
        state_before = copy_state(self.state)
        with limit_call_seconds(self, self.problem.call_seconds):
            samples = self._play_paths(rule, count, most_calls)
        if not self.hold.came:  # a step that was broken off may leave it changed
            self.guard.compare(state_before, self.state, 0)
        return np.array(samples).reshape(-1, COLUMNS)

    def _play_paths(
        self, rule: PathRule, count: int, most_calls: int
    ) -> list[tuple[float, ...]]:
        samples: list[tuple[float, ...]] = []
        for _ in range(count):
            path = Path(rule, self.setting.discount, path_length(rule, self.coins))
            try:
                with self.hold.opened():
                    is_finished = self._follow(path, most_calls)
            except KeyboardInterrupt:
                break
            if not is_finished:
                break
            samples.append(path.sample())
        return samples

    def _follow(self, path: Path, most_calls: int) -> bool:
        """Whether a path comes to its end before calls or time are used up."""
        operator, problem = self.problem.operator, self.problem
        policy = self.start_walk()
        state, action = self.state, None
        while path.goes_on:
            if self.calls >= most_calls or time.perf_counter() > self.deadline:
                return False
            legal_actions = problem.legal_actions(state)
            w = [self.weights[a] for a in legal_actions]
            p = self._probabilities(policy(state, action), state, legal_actions, w)
            j = sample_slot(p, len(p), self.rng)
            self.random = self.random or p[j] < 1.0
            action = legal_actions[j]
            sign = 1.0 if problem.mover(state) == 1 else -1.0
            self.calls += 1
            min_reward, max_reward, has_ends = (
                self.setting.low,
                self.setting.high,
                self.setting.ends,
            )
            reward, state, is_over = call_oracle(
                problem,
                state,
                action,
                self.rng,
                min_reward,
                max_reward,
                has_ends,
                self.guard,
            )
            has_ended = is_over or (has_ends and problem.is_terminal(state))
            path.take(reward - sign * operator.omega(p, w), has_ended)
        return True

    def _probabilities(
        self, answer: Any, state: Any, actions: list[int], w: list[float]
    ) -> list[float]:
        """Checked probabilities of the legal actions; None is the blind policy."""
        if answer is None:
            return self.problem.operator.blind(w)
        K = self.problem.num_actions
        try:
            all_shares = [float(share) for share in answer]
        except (TypeError, ValueError):
            raise InvalidInput(
                f"policy({state!r}) must give {K} "
                f"probabilities, one per action, got {answer!r}."
            ) from None
        if len(all_shares) != K:
            raise InvalidInput(
                f"policy({state!r}) must give {K} probabilities, "
                f"one per action, got {len(all_shares)}: {all_shares}."
            )
        p = [all_shares[a] for a in actions]
        is_valid = all(0.0 <= share < math.inf for share in all_shares)
        if not is_valid or not abs(sum(p) - 1.0) <= SUM_TOLERANCE:
            raise InvalidInput(
                f"policy({state!r}) must give probabilities of "
                f"legal actions that sum to 1, got {all_shares}."
            )
        share_sum = sum_in_order(p)
        return [share / share_sum for share in p]
