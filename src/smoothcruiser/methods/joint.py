"""Two answers as one: the intersection of both intervals.

The failures of the two have probability delta together, so outside of them both
intervals hold, and with them every part that they share (docs/auto.md). The values are
those of the better estimate, the one with the smaller usual standard error (where there
is none: with the narrower interval), brought into the intersection, and within epsilon
of its ends where the promise is kept. The policy is that of the answer's action values.
"""

from __future__ import annotations

import math
from dataclasses import replace

from smoothcruiser.estimate import (
    Certificate,
    Estimate,
    Interval,
    best_action,
    bring_inside,
    error_if_near,
    not_excluded,
)
from smoothcruiser.operators.adding import sum_in_order
from smoothcruiser.problem.answers import contradiction
from smoothcruiser.query import Query


def combine_estimates(
    query: Query, first: Estimate, second: Estimate, delta: float
) -> Estimate:
    """One answer of two that fail with probability ``delta`` together.

    Every interval is the intersection of both.
    """
    first_certificate, second_certificate = first.certificate, second.certificate
    assert first_certificate is not None
    assert second_certificate is not None
    interval = intersect_intervals(
        first_certificate.interval, second_certificate.interval
    )
    q_intervals = second_certificate.q_intervals
    if first_certificate.q_intervals and q_intervals:
        q_intervals = tuple(
            map(intersect_intervals, first_certificate.q_intervals, q_intervals)
        )
    assumptions = (
        *second_certificate.assumptions,
        *(
            a
            for a in first_certificate.assumptions
            if a not in second_certificate.assumptions
        ),
    )
    if any(
        lower_bound > upper_bound
        for lower_bound, upper_bound in (interval, *q_intervals)
    ):
        raise contradiction(query.place, delta, assumptions)
    certificate = Certificate(
        kind=second_certificate.kind,
        interval=interval,
        q_intervals=q_intervals,
        confidence=1.0 - delta,
        bound=f"{second_certificate.bound}; {first_certificate.bound}",
        assumptions=assumptions,
        best_actions=not_excluded(q_intervals, query.problem.mover(query.place))
        if q_intervals
        else second_certificate.best_actions,
    )
    epsilon, promised_width = second.epsilon, query.promise.epsilon
    if epsilon != query.promise.epsilon:  # it was stopped, or promises less
        interval_widths = [
            upper_bound - lower_bound
            for lower_bound, upper_bound in q_intervals or (interval,)
        ]
        epsilon = 0.5 * max(width for width in interval_widths if not math.isnan(width))
        promised_width = None
    better_estimate = _better_estimate(first, second)
    value = bring_inside(better_estimate.value, interval, promised_width)
    q_values: tuple[float, ...] = ()
    if q_intervals:
        likely_values = better_estimate.q_values or second.q_values or first.q_values
        values_in_intervals = zip(likely_values, q_intervals, strict=True)
        q_values = tuple(
            bring_inside(q, q_interval, promised_width)
            for q, q_interval in values_in_intervals
        )
    policy = _regularized_policy(query, q_values)
    mover = query.problem.mover(query.place)
    return replace(
        second,
        value=value,
        interval=interval,
        q_values=q_values,
        policy=policy,
        action=best_action(policy, q_values, mover) if q_values else None,
        certificate=certificate,
        standard_error=error_if_near(
            better_estimate.standard_error, better_estimate.value, value
        ),
        epsilon=epsilon,
        delta=delta,
        num_calls=first.num_calls + second.num_calls,
        calls_spent=first.num_calls + (second.calls_spent or second.num_calls),
        price=None if second.price is None else first.num_calls + second.price,
        seconds=first.seconds + second.seconds,
        compile_seconds=first.compile_seconds + second.compile_seconds,
        notes=(
            *second.notes,
            f"Certified search had ±{first.epsilon:.3g} after {first.num_calls:,} calls; "
            "its intervals and the schedule's hold together.",
        ),
    )


def intersect_intervals(first: Interval, second: Interval) -> Interval:
    """The intersection of two intervals; NaN, of an illegal action, stays."""
    return (
        first[0] if first[0] > second[0] else second[0],
        first[1] if first[1] < second[1] else second[1],
    )


def _better_estimate(first: Estimate, second: Estimate) -> Estimate:
    """The one with the smaller usual error, or with the narrower interval."""
    first_error, second_error = first.standard_error, second.standard_error
    if first_error is not None and second_error is not None:
        return first if first_error < second_error else second
    interval_widths = [
        math.inf
        if estimate.interval is None
        else estimate.interval[1] - estimate.interval[0]
        for estimate in (first, second)
    ]
    return first if interval_widths[0] < interval_widths[1] else second


def _regularized_policy(query: Query, q_values: tuple[float, ...]) -> tuple[float, ...]:
    """The regularized policy at action values; NaN, of an illegal action, gets 0."""
    problem, legal_values = query.problem, [q for q in q_values if not math.isnan(q)]
    if not legal_values:
        return ()
    weights = problem.operator.weights(problem.num_actions)
    gradient = problem.operator.gradient(
        legal_values,
        player=problem.mover(query.place),
        weights=[
            w for w, q in zip(weights, q_values, strict=True) if not math.isnan(q)
        ],
    )
    gradient_sum, shares = sum_in_order(gradient), iter(gradient)
    return tuple(
        0.0 if math.isnan(q) else next(shares) / gradient_sum for q in q_values
    )
