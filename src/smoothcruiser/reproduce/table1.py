"""The paper's Table 1: sampleV_check on its four environments.

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
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.exact import solve
from smoothcruiser.operators import Entropy
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.zoo import chain, gridworld
from smoothcruiser.theory.paper import (
    PaperSetting,
    consistency_simulations,
    kappa,
    value_bound,
    zeta,
)

Floats = NDArray[np.float64]

GAMMA, TEMPERATURE = 0.2, 10.0
# K = 4, the most actions of the four, sets epsilon and the runs of all
REFERENCE = PaperSetting.entropy(GAMMA, TEMPERATURE, 4)
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
        paper_options = {"discount": GAMMA, "operator": Entropy(TEMPERATURE)}
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
