"""The certified value of a policy by fresh rollouts.

Rollouts are killed paths (``path_rules``): X has mean V_pi exactly, nothing is
truncated. ``value`` is the mean of X, ``standard_error`` the usual one, and the
interval holds V_pi at every count at once with probability 1 - delta
(``confidence``). So neither the stop at epsilon nor a budget that ends in the middle
of a rollout can bias the promise. For an MDP V_pi <= V: the lower end bounds V from
below, at any discount and for any state space, where no two-sided promise may be
payable.

legend   symbol      name
  pi                 ``policy``, read by ``policies``

A Tree's policy depends on the path that led to a state; V_pi <= V holds all the
same. What this file leaves out: upper bounds on V.
"""

from __future__ import annotations

import math
import time
from contextlib import closing
from typing import Any

from smoothcruiser.engines.inspection import LOOK_SECONDS, Looks, look, seen
from smoothcruiser.engines.registry import machine_code
from smoothcruiser.engines.watchdog import overdue
from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.estimate import (
    Certificate,
    Estimate,
    about,
    terminal_estimate,
)
from smoothcruiser.evaluation.confidence import UNIT
from smoothcruiser.evaluation.fitting import Stakes
from smoothcruiser.evaluation.incomes import check_totals
from smoothcruiser.evaluation.notes import (
    RolloutSummary,
    claim,
    delta_of,
    is_unlimited,
    notes_of,
)
from smoothcruiser.evaluation.path_rules import LONGEST, STEPS, PathRule, X
from smoothcruiser.evaluation.policies import rollouts_of
from smoothcruiser.evaluation.rollouts import Rollouts, RolloutTask
from smoothcruiser.evaluation.sampling import NO_LIMIT, PathRun
from smoothcruiser.evaluation.unevaluated import unevaluated
from smoothcruiser.jit.interrupts import Hold, held
from smoothcruiser.jit.stopwatch import Stopwatch, uncounted
from smoothcruiser.problem.answers import contradiction
from smoothcruiser.problem.assumptions import ONE_LAW, assumptions
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.undiscounted import refuse_undiscounted
from smoothcruiser.progress import Phases
from smoothcruiser.query import Query
from smoothcruiser.tree.kernel import Setting
from smoothcruiser.tree.setting import REACH
from smoothcruiser.tree.tree import Tree

# where no limit is set: a second of compiled code, some seconds of Python
DEFAULT_CALLS = {"compiled": 1_000_000, "reference": 100_000}
INSPECTED_SHARE = 8  # at most an eighth of the budget goes into inspecting the step
# of the seconds: at most so much for inspecting it before, and after
BEFORE_SHARE, AFTER_SHARE = 0.1, 0.05
HAND_SECONDS = 0.2  # for inspecting it after Ctrl-C
LEAST_SECONDS = 0.1  # so that the clock cuts short slow simulators alone
CERTAIN_ROLLOUTS = 16  # of a world that is declared deterministic
# share of all values that the end of such a rollout may be worth, and of epsilon; the
# first is smaller where the budget pays for it
CERTAIN_REACH, EPSILON_SHARE = 1e-4, 0.1


def evaluate(query: Query, policy: Any) -> Estimate:
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
        policy: What ``reading`` and ``policies`` read: a function of the state, a
            dict, an array, an object that acts, a Solution, a Tree, an Estimate.

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
    compiled = machine_code(query.compute.executor, "evaluate")
    if problem.is_terminal(state):
        return terminal_estimate(problem, state, "evaluate", query.seed)
    elapsed = policy.elapsed if isinstance(policy, Tree) else 0
    left = None if problem.horizon is None else problem.horizon - elapsed
    stakes = Stakes(problem, left)
    setting = rollout_setting(problem, LONGEST if left is None else left)
    with held() as hold:
        task = RolloutTask(problem, state, setting, query.seed, hold)
        phases = Phases(query.progress, hold)
        if phases.begin("compiling"):
            return unevaluated(query, stakes.values, phases.refused)
        watch = Stopwatch()
        with uncounted():
            rollouts = rollouts_of(task, policy, compiled)
        with closing(rollouts):
            return _evaluated(query, policy, stakes, task, rollouts, phases, watch)


