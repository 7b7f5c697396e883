"""The gap of paths: W and the policy are read or made, paths are run, limits are told.

    value=, policy=  ->  critic, walk  ->  machine  ->  run of paths  ->  Gap

Every call of the step counts: inspections, the fit, the pilot, the paths, those that a
limit dropped. W and the policy are asked before the paths and again after them: one
that remembers or learns is refused, for its answers on the paths would be another
function's.

This file leaves out the paths (``path_run``), the fit (``value_fitting``) and the
choice of the upper end (``gap_request``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smoothcruiser.duality.gap_result import FIXED_VALUE, Gap, GapCertificate, Refit
from smoothcruiser.duality.machines.gap_rules import GapRule
from smoothcruiser.duality.machines.path_machines import (
    LOOKAHEAD,
    PathMachine,
    build_machine,
)
from smoothcruiser.duality.request_reading import GapRequest, has_two_players
from smoothcruiser.duality.runs.path_run import DEFAULT_CALLS, GapRun
from smoothcruiser.duality.runs.path_samples import PathRequest
from smoothcruiser.duality.runs.path_summary import PathSummary
from smoothcruiser.engines.registry import machine_code
from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import (
    NOWHERE,
    Interval,
    bring_inside,
    estimate_subject,
    not_excluded,
    note_agreement,
)
from smoothcruiser.evaluation.critics import (
    Critic,
    check_purity,
    compare_values,
    read_critic,
)
from smoothcruiser.evaluation.path_rules import earned_range
from smoothcruiser.evaluation.policies import path_walks
from smoothcruiser.evaluation.policy_reading import PolicyReading, read_policy
from smoothcruiser.evaluation.policy_tables import SUM_TOLERANCE
from smoothcruiser.jit.random import Key
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.operators.outward import add_intervals
from smoothcruiser.problem.assumptions import ONE_LAW, assumptions
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import call_oracle, contradiction
from smoothcruiser.progress import Phases
from smoothcruiser.run_control.clock import pause_clock
from smoothcruiser.run_control.control import Control
from smoothcruiser.run_control.stop_requests import stoppable_run
from smoothcruiser.states.identity import check_recognizable
from smoothcruiser.states.state_copies import lend_copy

# calls where an accuracy is asked for and no limit: minutes
MOST_CALLS = {"compiled": 10**10, "reference": 10**7}
NUM_LOOKAHEAD = 8  # inner samples of a policy that is greedy on W
ZERO_VALUE = 0.0  # a critic for the price before any call
FEW_NODES = 2**20  # of a layer: a cap below that is one that the calls enforce
FIT_CALLS = {"compiled": 2_000_000, "reference": 100_000}  # of a fit, at the most
FIT_SHARE = 8  # of the budget and of the seconds: at most an eighth goes into the fit
CHECKED_STATES = 64  # at which W is asked before and after the paths
CHECKED_SHARE = 100  # of the calls: at most so much for finding them
LIMITED = "Such worlds are limited to about K^H <= 1e6 states."
OWN_FIT = "the value was fitted before these paths, on streams of its own"


@dataclass(frozen=True)
class GapPolicy:
    """The policies of all players, as machines play them."""

    policy: Any  # an array (S, K), a function that starts walks, or LOOKAHEAD
    reading: PolicyReading | None = None  # None: it depends on the path, or on W
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def num_lookahead(self) -> int:
        """Inner samples of a policy that is greedy on W."""
        return NUM_LOOKAHEAD if self.policy is LOOKAHEAD else 0


def make_task(request: GapRequest, critic: Any = None) -> PathRequest:
    """The question that paths answer; without a critic W is 0."""
    query = request.query
    problem = query.problem
    return PathRequest(
        problem,
        query.place,
        problem.horizon,
        read_critic(problem, ZERO_VALUE) if critic is None else critic,
        request.delta,
        query.promise,
        players=(1, 2) if problem.sole_player is None else (problem.sole_player,),
        wants_actions=request.wants_actions,
        num_lookahead=0 if request.has_own_policy else NUM_LOOKAHEAD,
        seed=query.seed,
    )


def path_gap(request: GapRequest, assumed: tuple[str, ...], reason: str) -> Gap:
    """The gap by paths, until the accuracy or a limit."""
    query = request.query
    problem, state = query.problem, query.place
    check_recognizable(state, problem.key_of(state))
    wants_compiled = machine_code(query.compute.executor, "gap")
    policy = read_gap_policy(problem, request.policies)
    with stoppable_run() as hold:
        phases = Phases(query.progress, hold)
        control = Control(query.limits, hold, phases)
        shares = None if policy.reading is None else policy.reading.shares(state, None)
        states, walk_calls = visit_states(request)
        call_seconds = control.clock.elapsed() / max(1, walk_calls)
        critic, fit_calls = find_critic(request, call_seconds)
        values = check_purity(critic, states, problem.horizon)
        with pause_clock():
            machine: Any = build_machine(
                problem,
                state,
                critic,
                policy.policy,
                query.seed,
                compiled=wants_compiled,
                hold=hold,
            )
        with closing(machine):
            run = GapRun(
                make_task(request, critic),
                machine,
                phases,
                control,
                most_calls=max(
                    1, most_calls(request, machine) - walk_calls - fit_calls
                ),
                workers=query.compute.workers or os.cpu_count() or 1,
            )
            summary = run.run_paths()
        # those that were asked for the first time before may answer otherwise now
        compare_values(states, values, critic.values(states, problem.horizon))
    check_unchanged(policy, problem, state, shares)
    calls = {**summary.calls, "fit": fit_calls + summary.calls.get("fit", 0)}
    calls["inspection"] = walk_calls + summary.calls.get("inspection", 0)
    summary = replace(summary, calls=calls)
    texts = {
        "assumed": (*assumed, *machine.assumed),
        "reason": reason,
        "shares": shares,
        "compile_seconds": control.clock.compile_seconds(),
    }
    return gap_of(request, summary, policy, critic, texts)


def most_calls(request: GapRequest, machine: PathMachine) -> int:
    """Calls at the most: the budget, or what suits the machine."""
    query = request.query
    if query.limits.calls is not None:
        return query.limits.calls
    is_unlimited = not query.promise.asked and query.limits.seconds is None
    return (DEFAULT_CALLS if is_unlimited else MOST_CALLS)[machine.name]


def find_critic(request: GapRequest, call_seconds: float) -> tuple[Critic, int]:
    """W, and the calls of its fit where nobody gave it.

    A fit gets a share of the limits, and no more than its samples are worth.
    """
    query = request.query
    problem, limits = query.problem, query.limits
    if request.value is not None:
        return read_critic(problem, request.value), 0
    from smoothcruiser.duality.fitting.value_fitting import fit_value

    is_machine_code = problem.is_compiled and query.compute.executor != "reference"
    fit_calls = FIT_CALLS["compiled" if is_machine_code else "reference"]
    if limits.calls is not None:
        fit_calls = min(fit_calls, limits.calls // FIT_SHARE)
    if limits.seconds is not None and not is_machine_code:
        affordable = limits.seconds / FIT_SHARE / max(call_seconds, 1e-9)
        fit_calls = min(fit_calls, int(min(affordable, 1e12)))
    fitted = fit_value(
        problem,
        query.place,
        calls=max(1, fit_calls),
        policy=request.policies[0],
        features=request.features,
        seed=query.seed,
    )
    return fitted.critic, fitted.calls


def visit_states(request: GapRequest) -> tuple[list[Any], int]:
    """Some states of random walks from the start, and the calls that they took.

    W is asked about them before the paths and after, to see whether it is one function.
    """
    query = request.query
    problem, state = query.problem, query.place
    most_steps = CHECKED_STATES - 1
    if query.limits.calls is not None:
        most_steps = min(most_steps, query.limits.calls // CHECKED_SHARE)
    rng = stream(query.seed, Key.GAP, CHECKED_STATES)
    states, current = [state], state
    for _ in range(most_steps):
        legal_actions = problem.legal_actions(current)
        action = legal_actions[rng.integers(len(legal_actions))]
        _, current, is_over = call_oracle(
            problem, lend_copy(current), action, rng, -math.inf, math.inf, True
        )
        if is_over or problem.is_terminal(current):
            current = state
        else:
            states.append(current)
    return states, most_steps


# --- policies -------------------------------------------------------------------


def read_gap_policy(problem: Problem, policies: tuple[Any, Any]) -> GapPolicy:
    """The policies as machines play them: one function for whoever moves."""
    own_policies = [policy for policy in policies if policy is not None]
    if not own_policies:
        return GapPolicy(LOOKAHEAD)
    if has_two_players(problem) and len(own_policies) < 2:
        raise InvalidInput(
            "policies= needs a policy of each player, or none of both: one alone leaves "
            "the other end of the bracket open."
        )
    walks = path_walks(problem, policies[0])
    if walks is not None:
        if has_two_players(problem) and policies[1] is not policies[0]:
            raise InvalidInput(
                "A Tree or a Solution with a horizon plays for both players; give it "
                "as policy=."
            )
        return GapPolicy(walks)
    readings = [read_policy(problem, policy) for policy in own_policies]
    if any(reading.draws_lots for reading in readings):
        raise InvalidInput(
            "A policy of (state, rng) draws lots, and gap needs its probabilities; "
            "return those from a function of the state."
        )
    reading = readings[0] if len(readings) == 1 else join_policies(problem, *readings)
    notes = tuple(dict.fromkeys(note for part in readings for note in part.notes))
    assumed = tuple(dict.fromkeys(text for part in readings for text in part.assumed))
    if reading.table is not None and problem.tables is not None:
        return GapPolicy(reading.table, reading, assumed, notes)
    return GapPolicy(lambda: follow_reading(reading), reading, assumed, notes)


def follow_reading(reading: PolicyReading) -> Callable[[Any, int | None], list[float]]:
    """A walk of a policy that is a function of the state."""
    return lambda state, action: reading.shares(state, None)


def join_policies(
    problem: Problem, first: PolicyReading, second: PolicyReading
) -> PolicyReading:
    """The policy of whoever moves."""

    def shares(state: Any, rng: Any) -> list[float]:
        reading = first if problem.mover(state) == 1 else second
        return reading.shares(state, rng)

    table = None
    if first.table is not None and second.table is not None and problem.tables:
        is_first = (problem.tables.player == 1)[:, None]
        table = np.where(is_first, first.table, second.table)
    return PolicyReading(shares, table)


def check_unchanged(
    policy: GapPolicy, problem: Problem, state: Any, shares_before: list[float] | None
) -> None:
    """Refuse a policy whose answer at the start is another one after the paths."""
    if policy.reading is None or shares_before is None:
        return
    shares = policy.reading.shares(state, None)
    changes = [abs(x - y) for x, y in zip(shares, shares_before, strict=True)]
    if max(changes) > SUM_TOLERANCE:
        raise InvalidInput(
            f"The policy answered {shares_before} before the paths and {shares} after "
            f"them, at state {state!r:.80}: it learns or remembers, so it has no value "
            "of its own; freeze it."
        )


# --- the answer -----------------------------------------------------------------


def gap_of(
    request: GapRequest,
    summary: PathSummary,
    policy: GapPolicy,
    critic: Critic,
    texts: dict[str, Any],
) -> Gap:
    """The Gap of a run of paths."""
    query = request.query
    problem, state = query.problem, query.place
    interval, policy_interval = join_ends(problem, summary)
    plan, ranges = summary.plan, summary.ranges
    q_values, q_intervals = action_values(request, summary)
    best_actions = (
        not_excluded(q_intervals, problem.mover(state)) if q_intervals else ()
    )
    assumed = (
        *assumptions(problem, ONE_LAW, summary.inspection),
        *texts["assumed"],
        *policy.assumed,
        *critic.assumed,
        FIXED_VALUE
        if request.value is not None or request.has_own_policy
        else OWN_FIT,
    )
    for low, high in (summary.interval, summary.policy_interval):
        if low > high:
            raise contradiction(state, request.delta, assumed)
    certificate = GapCertificate(
        kind="gap",
        interval=interval,
        policy_interval=policy_interval,
        regret=summary.regret,
        q_intervals=q_intervals,
        confidence=1.0 - request.delta,
        upper="paths",
        reason=texts["reason"],
        bound=(
            f"mixture of bets over {summary.num_paths:,} paths, in the order of their "
            "numbers (docs/gap.md)"
        ),
        assumptions=tuple(dict.fromkeys(assumed)),
        best_actions=best_actions,
        shares=summary.shares,
        range_upper=None if ranges is None else ranges.upper,
        range_lower=None if ranges is None else ranges.lower,
        range_gap=None if ranges is None else ranges.gap,
        upper_cut=None if plan is None else plan.rule.upper_cut,
        lower_cut=None if plan is None else plan.rule.lower_cut,
        clip=None if plan is None else plan.clip,
        path_length="" if plan is None else describe_length(plan.rule),
        num_inner=None if plan is None else plan.rule.num_inner,
        coupling="" if plan is None else describe_coupling(plan.rule),
        num_paths=summary.num_paths,
        cut_paths=summary.cut_paths,
        nodes_per_path=summary.nodes_per_path,
        refits=tuple(
            Refit(refit.path, refit.ranges.upper) for refit in summary.refits
        ),
        seed=query.seed,
    )
    return Gap(
        value=bring_inside(estimate_value(request, summary), interval),
        interval=interval,
        policy_value=bring_inside(summary.policy_value, policy_interval),
        policy_interval=policy_interval,
        regret=summary.regret,
        standard_error=summary.standard_error,
        q_values=q_values,
        q_intervals=q_intervals,
        policy=tuple(texts["shares"] or ()),
        best_actions=best_actions,
        num_calls=summary.num_calls,
        calls=summary.calls,
        epsilon=(interval[1] - interval[0]) / 2.0,
        delta=request.delta,
        upper="paths",
        certificate=certificate,
        seconds=summary.seconds,
        compile_seconds=texts["compile_seconds"],
        **estimate_subject(problem, state),
        seed=query.seed,
        executor=summary.executor,
        is_own_policy=request.has_own_policy,
        nash_conv=summary.regret if has_two_players(problem) else None,
        notes=(*policy.notes, *critic.notes, *notes_of(request, summary)),
    )


def action_values(
    request: GapRequest, summary: PathSummary
) -> tuple[tuple[float, ...], tuple[Interval, ...]]:
    """Estimates and intervals by action; empty where only the value was asked for."""
    query = request.query
    problem, state = query.problem, query.place
    if not request.wants_actions:
        return (), ()
    mover = problem.mover(state)
    q_bounds = problem.facts.q_bounds(mover, problem.horizon)
    if has_two_players(problem):  # against the fixed policy of the other player
        steps_left = None if problem.horizon is None else problem.horizon - 1
        q_bounds = action_range(problem, steps_left)
    values = [math.nan] * problem.num_actions
    intervals = [NOWHERE] * problem.num_actions
    for a in problem.legal_actions(state):
        low, high = summary.q_intervals[a]
        is_known = not math.isnan(low)
        intervals[a] = (
            (max(low, q_bounds[0]), min(high, q_bounds[1])) if is_known else q_bounds
        )
        value = summary.q_values[a]
        middle = 0.5 * (q_bounds[0] + q_bounds[1])
        values[a] = bring_inside(middle if math.isnan(value) else value, intervals[a])
    return tuple(values), tuple(intervals)


def action_range(problem: Problem, steps_left: int | None) -> Interval:
    """The range of an action's value under any policies, ``steps_left`` after it."""
    low, high = (0.0, 0.0) if steps_left == 0 else earned_range(problem, steps_left)
    later = problem.discount * min(low, 0.0), problem.discount * max(high, 0.0)
    return add_intervals(problem.reward_range, later)


