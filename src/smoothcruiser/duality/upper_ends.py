"""Gaps without paths: of a known model, and by certified search.

``exact``: V is the solution of the model. With the actions of a player fixed to a
policy, the model is that of the other player alone, and its solution is a best reply:

  fixed player    value                     its end
  2               V^{*,nu} >= V             upper
  1               V^{pi,*} <= V             lower
  both            V^{pi,nu}                 of the policies

A fixed state s keeps one action: its row is the mean of the rows under the policy, and
its reward has sign Omega(pi) added, less F over one action (``_single_offset``).
Every solution has a proven bound on its error, so nothing is left to chance.

``certified``: the upper end of certified search with one half of delta, and the
policy's own value by fresh rollouts with the other half.

This file leaves out which of these is chosen (``gap_request``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smoothcruiser.certified.search import Certified
from smoothcruiser.certified.state_table import Table
from smoothcruiser.duality.gap_result import Gap, GapCertificate
from smoothcruiser.duality.request_reading import GapRequest, has_two_players
from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import (
    Estimate,
    Interval,
    bring_inside,
    estimate_subject,
    not_excluded,
)
from smoothcruiser.evaluation.evaluate import evaluate
from smoothcruiser.evaluation.policy_reading import read_policy
from smoothcruiser.exact import solve
from smoothcruiser.exact.policy_value import check_policy, regularizer
from smoothcruiser.exact.reachable import KnownModel, known_model
from smoothcruiser.exact.solution import Solution, exact_estimate
from smoothcruiser.problem.facts import discounted_steps
from smoothcruiser.problem.model.tabular import Floats, Tables, tabular
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import skip_last_report
from smoothcruiser.query import Promise, nearest_to_zero
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.run_control.control import Limits

SEARCH_SHARE = 0.5  # of delta and of the limits, for the search; the rest: rollouts
SPLIT_CALLS = 0.75  # of a budget of calls, for the search
DEFAULT_CALLS = 10**6  # of the search where no limit is set
# relative error of rows and rewards that are means under a policy; far above that of
# double precision
ROUNDING = 1e-14


@dataclass(frozen=True)
class SolvedModel:
    """A known model with its solution, and the policies as rows of the model."""

    problem: Problem
    model: KnownModel
    solution: Solution
    row: int  # of the state in question

    def interval(self, solution: Solution) -> Interval:
        """The value at the state in a solution of rows with a policy in them.

        These rows are rounded: off by a share ROUNDING of what a step is worth, once
        for each step that counts.
        """
        value, problem = float(solution.values[self.row]), self.problem
        finite_values = np.abs(solution.values[np.isfinite(solution.values)])
        step_worth = problem.facts.reward_bound + float(finite_values.max(initial=0.0))
        num_steps = discounted_steps(problem.discount, problem.horizon or 2**40)
        bound = float(solution.residual_bound) + ROUNDING * step_worth * num_steps
        return value - bound, value + bound


def exact_gap(request: GapRequest, reason: str) -> Gap:
    """The gap of a known model: no calls, and nothing left to chance."""
    start_time = time.perf_counter()
    query = request.query
    problem, state = query.problem, query.place
    rooted = (
        problem
        if problem.tables is not None
        else replace(problem, initial_state=state)
    )
    model = known_model(rooted)
    solution = solve(rooted)
    solved = SolvedModel(rooted, model, solution, solution.index(state))
    policy, replies = _solve_replies(solved, request)
    estimate = exact_estimate(rooted, solution, state)
    assert estimate.interval is not None
    assert estimate.certificate is not None
    is_game = has_two_players(problem)
    ends = [solved.interval(reply) for reply in replies]
    interval = (ends[1][0], ends[0][1]) if is_game else estimate.interval
    policy_interval = ends[2]
    far_end = interval[0] if is_game else policy_interval[0]
    regret = max(0.0, interval[1] - far_end)
    if problem.minimizes:
        regret = max(0.0, policy_interval[1] - interval[0])
    certificate = GapCertificate(
        kind="gap",
        interval=interval,
        policy_interval=policy_interval,
        regret=regret,
        q_intervals=estimate.certificate.q_intervals,
        confidence=1.0,
        upper="exact",
        reason=reason,
        bound=f"{estimate.certificate.bound}, of the model with the policy fixed too",
        assumptions=estimate.certificate.assumptions,
        best_actions=not_excluded(
            estimate.certificate.q_intervals, problem.mover(state)
        ),
        seed=query.seed,
    )
    elapsed = time.perf_counter() - start_time
    solutions = {id(part): part for part in (solution, *replies)}
    compile_seconds = sum(part.compile_seconds for part in solutions.values())
    return Gap(
        value=estimate.value,
        interval=interval,
        policy_value=float(replies[2].values[solved.row]),
        policy_interval=policy_interval,
        regret=regret,
        standard_error=0.0,
        q_values=estimate.q_values,
        q_intervals=estimate.certificate.q_intervals,
        policy=policy,
        best_actions=certificate.best_actions or (),
        num_calls=0,
        calls={},
        epsilon=(interval[1] - interval[0]) / 2.0,
        delta=0.0,
        upper="exact",
        certificate=certificate,
        seconds=max(0.0, elapsed - compile_seconds),
        compile_seconds=compile_seconds,
        **estimate_subject(problem, state),
        seed=query.seed,
        is_own_policy=request.has_own_policy,
        nash_conv=regret if is_game else None,
        notes=(f"The upper end is exact: {reason}.",),
    )


def _solve_replies(
    solved: SolvedModel, request: GapRequest
) -> tuple[tuple[float, ...], list[Solution]]:
    """The policy at the state, and the solutions with player 2, 1 and both fixed."""
    solution = solved.solution
    if not request.has_own_policy:
        own_row = solution.policy[solved.row]
        return tuple(float(share) for share in own_row), [solution] * 3
    tables = [
        _policy_rows(solved, policy, player)
        for player, policy in ((1, request.policies[0]), (2, request.policies[1]))
    ]
    replies = [
        _solve_fixed(solved, tables, players) for players in ((2,), (1,), (1, 2))
    ]
    mover = int(solved.model.tables.player[solved.row])
    own_row = tables[mover - 1][solved.row]
    return tuple(float(share) for share in own_row), replies


def _policy_rows(solved: SolvedModel, policy: Any, player: int) -> Floats:
    """The policy (S, A) in every row of the model; None is the optimal one."""
    tables = solved.model.tables
    live = tables.legal & ~tables.terminal[:, None]
    if policy is None:
        is_needed = solved.solution.stages is not None and (
            tables.player[live.any(axis=1)] == player
        )
        if np.any(is_needed):
            raise InvalidInput(
                "With a horizon the optimal policy depends on the steps left, and "
                "upper='exact' takes one function of the state; give policy=."
            )
        return check_policy(np.where(live, solved.solution.policy, 0.0), live)
    reading = read_policy(solved.problem, policy)
    if reading.draws_lots:
        raise InvalidInput(
            "A policy of (state, rng) draws lots, and upper='exact' needs its "
            "probabilities; return those, or take upper='paths'."
        )
    policy_rows = np.zeros(live.shape)
    for row in np.flatnonzero(live.any(axis=1) & (tables.player == player)):
        state = int(row) if solved.model.states is None else solved.model.states[row]
        policy_rows[row] = reading.shares(state, None)
    optimal = np.where(live, solved.solution.policy, 0.0)
    is_own = (tables.player == player)[:, None]
    return check_policy(np.where(is_own, policy_rows, optimal), live)


def _solve_fixed(
    solved: SolvedModel, policies: list[Floats], players: tuple[int, ...]
) -> Solution:
    """The solution of the model where these players follow their policies."""
    problem, tables = solved.problem, solved.model.tables
    num_states, num_actions = tables.legal.shape
    live = tables.legal & ~tables.terminal[:, None]
    is_fixed = np.isin(tables.player, players) & ~tables.terminal
    if not is_fixed.any():
        return solved.solution
    policy = np.where((tables.player == 1)[:, None], policies[0], policies[1])
    sign = np.where(tables.player == 1, 1.0, -1.0)
    extra_income = -sign * (
        regularizer(problem.operator, policy, live) + _single_offset(problem)
    )
    rows = _fixed_rows(tables, is_fixed, policy)
    rewards = np.zeros((num_states, num_actions))
    np.add.at(rewards.reshape(-1), rows.pair, rows.prob * rows.reward)
    rewards[is_fixed, 0] += extra_income[is_fixed]
    allowed = live.copy()
    allowed[is_fixed] = np.arange(num_actions) == 0
    from scipy.sparse import csr_matrix

    P = csr_matrix(
        (rows.prob, (rows.pair, rows.next_state)),
        shape=(num_states * num_actions, num_states),
    )
    fixed_problem = tabular(
        P,
        np.where(allowed, rewards, 0.0),
        discount=problem.discount,
        operator=problem.operator,
        players=tables.player if problem.is_game else None,
        terminal=tables.terminal,
        legal=allowed | tables.terminal[:, None],
        initial_state=solved.row,
        horizon=problem.horizon,
    )
    return solve(fixed_problem)


@dataclass(frozen=True)
class _Rows:
    """Entries of a model: (pair, next state, probability, reward)."""

    pair: Any
    next_state: Any
    prob: Any
    reward: Any


def _fixed_rows(tables: Tables, is_fixed: Any, policy: Floats) -> _Rows:
    """The entries, those of fixed states moved to action 0 with the policy's weight."""
    num_actions = tables.legal.shape[1]
    pair = np.repeat(np.arange(tables.legal.size), np.diff(tables.start))
    state, action = pair // num_actions, pair % num_actions
    moved = is_fixed[state]
    weight = np.where(moved, policy[state, action], 1.0)
    new_pair = np.where(moved, state * num_actions, pair)
    used = weight > 0.0
    return _Rows(
        new_pair[used],
        tables.next_state[used],
        (tables.prob * weight)[used],
        tables.reward[used],
    )


