"""Random numbers by law: one source for plain Python and compiled code.

``jit.random.streams`` runs these functions as they stand, ``jit.random.stream_type`` makes
them methods of a compiled stream. So they avoid the few operations that round or fail
differently in the two: powers, and ``exp`` of a number above 709.

Every sampler is exact: it inverts a distribution or rejects, and never puts a
normal law in the place of another. All that remains is the rounding of doubles and
the 53 bits of a uniform number.

  uniform      low + (high - low) U
  normal       Marsaglia's polar method (1964); the second value of a pair is dropped, so that no
               state hides in the stream
  exponential  inversion
  geometric    inversion: the number of the exponential's interval of length -log(1 - p)
  gamma        Marsaglia and Tsang (2000); below shape 1, G(shape + 1) U**(1 / shape)
  beta         X / (X + Y) of two gamma variables, from their logarithms, so that nothing underflows
  poisson      products of uniforms below mean 10, then Hörmann's PTRS (1993, transformed rejection)
  binomial     inversion below mean 10, then Hörmann's BTRS (1993); p > 1/2 counts failures

Rejection compares with a log-probability. It is computed by Loader's
saddle-point expansion (2000), since differences of log-gammas lose all digits
for large counts.

Arguments outside a law's domain raise ``ValueError`` with a constant sentence:
compiled code cannot put numbers into one. Left out: samples from a collection
of elements (``jit.random.collection_samplers``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# Doubles are exact whole numbers up to 2**53 = 9e15, which leaves room for a
# few deviations more.
LARGEST_COUNT = 10**15
SMALL_MEAN = 10.0  # PTRS and BTRS are proved from mean 10 on
# P(a binomial of mean 10 exceeds it) < 1e-70, far below a step of a uniform.
INVERSION_END = 110
LOG_TWO_PI = math.log(2.0 * math.pi)
# Of a geometric law: its largest count, 36.8 / p, is below 2**63.
SMALLEST_CHANCE = 1e-17
# Outside of these, the logarithm of a gamma variable overflows.
SMALLEST_BETA, LARGEST_BETA = 1e-300, 1e300
# exp of a larger number is infinite in compiled code, and an error in plain Python
LARGEST_EXPONENT = math.log(np.finfo(np.float64).max)
# the laws among the functions below, with the arguments that are whole numbers
LAWS: dict[str, tuple[str, ...]] = {
    "uniform": (),
    "normal": (),
    "exponential": (),
    "gamma": (),
    "beta": (),
    "geometric": (),
    "poisson": (),
    "binomial": ("n",),
}


# --- continuous laws ----------------------------------------------------------


def uniform(self: Any, low: float = 0.0, high: float = 1.0) -> Any:
    """A uniform number in [low, high)."""
    # In compiled code float() would keep a float32.
    width = np.float64(high) - np.float64(low)
    if not 0.0 <= width < math.inf:
        raise ValueError(
            "rng.uniform(low, high) needs finite numbers with low <= high"
        )
    return low + width * self.random()


def normal(self: Any, loc: float = 0.0, scale: float = 1.0) -> Any:
    """A normal number with mean ``loc`` and standard deviation ``scale``."""
    if not (abs(loc) < math.inf and 0.0 <= scale < math.inf):
        raise ValueError(
            "rng.normal(loc, scale) needs a finite loc and a finite scale >= 0"
        )
    return loc + scale * _standard_normal(self)


def _standard_normal(rng: Any) -> Any:
    while True:
        x = 2.0 * rng.random() - 1.0
        y = 2.0 * rng.random() - 1.0
        s = x * x + y * y
        if 0.0 < s < 1.0:
            return x * math.sqrt(-2.0 * math.log(s) / s)


def exponential(self: Any, scale: float = 1.0) -> Any:
    """An exponential number with mean ``scale``."""
    if not 0.0 <= scale < math.inf:
        raise ValueError("rng.exponential(scale) needs a finite scale >= 0")
    return scale * -math.log(1.0 - self.random())


def gamma(self: Any, shape: float, scale: float = 1.0) -> Any:
    """A gamma number with mean ``shape * scale``."""
    if not (0.0 <= shape < math.inf and 0.0 <= scale < math.inf):
        raise ValueError(
            "rng.gamma(shape, scale) needs finite shape >= 0 and scale >= 0"
        )
    if shape == 0.0:
        return 0.0
    if shape < 1.0:
        boost = math.exp(math.log(1.0 - self.random()) / shape)
        return scale * (boost * _large_gamma(self, shape + 1.0))
    return scale * _large_gamma(self, float(shape))


def _large_gamma(rng: Any, shape: float) -> Any:
    """Gamma with shape >= 1: d (1 + t)**3 with t = N / sqrt(9 d), d = shape - 1/3."""
    d = shape - 1.0 / 3.0
    while True:
        x = _standard_normal(rng)
        t = x / math.sqrt(9.0 * d)
        if t <= -1.0:
            continue
        v = (1.0 + t) * ((1.0 + t) * (1.0 + t))
        u = 1.0 - rng.random()
        if u < 1.0 - 0.0331 * ((x * x) * (x * x)):
            return d * v
        # d (1 - v + log v), with v - 1 multiplied out: 1 - v would lose the
        # digits of t.
        if math.log(u) < 0.5 * x * x + d * (
            3.0 * math.log1p(t) - t * (3.0 + t * (3.0 + t))
        ):
            return d * v


def beta(self: Any, a: float, b: float) -> Any:
    """A beta number with mean ``a / (a + b)``."""
    if not (SMALLEST_BETA <= a <= LARGEST_BETA and SMALLEST_BETA <= b <= LARGEST_BETA):
        raise ValueError("rng.beta(a, b) needs a and b > 0 (from 1e-300 to 1e300)")
    first_log = _log_gamma_variable(self, float(a))
    second_log = _log_gamma_variable(self, float(b))
    log_ratio = second_log - first_log
    return 0.0 if log_ratio > LARGEST_EXPONENT else 1.0 / (1.0 + math.exp(log_ratio))


def _log_gamma_variable(rng: Any, shape: float) -> Any:
    """The logarithm of a gamma number, finite where the number itself underflows."""
    if shape < 1.0:
        boost = math.log(1.0 - rng.random()) / shape
        return boost + math.log(_large_gamma(rng, shape + 1.0))
    return math.log(_large_gamma(rng, shape))


# --- counts -------------------------------------------------------------------


def geometric(self: Any, p: float) -> Any:
    """The number of trials up to the first success, 1, 2, …"""
    if not SMALLEST_CHANCE <= p <= 1.0:
        raise ValueError(
            "rng.geometric(p) needs a probability 0 < p <= 1 (at least 1e-17)"
        )
    if p == 1.0:
        return np.int64(1)
    num_intervals = math.ceil(math.log(1.0 - self.random()) / math.log1p(-p))
    return max(np.int64(1), np.int64(num_intervals))


def poisson(self: Any, lam: float) -> Any:
    """A Poisson count with mean ``lam``."""
    if not 0.0 <= lam <= LARGEST_COUNT:
        raise ValueError("rng.poisson(lam) needs a mean lam >= 0 (at most 1e15)")
    if lam < SMALL_MEAN:
        return _poisson_by_products(self, float(lam))
    return _poisson_by_rejection(self, float(lam))


def _poisson_by_products(rng: Any, lam: float) -> Any:
    """How many uniforms keep their product above exp(-lam)."""
    product_limit = math.exp(-lam)
    product = rng.random()
    num_factors = 0
    while product > product_limit:
        product *= rng.random()
        num_factors += 1
    return np.int64(num_factors)


def _poisson_by_rejection(rng: Any, lam: float) -> Any:
    """A Poisson count by PTRS; the constants are Hörmann's."""
    b = 0.931 + 2.53 * math.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    inner_limit = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = rng.random() - 0.5
        v = 1.0 - rng.random()
        edge = 0.5 - abs(u)
        if edge == 0.0:
            continue
        k = math.floor((2.0 * a / edge + b) * u + lam + 0.43)
        if edge >= 0.07 and v <= inner_limit:
            return np.int64(k)
        if k < 0 or (edge < 0.013 and v > edge):
            continue
        log_probability = _log_poisson(float(k), lam)
        if math.log(v * inverse_alpha / (a / (edge * edge) + b)) <= log_probability:
            return np.int64(k)


