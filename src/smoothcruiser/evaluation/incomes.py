"""The range of a policy's income: in one step, some steps, a whole episode."""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Interval
from smoothcruiser.evaluation.path_rules import STEPS, TOTAL
from smoothcruiser.operators.outward import add_intervals, widen_interval
from smoothcruiser.problem.answers import beyond_total
from smoothcruiser.problem.problem import Problem

# relative error of a sum, per term; far above that of double precision
ROUNDING = 1e-14


def _regularizer_income(problem: Problem) -> Interval:
    """The range that the regularizer may add to the reward of one step."""
    operator = problem.operator
    if not operator.has_omega:
        raise InvalidInput(
            f"The operator {operator.name!r} gives no regularizer "
            "Omega; evaluate needs a built-in operator."
        )
    omega = operator.omega_range(problem.num_actions)
    # |Omega| is a multiple of log K, sqrt K or 1/K: some units in the last place
    rounding_slack = ROUNDING * max(abs(omega[0]), abs(omega[1]))
    min_income, max_income = widen_interval(
        (0.0 - omega[1], 0.0 - omega[0]), rounding_slack
    )
    if problem.is_game:
        min_income, max_income = (
            min(min_income, -max_income),
            max(max_income, -min_income),
        )
    return min_income, max_income


def step_income(problem: Problem) -> Interval:
    """The range of one step's income, the regularizer included, rounded outwards."""
    return add_intervals(problem.reward_range, _regularizer_income(problem))


def _income_of_steps(problem: Problem, step: Interval, steps: int | None) -> Interval:
    """The range of the sum of so many (discounted) steps, rounded outwards.

    An episode that may end may also pay nothing more.
    """
    min_income, max_income = problem.facts.sum_bounds(step, steps)
    if problem.facts.terminals:
        return min(min_income, 0.0), max(max_income, 0.0)
    return min_income, max_income


def earned_range(problem: Problem, steps: int | None, left: float = 0.0) -> Interval:
    """The range of the worth of so many steps, with the regularizer, rounded outwards.

    None is the whole episode. ``left`` is the weight of the rest after the steps,
    which splits a known total: rewards of the steps are the total minus ``left``
    times the total of the rest (theory, Lemma T).
    """
    facts, total_range = problem.facts, problem.facts.total_range
    min_income, max_income = _income_of_steps(problem, step_income(problem), steps)
    if total_range is None:
        return min_income, max_income
    regularizer_range = _income_of_steps(problem, _regularizer_income(problem), steps)
    # an episode that ended has no rest
    rest_totals = (0.0, *total_range) if facts.terminals else total_range
    max_rest, min_rest = left * max(rest_totals), left * min(rest_totals)
    size_sum = (
        abs(regularizer_range[0])
        + abs(regularizer_range[1])
        + abs(max_rest)
        + abs(min_rest)
    )
    return (
        max(
            min_income,
            total_range[0] + regularizer_range[0] - max_rest - ROUNDING * size_sum,
        ),
        min(
            max_income,
            total_range[1] + regularizer_range[1] - min_rest + ROUNDING * size_sum,
        ),
    )


def value_range(problem: Problem, steps: int | None) -> Interval:
    """Bounds on the value of every policy, in the states that are no ends.

    In an MDP no policy is worth more than V, so that V's upper bounds hold, those
    that the user declared among them; V's lower bounds say nothing of a policy.
    """
    min_value, max_value = earned_range(problem, steps)
    if not problem.is_game:
        max_value = min(max_value, problem.facts.value_bounds(1, steps)[1])
    return min_value, max(min_value, max_value)


def check_totals(problem: Problem, samples: Any) -> None:
    """Refuse a path that a declared total excludes, rounding apart."""
    if problem.facts.total_range is None:
        return
    for steps in np.unique(samples[:, STEPS]).tolist():
        path_totals = samples[samples[:, STEPS] == steps, TOTAL]
        # with a horizon a path ends where nothing is left
        rest_weight = 0.0 if problem.horizon is not None else problem.discount**steps
        min_total, max_total = earned_range(problem, int(steps), rest_weight)
        rounding_slack = (
            ROUNDING
            * steps
            * max(abs(min_total), abs(max_total), *np.abs(path_totals).tolist())
        )
        for path_total in (float(path_totals.min()), float(path_totals.max())):
            if (
                not min_total - rounding_slack
                <= path_total
                <= max_total + rounding_slack
            ):
                raise beyond_total(path_total, min_total, max_total)
