"""Facts from the counts of a pair alone: event E of ``law``, and complete supports.

Q_n, beta and the unseen mass are functions of the counts (docs/certified.md,
section 2b). With a declared least probability p of every outcome a support is
complete where the unseen mass is below p, where one more outcome would not fit,
and after a long run without a new outcome (Lemma R there).

legend   symbol        public name
  exp(-beta/n')        ``law_share``, rounded down
  p                    ``BoundRules.min_probability``; 0 where none is declared
"""

from __future__ import annotations

import ctypes
import math
import os
from functools import cache
from typing import Any

import numpy as np

from smoothcruiser.certified.bounds.base import UNIT, BoundRules, Outcomes
from smoothcruiser.jit.forms import interpret_as
from smoothcruiser.problem.model.tabular import Floats

# Q is a mixture: of laws on exactly m = 1, 2, ..., 8 labels, each with the predictive
# law of Krichevsky and Trofimov, (c_i + 1/2)/(n + m/2), and of a Chinese restaurant
# of concentration 1, c_i/(n + 1), for any number of outcomes. beta - log(1/alpha) is
# 0.6 for K = 1 and all n; at n = 1e4 7.1, 13.0 and 24.4 for K = 2, 3 and 5 even
# outcomes, where restaurants of concentrations 0.02 and 1 alone give 8.8, 17.3, 29.2.
LABEL_WEIGHTS: Floats = np.array([0.55, 0.2, 0.1, 0.05, 0.02, 0.02, 0.01, 0.01])
LABEL_LOGS: Floats = np.log(LABEL_WEIGHTS)
MOST_LABELS = len(LABEL_WEIGHTS)
RESTAURANT_LOG = math.log(0.04)
LOG_GAMMA_HALF = 0.5 * math.log(math.pi)
# Of the sum of |terms| of beta, beside the error of a sum of K of them. lgamma erred by
# 3e-16 of 1 + its value at most (20,000 arguments up to 1e15, against 50 digits).
BETA_ROUNDING = 1e-13
# A pair's alpha is delta p_k = 2 exp(-cost): 3/4 for the law, for both sides and all
# functions, and 1/8 for the bets of either side.
LAW_COST = math.log(4.0 / 3.0) - math.log(2.0)
BETS_COST = math.log(4.0)
# Where a least probability is declared there are no bets, and their quarter proves
# supports complete: alpha/4 = 2 exp(-cost)/4.
RUN_COST = math.log(4.0) - math.log(2.0)
# Margin of the two comparisons that make a support complete.
CERTAIN = 1e-9


# --- compiled -----------------------------------------------------------------


def log_gamma(x: float) -> float:
    """Return log Gamma(x): compiled code has that of the C library."""
    return math.lgamma(x)


@cache
def _c_library() -> Any:
    library = ctypes.CDLL(None if os.name == "posix" else "ucrtbase")
    library.lgamma.restype = ctypes.c_double
    library.lgamma.argtypes = [ctypes.c_double]
    return library


def interpreted_log_gamma(x: float) -> float:
    """Return ``log_gamma`` to the last bit, where Python's own function differs."""
    return float(_c_library().lgamma(x))


interpret_as(log_gamma, interpreted_log_gamma)


def log_predicted(g: Outcomes, pair: int) -> tuple[float, float]:
    """Return log Q_n of a pair's counts, and the sum of |terms| for its rounding."""
    n, num_outcomes = g.pairs["total"][pair], g.pairs["length"][pair]
    restaurant_sum, label_sum = 0.0, 0.0
    for e in range(g.pairs["start"][pair], g.pairs["start"][pair] + num_outcomes):
        count = g.entries.weight[e]
        restaurant_sum += log_gamma(count)
        label_sum += log_gamma(count + 0.5) - LOG_GAMMA_HALF
    restaurant_norm = log_gamma(n + 1.0)
    largest_log = RESTAURANT_LOG + restaurant_sum - restaurant_norm
    term_sum, scaled_sum = restaurant_sum + restaurant_norm, 1.0
    for m in range(num_outcomes, MOST_LABELS + 1):
        label_ways = 0.0  # log of m!/(m - K)!
        for factor in range(m - num_outcomes + 1, m + 1):
            label_ways += math.log(factor)
        log_total = log_gamma(0.5 * m + n)
        label_log = (
            LABEL_LOGS[m - 1] + label_ways + log_gamma(0.5 * m) - log_total + label_sum
        )
        term_sum = max(
            term_sum, abs(label_sum) + abs(log_total) + label_ways + 8.0 + num_outcomes
        )
        if label_log > largest_log:
            largest_log, scaled_sum = (
                label_log,
                1.0 + scaled_sum * math.exp(largest_log - label_log),
            )
        else:
            scaled_sum += math.exp(label_log - largest_log)
    return largest_log + math.log(scaled_sum), term_sum


