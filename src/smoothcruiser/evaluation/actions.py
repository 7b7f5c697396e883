"""Rollouts of a policy that names actions themselves: state -> action.

``evaluate`` plays a function in this way on a problem with sampled actions
(``problem.sampled``): the user's own step gets the function's action, be it among the
sampled ones or not. A function of (state, rng) may draw lots. There is no regularizer,
since such a problem has the operator Max; so a path adds up rewards alone.
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
from smoothcruiser.problem.answers import call_oracle


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
            reward, state, is_over = call_oracle(
                self.direct,
                state,
                action,
                self.rng,
                setting.low,
                setting.high,
                setting.ends,
                self.guard,
            )
            has_ended = is_over or (setting.ends and self.direct.is_terminal(state))
            path.take(reward, has_ended)
        return True

    def _action(self, state: Any) -> Any:
        extra_arguments = (self.rng,) if self.takes_rng else ()
        chosen_action = ask_safely(self.policy, state, *extra_arguments)
        if chosen_action is None:
            raise InvalidInput(
                f"policy({state!r}) must give an action that the step takes, got None; "
                "is a return missing?"
            )
        return chosen_action
