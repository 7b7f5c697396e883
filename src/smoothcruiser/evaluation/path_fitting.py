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
    LONGEST,
    LOWER,
    STEPS,
    UPPER,
    WORTH_HIGH,
    WORTH_LOW,
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
WORTH_MARGIN = 0.1  # of the span of W on earlier paths, beyond which it is clipped
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


class Side(NamedTuple):
    """The numbers below the mean of a path; those above are its mirror image."""

    head: int
    from_start: bool
    weight: float  # of a step after the head, or of the first one where W counts there
    discount: float
    control: float
    start: float  # x before the first step
    value: float  # the least value after a cut
    income: float  # the least of one step
    worth_low: float
    worth_high: float
    can_end: bool

    @classmethod
    def below(
        cls, rule: PathRule, income: Interval, start: float, can_end: bool
    ) -> Side:
        """The lower side of ``rule``."""
        weight = 1.0 if rule.from_start else rule.discount**rule.head
        return cls(
            rule.head,
            rule.from_start,
            weight,
            rule.discount,
            rule.control,
            start,
            rule.value_low,
            income[0],
            rule.worth_low,
            rule.worth_high,
            can_end or rule.has_horizon,
        )

    @classmethod
    def above(
        cls, rule: PathRule, income: Interval, start: float, can_end: bool
    ) -> Side:
        """The upper side of ``rule``, as the lower side of -X."""
        return cls.below(rule, income, start, can_end)._replace(
            control=-rule.control,
            start=-start,
            value=-rule.value_high,
            income=-income[1],
            worth_low=-rule.worth_high,
            worth_high=-rule.worth_low,
        )

    def lowest_sample(self, floor: float) -> float:
        """The least LOWER of a path that was at ``floor`` or above when W counted."""
        fee = 1.0 - self.discount
        weight, control, worth = self.weight, self.control, self.worth_high
        base = floor + weight * (self.income - fee * control - worth)
        coin_end = base + weight * self.discount * self.worth_low
        lowest = min(
            coin_end, base + weight * (self.value - control - fee * self.worth_high)
        )
        if self.can_end:
            end = floor + weight * (self.income - control - worth)
            lowest = min(lowest, end)
        if self.from_start:  # a cut in the head, and steps that weigh less
            in_head = self.income - control - worth + self.discount * self.value
            lowest = min(lowest, floor, floor + in_head)
        return lowest


class Worth(NamedTuple):
    """The facts of a critic W that the range of a path depends on."""

    start: float = 0.0  # W where paths start
    is_exact: bool = False  # E[r + gamma W] is known at each step