def binomial(self: Any, n: int, p: float) -> Any:
    """The number of successes in ``n`` trials of probability ``p``."""
    if not (0 <= n <= LARGEST_COUNT and 0.0 <= p <= 1.0):
        raise ValueError(
            "rng.binomial(n, p) needs n >= 0 (at most 1e15) and 0 <= p <= 1"
        )
    if p > 0.5:
        return np.int64(n) - _rare_successes(self, np.int64(n), 1.0 - p)
    return _rare_successes(self, np.int64(n), float(p))


def _rare_successes(rng: Any, n: Any, p: float) -> Any:
    """A binomial count with p <= 1/2."""
    if n == 0 or p == 0.0:
        return np.int64(0)
    if n * p < SMALL_MEAN:
        return _binomial_by_inversion(rng, n, p)
    return _binomial_by_rejection(rng, n, p)


def _binomial_by_inversion(rng: Any, n: int, p: float) -> Any:
    """A binomial count by inversion.

    The probabilities of 0, 1, … are subtracted from a uniform until it is used
    up.
    """
    last_count = min(n, INVERSION_END)
    success_odds = p / (1.0 - p)
    zero_probability = math.exp(n * math.log1p(-p))
    while True:  # again if rounding left something of the uniform after the last count
        uniform_left = rng.random()
        probability = zero_probability
        for k in range(last_count + 1):
            if uniform_left < probability:
                return np.int64(k)
            uniform_left -= probability
            probability *= success_odds * (n - k) / (k + 1)


