"""The experiment that the paper could not run: its table with the full algorithm.

estimateQ runs too, and the answers are compared with exact values. With the
printed constants a run takes 10^20 oracle calls and more (column
``paper_log10_calls``); the sharp schedule keeps the same promise for 10^3 to
10^6. Each row is ``runs`` independent runs of one plan. A failure is an error
above epsilon, allowed with probability delta.

  paper              the four environments with the paper's gamma = 0.2 and
                     lambda = 10, in their initial state
  reward-sensitive   the same walks with rewards times 100, in the state before
                     the reward. F_lambda(c Q) = c F_{lambda/c}(Q), so this is
                     reward 1 at lambda = 0.1; far from the reward
                     gamma^distance would hide it from any promise
  game               the reward-sensitive walks on S x {1, 2}, players taking
                     turns (the paper's augmented state space): one wants the
                     reward, one does not
  operator           the reward-sensitive walks under every other operator at
                     the same temperature

legend   column         meaning
  value, reward_part    exact V(s), and V(s) minus its value without rewards
  price, mean_calls     calls the plan may take, calls taken on average (the
                        plan stops early where the data allow it)
  paper_log10_calls     log10 of the calls of Alg. 1-3 with the printed
                        constants for the same promise
  failures, q_failures  runs with |V-hat - V| > epsilon, and with
                        |Q-hat - Q| > epsilon for some action

This file decides the promises, so that all of it takes minutes. It leaves out the
check with a stubbed Q (``figures``).

Regularization as a relaxation: effects of lambda on value, policy and price.

  0 <= V_lambda - V_0 <= lambda log K/(1-gamma)
      the paper's bound, one-sided in an MDP: half of it is an error about a
      known middle
  V_0 - V_0^pi <= lambda log K/(1-gamma)
      the unregularized loss of pi = softmax(Q_lambda/lambda): V_lambda - V_0^pi
      is the entropy that pi collects, at most the bound, and V_0 <= V_lambda

The first study varies lambda on two problems. The second is the adaptive scheme
that the paper leaves to future work (``schedule.relaxation``). For a promise
about V_0 it prices every split of epsilon between relaxation and sampling and
runs the cheapest. The best split with lambda > 0 is run beside it.

legend   column        meaning
  price                calls of the sharp schedule for V_lambda within epsilon
                       (a share of the reward's span 1/(1-gamma))
  price_unregularized  the same for V_0 through this lambda; blank where the
                       band alone exceeds epsilon
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smoothcruiser.engines.base import Engine, Job
from smoothcruiser.engines.registry import COMPILED, make_engine
from smoothcruiser.engines.run import RootSums
from smoothcruiser.engines.shards import Shard, cut_shards
from smoothcruiser.engines.stopping_rule import StoppingRule, stopping_rule
from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.exact import solve
from smoothcruiser.exact.policy_value import policy_value
from smoothcruiser.operators import KL, Entropy, Max, Operator, Sparsemax, SquareRoot
from smoothcruiser.problem.model.tabular import tabular
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.zoo import garnet
from smoothcruiser.reproduce.figures import (
    DISCOUNT,
    ENVIRONMENTS,
    TEMPERATURE,
    Environment,
)
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.relaxation import (
    Relaxation,
    relax,
    relax_through,
    value_band,
)
from smoothcruiser.schedule.schedule import Schedule
from smoothcruiser.theory.paper_constants import PaperSetting, log_delta_prime

DELTA = 0.1
SCALE = 100.0
# epsilon over the value span: prices of 10^5, 10^6 and 10^4 to 10^5 calls
PAPER_SHARE, SENSITIVE_SHARE, WIDE_SHARE = 0.02, 0.05, 0.1
RUNS = 1000


@dataclass(frozen=True)
class Case:
    """One row to run: a problem, a state, and epsilon as a share of the value span."""

    group: str
    environment: str
    problem: Problem
    state: int
    share: float


@dataclass(frozen=True)
class FullRow:
    """The results of ``runs`` runs of one case; the columns of full.csv."""

    group: str
    environment: str
    operator: str
    num_actions: int
    epsilon: float
    delta: float
    value: float
    reward_part: float
    mean_error: float
    std_error: float
    largest_error: float
    failures: int
    q_failures: int
    runs: int
    price: int
    mean_calls: float
    seconds_per_run: float
    paper_log10_calls: float


def cases() -> Iterator[Case]:
    """Every case of the report, in its order."""
    for environment in ENVIRONMENTS:
        yield Case("paper", environment.name, environment.problem(), 0, PAPER_SHARE)
    for environment in ENVIRONMENTS:
        problem = variant(environment, Entropy(TEMPERATURE), scale=SCALE)
        yield Case(
            "reward-sensitive",
            environment.name,
            problem,
            before_reward(environment),
            SENSITIVE_SHARE,
        )
    for environment in ENVIRONMENTS:
        problem = variant(environment, Entropy(TEMPERATURE), scale=SCALE, game=True)
        yield Case(
            "game", environment.name, problem, before_reward(environment), WIDE_SHARE
        )
    operators: tuple[Operator, ...] = (
        KL(TEMPERATURE),
        Sparsemax(TEMPERATURE),
        SquareRoot(TEMPERATURE),
        Max(),
    )
    for operator in operators:
        for environment in ENVIRONMENTS:
            problem = variant(environment, operator, scale=SCALE)
            yield Case(
                "operator",
                environment.name,
                problem,
                before_reward(environment),
                WIDE_SHARE,
            )


def quick_cases() -> Iterator[Case]:
    """The smallest environment of each group: enough to see every part work.

    Among the operators the square root alone is run.
    """
    for case in cases():
        if case.environment == "5-Chain" and (
            case.group != "operator" or isinstance(case.problem.operator, SquareRoot)
        ):
            yield replace(case, share=0.2)


def before_reward(environment: Environment) -> int:
    """The state one step before the reward.

    It is n-2 on the chain, and the cell left of the far corner on the grid.
    """
    is_chain = "Chain" in environment.name
    num_states = environment.size if is_chain else environment.size**2
    return num_states - 2


def variant(
    environment: Environment,
    operator: Operator,
    *,
    scale: float = 1.0,
    game: bool = False,
) -> Problem:
    """The walk of ``environment`` under ``operator``, with rewards times ``scale``.

    With ``game`` two players take turns on it.
    """
    P, R = dense(environment.problem())
    table_options: dict[str, Any] = {
        "discount": DISCOUNT,
        "operator": operator,
        "reward_range": (0.0, max(scale, 1.0)),
        "name": environment.name,
    }
    if not game:
        return tabular(P, scale * R, **table_options)
    num_states = P.shape[0]
    turn_probabilities = np.zeros((2 * num_states, P.shape[1], 2 * num_states))
    turn_rewards = np.zeros_like(turn_probabilities)
    turn_probabilities[:num_states, :, num_states:] = turn_probabilities[
        num_states:, :, :num_states
    ] = P
    turn_rewards[:num_states, :, num_states:] = turn_rewards[
        num_states:, :, :num_states
    ] = scale * R
    return tabular(
        turn_probabilities,
        turn_rewards,
        players=np.repeat([1, 2], num_states),
        alternating=True,
        **table_options,
    )


def dense(problem: Problem) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """P and R of shape (S, A, S) of a tabular problem."""
    tables = problem.tables
    assert tables is not None  # the environments are tabular
    num_states, num_actions = tables.num_states, tables.num_actions
    pair_index = np.repeat(np.arange(num_states * num_actions), np.diff(tables.start))
    P, R = (
        np.zeros((num_states * num_actions, num_states)),
        np.zeros((num_states * num_actions, num_states)),
    )
    P[pair_index, tables.next_state], R[pair_index, tables.next_state] = (
        tables.prob,
        tables.reward,
    )
    return P.reshape(num_states, num_actions, num_states), R.reshape(
        num_states, num_actions, num_states
    )


def full_table(
    chosen_cases: Iterator[Case] | None = None,
    runs: int = RUNS,
    tick: Callable[[], object] = lambda: None,
) -> list[FullRow]:
    """One row per case."""
    full_rows = []
    for case in cases() if chosen_cases is None else chosen_cases:
        full_rows.append(run_case(case, runs))
        tick()
    return full_rows


def run_case(case: Case, runs: int = RUNS) -> FullRow:
    """The errors of ``runs`` runs against the exact solution."""
    problem = case.problem
    epsilon = case.share * problem.facts.value_span()
    schedule = compile_schedule(problem.facts, epsilon=epsilon, delta=DELTA)
    solution = solve(problem)
    value = float(solution.values[case.state])
    q_values = np.asarray(solution.q_values)[case.state]
    outcome = repeat(problem, schedule, case.state, runs)
    value_errors = outcome.values - value
    q_errors = np.max(np.abs(outcome.q_values - q_values), axis=1)
    log_calls = log_delta_prime(PaperSetting.of(problem.facts), epsilon, DELTA)[1]
    return FullRow(
        group=case.group,
        environment=case.environment,
        operator=problem.operator.name,
        num_actions=problem.num_actions,
        epsilon=epsilon,
        delta=DELTA,
        value=value,
        reward_part=value - _without_rewards(problem, case.state),
        mean_error=float(value_errors.mean()),
        std_error=float(value_errors.std()),
        largest_error=float(np.abs(value_errors).max()),
        failures=int(np.sum(np.abs(value_errors) > epsilon)),
        q_failures=int(np.sum(q_errors > epsilon)),
        runs=runs,
        price=schedule.num_calls,
        mean_calls=float(outcome.calls.mean()),
        seconds_per_run=outcome.seconds / runs,
        paper_log10_calls=log_calls / math.log(10.0),
    )


def _without_rewards(problem: Problem, state: int) -> float:
    P, R = dense(problem)
    players = None
    if problem.sole_player is None:
        players = np.array([problem.mover(s) for s in range(len(P))])
    unrewarded_problem = tabular(
        P,
        0.0 * R,
        discount=problem.discount,
        operator=problem.operator,
        players=players,
    )
    return float(solve(unrewarded_problem).values[state])


@dataclass(frozen=True)
class Repeats:
    """The answers of many runs of one schedule."""

    values: np.ndarray[Any, Any]  # (runs,)
    q_values: np.ndarray[Any, Any]  # (runs, A)
    calls: np.ndarray[Any, Any]  # (runs,)
    seconds: float  # of all runs together, compiling not counted


def repeat(problem: Problem, schedule: Schedule, state: Any, runs: int) -> Repeats:
    """The answers of ``runs`` runs of one schedule with seeds 0, 1, ...

    They are those of ``plan``, bit for bit; schedule and engine are built once.
    """
    rule = stopping_rule(schedule, mover=problem.mover(state))
    job = Job(problem, schedule, state, rule.center, rule.score)
    engine = make_engine(COMPILED.name, job)
    segments = cut_shards(schedule)
    legal_actions = problem.legal_actions(state)
    lower_bound, upper_bound = problem.facts.q_bounds(problem.mover(state))
    values, call_counts = np.empty(runs), np.zeros(runs, dtype=np.int64)
    q_values = np.full((runs, problem.num_actions), math.nan)
    start_time = time.perf_counter()
    for seed in range(runs):
        for action in legal_actions:
            root_sums, calls_spent = root_samples(engine, rule, segments, action, seed)
            call_counts[seed] += calls_spent
            q_values[seed, action] = min(
                max(rule.ball(root_sums)[0], lower_bound), upper_bound
            )
        values[seed] = problem.operator.value(
            [float(q_values[seed, a]) for a in legal_actions],
            player=problem.mover(state),
        )
    return Repeats(values, q_values, call_counts, time.perf_counter() - start_time)


def root_samples(
    engine: Engine,
    rule: StoppingRule,
    segments: tuple[tuple[Shard, ...], ...],
    action: int,
    seed: int,
) -> tuple[RootSums, int]:
    """The root sums of one action until a checkpoint stops it, and their calls."""
    root_sums, num_calls = RootSums(), 0
    for checkpoint, segment in enumerate(segments):
        for shard in segment:
            shard_sums = engine.run_shard(replace(shard, action=action), seed)
            root_sums.add(shard_sums)
            num_calls += shard_sums.calls
        if checkpoint < len(segments) - 1 and rule.enough(checkpoint, root_sums):
            break
    return root_sums, num_calls


Tick = Callable[[], object]


@dataclass(frozen=True)
class Study:
    """A problem of varying temperature, a state, and epsilon over 1/(1-gamma)."""

    name: str
    problem: Problem
    state: int
    share: float


@dataclass(frozen=True)
class RelaxationRow:
    """One temperature; the columns of relaxation.csv."""

    problem: str
    temperature: float
    value: float  # V_lambda
    plain_value: float  # V_0
    distance: float  # V_lambda - V_0
    bound: float  # lambda log K/(1-gamma)
    policy_loss: float  # V_0 - V_0 of the softmax policy
    epsilon: float
    price: float
    price_unregularized: float


@dataclass(frozen=True)
class SchemeRow:
    """One promise about V_0; the columns of scheme.csv."""

    problem: str
    discount: float
    num_actions: int
    epsilon: float
    chosen_temperature: float
    chosen_price: int
    plain_price: int  # without regularization
    softest_temperature: float  # the cheapest split with lambda > 0
    softest_price: int
    runs: int
    failures: int  # of the chosen plan: |answer - V_0| > epsilon
    softest_failures: int  # of the cheapest plan with lambda > 0


def studies() -> tuple[Study, ...]:
    """The paper's small grid beside its reward, and a random MDP with a longer view."""
    grid = ENVIRONMENTS[2]
    random_problem = garnet(
        states=20, actions=3, seed=0, discount=0.4, operator=Max(), name="garnet"
    )
    return (
        Study("5x5-GridWorld", variant(grid, Max()), before_reward(grid), 0.05),
        Study("garnet", random_problem, 0, 0.1),
    )


