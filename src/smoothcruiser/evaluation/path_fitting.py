"""The rule of the next paths, from earlier ones: head, control variate, cuts, poles.

Everything here is a choice. The promise holds whatever is chosen, as long as it is
chosen before the paths that it is for (``path_fitting``, ``path_rules``), and as long
as no sample lies outside ``Stakes.range_of`` its rule.

A lower bound on a mean by a product of bets, valid at every count at once.

Let E[y_i | past] <= v. With a pole nu_i < v chosen from the past such that
y_i >= nu_i, each factor (y_i - nu_i)/(v - nu_i) is nonnegative and has mean 1 at
most. By Ville's inequality the product ever exceeds 1/alpha with probability alpha
at most: with probability 1 - alpha, for all n at once,

  f_n(v) = sum over i <= n of log(y_i - nu_i) - log(v - nu_i) - log(1/alpha) <= 0.

f_n falls in v, so that v lies above its root. Neither the samples nor v need an
upper bound, and the law of y_i may change from sample to sample. Poles stay the
same for a while (an era), so that an era leaves its count and its sum of logarithms
alone. An upper bound is the lower bound of -v.

The best single pole for n samples of mean y and standard deviation s: a pole at
distance D costs log(1/alpha) D/n for the promise and s^2/(2 D) for the noise, so

  D = max((y - m)/b, s sqrt(n/(2 log(1/alpha))))

where y_i >= m. b < 1 keeps one sample at m from taking everything: it leaves 1 - b.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.estimate import Interval
from smoothcruiser.evaluation.path_rules import (
    BALANCE,
    LOWER,
    STEPS,
    UPPER,
    PathRule,
    X,
    earned_range,
    step_income,
    value_range,
)
from smoothcruiser.problem.problem import Problem

# heads that a pilot compares, in units of 1/(1 - gamma) steps
HEADS = (0.0, 1.0, 4.0)
FEWEST = 8  # paths that a control variate is fitted to
MARGIN = 0.1  # of the loss of a cut: the least distance of a cut
# share of all values by which the law of a path's length may move its mean: the
# logarithm of a length is off by four units, of 2^-53, of 37 at most
COINS = 1e-13
MOST_PATHS = 1e12  # that a forecast looks ahead


class Fit(NamedTuple):
    """The forecast for the next paths, from earlier ones."""

    control: float
    mean: float
    sd: float
    steps: float  # of a path, in the mean


class Stakes:
    """The range of sums of paths of one problem, and the choices that depend on it."""

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
        """The fit that is assumed before the first path."""
        min_value, max_value = self.values
        mean_steps = head + (
            0.0 if self.horizon is not None else 1 / (1 - self.discount)
        )
        return Fit(
            self.clip_value(0.0),
            0.5 * (min_value + max_value),
            0.25 * (max_value - min_value),
            mean_steps,
        )

    def fit(self, rule: PathRule, samples: Any) -> Fit:
        """The slope of X on its balance, and how X scatters about it.

        Sums of products, not ``@``: the bits of BLAS depend on the processor.
        """
        balance = samples[:, BALANCE]
        bare_samples = samples[:, X] - rule.control * balance
        control, num_samples = rule.control, len(samples)
        centered_balance = balance - balance.mean()
        balance_squares = float(np.sum(centered_balance * centered_balance))
        num_fitted = 1
        if num_samples >= FEWEST and balance_squares > 0.0 and not rule.fixed:
            control = self.clip_value(
                -float(np.sum(centered_balance * bare_samples)) / balance_squares
            )
            num_fitted = 2
        fitted_samples = bare_samples + control * balance
        residuals = fitted_samples - fitted_samples.mean()
        sd = math.sqrt(
            float(np.sum(residuals * residuals)) / max(1, num_samples - num_fitted)
        )
        mean = self.clip_value(float(fitted_samples.mean()))
        return Fit(control, mean, sd, float(samples[:, STEPS].mean()))

    def carried_on(self, rule: PathRule, row: Any) -> float:
        """The worth of a fixed number of steps if they went on for ever like that."""
        rest_weight = self.discount**rule.head
        if row[BALANCE] <= 0.5 * rest_weight:  # it ended
            return float(row[X])
        return float(row[X]) / (1.0 - rest_weight)

    def clip_value(self, value: float) -> float:
        """``value``, brought into the range of policies' values."""
        return min(max(value, self.values[0]), self.values[1])

    def rule(self, head: int, fit: Fit, count: float, level: float) -> PathRule:
        """The rule of the next paths, ``count`` of them in all."""
        if self.horizon is not None:
            return PathRule(self.horizon, True, self.discount)
        base_rule = PathRule(
            head, False, self.discount, fit.control, -math.inf, math.inf, *self.values
        )
        (min_value, max_value), (min_income, max_income) = self.values, self.income
        head_range = self._head_range(head)
        floor = self._lower_cut(
            head, fit, min_value, min_income, head_range[0], count, level
        )
        mirrored_fit = Fit(-fit.control, -fit.mean, fit.sd, fit.steps)
        ceiling = -self._lower_cut(
            head, mirrored_fit, -max_value, -max_income, -head_range[1], count, level
        )
        return base_rule._replace(floor=floor, ceiling=ceiling)

    def _lower_cut(
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
        head_weight, sd = self.discount**head, fit.sd
        loss = head_weight * max(0.0, fit.control - value)
        margin = max(MARGIN * loss, 1e-9 * (abs(fit.mean) + abs(value)))
        if sd > 0.0:
            margin = max(margin, sd * (1.0 + math.log1p(count * loss / (sd * level))))
        start_value = fit.mean if head else min(fit.mean, fit.control)
        lowest_reach = self._lowest_sample(
            0.0, head_weight, fit.control, value, income
        )
        free_cut = (
            fit.mean
            - LARGEST_BET * sd * math.sqrt(count / (2.0 * level))
            - lowest_reach
        )
        return min(
            start_value - margin, free_cut, end - lowest_reach if head else math.inf
        )

    def _lowest_sample(
        self, floor: float, weight: float, control: float, value: float, income: float
    ) -> float:
        """The least LOWER of a path that was at ``floor`` or above after its head."""
        next_value = floor + weight * (income - (1.0 - self.discount) * control)
        lowest = min(next_value, next_value + weight * (value - control))
        if self.problem.facts.terminals:
            lowest = min(lowest, floor + weight * (income - control))
        return lowest

    def _head_range(self, head: int) -> Interval:
        """The range of the worth of a head, with the bounds on values after it."""
        rest_weight = self.discount**head
        (min_income, max_income), (min_value, max_value) = (
            earned_range(self.problem, head, rest_weight),
            self.values,
        )
        if self.problem.facts.terminals:  # an episode that ended gets nothing more
            return min_income + min(0.0, rest_weight * min_value), max_income + max(
                0.0, rest_weight * max_value
            )
        return (
            min_income + rest_weight * min_value,
            max_income + rest_weight * max_value,
        )

    def range_of(self, rule: PathRule) -> Interval:
        """LOWER >= the first and UPPER <= the second, for every path of ``rule``."""
        if rule.fixed:
            return earned_range(self.problem, self.horizon)
        (min_value, max_value), (min_income, max_income) = self.values, self.income
        head_weight = self.discount**rule.head
        lowest_sample = self._lowest_sample(
            rule.floor, head_weight, rule.control, min_value, min_income
        )
        highest_sample = -self._lowest_sample(
            -rule.ceiling, head_weight, -rule.control, -max_value, -max_income
        )
        if rule.head:
            head_range = self._head_range(rule.head)
            lowest_sample, highest_sample = (
                min(lowest_sample, head_range[0]),
                max(highest_sample, head_range[1]),
            )
        return min(lowest_sample, min_value), max(highest_sample, max_value)

    def poles(
        self, rule: PathRule, fit: Fit, count: float, level: float
    ) -> tuple[float, float]:
        """Poles below LOWER and above UPPER, for ``count`` paths in all."""
        lowest_sample, highest_sample = self.range_of(rule)
        min_distance = (
            1e-9
            * (
                highest_sample
                - lowest_sample
                + abs(lowest_sample)
                + abs(highest_sample)
            )
            + 1e-300
        )
        lower_distance = pole_distance(fit.mean - lowest_sample, fit.sd, count, level)
        upper_distance = pole_distance(highest_sample - fit.mean, fit.sd, count, level)
        return (
            fit.mean - lower_distance - min_distance,
            fit.mean + upper_distance + min_distance,
        )

    def forecast(self, head: int, fit: Fit, count: float, level: float) -> float:
        """The half-width after ``count`` paths, about."""
        lowest_sample, highest_sample = self.range_of(
            self.rule(head, fit, count, level)
        )
        lower_width = forecast_width(fit.mean - lowest_sample, fit.sd, count, level)
        upper_width = forecast_width(highest_sample - fit.mean, fit.sd, count, level)
        lower_width = min(lower_width, fit.mean - self.values[0])
        return 0.5 * (lower_width + min(upper_width, self.values[1] - fit.mean))

    def paths_needed(self, head: int, fit: Fit, epsilon: float, level: float) -> float:
        """The number of paths that brings the half-width to ``epsilon``, about."""
        num_paths = 1.0
        while (
            num_paths < MOST_PATHS
            and self.forecast(head, fit, num_paths, level) > epsilon
        ):
            num_paths *= 1.1
        return num_paths

    def errors(self, rule: PathRule, samples: Any) -> Any:
        """Bounds on the rounding of each sample, the law of its length included.

        A sum of n terms is off by n units of the sum of their sizes; weights are
        products of as many factors, and an income has its own error.
        """
        steps = samples[:, STEPS]
        income_size = max(abs(x) for x in self.income)
        income_size += (1.0 - self.discount) * abs(rule.control)
        term_sizes = steps * income_size + 2.0 * abs(rule.control)
        is_cut = (samples[:, LOWER] != samples[:, X]) | (
            samples[:, UPPER] != samples[:, X]
        )
        term_sizes = term_sizes + np.where(
            is_cut, max(abs(x) for x in self.values), 0.0
        )
        rounding_loss = 4.0 * UNIT * (steps + 4.0) * term_sizes
        if rule.fixed:
            return rounding_loss
        return rounding_loss + COINS * (
            income_size / (1.0 - self.discount) + abs(rule.control)
        )


UNIT = 2.0**-53  # of double precision
LARGEST_BET = 0.9  # b
MOST_STEPS = 60  # of Newton's method; each is a valid bound


def pole_distance(reach: float, sd: float, count: float, level: float) -> float:
    """D for ``count`` samples that lie at most ``reach`` below their mean."""
    return max(reach / LARGEST_BET, sd * math.sqrt(count / (2.0 * level)))


def forecast_width(reach: float, sd: float, count: float, level: float) -> float:
    """The distance of the bound from the mean, about."""
    distance = pole_distance(reach, sd, count, level)
    if distance <= 0.0:
        return 0.0
    return distance * level / count + sd * sd / (2.0 * distance)


class MeanBound:
    """A lower bound ``low`` on v; ``least`` <= v <= ``most`` is known beforehand."""

    def __init__(self, alpha: float, least: float, most: float) -> None:
        self.level = math.log(1.0 / alpha)
        self.low, self.most = least, most
        self.poles: list[float] = []
        self.counts: list[int] = []
        self.logs: list[float] = []  # sums of log(y - nu), by era
        self.size = 0.0  # sum of their absolute values
        self.batches = 0

    def begin_era(self, pole: float) -> None:
        """Bet with ``pole`` from now on."""
        self.poles.append(pole)
        self.counts.append(0)
        self.logs.append(0.0)

    def take(self, samples: NDArray[np.float64]) -> None:
        """Take samples y into the current era."""
        with np.errstate(divide="ignore", invalid="ignore"):
            log_factors = np.log(samples - self.poles[-1])
        self.counts[-1] += len(samples)
        self.logs[-1] += float(np.sum(log_factors))
        self.size += float(np.sum(np.abs(log_factors)))
        self.batches += 1

    def raise_low(self) -> float:
        """``low`` with all samples so far; bounds of all counts hold together."""
        if not math.isfinite(self.size):  # a sample at its pole: nothing to be had
            return self.low
        pole_array, count_array = np.array(self.poles), np.array(self.counts, float)
        log_total = float(np.sum(self.logs)) - self.level
        # every sum is off by less than this share of its absolute terms
        rounding_share = (64.0 + self.batches) * UNIT

        def excess(v: float) -> float:
            """f(v), less the largest possible error of rounding."""
            log_terms = count_array * np.log(v - pole_array)
            term_sizes = (
                self.size + float(np.sum(np.abs(log_terms) + count_array)) + self.level
            )
            return log_total - float(np.sum(log_terms)) - rounding_share * term_sizes

        # f is convex and falls: Newton's steps from the left stay on the left
        lower_bound = self.low
        for _ in range(MOST_STEPS):
            excess_here = excess(lower_bound)
            if not excess_here > 0.0:
                break
            self.low = lower_bound
            newton_step = excess_here / float(
                np.sum(count_array / (lower_bound - pole_array))
            )
            if lower_bound + newton_step <= lower_bound:
                break
            lower_bound = min(lower_bound + newton_step, self.most)
            if lower_bound == self.most and excess(lower_bound) > 0.0:
                # it crosses the known bound: a failure, or a false declaration
                self.low = math.nextafter(lower_bound, math.inf)
                break
        return self.low
