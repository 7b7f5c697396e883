"""The paper's algorithm as data: the accuracies that Alg. 2 visits, and how often.

These are the accuracies below an accuracy e, with the exact recurrence of the
calls.

  e >= V_max   case 1   n(e) = 1                              (Alg. 2, line 3)
  kappa <= e   case 2   n(e) = 1 + K N(e) n(e/sqrt(gamma))    (Alg. 2, line 5)
  e < kappa    case 3   n(e) = 1 + n(e/sqrt(gamma)) + K N(zeta) n(zeta/sqrt(gamma)),
                        zeta = sqrt(kappa e)                  (lines 8 and 11)
  N(e) = ceil( 18 (r_max+M)^2 log(2K/delta')
               / ((1-gamma)^4 (1-sqrt(gamma))^2 e^2) )        (Alg. 3, line 2)

legend   symbol        name here
  gamma, K, L, M       fields of ``PaperSetting`` (public: ``discount``,
                       ``num_actions``, the operator's smoothness, sup |F(0)|)
  r_max                ``PaperSetting.r_max``, the largest |reward|: the paper's 1
  V_max                ``value_bound``: (r_max+M)/(1-gamma)
  kappa, N             ``kappa``, ``num_samples``
  delta'               ``delta_prime``, the failure probability of one estimateQ
  l                    ``log_term``: log(2K/delta')

Why r_max + M may stand for the printed 1 + M: Lemma 2 uses the 1 in three
places only, |R| <= 1, |V| <= (1+M)/(1-gamma) and 2|Q-hat| + M + 1 + gamma C <=
C; each holds with r_max in its place and C = 3(r_max+M)/(1-gamma)^2, for
rewards of any sign.

This file decides which accuracies are equal (12 significant digits) and when a
ladder is too long to write down (10^4 rungs). It leaves out every bound on
these counts, and the choice of delta' (``theory.paper_constants``).

Upper bounds on n(e), the calls of sampleV below an accuracy e, in closed form.

Prop. 1 holds from kappa upwards, Lemma 1 below.

Lemma 1 as printed is not a bound (see ``theory.paper_constants``); the same induction from a
wider base is: ``repaired_lemma_1_log10``. Everything is in log10, since these
numbers pass 10^1000. This file leaves out exact counts (``theory.paper_constants_ladder``) and
the consequences of both (``theory.paper_constants``).

The numbers of Lemma 2, from which the accuracy of a level follows.

  C      3 (r_max + M)/(1 - gamma)^2, which bounds every output       ``ceiling``
  t(N)   C sqrt(2 log(2K/delta')/N), the noise of one Q-hat           ``noise``
  K L    the factor of the squared error of a linearization           ``curve``
  V_h    (r_max + M)(1 - gamma^h)/(1 - gamma) >= |V|, h steps left    ``sup_value``

Written from the printed lemma and nothing else, so that a check by these
numbers does not rest on the ladder behind the table (``theory.paper_constants_ladder``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from smoothcruiser.errors import BrokenPromise, InvalidInput
from smoothcruiser.problem.facts import Facts

# rungs that are counted one by one; beyond, theory.paper gives bounds in log10
MAX_LEVELS = 10_000
# Accuracies closer than this (relatively) count as equal: 10^4 divisions by
# sqrt(gamma) lose up to 10^4 * 2^-53, about 1e-12.
SAME = 1e-12


@dataclass(frozen=True)
class PaperSetting:
    """The numbers that determine the paper's constants."""

    gamma: float
    K: int
    L: float
    M: float
    r_max: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.gamma < 1.0:
            raise InvalidInput(
                "The paper's constants need a discount in [0, 1), got "
                f"{self.gamma!r}; lower it or use the method 'smoothcruiser'."
            )
        if (
            self.K < 1
            or not self.L >= 0.0
            or not (0.0 <= self.M < math.inf and 0.0 <= self.r_max < math.inf)
        ):
            raise InvalidInput(
                "The paper's constants need K >= 1, L >= 0, and finite M, r_max "
                f">= 0; got {self}."
            )
        # 1e-100 and 1e100 keep 18 (r_max+M)^2 / ((1-gamma)^4 (1-sqrt(gamma))^2), at
        # most 1e-192 away by (1-gamma) >= 2^-53, a normal float.
        if self.r_max + self.M > 0.0 and not 1e-100 <= self.r_max + self.M <= 1e100:
            raise InvalidInput(
                "The paper's constants need rewards and M between 1e-100 and "
                f"1e100, got {self}; rescale the rewards."
            )

    @classmethod
    def of(cls, facts: Facts) -> PaperSetting:
        """Return the setting of a problem."""
        return cls(
            facts.discount,
            facts.num_actions,
            facts.smoothness,
            facts.regularizer_bound,
            facts.reward_bound,
        )

    @classmethod
    def entropy(cls, gamma: float, temperature: float, K: int) -> PaperSetting:
        """Return the printed setting, with rewards in [0, 1].

        L = 1/lambda and M = lambda log K.
        """
        return cls(gamma, K, 1.0 / temperature, temperature * math.log(K))


