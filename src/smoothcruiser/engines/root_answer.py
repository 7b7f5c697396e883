"""From root sums to an Estimate.

The action values are clipped to their possible range, the operator is applied, and
the certificate is written.

Only here may Q-hat be clipped (to the box that holds every Q): inside the tree
it would break the sharp analysis. The promise is for all action values at once,
|Q-hat - Q| <= radius, so V lies between F at the lower and at the upper ends (F
is monotone).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from smoothcruiser.engines.run import Outcome, RootSums, left_behind
from smoothcruiser.engines.stopping_rule import StoppingRule
from smoothcruiser.estimate import (
    Certificate,
    Estimate,
    Interval,
    Spread,
    best_action,
    estimate_subject,
    not_excluded,
)
from smoothcruiser.problem.assumptions import ONE_LAW, assumptions
from smoothcruiser.problem.bounds import bounds_at
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import contradiction
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.schedule.schedule import Schedule


class RunRecord(NamedTuple):
    """The executor that ran the shards, and its findings about the step."""

    name: str  # the executor's
    compile_seconds: float = 0.0
    seen: str = "not looked at"  # for the certificate


def assemble(
    problem: Problem,
    state: Any,
    rule: StoppingRule,
    outcome: Outcome,
    ran: RunRecord,
    ledger: CallLedger,
    *,
    seed: int,
) -> Estimate:
    """The Estimate of a run that finished or was stopped early; ``ledger`` has its calls."""
    schedule = rule.schedule
    stated_assumptions = assumptions(problem, ONE_LAW, ran.seen)
    value, interval, q_values, q_intervals, policy = pieces(
        problem, state, rule, outcome.tallies
    )
    if schedule.delta < 1.0 and any(
        lower_end > upper_end for lower_end, upper_end in (interval, *q_intervals)
    ):
        raise contradiction(state, schedule.delta, stated_assumptions)
    has_promise = schedule.delta < 1.0
    mover = problem.mover(state)
    notes = _notes(schedule, outcome)
    certificate = Certificate(
        kind="schedule",
        interval=interval,
        q_intervals=q_intervals,
        confidence=1.0 - schedule.delta,
        bound=rule.bound_name(outcome),
        assumptions=stated_assumptions,
        best_actions=not_excluded(q_intervals, mover) if q_intervals else None,
    )
    return Estimate(
        value=value,
        interval=interval if has_promise else None,
        q_values=q_values,
        policy=policy,
        action=best_action(policy, q_values, mover) if q_values else None,
        num_calls=ledger.used_calls,
        epsilon=schedule.epsilon
        if (outcome.finished and rule.wanted is None) or not has_promise
        else min(
            schedule.epsilon if outcome.finished else math.inf,
            reached_epsilon(value, interval, q_values, q_intervals),
        ),
        delta=schedule.delta,
        method=schedule.method,
        certificate=certificate if has_promise else None,
        seconds=outcome.seconds,
        compile_seconds=ran.compile_seconds,
        **estimate_subject(problem, state),
        seed=seed,
        executor=ran.name,
        calls_spent=ledger.total,
        price=ledger.price,
        notes=notes,
        standard_error=usual_error(rule, outcome.tallies, policy),
    )


def usual_error(
    rule: StoppingRule, tallies: dict[int, RootSums], policy: tuple[float, ...]
) -> float | None:
    """The usual standard error of the value by the delta method, without a promise.

    The value moves with an action's mean by its share of the policy. None where an
    action that counts has fewer than two samples, and where the schedule's bias may be
    larger than the error: the spread of samples says nothing of that.
    """
    if rule.promise is None:
        return None
    variance = 0.0
    for action, tally in tallies.items():
        share, num_samples = policy[action] if policy else 1.0, tally.draws
        if share == 0.0:
            continue
        if num_samples < 2:
            return None
        sample_variance = max(
            0.0, tally.square / num_samples - (tally.total / num_samples) ** 2
        )
        variance += share * share * sample_variance / (num_samples - 1)
    standard_error = math.sqrt(variance)
    return standard_error if rule.promise.bias <= standard_error else None


def reached_epsilon(
    value: float,
    interval: Interval,
    q_values: tuple[float, ...],
    q_intervals: tuple[Interval, ...],
) -> float:
    """The largest possible distance of the requested quantities from the truth.

    These are all action values where they were requested, and the value otherwise.
    """
    estimates_with_intervals = (
        zip(q_values, q_intervals, strict=True) if q_values else [(value, interval)]
    )
    end_distances = [
        (x - lower_end, upper_end - x)
        for x, (lower_end, upper_end) in estimates_with_intervals
    ]
    return max(max(pair) for pair in end_distances if not math.isnan(sum(pair)))


def interval_of(
    problem: Problem, state: Any, rule: StoppingRule
) -> Callable[[dict[int, RootSums]], Interval | None]:
    """A function from the sums at a checkpoint to the interval that they certify.

    A progress display calls it. The interval is None where the schedule
    promises nothing.
    """

    def interval(tallies: dict[int, RootSums]) -> Interval | None:
        return (
            pieces(problem, state, rule, tallies)[1]
            if rule.schedule.delta < 1.0
            else None
        )

    return interval


Pieces = tuple[
    float, Interval, tuple[float, ...], tuple[Interval, ...], tuple[float, ...]
]


def pieces(
    problem: Problem, state: Any, rule: StoppingRule, tallies: dict[int, RootSums]
) -> Pieces:
    """(value, interval, action values, their intervals, policy) of root sums."""
    make_pieces = (
        _pieces_from_values
        if rule.schedule.root.target == "value"
        else _pieces_from_q_values
    )
    root_pieces = make_pieces(problem, state, rule, tallies)
    return (
        root_pieces
        if problem.value_gap is None
        else _clip_to_bounds(problem, state, *root_pieces)
    )


def _clip_to_bounds(
    problem: Problem, state: Any, value: float, interval: Interval, *other_pieces: Any
) -> Pieces:
    """The pieces, with the value inside the user's bounds at this state."""
    value_range = problem.facts.value_bounds(problem.mover(state))
    lower_bound, upper_bound = bounds_at(problem, state, value_range)
    inner_interval = max(interval[0], lower_bound), min(interval[1], upper_bound)
    return min(max(value, lower_bound), upper_bound), inner_interval, *other_pieces


