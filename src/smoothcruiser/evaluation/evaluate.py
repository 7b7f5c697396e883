"""The certified value of a policy by fresh rollouts.

For an MDP the lower end of the interval is a lower bound on V that any
planner's policy can have.

  X = sum over t < H of gamma^t (r_t - sign Omega(pi(.|s_t))) + gamma^H c

has mean V_pi up to a truncation error of gamma^H (hi - lo)/2, where [lo, hi]
bounds the value of every policy and c is its middle; with a horizon nothing is
truncated. E X lies in an empirical Bernstein confidence sequence
(``confidence``) at every count at once with probability 1 - delta. So neither
the stop at epsilon nor a budget that ends in the middle of a rollout can bias
the answer. For an MDP V_pi <= V: the lower end bounds V from below, at any
discount and for any state space, where no two-sided promise may be payable.

legend   symbol      name
  pi                 ``policy``, read by ``policies``
  H                  ``steps``

A Tree's policy depends on the path that led to a state; V_pi <= V holds all the
same. What this file leaves out: upper bounds on V.
"""

from __future__ import annotations

import math
import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from smoothcruiser.engines.inspection import LOOK_SECONDS, Looks, look, seen
from smoothcruiser.engines.registry import machine_code
from smoothcruiser.engines.watchdog import overdue
from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.estimate import (
    Certificate,
    Estimate,
    Interval,
    about,
    terminal_estimate,
)
from smoothcruiser.evaluation.confidence import HIGH, LOW, TOTAL, T, begin
from smoothcruiser.evaluation.notes import RolloutSummary, claim, delta_of, notes_of
from smoothcruiser.evaluation.policies import rollouts_of
from smoothcruiser.evaluation.rollouts import Rollouts, RolloutTask
from smoothcruiser.evaluation.unevaluated import unevaluated
from smoothcruiser.jit.interrupts import Hold, held
from smoothcruiser.jit.stopwatch import Stopwatch, uncounted
from smoothcruiser.problem.answers import contradiction
from smoothcruiser.problem.assumptions import ONE_LAW, assumptions
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.undiscounted import refuse_undiscounted
from smoothcruiser.progress import Phases, time_left
from smoothcruiser.query import Query
from smoothcruiser.tree.kernel import Setting
from smoothcruiser.tree.setting import REACH
from smoothcruiser.tree.tree import Tree

# where no limit is set: a second of compiled code, some seconds of Python
DEFAULT_CALLS = 1_000_000
NO_LIMIT = 2**62  # calls: more than any run makes
FIRST_CHECK = 16  # rollouts before the first check whether epsilon is reached
RATIO = 1.1  # between two such checks: at most 10% more rollouts than needed
INSPECTED_SHARE = 8  # at most an eighth of the budget goes into inspecting the step
# of the seconds: at most so much for inspecting it before, and after
BEFORE_SHARE, AFTER_SHARE = 0.1, 0.05
HAND_SECONDS = 0.2  # for inspecting it after Ctrl-C
LEAST_SECONDS = 0.1  # so that the clock cuts short slow simulators alone
BATCH_SECONDS = 0.5  # of rollouts between two reports
UNIT = 2.0**-53  # of double precision
CERTAIN_ROLLOUTS = 16  # of a world that is declared deterministic
# share of epsilon that the truncation at H may take: H grows by
# log(1/share)/log(1/gamma) only
TRUNCATION_SHARE = 0.1


@dataclass(frozen=True)
class Bounds:
    """What any policy can earn, and the error of the truncation."""

    low: float  # V_pi >= low
    high: float  # V_pi <= high
    least: float  # X >= least
    spread: float  # X <= least + spread
    middle: float
    cut: float
    size: float  # |sums on the way to X| <= size


