"""Rollouts of a policy that names actions themselves: state -> action.

It is how ``evaluate`` plays a function on a problem whose actions are sampled
(``problem.sampled``): the step as it was given gets what the function returns, be it among the
sampled actions or not. A function of (state, rng) may draw lots. There is no regularizer, since
such a problem has the operator Max; so a path adds up rewards alone.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.evaluation.path_rules import Path
from smoothcruiser.evaluation.plain_rollouts import PlainRollouts
from smoothcruiser.evaluation.rollouts import RolloutTask
from smoothcruiser.problem.answers import answered
from smoothcruiser.problem.states import lent


class ActionRollouts(PlainRollouts):
    """Rollouts in Python of a function state -> action, or (state, rng) -> action."""

    assumed: tuple[str, ...] = (
        "what the policy returns is an action of the problem, one that sample_action may "
        "sample or the limit of such (not checked)",
    )

    def __init__(self, task: RolloutTask, policy: Callable[..., Any]) -> None:
        super().__init__(task, lambda: lambda state, action: None)
        problem = task.problem
        self.direct = replace(
            problem, oracle=problem.given_step, sample_action=None, numbering=None
        )
        self.policy = policy
        self.random = self.takes_rng = _takes_rng(policy)

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
        try:
            seen = lent(state)
            found = self.policy(seen, self.rng) if self.takes_rng else self.policy(seen)
        except (SmoothcruiserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise InvalidInput(
                f"The policy raised {type(error).__name__}: "
                f"{error} at state {state!r}; fix it there."
            ) from error
        if found is None:
            raise InvalidInput(
                f"policy({state!r}) must give an action that the step takes, got None; "
                "is a return missing?"
            )
        return found


def _takes_rng(policy: Callable[..., Any]) -> bool:
    """Whether a function wants a stream beside the state."""
    try:
        parameters = inspect.signature(getattr(policy, "py_func", policy)).parameters
    except (TypeError, ValueError):
        return False
    needed = [
        entry
        for entry in parameters.values()
        if entry.default is entry.empty
        and entry.kind in (entry.POSITIONAL_ONLY, entry.POSITIONAL_OR_KEYWORD)
    ]
    return len(needed) == 2
