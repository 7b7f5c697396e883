"""``gap``: two-sided values by paths with a learned value (docs/gap.md).

    fit W on rollouts  ->  a policy greedy on W  ->  pilot paths  ->  paths until the promise

The interval of V and those of the action values hold together. States need not come
back; ``auto`` uses it where they do not and no schedule can be paid. ``sc.gap`` does the
same for a policy and a value of the user's own, and says more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from smoothcruiser.estimate import Certificate, Estimate, best_action, estimate_subject
from smoothcruiser.gap.gap_result import Gap
from smoothcruiser.gap.request_reading import (
    GapRequest,
    convexity_assumptions,
    read_inner,
    refuse_problem,
)
from smoothcruiser.methods.base import Forecast, Method, Prepared
from smoothcruiser.operators.outward import sum_in_order
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import DEFAULT_DELTA, Query
from smoothcruiser.schedule.number_text import short


@dataclass(frozen=True, kw_only=True)
class GapMethod(Method):
    """Bound V from both sides by paths; states need not come back.

    ``value`` is an estimate of V to steer by, which is fitted on rollouts where there
    is none; ``features`` a function of the state that returns numbers, for the fit;
    ``inner`` the number of inner samples per state and action.
    """

    value: Any = None
    features: Callable[..., Any] | None = None
    inner: int | None = None
    name = "gap"
    because = ": it follows paths, from first to last"
    compared = False
    default_delta = DEFAULT_DELTA
    takes = frozenset(
        ("epsilon", "delta", "target", "budget", "seconds", "seed", "executor")
    ) | {"workers", "progress"}

    def prepare(self, query: Query) -> PreparedGap:
        """The preparation: the price that the declared facts force, without a call."""
        refuse_problem(query.problem)
        request = GapRequest(
            query=query,
            policies=(None, None),
            value=self.value,
            upper="paths",
            inner=read_inner(self.inner),
            features=self.features,
        )
        return PreparedGap(
            method=self,
            query=query,
            request=request,
            explanation=forecast_price(self.name, request),
        )

    def spending(self, problem: Problem, budget: int, delta: float) -> dict[str, Any]:
        """It runs to the end of the budget."""
        return {"budget": budget, "delta": delta}


@dataclass(frozen=True, kw_only=True, repr=False)
class PreparedGap(Prepared):
    """Paths about to be drawn."""

    request: GapRequest

    def answer(self) -> Estimate:
        """The Estimate of V and of the action values."""
        from smoothcruiser.gap.path_answers import path_gap

        assumed = convexity_assumptions(self.query.problem)
        return self.annotated(estimate_of(path_gap(self.request, assumed, "method='gap' was asked for"), self.query))


def estimate_of(gap: Gap, query: Query) -> Estimate:
    """The Estimate that a Gap holds: V, the action values and a policy for them."""
    problem, state = query.problem, query.place
    legal_actions = [a for a, q in enumerate(gap.q_values) if not math.isnan(q)]
    mover = problem.mover(state)
    weights = problem.operator.weights(problem.num_actions)
    gradient = problem.operator.gradient(
        [gap.q_values[a] for a in legal_actions],
        player=mover,
        weights=[weights[a] for a in legal_actions],
    )
    policy = [0.0] * problem.num_actions
    for a, share in zip(legal_actions, gradient, strict=True):
        policy[a] = share / sum_in_order(gradient)
    certificate = Certificate(
        kind="gap",
        interval=gap.interval,
        q_intervals=gap.q_intervals,
        confidence=gap.certificate.confidence,
        bound=gap.certificate.bound,
        assumptions=gap.certificate.assumptions,
        best_actions=gap.best_actions,
    )
    widths = [gap.interval, *(gap.q_intervals[a] for a in legal_actions)]
    if query.promise.target == "value":
        widths = widths[:1]
    half_width = max((high - low) / 2.0 for low, high in widths)
    return Estimate(
        value=gap.value,
        interval=gap.interval,
        q_values=gap.q_values,
        policy=tuple(policy),
        action=best_action(policy, gap.q_values, mover),
        num_calls=gap.num_calls,
        epsilon=half_width,
        delta=gap.delta,
        method="gap",
        certificate=certificate,
        seconds=gap.seconds,
        compile_seconds=gap.compile_seconds,
        **estimate_subject(problem, state),
        seed=query.seed,
        executor=gap.executor,
        notes=(*gap.notes, regret_note(gap)),
        standard_error=gap.standard_error,
    )


def regret_note(gap: Gap) -> str:
    """The note on the policy that the paths followed."""
    sentence = gap.sentence
    return f"{sentence[:1].upper()}{sentence[1:]}; sc.gap says more."


def forecast_price(method: str, request: GapRequest) -> Forecast:
    """The explanation before any call: what the range alone forces."""
    from smoothcruiser.gap.path_answers import make_task
    from smoothcruiser.gap.pilot import forecast_from_facts

    query = request.query
    promise, budget = query.promise, query.limits.calls
    head = (
        "gap fits a value on rollouts, tries paths of several kinds, and follows paths "
        "until the promise is kept or a limit ends it. "
    )
    if query.state is None:
        sentence = f"{head}Its price depends on the state: name one."
        return Forecast(method, budget, sentence, promise.epsilon, promise.delta)
    facts = forecast_from_facts(make_task(request))
    range_text = (
        "The declared facts allow a path to be worth from "
        f"{facts.range_lower:.4g} to {facts.range_upper:.4g}"
    )
    price_text = f"{range_text}; a pilot narrows that. "
    if math.isfinite(facts.paths):
        price_text = (
            f"{range_text}, which forces {short(math.ceil(facts.paths))} paths for this "
            "promise; the value that is fitted narrows the range, often tenfold. "
        )
    end_text = "Each path costs (inner samples + 1) calls per action and state on it."
    if budget is not None:
        end_text += f" At most {short(budget)} calls are made."
    return Forecast(
        method, budget, head + price_text + end_text, promise.epsilon, promise.delta
    )
