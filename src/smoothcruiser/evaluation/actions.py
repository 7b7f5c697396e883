"""Rollouts of a policy that names actions themselves: state -> action.

It is how ``evaluate`` plays a function on a problem whose actions are sampled
(``problem.sampled``): the step as it was given gets what the function returns, be it among the
sampled actions or not. A function of (state, rng) may draw lots. There is no regularizer, since
such a problem has the operator Max; so a path adds up rewards alone.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation.path_rules import Path
from smoothcruiser.evaluation.plain_rollouts import PlainRollouts
from smoothcruiser.evaluation.reading import ask_safely, find_rule, takes_rng
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
        self.policy, self.notes = find_rule(problem, policy)
        self.random = self.takes_rng = takes_rng(self.policy)

    def _follow(self, path: Path, most_calls: int) -> bool:
        state, setting = self.state, self.setting
        while path.goes_on:
            if self.calls >= most_calls or time.perf_counter() > self.deadline:
                return False
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
            ended = over or (setting.ends and self.direct.is_terminal(state))
            path.take(reward, ended)
        return True

    def _action(self, state: Any) -> Any:
        more = (self.rng,) if self.takes_rng else ()
        found = ask_safely(self.policy, state, *more)
        if found is None:
            raise InvalidInput(
                f"policy({state!r}) must give an action that the step takes, got None; "
                "is a return missing?"
            )
        return found
