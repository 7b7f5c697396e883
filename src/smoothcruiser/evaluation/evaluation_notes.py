"""The summary of the rollouts of a policy, and the notes on it.

The answer of an evaluation that was stopped before its first rollout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smoothcruiser.estimate import Certificate, Estimate, Interval, note_agreement
from smoothcruiser.evaluation.rollouts import Rollouts
from smoothcruiser.problem.assumptions import DECLARED, assumptions
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Query
from smoothcruiser.run_control.control import Control, StopReason

DEFAULT_DELTA = 0.05


@dataclass(frozen=True)
class RolloutSummary:
    """The result of rollouts for V_pi; an interval with low > high is empty."""

    count: int
    mean: float
    interval: Interval
    standard_error: float | None = None  # the usual one of the mean, not promised
    certain: bool = False  # a certain policy in a certain world


def delta_of(query: Query) -> float:
    """The allowed probability that the interval fails."""
    delta = query.promise.delta
    return DEFAULT_DELTA if delta is None else delta


def is_unlimited(query: Query) -> bool:
    """Whether the request has no limit and no epsilon."""
    limits = query.limits
    return query.promise.epsilon is None and (limits.calls, limits.seconds) == (
        None,
        None,
    )


def claim(problem: Problem) -> str:
    """The quantity that the interval holds, in words."""
    if problem.sole_player is None:
        return "the value of the two players' policies"
    if problem.minimizes:
        return "the cost of the policy; its upper end is an upper bound on V(state)"
    return "the value of the policy; its lower end is a lower bound on V(state)"


def notes_of(
    query: Query,
    policy: Any,
    summary: RolloutSummary,
    rollouts: Rollouts,
    control: Control,
) -> tuple[str, ...]:
    """The notes of an evaluation."""
    certainty_text = (
        "surely" if summary.certain else f"with probability {1.0 - delta_of(query):g}"
    )
    first_note = (
        f"{summary.count:,} fresh rollout{'s' if summary.count != 1 else ''}; the "
        f"interval holds {claim(query.problem)}, {certainty_text}."
    )
    if summary.count == 0:
        first_note = (
            "It ended before the first rollout; the interval is what was known "
            "beforehand."
        )
    notes = [first_note, *rollouts.notes]
    if isinstance(policy, Estimate):
        notes.append(
            f"The estimate knows its policy at state {policy.state!r} alone; "
            "elsewhere the blind policy was played."
        )
    half_width = 0.5 * (summary.interval[1] - summary.interval[0])
    if not summary.certain:
        notes += note_agreement("rollouts", summary.standard_error, half_width)
    epsilon, time_limit = query.promise.epsilon, query.limits.seconds
    reason = control.check()
    if reason in (StopReason.HAND, StopReason.CALLBACK):
        stop_source = "by hand" if reason is StopReason.HAND else "by the callback"
        notes.append(
            f"Stopped {stop_source} after {rollouts.calls:,} calls, at half-width "
            f"{half_width:.4g}; the interval holds as it is."
        )
    elif is_unlimited(query) and not summary.certain:
        notes.append(
            f"No limit was set: {rollouts.calls:,} calls, the default of "
            f"{'compiled code' if rollouts.name == 'compiled' else 'plain Python'}; "
            "epsilon=, budget= or seconds= set another."
        )
    elif epsilon is not None and half_width > epsilon:
        limit_text = (
            f"{rollouts.calls:,} calls" if time_limit is None else f"{time_limit:g} s"
        )
        notes.append(
            f"epsilon = {epsilon:g} was not reached within {limit_text}: the "
            f"half-width is {half_width:.4g}; give it more."
        )
    return tuple(notes)


def unevaluated_estimate(query: Query, interval: Interval, refused: bool) -> Estimate:
    """The answer that holds for any policy: its value lies in ``interval``.

    ``refused`` says that the progress function returned False; else it was Ctrl-C.
    """
    certificate = Certificate(
        kind="policy",
        interval=interval,
        q_intervals=(),
        confidence=1.0,
        bound="what the rewards allow: the policy was not rolled out",
        assumptions=assumptions(query.problem, DECLARED, ""),
    )
    stop_reason = (
        "The progress function returned False" if refused else "Stopped by hand"
    )
    return Estimate(
        value=0.5 * (interval[0] + interval[1]),
        interval=interval,
        q_values=(),
        policy=(),
        action=None,
        num_calls=0,
        epsilon=0.5 * (interval[1] - interval[0]),
        delta=0.0,
        method="evaluate",
        certificate=certificate,
        seconds=0.0,
        compile_seconds=0.0,
        problem=query.problem.name,
        state=query.place,
        minimize=query.problem.minimizes,
        seed=query.seed,
        notes=(
            f"{stop_reason} before the first rollout: the interval holds for any policy.",
        ),
    )
