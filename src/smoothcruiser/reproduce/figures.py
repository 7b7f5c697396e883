"""The data of the paper's two figures, with exact counts and sharp prices beside them.

  Figure 1   n_sampleV(e) against 1/e: gamma = 0.2, delta' = 0.1, K = 2,
             lambda = 0.1, 100 accuracies from 1e-9 to 1e-1
  Figure 2   the same against 100 temperatures lambda from 1e-4 to 1e4, at
             e = 1% of V_max = (1 + lambda log K)/(1-gamma)

legend   column              meaning
  simulated, lemma_1, sparse log10 of the curves of the published code
                             (``figures``)
  exact, exact_sparse        log10 n_sampleV, counted
                             (``theory.paper_constants.sample_v_calls``), the same with
                             kappa = 0
  run                        log10 K N(e) n(e/sqrt(gamma)) with the delta' that
                             keeps delta = 0.1 for the whole run
  sharp                      log10 of the mean calls of the sharp schedule for a whole
                             run: |V-hat - V| <= e with probability 0.9
  plain                      the same without randomized levels (docs/randomized.md)

A curve of the paper is the cost of ONE sample if every Q-hat may fail with
probability 0.1. There are 10^9 of them and more, so it promises nothing yet;
``run`` is the price of a promise. Numbers are log10 because the curves leave
the range of floats. Blank is "no schedule within the compiler's reach". This
file leaves out drawing (``plots``) and prose (``report``).

The paper's Table 1: sampleV_check on its four environments.

sampleV_check is Alg. 2 with estimateQ(s, z) replaced by Q(s, .) + z U(-1, 1),
one uniform per action, unclipped. In one environment sampleV_check(s, e) is

  0                                              if e >= V_max
  F(Q(s) + e U)                                  if kappa <= e < V_max
  F(Q-hat) - <Q-hat, g> + R
    + gamma sampleV_check(Z, e/sqrt(gamma))      if e < kappa
  with Q-hat = Q(s) + sqrt(kappa e) U, g = grad F(Q-hat), A ~ g,
  (R, Z) ~ oracle(s, A)

with the kappa and V_max of that environment's own K. The accuracy is
kappa(K=4)/4 = 0.3455 for all, gamma = 0.2, lambda = 10, and N_sim =
floor(C^2/(2 e^2) log 5) = 32,723 with C for K = 4. All environments, and all
runs of one, sample from independent streams. (The published code copies one
seeded environment into every run, so that all runs replay the same
transitions.)

legend   column                    meaning
  mean, std                        of the error of one output, V-hat - V(s0)
  paper_mean, paper_std            as printed

The code is vectorized over the runs: the recursion is a chain, so every run is
at the same accuracy at the same time. This file leaves out the full algorithm
(``full``).

The curves of the paper's appendix F.1 as its published check code computes them.

Everything is in log10, so that nothing overflows.

  H(e)       = 2 log_gamma(e (1-gamma)/(1+M)) + 1
               the code's; printed is the ceiling of it without the + 1
  sparse(e)  = gamma^(H(H-1)/2) (2 alpha/e^2)^H
               Prop. 1, "extrapolated to all values" of e
  n_sim(e)   = sparse(e)                                         if e >= kappa
             = 1 + n_sim(e/sqrt(gamma))
                 + beta/e n_sim(sqrt(kappa e/gamma))             otherwise
               K N(sqrt(kappa e)) without its ceiling
  lemma_1(e) = kappa^2 sparse(kappa) [log_{1/gamma}(kappa/(gamma e))]^eta_2 / e^2
               eta_2 = log2(gamma/(1-gamma) 2 beta/kappa)

legend   symbol              name
  e, delta', lambda          ``e``, ``delta_prime``, ``temperature``
  alpha, beta, kappa, eta_2  ``theory.paper_constants``: the same numbers, and the tests
                             compare them with the printed formulas

None of these is a count: above kappa n_sim is a bound, below it a recurrence
over bounds. The exact counts are ``theory.paper_constants.sample_v_calls``. This file
leaves out the choice of e and lambda to draw (``reproduce.figures``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.exact import solve
from smoothcruiser.operators import Entropy
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.zoo import chain, gridworld
from smoothcruiser.schedule.compiler.optimizer import ALL_KINDS, compile_schedule
from smoothcruiser.schedule.kinds import estimator_of
from smoothcruiser.theory import paper_constants as paper
from smoothcruiser.theory.paper_constants import (
    PaperSetting,
    alpha,
    beta,
    consistency_simulations,
    eta_2,
    kappa,
    value_bound,
    zeta,
)

GAMMA, K, DELTA_PRIME, DELTA = 0.2, 2, 0.1, 0.1
FIGURE_1_TEMPERATURE = 0.1
RELATIVE_ERROR = 0.01
LOG10 = math.log(10.0)
PLAIN = frozenset(kind for kind in ALL_KINDS if not estimator_of(kind).randomized)
# exponents of 1/e that were published for discounted regularized planning
PUBLISHED = (
    ("SmoothCruiser, 2019", 4.0),
    ("second-order SmoothCruiser (Dam, 2026), another regularizer", 3.0),
)

Tick = Callable[[], object]


@dataclass(frozen=True)
class Figure1Row:
    """One accuracy of Figure 1; all counts in log10, NaN where there is none."""

    epsilon: float
    simulated: float
    lemma_1: float
    sparse: float
    exact: float
    exact_sparse: float
    run: float
    sharp: float
    plain: float


@dataclass(frozen=True)
class Figure2Row:
    """One temperature of Figure 2; all counts in log10, NaN where there is none."""

    temperature: float
    epsilon: float
    simulated: float
    lemma_1: float
    sparse: float
    exact: float
    exact_sparse: float
    run: float
    sharp: float
    # sharp at 1% of the value's own span 1/(1-gamma), which lambda does not change
    sharp_span: float


def figure_1(
    points: int = 100, sharp_every: int = 3, tick: Tick = lambda: None
) -> list[Figure1Row]:
    """The rows of Figure 1.

    The sharp schedule is compiled at every ``sharp_every``-th accuracy from the
    largest down.
    """
    setting = PaperSetting.entropy(GAMMA, FIGURE_1_TEMPERATURE, K)
    facts = Facts(K, K, GAMMA, Entropy(FIGURE_1_TEMPERATURE), (0.0, 1.0))
    figure_rows = []
    for i, e in enumerate(float(x) for x in np.logspace(-1, -9, points)):
        sharp_log10 = plain_log10 = math.nan
        if i % sharp_every == 0:
            sharp_log10, plain_log10 = _sharp(facts, e), _sharp(facts, e, PLAIN)
        figure_rows.append(
            Figure1Row(e, *_paper_curves(setting, e), sharp_log10, plain_log10)
        )
        tick()
    return figure_rows[::-1]


def figure_2(
    points: int = 100, sharp_every: int = 3, tick: Tick = lambda: None
) -> list[Figure2Row]:
    """The rows of Figure 2."""
    figure_rows = []
    for i, temperature in enumerate(float(x) for x in np.logspace(-4, 4, points)):
        setting = PaperSetting.entropy(GAMMA, temperature, K)
        facts = Facts(K, K, GAMMA, Entropy(temperature), (0.0, 1.0))
        e = RELATIVE_ERROR * paper.value_bound(setting)
        sharp_log10 = span_log10 = math.nan
        if i % sharp_every == 0:
            sharp_log10 = _sharp(facts, e)
            span_log10 = _sharp(facts, RELATIVE_ERROR * facts.value_span())
        figure_rows.append(
            Figure2Row(
                temperature, e, *_paper_curves(setting, e), sharp_log10, span_log10
            )
        )
        tick()
    return figure_rows


def _paper_curves(
    setting: PaperSetting, e: float
) -> tuple[float, float, float, float, float, float]:
    """(simulated, lemma_1, sparse, exact, exact_sparse, run) at accuracy e."""
    return (
        simulated_log10(setting, e, DELTA_PRIME),
        lemma_1_log10(setting, e, DELTA_PRIME),
        sparse_sampling_log10(setting, e, DELTA_PRIME),
        paper.sample_v_calls(setting, e, DELTA_PRIME).log10,
        paper.sample_v_calls(paper.sparse_sampling(setting), e, DELTA_PRIME).log10,
        paper.log_delta_prime(setting, e, DELTA)[1] / LOG10,
    )


def _sharp(
    facts: Facts, epsilon: float, kinds: Iterable[IntEnum] = ALL_KINDS
) -> float:
    try:
        schedule = compile_schedule(
            facts, epsilon=epsilon, delta=DELTA, kinds=kinds, adaptive=False
        )
    except SmoothcruiserError:
        return math.nan  # beyond the compiler's reach: a gap, never a number
    return math.log10(schedule.mean_calls)


# --- slopes -------------------------------------------------------------------


@dataclass(frozen=True)
class Slope:
    """Exponent p of calls ~ (1/e)^p over [low, high], by least squares in log-log."""

    curve: str
    low: float
    high: float
    slope: float


def slopes(
    rows: list[Figure1Row],
    ranges: tuple[tuple[float, float], ...] = (
        (1e-9, 1e-7),
        (1e-7, 1e-5),
        (1e-4, 1e-2),
    ),
) -> list[Slope]:
    """Fitted exponents of every curve of Figure 1 over each range of accuracies.

    Curves with fewer than 3 points in a range are left out there.
    """
    return list(_slopes(rows, ranges))


def _slopes(
    rows: list[Figure1Row], ranges: tuple[tuple[float, float], ...]
) -> Iterator[Slope]:
    for curve_field in fields(Figure1Row)[1:]:
        for lowest_epsilon, highest_epsilon in ranges:
            points = [
                (-math.log10(r.epsilon), getattr(r, curve_field.name))
                for r in rows
                if lowest_epsilon * 0.999 <= r.epsilon <= highest_epsilon * 1.001
            ]
            points = [(x, y) for x, y in points if not math.isnan(y)]
            if len(points) >= 3:
                x, y = np.array(points).T
                yield Slope(
                    curve_field.name,
                    lowest_epsilon,
                    highest_epsilon,
                    float(np.polyfit(x, y, 1)[0]),
                )


Floats = NDArray[np.float64]

DISCOUNT, TEMPERATURE = 0.2, 10.0
# K = 4, the most actions of the four, sets epsilon and the runs of all
REFERENCE = PaperSetting.entropy(DISCOUNT, TEMPERATURE, 4)
EPSILON = kappa(REFERENCE) / 4.0
RUNS = consistency_simulations(REFERENCE, EPSILON)


@dataclass(frozen=True)
class Environment:
    """One row's problem, with the numbers of the paper."""

    name: str
    build: Callable[..., Problem]
    size: int
    paper_mean: float
    paper_std: float

    def problem(self, **options: Any) -> Problem:
        """The environment, with the paper's discount and operator by default."""
        paper_options = {"discount": DISCOUNT, "operator": Entropy(TEMPERATURE)}
        return self.build(
            n=self.size, **{**paper_options, "name": self.name, **options}
        )