def estimate_value(request: GapRequest, summary: PathSummary) -> float:
    """The estimate of V: the upper mean where the policy is the caller's.

    Its distance to V is that of a policy greedy on W, about, and the caller's may be
    worse. Else, and in games, it is the middle of both ends' means.
    """
    is_middle = not request.has_own_policy or has_two_players(request.query.problem)
    if is_middle or math.isnan(summary.policy_value):
        return summary.value
    sign = -1.0 if request.query.problem.minimizes else 1.0
    return summary.policy_value + sign * summary.gap


def join_ends(problem: Problem, summary: PathSummary) -> tuple[Interval, Interval]:
    """The intervals of V and of the policy; in an MDP V_pi <= V narrows both."""
    low, high = summary.interval
    policy_low, policy_high = summary.policy_interval
    if has_two_players(problem):
        return (low, high), (policy_low, policy_high)
    if problem.minimizes:
        return (low, min(high, policy_high)), (max(policy_low, low), policy_high)
    return (max(low, policy_low), high), (policy_low, min(policy_high, high))


def describe_length(rule: GapRule) -> str:
    """The length of a path, in words."""
    if rule.fixed and rule.ends_at_horizon:
        return f"horizon {rule.head:,}"
    if rule.fixed:
        return f"truncated after {rule.head:,} steps, with bounds on what follows"
    return (
        f"a head of {rule.head:,} steps, then killed with probability "
        f"{1.0 - rule.discount:.3g} per step"
    )


