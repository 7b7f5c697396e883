"""Every constant, count and bound of the paper, as printed and as repaired.

There is one function for each (SmoothCruiser, NeurIPS 2019).

The printed theory: Prop. 1 bounds n(e) for e >= kappa, Lemma 1 for e < kappa,
Theorem 1 bounds the oracle calls, and the failure probability is at most delta'
times the number of calls. Three statements do not hold as printed, and are replaced:

  Theorem 1   writes N(eps) n(eps) for the count. Alg. 1 calls estimateQ(s, eps),
              which calls sampleV(., eps/sqrt(gamma)) for each of K actions: the
              count is K N(eps) n(eps/sqrt(gamma)) (``oracle_calls``), and with
              the root's own estimateQ the failure probability is
              delta' (1 + K N(eps) n(eps/sqrt(gamma))) (``failure_probability``).
  Lemma 1     its induction applies the claim for e <= kappa to children in
              (kappa, kappa/sqrt(gamma)], where it was never shown; the exact
              recurrence exceeds the printed bound there by orders of magnitude,
              even at e = kappa sqrt(gamma)^h. The same induction works from a
              base that covers that interval: ``repaired_lemma_1_log10``.
  N           the proofs drop the ceiling: 1 + K N(e) n <= 2 alpha/e^2 n holds in
              Prop. 1 because there the number under the ceiling is at least
              18 log 2; in Lemma 1 it fails for large kappa, and
              beta + (K+1) kappa in place of 2 beta always holds.

legend   symbol     name here
  C_gamma, zeta     ``c_gamma``, ``zeta``
  H                 ``depth`` (``theory.paper_ladder``, with all bounds on n)
  alpha, beta       ``alpha``, ``beta``
  eta_1, eta_2      ``log10_eta_1``, ``eta_2``
  n(e)              ``sample_v_calls`` (exact, ``theory.paper_constants_ladder``), bounds
                    ``proposition_1_log10``, ``lemma_1_log10``
  c_1 ... c_5       ``theorem_1_constants``
  delta'            ``delta_prime``; delta is the promise of the whole run

Counts are exact integers up to 10^4 rungs, upper bounds in log10 beyond. This
file leaves out schedules (``schedule.paper_schedule``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from smoothcruiser.errors import InvalidInput, Unpayable
from smoothcruiser.theory.paper_ladder import (
    LOG10,
    PaperSetting,
    Rung,
    bound_log10,
    check_lemma,
    check_smooth,
    child_accuracy,
    coefficient,
    depth,
    exact_counts,
    halvings,
    kappa,
    ladder,
    log_counts,
    log_term,
    num_samples,
    one_minus_root,
    proposition_1_log10,
    repaired_lemma_1_log10,
    samples_at,
    sparse_sampling,
    value_bound,
)

__all__ = [
    "Count",
    "PaperSetting",
    "TheoremConstants",
    "alpha",
    "beta",
    "c_gamma",
    "consistency_simulations",
    "delta_prime",
    "depth",
    "eta_2",
    "failure_probability",
    "kappa",
    "lemma_1_log10",
    "log10_eta_1",
    "log_delta_prime",
    "num_samples",
    "oracle_calls",
    "proposition_1_log10",
    "relaxation_bound",
    "repaired_lemma_1_log10",
    "sample_v_calls",
    "sparse_sampling",
    "theorem_1_constants",
    "theorem_1_log10",
    "value_bound",
    "zeta",
]

# A normal float with room for the products that it enters. A smaller one belongs to
# a price above 10^299.
SMALLEST_DELTA_PRIME = 1e-300


@dataclass(frozen=True)
class Count:
    """A number of calls, exact where it was counted rung by rung.

    Elsewhere ``exact`` is None and ``log10`` is an upper bound.
    """

    log10: float
    exact: int | None


# --- the printed constants ----------------------------------------------------


def c_gamma(setting: PaperSetting) -> float:
    """Return C_gamma = 3 (r_max+M)/(1-gamma)^2.

    It bounds every output of sampleV (Lemma 2, ii).
    """
    return 3.0 * (setting.r_max + setting.M) / (1.0 - setting.gamma) ** 2


def alpha(setting: PaperSetting, delta_prime: float) -> float:
    """Return alpha of Prop. 1: K N(e) e^2 without the ceiling."""
    return coefficient(setting) * setting.K * log_term(setting, delta_prime)


def beta(setting: PaperSetting, delta_prime: float) -> float:
    """Return beta of Lemma 1: K N(sqrt(kappa e)) e without the ceiling.

    It equals alpha/kappa.
    """
    check_smooth(setting, "beta")
    return alpha(setting, delta_prime) / kappa(setting)


def zeta(setting: PaperSetting, e: float) -> float:
    """Return the accuracy that sampleV(., e) requests from its estimateQ.

    It is e from kappa upwards and sqrt(kappa e) below. It is infinite where
    sampleV returns 0 at once.
    """
    if e >= value_bound(setting):
        return math.inf
    threshold = kappa(setting)
    return e if e >= threshold else math.sqrt(threshold) * math.sqrt(e)


def relaxation_bound(setting: PaperSetting) -> float:
    """Return M/(1-gamma) = lambda log K/(1-gamma), a bound on |V_lambda - V_0|.

    This is for entropy; for other operators see ``Facts.relaxation_bound``.
    """
    return setting.M / (1.0 - setting.gamma)


def consistency_simulations(
    setting: PaperSetting, e: float, failure: float = 0.2
) -> int:
    """Return N_sim of the paper's check: floor(C_gamma^2/(2 e^2) log(1/failure)).

    This is one-sided Hoeffding for outputs in [0, C_gamma].
    """
    ratio = c_gamma(setting) / e
    return math.floor(ratio * ratio / 2.0 * math.log(1.0 / failure))


# --- counts -------------------------------------------------------------------


def sample_v_calls(
    setting: PaperSetting, e: float, delta_prime: float, remaining: int | None = None
) -> Count:
    """Return n(e): the calls of sampleV that one sampleV(., e) makes, itself included.

    ``remaining`` is the number of steps left, if there is a horizon.
    """
    ell = log_term(setting, delta_prime)
    rungs = ladder(setting, e, remaining)
    if rungs is None:
        return Count(bound_log10(setting, e, ell), None)
    exact_count = exact_counts(setting, rungs, ell)[-1]
    return Count(math.log10(exact_count), exact_count)


def oracle_calls(
    setting: PaperSetting,
    epsilon: float,
    delta_prime: float,
    horizon: int | None = None,
) -> Count:
    """Return K N(eps) n(eps/sqrt(gamma)), the oracle calls of Alg. 1.

    The count is exact, whatever the oracle answers.
    """
    root_samples = setting.K * num_samples(setting, epsilon, delta_prime)
    child_calls = sample_v_calls(
        setting,
        child_accuracy(setting, epsilon),
        delta_prime,
        None if horizon is None else horizon - 1,
    )
    log10 = (
        math.log10(root_samples) if root_samples else -math.inf
    ) + child_calls.log10
    return Count(
        log10, None if child_calls.exact is None else root_samples * child_calls.exact
    )


# --- Lemma 1 as printed -------------------------------------------------------


def log10_eta_1(setting: PaperSetting, delta_prime: float) -> float:
    """Return log10 of eta_1 = kappa^2 n(kappa)."""
    check_smooth(setting, "eta_1")
    return (
        2.0 * math.log10(kappa(setting))
        + sample_v_calls(setting, kappa(setting), delta_prime).log10
    )


def eta_2(setting: PaperSetting, delta_prime: float) -> float:
    """Return log2(gamma/(1-gamma) 2 beta/kappa), the exponent of Lemma 1.

    It is -inf for gamma = 0.
    """
    check_smooth(setting, "eta_2")
    if setting.gamma == 0.0:
        return -math.inf
    return math.log2(
        setting.gamma
        / (1.0 - setting.gamma)
        * 2.0
        * beta(setting, delta_prime)
        / kappa(setting)
    )


def lemma_1_log10(setting: PaperSetting, e: float, delta_prime: float) -> float:
    """Return log10 of Lemma 1 as printed, which is not a bound: see the module head.

    The formula is eta_1 [log_{1/gamma}(kappa/(gamma e))]^eta_2 / e^2, for
    e <= kappa.
    """
    check_lemma(setting, e, "Lemma 1")
    power = eta_2(setting, delta_prime)
    if power < 0.0:
        raise InvalidInput(
            f"The paper's Lemma 1 needs eta_2 >= 0, got {power:.6g}; choose a "
            "smaller delta'."
        )
    return (
        log10_eta_1(setting, delta_prime)
        + power * math.log10(halvings(setting, e))
        - 2.0 * math.log10(e)
    )


# --- Theorem 1 ----------------------------------------------------------------


@dataclass(frozen=True)
class TheoremConstants:
    """The constants c_1 ... c_5 of Theorem 1.

    c_1 contains n(kappa), so its log10 is kept.
    """

    log10_c1: float
    c2: float
    c3: float
    c4: float
    c5: float


def theorem_1_constants(setting: PaperSetting, delta_prime: float) -> TheoremConstants:
    """The constants as printed (appendix, end of the proof of Theorem 1)."""
    check_lemma(setting, 0.0, "Theorem 1")
    gamma, root = setting.gamma, one_minus_root(setting)
    sample_coefficient = coefficient(setting)  # 18 (r_max+M)^2 / ((1-gamma)^4 root^2)
    kl = setting.K * setting.L
    log10_c1 = (
        math.log10(sample_coefficient)
        + 2.0 * math.log10(root / kl)
        + sample_v_calls(setting, kappa(setting), delta_prime).log10
    )
    c5 = (
        2.0
        * sample_coefficient
        * gamma
        * setting.K
        * (kl / root)
        * (kl / root)
        / (1.0 - gamma)
    )
    return TheoremConstants(
        log10_c1, 2.0 * setting.K, 1.0 / -math.log(gamma), root / (gamma * kl), c5
    )


def theorem_1_log10(
    setting: PaperSetting, epsilon: float, delta_prime: float
) -> float:
    """Return log10 of Theorem 1 as printed, for eps <= kappa.

    With c_1 ... c_5 of ``theorem_1_constants`` it is the log10 of c_1/eps^4
    log(c_2/delta') [c_3 log(c_4/eps)]^log2(c_5 log(c_2/delta')).
    """
    check_lemma(setting, epsilon, "Theorem 1")
    c = theorem_1_constants(setting, delta_prime)
    ell = math.log(c.c2 / delta_prime)
    power = math.log2(c.c5 * ell)
    return (
        c.log10_c1
        - 4.0 * math.log10(epsilon)
        + math.log10(ell)
        + power * math.log10(c.c3 * math.log(c.c4 / epsilon))
    )


# --- the promise --------------------------------------------------------------


def failure_probability(delta_prime: float, num_calls: int) -> Fraction:
    """Return delta' (1 + num_calls), exactly; it may exceed 1.

    At most one estimateQ fails for each call of sampleV, and the root has one
    of its own.
    """
    return Fraction(delta_prime) * (1 + num_calls)


def _log_price(
    setting: PaperSetting, epsilon: float, rungs: tuple[Rung, ...] | None, ell: float
) -> float:
    """Return the logarithm of K N(eps) n(eps/sqrt(gamma)).

    Where the ladder is too long (``rungs`` is None) it is that of an upper
    bound.
    """
    root_samples = setting.K * samples_at(setting, epsilon, ell)
    if root_samples == 0:
        return -math.inf
    if rungs is None:
        return math.log(root_samples) + LOG10 * bound_log10(
            setting, child_accuracy(setting, epsilon), ell
        )
    return math.log(root_samples) + log_counts(setting, rungs, ell)[-1]


@lru_cache(maxsize=64)
def log_delta_prime(
    setting: PaperSetting, epsilon: float, delta: float, horizon: int | None = None
) -> tuple[float, float]:
    """Return (log delta', log of the oracle calls at delta') for the promise delta.

    It is the largest delta' with delta' (1 + calls(delta')) <= delta, found by
    bisection in log delta'.

    calls grows like a power of log(1/delta'), so delta' (1 + calls) goes to 0
    with delta' and is above delta at delta' = delta: the bracket exists. (The
    ceilings make tiny steps, at which the product is not monotone. The delta'
    that is found is feasible, and 1e-12 above it is not.) Where the ladder is
    too long, calls is its upper bound: the delta' is then safe, but not the
    largest.
    """
    if not 0.0 < delta < 1.0:
        raise InvalidInput(f"delta must lie in (0, 1), got {delta!r}.")
    rungs = ladder(
        setting,
        child_accuracy(setting, epsilon),
        None if horizon is None else horizon - 1,
    )
    log_actions, log_delta = math.log(2.0 * setting.K), math.log(delta)

    def feasible(x: float) -> bool:
        log_price = _log_price(setting, epsilon, rungs, log_actions - x)
        return (
            x + max(log_price, 0.0) + math.log1p(math.exp(-abs(log_price)))
            <= log_delta
        )

    step = 1.0
    while not feasible(log_delta - step):
        step *= 2.0
    lower_log, upper_log = (
        log_delta - step,
        log_delta - step / 2.0 if step > 1.0 else log_delta,
    )
    while upper_log - lower_log > 1e-12 * abs(lower_log):
        middle = 0.5 * (lower_log + upper_log)
        lower_log, upper_log = (
            (middle, upper_log) if feasible(middle) else (lower_log, middle)
        )
    return lower_log, _log_price(setting, epsilon, rungs, log_actions - lower_log)


def delta_prime(
    setting: PaperSetting, epsilon: float, delta: float, horizon: int | None = None
) -> float:
    """Return the largest delta' that keeps the promise delta with the repaired count.

    It is checked in exact arithmetic where the count is exact.
    """
    log_value, log_price = log_delta_prime(setting, epsilon, delta, horizon)
    if log_value < math.log(SMALLEST_DELTA_PRIME):
        raise Unpayable(
            f"The paper's constants need delta' = 10^{log_value / LOG10:.1f} for "
            f"epsilon {epsilon:g} and delta {delta:g}, "
            f"at a price of about 10^{log_price / LOG10:.1f} oracle calls; raise "
            "epsilon or use the method 'smoothcruiser'."
        )
    log_step = 1e-12
    while True:
        value = math.exp(log_value)
        num_calls = oracle_calls(setting, epsilon, value, horizon).exact
        if num_calls is None or failure_probability(value, num_calls) <= Fraction(
            delta
        ):
            return value
        log_value -= log_step  # rounding of the logarithm put it slightly above
        log_step *= 2.0