ENVIRONMENTS = (
    Environment("5-Chain", chain, 5, -1.21e-2, 1.65e-2),
    Environment("10-Chain", chain, 10, -1.20e-2, 1.63e-2),
    Environment("5x5-GridWorld", gridworld, 5, -0.71e-2, 2.04e-2),
    Environment("10x10-GridWorld", gridworld, 10, -0.71e-2, 2.03e-2),
)


@dataclass(frozen=True)
class CheckRow:
    """One row of table1.csv."""

    environment: str
    mean: float
    std: float
    runs: int
    paper_mean: float
    paper_std: float


def table_1(
    runs: int = RUNS, seed: int = 0, tick: Callable[[], object] = lambda: None
) -> list[CheckRow]:
    """The rows of Table 1."""
    check_rows = []
    for index, environment in enumerate(ENVIRONMENTS):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
        errors = check_errors(environment.problem(), EPSILON, runs, rng)
        check_rows.append(
            CheckRow(
                environment.name,
                float(errors.mean()),
                float(errors.std()),
                runs,
                environment.paper_mean,
                environment.paper_std,
            )
        )
        tick()
    return check_rows


def check_errors(
    problem: Problem, epsilon: float, runs: int, rng: np.random.Generator
) -> Floats:
    """(runs,) errors V-hat - V(s0) of sampleV_check(s0, epsilon)."""
    solution = solve(problem)
    state = problem.start()
    outputs = sample_v_check(
        problem, np.asarray(solution.q_values), epsilon, np.full(runs, state), rng
    )
    errors: Floats = outputs - float(solution.values[state])
    return errors