def long_run(cost: float, num_outcomes: int, least_probability: float) -> float:
    """The run of samples without a new outcome that proves a support complete.

    It is log(K (K + 1) / alpha) / -log(1 - p), K the ``num_outcomes``, with a quarter
    of the pair's share: that of the bets, which are not made where p is declared.
    """
    log_chance = math.log(num_outcomes * (num_outcomes + 1.0)) + cost + RUN_COST
    return (
        (1.0 + CERTAIN)
        * log_chance
        / -math.log1p(-least_probability * (1.0 - CERTAIN))
    )


def refresh(g: Outcomes, pair: int, rules: BoundRules) -> None:
    """Bring beta, the share and the mark of a complete support up to date.

    Counts only grow, so they are those of the last time where their sum and their
    number are. ``law_complete`` is 1 where the support is complete; it stays so
    until a further outcome is seen, which disproves ``min_probability`` (or E
    failed): -1 from then on.
    """
    n, num_outcomes = g.pairs["total"][pair], g.pairs["length"][pair]
    if g.pairs["law_total"][pair] == n and g.pairs["law_length"][pair] == num_outcomes:
        return
    if (
        g.pairs["law_complete"][pair] == 1
        and g.pairs["law_length"][pair] < num_outcomes
    ):
        g.pairs["law_complete"][pair] = -1
    if g.pairs["law_length"][pair] < num_outcomes:
        g.pairs["law_found"][pair] = n
    repeats, share, beta = n - num_outcomes, 0.0, 0.0
    if repeats >= 1.0:
        log_predictive, term_sum = log_predicted(g, pair)
        beta = g.pairs["cost"][pair] + LAW_COST - log_predictive
        for e in range(g.pairs["start"][pair], g.pairs["start"][pair] + num_outcomes):
            repeat_count = g.entries.weight[e] - 1.0
            if repeat_count > 0.0:
                term = repeat_count * math.log(repeat_count / repeats)
                beta += term
                term_sum -= term
        relative_error = BETA_ROUNDING + 4.0 * num_outcomes * UNIT
        beta = max(
            0.0, beta + relative_error * (1.0 + g.pairs["cost"][pair] + term_sum)
        )
        decay = beta / repeats
        share = (
            math.exp(-decay) * (1.0 - (8.0 + decay) * UNIT) if decay < 64.0 else 0.0
        )
    least_probability = rules.min_probability
    if (
        least_probability > 0.0
        and g.pairs["law_complete"][pair] == 0
        and (
            1.0 - share < least_probability * (1.0 - CERTAIN)
            or (num_outcomes + 1) * least_probability > 1.0 + CERTAIN
            or n - g.pairs["law_found"][pair]
            >= long_run(g.pairs["cost"][pair], num_outcomes, least_probability)
        )
    ):
        g.pairs["law_complete"][pair] = 1
    g.pairs["law_beta"][pair], g.pairs["law_share"][pair] = beta, share
    g.pairs["law_total"][pair], g.pairs["law_length"][pair] = n, num_outcomes


# --- plain --------------------------------------------------------------------


def missing(pairs: Any, least_probability: float) -> Floats:
    """The samples after which the supports of pairs will be complete, if all was seen."""
    num_outcomes = np.maximum(pairs["length"].astype(np.float64), 1.0)
    cost = pairs["cost"]
    # as in ``long_run``: least may be 1
    log_decay = -math.log1p(-least_probability * (1.0 - CERTAIN))
    run_lengths = (
        np.log(num_outcomes * (num_outcomes + 1.0)) + cost + RUN_COST
    ) / log_decay
    samples_missing = np.ceil((1.0 + 4.0 * CERTAIN) * run_lengths) - (
        pairs["total"] - pairs["law_found"]
    )
    is_done = (pairs["law_complete"] != 0) | (pairs["cost"] == 0.0)
    return np.where(is_done, 0.0, np.maximum(samples_missing, 1.0))
