"""The rule of the next paths, from earlier ones: head, control variate, cuts, poles.

Everything here is a choice. The promise holds whatever is chosen, as long as it is
chosen before the paths that it is for (``confidence``, ``path_rules``), and as long
as no sample lies outside ``Stakes.range_of`` its rule.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.estimate import Interval
from smoothcruiser.evaluation.confidence import (
    LARGEST_BET,
    UNIT,
    forecast_width,
    pole_distance,
)
from smoothcruiser.evaluation.incomes import earned, step_income, value_range
from smoothcruiser.evaluation.path_rules import (
    BALANCE,
    LOWER,
    STEPS,
    UPPER,
    PathRule,
    X,
)
from smoothcruiser.problem.problem import Problem

# heads that a pilot compares, in units of 1/(1 - gamma) steps
HEADS = (0.0, 1.0, 4.0)
FEWEST = 8  # paths that a control variate is fitted to
MARGIN = 0.1  # of what a cut loses: the least distance of a cut
# share of all values by which the law of a path's length may move its mean: the
# logarithm of a length is off by four units, of 2^-53, of 37 at most
COINS = 1e-13
MOST_PATHS = 1e12  # that a forecast looks ahead


class Fit(NamedTuple):
    """What earlier paths say of the next ones."""

    control: float
    mean: float
    sd: float
    steps: float  # of a path, in the mean


class Stakes:
    """What paths of one problem may add up to."""

    def __init__(self, problem: Problem, horizon: int | None) -> None:
        self.problem = problem
        self.horizon = horizon  # steps that are left, None without a horizon
        self.discount = float(problem.discount)
        self.values = value_range(problem, horizon)  # of V_pi where nothing ended
        self.income = step_income(problem)  # of one step

    def heads(self) -> tuple[int, ...]:
        """The heads to choose from."""
        if self.horizon is not None:
            return (self.horizon,)
        if self.discount == 0.0:
            return (0,)
        return tuple(math.ceil(units / (1.0 - self.discount)) for units in HEADS)

    def first_fit(self, head: int) -> Fit:
        """What is assumed before the first path."""
        low, high = self.values
        steps = head + (0.0 if self.horizon is not None else 1 / (1 - self.discount))
        return Fit(self.clipped(0.0), 0.5 * (low + high), 0.25 * (high - low), steps)

    def fit(self, rule: PathRule, samples: Any) -> Fit:
        """The slope of X on its balance, and how X scatters about it.

        Sums of products, not ``@``: the bits of BLAS depend on the processor.
        """
        balance = samples[:, BALANCE]
        bare = samples[:, X] - rule.control * balance
        control, count = rule.control, len(samples)
        around = balance - balance.mean()
        squares = float(np.sum(around * around))
        used = 1
        if count >= FEWEST and squares > 0.0 and not rule.fixed:
            control = self.clipped(-float(np.sum(around * bare)) / squares)
            used = 2
        x = bare + control * balance
        spread = x - x.mean()
        sd = math.sqrt(float(np.sum(spread * spread)) / max(1, count - used))
        mean = self.clipped(float(x.mean()))
        return Fit(control, mean, sd, float(samples[:, STEPS].mean()))

    def carried_on(self, rule: PathRule, row: Any) -> float:
        """The worth of a fixed number of steps if they went on for ever like that."""
        left = self.discount**rule.head
        if row[BALANCE] <= 0.5 * left:  # it ended
            return float(row[X])
        return float(row[X]) / (1.0 - left)

    def clipped(self, value: float) -> float:
        """``value``, brought into what a policy can be worth."""
        return min(max(value, self.values[0]), self.values[1])

    def rule(self, head: int, fit: Fit, count: float, level: float) -> PathRule:
        """The rule of the next paths, ``count`` of them in all."""
        if self.horizon is not None:
            return PathRule(self.horizon, True, self.discount)
        fixed = PathRule(
            head, False, self.discount, fit.control, -math.inf, math.inf, *self.values
        )
        (low, high), (least, most) = self.values, self.income
        ends = self._head_range(head)
        floor = self._cut(head, fit, low, least, ends[0], count, level)
        mirrored = Fit(-fit.control, -fit.mean, fit.sd, fit.steps)
        ceiling = -self._cut(head, mirrored, -high, -most, -ends[1], count, level)
        return fixed._replace(floor=floor, ceiling=ceiling)

    def _cut(
        self,
        head: int,
        fit: Fit,
        value: float,
        income: float,
        end: float,
        count: float,
        level: float,
    ) -> float:
        """Where to cut below.

        A cut costs up to ``loss``; tails that fall exponentially reach the margin
        about once in ``count`` paths. Farther is free until the range of X matters
        more than its noise, or than the range of the head.
        """
        weight, sd = self.discount**head, fit.sd
        loss = weight * max(0.0, fit.control - value)
        margin = max(MARGIN * loss, 1e-9 * (abs(fit.mean) + abs(value)))
        if sd > 0.0:
            margin = max(margin, sd * (1.0 + math.log1p(count * loss / (sd * level))))
        start = fit.mean if head else min(fit.mean, fit.control)
        below = self._lowest(0.0, weight, fit.control, value, income)
        free = fit.mean - LARGEST_BET * sd * math.sqrt(count / (2.0 * level)) - below
        return min(start - margin, free, end - below if head else math.inf)

    def _lowest(
        self, floor: float, weight: float, control: float, value: float, income: float
    ) -> float:
        """The least LOWER of a path that was at ``floor`` or above after its head."""
        after = floor + weight * (income - (1.0 - self.discount) * control)
        lowest = min(after, after + weight * (value - control))
        if self.problem.facts.terminals:
            lowest = min(lowest, floor + weight * (income - control))
        return lowest

    def _head_range(self, head: int) -> Interval:
        """What a head may be worth, with the bounds on values after it."""
        left = self.discount**head
        (low, high), (least, most) = earned(self.problem, head, left), self.values
        if self.problem.facts.terminals:  # an episode that ended gets nothing more
            return low + min(0.0, left * least), high + max(0.0, left * most)
        return low + left * least, high + left * most

    def range_of(self, rule: PathRule) -> Interval:
        """LOWER >= the first and UPPER <= the second, for every path of ``rule``."""
        if rule.fixed:
            return earned(self.problem, self.horizon)
        (low, high), (least, most) = self.values, self.income
        weight = self.discount**rule.head
        bottom = self._lowest(rule.floor, weight, rule.control, low, least)
        top = -self._lowest(-rule.ceiling, weight, -rule.control, -high, -most)
        if rule.head:
            ends = self._head_range(rule.head)
            bottom, top = min(bottom, ends[0]), max(top, ends[1])
        return min(bottom, low), max(top, high)

    def poles(
        self, rule: PathRule, fit: Fit, count: float, level: float
    ) -> tuple[float, float]:
        """Poles below LOWER and above UPPER, for ``count`` paths in all."""
        low, high = self.range_of(rule)
        least = 1e-9 * (high - low + abs(low) + abs(high)) + 1e-300
        below = pole_distance(fit.mean - low, fit.sd, count, level)
        above = pole_distance(high - fit.mean, fit.sd, count, level)
        return fit.mean - below - least, fit.mean + above + least

    def forecast(self, head: int, fit: Fit, count: float, level: float) -> float:
        """The half-width after ``count`` paths, about."""
        low, high = self.range_of(self.rule(head, fit, count, level))
        below = forecast_width(fit.mean - low, fit.sd, count, level)
        above = forecast_width(high - fit.mean, fit.sd, count, level)
        below = min(below, fit.mean - self.values[0])
        return 0.5 * (below + min(above, self.values[1] - fit.mean))

    def paths_needed(self, head: int, fit: Fit, epsilon: float, level: float) -> float:
        """The number of paths that brings the half-width to ``epsilon``, about."""
        count = 1.0
        while count < MOST_PATHS and self.forecast(head, fit, count, level) > epsilon:
            count *= 1.1
        return count

    def errors(self, rule: PathRule, samples: Any) -> Any:
        """Bounds on what rounding did to each sample, the law of its length included.

        A sum of n terms is off by n units of the sum of their sizes; weights are
        products of as many factors, and an income has its own error.
        """
        steps = samples[:, STEPS]
        each = max(abs(x) for x in self.income)
        each += (1.0 - self.discount) * abs(rule.control)
        sizes = steps * each + 2.0 * abs(rule.control)
        cut = (samples[:, LOWER] != samples[:, X]) | (
            samples[:, UPPER] != samples[:, X]
        )
        sizes = sizes + np.where(cut, max(abs(x) for x in self.values), 0.0)
        lost = 4.0 * UNIT * (steps + 4.0) * sizes
        if rule.fixed:
            return lost
        return lost + COINS * (each / (1.0 - self.discount) + abs(rule.control))