def sample_v_check(
    problem: Problem,
    q_values: Floats,
    e: float,
    states: NDArray[np.int64],
    rng: np.random.Generator,
) -> Floats:
    """(runs,) outputs of sampleV_check(states, e), one sample each."""
    setting = PaperSetting.of(problem.facts)
    total = np.zeros(len(states))
    weight = 1.0
    while e < kappa(setting):
        q = q_values[states] + zeta(setting, e) * rng.uniform(
            -1.0, 1.0, (len(states), setting.K)
        )
        value, policy = _soft(q, problem.operator.strength)
        cumulative_policy = np.cumsum(policy, axis=1)
        # The last column is 1 up to rounding; comparing with the others alone
        # keeps the action inside the set.
        action = np.sum(
            rng.random(len(states))[:, None] >= cumulative_policy[:, :-1], axis=1
        )
        reward, states = step(problem, states, action, rng)
        total += weight * (value - np.sum(q * policy, axis=1) + reward)
        weight *= setting.gamma
        e /= math.sqrt(setting.gamma)
    if e < value_bound(setting):
        q = q_values[states] + e * rng.uniform(-1.0, 1.0, (len(states), setting.K))
        total += weight * _soft(q, problem.operator.strength)[0]
    return total


def _soft(q: Floats, temperature: float) -> tuple[Floats, Floats]:
    """(runs,) lambda log sum exp(q/lambda) and (runs, K) softmax(q/lambda)."""
    largest_q = q.max(axis=1, keepdims=True)
    weights = np.exp((q - largest_q) / temperature)
    weight_sum = weights.sum(axis=1, keepdims=True)
    return (largest_q + temperature * np.log(weight_sum))[:, 0], weights / weight_sum


