"""Killed paths: unbiased samples of the value of a policy, without a truncation.

A path is played from the start under the policy. Its first h steps (the head) are
all played and weigh gamma^t. From then on each further step is played with
probability gamma, by a coin of its own, and keeps the weight gamma^h. With a
constant control variate w, worth 0 at ends, and D_t = gamma^min(t, h),

  X = w + sum over the steps played of D_t (r_t - sign Omega + gamma w(z_t) - w)

has mean V_pi exactly, whatever h and w are (docs/tree-search.md). h = 0 is the
killed path, h beyond every episode the discounted return. X = R + w B, where B
(``BALANCE``) has mean 0: w is the slope that a regression finds on earlier paths.

X is not bounded, since a path may be long. Where it is alive after its head at x,

  x < floor:    ``LOWER`` = x + D (lo - w)     E LOWER <= V_pi
  x > ceiling:  ``UPPER`` = x + D (hi - w)     E UPPER >= V_pi

with [lo, hi] bounds on the value of the policy in every state that is no end; else
both are X. The path goes on to its end all the same, for X.

A critic W is a better control variate: W(z) + w stands in the place of w, with W = 0 in
the head, where it would cancel, after an end, and where no step of a horizon is left.
W is clipped to [``worth_low``, ``worth_high``]; [0, 0] is no critic. Where the law of a
step is known, E[r + gamma W(z)] takes the place of r + gamma W(z). That does not
cancel in the head, so W and the cuts count there too (``from_start``).

legend   symbol      name
  h, w, W            ``head``, ``control``, the worth of a state (``critics``)
  lo, hi             ``value_low``, ``value_high``

The range of a policy's income: in one step, some steps, a whole episode.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Interval
from smoothcruiser.operators.outward import add_intervals, widen_interval
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import beyond_total

# columns of samples: X, B, the two that are cut, the discounted income, the steps, and
# the least and the largest W met, before it was clipped
X, BALANCE, LOWER, UPPER, TOTAL, STEPS, WORTH_LOW, WORTH_HIGH = range(8)
COLUMNS = 8
LONGEST = 2**62  # steps: more than any run makes


class PathRule(NamedTuple):
    """The rule by which a path is played and counted; fixed before it begins."""

    head: int = 0
    fixed: bool = True  # a path ends with its head: no coins
    discount: float = 0.0
    control: float = 0.0
    floor: float = -math.inf
    ceiling: float = math.inf
    value_low: float = -math.inf
    value_high: float = math.inf
    worth_low: float = 0.0
    worth_high: float = 0.0
    from_start: bool = False  # W and the cuts count in the head, too
    has_horizon: bool = False  # a path ends, worth 0, after ``horizon`` steps
    horizon: int = LONGEST


def path_length(rule: PathRule, coins: Any) -> int:
    """The most steps of the next path.

    After its head a path has k further steps or more with probability gamma^(k - 1),
    k >= 1: the first needs no coin.
    """
    if rule.fixed:
        return rule.head
    if rule.discount == 0.0:
        return 1
    # in (0, 1], in multiples of 2^-53: at most 37/(1 - gamma) steps
    luck = 1.0 - coins.random()
    coin_steps = math.floor(math.log(luck) / math.log(rule.discount))
    return rule.head + 1 + int(coin_steps)


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