class Stakes:
    """The range of sums of paths of one problem, and the choices that depend on it."""

    def __init__(
        self, problem: Problem, horizon: int | None, worth: Worth | None = None
    ) -> None:
        self.problem = problem
        self.horizon = horizon  # steps that are left, None without a horizon
        self.discount = float(problem.discount)
        self.values = value_range(problem, horizon)  # of V_pi where nothing ended
        self.income = step_income(problem)  # of one step
        self.worth = worth  # None without a critic
        self.worth_seen = math.inf, -math.inf  # W on the paths so far
        self.later_values = self.values  # of V_pi on the way, where nothing ended
        if horizon is not None and worth is not None:
            ranges = [earned_range(problem, steps) for steps in (1, horizon)]
            self.later_values = (
                min(low for low, _ in ranges),
                max(high for _, high in ranges),
            )

    def note_worth(self, samples: Any) -> None:
        """Learn from paths where W lies."""
        if self.worth is None or not len(samples):
            return
        lowest, highest = self.worth_seen
        self.worth_seen = (
            min(lowest, float(samples[:, WORTH_LOW].min())),
            max(highest, float(samples[:, WORTH_HIGH].max())),
        )

    def clip_range(self, control: float) -> Interval:
        """The range that W is clipped to, so that W + w is a value that may be.

        Any range is valid. A narrow one makes the range of X narrow: it is where W was
        on earlier paths, and a tenth more.
        """
        if self.worth is None:
            return 0.0, 0.0
        low, high = -math.inf, math.inf
        lowest, highest = self.worth_seen
        if lowest <= highest:
            margin = WORTH_MARGIN * (highest - lowest)
            low, high = lowest - margin, highest + margin
        min_worth, max_worth = (value - control for value in self.later_values)
        return (
            min(max(low, min_worth), max_worth),
            max(min(high, max_worth), min_worth),
        )

    def clip_control(self, control: float) -> float:
        """``control``, brought to where W + w may be a value."""
        low, high = self.worth_seen if self.worth is not None else (0.0, 0.0)
        if not low <= high:
            low = high = 0.0 if self.worth is None else self.worth.start
        return min(max(control, self.values[0] - high), self.values[1] - low)

    def heads(self) -> tuple[int, ...]:
        """The heads to choose from."""
        if self.discount == 0.0 and self.horizon is None:
            return (0,)
        if self.discount in (0.0, 1.0) or (self.horizon and self.worth is None):
            return (self.horizon or 0,)
        heads = [math.ceil(units / (1.0 - self.discount)) for units in HEADS]
        if self.horizon is not None:  # without coins W cancels
            heads = [head for head in heads if head < self.horizon] + [self.horizon]
        return tuple(heads)

    def first_fit(self, head: int) -> Fit:
        """The fit that is assumed before the first path."""
        min_value, max_value = self.values
        mean_steps = float(head)
        if head != self.horizon:
            mean_steps += 1 / (1 - self.discount)
        middle = 0.5 * (min_value + max_value)
        return Fit(
            self.clip_control(0.0),
            middle if self.worth is None else self.clip_value(self.worth.start),
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
            control = self.clip_control(
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
        is_exact = self.worth is not None and self.worth.is_exact
        if head == self.horizon and not is_exact:
            return PathRule(self.horizon, True, self.discount)
        is_fixed = head == self.horizon
        control = 0.0 if is_fixed else fit.control
        worth_range = self.clip_range(control)
        base_rule = PathRule(
            head,
            is_fixed,
            self.discount,
            control,
            -math.inf,
            math.inf,
            *self.later_values,
            *worth_range,
            is_exact,
            self.horizon is not None,
            LONGEST if self.horizon is None else self.horizon,
        )
        start = control
        if self.worth is not None:
            start += min(max(self.worth.start, worth_range[0]), worth_range[1])
        floor = self._lower_cut(
            Side.below(base_rule, self.income, start, self.problem.facts.terminals),
            fit,
            self._head_range(head)[0],
            count,
            level,
        )
        ceiling = -self._lower_cut(
            Side.above(base_rule, self.income, start, self.problem.facts.terminals),
            Fit(-fit.control, -fit.mean, fit.sd, fit.steps),
            -self._head_range(head)[1],
            count,
            level,
        )
        return base_rule._replace(floor=floor, ceiling=ceiling)

    def _lower_cut(
        self, side: Side, fit: Fit, end: float, count: float, level: float
    ) -> float:
        """Where to cut below.

        A cut costs up to ``loss``; tails that fall exponentially reach the margin
        about once in ``count`` paths. Farther is free until the range of X matters
        more than its noise, or than the range of the head.
        """
        sd = fit.sd
        loss = side.weight * max(0.0, side.control + side.worth_high - side.value)
        margin = max(MARGIN * loss, 1e-9 * (abs(fit.mean) + abs(side.value)))
        if sd > 0.0:
            margin = max(margin, sd * (1.0 + math.log1p(count * loss / (sd * level))))
        has_head = side.head > 0 and not side.from_start
        start_value = fit.mean if has_head else min(fit.mean, side.start)
        lowest_reach = side.lowest_sample(0.0)
        free_cut = (
            fit.mean
            - LARGEST_BET * sd * math.sqrt(count / (2.0 * level))
            - lowest_reach
        )
        return min(
            start_value - margin,
            free_cut,
            end - lowest_reach if has_head else math.inf,
        )

    def _head_range(self, head: int) -> Interval:
        """The range of the worth of a head, with the bounds on values after it."""
        rest_weight = self.discount**head
        (min_income, max_income), (min_value, max_value) = (
            earned_range(self.problem, head, rest_weight),
            self.later_values,
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
        if rule.fixed and not rule.from_start:
            return earned_range(self.problem, self.horizon)
        min_value, max_value = self.values
        ends = self.problem.facts.terminals
        lowest_sample = Side.below(rule, self.income, 0.0, ends).lowest_sample(
            rule.floor
        )
        highest_sample = -Side.above(rule, self.income, 0.0, ends).lowest_sample(
            -rule.ceiling
        )
        if rule.head and not rule.from_start:
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
        worth_size = max(abs(rule.worth_low), abs(rule.worth_high))
        if worth_size:  # gamma W - W, and E[r + gamma W] - r where that is known
            income_size += 4.0 * worth_size + 2.0 * max(abs(x) for x in self.income)
        start_size = 2.0 * (abs(rule.control) + worth_size)
        term_sizes = steps * income_size + start_size
        is_cut = (samples[:, LOWER] != samples[:, X]) | (
            samples[:, UPPER] != samples[:, X]
        )
        term_sizes = term_sizes + np.where(
            is_cut, max(abs(x) for x in self.later_values), 0.0
        )
        rounding_loss = 4.0 * UNIT * (steps + 4.0) * term_sizes
        if rule.fixed:
            return rounding_loss
        return rounding_loss + COINS * (
            income_size / (1.0 - self.discount) + 0.5 * start_size
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
