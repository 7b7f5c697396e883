"""``gap``: the orchestration of a Gap, from the request to the answer.

    request  ->  upper end: exact, certified or paths  ->  Gap

``auto`` takes the exact solution where the model is known. Of a simulator it asks a
pilot of a few paths; certified search is for worlds without chance, where a path knows
nothing that V does not, and for those whose states come back while their paths hold
too many states.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Unpack

from smoothcruiser.duality.gap_result import Gap, GapCertificate
from smoothcruiser.duality.request_reading import (
    GapKeywords,
    GapRequest,
    convexity_assumptions,
    has_two_players,
    read_request,
)
from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import NOWHERE, estimate_subject
from smoothcruiser.evaluation.policy_reading import read_policy, takes_rng
from smoothcruiser.exact.model import Watch
from smoothcruiser.exact.reachable import TooLarge, explore
from smoothcruiser.problem.adapter_protocol import live_problem
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import finish, show_bar
from smoothcruiser.query import named_keywords
from smoothcruiser.tree.tree import Tree

LISTED = 20_000  # states of outcomes= that are solved, as auto of plan does
LISTING_SHARE = 0.25  # of seconds=, at the most, to list them


@named_keywords
def gap(
    problem: Problem,
    policy: Any = None,
    value: Any = None,
    state: Any = None,
    **keywords: Unpack[GapKeywords],
) -> Gap:
    """How far a policy is from optimal: bounds on V and on the policy's value.

    The regret V - V_policy is bounded, with intervals of both values and of the action
    values; all of it holds with probability 1 - delta. The steps are replayed under
    one stream of random numbers per time, so that no state has to come back
    (docs/gap.md).

    >>> import smoothcruiser as sc
    >>> chain = sc.make("chain:n=5", discount=0.5, operator="max")
    >>> gap = sc.gap(chain, policy=lambda state: "right")
    >>> gap.regret < 1e-9, gap.num_calls
    (True, 0)

    Args:
        problem: the result of ``MDP``, ``Game``, ``tabular`` or ``make``, with a step
            for one state (no batches).
        policy: the policy in question, in any form that ``evaluate`` takes; by default
            the one that is greedy on ``value``, by a look one step ahead.
        value: an estimate of V to steer by: a number, a function of the state or of
            (state, steps left), an array or a dict by state, a Solution, a memory of
            certified search, a network that takes batches. A bad one makes the bounds
            wide, never wrong, as long as it was not fitted on these paths. By default
            it is fitted on rollouts first.
        state: where the policy starts; by default the problem's initial state.
        epsilon: half-width of the interval of V to stop at: a number, a share of the
            value span ("5%") or of the value itself ("1% of value").
        delta: probability that anything of it fails; 0.05 by default.
        upper: source of the upper end: "exact" (a known model), "certified" (states
            that come back), "paths", or "auto" (default), which says why it chose.
        inner: inner samples per state and action; by default what a pilot finds best.
        policies: for games: (policy of player 1, policy of player 2), in the place of
            ``policy``.
        features: a function of the state that returns numbers, for the fit of
            ``value``.
        budget: most oracle calls, those of the fit and the pilot among them; where no
            limit is given, 10**8 of compiled code and 10**6 of Python; with epsilon=
            alone 10**10 and 10**7.
        seconds: stop after so long; compiling does not count.
        seed: of the random numbers. By default a fresh one, which the answer names:
            a value= that was tuned on earlier paths must not meet them again.
        executor: "compiled" or "reference"; by default compiled code where it can.
        workers: threads or processes; by default all cores. They change no bit.
        progress: as in ``plan``.
    """
    if not isinstance(problem, Problem):
        problem, keywords = live_problem("gap takes", problem, keywords)
    return compute_gap(read_request(problem, policy, value, state, keywords))


def compute_gap(request: GapRequest) -> Gap:
    """The Gap of a request; its progress is reported."""
    progress = request.query.progress
    with show_bar(progress):
        gap = answer_request(request)
        finish(
            progress,
            calls=gap.num_calls,
            price=None,
            seconds=gap.seconds,
            interval=gap.interval,
        )
    return gap


def answer_request(request: GapRequest) -> Gap:
    """The Gap, by the upper end that was named or that suits the problem."""
    from smoothcruiser.duality.path_answers import path_gap
    from smoothcruiser.duality.upper_ends import certified_gap, exact_gap

    query = request.query
    problem = query.problem
    if problem.is_terminal(query.place):
        return terminal_gap(request)
    if request.upper == "exact":
        return exact_gap(request, "upper='exact' was asked for")
    if request.upper == "certified":
        return certified_gap(request, "upper='certified' was asked for")
    if request.upper == "auto":
        known_reason = find_model(request)
        if known_reason:
            return exact_gap(request, known_reason)
        if problem.deterministic and not has_two_players(problem):
            return certified_gap(
                request,
                "the world has no chance in it (deterministic=True), so that a path "
                "would be the planning problem itself",
            )
    reason = "states need not come back, and a simulator is all that is known"
    return path_gap(request, convexity_assumptions(problem), reason)


def find_model(request: GapRequest) -> str:
    """The reason for an exact solution; empty where the model is not known.

    States of ``outcomes=`` are listed, up to a number and a share of the time.
    """
    query = request.query
    problem = query.problem
    if any(depends_on_time(policy) for policy in request.policies):
        return ""
    if problem.tables is not None:
        return "the model is known as tables, so nothing is sampled"
    if problem.outcomes is None:
        return ""
    seconds = query.limits.seconds
    listing_seconds = None if seconds is None else LISTING_SHARE * seconds
    try:
        explore(
            replace(problem, initial_state=query.place),
            most_states=LISTED,
            watch=Watch(seconds=listing_seconds),
        )
    except (TooLarge, InvalidInput):  # rows that are missing; ends that step knows
        return ""
    return "the model is known by outcomes=, so nothing is sampled"


def depends_on_time(policy: Any) -> bool:
    """Whether a policy is another one at every step, or draws lots of its own."""
    if isinstance(policy, Tree) or getattr(policy, "stages", None) is not None:
        return True
    return callable(policy) and takes_rng(policy)


def policy_at_start(request: GapRequest) -> tuple[float, ...]:
    """The caller's policy at the start; empty where it gives no probabilities."""
    query = request.query
    problem, state = query.problem, query.place
    policy = request.policies[problem.mover(state) - 1]
    if policy is None or depends_on_time(policy):
        return ()
    return tuple(read_policy(problem, policy).shares(state, None))


