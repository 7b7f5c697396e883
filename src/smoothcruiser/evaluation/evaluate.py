"""The certified value of a policy by fresh rollouts.

Rollouts are killed paths (``path_rules``): X has mean V_pi exactly, nothing is
truncated. ``value`` is the mean of X, ``standard_error`` the usual one, and the
interval holds V_pi at every count at once with probability 1 - delta
(``path_fitting``). So neither the stop at epsilon nor a budget that ends in the middle
of a rollout can bias the promise. For an MDP V_pi <= V: the lower end bounds V from
below, at any discount and for any state space, where no two-sided promise may be
payable.

legend   symbol      name
  pi                 ``policy``, read by ``policies``

A Tree's policy depends on the path that led to a state; V_pi <= V holds all the
same. This file leaves out upper bounds on V.
"""

from __future__ import annotations

import math
from contextlib import closing, suppress
from typing import Any

from smoothcruiser.engines.inspection import (
    LOOK_SECONDS,
    Looks,
    describe_inspections,
    look,
)
from smoothcruiser.engines.registry import machine_code
from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.estimate import (
    Certificate,
    Estimate,
    estimate_subject,
    terminal_estimate,
)
from smoothcruiser.evaluation.critics import (
    Critic,
    check_purity,
    compare_values,
    read_critic,
)
from smoothcruiser.evaluation.evaluation_notes import (
    RolloutSummary,
    claim,
    delta_of,
    is_unlimited,
    notes_of,
    unevaluated_estimate,
)
from smoothcruiser.evaluation.path_fitting import UNIT, Stakes, Worth
from smoothcruiser.evaluation.path_rules import (
    LONGEST,
    STEPS,
    PathRule,
    X,
    check_totals,
)
from smoothcruiser.evaluation.path_sampling import NO_LIMIT, PathRun
from smoothcruiser.evaluation.policies import rollouts_of
from smoothcruiser.evaluation.rollouts import Rollouts, RolloutTask
from smoothcruiser.problem.assumptions import ONE_LAW, assumptions
from smoothcruiser.problem.declaration_checks import refuse_undiscounted
from smoothcruiser.problem.model.known_outcomes import has_rows
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import contradiction
from smoothcruiser.progress import Phases
from smoothcruiser.query import Query
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.run_control.call_seconds import warn_if_overdue
from smoothcruiser.run_control.clock import pause_clock
from smoothcruiser.run_control.control import Control, StopReason
from smoothcruiser.run_control.stop_requests import StopRequest, stoppable_run
from smoothcruiser.tree.search_numbers import Setting
from smoothcruiser.tree.search_setting import REACH
from smoothcruiser.tree.tree import Tree

# where no limit is set: a second of compiled code, some seconds of Python
DEFAULT_CALLS = {"compiled": 1_000_000, "reference": 100_000}
INSPECTED_SHARE = 8  # at most an eighth of the budget goes into inspecting the step
# of the seconds: at most so much for inspecting it before, and after
BEFORE_SHARE, AFTER_SHARE = 0.1, 0.05
KNOWN_LAW = "outcomes= lists the law of the step (value= is averaged over it)"
HAND_SECONDS = 0.2  # for inspecting it after Ctrl-C
LEAST_SECONDS = 0.1  # so that the clock cuts short slow simulators alone
CERTAIN_ROLLOUTS = 16  # of a world that is declared deterministic
# share of all values that the end of such a rollout may be worth, and of epsilon; the
# first is smaller where the budget pays for it
CERTAIN_REACH, EPSILON_SHARE = 1e-4, 0.1