def describe_coupling(rule: GapRule) -> str:
    """The inner samples, in a word."""
    if rule.num_inner == 0:
        return "exact"
    return "mirrored" if rule.mirrored else "plain"


def notes_of(request: GapRequest, summary: PathSummary) -> tuple[str, ...]:
    """What the reader should know of the run."""
    query, plan = request.query, summary.plan
    notes = []
    if summary.num_paths == 0:
        notes.append(
            "No path was finished within the limits; the interval is what the rewards "
            f"allow. {advise_on_nodes(summary)}".strip()
        )
    elif summary.stop is not None:
        notes.append(
            f"The run was stopped {summary.stop.describe()} after "
            f"{summary.num_paths:,} paths; the intervals hold as they are."
        )
    if plan is not None and plan.rule.most_nodes < FEW_NODES:
        notes.append(
            "States do not merge along a path: layers were capped at "
            f"{plan.rule.most_nodes:,} states, beyond which the bounds of the rewards "
            f"are put. {LIMITED}"
        )
    if summary.num_paths:
        half_width = 0.5 * (summary.interval[1] - summary.interval[0])
        notes += note_agreement("paths", summary.standard_error, half_width)
        remaining = summary.gap
        if summary.stop is None or remaining <= 0.0:
            return tuple(notes)
        if remaining > half_width:
            notes.append(
                f"The ends are {remaining:.3g} apart in the mean: what the policy loses, "
                "and what value= and the inner samples leave open. More paths do not "
                "reduce that; a better policy, value= or inner= may."
            )
    if query.problem.deterministic:
        notes.append(
            "The world has no chance in it: a path is the planning problem itself, and "
            "other methods are cheaper."
        )
    return tuple(notes)


def advise_on_nodes(summary: PathSummary) -> str:
    """Why no path was affordable."""
    return (
        "A path may hold too many states: ways that never meet again are limited to "
        "about K^H <= 1e6 states. Give more calls, a shorter horizon or value_bounds."
    )
