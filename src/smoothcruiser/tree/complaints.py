"""The errors that a compiled tree can only report by a number."""

from __future__ import annotations

from typing import Any

from smoothcruiser.problem.answers import (
    answers_changed,
    at_pair,
    bad_player,
    reward_outside,
    undeclared_end,
)
from smoothcruiser.problem.bounds import bounds_at
from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree import kernel
from smoothcruiser.tree.proof import broken_claim, two_outcomes


def complain(
    problem: Problem,
    setting: kernel.Setting,
    status: int,
    state: Any,
    action: int,
    reward: float,
) -> None:
    """Raise the error that a kernel could only report by a number."""
    if status == kernel.FEW_ACTIONS:
        problem.legal_actions(state)  # raises with the number of legal actions
    if status == kernel.BAD_PLAYER:
        raise bad_player(state, "another number")
    if status == kernel.BAD_BOUNDS:
        bounds_at(problem, state)  # raises with the numbers
        raise answers_changed(state)
    if status == kernel.TWO_OUTCOMES:
        raise two_outcomes(at_pair(state, action))
    if status == kernel.BROKEN_CLAIM:
        raise broken_claim(problem, state)
    if status == kernel.BAD_REWARD:
        raise reward_outside(reward, at_pair(state, action), setting.low, setting.high)
    raise undeclared_end(at_pair(state, action))
