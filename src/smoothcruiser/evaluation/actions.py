"""Rollouts of a policy that names actions themselves: state -> action.

It is how ``evaluate`` plays a function on a problem whose actions are sampled
(``problem.sampled``): the step as it was given gets what the function returns, be it among the
sampled actions or not. A function of (state, rng) may draw lots. There is no regularizer, since
such a problem has the operator Max; so X is the discounted sum of rewards.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation.plain_rollouts import PlainRollouts
from smoothcruiser.evaluation.reading import ask_safely, asked_object, takes_rng
from smoothcruiser.evaluation.rollouts import RolloutTask
from smoothcruiser.problem.answers import answered


class ActionRollouts(PlainRollouts):
    """Rollouts in Python of a function state -> action, or (state, rng) -> action.

    An object's ``predict``, ``act`` or ``select_action`` is such a function.
    """

    assumed: tuple[str, ...] = (
        "what the policy returns is an action of the problem, one that sample_action may "
        "sample or the limit of such (not checked)",
    )

    def __init__(self, task: RolloutTask, policy: Any) -> None:
        super().__init__(task, lambda: lambda state, action: None)
        problem = task.problem
        self.direct = replace(
            problem, oracle=problem.given_step, sample_action=None, numbering=None
        )
        self.policy, self.notes = asked_object(problem, policy)
        self.random = self.takes_rng = takes_rng(self.policy)

    def _rollout(self, most_calls: int) -> float | None:
        state, setting = self.state, self.setting
        total, weight = 0.0, 1.0
        for _ in range(setting.limit):
            if self.calls >= most_calls or time.perf_counter() > self.deadline:
                return None
            action = self._action(state)
            self.calls += 1
            reward, state, over = answered(
                self.direct,
                state,
                action,
                self.rng,
                setting.low,
                setting.high,
                setting.ends,
                self.guard,
            )
            total += weight * reward
            if over or (setting.ends and self.direct.is_terminal(state)):
                return total
            weight *= setting.discount
        return total + weight * setting.tail

    def _action(self, state: Any) -> Any:
        more = (self.rng,) if self.takes_rng else ()
        found = ask_safely(self.policy, state, *more)
        if found is None:
            raise InvalidInput(
                f"policy({state!r}) must give an action that the step takes, got None; "
                "is a return missing?"
            )
        return found