def moving_temperature(
    points: int = 25, tick: Tick = lambda: None, among: tuple[Study, ...] | None = None
) -> list[RelaxationRow]:
    """V_lambda, the policy and the prices for lambda from 10 to 0.01, by study."""
    relaxation_rows = []
    for study in studies() if among is None else among:
        plain_solution = solve(study.problem)
        for temperature in (float(x) for x in np.logspace(1, -2, points)):
            relaxation_rows.append(
                _row(study, float(plain_solution.values[study.state]), temperature)
            )
            tick()
    return relaxation_rows


def _row(study: Study, plain_value: float, temperature: float) -> RelaxationRow:
    soft_problem = replace(study.problem, operator=Entropy(temperature))
    epsilon = study.share / (1.0 - soft_problem.discount)
    solution = solve(soft_problem)
    value = float(solution.values[study.state])
    policy = np.asarray(solution.policy)
    policy_return = float(policy_value(study.problem, policy)[study.state])

    def price() -> int:
        return compile_schedule(
            soft_problem.facts, epsilon=epsilon, delta=DELTA, target="value"
        ).num_calls

    def price_unregularized() -> int:
        return relax_through(
            soft_problem.facts, soft_problem.operator, epsilon=epsilon, delta=DELTA
        ).num_calls

    return RelaxationRow(
        problem=study.name,
        temperature=temperature,
        value=value,
        plain_value=plain_value,
        distance=value - plain_value,
        bound=value_band(soft_problem.facts)[1],
        policy_loss=plain_value - policy_return,
        epsilon=epsilon,
        price=_price(price),
        price_unregularized=_price(price_unregularized),
    )


