"""The rollouts of ``evaluate`` for every policy and problem, interpreted.

They are the source of the rollouts in machine code (``evaluation.kernel``), with Python's
problem, policy and lists in its parts, and the same bits. Where ``outcomes=`` gives the
law of a step, a critic's noise is taken out of it.
"""

from __future__ import annotations

import math
import operator as operators
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation import kernel as evaluate_kernel
from smoothcruiser.evaluation.path_rules import COLUMNS, PathRule
from smoothcruiser.evaluation.rollouts import RolloutTask
from smoothcruiser.jit.forms import bind_parts
from smoothcruiser.jit.random import Key
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.operators.outward import sum_in_order
from smoothcruiser.problem.model.known_outcomes import Row, known_row
from smoothcruiser.problem.step_errors import call_oracle, reward_outside
from smoothcruiser.run_control.call_seconds import limit_call_seconds
from smoothcruiser.states.state_copies import Guard, copy_state
from smoothcruiser.tree.kernels import kernel
from smoothcruiser.tree.search_numbers import Setting

# how far probabilities may be from summing to 1, as printed decimals are
SUM_TOLERANCE = 1e-6

# (state, the action that led here or None) -> probabilities of all K actions,
# or None for the blind policy
Walk = Callable[[Any, int | None], Any]


class Lists:
    """The functions of NumPy in the kernel: memory whose elements are any objects."""

    int64 = int

    @staticmethod
    def empty(size: int, kind: Any = float) -> list[Any]:
        """So many elements."""
        return [0.0] * size

    zeros = empty


class PlainRollouts:
    """Rollouts in Python; ``start_walk()`` returns the policy of one rollout."""

    name = "reference"
    deadline = math.inf
    assumed: tuple[str, ...] = ()  # of its policy, beside those of every policy
    notes: tuple[str, ...] = ()  # how its policy was read

    def __init__(self, task: RolloutTask, start_walk: Callable[[], Walk]) -> None:
        self.problem, self.state = task.problem, task.state
        self.stepped = task.problem  # the one with the step that is called
        self.setting, self.start_walk = task.setting, start_walk
        self.critic = task.critic
        self.weights = task.problem.operator.weights(task.problem.num_actions)
        self.rng = stream(task.seed, Key.ROLLOUTS)
        self.coins = stream(task.seed, Key.COINS)
        self.meta, self.lots = [0] * 5, [0.0]
        self.guard = Guard()
        self.hold = task.hold
        self.walk: Walk = lambda state, action: None
        self.action: Any = None  # the one that led to the state
        self.kernel = bind_parts(evaluate_kernel.policy_rollouts, self.kernel_parts())

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

    @property
    def random(self) -> bool:
        """Whether the policy has left anything to chance so far."""
        return bool(self.lots[0])

    @property
    def calls(self) -> int:
        """Oracle calls so far."""
        return self.meta[kernel.CALLS]

    def spend(self, calls: int) -> None:
        """Count calls that were made elsewhere."""
        self.meta[kernel.CALLS] += calls

    def run_paths(self, count: int, most_calls: int, rule: PathRule) -> Any:
        """As in ``Rollouts``."""
        state_before = copy_state(self.state)
        num_finished, samples = 0, np.empty((count, COLUMNS))
        with limit_call_seconds(self, self.problem.call_seconds):
            for row in range(count):
                try:
                    with self.hold.opened():
                        finished = self._play_path(rule, most_calls, samples[row:])
                except KeyboardInterrupt:
                    break
                if not finished:
                    break
                num_finished += 1
        if not self.hold.came:  # a step that was broken off may leave it changed
            self.guard.compare(state_before, self.state, 0)
        return samples[:num_finished]

    def _play_path(self, rule: PathRule, most_calls: int, samples: Any) -> bool:
        """Whether a path comes to its end before calls or time are used up.

        Its sample is written to the first row of ``samples``.
        """
        self.walk, self.action = self.start_walk(), None
        operator = self.problem.operator
        nothing: list[Any] = []
        status, _ = self.kernel(
            self.setting,
            operator.code,
            operator.strength,
            self.weights,
            None,
            nothing,
            False,  # it follows no tree
            nothing,
            nothing,
            nothing,
            [None] * 2,
            self.state,
            self.meta,
            nothing,
            rule,
            most_calls,
            samples[:1].data,
            self.lots,
            self.rng,
            self.coins,
            None,
            None,
        )
        return bool(status == kernel.DONE)

    # --- the parts of the kernel ----------------------------------------------

    def kernel_parts(self) -> dict[str, Any]:
        """The problem and the policy, by the names in the kernel."""
        problem, operator = self.problem, self.problem.operator
        return {
            "np": Lists,
            "LOAD": operators.getitem,
            "STORE": operators.setitem,
            "KEEP": lambda states, i, state: state,
            "STEP": self._step,
            "TERMINAL": lambda data, state: self.stepped.is_terminal(state),
            "OMEGA": lambda code, p, w, t: operator.omega(p, w),
            "flag_at": lambda stop: time.perf_counter() > self.deadline,
            "sign_of": lambda setting, data, state: (
                1.0 if problem.mover(state) == 1 else -1.0
            ),
            "CRITIC": self._worth,
            "expected_surplus": self._surplus,
            "list_actions": self._list_actions,
            "fill_policy": self._fill_policy,
        }

    def _worth(self, data: Any, steps_left: int, state: Any) -> float:
        """The critic's value of a state; -1 steps are left where there is no horizon."""
        assert self.critic is not None
        return self.critic.value_at(state, steps_left if steps_left >= 0 else None)

    def _surplus(self, rule: PathRule, *numbers: Any) -> float:
        """E[r + gamma W(z)] - r where the law of the step is known, else gamma W(z)."""
        state, action, steps_left, reward, next_worth = numbers
        if rule.from_start:
            row = known_row(self.problem, state, action)
            if row is not None:
                return self._expected_gain(rule, row, steps_left) - reward  # type: ignore[no-any-return]
        return rule.discount * next_worth  # type: ignore[no-any-return]

    def _expected_gain(self, rule: PathRule, row: Row, steps_left: int) -> float:
        """E[r + gamma W(z)] over the outcomes of a row."""
        terms: list[float] = []
        for probability, reward, next_state in row:
            if not self.setting.low <= reward <= self.setting.high:
                raise reward_outside(
                    reward, "in outcomes=", self.setting.low, self.setting.high
                )
            worth = 0.0
            if steps_left != 0 and not self.problem.is_terminal(next_state):
                raw_worth = self._worth(None, steps_left, next_state)
                worth = evaluate_kernel.clip_worth(rule, raw_worth)
            terms.append(probability * (reward + rule.discount * worth))
        return math.fsum(terms)

    def _step(self, data: Any, state: Any, action: Any, rng: Any) -> Any:
        self.action, setting = action, self.setting
        return call_oracle(
            self.stepped,
            state,
            action,
            rng,
            setting.low,
            setting.high,
            setting.ends,
            self.guard,
        )

    def _list_actions(
        self,
        setting: Setting,
        data: Any,
        state: Any,
        weights: Any,
        action_ids: Any,
        w: Any,
    ) -> int:
        legal_actions = self.problem.legal_actions(state)
        num_legal = len(legal_actions)
        action_ids[:num_legal] = legal_actions
        w[:num_legal] = [weights[a] for a in legal_actions]
        return num_legal

    def _fill_policy(self, *numbers: Any) -> None:
        state, action_ids, num_legal, _, w, p = numbers[5:]
        p[:num_legal] = self._probabilities(
            self.walk(state, self.action), state, action_ids[:num_legal], w[:num_legal]
        )

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