def evaluate(query: Query, policy: Any, value: Any = None) -> Estimate:
    """The regularized value of ``policy`` with its interval.

    For an MDP the lower end bounds V(state) from below. The samples are fresh:
    they share nothing with a search that found the policy. The interval holds
    with probability 1 - delta whatever ends the run.

    Args:
        query: Where the policy starts (``state``), when to stop (``epsilon``,
            ``budget``, ``seconds``; ``DEFAULT_CALLS`` if none is set), ``delta``
            (0.05 by default), ``seed``, and ``executor`` ("compiled" or
            "reference"; by default compiled code where policy and problem allow
            it).
        policy: Any form that ``policy_reading`` and ``policies`` read: a function of the
            state, a dict, an array, an object that acts, a Solution, a Tree, an Estimate.
        value: A guess of the policy's value in every state, in any form of ``critics``:
            the control variate. The interval holds whatever it says.

    Example:
        >>> import smoothcruiser as sc
        >>> problem = sc.make("chain:n=5", discount=0.5, temperature=1.0)
        >>> solution = sc.solve(problem)
        >>> answer = evaluate(Query.of(problem, budget=20_000), solution)
        >>> low, high = answer.interval
        >>> bool(low <= solution.values[0] <= high)
        True
    """
    problem, state = query.problem, query.place
    refuse_undiscounted(problem, "evaluate")
    if query.promise.relative is not None:
        raise InvalidInput(
            f"evaluate cannot aim at epsilon={query.promise.words!r}; give it as a "
            "number, or as a percentage of the value span such as 5%."
        )
    wants_compiled = machine_code(query.compute.executor, "evaluate")
    if problem.is_terminal(state):
        return terminal_estimate(problem, state, "evaluate", query.seed)
    steps_elapsed = policy.elapsed if isinstance(policy, Tree) else 0
    steps_left = None if problem.horizon is None else problem.horizon - steps_elapsed
    critic = None if value is None else read_critic(problem, value)
    stakes = Stakes(problem, steps_left, worth_of(problem, critic, state, steps_left))
    setting = rollout_setting(problem, LONGEST if steps_left is None else steps_left)
    with stoppable_run() as hold:
        task = RolloutTask(problem, state, setting, query.seed, hold, critic)
        phases = Phases(query.progress, hold)
        if phases.begin("compiling"):
            return unevaluated_estimate(query, stakes.values, phases.refused)
        control = Control(query.limits, hold, phases)
        with pause_clock():
            rollouts = rollouts_of(task, policy, wants_compiled)
        with closing(rollouts):
            return _run_evaluation(query, policy, stakes, rollouts, phases, control)


