"""Regularization as a relaxation: effects of lambda on value, policy and price.

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
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.exact import solve
from smoothcruiser.exact.policy_value import policy_value
from smoothcruiser.operators import Entropy, Max
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.zoo import garnet
from smoothcruiser.reproduce.full import before_reward, repeat, variant
from smoothcruiser.reproduce.table1 import ENVIRONMENTS
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.relaxation import (
    Relaxation,
    relax,
    relax_through,
    value_band,
)
from smoothcruiser.theory.paper import PaperSetting, log_delta_prime

DELTA = 0.1
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
