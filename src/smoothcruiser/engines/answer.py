"""From root sums to an Estimate.

The action values are clipped to what is possible, the operator is applied, and
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
from smoothcruiser.engines.stopping import StoppingRule
from smoothcruiser.estimate import (
    Certificate,
    Estimate,
    Interval,
    Spread,
    about,
    best_action,
    not_excluded,
)
from smoothcruiser.problem.answers import contradiction
from smoothcruiser.problem.assumptions import ONE_LAW, assumptions
from smoothcruiser.problem.bounds import bounds_at
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.schedule import Schedule


class Ran(NamedTuple):
    """Who ran the shards, and what was seen of the step there."""

    name: str  # the executor's
    compile_seconds: float = 0.0
    look_calls: int = 0  # calls that inspected the step
    seen: str = "not looked at"  # for the certificate


def assemble(
    problem: Problem,
    state: Any,
    rule: StoppingRule,
    outcome: Outcome,
    ran: Ran,
    *,
    seed: int,
) -> Estimate:
    """The Estimate of a run that finished or was stopped early."""
    schedule = rule.schedule
    assumed = assumptions(problem, ONE_LAW, ran.seen)
    value, interval, q_values, q_intervals, policy = pieces(
        problem, state, rule, outcome.tallies
    )
    if schedule.delta < 1.0 and any(
        low > high for low, high in (interval, *q_intervals)
    ):
        raise contradiction(state, schedule.delta, assumed)
    promised = schedule.delta < 1.0
    mover = problem.mover(state)
    notes = _notes(schedule, outcome)
    certificate = Certificate(
        kind="schedule",
        interval=interval,
        q_intervals=q_intervals,
        confidence=1.0 - schedule.delta,
        bound=rule.bound(outcome),
        assumptions=assumed,
        best_actions=not_excluded(q_intervals, mover) if q_intervals else None,
    )
    return Estimate(
        value=value,
        interval=interval if promised else None,
        q_values=q_values,
        policy=policy,
        action=best_action(policy, q_values, mover) if q_values else None,
        num_calls=outcome.num_calls,
        epsilon=schedule.epsilon
        if (outcome.finished and rule.wanted is None) or not promised
        else min(
            schedule.epsilon if outcome.finished else math.inf,
            reached(value, interval, q_values, q_intervals),
        ),
        delta=schedule.delta,
        method=schedule.method,
        certificate=certificate if promised else None,
        seconds=outcome.seconds,
        compile_seconds=ran.compile_seconds,
        **about(problem, state),
        seed=seed,
        executor=ran.name,
        calls_spent=outcome.calls_spent,
        price=schedule.num_calls,
        notes=notes,
        standard_error=usual_error(rule, outcome.tallies, policy),
    )


def usual_error(
    rule: StoppingRule, tallies: dict[int, RootSums], policy: tuple[float, ...]
) -> float | None:
    """The usual standard error of the value, by the delta method; it is not promised.

    The value moves with an action's mean by its share of the policy. None where an
    action that counts has fewer than two samples, and where the schedule's bias may be
    larger than the error: the spread of samples says nothing of that.
    """
    if rule.promise is None:
        return None
    variance = 0.0
    for action, tally in tallies.items():
        share, n = policy[action] if policy else 1.0, tally.draws
        if share == 0.0:
            continue
        if n < 2:
            return None
        square = max(0.0, tally.square / n - (tally.total / n) ** 2)
        variance += share * share * square / (n - 1)
    error = math.sqrt(variance)
    return error if rule.promise.bias <= error else None


def reached(
    value: float,
    interval: Interval,
    q_values: tuple[float, ...],
    q_intervals: tuple[Interval, ...],
) -> float:
    """How far what was asked for can be from the truth.

    That is all action values where they were asked for, and the value otherwise.
    """
    asked = zip(q_values, q_intervals, strict=True) if q_values else [(value, interval)]
    ends = [(x - low, high - x) for x, (low, high) in asked]
    return max(max(pair) for pair in ends if not math.isnan(sum(pair)))


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
    make = _from_draws_of_v if rule.schedule.root.target == "value" else _from_q
    found = make(problem, state, rule, tallies)
    return found if problem.value_gap is None else _bounded(problem, state, *found)


def _bounded(
    problem: Problem, state: Any, value: float, interval: Interval, *rest: Any
) -> Pieces:
    """The same, with the value inside the bounds that the user gave for this state."""
    box = problem.facts.value_bounds(problem.mover(state))
    low, high = bounds_at(problem, state, box)
    inside = max(interval[0], low), min(interval[1], high)
    return min(max(value, low), high), inside, *rest


def _from_q(
    problem: Problem, state: Any, rule: StoppingRule, tallies: dict[int, RootSums]
) -> Pieces:
    mover = problem.mover(state)
    low, high = problem.facts.q_bounds(mover)
    weights = problem.operator.weights(problem.num_actions)
    actions = sorted(tallies)
    w = [weights[a] for a in actions]
    balls = [rule.ball(tallies[a]) for a in actions]
    means = [
        mean if tallies[a].draws else (low + high) / 2.0
        for a, (mean, _) in zip(actions, balls, strict=True)
    ]
    clipped = [min(max(mean, low), high) for mean in means]
    boxes = [
        (max(mean - radius, low), min(mean + radius, high))
        for mean, (_, radius) in zip(means, balls, strict=True)
    ]
    operator, bounds = problem.operator, problem.facts.value_bounds(mover)
    value = operator.value(clipped, player=mover, weights=w)
    value = min(max(value, bounds[0]), bounds[1])
    lows, highs = ([box[side] for box in boxes] for side in (0, 1))
    interval = operator.value_bounds(lows, highs, player=mover, weights=w)
    interval = max(interval[0], bounds[0]), min(interval[1], bounds[1])
    gradient = operator.gradient(clipped, player=mover, weights=w)
    spread = Spread.over(problem.num_actions, actions, clipped, boxes, gradient)
    return value, interval, spread.q_values, spread.q_intervals, spread.policy


def _from_draws_of_v(
    problem: Problem, state: Any, rule: StoppingRule, tallies: dict[int, RootSums]
) -> Pieces:
    (tally,) = tallies.values()
    low, high = problem.facts.value_bounds(problem.mover(state))
    mean, width = rule.ball(tally)
    mean = mean if tally.draws else (low + high) / 2.0
    value = min(max(mean, low), high)
    return value, (max(mean - width, low), min(mean + width, high)), (), (), ()


def _notes(schedule: Schedule, outcome: Outcome) -> tuple[str, ...]:
    notes = []
    if schedule.epsilon == math.inf:
        notes.append("The schedule was made by hand and promises nothing.")
    elif schedule.delta >= 1.0:
        notes.append(
            "delta' was given and is too large for a promise: the printed analysis "
            "allows the answer to fail with probability 1."
        )
    early = [tally.look for tally in outcome.tallies.values() if tally.look is not None]
    if early and outcome.finished:
        notes.append(
            f"The data allowed an early stop: {outcome.num_calls:,} of "
            f"{schedule.num_calls:,} calls were needed."
        )
    if outcome.stopped is not None:
        notes.append(
            f"The run was stopped {outcome.stopped.value}, before its end; the interval "
            "is what the samples until then allow."
        )
    if outcome.stuck:
        notes.append(left_behind(outcome.stuck))
    return tuple(notes)
