"""The curves of the paper's appendix F.1 as its published check code computes them.

Everything is in log10, so that nothing overflows.

  H(e)       = 2 log_gamma(e (1-gamma)/(1+M)) + 1
               the code's; printed is the ceiling of it without the + 1
  sparse(e)  = gamma^(H(H-1)/2) (2 alpha/e^2)^H
               Prop. 1, "extrapolated to all values" of e
  n_sim(e)   = sparse(e)                                         if e >= kappa
             = 1 + n_sim(e/sqrt(gamma))
                 + beta/e n_sim(sqrt(kappa e/gamma))             otherwise
               K N(sqrt(kappa e)) without its ceiling
  lemma_1(e) = kappa^2 sparse(kappa) [log_{1/gamma}(kappa/(gamma e))]^eta_2 / e^2
               eta_2 = log2(gamma/(1-gamma) 2 beta/kappa)

legend   symbol              name
  e, delta', lambda          ``e``, ``delta_prime``, ``temperature``
  alpha, beta, kappa, eta_2  ``theory.paper``: the same numbers, and the tests
                             compare them with the printed formulas

None of these is a count: above kappa n_sim is a bound, below it a recurrence
over bounds. The exact counts are ``theory.paper.sample_v_calls``. What this
file leaves out: which e and lambda to draw (``reproduce.figures``).
"""

from __future__ import annotations

import math

from smoothcruiser.theory.paper import alpha, beta, eta_2, value_bound
from smoothcruiser.theory.paper_ladder import PaperSetting, kappa


def height(setting: PaperSetting, e: float) -> float:
    """H(e) of the published code: not rounded up, and one more."""
    return 2.0 * math.log(e / value_bound(setting)) / math.log(setting.gamma) + 1.0


def sparse_sampling_log10(setting: PaperSetting, e: float, delta_prime: float) -> float:
    """Log10 of Prop. 1's formula with the published H, at any e."""
    h = height(setting, e)
    base = 2.0 * alpha(setting, delta_prime) / (e * e)
    return 0.5 * h * (h - 1.0) * math.log10(setting.gamma) + h * math.log10(base)


def simulated_log10(setting: PaperSetting, e: float, delta_prime: float) -> float:
    """Log10 of n_sim(e)."""
    return _simulated(setting, e, delta_prime, {})


def _simulated(
    setting: PaperSetting, e: float, delta_prime: float, known: dict[float, float]
) -> float:
    """Log10 of n_sim(e), computed once for each accuracy.

    The code's plain recursion visits some accuracies through several paths.
    """
    bar, root = kappa(setting), math.sqrt(setting.gamma)
    if e >= bar:
        return sparse_sampling_log10(setting, e, delta_prime)
    if e not in known:
        onward = _simulated(setting, e / root, delta_prime, known)
        inner = math.sqrt(bar * e / setting.gamma)
        query = _simulated(setting, inner, delta_prime, known)
        count = math.log10(beta(setting, delta_prime) / e)
        known[e] = log10_sum((0.0, onward, count + query))
    return known[e]


def lemma_1_log10(setting: PaperSetting, e: float, delta_prime: float) -> float:
    """Log10 of the published curve "theoretical bound".

    Below kappa it is Lemma 1 with Prop. 1's formula in place of n(kappa), above
    it the formula.
    """
    bar = kappa(setting)
    if e >= bar:
        return sparse_sampling_log10(setting, e, delta_prime)
    halvings = math.log(bar / (e * setting.gamma)) / -math.log(setting.gamma)
    base = 2.0 * math.log10(bar / e) + sparse_sampling_log10(setting, bar, delta_prime)
    return base + eta_2(setting, delta_prime) * math.log10(halvings)


def log10_sum(logs: tuple[float, ...]) -> float:
    """Log10 of the sum of 10^x over ``logs``."""
    top = max(logs)
    return top + math.log10(math.fsum(10.0 ** (x - top) for x in logs))
