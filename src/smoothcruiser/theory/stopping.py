"""The root: how many samples turn a level's moments into a promise.

The proofs are in docs/theory.md, section 5.

Take n independent samples of one variable of range R and variance at most
sigma^2. Their mean misses its expectation by t on one side with probability at
most e^{-n rate}, so a union over both sides and the actions closes when n rate
>= log(2 actions/delta). There are three rates:

  hoeffding   2 (t/R)^2
  bernstein   t^2 / (2 sigma^2 + 2 R t/3)
  bennett     inf over p <= p* of KL(p + t/R | p), p*(1 - p*) = sigma^2/R^2:
              the exact Chernoff bound of everything with this range and this
              variance; never below the other two
  catoni      t^2 / (2 S^2), for samples of infinite range; the estimate is no mean
              (``stopping``), and ``variance`` stands for S^2, a second moment

The data may stop a run earlier: ``theory.bets``. The fixed promise keeps its own
share of delta.

A run that is stopped in between uses the line of the fixed promise: with one
theta, fixed beforehand, |mean - E| <= R (level + n psi(theta))/(n theta) holds at
all counts n at once. At the theta that is best for N it is the fixed radius there.

legend   symbol         name
  R, sigma^2            ``spread``, ``variance``
  l                     ``level``: log of 1/(share of one event)
  t                     ``radius``

A root that needs a second moment only (docs/randomized.md, R8).

Let Y_1, ..., Y_N be independent with E (Y - c)^2 <= S^2, without any range, and

  psi(x) = sgn(x) log(1 + |x| + x^2/2)
  estimate = c + sum psi(alpha (Y_i - c)) / (n alpha)

Then for one alpha > 0, fixed beforehand, and both sides, at all counts n at once,

  |estimate - E Y| <= alpha S^2/2 + level/(n alpha)

with probability 1 - 2 exp(-level). At n = N it is smallest for alpha =
sqrt(2 level/(N S^2)), where it is sqrt(2 S^2 level/N) (Catoni 2012, about a fixed
centre).

legend   symbol   name
  S^2             ``second``
  alpha           ``slope``
"""

from __future__ import annotations

import math

# relative: where bisection on rates stops, far below the 1e-9 that a verifier forgives
_TOLERANCE = 1e-12


def _kl(p: float, t: float) -> float:
    """Return KL(p + t | p) of two Bernoulli laws, 0 <= p <= p + t <= 1.

    It takes t itself, because (p + t) - p loses the digits of a small t.
    """
    if t <= 0.0:
        return 0.0
    q = p + t
    if q >= 1.0:
        return math.inf if p <= 0.0 else -math.log(p)
    if p <= 0.0:
        return math.inf
    # The two logarithms would cancel. Taylor from below:
    # t^2/(2p(1-p)) (1 - t (1-2p)/(3p(1-p))).
    if t < 1e-4 * min(p, 1.0 - p):
        v = p * (1.0 - p)
        return (
            t
            * t
            / (2.0 * v)
            * (1.0 - t * abs(1.0 - 2.0 * p) / (3.0 * v) - t * t / (v * v))
        )
    return q * math.log(q / p) + (1.0 - q) * math.log1p(-t / (1.0 - p))


def bennett_rate(t: float, spread: float, variance: float) -> float:
    """Return the inf over p <= p* of KL(p + t/R | p)."""
    tau = t / spread
    if tau >= 1.0:
        return math.inf
    p_low, p_high = 0.0, min(_largest_p(spread, variance), 1.0 - tau)
    if _kl_slope(p_high, tau) <= 0.0:  # decreasing in p up to its only minimum
        return _kl(p_high, tau)
    for _ in range(60):
        middle = 0.5 * (p_low + p_high)
        if _kl_slope(middle, tau) <= 0.0:
            p_low = middle
        else:
            p_high = middle
    return min(_kl(p_low, tau), _kl(p_high, tau)) * (1.0 - _TOLERANCE)


def _largest_p(spread: float, variance: float) -> float:
    """Return p* <= 1/2 with p*(1 - p*) = variance/spread^2, at most 1/4."""
    variance_ratio = min(variance / (spread * spread), 0.25)
    return (
        2.0 * variance_ratio / (1.0 + math.sqrt(max(0.0, 1.0 - 4.0 * variance_ratio)))
    )


def _kl_slope(p: float, tau: float) -> float:
    """Return d/dp KL(p + tau | p), which is negative below the minimum."""
    q = p + tau
    if p <= 0.0:
        return -math.inf
    if q >= 1.0:
        return math.inf
    return (
        math.log(q / p) - math.log((1.0 - q) / (1.0 - p)) - tau / p - tau / (1.0 - p)
    )


# bounds that may close a promise at the root, by name
ROOT_BOUNDS = ("hoeffding", "bernstein", "bennett", "catoni")


def best_rate(t: float, spread: float, variance: float) -> tuple[float, str]:
    """Return (rate, name) of the largest of the rates at distance t.

    The rate is infinite where the mean cannot miss by t.
    """
    if t <= 0.0:
        return 0.0, "hoeffding"
    if math.isinf(spread):
        return catoni_rate(t, variance), "catoni"
    if spread <= t:
        return math.inf, "hoeffding"
    rates = {
        "hoeffding": 2.0 * (t / spread) ** 2,
        "bernstein": t * t / (2.0 * variance + 2.0 * spread * t / 3.0),
        "bennett": bennett_rate(t, spread, variance),
    }
    name = max(rates, key=lambda key: rates[key])
    return rates[name], name