def _pieces_from_q_values(
    problem: Problem, state: Any, rule: StoppingRule, tallies: dict[int, RootSums]
) -> Pieces:
    mover = problem.mover(state)
    q_low, q_high = problem.facts.q_bounds(mover)
    weights = problem.operator.weights(problem.num_actions)
    actions = sorted(tallies)
    action_weights = [weights[a] for a in actions]
    balls = [rule.ball(tallies[a]) for a in actions]
    means = [
        mean if tallies[a].draws else (q_low + q_high) / 2.0
        for a, (mean, _) in zip(actions, balls, strict=True)
    ]
    clipped_means = [min(max(mean, q_low), q_high) for mean in means]
    q_intervals = [
        (max(mean - radius, q_low), min(mean + radius, q_high))
        for mean, (_, radius) in zip(means, balls, strict=True)
    ]
    operator, value_range = problem.operator, problem.facts.value_bounds(mover)
    value = operator.value(clipped_means, player=mover, weights=action_weights)
    value = min(max(value, value_range[0]), value_range[1])
    lower_ends, upper_ends = ([box[side] for box in q_intervals] for side in (0, 1))
    interval = operator.value_bounds(
        lower_ends, upper_ends, player=mover, weights=action_weights
    )
    interval = max(interval[0], value_range[0]), min(interval[1], value_range[1])
    gradient = operator.gradient(clipped_means, player=mover, weights=action_weights)
    spread = Spread.over(
        problem.num_actions, actions, clipped_means, q_intervals, gradient
    )
    return value, interval, spread.q_values, spread.q_intervals, spread.policy


def _pieces_from_values(
    problem: Problem, state: Any, rule: StoppingRule, tallies: dict[int, RootSums]
) -> Pieces:
    (tally,) = tallies.values()
    value_low, value_high = problem.facts.value_bounds(problem.mover(state))
    mean, half_width = rule.ball(tally)
    mean = mean if tally.draws else (value_low + value_high) / 2.0
    value = min(max(mean, value_low), value_high)
    return (
        value,
        (max(mean - half_width, value_low), min(mean + half_width, value_high)),
        (),
        (),
        (),
    )


def _notes(schedule: Schedule, outcome: Outcome) -> tuple[str, ...]:
    notes = []
    if schedule.epsilon == math.inf:
        notes.append("The schedule was made by hand and promises nothing.")
    elif schedule.delta >= 1.0:
        notes.append(
            "delta' was given and is too large for a promise: the printed analysis "
            "allows the answer to fail with probability 1."
        )
    early_checkpoints = [
        tally.look for tally in outcome.tallies.values() if tally.look is not None
    ]
    if early_checkpoints and outcome.finished:
        notes.append(
            f"The data allowed an early stop: {outcome.num_calls:,} of "
            f"{schedule.num_calls:,} calls were needed."
        )
    if outcome.stopped is not None:
        notes.append(
            f"The run was stopped {outcome.stopped.describe()}, before its end; the interval "
            "is what the samples until then allow."
        )
    if outcome.stuck:
        notes.append(left_behind(outcome.stuck))
    return tuple(notes)