def one_minus_root(setting: PaperSetting) -> float:
    """Return 1 - sqrt(gamma), in a form that keeps its digits for gamma near 1."""
    return (1.0 - setting.gamma) / (1.0 + math.sqrt(setting.gamma))


def value_bound(setting: PaperSetting) -> float:
    """Return V_max = (r_max + M)/(1 - gamma), which bounds |V| in every state."""
    return (setting.r_max + setting.M) / (1.0 - setting.gamma)


def kappa(setting: PaperSetting) -> float:
    """Return (1 - sqrt(gamma))/(K L), the accuracy below which Alg. 2 linearizes.

    It is 0 for L = inf (plain max) and inf for L = 0 (linear F).
    """
    if setting.L == 0.0:
        return math.inf
    return one_minus_root(setting) / setting.K / setting.L


def log_term(setting: PaperSetting, delta_prime: float) -> float:
    """Return log(2K/delta')."""
    if not 0.0 < delta_prime <= 1.0:
        raise InvalidInput(f"delta' is a probability in (0, 1], got {delta_prime!r}.")
    return math.log(2.0 * setting.K) - math.log(delta_prime)


def coefficient(setting: PaperSetting) -> float:
    """Return 18 (r_max+M)^2 / ((1-gamma)^4 (1-sqrt(gamma))^2).

    This is N(e) without log(2K/delta')/e^2, and also 2
    C_gamma^2/(1-sqrt(gamma))^2.
    """
    ratio = (setting.r_max + setting.M) / (
        (1.0 - setting.gamma) ** 2 * one_minus_root(setting)
    )
    return 18.0 * ratio * ratio


def samples_at(setting: PaperSetting, e: float, ell: float) -> int:
    """Return N(e) for log(2K/delta') = ``ell``, as an exact integer.

    It is exact also where the float formula would overflow.
    """
    if e == math.inf:
        return 0  # kappa = inf: the linearization needs no Q-hat
    sample_coefficient = coefficient(setting)
    raw_count = sample_coefficient * ell / e / e
    if raw_count < 1e300:
        # A positive number that underflowed has the ceiling 1. Where all values are
        # 0, one sample shows it.
        return max(1, math.ceil(raw_count))
    return math.ceil(Fraction(sample_coefficient) * Fraction(ell) / Fraction(e) ** 2)


def num_samples(setting: PaperSetting, e: float, delta_prime: float) -> int:
    """Return N(e), the samples per action in Alg. 3, line 2.

    They give accuracy e with probability 1 - delta'.
    """
    _check_accuracy(e)
    return samples_at(setting, e, log_term(setting, delta_prime))