def step(
    problem: Problem,
    states: NDArray[np.int64],
    actions: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[Floats, NDArray[np.int64]]:
    """(runs,) rewards and next states, one sample of the tables per run.

    It inverts the distribution function of the run's row.
    """
    tables = problem.tables
    assert tables is not None  # the four environments are tabular
    pair_index = states * tables.num_actions + actions
    # the rows' distribution functions, one above the other
    cumulative_probability = np.concatenate([[0.0], np.cumsum(tables.prob)])
    first_entry = tables.start[pair_index]
    u = cumulative_probability[first_entry] + rng.random(len(states)) * (
        cumulative_probability[tables.start[pair_index + 1]]
        - cumulative_probability[first_entry]
    )
    entry = np.clip(
        np.searchsorted(cumulative_probability, u, side="right") - 1,
        first_entry,
        tables.start[pair_index + 1] - 1,
    )
    return tables.reward[entry], tables.next_state[entry]


def height(setting: PaperSetting, e: float) -> float:
    """H(e) of the published code: not rounded up, and one more."""
    return 2.0 * math.log(e / value_bound(setting)) / math.log(setting.gamma) + 1.0


def sparse_sampling_log10(
    setting: PaperSetting, e: float, delta_prime: float
) -> float:
    """Log10 of Prop. 1's formula with the published H, at any e."""
    h = height(setting, e)
    base = 2.0 * alpha(setting, delta_prime) / (e * e)
    return 0.5 * h * (h - 1.0) * math.log10(setting.gamma) + h * math.log10(base)


def simulated_log10(setting: PaperSetting, e: float, delta_prime: float) -> float:
    """Log10 of n_sim(e)."""
    return _memoized_log10(setting, e, delta_prime, {})


def _memoized_log10(
    setting: PaperSetting, e: float, delta_prime: float, memo: dict[float, float]
) -> float:
    """Log10 of n_sim(e), computed once for each accuracy.

    The code's plain recursion visits some accuracies through several paths.
    """
    threshold, sqrt_gamma = kappa(setting), math.sqrt(setting.gamma)
    if e >= threshold:
        return sparse_sampling_log10(setting, e, delta_prime)
    if e not in memo:
        onward_log10 = _memoized_log10(setting, e / sqrt_gamma, delta_prime, memo)
        inner_accuracy = math.sqrt(threshold * e / setting.gamma)
        query_log10 = _memoized_log10(setting, inner_accuracy, delta_prime, memo)
        samples_log10 = math.log10(beta(setting, delta_prime) / e)
        memo[e] = log10_sum((0.0, onward_log10, samples_log10 + query_log10))
    return memo[e]


def lemma_1_log10(setting: PaperSetting, e: float, delta_prime: float) -> float:
    """Log10 of the published curve "theoretical bound".

    Below kappa it is Lemma 1 with Prop. 1's formula in place of n(kappa), above
    it the formula.
    """
    threshold = kappa(setting)
    if e >= threshold:
        return sparse_sampling_log10(setting, e, delta_prime)
    halvings = math.log(threshold / (e * setting.gamma)) / -math.log(setting.gamma)
    base_log10 = 2.0 * math.log10(threshold / e) + sparse_sampling_log10(
        setting, threshold, delta_prime
    )
    return base_log10 + eta_2(setting, delta_prime) * math.log10(halvings)


def log10_sum(logs: tuple[float, ...]) -> float:
    """Log10 of the sum of 10^x over ``logs``."""
    largest_log = max(logs)
    return largest_log + math.log10(math.fsum(10.0 ** (x - largest_log) for x in logs))