def _evaluated(
    query: Query,
    policy: Any,
    stakes: Stakes,
    task: RolloutTask,
    rollouts: Rollouts,
    phases: Phases,
    watch: Stopwatch,
) -> Estimate:
    """The answer of the rollouts, until a limit or a stop ends them."""
    problem, state, hold = query.problem, query.place, task.hold
    most_calls, seconds = _most_calls(query, rollouts), query.limits.seconds
    inspected = None if most_calls == NO_LIMIT else most_calls // INSPECTED_SHARE
    allowed = LOOK_SECONDS if seconds is None else BEFORE_SHARE * seconds
    allowed = max(allowed, LEAST_SECONDS)
    phases.begin("inspecting")
    calls, pairs = 0, Looks()
    if not phases.refused:
        allowed = min(LOOK_SECONDS, allowed)
        calls, pairs = _looked(query, hold, None, inspected, allowed)
    rollouts.spend(calls + len(pairs))  # each pair is called once more at the end
    each = watch.elapsed() / max(1, calls)
    after = min(LOOK_SECONDS, len(pairs) * each)
    if seconds is not None:
        after = min(after, AFTER_SHARE * seconds)
        rollouts.deadline = time.perf_counter() + seconds - watch.elapsed() - after
    found = None
    if problem.deterministic and not phases.refused:
        found = _certain(rollouts, stakes, query, most_calls)
    if found is None:
        paths = PathRun(rollouts, stakes, query, phases, most_calls, len(pairs))
        with overdue(seconds):
            found = paths.run()
    ran = watch.elapsed()
    after = min(after, HAND_SECONDS) if hold.came else LOOK_SECONDS
    if seconds is not None:
        after = min(after, max(LEAST_SECONDS, seconds - watch.elapsed()))
    again = 0
    if pairs and each <= after:
        again, _ = _looked(query, Hold() if hold.came else hold, pairs, None, after)
    rollouts.spend(again - len(pairs))
    inspection = seen(len(pairs), again, rollouts.looks, rollouts.doubts)
    assumed = (
        *assumptions(problem, ONE_LAW, inspection),
        "the policy is one fixed function; the rollouts are fresh samples",
        *rollouts.assumed,
    )
    if found.certain:
        certain = (
            "deterministic=True: every state and action has "
            f"one outcome ({found.count} rollouts agreed)"
        )
        assumed = (*assumed, certain)
    low, high = found.interval
    if low > high:
        raise contradiction(state, delta_of(query), assumed)
    certificate = _certificate(query, found, assumed)
    return Estimate(
        value=found.mean,
        interval=found.interval,
        q_values=(),
        policy=(),
        action=None,
        num_calls=rollouts.calls,
        epsilon=(high - low) / 2.0,
        delta=0.0 if found.certain else delta_of(query),
        method="evaluate",
        certificate=certificate,
        seconds=ran,
        compile_seconds=watch.stood_still(),
        **about(problem, state),
        seed=query.seed,
        executor=rollouts.name,
        notes=notes_of(query, policy, found, rollouts, hold),
        standard_error=found.standard_error,
    )


def _looked(
    query: Query,
    hold: Hold,
    pairs: Looks | None,
    most_calls: int | None,
    seconds: float,
) -> tuple[int, Looks]:
    """What ``look`` returns; after a stop in the middle the calls alone."""
    problem, state = query.problem, query.place
    try:
        with hold.opened():
            return look(problem, state, query.seed, pairs, most_calls, seconds)
    except KeyboardInterrupt as stop:
        return getattr(stop, "calls", 0), ()


def start_of(policy: Any, state: Any) -> Any:
    """Where a policy starts: ``state``, or the root of a Tree if that is None."""
    return policy.state if state is None and isinstance(policy, Tree) else state


def _most_calls(query: Query, rollouts: Rollouts) -> int:
    """Oracle calls allowed; ``NO_LIMIT`` where epsilon or a clock ends the run."""
    if query.limits.calls is not None:
        return query.limits.calls
    return DEFAULT_CALLS[rollouts.name] if is_unlimited(query) else NO_LIMIT


