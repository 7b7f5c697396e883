"""A root that needs a second moment only (docs/randomized.md, R8).

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