def root_samples(
    t: float, spread: float, variance: float, level: float
) -> tuple[int, str]:
    """Return (n, name): the fewest samples that close both sides of one mean.

    Each side fails with probability at most exp(-level), by the named bound.
    """
    rate, name = best_rate(t, spread, variance)
    if rate <= 0.0:
        raise ValueError(f"A radius must be above 0, got {t}.")
    exact_count = level / rate
    return max(1, math.ceil(exact_count * (1.0 - _TOLERANCE))), name


def root_radius(n: int, spread: float, variance: float, level: float) -> float:
    """Return the smallest t with n rate(t) >= level, the radius that n samples keep."""
    if math.isinf(spread):
        return math.sqrt(2.0 * variance * level / n)
    radius_low, radius_high = 0.0, max(spread, 0.0)
    while radius_high - radius_low > _TOLERANCE * max(radius_high, 1e-300):
        middle = 0.5 * (radius_low + radius_high)
        if middle in (radius_low, radius_high):
            break
        if n * best_rate(middle, spread, variance)[0] >= level:
            radius_high = middle
        else:
            radius_low = middle
    return radius_high


# --- a stop between two counts ------------------------------------------------

_FLATTEST, _STEEPEST = 1e-12, 1e6  # of theta; beyond, digits are lost
_SERIES = 3e-3  # below this theta the terms of psi cancel, and a series is exact
_LARGE = 50.0  # above it e^theta is all of 1 + p(e^theta - 1), to the last digit
_LEAST_P = 1e-300  # a larger p than the law's makes a line higher, so it holds too


def _worst_p(theta: float, top: float) -> float:
    """Return the p <= top at which a centred Bernoulli law has the largest mgf."""
    if theta < _SERIES:
        return min(top, 0.5 - theta / 12.0)
    if theta > _LARGE:
        return min(top, 1.0 / theta)
    return min(top, 1.0 / theta - 1.0 / math.expm1(theta))


def _psi(theta: float, top: float) -> float:
    """Return sup over p <= top of log(1 - p + p e^theta) - p theta."""
    p = _worst_p(theta, top)
    if theta < _SERIES:  # by its cumulants
        v = p * (1.0 - p)
        skew, tail = 1.0 - 2.0 * p, 1.0 - 6.0 * v
        series_sum = 0.5 + theta * (skew / 6.0 + theta * (tail / 24.0 + theta / 120.0))
        return v * theta * theta * series_sum
    if theta > _LARGE:
        other_odds = (1.0 - p) / p * math.exp(-theta)
        return (1.0 - p) * theta + math.log(p) + math.log1p(other_odds)
    return math.log1p(p * math.expm1(theta)) - p * theta


def _psi_slope(theta: float, top: float) -> float:
    """Return the derivative of ``_psi``, by the envelope theorem."""
    p = _worst_p(theta, top)
    # 1/(e^theta - 1) in a form that neither overflows nor cancels
    odds = -math.exp(-theta) / math.expm1(-theta)
    # the share of the law tilted by theta that is at its upper end, over p
    return p * (1.0 - p) / (p + odds)


def line_slope(n: int, spread: float, variance: float, level: float) -> float:
    """Return the theta of the line that is lowest at ``n``.

    There theta psi' - psi = level/n, and the left side grows with theta.
    """
    if spread <= 0.0 or variance <= 0.0:
        return math.inf
    largest_p = max(_largest_p(spread, variance), _LEAST_P)
    theta_low, theta_high = _FLATTEST, _STEEPEST
    for _ in range(200):
        middle = math.sqrt(theta_low * theta_high)
        if middle in (theta_low, theta_high):
            break
        if (
            middle * _psi_slope(middle, largest_p) - _psi(middle, largest_p)
            < level / n
        ):
            theta_low = middle
        else:
            theta_high = middle
    return theta_high


def line_radius(
    n: int, theta: float, spread: float, variance: float, level: float
) -> float:
    """Return how far the mean of the first ``n`` samples can be from its expectation.

    For one ``theta`` it holds at every n at once, whatever the reason for the count:
    each side fails with probability at most exp(-level).
    """
    if n < 1:
        return math.inf
    if theta == math.inf:
        return 0.0  # samples that do not vary
    largest_p = max(_largest_p(spread, variance), _LEAST_P)
    return min(spread, spread * (level / n + _psi(theta, largest_p)) / theta)


def psi(x: float) -> float:
    """Return sgn(x) log(1 + |x| + x^2/2), which grows like a logarithm."""
    log_growth = math.log1p(abs(x) + 0.5 * x * x)
    return log_growth if x >= 0.0 else -log_growth


def catoni_rate(t: float, second: float) -> float:
    """Return the rate of a radius t: n rate >= level closes one side of one mean."""
    return t * t / (2.0 * second) if second > 0.0 else math.inf


def catoni_slope(n: int, second: float, level: float) -> float:
    """Return the alpha that is best at the count ``n``."""
    return math.sqrt(2.0 * level / (n * second)) if second > 0.0 else 1.0


def catoni_radius(n: int, slope: float, second: float, level: float) -> float:
    """Return how far the estimate after ``n`` samples can be from the mean.

    For one ``slope`` it holds at every n at once, whatever the reason for the count:
    each side fails with probability at most exp(-level).
    """
    if n < 1:
        return math.inf
    return 0.5 * slope * second + level / (n * slope)