def evaluate(query: Query, policy: Any) -> Estimate:
    """The regularized value of ``policy`` with its interval.

    For an MDP the lower end bounds V(state) from below. The samples are fresh:
    they share nothing with a search that found the policy. The interval holds
    with probability 1 - delta whatever ends the run.

    Args:
        query: Where the policy starts (``state``), when to stop (``epsilon``,
            ``budget``, ``seconds``; a million calls if none is set), ``delta``
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
    steps = _steps(problem, policy, query.promise.epsilon)
    bounds = _bounds(problem, steps)
    setting = rollout_setting(problem, steps, bounds.middle)
    with held() as hold:
        task = RolloutTask(problem, state, setting, query.seed, hold)
        phases = Phases(query.progress, hold)
        if phases.begin("compiling"):
            return unevaluated(query, (bounds.low, bounds.high), phases.refused)
        watch = Stopwatch()
        with uncounted():
            rollouts = rollouts_of(task, policy, compiled)
        with closing(rollouts):
            return _evaluated(query, policy, bounds, task, rollouts, phases, watch)


def _evaluated(
    query: Query,
    policy: Any,
    bounds: Bounds,
    task: RolloutTask,
    rollouts: Rollouts,
    phases: Phases,
    watch: Stopwatch,
) -> Estimate:
    """The answer of the rollouts, until a limit or a stop ends them."""
    problem, state, hold, steps = (
        query.problem,
        query.place,
        task.hold,
        task.setting.limit,
    )
    most_calls, seconds = _most_calls(query), query.limits.seconds
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
        found = _certain(rollouts, bounds, most_calls)
    if found is None:
        with overdue(seconds):
            found = _sampled(rollouts, bounds, query, phases, steps, len(pairs))
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
    # rounding of sums of so many terms
    slack = 4.0 * UNIT * steps * bounds.size
    low = max(bounds.low, found.interval[0] - slack)
    high = min(bounds.high, found.interval[1] + slack)
    if low > high:
        raise contradiction(state, delta_of(query), assumed)
    found = replace(found, interval=(low, high))
    certificate = _certificate(query, steps, bounds, found, assumed)
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
        notes=notes_of(query, policy, steps, found, rollouts, hold),
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


def _most_calls(query: Query) -> int:
    """Oracle calls allowed; ``NO_LIMIT`` where epsilon or a clock ends the run."""
    if query.limits.calls is not None:
        return query.limits.calls
    stops = query.promise.epsilon is not None or query.limits.seconds is not None
    return NO_LIMIT if stops else DEFAULT_CALLS


def _certain(
    rollouts: Rollouts, bounds: Bounds, most_calls: int
) -> RolloutSummary | None:
    """The answer of a certain policy in a certain world; None where lots were drawn.

    One rollout would do if ``deterministic`` is true. A few from different
    random numbers show where it is not.
    """
    found: set[float] = set()
    count = 0
    for _ in range(CERTAIN_ROLLOUTS):
        ignored = begin(0.5, 0.0)
        if rollouts.run(1, most_calls, bounds.least, bounds.spread, ignored) == 0:
            break
        if rollouts.random:
            return None
        found.add(rollouts.last)
        count += 1
    if count == 0:
        return None
    if len(found) > 1:
        raise OracleError(
            "deterministic=True, but rollouts of one policy that draws no lots "
            f"paid {min(found):g} and {max(found):g}; drop deterministic=."
        )
    value = rollouts.last
    interval = (
        max(bounds.low, value - bounds.cut),
        min(bounds.high, value + bounds.cut),
    )
    return RolloutSummary(count, value, interval, certain=True)


def _sampled(
    rollouts: Rollouts,
    bounds: Bounds,
    query: Query,
    phases: Phases,
    steps: int,
    reserved: int,
) -> RolloutSummary:
    """The mean of rollouts and the interval of V_pi, until a limit is reached.

    ``reserved`` calls are counted that the inspection at the end will make.
    """
    epsilon, most_calls = query.promise.epsilon, _most_calls(query)
    # Bets for the count that a budget pays for (more where episodes end early);
    # for an unknown count with epsilon or a clock.
    aim = max(1.0, (most_calls - rollouts.calls) / steps)
    if epsilon is not None or rollouts.deadline < math.inf:
        aim = 0.0
    sequence = begin(delta_of(query), aim)
    started = time.perf_counter()
    count, next_check = 0, FIRST_CHECK
    price = None if most_calls == NO_LIMIT else most_calls
    used_up = refused = phases.refused or phases.begin("evaluating", price=price)
    low, high = bounds.low, bounds.high
    while not used_up:
        speed = count / max(time.perf_counter() - started, 1e-9)
        batch = min(next_check - count, max(1, int(BATCH_SECONDS * speed)))
        more = rollouts.run(batch, most_calls, bounds.least, bounds.spread, sequence)
        count = int(sequence[T])
        used_up = more < batch or time.perf_counter() >= rollouts.deadline
        low = bounds.least + bounds.spread * float(sequence[LOW]) - bounds.cut
        high = bounds.least + bounds.spread * float(sequence[HIGH]) + bounds.cut
        low, high = max(bounds.low, low), min(bounds.high, high)
        due = count >= next_check
        narrow = due and epsilon is not None and (high - low) / 2.0 <= epsilon
        if query.progress is not None and not used_up and not narrow:
            spent = time.perf_counter() - started
            until = rollouts.deadline - time.perf_counter()
            limit = None if until == math.inf else until
            refused = phases.tell(
                calls=rollouts.calls - reserved,
                seconds=spent,
                seconds_left=time_left(rollouts.calls, price, spent, limit),
                interval=(low, high) if low <= high else None,
                half_width=(high - low) / 2.0 if low <= high else None,
            )
        if low > high or used_up or narrow or refused:
            break
        if due:
            next_check = math.ceil(next_check * RATIO)
    mean = 0.5 * (bounds.low + bounds.high)
    if count:
        mean = bounds.least + bounds.spread * float(sequence[TOTAL]) / count
    mean = min(max(mean, low), high)
    return RolloutSummary(count, mean, (low, high), refused=phases.refused)


def _certificate(
    query: Query,
    steps: int,
    bounds: Bounds,
    found: RolloutSummary,
    assumed: tuple[str, ...],
) -> Certificate:
    how = f"empirical Bernstein sequence over {found.count:,} rollouts"
    if found.certain:
        how = (
            f"{found.count} equal rollouts, "
            "deterministic=True and a policy without lots,"
        )
    return Certificate(
        kind="policy",
        interval=found.interval,
        q_intervals=(),
        confidence=1.0 if found.certain else 1.0 - delta_of(query),
        bound=f"{how} of at most {steps:,} steps, cut <= {bounds.cut:.3g}: "
        f"{claim(query.problem)}",
        assumptions=assumed,
    )


# --- bounds -------------------------------------------------------------------


def _regularized(problem: Problem) -> Interval:
    """What the regularizer may add to the reward of one step."""
    operator = problem.operator
    if not operator.has_omega:
        raise InvalidInput(
            f"The operator {operator.name!r} gives no regularizer "
            "Omega; evaluate needs a built-in operator."
        )
    omega = operator.omega_range(problem.num_actions)
    low, high = 0.0 - omega[1], 0.0 - omega[0]
    if problem.is_game:
        low, high = min(low, -high), max(high, -low)
    return low, high


def _scaled(problem: Problem, step: Interval, steps: float) -> Interval:
    """What so many (discounted) steps may add up to.

    An episode that may end may also pay nothing more.
    """
    low, high = step[0] * steps, step[1] * steps
    if problem.facts.terminals:
        return min(low, 0.0), max(high, 0.0)
    return low, high


def _untold(problem: Problem, steps: int | None) -> Interval:
    """What so many steps may be worth by the range of one reward alone."""
    (low, high), rewards = _regularized(problem), problem.reward_range
    income = (rewards[0] + low, rewards[1] + high)
    return _scaled(problem, income, problem.facts.steps(steps))


def _earned(problem: Problem, steps: int | None, left: float = 0.0) -> Interval:
    """What so many steps may be worth, the regularizer included.

    None is the whole episode. ``left`` is the weight of what follows the steps,
    which takes a known total apart: rewards of the steps are the total minus
    ``left`` times the total of the rest (theory, Lemma T).
    """
    facts, total = problem.facts, problem.facts.total_range
    found = _untold(problem, steps)
    if total is None:
        return found
    low, high = _scaled(problem, _regularized(problem), facts.steps(steps))
    # an episode that ended has no rest
    rests = (0.0, *total) if facts.terminals else total
    return (
        max(found[0], total[0] + low - left * max(rests)),
        min(found[1], total[1] + high - left * min(rests)),
    )


def _bounds(problem: Problem, steps: int) -> Bounds:
    ends = problem.facts.terminals
    reach = None if problem.horizon is None else steps
    size = max(abs(x) for x in _untold(problem, reach))
    if problem.horizon is not None:
        inside = _earned(problem, steps)
        spread = inside[1] - inside[0]
        return Bounds(
            *inside, least=inside[0], spread=spread, middle=0.0, cut=0.0, size=size
        )
    whole = _earned(problem, None)
    middle, left = 0.5 * (whole[0] + whole[1]), problem.discount**steps
    inside = _earned(problem, steps, left)
    tail = left * middle
    # A rollout that ended gets no tail: with terminals both ends of the range
    # have to hold with and without it.
    least = inside[0] + (min(tail, 0.0) if ends else tail)
    most = inside[1] + (max(tail, 0.0) if ends else tail)
    return Bounds(
        *whole,
        least=least,
        spread=most - least,
        middle=middle,
        cut=0.5 * left * (whole[1] - whole[0]),
        size=size,
    )


def _steps(problem: Problem, policy: Any, epsilon: float | None) -> int:
    """H: the horizon, or the number of steps until the truncation is small."""
    elapsed = policy.elapsed if isinstance(policy, Tree) else 0
    if problem.horizon is not None:
        return problem.horizon - elapsed
    if problem.discount == 0.0:
        return 1
    low, high = _earned(problem, None)
    share = REACH
    if epsilon is not None:
        share = min(REACH, 2.0 * TRUNCATION_SHARE * epsilon / max(high - low, 1e-300))
    return max(1, math.ceil(math.log(share) / math.log(problem.discount)))


def rollout_setting(problem: Problem, steps: int, tail: float) -> Setting:
    """The rules of rollouts of at most ``steps`` steps.

    ``tail`` is what a truncated rollout counts for the rest.
    """
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
        tail=tail,
        expansion=1,
        most_nodes=2,
    )