def _check_accuracy(e: float) -> None:
    if not e > 0.0:
        raise InvalidInput(
            f"An accuracy must be above 0, got {e!r}; give a positive epsilon."
        )


# --- the ladder ---------------------------------------------------------------


@dataclass(frozen=True)
class Rung:
    """One accuracy that Alg. 2 is called with.

    ``query`` and ``continuation`` are indices of rungs before it, -1 where
    there is none.
    """

    # 1 constant 0, 2 plug-in, 3 linearized: the order of Alg. 2, lines 2, 4, 7
    case: int
    accuracy: float  # e; inf for case 1
    zeta: float = math.inf  # the accuracy of its estimateQ
    query: int = -1  # zeta/sqrt(gamma)
    continuation: int = -1  # e/sqrt(gamma)
    remaining: int | None = None  # steps left before the horizon


Key = tuple[float, int | None]
TOP: Key = (math.inf, None)  # every call that returns 0 at once shares one rung


def _key(e: float, remaining: int | None, top: float) -> Key:
    """Return which rung the call (e, remaining) belongs to.

    Accuracies are rounded to 12 significant digits, so that roundings of one
    accuracy share a rung.
    """
    if remaining == 0 or e >= top * (1.0 - SAME):
        return TOP
    return float(f"{e:.11e}"), remaining


def child_accuracy(setting: PaperSetting, e: float) -> float:
    """Return e/sqrt(gamma); infinite for gamma = 0, where next states do not matter."""
    return e / math.sqrt(setting.gamma) if setting.gamma > 0.0 else math.inf


def ladder(
    setting: PaperSetting, e: float, remaining: int | None = None
) -> tuple[Rung, ...] | None:
    """Return every rung below and including sampleV(., e), children first and e last.

    It is None if there are more than ``MAX_LEVELS``. With a horizon, a rung is
    an accuracy together with its ``remaining`` steps. With 0 steps left V = 0,
    so the constant is exact.
    """
    _check_accuracy(e)
    value_cap, threshold = value_bound(setting), kappa(setting)
    start_key = _key(e, remaining, value_cap)
    if start_key != TOP and remaining is None and one_minus_root(setting) < 1e3 * SAME:
        return None  # rounding would merge neighbouring rungs
    rung_data: dict[Key, tuple[int, float, float, Key, Key]] = {}
    open_calls: list[tuple[Key, float]] = [(start_key, e)]
    while open_calls:
        key, accuracy = open_calls.pop()
        if key in rung_data or key == TOP:
            continue
        if len(rung_data) >= MAX_LEVELS:
            return None
        steps_after = None if key[1] is None else key[1] - 1
        case = 2 if accuracy >= threshold * (1.0 - SAME) else 3
        zeta = accuracy if case == 2 else math.sqrt(threshold) * math.sqrt(accuracy)
        query_accuracy, onward_accuracy = (
            child_accuracy(setting, zeta),
            child_accuracy(setting, accuracy),
        )
        query_key = _key(query_accuracy, steps_after, value_cap)
        onward_key = (
            _key(onward_accuracy, steps_after, value_cap) if case == 3 else TOP
        )
        rung_data[key] = (case, accuracy, zeta, query_key, onward_key)
        open_calls += [(query_key, query_accuracy), (onward_key, onward_accuracy)]
    return _order_rungs(rung_data)


def _order_rungs(
    rung_data: dict[Key, tuple[int, float, float, Key, Key]],
) -> tuple[Rung, ...]:
    """Return the rungs, children first: by steps left, then by decreasing accuracy.

    Both children of a rung have larger accuracies, as gamma < 1.
    """
    keys = sorted(rung_data, key=lambda key: (key[1] or 0, -key[0]))
    rung_index = {TOP: 0} | {key: i + 1 for i, key in enumerate(keys)}
    rungs = [Rung(1, math.inf)]
    for key in keys:
        case, e, zeta, query_key, onward_key = rung_data[key]
        rungs.append(
            Rung(
                case,
                e,
                zeta,
                rung_index[query_key],
                rung_index[onward_key] if case == 3 else -1,
                key[1],
            )
        )
    return tuple(rungs)


