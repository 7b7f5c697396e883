"""The certified value of a given policy by fresh rollouts: for an MDP, a lower
bound on V that any planner's policy can have.

X = sum over t < H of gamma^t (r_t - sign Omega(pi(.|s_t))) + gamma^H c has mean
V_pi up to a cut of gamma^H (hi - lo)/2, where [lo, hi] bounds the value of
every policy and c is its middle; with a horizon nothing is cut. E X lies in an
empirical Bernstein confidence sequence (``evaluate_bounds``) at every count at
once with probability 1 - delta, so that neither the stop at epsilon nor a
budget that ends in the middle of a rollout can bias the answer. For an MDP V_pi
<= V: the lower end is a lower bound on V, at any discount and for any state
space, where no two-sided promise may be payable.

legend   symbol      name
  pi                 ``policy``: state -> probabilities, an array (S, A), a Solution, a Tree, or an Estimate
  H                  ``limit``

A Tree's policy depends on the path that led to a state, which V_pi <= V does
not mind. What this file leaves out: upper bounds on V.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from smoothcruiser.engines.inspection import look, seen
from smoothcruiser.errors import InvalidInput, OracleError, SmoothcruiserError
from smoothcruiser.estimate import Certificate, Estimate, Interval, terminal_estimate
from smoothcruiser.evaluation.confidence import HIGH, LOW, TOTAL, begin
from smoothcruiser.evaluation.rollouts import CompiledRollouts, PlainRollouts, follow
from smoothcruiser.exact.reachable import known_model
from smoothcruiser.operators.base import Operator
from smoothcruiser.operators.functions import (
    ENTROPY,
    KL_PRIOR,
    MAX,
    SPARSEMAX,
    SQUARE_ROOT,
)
from smoothcruiser.problem.answers import contradiction
from smoothcruiser.problem.arguments import check_seconds, check_seed, is_number
from smoothcruiser.problem.assumptions import ONE_LAW, assumptions
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import Tables
from smoothcruiser.tree.kernel import Setting
from smoothcruiser.tree.tree import REACH, Tree

# where neither epsilon nor budget is given: a second compiled, some seconds in
# Python
DEFAULT_CALLS = 1_000_000
DEFAULT_DELTA = 0.05
FIRST_LOOK = 16  # rollouts before the first question whether epsilon is reached
RATIO = 1.1  # between two such questions: at most 10% more draws than needed
INSPECTED_SHARE = 8  # at most an eighth of the budget goes into looking at the step
UNIT = 2.0**-53  # of double precision
CERTAIN_ROLLOUTS = 16  # of a world that is declared deterministic
# of epsilon that the cut at H may take: H grows by log(1/share)/log(1/gamma) only
CUT_SHARE = 0.1


class Rollouts(Protocol):
    """Draws of X."""

    name: str
    compile_seconds: float

    @property
    def looks(self) -> int:
        """How often it was looked whether the step leaves its state alone."""

    @property
    def doubts(self) -> str:
        """What these looks could not tell."""

    @property
    def random(self) -> bool:
        """Whether the policy drew lots so far."""

    @property
    def calls(self) -> int:
        """Oracle calls made."""

    @property
    def last(self) -> float:
        """X of the last rollout."""

    def spend(self, calls: int) -> None:
        """Count calls that were made elsewhere."""

    def run(
        self, count: int, most_calls: int, low: float, spread: float, sequence: Any
    ) -> int:
        """Rollouts made, each taken into ``sequence``; fewer than ``count``
        where the calls were used up.
        """


@dataclass(frozen=True)
class Bounds:
    """What any policy can earn: the range of V_pi, the range of one rollout X,
    and the error of the cut.
    """

    low: float
    high: float
    least: float  # X >= least
    spread: float  # X <= least + spread
    middle: float
    cut: float


def evaluate(
    problem: Problem,
    policy: Any,
    state: Any = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    executor: str | None = None,
) -> Estimate:
    """The regularized value of ``policy`` with its interval; for an MDP the
    lower end bounds V(state) from below.

    Stops at the half-width ``epsilon`` if it is given and the budget allows it,
    else when ``budget`` oracle calls or ``seconds`` are used up. The interval
    holds with probability 1 - ``delta`` (0.05 if not given) either way. Draws
    are fresh: they share nothing with a search that made the policy under
    another stream.
    """
    _check(problem, epsilon, delta, budget, seconds, seed, executor)
    if state is None and isinstance(policy, Tree):
        state = policy.state
    state = problem.start(state)
    if problem.is_terminal(state):
        return terminal_estimate(problem, state, "evaluate", seed)
    delta = DEFAULT_DELTA if delta is None else float(delta)
    limit = _limit(problem, policy, epsilon)
    bounds = _bounds(problem, limit, horizon=problem.horizon is not None)
    setting = _setting(problem, limit, bounds.middle)
    rollouts = _rollouts(problem, policy, state, setting, seed, executor)
    unlimited = budget is None and (epsilon is not None or seconds is not None)
    most_calls = (
        2**62 if unlimited else DEFAULT_CALLS if budget is None else int(budget)
    )
    calls, looked = look(
        problem,
        state,
        seed,
        most_calls=None if unlimited else most_calls // INSPECTED_SHARE,
    )
    rollouts.spend(calls + len(looked))  # those asked again at the end, too
    started = time.perf_counter()
    deadline = math.inf if seconds is None else started + seconds
    made, mean, interval = (
        _certain(rollouts, bounds, most_calls)
        if problem.deterministic
        else (0, 0.0, None)
    )
    certain = interval is not None
    if interval is None:
        made, mean, interval = _sample(
            rollouts, bounds, epsilon, delta, most_calls, deadline, limit
        )
    ran = time.perf_counter() - started
    asked, _ = look(problem, state, seed, looked)
    rollouts.spend(asked - len(looked))
    assumed = assumptions(
        problem, ONE_LAW, seen(len(looked), asked, rollouts.looks, rollouts.doubts)
    )
    assumed = (
        *assumed,
        "the policy is one fixed function; the rollouts are fresh draws",
    )
    # of sums of so many terms
    rounding = 4.0 * UNIT * limit * max(abs(bounds.low), abs(bounds.high))
    interval = (
        max(bounds.low, interval[0] - rounding),
        min(bounds.high, interval[1] + rounding),
    )
    if certain:
        assumed = (
            *assumed,
            (
                f"deterministic=True: every state and action has one outcome ({made} "
                "rollouts agreed)"
            ),
        )
    if interval[0] > interval[1]:
        raise contradiction(state, delta, assumed)
    answer = _answer(
        problem,
        state,
        rollouts,
        made,
        mean,
        interval,
        certain,
        delta,
        seed,
        ran,
        limit,
        bounds,
        assumed,
    )
    half = 0.5 * (interval[1] - interval[0])
    if isinstance(policy, Estimate):
        only = (
            f"The estimate knows its policy at state {policy.state!r} alone; "
            "elsewhere the blind policy was played."
        )
        answer = replace(answer, notes=(*answer.notes, only))
    if epsilon is not None and half > epsilon:
        spent = f"{rollouts.calls:,} calls" if seconds is None else f"{seconds:g} s"
        missed = (
            f"epsilon = {epsilon:g} was not reached within {spent}: the "
            f"half-width is {half:.4g}; give it more."
        )
        answer = replace(answer, notes=(*answer.notes, missed))
    return answer


def _certain(
    rollouts: Rollouts, bounds: Bounds, most_calls: int
) -> tuple[int, float, Interval | None]:
    """Rollouts of a certain policy in a certain world all give the answer; None
    for the interval where lots were drawn.

    One would do if ``deterministic`` is true; a few from different numbers tell
    where it is not.
    """
    found: set[float] = set()
    made = 0
    for _ in range(CERTAIN_ROLLOUTS):
        if (
            rollouts.run(1, most_calls, bounds.least, bounds.spread, begin(0.5, 0.0))
            == 0
        ):
            break
        if rollouts.random:
            return 0, 0.0, None
        found.add(rollouts.last)
        made += 1
    if made == 0:
        return 0, 0.0, None
    if len(found) > 1:
        raise OracleError(
            "deterministic=True, but rollouts of one policy that draws no lots paid "
            f"{min(found):g} and {max(found):g}; "
            "drop deterministic=."
        )
    value = rollouts.last
    return (
        made,
        value,
        (max(bounds.low, value - bounds.cut), min(bounds.high, value + bounds.cut)),
    )


def _sample(
    rollouts: Rollouts,
    bounds: Bounds,
    epsilon: float | None,
    delta: float,
    most_calls: int,
    deadline: float,
    limit: int,
) -> tuple[int, float, Interval]:
    """(rollouts used, their mean, the interval of V_pi); an interval with low >
    high has nothing in it.
    """
    left = most_calls - rollouts.calls
    # Bets for the count that a budget pays for (more where episodes end early); for
    # an unknown count with epsilon or a clock.
    sequence = begin(
        delta,
        0.0 if epsilon is not None or deadline < math.inf else max(1.0, left / limit),
    )
    started = time.perf_counter()
    made, next_look = 0, FIRST_LOOK
    while True:
        ask = next_look - made
        # no more at a time than half of the time that is left allows
        if deadline < math.inf:
            now = time.perf_counter()
            ask = min(
                ask,
                max(1, int(0.5 * (deadline - now) * made / max(now - started, 1e-9))),
            )
        more = rollouts.run(ask, most_calls, bounds.least, bounds.spread, sequence)
        cut_short = more < ask or time.perf_counter() >= deadline
        made += more
        low = max(
            bounds.low, bounds.least + bounds.spread * float(sequence[LOW]) - bounds.cut
        )
        high = min(
            bounds.high,
            bounds.least + bounds.spread * float(sequence[HIGH]) + bounds.cut,
        )
        if (
            low > high
            or cut_short
            or (epsilon is not None and (high - low) / 2.0 <= epsilon)
        ):
            break
        if made >= next_look:
            next_look = math.ceil(next_look * RATIO)
    mean = (
        bounds.least + bounds.spread * float(sequence[TOTAL]) / made
        if made
        else 0.5 * (bounds.low + bounds.high)
    )
    return made, min(max(mean, low), high), (low, high)


def _answer(
    problem: Problem,
    state: Any,
    rollouts: Rollouts,
    made: int,
    mean: float,
    interval: Interval,
    certain: bool,
    delta: float,
    seed: int,
    seconds: float,
    limit: int,
    bounds: Bounds,
    assumed: tuple[str, ...],
) -> Estimate:
    claim = "the value of the policy; its lower end is a lower bound on V(state)"
    if problem.is_game:
        claim = "the value of the two players' policies"
    how = (
        f"empirical Bernstein sequence over {made:,} rollouts"
        if not certain
        else f"{made} equal rollouts, deterministic=True and a policy without lots,"
    )
    certificate = Certificate(
        kind="policy",
        interval=interval,
        q_intervals=(),
        confidence=1.0 if certain else 1.0 - delta,
        bound=f"{how} of at most {limit:,} steps, cut <= {bounds.cut:.3g}: {claim}",
        assumptions=assumed,
    )
    sure = "surely" if certain else f"with probability {1.0 - delta:g}"
    note = (
        f"{made:,} fresh rollout{'s' if made != 1 else ''}; the interval holds "
        f"{claim}, {sure}."
    )
    if made == 0:
        note = (
            f"The budget ended before the first rollout of up to {limit:,} steps; "
            "the interval is what was known beforehand."
        )
    return Estimate(
        value=mean,
        interval=interval,
        q_values=(),
        policy=(),
        action=None,
        num_calls=rollouts.calls,
        epsilon=(interval[1] - interval[0]) / 2.0,
        delta=0.0 if certain else delta,
        method="evaluate",
        certificate=certificate,
        seconds=seconds,
        compile_seconds=rollouts.compile_seconds,
        problem=problem.name,
        state=state,
        seed=seed,
        executor=rollouts.name,
        notes=(note,),
    )


# --- bounds -------------------------------------------------------------------


def bonus_range(operator: Operator, num_actions: int) -> Interval:
    """The smallest and largest -Omega(pi) over policies of at most
    ``num_actions`` actions.
    """
    if operator.code == KL_PRIOR:
        weights = operator.weights(num_actions)
        return operator.strength * math.log(min(weights) / sum(weights)), 0.0
    if operator.code == SQUARE_ROOT:
        return operator.strength, operator.strength * math.sqrt(num_actions)
    if operator.code in (ENTROPY, SPARSEMAX):
        return 0.0, operator.offset(num_actions)
    if operator.code == MAX:
        return 0.0, 0.0
    raise InvalidInput(
        f"The operator {operator.name!r} gives no regularizer Omega; evaluate "
        "needs a built-in operator."
    )


def _income(problem: Problem) -> Interval:
    """What one step may pay, the regularizer included."""
    low, high = bonus_range(problem.operator, problem.num_actions)
    if problem.is_game:
        low, high = min(low, -high), max(high, -low)
    return problem.reward_range[0] + low, problem.reward_range[1] + high


def _scaled(problem: Problem, steps: float) -> Interval:
    """What so many (discounted) steps may pay; an episode that may end may also
    pay nothing more.
    """
    low, high = _income(problem)
    return (
        (min(low * steps, 0.0), max(high * steps, 0.0))
        if problem.facts.terminals
        else (low * steps, high * steps)
    )


def _bounds(problem: Problem, limit: int, *, horizon: bool) -> Bounds:
    ends = problem.facts.terminals
    inside = _scaled(problem, problem.facts.steps(limit))
    if horizon:
        return Bounds(
            *inside, least=inside[0], spread=inside[1] - inside[0], middle=0.0, cut=0.0
        )
    whole = _scaled(problem, problem.facts.steps(None))
    middle, left = 0.5 * (whole[0] + whole[1]), problem.discount**limit
    tail = left * middle
    # A rollout that ended gets no tail: with terminals both ends of the range have
    # to hold with and without it.
    least = inside[0] + (min(tail, 0.0) if ends else tail)
    most = inside[1] + (max(tail, 0.0) if ends else tail)
    return Bounds(
        *whole,
        least=least,
        spread=most - least,
        middle=middle,
        cut=0.5 * left * (whole[1] - whole[0]),
    )


def _limit(problem: Problem, policy: Any, epsilon: float | None) -> int:
    """H: the horizon, or steps until the cut is small."""
    elapsed = policy.elapsed if isinstance(policy, Tree) else 0
    if problem.horizon is not None:
        return problem.horizon - elapsed
    if problem.discount == 0.0:
        return 1
    low, high = _scaled(problem, problem.facts.steps(None))
    share = (
        REACH
        if epsilon is None
        else min(REACH, 2.0 * CUT_SHARE * epsilon / max(high - low, 1e-300))
    )
    return max(1, math.ceil(math.log(share) / math.log(problem.discount)))


def _setting(problem: Problem, limit: int, tail: float) -> Setting:
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
        limit=limit,
        tail=tail,
        expansion=1,
        most_nodes=2,
    )


# --- reading the policy -------------------------------------------------------


def _rollouts(
    problem: Problem,
    policy: Any,
    state: Any,
    setting: Setting,
    seed: int,
    executor: str | None,
) -> Rollouts:
    # refuses operators without Omega
    bonus_range(problem.operator, problem.num_actions)
    plain = executor == "reference"
    if isinstance(policy, Tree):
        if policy.problem is not problem:
            raise InvalidInput(
                "The tree was grown on another problem object; evaluate it with "
                "the problem that it was grown on."
            )
        if problem.key_of(policy.state) != problem.key_of(state):
            raise InvalidInput(
                f"The tree is rooted at {policy.state!r}, but {state!r} was asked "
                "for; advance the tree, or drop state=."
            )
        if policy._backend.name == "compiled" and not plain:
            return CompiledRollouts.of_tree(problem, policy, state, setting, seed)
        return PlainRollouts(problem, lambda: follow(policy), state, setting, seed)
    table = getattr(policy, "policy", policy)
    if isinstance(policy, Estimate):
        return PlainRollouts(
            problem, lambda: _one_state(problem, policy), state, setting, seed
        )
    # a Solution with a horizon: another policy at every step
    if getattr(policy, "stages", None) is not None:
        model = known_model(problem).tables
        return PlainRollouts(
            problem,
            lambda: _staged(problem, policy, model, setting.limit),
            state,
            setting,
            seed,
        )
    if getattr(policy, "states", None) is not None:  # a Solution over explored states
        rows = np.asarray(table, dtype=float)
        return PlainRollouts(
            problem,
            lambda: _stationary(lambda s: rows[policy.index(s)]),
            state,
            setting,
            seed,
        )
    if callable(policy) and executor == "compiled":
        raise InvalidInput(
            "A policy that is a function runs in Python; drop "
            "executor='compiled', or give an array (S, A) or a Tree."
        )
    if callable(policy):
        return PlainRollouts(problem, lambda: _stationary(policy), state, setting, seed)
    array = _table(problem, table)
    if problem.is_compiled and problem.tables is not None and not plain:
        return CompiledRollouts.of_table(problem, array, state, setting, seed)
    return PlainRollouts(
        problem, lambda: _stationary(lambda s: array[s]), state, setting, seed
    )


# (state, the action that led here or None) -> probabilities of all K actions
Walk = Callable[[Any, int | None], Any]


def _stationary(policy: Callable[[Any], Any]) -> Walk:
    def walk(state: Any, action: int | None) -> Any:
        try:
            found = policy(state)
        except (SmoothcruiserError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise InvalidInput(
                f"The policy raised {type(error).__name__}: {error} at state "
                f"{state!r}; mend it there."
            ) from error
        if found is None:
            raise InvalidInput(
                f"policy({state!r}) must give probabilities, one an action, got "
                "None; is a return missing?"
            )
        return found

    return walk


def _staged(problem: Problem, solution: Any, model: Tables, steps: int) -> Walk:
    """The policy grad F(Q) of an exact solution, with Q for the steps that are left."""
    left, K = [steps], problem.num_actions

    def walk(state: Any, action: int | None) -> Any:
        left[0] -= 1
        after = solution.stages[left[0]]
        row = solution.index(state)
        if np.isnan(solution.stages[left[0] + 1][row]):
            raise InvalidInput(
                f"The solution does not know state {state!r} with {left[0] + 1} steps "
                f"left: it explored from {solution.states[0]!r} up to "
                "the horizon; solve the problem with initial_state= set to the asked "
                "state."
            )
        actions = problem.legal_actions(state)
        q = []
        for a in actions:
            part = slice(model.start[row * K + a], model.start[row * K + a + 1])
            q.append(
                float(
                    model.prob[part]
                    @ (
                        model.reward[part]
                        + problem.discount * after[model.next_state[part]]
                    )
                )
            )
        weights = problem.operator.weights(K)
        shares = problem.operator.gradient(
            q, player=problem.mover(state), weights=[weights[a] for a in actions]
        )
        out = [0.0] * K
        for a, share in zip(actions, shares, strict=True):
            out[a] = share / sum(shares)
        return out

    return walk


def _one_state(problem: Problem, estimate: Estimate) -> Walk:
    """The estimate's policy at its own state, blind elsewhere."""
    if len(estimate.policy) != problem.num_actions:
        raise InvalidInput(
            "The estimate has no policy to evaluate; plan with target='q_values'."
        )
    asked = problem.key_of(estimate.state)
    return lambda state, action: (
        estimate.policy if problem.key_of(state) == asked else None
    )


