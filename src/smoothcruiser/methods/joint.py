"""Two answers as one: what both intervals leave.

The failures of the two have probability delta together, so outside of them both
intervals hold, and with them every part that they share (docs/auto.md). The values are
those of the better estimate, the one with the smaller usual standard error (where there
is none: with the narrower interval), brought into what is left, and within epsilon of
its ends where the promise is kept. The policy is that of the answer's action values.
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
from smoothcruiser.operators.adding import added
from smoothcruiser.problem.answers import contradiction
from smoothcruiser.query import Query


def together(query: Query, first: Estimate, second: Estimate, delta: float) -> Estimate:
    """One answer of two whose failures have probability ``delta`` together.

    Every interval is what both leave.
    """
    one, two = first.certificate, second.certificate
    assert one is not None
    assert two is not None
    interval = both(one.interval, two.interval)
    boxes = two.q_intervals
    if one.q_intervals and boxes:
        boxes = tuple(map(both, one.q_intervals, boxes))
    assumed = (
        *two.assumptions,
        *(a for a in one.assumptions if a not in two.assumptions),
    )
    if any(low > high for low, high in (interval, *boxes)):
        raise contradiction(query.place, delta, assumed)
    certificate = Certificate(
        kind=two.kind,
        interval=interval,
        q_intervals=boxes,
        confidence=1.0 - delta,
        bound=f"{two.bound}; {one.bound}",
        assumptions=assumed,
        best_actions=not_excluded(boxes, query.problem.mover(query.place))
        if boxes
        else two.best_actions,
    )
    epsilon, within = second.epsilon, query.promise.epsilon
    if epsilon != query.promise.epsilon:  # it was stopped, or promises what it can
        widths = [high - low for low, high in boxes or (interval,)]
        epsilon = 0.5 * max(width for width in widths if not math.isnan(width))
        within = None
    better = _better(first, second)
    value = bring_inside(better.value, interval, within)
    q_values: tuple[float, ...] = ()
    if boxes:
        likely = better.q_values or second.q_values or first.q_values
        brought = zip(likely, boxes, strict=True)
        q_values = tuple(bring_inside(q, box, within) for q, box in brought)
    policy = _policy(query, q_values)
    mover = query.problem.mover(query.place)
    return replace(
        second,
        value=value,
        interval=interval,
        q_values=q_values,
        policy=policy,
        action=best_action(policy, q_values, mover) if q_values else None,
        certificate=certificate,
        standard_error=error_if_near(better.standard_error, better.value, value),
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


def both(one: Interval, two: Interval) -> Interval:
    """What two intervals leave; NaN, of an illegal action, stays."""
    return (
        one[0] if one[0] > two[0] else two[0],
        one[1] if one[1] < two[1] else two[1],
    )


def _better(first: Estimate, second: Estimate) -> Estimate:
    """The one with the smaller usual error, or with the narrower interval."""
    one, two = first.standard_error, second.standard_error
    if one is not None and two is not None:
        return first if one < two else second
    widths = [
        math.inf if found.interval is None else found.interval[1] - found.interval[0]
        for found in (first, second)
    ]
    return first if widths[0] < widths[1] else second


def _policy(query: Query, q_values: tuple[float, ...]) -> tuple[float, ...]:
    """The regularized policy at action values; NaN, of an illegal action, gets 0."""
    problem, legal = query.problem, [q for q in q_values if not math.isnan(q)]
    if not legal:
        return ()
    weights = problem.operator.weights(problem.num_actions)
    gradient = problem.operator.gradient(
        legal,
        player=problem.mover(query.place),
        weights=[
            w for w, q in zip(weights, q_values, strict=True) if not math.isnan(q)
        ],
    )
    total, shares = added(gradient), iter(gradient)
    return tuple(0.0 if math.isnan(q) else next(shares) / total for q in q_values)