def _certain(
    rollouts: Rollouts, stakes: Stakes, query: Query, most_calls: int
) -> RolloutSummary | None:
    """The answer of a certain policy in a certain world; None where lots were drawn.

    One rollout would do if ``deterministic`` is true. A few from different
    random numbers show where it is not. Without a horizon they are cut after H steps
    if they have not ended: what follows is worth gamma^H times bounds on values, and
    about gamma^H times what the H steps would be worth if they went on for ever.
    """
    left = most_calls - rollouts.calls
    rule = PathRule(_certain_steps(stakes, query, left), True, stakes.discount)
    worths: set[float] = set()
    row, count = None, 0
    for _ in range(CERTAIN_ROLLOUTS):
        samples = rollouts.run(1, most_calls, rule)
        if len(samples) == 0:
            break
        check_totals(stakes.problem, samples)
        if rollouts.random:
            return None
        row, count = samples, count + 1
        worths.add(float(row[0, X]))
    if row is None:
        return None
    if len(worths) > 1:
        raise OracleError(
            "deterministic=True, but rollouts of one policy that draws no lots "
            f"paid {min(worths):g} and {max(worths):g}; drop deterministic=."
        )
    worth, slack = float(row[0, X]), float(stakes.errors(rule, row)[0])
    cut = stakes.horizon is None and row[0, STEPS] == rule.head
    rest = stakes.discount**rule.head if cut else 0.0
    low, high = stakes.values
    value = stakes.carried_on(rule, row[0]) if cut else worth
    slack += 4.0 * UNIT * rule.head * rest * max(abs(low), abs(high))
    ends = stakes.problem.facts.terminals
    least, most = (min(0.0, low), max(0.0, high)) if ends else (low, high)
    interval = (
        max(low, worth + rest * least - slack),
        min(high, worth + rest * most + slack),
    )
    value = min(max(value, interval[0]), interval[1])
    error = None if cut else 0.0
    return RolloutSummary(count, value, interval, error, certain=True)


def _certain_steps(stakes: Stakes, query: Query, calls: int) -> int:
    """H: the horizon, or the number of steps until what follows is worth little."""
    if stakes.horizon is not None:
        return stakes.horizon
    if stakes.discount == 0.0:
        return 1

    def steps(share: float) -> int:
        return max(1, math.ceil(math.log(share) / math.log(stakes.discount)))

    low, high = stakes.values
    coarse, fine, epsilon = REACH, CERTAIN_REACH, query.promise.epsilon
    if epsilon is not None:
        share = 2.0 * EPSILON_SHARE * epsilon / max(high - low, 1e-300)
        coarse, fine = min(coarse, share), min(fine, share)
    return min(steps(fine), max(steps(coarse), calls // CERTAIN_ROLLOUTS))


def _certificate(
    query: Query, found: RolloutSummary, assumed: tuple[str, ...]
) -> Certificate:
    how = f"product of bets over {found.count:,} rollouts, none truncated"
    if found.certain:
        how = (
            f"{found.count} equal rollouts, "
            "deterministic=True and a policy without lots"
        )
    return Certificate(
        kind="policy",
        interval=found.interval,
        q_intervals=(),
        confidence=1.0 if found.certain else 1.0 - delta_of(query),
        bound=f"{how}: {claim(query.problem)}",
        assumptions=assumed,
    )


def rollout_setting(problem: Problem, steps: int) -> Setting:
    """The rules of rollouts of at most ``steps`` steps."""
    low, high = (float(r) for r in problem.reward_range)
    ends, varies = problem.facts.terminals, problem.legal is not None
    return Setting(
        num_actions=problem.num_actions,
        fewest=problem.facts.min_actions,
        discount=float(problem.discount),
        low=low,
        high=high,
        varies=varies,
        ends=ends,
        game=problem.is_game,
        limit=steps,
        tail=0.0,
        expansion=1,
        most_nodes=2,
    )