def _table(problem: Problem, table: Any) -> Any:
    try:
        array = np.array(table, dtype=float)
    except (TypeError, ValueError):
        array = np.array(math.nan)
    if array.ndim == 0:
        raise InvalidInput(
            "A policy is a function state -> probabilities, agent.policy, an array (S, "
            "A), a Solution, a Tree or an Estimate, "
            f"got {type(table).__name__} {table!r:.60}."
        )
    if array.ndim != 2 or array.shape[1] != problem.num_actions:
        raise InvalidInput(
            "A policy array must have shape (S, A) with A = "
            f"{problem.num_actions}, got {array.shape}."
        )
    if problem.tables is not None:
        from smoothcruiser.exact.policy_value import _checked

        live = problem.tables.legal & ~problem.tables.terminal[:, None]
        return np.ascontiguousarray(_checked(array, live))
    return array


def _check(
    problem: Any,
    epsilon: Any,
    delta: Any,
    budget: Any,
    seconds: Any,
    seed: Any,
    executor: Any,
) -> None:
    if not isinstance(problem, Problem):
        raise InvalidInput(
            "A problem (MDP, Game, tabular or make) was expected, got "
            f"{type(problem).__name__}."
        )
    if executor not in (None, "compiled", "reference"):
        raise InvalidInput(
            f"evaluate runs on executor 'compiled' or 'reference', got {executor!r}."
        )
    if epsilon is not None and not (is_number(epsilon) and 0.0 < epsilon < math.inf):
        raise InvalidInput(
            f"epsilon must be a finite number above 0 or None, got {epsilon!r}."
        )
    if delta is not None and not (is_number(delta) and 0.0 < delta < 1.0):
        raise InvalidInput(
            f"delta must be a probability strictly between 0 and 1, got {delta!r}."
        )
    if budget is not None and not (is_number(budget) and 1 <= budget < math.inf):
        raise InvalidInput(
            f"budget must be a number of oracle calls of at least 1, got {budget!r}."
        )
    check_seconds(seconds)
    check_seed(seed)
