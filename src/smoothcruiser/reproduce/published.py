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
over bounds. The exact counts are ``theory.paper.sample_v_calls``. This file
leaves out the choice of e and lambda to draw (``reproduce.figures``).
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
    return _memoized_log10(setting, e, delta_prime, {})


def _memoized_log10(
    setting: PaperSetting, e: float, delta_prime: float, memo: dict[float, float]
) -> float:
    """Log10 of n_sim(e), computed once for each accuracy.

    The code's plain recursion visits some accuracies through several paths.
    """
    threshold, sqrt_gamma = kappa(setting), math.sqrt(setting.gamma)
    if e >= threshold:
        return sparse_sampling_log10(setting, e, delta_prime)
    if e not in memo:
        onward_log10 = _memoized_log10(setting, e / sqrt_gamma, delta_prime, memo)
        inner_accuracy = math.sqrt(threshold * e / setting.gamma)
        query_log10 = _memoized_log10(setting, inner_accuracy, delta_prime, memo)
        samples_log10 = math.log10(beta(setting, delta_prime) / e)
        memo[e] = log10_sum((0.0, onward_log10, samples_log10 + query_log10))
    return memo[e]


def lemma_1_log10(setting: PaperSetting, e: float, delta_prime: float) -> float:
    """Log10 of the published curve "theoretical bound".

    Below kappa it is Lemma 1 with Prop. 1's formula in place of n(kappa), above
    it the formula.
    """
    threshold = kappa(setting)
    if e >= threshold:
        return sparse_sampling_log10(setting, e, delta_prime)
    halvings = math.log(threshold / (e * setting.gamma)) / -math.log(setting.gamma)
    base_log10 = 2.0 * math.log10(threshold / e) + sparse_sampling_log10(
        setting, threshold, delta_prime
    )
    return base_log10 + eta_2(setting, delta_prime) * math.log10(halvings)


def log10_sum(logs: tuple[float, ...]) -> float:
    """Log10 of the sum of 10^x over ``logs``."""
    largest_log = max(logs)
    return largest_log + math.log10(math.fsum(10.0 ** (x - largest_log) for x in logs))
