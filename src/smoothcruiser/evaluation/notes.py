"""What rollouts found of a policy, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smoothcruiser.estimate import Estimate, Interval, note_agreement
from smoothcruiser.evaluation.rollouts import Rollouts
from smoothcruiser.jit.interrupts import Hold
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Query

DEFAULT_DELTA = 0.05


@dataclass(frozen=True)
class RolloutSummary:
    """What the rollouts found of V_pi; an interval with low > high is empty."""

    count: int
    mean: float
    interval: Interval
    standard_error: float | None = None  # the usual one of the mean, not promised
    certain: bool = False  # a certain policy in a certain world
    refused: bool = False  # whether a callback said stop


def delta_of(query: Query) -> float:
    """The allowed probability that the interval fails."""
    delta = query.promise.delta
    return DEFAULT_DELTA if delta is None else delta


def is_unlimited(query: Query) -> bool:
    """Whether nothing was said of when to stop."""
    limits = query.limits
    return query.promise.epsilon is None and (limits.calls, limits.seconds) == (
        None,
        None,
    )


def claim(problem: Problem) -> str:
    """What the interval is about."""
    if problem.is_game:
        return "the value of the two players' policies"
    return "the value of the policy; its lower end is a lower bound on V(state)"


def notes_of(
    query: Query,
    policy: Any,
    found: RolloutSummary,
    rollouts: Rollouts,
    hold: Hold,
) -> tuple[str, ...]:
    """The notes of an evaluation."""
    sure = "surely" if found.certain else f"with probability {1.0 - delta_of(query):g}"
    first = (
        f"{found.count:,} fresh rollout{'s' if found.count != 1 else ''}; the "
        f"interval holds {claim(query.problem)}, {sure}."
    )
    if found.count == 0:
        first = (
            "It ended before the first rollout; the interval is what was known "
            "beforehand."
        )
    notes = [first, *rollouts.notes]
    if isinstance(policy, Estimate):
        notes.append(
            f"The estimate knows its policy at state {policy.state!r} alone; "
            "elsewhere the blind policy was played."
        )
    half = 0.5 * (found.interval[1] - found.interval[0])
    if not found.certain:
        notes += note_agreement("rollouts", found.standard_error, half)
    epsilon, seconds = query.promise.epsilon, query.limits.seconds
    if hold.came or found.refused:
        who = "by hand" if hold.came else "by the callback"
        notes.append(
            f"Stopped {who} after {rollouts.calls:,} calls, at half-width {half:.4g}; "
            "the interval holds as it is."
        )
    elif is_unlimited(query) and not found.certain:
        notes.append(
            f"No limit was set: {rollouts.calls:,} calls, the default of "
            f"{'compiled code' if rollouts.name == 'compiled' else 'plain Python'}; "
            "epsilon=, budget= or seconds= set another."
        )
    elif epsilon is not None and half > epsilon:
        spent = f"{rollouts.calls:,} calls" if seconds is None else f"{seconds:g} s"
        notes.append(
            f"epsilon = {epsilon:g} was not reached within {spent}: the "
            f"half-width is {half:.4g}; give it more."
        )
    return tuple(notes)
