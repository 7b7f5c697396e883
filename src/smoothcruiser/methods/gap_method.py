"""``gap``: two-sided values by paths with a learned value (docs/gap.md).

    fit W on rollouts  ->  a policy greedy on W  ->  pilot paths  ->  paths until the promise

The interval of V and those of the action values hold together. States need not come
back; ``auto`` uses it where they do not and no schedule can be paid. ``sc.gap`` does the
same for a policy and a value of the user's own, and says more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from smoothcruiser.duality.gap_result import Gap
from smoothcruiser.duality.machines.gap_rules import CUT_NODES, NOISE_CALLS, GapRule
from smoothcruiser.duality.request_reading import (
    GapRequest,
    convexity_assumptions,
    read_inner,
    refuse_problem,
)
from smoothcruiser.errors import OracleError, SmoothcruiserError
from smoothcruiser.estimate import Certificate, Estimate, best_action, estimate_subject
from smoothcruiser.methods.base import Forecast, Method, Prepared
from smoothcruiser.operators.outward import sum_in_order
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import DEFAULT_DELTA, Query
from smoothcruiser.run_control.call_ledger import CallRole
from smoothcruiser.run_control.clock import pause_clock
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
            wants_actions=query.promise.target == "q_values",
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
    reason: str = "states need not come back along paths"

    def answer(self) -> Estimate:
        """The Estimate of V and of the action values."""
        from smoothcruiser.duality.path_answers import path_gap

        assumed = convexity_assumptions(self.query.problem)
        return self.annotated(
            estimate_of(path_gap(self.request, assumed, self.reason), self.query)
        )


def estimate_of(gap: Gap, query: Query) -> Estimate:
    """The Estimate that a Gap holds: V, the action values and a policy for them."""
    problem, state = query.problem, query.place
    legal_actions = [a for a, q in enumerate(gap.q_values) if not math.isnan(q)]
    policy = policy_of(problem, state, gap)
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
    half_width = max((high - low) / 2.0 for low, high in widths)
    return Estimate(
        value=gap.value,
        interval=gap.interval,
        q_values=gap.q_values,
        policy=policy,
        action=best_action(policy, gap.q_values, problem.mover(state))
        if policy
        else None,
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


def policy_of(problem: Problem, state: Any, gap: Gap) -> tuple[float, ...]:
    """The gradient at the action values; empty where there are none."""
    legal_actions = [a for a, q in enumerate(gap.q_values) if not math.isnan(q)]
    if not legal_actions:
        return ()
    weights = problem.operator.weights(problem.num_actions)
    gradient = problem.operator.gradient(
        [gap.q_values[a] for a in legal_actions],
        player=problem.mover(state),
        weights=[weights[a] for a in legal_actions],
    )
    policy = [0.0] * problem.num_actions
    for a, share in zip(legal_actions, gradient, strict=True):
        policy[a] = share / sum_in_order(gradient)
    return tuple(policy)


def regret_note(gap: Gap) -> str:
    """The note on the policy that the paths followed."""
    sentence = gap.sentence
    return f"{sentence[:1].upper()}{sentence[1:]}; sc.gap says more."


def forecast_price(method: str, request: GapRequest) -> Forecast:
    """The explanation before any call: what the range alone forces."""
    from smoothcruiser.duality.path_answers import make_task
    from smoothcruiser.duality.runs.path_pilot import forecast_from_facts

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


# --- auto ------------------------------------------------------------------------

PROBED_PATHS = 2
PROBE_START = 2**40  # the number of the first: no pilot of a run comes so far
PROBED_STEPS = 5_000  # of a path at the most
PROBED_NODES = 2**14  # states of a layer: beyond, states do not merge
PROBE_SHARE = 100  # of the calls: at most so much for the probe
PROBE_CALLS = 100_000  # at the most: half a second of an interpreted step
LEAST_PATHS = 300  # that the calls have to pay for, with some inner samples
USUAL_INNER = 8


def find_obstacle(query: Query, calls_left: int) -> str | None:
    """Why ``auto`` does not follow paths; None where it may.

    Two paths with W = 0 show whether states merge; the ledger gets their calls.
    """
    problem = query.problem
    if query.state is None:
        return "no state is named"
    if problem.deterministic:
        return "the world has no chance in it"
    if not problem.operator.built_in:
        return "the operator is not built in"
    if query.compute.executor not in (None, "compiled", "reference"):
        return "paths run on executor compiled or reference"
    if _probed_steps(problem) > PROBED_STEPS:
        return "a path has too many steps"
    try:
        refuse_problem(problem)
        rows = probe_paths(query, min(calls_left // PROBE_SHARE, PROBE_CALLS))
    except OracleError:
        raise
    except SmoothcruiserError as error:
        return str(error)
    if len(rows) < PROBED_PATHS:
        return "a path costs too many calls"
    if rows[:, CUT_NODES].any():
        return "states do not merge along a path"
    calls_per_path = rows[:, NOISE_CALLS].mean() * (1 + USUAL_INNER)
    if calls_per_path * LEAST_PATHS > calls_left:
        return "the calls pay for too few paths"
    return None


def _probed_steps(problem: Problem) -> int:
    """The steps of a path of the probe."""
    if problem.horizon is not None:
        return problem.horizon
    discount = float(problem.discount)
    return PROBED_STEPS + 1 if discount == 1.0 else math.ceil(1.0 / (1.0 - discount))


def probe_paths(query: Query, most_calls: int) -> Any:
    """Two paths of one inner sample with W = 0, in pilot streams of their own.

    They are interpreted: compiling would take longer.
    """
    from smoothcruiser.duality.machines.path_machines import build_machine
    from smoothcruiser.duality.runs.path_ranges import value_rows
    from smoothcruiser.evaluation.critics import read_critic

    problem = query.problem
    horizon, discount = problem.horizon, float(problem.discount)
    head = _probed_steps(problem)
    rule = GapRule(
        discount,
        head,
        fixed=True,
        ends_at_horizon=horizon is not None,
        most_nodes=PROBED_NODES,
    )
    times = value_rows(problem, horizon, 2 if horizon is None else horizon + 1)
    with (
        pause_clock(),
        closing(
            build_machine(
                problem,
                query.place,
                read_critic(problem, 0.0),
                None,
                query.seed,
                compiled=False,
            )
        ) as machine,
    ):
        rows = machine.play_paths(
            PROBE_START, PROBED_PATHS, rule, times, max(1, most_calls), pilot=True
        )
        query.ledger.spend(CallRole.PILOT, machine.calls)
    return rows