def _single_offset(problem: Problem) -> float:
    """F of the value 0 alone: what the operator adds where one action is legal."""
    operator = problem.operator
    return float(
        operator.value(
            [0.0], player=1, weights=operator.weights(problem.num_actions)[:1]
        )
    )


# --- certified search -----------------------------------------------------------


def certified_gap(request: GapRequest, reason: str) -> Gap:
    """The gap by certified search from above, and rollouts of the policy from below."""
    start_time = time.perf_counter()
    query = request.query
    if has_two_players(query.problem):
        raise InvalidInput(
            "upper='certified' bounds V of a game and not the best replies to two "
            "policies; take upper='paths', or method='certified' for V alone."
        )
    search_estimate, table = _search_upper_end(request)
    policy = request.policies[0]
    policy = _found_policy(query.problem, table) if policy is None else policy
    policy_estimate = _evaluate_policy(request, policy, search_estimate, table)
    assert search_estimate.interval is not None
    assert search_estimate.certificate is not None
    assert policy_estimate.interval is not None
    assert policy_estimate.certificate is not None
    interval = (
        max(search_estimate.interval[0], policy_estimate.interval[0]),
        search_estimate.interval[1],
    )
    policy_interval = (
        policy_estimate.interval[0],
        min(policy_estimate.interval[1], interval[1]),
    )
    regret = max(0.0, interval[1] - policy_interval[0])
    if query.problem.minimizes:  # V is at most the policy's cost
        high = policy_estimate.interval[1]
        interval = search_estimate.interval[0], min(search_estimate.interval[1], high)
        policy_interval = max(policy_estimate.interval[0], interval[0]), high
        regret = max(0.0, high - interval[0])
    q_intervals = search_estimate.certificate.q_intervals
    certificate = GapCertificate(
        kind="gap",
        interval=interval,
        policy_interval=policy_interval,
        regret=regret,
        q_intervals=q_intervals,
        confidence=1.0 - request.delta,
        upper="certified",
        reason=reason,
        bound=(
            f"{search_estimate.certificate.bound}; {policy_estimate.certificate.bound}"
        ),
        assumptions=tuple(
            dict.fromkeys(
                (
                    *search_estimate.certificate.assumptions,
                    *policy_estimate.certificate.assumptions,
                )
            )
        ),
        best_actions=search_estimate.certificate.best_actions,
        shares={
            "search": SEARCH_SHARE * request.delta,
            "policy": (1.0 - SEARCH_SHARE) * request.delta,
        },
        seed=query.seed,
    )
    calls = {"search": search_estimate.num_calls, "policy": policy_estimate.num_calls}
    compile_seconds = search_estimate.compile_seconds + policy_estimate.compile_seconds
    return Gap(
        value=bring_inside(search_estimate.value, interval),
        interval=interval,
        policy_value=bring_inside(policy_estimate.value, policy_interval),
        policy_interval=policy_interval,
        regret=regret,
        standard_error=search_estimate.standard_error,
        q_values=search_estimate.q_values,
        q_intervals=q_intervals,
        policy=tuple(read_policy(query.problem, policy).shares(query.place, None)),
        best_actions=search_estimate.certificate.best_actions or (),
        num_calls=sum(calls.values()),
        calls=calls,
        epsilon=(interval[1] - interval[0]) / 2.0,
        delta=request.delta,
        upper="certified",
        certificate=certificate,
        seconds=max(0.0, time.perf_counter() - start_time - compile_seconds),
        compile_seconds=compile_seconds,
        **estimate_subject(query.problem, query.place),
        seed=query.seed,
        executor=policy_estimate.executor,
        is_own_policy=request.has_own_policy,
        notes=(
            f"The upper end is that of certified search: {reason}.",
            *search_estimate.notes,
            *policy_estimate.notes,
        ),
    )