def exact_counts(
    setting: PaperSetting, rungs: Sequence[Rung], ell: float
) -> list[int]:
    """Return n of each rung, as exact integers, for log(2K/delta') = ``ell``."""
    counts: list[int] = []
    for rung in rungs:
        num_calls = 1
        if rung.case != 1:
            num_calls += (
                setting.K * samples_at(setting, rung.zeta, ell) * counts[rung.query]
            )
        if rung.case == 3:
            num_calls += counts[rung.continuation]
        counts.append(num_calls)
    return counts


def log_counts(
    setting: PaperSetting, rungs: Sequence[Rung], ell: float
) -> list[float]:
    """Return the natural logarithm of n of each rung, in floats.

    A search over delta' on 10^4 rungs can afford floats only.
    """
    sample_scale = coefficient(setting) * ell
    log_scale = math.log(sample_scale) if sample_scale > 0.0 else -math.inf
    log_k, exp, log = math.log(setting.K), math.exp, math.log
    rung_logs: list[float] = []
    for rung in rungs:
        if rung.case == 1:
            rung_logs.append(0.0)
            continue
        zeta = rung.zeta
        log_samples = log_scale - 2.0 * log(zeta) if zeta < math.inf else -math.inf
        # e^36 < 2^53: below, the ceiling is visible in a float (as ``samples_at`` has it)
        if -math.inf < log_samples < 36.0:
            log_samples = log(max(1, math.ceil(sample_scale / zeta / zeta)))
        query_log = log_k + log_samples + rung_logs[rung.query]
        onward_log = rung_logs[rung.continuation] if rung.case == 3 else -math.inf
        largest_log = max(0.0, query_log, onward_log)
        rung_logs.append(
            largest_log
            + log(
                exp(-largest_log)
                + exp(query_log - largest_log)
                + exp(onward_log - largest_log)
            )
        )
    return rung_logs


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


@dataclass(frozen=True)
class PaperConstants:
    """The numbers of Lemma 2, from the facts and delta'."""

    gamma: float
    size: float  # r_max + M
    log_scale: float  # log of 2 log(2K/delta')
    curve: float  # K L
    ceiling: float  # C
    operator: str  # its name, for sentences

    @classmethod
    def of(cls, facts: Facts, delta_prime: float | None) -> PaperConstants:
        """Return the constants of a problem.

        ``delta_prime`` is the failure probability of one Q-hat.
        """
        if delta_prime is None or not 0.0 < delta_prime <= 1.0:
            raise BrokenPromise(
                "A schedule of the paper needs delta_prime in (0, 1], got "
                f"{delta_prime!r}."
            )
        gamma = facts.discount
        if not 0.0 <= gamma < 1.0:
            raise BrokenPromise(
                f"The paper's analysis needs a discount in [0, 1), got {gamma!r}."
            )
        value_scale = facts.reward_bound + facts.regularizer_bound
        return cls(
            gamma=gamma,
            size=value_scale,
            log_scale=math.log(
                2.0 * (math.log(2.0 * facts.num_actions) - math.log(delta_prime))
            ),
            curve=facts.num_actions * facts.smoothness,
            ceiling=3.0 * value_scale / (1.0 - gamma) ** 2,
            operator=facts.operator.name,
        )

    def noise(self, samples: int) -> float:
        """Return t(N), also for an N beyond the floats."""
        return self.ceiling * math.exp(0.5 * (self.log_scale - math.log(samples)))

    def sup_value(self, remaining: int | None) -> float:
        """Return a bound on |V| with ``remaining`` steps left."""
        discounted_share = 1.0 if remaining is None else 1.0 - self.gamma**remaining
        return self.size / (1.0 - self.gamma) * discounted_share
