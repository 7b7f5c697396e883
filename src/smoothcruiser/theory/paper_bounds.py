"""Upper bounds on n(e), the calls of sampleV below an accuracy e, in closed form.

Prop. 1 holds from kappa upwards, Lemma 1 below.

Lemma 1 as printed is not a bound (see ``theory.paper``); the same induction from a
wider base is: ``repaired_lemma_1_log10``. Everything is in log10, since these
numbers pass 10^1000. This file leaves out exact counts (``theory.paper_ladder``) and
the consequences of both (``theory.paper``).
"""

from __future__ import annotations

import math
from dataclasses import replace

from smoothcruiser.errors import InvalidInput
from smoothcruiser.theory.paper_ladder import (
    SAME,
    PaperSetting,
    coefficient,
    kappa,
    ladder,
    log_counts,
    log_term,
    value_bound,
)

LOG10 = math.log(10.0)


def sparse_sampling(setting: PaperSetting) -> PaperSetting:
    """Return the same setting with kappa = 0, where Alg. 2 never linearizes.

    The counts are then those of sparse sampling (Kearns et al.). The exact
    count is ``sample_v_calls`` of this setting. The paper's curve is
    ``proposition_1_log10``, extrapolated below kappa.
    """
    return replace(setting, L=math.inf)


def depth(setting: PaperSetting, e: float) -> int:
    """Return H(e) = ceil(2 log_gamma(e (1-gamma)/(r_max+M))), the rungs up to V_max.

    It is 0 above V_max, and 1 below it for gamma = 0.
    """
    value_cap = value_bound(setting)
    if e >= value_cap * (1.0 - SAME):
        return 0
    if setting.gamma == 0.0:
        return 1
    return max(
        1,
        math.ceil(
            2.0 * (math.log(value_cap) - math.log(e) - SAME) / -math.log(setting.gamma)
        ),
    )


def check_smooth(setting: PaperSetting, what: str) -> None:
    """Refuse a setting in which kappa is 0 or infinite."""
    if not (0.0 < setting.L < math.inf and 0.0 < kappa(setting) < math.inf):
        raise InvalidInput(
            f"The paper's {what} needs 0 < L < inf, got L = {setting.L!r}; plain "
            "max has Prop. 1 only, a linear F needs neither."
        )


def check_lemma(setting: PaperSetting, e: float, what: str) -> None:
    """Refuse an accuracy or a discount that Lemma 1 does not cover."""
    check_smooth(setting, what)
    if setting.gamma == 0.0:
        raise InvalidInput(
            f"The paper's {what} has logarithms to base 1/gamma and needs gamma > "
            "0; for gamma = 0 the count is exact anyway."
        )
    if e > kappa(setting) * (1.0 + SAME):
        raise InvalidInput(
            f"The paper's {what} is for accuracies up to kappa = "
            f"{kappa(setting):.6g}, got {e:.6g}; above it Prop. 1 applies."
        )


def proposition_1_log10(setting: PaperSetting, e: float, delta_prime: float) -> float:
    """Return log10 of Prop. 1's bound gamma^(H(H-1)/2) (2 alpha/e^2)^H on n(e).

    It bounds n(e) for e >= kappa. For smaller e it is the paper's curve of
    sparse sampling.
    """
    return _proposition_1(setting, e, log_term(setting, delta_prime))


def _proposition_1(setting: PaperSetting, e: float, ell: float) -> float:
    height = depth(setting, e)
    if height == 0:
        return 0.0
    log_base = math.log10(
        2.0 * coefficient(setting) * setting.K * ell
    ) - 2.0 * math.log10(e)
    log_shrink = (
        0.0
        if height == 1
        else 0.5 * height * (height - 1.0) * math.log10(setting.gamma)
    )
    return log_shrink + height * log_base


def halvings(setting: PaperSetting, e: float) -> float:
    """Return log_{1/gamma}(kappa/(gamma e)), which is 1 at kappa.

    Each query halves it, since log(kappa/(gamma sqrt(kappa e/gamma))) is half
    of log(kappa/(gamma e)).
    """
    return 1.0 + (math.log(kappa(setting)) - math.log(e)) / -math.log(setting.gamma)


def repaired_lemma_1_log10(
    setting: PaperSetting, e: float, delta_prime: float
) -> float:
    """Return log10 of A y(e)^p / e^2, a bound on n(e) for every e <= kappa.

    Here y = log_{1/gamma}(kappa/(gamma e)). The proof is the paper's induction.

    Step. For e < kappa both children of e lie below kappa/sqrt(gamma), and
    1 + K ceil(x) n <= (beta + (K+1) kappa)/e n for x = beta/(K e), e <= kappa.
    With B(e) = A y^p/e^2 and p >= 0: B(e/sqrt(gamma)) <= gamma B(e), and
    (beta + (K+1) kappa)/e B(query) = (beta + (K+1) kappa) gamma/kappa 2^-p
    B(e) <= (1-gamma) B(e) for the p below.

    Base. B >= n on [kappa, kappa/sqrt(gamma)], where y decreases from 1 to 1/2.
    n decreases in e, so 32 pieces, each with n of its left end and e, y of its
    right end, give an A that is large enough (within (1 + 1/32)^p gamma^(-1/32)
    of the least).
    """
    check_lemma(setting, e, "Lemma 1")
    return _lemma_1(setting, e, log_term(setting, delta_prime))


def _lemma_1(setting: PaperSetting, e: float, ell: float) -> float:
    threshold, gamma, num_pieces = kappa(setting), setting.gamma, 32
    per_call = (
        coefficient(setting) * setting.K * ell / threshold
        + (setting.K + 1.0) * threshold
    ) / threshold
    power = max(0.0, math.log2(gamma / (1.0 - gamma) * per_call))
    log10_a = -math.inf
    for j in range(num_pieces):
        left_factor, right_factor = (
            gamma ** (-j / (2.0 * num_pieces)),
            gamma ** (-(j + 1.0) / (2.0 * num_pieces)),
        )
        y = 1.0 - (j + 1.0) / (2.0 * num_pieces)
        log10_a = max(
            log10_a,
            _above_kappa(setting, threshold * left_factor, ell)
            + 2.0 * math.log10(threshold * right_factor)
            - power * math.log10(y),
        )
    return (
        log10_a
        + power * math.log10(max(1.0, halvings(setting, e)))
        - 2.0 * math.log10(e)
    )


def _above_kappa(setting: PaperSetting, e: float, ell: float) -> float:
    """Return log10 of n(e) for e >= kappa, or of an upper bound.

    It is counted up to 200 rungs. Beyond, it is Prop. 1, which is within 2^H of
    it.
    """
    # e >= kappa never linearizes; rounding of kappa must not matter
    plain_setting = sparse_sampling(setting)
    rungs = ladder(plain_setting, e) if depth(setting, e) <= 200 else None
    return (
        _proposition_1(setting, e, ell)
        if rungs is None
        else log_counts(plain_setting, rungs, ell)[-1] / LOG10
    )


def bound_log10(setting: PaperSetting, e: float, ell: float) -> float:
    """Return an upper bound on log10 n(e) in closed form.

    It is Prop. 1 from kappa upwards, the repaired Lemma 1 below, and 1 + H(e)
    for a linear F.
    """
    threshold = kappa(setting)
    if threshold == math.inf:
        return math.log10(1 + depth(setting, e))
    if e >= threshold * (1.0 - SAME):
        return _proposition_1(setting, e, ell)
    return _lemma_1(setting, e, ell)