def _binomial_by_rejection(rng: Any, n: int, p: float) -> Any:
    """A binomial count by BTRS; the constants are Hörmann's."""
    deviation = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    center = n * p + 0.5
    inner_limit = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * deviation
    # a float: the square of a whole number of 64 bits would wrap
    log_peak = _log_binomial(float(math.floor((n + 1) * p)), float(n), p)
    while True:
        u = rng.random() - 0.5
        v = 1.0 - rng.random()
        edge = 0.5 - abs(u)
        if edge == 0.0:
            continue
        k = math.floor((2.0 * a / edge + b) * u + center)
        if k < 0 or k > n:
            continue
        if edge >= 0.07 and v <= inner_limit:
            return np.int64(k)
        log_ratio = _log_binomial(float(k), float(n), p) - log_peak
        if math.log(v * alpha / (a / (edge * edge) + b)) <= log_ratio:
            return np.int64(k)


# --- log-probabilities (Loader 2000) ------------------------------------------


def _log_poisson(k: float, lam: float) -> Any:
    """Log of exp(-lam) lam**k / k!."""
    if k == 0.0:
        return -lam
    return -_deviance(k, lam) - _stirling_error(k) - 0.5 * (LOG_TWO_PI + math.log(k))


def _log_binomial(k: float, n: float, p: float) -> Any:
    """Log of (n choose k) p**k (1 - p)**(n - k)."""
    if k == 0.0:
        return n * math.log1p(-p)
    if k == n:
        return n * math.log(p)
    errors = _stirling_error(n) - _stirling_error(k) - _stirling_error(n - k)
    deviances = _deviance(k, n * p) + _deviance(n - k, n * (1.0 - p))
    return errors - deviances - 0.5 * (LOG_TWO_PI + math.log(k) + math.log1p(-k / n))


def _stirling_error(k: float) -> Any:
    """Log k! minus Stirling's log of sqrt(2 pi k) (k / e)**k.

    The series is off by 2e-15 at 16.
    """
    if k < 16.0:
        return math.lgamma(k + 1.0) - (k + 0.5) * math.log(k) + k - 0.5 * LOG_TWO_PI
    s = 1.0 / (k * k)
    series_tail = 1.0 / 1260.0 - s * (
        1.0 / 1680.0 - s * (1.0 / 1188.0 - s * 691.0 / 360360.0)
    )
    return (1.0 / 12.0 - s * (1.0 / 360.0 - s * series_tail)) / k


def _deviance(x: float, mean: float) -> Any:
    """The deviance x log(x / mean) + mean - x.

    Near x = mean it is computed from log's series in (x - mean) / (x + mean).
    """
    gap = x - mean
    if abs(gap) >= 0.1 * (x + mean):
        return x * math.log(x / mean) - gap
    v = gap / (x + mean)
    total = gap * v
    term = 2.0 * x * v
    odd_divisor = 3.0
    while True:
        term *= v * v
        next_total = total + term / odd_divisor
        if next_total == total:
            return total
        total = next_total
        odd_divisor += 2.0