def _run_evaluation(
    query: Query,
    policy: Any,
    stakes: Stakes,
    rollouts: Rollouts,
    phases: Phases,
    control: Control,
) -> Estimate:
    """The answer of the rollouts, until a limit or a stop ends them."""
    problem, state, clock = query.problem, query.place, control.clock
    most_calls, time_limit = _most_calls(query, rollouts), query.limits.seconds
    look_calls = None if most_calls == NO_LIMIT else most_calls // INSPECTED_SHARE
    look_seconds = LOOK_SECONDS if time_limit is None else BEFORE_SHARE * time_limit
    look_seconds = max(look_seconds, LEAST_SECONDS)
    phases.begin("inspecting")
    ledger, pairs = CallLedger(look_calls), Looks()
    if not phases.refused:
        look_seconds = min(LOOK_SECONDS, look_seconds)
        with suppress(KeyboardInterrupt), control.hold.opened():
            pairs = look(problem, state, query.seed, ledger, None, look_seconds)
    critic, critic_states = rollouts.critic, [state, *(pair.state for pair in pairs)]
    steps_left = stakes.horizon
    if critic is not None:
        first_values = check_purity(critic, critic_states, steps_left)
    # each pair is called once more at the end
    rollouts.spend(ledger.total + len(pairs))
    call_seconds = clock.elapsed() / max(1, ledger.total)
    last_look_seconds = min(LOOK_SECONDS, len(pairs) * call_seconds)
    if time_limit is not None:
        last_look_seconds = min(last_look_seconds, AFTER_SHARE * time_limit)
        rollouts.deadline = control.deadline - last_look_seconds
    summary = None
    if problem.deterministic and not phases.refused:
        summary = _certain_summary(rollouts, stakes, query, most_calls)
    if summary is None:
        path_run = PathRun(rollouts, stakes, query, phases, most_calls, len(pairs))
        with warn_if_overdue(time_limit):
            summary = path_run.run_paths()
    run_seconds = clock.elapsed()
    is_by_hand = control.check() is StopReason.HAND
    last_look_seconds = (
        min(last_look_seconds, HAND_SECONDS) if is_by_hand else LOOK_SECONDS
    )
    last_look_seconds = min(last_look_seconds, max(LEAST_SECONDS, clock.left()))
    repeated = CallLedger()
    if pairs and call_seconds <= last_look_seconds:
        hold = StopRequest() if is_by_hand else control.hold
        with suppress(KeyboardInterrupt), hold.opened():
            look(problem, state, query.seed, repeated, pairs, last_look_seconds)
    rollouts.spend(repeated.total - len(pairs))
    if critic is not None:
        last_values = critic.values(critic_states, steps_left)
        compare_values(critic_states, first_values, last_values)
    inspection = describe_inspections(
        len(pairs), repeated.total, rollouts.looks, rollouts.doubts
    )
    assumed = (
        *assumptions(problem, ONE_LAW, inspection),
        "the policy is one fixed function; the rollouts are fresh samples",
        *rollouts.assumed,
        *(() if stakes.worth is None or not stakes.worth.is_exact else (KNOWN_LAW,)),
    )
    if summary.certain:
        certain_note = (
            "deterministic=True: every state and action has "
            f"one outcome ({summary.count} rollouts agreed)"
        )
        assumed = (*assumed, certain_note)
    lower_bound, upper_bound = summary.interval
    if lower_bound > upper_bound:
        raise contradiction(state, delta_of(query), assumed)
    certificate = _certificate(query, summary, assumed)
    return Estimate(
        value=summary.mean,
        interval=summary.interval,
        q_values=(),
        policy=(),
        action=None,
        num_calls=rollouts.calls,
        epsilon=(upper_bound - lower_bound) / 2.0,
        delta=0.0 if summary.certain else delta_of(query),
        method="evaluate",
        certificate=certificate,
        seconds=run_seconds,
        compile_seconds=clock.compile_seconds(),
        **estimate_subject(problem, state),
        seed=query.seed,
        executor=rollouts.name,
        notes=notes_of(query, policy, summary, rollouts, control)
        + (() if critic is None else critic.notes),
        standard_error=summary.standard_error,
    )


def worth_of(
    problem: Problem, critic: Critic | None, state: Any, steps_left: int | None
) -> Worth | None:
    """The facts of a critic; where the law of steps is known, its noise is taken out."""
    if critic is None:
        return None
    is_exact = has_rows(problem) and problem.sample_action is None
    return Worth(critic.value_at(state, steps_left), is_exact)


def start_of(policy: Any, state: Any) -> Any:
    """The start of a policy: ``state``, or the root of a Tree if that is None."""
    return policy.state if state is None and isinstance(policy, Tree) else state


def _most_calls(query: Query, rollouts: Rollouts) -> int:
    """Oracle calls allowed; ``NO_LIMIT`` where epsilon or a clock ends the run."""
    if query.limits.calls is not None:
        return query.limits.calls
    return DEFAULT_CALLS[rollouts.name] if is_unlimited(query) else NO_LIMIT