def _search_upper_end(request: GapRequest) -> tuple[Estimate, Table]:
    """The Estimate of certified search, with the states that it has met.

    The search has its share of delta and of the limits.
    """
    query = request.query
    limits, promise = query.limits, query.promise
    budget = limits.calls
    if budget is None and limits.seconds is None:
        budget = DEFAULT_CALLS
    search = Certified(
        query.problem,
        delta=SEARCH_SHARE * request.delta,
        seed=query.seed,
        workers=query.compute.workers,
    )
    try:
        estimate = search.query(
            query.place,
            epsilon=promise.epsilon if promise.relative is None else None,
            relative=promise.relative,
            budget=None if budget is None else max(1, int(SPLIT_CALLS * budget)),
            seconds=None if limits.seconds is None else SEARCH_SHARE * limits.seconds,
            progress=skip_last_report(query.progress),
            target="value",
        )
        return estimate, search.table()
    finally:
        search.close()


def _found_policy(problem: Problem, table: Table) -> Callable[[Any], Any]:
    """The policy of the states that a search has met; random elsewhere."""
    if problem.horizon is not None:
        raise InvalidInput(
            "With a horizon the policy of certified search depends on the steps left; "
            "give policy=, a function of the state."
        )
    policies = {problem.key_of(row.state): row.policy for row in table}

    def follow_search(state: Any) -> Any:
        policy = policies.get(problem.key_of(state))
        if policy is not None:
            return policy
        legal_actions = problem.legal_actions(state)
        share = 1.0 / len(legal_actions)
        actions = range(problem.num_actions)
        return [share if a in legal_actions else 0.0 for a in actions]

    return follow_search


def _evaluate_policy(
    request: GapRequest, policy: Any, search: Estimate, table: Table
) -> Estimate:
    """The policy's value by fresh rollouts, with what the search has left.

    The values that the search has found are their control variate.
    """
    query = request.query
    limits, promise = query.limits, query.promise
    budget = limits.calls
    if budget is None and limits.seconds is None:
        budget = 2 * DEFAULT_CALLS
    calls_left = None if budget is None else max(1, budget - search.num_calls)
    seconds_left = None
    if limits.seconds is not None:
        seconds_left = max(1e-3, limits.seconds - search.seconds)
    epsilon = promise.epsilon
    if promise.relative is not None and search.interval is not None:
        epsilon = promise.relative * nearest_to_zero(search.interval) or None
    return evaluate(
        replace(
            query,
            promise=Promise(
                epsilon=epsilon, delta=(1.0 - SEARCH_SHARE) * request.delta
            ),
            limits=Limits(calls=calls_left, seconds=seconds_left),
            progress=skip_last_report(query.progress),
            ledger=CallLedger(),
        ),
        policy,
        table if query.problem.horizon is None else None,
    )