def _price(count: Callable[[], int]) -> float:
    try:
        return float(count())
    except SmoothcruiserError:  # no such plan: a gap in the curve
        return math.nan


def scheme(
    runs: int = 200,
    factors: tuple[float, ...] = (2.0, 1.0),
    tick: Tick = lambda: None,
    among: tuple[Study, ...] | None = None,
) -> list[SchemeRow]:
    """The adaptive scheme on each study, run against the exact V_0.

    Its epsilon is the study's, times each factor.
    """
    scheme_rows = []
    for study in studies() if among is None else among:
        exact_value = float(solve(study.problem).values[study.state])
        for factor in factors:
            epsilon = factor * study.share / (1.0 - study.problem.discount)
            scheme_rows.append(_scheme_row(study, epsilon, exact_value, runs))
            tick()
    return scheme_rows


def _scheme_row(study: Study, epsilon: float, exact: float, runs: int) -> SchemeRow:
    facts = study.problem.facts
    chosen_plan = relax(facts, epsilon=epsilon, delta=DELTA, target="q_values")
    priced_trials = [t for t in chosen_plan.tried if t.num_calls is not None]
    plain_trial = next(t for t in priced_trials if t.temperature == 0.0)
    relaxed_trials = [t for t in priced_trials if t.temperature > 0.0]
    softest_trial = min(relaxed_trials, key=lambda t: t.num_calls or 0)
    operator = Entropy(softest_trial.temperature)
    softest_plan = relax_through(
        facts, operator, epsilon=epsilon, delta=DELTA, target="q_values"
    )
    return SchemeRow(
        problem=study.name,
        discount=facts.discount,
        num_actions=facts.num_actions,
        epsilon=epsilon,
        chosen_temperature=chosen_plan.temperature,
        chosen_price=chosen_plan.num_calls,
        plain_price=plain_trial.num_calls or 0,
        softest_temperature=softest_trial.temperature,
        softest_price=softest_plan.num_calls,
        runs=runs,
        failures=failures(study, chosen_plan, exact, runs),
        softest_failures=failures(study, softest_plan, exact, runs),
    )


