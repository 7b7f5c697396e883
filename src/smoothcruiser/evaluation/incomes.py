"""What a policy can earn: in one step, in some steps, in a whole episode."""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Interval
from smoothcruiser.evaluation.path_rules import STEPS, TOTAL
from smoothcruiser.operators.outward import added, widened
from smoothcruiser.problem.answers import beyond_total
from smoothcruiser.problem.problem import Problem

# relative error of a sum, per term; far above that of double precision
ROUNDING = 1e-14


def _regularized(problem: Problem) -> Interval:
    """What the regularizer may add to the reward of one step."""
    operator = problem.operator
    if not operator.has_omega:
        raise InvalidInput(
            f"The operator {operator.name!r} gives no regularizer "
            "Omega; evaluate needs a built-in operator."
        )
    omega = operator.omega_range(problem.num_actions)
    # |Omega| is a multiple of log K, sqrt K or 1/K: some units in the last place
    room = ROUNDING * max(abs(omega[0]), abs(omega[1]))
    low, high = widened((0.0 - omega[1], 0.0 - omega[0]), room)
    if problem.is_game:
        low, high = min(low, -high), max(high, -low)
    return low, high


def step_income(problem: Problem) -> Interval:
    """What one step may pay, the regularizer included, rounded outwards."""
    return added(problem.reward_range, _regularized(problem))


def _scaled(problem: Problem, step: Interval, steps: int | None) -> Interval:
    """What so many (discounted) steps may add up to, rounded outwards.

    An episode that may end may also pay nothing more.
    """
    low, high = problem.facts.earned(step, steps)
    if problem.facts.terminals:
        return min(low, 0.0), max(high, 0.0)
    return low, high


def earned(problem: Problem, steps: int | None, left: float = 0.0) -> Interval:
    """What so many steps may be worth, the regularizer included, rounded outwards.

    None is the whole episode. ``left`` is the weight of what follows the steps,
    which takes a known total apart: rewards of the steps are the total minus
    ``left`` times the total of the rest (theory, Lemma T).
    """
    facts, total = problem.facts, problem.facts.total_range
    low, high = _scaled(problem, step_income(problem), steps)
    if total is None:
        return low, high
    more = _scaled(problem, _regularized(problem), steps)
    # an episode that ended has no rest
    rests = (0.0, *total) if facts.terminals else total
    most, least = left * max(rests), left * min(rests)
    off = abs(more[0]) + abs(more[1]) + abs(most) + abs(least)
    return (
        max(low, total[0] + more[0] - most - ROUNDING * off),
        min(high, total[1] + more[1] - least + ROUNDING * off),
    )


def value_range(problem: Problem, steps: int | None) -> Interval:
    """Bounds on the value of every policy, in the states that are no ends.

    In an MDP no policy is worth more than V, so that V's upper bounds hold, those
    that the user declared among them; V's lower bounds say nothing of a policy.
    """
    low, high = earned(problem, steps)
    if not problem.is_game:
        high = min(high, problem.facts.value_bounds(1, steps)[1])
    return low, max(low, high)


def check_totals(problem: Problem, samples: Any) -> None:
    """Refuse a path that a declared total excludes, rounding apart."""
    if problem.facts.total_range is None:
        return
    for steps in np.unique(samples[:, STEPS]).tolist():
        totals = samples[samples[:, STEPS] == steps, TOTAL]
        # with a horizon a path ends where nothing is left
        left = 0.0 if problem.horizon is not None else problem.discount**steps
        low, high = earned(problem, int(steps), left)
        slack = ROUNDING * steps * max(abs(low), abs(high), *np.abs(totals).tolist())
        for total in (float(totals.min()), float(totals.max())):
            if not low - slack <= total <= high + slack:
                raise beyond_total(total, low, high)
