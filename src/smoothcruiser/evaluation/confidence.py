"""A lower bound on a mean by a product of bets, valid at every count at once.

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

import numpy as np
from numpy.typing import NDArray

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