def failures(study: Study, plan: Relaxation, exact: float, runs: int) -> int:
    """The number of ``runs`` runs of a plan for V_0 that miss it by over epsilon."""
    problem = replace(study.problem, operator=plan.operator)
    outcomes = repeat(problem, plan.schedule, study.state, runs)
    answers = [
        plan.unregularized(float(value), problem.mover(study.state))
        for value in outcomes.values
    ]
    return sum(abs(answer - exact) > plan.epsilon for answer in answers)


@dataclass(frozen=True)
class PrintedRow:
    """The same choice with the paper's constants, gamma = 0.2 and K = 2.

    Calls are log10, without and with the best relaxation.
    """

    epsilon: float
    plain_log10: float
    best_share: float
    best_log10: float


def printed_scheme(
    epsilons: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6),
) -> list[PrintedRow]:
    """Whether relaxing pays with the printed constants.

    The best of 49 splits stands beside sparse sampling, the limit lambda = 0.
    """
    gamma, K = 0.2, 2
    printed_rows = []
    for epsilon in epsilons:
        prices = {0.0: _printed_price(PaperSetting(gamma, K, math.inf, 0.0), epsilon)}
        for share in (i / 50.0 for i in range(1, 50)):
            temperature = 2.0 * share * epsilon * (1.0 - gamma) / math.log(K)
            prices[share] = _printed_price(
                PaperSetting.entropy(gamma, temperature, K), (1.0 - share) * epsilon
            )
        best_share = min(prices, key=lambda share: prices[share])
        printed_rows.append(
            PrintedRow(epsilon, prices[0.0], best_share, prices[best_share])
        )
    return printed_rows


def _printed_price(setting: PaperSetting, epsilon: float) -> float:
    return log_delta_prime(setting, epsilon, DELTA)[1] / math.log(10.0)