def _certain_summary(
    rollouts: Rollouts, stakes: Stakes, query: Query, most_calls: int
) -> RolloutSummary | None:
    """The answer of a certain policy in a certain world; None where lots were drawn.

    One rollout would do if ``deterministic`` is true. A few from different
    random numbers show where it is not. Without a horizon they are cut after H steps
    if they have not ended: the rest is worth gamma^H times bounds on values, and about
    gamma^H times the worth of the H steps if they went on for ever.
    """
    calls_left = most_calls - rollouts.calls
    path_rule = PathRule(
        _certain_steps(stakes, query, calls_left), True, stakes.discount
    )
    rollout_values: set[float] = set()
    last_row, num_rollouts = None, 0
    for _ in range(CERTAIN_ROLLOUTS):
        samples = rollouts.run_paths(1, most_calls, path_rule)
        if len(samples) == 0:
            break
        check_totals(stakes.problem, samples)
        if rollouts.random:
            return None
        last_row, num_rollouts = samples, num_rollouts + 1
        rollout_values.add(float(last_row[0, X]))
    if last_row is None:
        return None
    if len(rollout_values) > 1:
        raise OracleError(
            "deterministic=True, but rollouts of one policy that draws no lots "
            f"paid {min(rollout_values):g} and {max(rollout_values):g}; drop deterministic=."
        )
    rollout_value, rounding_slack = (
        float(last_row[0, X]),
        float(stakes.errors(path_rule, last_row)[0]),
    )
    is_cut = stakes.horizon is None and last_row[0, STEPS] == path_rule.head
    rest_weight = stakes.discount**path_rule.head if is_cut else 0.0
    min_value, max_value = stakes.values
    value = stakes.carried_on(path_rule, last_row[0]) if is_cut else rollout_value
    rounding_slack += (
        4.0 * UNIT * path_rule.head * rest_weight * max(abs(min_value), abs(max_value))
    )
    has_ends = stakes.problem.facts.terminals
    least_rest, most_rest = (
        (min(0.0, min_value), max(0.0, max_value))
        if has_ends
        else (min_value, max_value)
    )
    interval = (
        max(min_value, rollout_value + rest_weight * least_rest - rounding_slack),
        min(max_value, rollout_value + rest_weight * most_rest + rounding_slack),
    )
    value = min(max(value, interval[0]), interval[1])
    standard_error = None if is_cut else 0.0
    return RolloutSummary(num_rollouts, value, interval, standard_error, certain=True)


def _certain_steps(stakes: Stakes, query: Query, calls: int) -> int:
    """H: the horizon, or the number of steps until the rest is worth little."""
    if stakes.horizon is not None:
        return stakes.horizon
    if stakes.discount == 0.0:
        return 1

    def steps(share: float) -> int:
        return max(1, math.ceil(math.log(share) / math.log(stakes.discount)))

    min_value, max_value = stakes.values
    coarse_share, fine_share, epsilon = REACH, CERTAIN_REACH, query.promise.epsilon
    if epsilon is not None:
        epsilon_share = (
            2.0 * EPSILON_SHARE * epsilon / max(max_value - min_value, 1e-300)
        )
        coarse_share, fine_share = (
            min(coarse_share, epsilon_share),
            min(fine_share, epsilon_share),
        )
    return min(steps(fine_share), max(steps(coarse_share), calls // CERTAIN_ROLLOUTS))


def _certificate(
    query: Query, summary: RolloutSummary, assumed: tuple[str, ...]
) -> Certificate:
    method_text = f"product of bets over {summary.count:,} rollouts, none truncated"
    if summary.certain:
        method_text = (
            f"{summary.count} equal rollouts, "
            "deterministic=True and a policy without lots"
        )
    return Certificate(
        kind="policy",
        interval=summary.interval,
        q_intervals=(),
        confidence=1.0 if summary.certain else 1.0 - delta_of(query),
        bound=f"{method_text}: {claim(query.problem)}",
        assumptions=assumed,
    )


def rollout_setting(problem: Problem, steps: int) -> Setting:
    """The rules of rollouts of at most ``steps`` steps."""
    min_reward, max_reward = (float(r) for r in problem.reward_range)
    has_ends, legal_varies = problem.facts.terminals, problem.legal is not None
    return Setting(
        num_actions=problem.num_actions,
        fewest=problem.facts.min_actions,
        discount=float(problem.discount),
        low=min_reward,
        high=max_reward,
        varies=legal_varies,
        ends=has_ends,
        game=problem.is_game,
        limit=steps,
        tail=0.0,
        expansion=1,
        most_nodes=2,
    )
