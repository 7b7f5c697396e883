"""``smoothcruiser`` with ``relax``: a promise about the unregularized value V_0.

A schedule estimates V_lambda and Q_lambda under the relaxed operator. The operator
adds an amount in a known band (``schedule.relaxation``): the middle of the band is
subtracted, and epsilon has paid for its half-width. Proof: docs/theory.md, section 11.
The policy of the answer is that of V_0: greedy in its action values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from smoothcruiser.errors import InvalidInput, Unpayable
from smoothcruiser.estimate import (
    NOWHERE,
    Estimate,
    Interval,
    Spread,
    best_action,
    not_excluded,
)
from smoothcruiser.methods.base import DEFAULT_BUDGET
from smoothcruiser.methods.schedules.scheduled import PreparedSchedule, SmoothCruiser
from smoothcruiser.operators import Max, Operator
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import contradiction
from smoothcruiser.progress import Callback, add_earlier_work
from smoothcruiser.query import Query
from smoothcruiser.schedule.number_text import short
from smoothcruiser.schedule.relaxation import Relaxation, family_of, relax


def prepare_relaxed(
    method: SmoothCruiser, query: Query, family: str
) -> PreparedRelaxation:
    """The cheapest plan for V_0, through an operator of ``family`` or plain max."""
    if query.compute.store is not None:
        raise InvalidInput(
            "With relax a run is not kept: its samples are of another problem than the "
            "one that was asked about; drop store=, or drop relax."
        )
    # a share of the span means that of V_0
    query = query.on(with_operator(query.problem, Max()))
    promise = query.promise
    relaxation = relax(
        query.problem.facts,
        epsilon=promise.half_width(),
        delta=promise.failure(),
        family=family_of(family),
        target=promise.target,
    )
    ready = PreparedRelaxation(method=method, query=query, explanation=relaxation)
    if query.limits.calls is not None:
        ready.check()
    return ready


def with_operator(problem: Problem, operator: Operator) -> Problem:
    """The same problem with another operator; declared bounds were for its own."""
    if operator == problem.operator:
        return problem
    return replace(problem, operator=operator, value_bounds=None, value_gap=None)


@dataclass(frozen=True, kw_only=True)
class PreparedRelaxation(PreparedSchedule):
    """A schedule for V_lambda about to run, with an answer about V_0.

    The query's problem is the unregularized one.
    """

    def check(self) -> None:
        """Refuse a price above the budget."""
        budget = self.query.limits.calls or DEFAULT_BUDGET
        if self.price > budget:
            raise Unpayable(
                f"This promise about the unregularized value costs {short(self.price)} "
                f"oracle calls, above the budget of {short(budget)} (budget=); ask for "
                "a larger epsilon."
            )

    def answer(self) -> Estimate:
        """The Estimate of V_0 and of its action values."""
        self.check()
        plan: Relaxation = self.explanation
        problem = with_operator(self.query.problem, plan.operator)
        inner = PreparedSchedule(
            method=self.method,
            query=replace(
                self.query, problem=problem, progress=_without_interval(self.query)
            ),
            explanation=plan.schedule,
            workers=self.workers,
        )
        estimate = undo_relaxation(self.query.problem, plan, inner.answer())
        notes = (
            plan.verdict,
            *((GREEDY,) if estimate.policy else ()),
            *estimate.notes,
        )
        return self.annotated(replace(estimate, notes=notes))


def _without_interval(query: Query) -> Callback | None:
    """Reports without an interval: that of the run is about another value."""
    return add_earlier_work(query.progress, 0, interval=lambda found: None)


# of the largest number in a shift: bands are sums of powers, rounded a few times
ROUNDING = 1e-14
GREEDY = "The policy is greedy in these action values: it is that of plain max."


def undo_relaxation(
    problem: Problem, plan: Relaxation, estimate: Estimate
) -> Estimate:
    """An estimate of V_lambda as one of V_0; ``problem`` is the unregularized one."""
    mover, facts = problem.mover(estimate.state), problem.facts
    band, q_band = plan.band(mover), plan.q_band(mover)
    value_bounds, q_bounds = facts.value_bounds(mover), facts.q_bounds(mover)
    actions = problem.legal_actions(estimate.state) if estimate.q_values else []
    q_values = [
        _within(estimate.q_values[a] - _middle(q_band), q_bounds) for a in actions
    ]
    certificate, q_boxes = estimate.certificate, [NOWHERE] * len(actions)
    if certificate is not None and certificate.q_intervals:
        q_boxes = [
            _shift_interval(certificate.q_intervals[a], q_band, q_bounds)
            for a in actions
        ]
    policy: tuple[float, ...] = ()
    if actions:
        greedy_policy = Max().gradient(
            q_values, player=mover, weights=[1.0] * len(actions)
        )
        spread = Spread.over(
            problem.num_actions, actions, q_values, q_boxes, greedy_policy
        )
        policy = spread.policy
    interval = (
        None
        if estimate.interval is None
        else _shift_interval(estimate.interval, band, value_bounds)
    )
    if certificate is not None:
        assert interval is not None
        if any(
            lower_bound > upper_bound
            for lower_bound, upper_bound in (interval, *q_boxes)
        ):
            raise contradiction(estimate.state, plan.delta, certificate.assumptions)
        q_intervals = spread.q_intervals if actions else ()
        certificate = replace(
            certificate,
            interval=interval,
            q_intervals=q_intervals,
            best_actions=not_excluded(q_intervals, mover) if actions else None,
            policy_loss=None,
        )
    return replace(
        estimate,
        value=_within(estimate.value - _middle(band), value_bounds),
        interval=interval,
        q_values=spread.q_values if actions else (),
        policy=policy,
        action=best_action(policy, spread.q_values, mover) if actions else None,
        epsilon=plan.widened(estimate.epsilon),
        certificate=certificate,
    )


def _middle(band: Interval) -> float:
    return 0.5 * (band[0] + band[1])


def _within(value: float, bounds: Interval) -> float:
    return min(max(value, bounds[0]), bounds[1])


def _shift_interval(interval: Interval, band: Interval, bounds: Interval) -> Interval:
    """An interval of x: ``interval`` holds x + y, ``band`` y, and ``bounds`` x."""
    lower_bound, upper_bound = interval[0] - band[1], interval[1] - band[0]
    rounding_slack = ROUNDING * max(map(abs, (*interval, *band)))
    lower_bound = lower_bound - rounding_slack
    upper_bound = upper_bound + rounding_slack
    return max(lower_bound, bounds[0]), min(upper_bound, bounds[1])
