"""Declarations about the total reward: its range, or that only ends pay.

The total of a play from a state is r_0 + gamma r_1 + gamma**2 r_2 + …, up to the
step that ends the episode (or reaches the horizon; for ever if neither comes).
``total_reward_range=(l, u)`` claims that it lies in [l, u] for every play, whoever
acts and whatever happens, from every state that is not terminal and, with a
horizon, with every number of steps left from 1 on. ``payoffs="end"`` claims that
a step which does not end the episode pays 0: the total is gamma**t r for one
reward r, or 0, and lies in the hull of 0 and ``reward_range``. A horizon that cuts
an episode off does not end it.

Both become ``Facts.total_range``; Lemma T (docs/theory.md, section 2) derives bounds
on V from it. This file leaves out episodes that are sampled to test the claim
(``checks.claims``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import is_number
from smoothcruiser.problem.facts import (
    AT_THE_END,
    BOUNDS_ROUNDING,
    PAYOFFS,
    largest,
    times,
)

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import ProblemFields

MOST_STAGES = 10_000  # of a horizon at which a declared total is checked


def total_range(problem: ProblemFields) -> tuple[float, float] | None:
    """The range of the total reward that a problem declares; None if it does not."""
    ranges = []
    if problem.total_reward_range is not None:
        ranges.append(problem.total_reward_range)
    if problem.payoffs == AT_THE_END:
        reward_low, reward_high = problem.reward_range
        ranges.append((min(reward_low, 0.0), max(reward_high, 0.0)))
    if not ranges:
        return None
    return float(max(bounds[0] for bounds in ranges)), float(
        min(bounds[1] for bounds in ranges)
    )


def pays_early(problem: ProblemFields, reward: float, after: Any, ended: bool) -> bool:
    """Whether a step pays although it does not end the episode, as it must not."""
    return (
        problem.payoffs == AT_THE_END
        and reward != 0.0
        and not ended
        and not problem.is_terminal(after)
    )


def check_totals(p: ProblemFields) -> None:
    """Refuse words and ranges that cannot hold."""
    if not (isinstance(p.payoffs, str) and p.payoffs in PAYOFFS):
        raise InvalidInput(
            f"payoffs must be one of {', '.join(map(repr, PAYOFFS))}, got "
            f"{p.payoffs!r}."
        )
    if p.payoffs == AT_THE_END and (p.terminal is None or p.terminal is False):
        raise InvalidInput(
            "payoffs='end' needs ends: pass terminal= (a function, or True if the "
            "step's own flag ends an episode)."
        )
    declared_range: Any = p.total_reward_range
    if declared_range is None:
        return
    is_range = (
        isinstance(declared_range, tuple | list)
        and len(declared_range) == 2
        and all(is_number(bound) and math.isfinite(bound) for bound in declared_range)
        and declared_range[0] <= declared_range[1]
    )
    if not is_range:
        raise InvalidInput(
            "total_reward_range must be two finite numbers (low, high) with low <= "
            f"high, got {declared_range!r}."
        )
    _check_stages(p)


def _check_stages(p: ProblemFields) -> None:
    """Refuse a range of the total that no rewards can add up to at some stage."""
    facts = p.facts
    assert facts.total_range is not None
    total_low, total_high = facts.total_range
    stages: list[int | None] = (
        [None]
        if p.horizon is None
        else list(range(1, min(p.horizon, MOST_STAGES) + 1))
    )
    for steps_left in stages:
        step_sum = facts.steps(steps_left)
        step_counts = (
            (1.0, step_sum) if facts.terminals else (step_sum,)
        )  # ends pay once at least
        least_total = min(times(facts.reward_range[0], count) for count in step_counts)
        most_total = max(times(facts.reward_range[1], count) for count in step_counts)
        rounding_slack = BOUNDS_ROUNDING * largest((least_total, most_total))
        if (
            total_low > total_high
            or total_low > most_total + rounding_slack
            or total_high < least_total - rounding_slack
        ):
            stage_text = (
                ""
                if steps_left is None
                else f" with {steps_left} of {p.horizon} steps left"
            )
            raise InvalidInput(
                f"total_reward_range {p.total_reward_range!r} excludes every total of "
                f"rewards in {p.reward_range!r}{stage_text}; it has to hold from every "
                "state that is not terminal, for every number of steps left: widen it."
            )