def terminal_gap(request: GapRequest) -> Gap:
    """A terminal state is worth 0, and so is every policy there."""
    query, nothing = request.query, (0.0, 0.0)
    num_actions = query.problem.num_actions
    certificate = GapCertificate(
        kind="gap",
        interval=nothing,
        policy_interval=nothing,
        regret=0.0,
        q_intervals=(NOWHERE,) * num_actions,
        confidence=1.0,
        upper="exact",
        reason="the state is terminal",
        bound="terminal state",
        seed=query.seed,
    )
    return Gap(
        value=0.0,
        interval=nothing,
        policy_value=0.0,
        policy_interval=nothing,
        regret=0.0,
        standard_error=0.0,
        q_values=(math.nan,) * num_actions,
        q_intervals=certificate.q_intervals,
        policy=(0.0,) * num_actions,
        best_actions=(),
        num_calls=0,
        calls={},
        epsilon=0.0,
        delta=0.0,
        upper="exact",
        certificate=certificate,
        seconds=0.0,
        compile_seconds=0.0,
        **estimate_subject(query.problem, query.place),
        seed=query.seed,
        is_own_policy=request.has_own_policy,
        nash_conv=0.0 if has_two_players(query.problem) else None,
        notes=("The state is terminal: its value is 0 by definition.",),
    )
