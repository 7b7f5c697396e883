"""Effects of sampling noise on F: S1, S2, S4-S6 and S9-S11 of docs/theory.md.

Q-hat(a) is the mean of N independent samples, each in an interval of length R
and of variance at most sigma^2. Q-tilde = E Q-hat, and Q-tilde - Q has span at
most t over the actions. Two numbers matter; both are suprema over everything
that the facts leave open:

  phi = E F(Q-hat) - F(Q-tilde)
        the overestimate of a plug-in (``plug_in_noise``)
  E D = E [F(Q) - F(Q-hat) - <grad F(Q-hat), Q - Q-hat>]
        the loss of a rollout of grad F(Q-hat) (``bregman_noise``)

legend   symbol    name here
  N                ``n``
  R, sigma^2       ``spread``, ``variance``: of one sample
  t                ``bias_span``: gamma * w of the level that values next states
  lambda, K        ``OperatorRule.temperature``, ``OperatorRule.num_actions``
  u = R/(lambda N) how far one sample can move log grad F

Every function takes arrays. It is non-increasing in n and non-decreasing in the
other arguments, so upper bounds may stand for them. This file leaves out how a
level's moments follow from its children's (``moments``), and which N to take
(``schedule.compiler``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from smoothcruiser.operators import Operator
from smoothcruiser.operators.outward import sum_in_order

Array = Any  # a float or a float64 array; every function here broadcasts

# e**300 is finite in double precision, and too large to be the smallest bound
_EXPONENT_CAP = 300.0
# priors over at most this many actions are searched subset by subset (4096 sums)
_SUBSETS = 12


@dataclass(frozen=True)
class OperatorRule:
    """Properties of F over at most ``num_actions`` actions, for the noise lemmas."""

    temperature: float
    num_actions: int
    curvature: float
    uniform: bool  # the operator treats all actions alike
    drop: float  # sup of D(0, .): how far -Omega can lie below F(0)
    entropic: bool  # the Hessian is a covariance under grad F over lambda
    convex: bool  # D >= 0
    strong_convexity: float  # of Omega: the Hessian is at most 1 over it; 0: unknown
    bend: float  # second differences of grad F are at most bend span^2; inf: unknown

    @staticmethod
    def of(operator: Operator, num_actions: int) -> OperatorRule:
        """The rule of ``operator`` over at most ``num_actions`` actions."""
        return OperatorRule(
            temperature=operator.strength,
            num_actions=num_actions,
            curvature=operator.curvature(num_actions) if num_actions > 1 else 0.0,
            uniform=not operator.has_prior,
            drop=operator.omega_width(num_actions),
            entropic=operator.entropic,
            convex=operator.convex,
            strong_convexity=operator.strong_convexity(),
            bend=operator.policy_bend() if num_actions > 1 else 0.0,
        )


# --- one sample ---------------------------------------------------------------


def skew_probability(spread: Array, variance: Array) -> Array:
    """Return the p <= 1/2 with p(1-p) = sigma^2/R^2.

    The Bernoulli law of p, scaled by R, has both the range and the variance.
    """
    variance_ratio = np.where(
        spread > 0.0,
        np.minimum(variance / np.where(spread > 0.0, spread, 1.0) ** 2, 0.25),
        0.0,
    )
    return 2.0 * variance_ratio / (1.0 + np.sqrt(1.0 - 4.0 * variance_ratio))


def log_mgf(u: Array, p: Array) -> Array:
    """Return sup log E exp(u (Y - E Y)) over Y in [0, 1] with variance at most p(1-p).

    A Bernoulli law attains it (S4, the exact form of Bennett's bound): the sup
    over q <= p of log(1 - q + q e^u) - q u, which is concave in q with its
    maximum at 1/u - 1/(e^u - 1). Below u = 1e-3 the difference would cancel.
    There the larger p(1-p)(e^u - 1 - u) takes its place, in Taylor form with a
    remainder.
    """
    u = np.asarray(u)
    if u.size > 0 and u.min() >= 1e-3 and u.max() < 30.0:
        return np.minimum(_near_log_mgf(u, _worst_chance(u, p)), u * u / 8.0)
    safe_u = np.maximum(u, 1e-3)
    exp_minus = np.exp(-safe_u)
    q = _worst_chance(safe_u, p)
    near_form = _near_log_mgf(np.minimum(safe_u, 30.0), q)
    # the same with e^u taken out: no overflow at any u
    far_form = (1.0 - q) * safe_u + np.log(
        np.maximum(q + (1.0 - q) * exp_minus, 1e-300)
    )
    exact_form = np.where(safe_u < 30.0, near_form, np.where(q > 0.0, far_form, 0.0))
    series = (
        p
        * (1.0 - p)
        * 0.5
        * u
        * u
        * (1.0 + u / 3.0 + u * u / 12.0 * np.exp(np.minimum(u, 1.0)))
    )
    return np.minimum(np.where(u < 1e-3, series, exact_form), u * u / 8.0)


def _worst_chance(u: Array, p: Array) -> Array:
    """Return the q <= p at which a Bernoulli law is worst."""
    return np.minimum(p, 1.0 / u + np.exp(-u) / np.expm1(-u))


def _near_log_mgf(u: Array, q: Array) -> Array:
    """Return log(1 - q + q e^u) - q u for a moderate u."""
    return np.log1p(q * np.expm1(u)) - q * u


# --- the deterministic side: D over a box -------------------------------------


def bregman_cap(rule: OperatorRule, width: Array) -> Array:
    """Return a bound on sup D(Q, Q') over span(Q - Q') <= width.

    It is min(curv width^2/8, width), and for entropy and KL the exact lambda
    log_mgf.
    """
    if rule.num_actions == 1:
        return 0.0 * width
    if rule.entropic:
        return np.minimum(
            rule.temperature * log_mgf(width / rule.temperature, 0.5), width
        )
    return (
        width
        if math.isinf(rule.curvature)
        else np.minimum(rule.curvature * width * width / 8.0, width)
    )


def bregman_caps(rule: OperatorRule, *widths: Array) -> list[Array]:
    """Return ``bregman_cap`` of several widths of one shape, in one pass."""
    if not rule.entropic:
        return [bregman_cap(rule, width) for width in widths]
    return list(bregman_cap(rule, np.array(widths)))


def blind_loss(
    operator: Operator, min_actions: int, num_actions: int, box: float
) -> float:
    """Return sup D(Q, 0) over span(Q) <= box (S6).

    D is convex in Q, so the worst Q has every action at an end of the box.
    """
    if num_actions == 1 or box == 0.0:
        return 0.0
    rule = OperatorRule.of(operator, num_actions)
    loss_ceiling = float(bregman_cap(rule, np.float64(box)))
    # beyond 256 actions j/K is dense enough that the ceiling is the value
    if not rule.convex or num_actions > 256:
        return loss_ceiling
    worst_loss = 0.0
    for k in range(max(min_actions, 2), num_actions + 1):
        for weight in _vertex_weights(operator, rule, k, min_actions == num_actions):
            if rule.entropic:
                worst_loss = max(
                    worst_loss,
                    rule.temperature * _bernoulli_gap(box / rule.temperature, weight),
                )
            else:
                num_high = round(weight * k)
                q = [box] * num_high + [0.0] * (k - num_high)
                worst_loss = max(
                    worst_loss,
                    operator.value(q) - operator.value([0.0] * k) - weight * box,
                )
    return min(worst_loss, loss_ceiling) if worst_loss > 0.0 else loss_ceiling


def _bernoulli_gap(u: float, p: float) -> float:
    """Return log(1 - p + p e^u) - p u, without overflow."""
    if u > 30.0:
        return u * (1.0 - p) + math.log(p + (1.0 - p) * math.exp(-u))
    return math.log1p(p * math.expm1(u)) - p * u


def _vertex_weights(
    operator: Operator, rule: OperatorRule, k: int, all_legal: bool
) -> list[float]:
    """Return the masses that grad F(0) can give to a set of actions.

    They are j/k, or the subset sums of a prior. The list is empty where only
    the ceiling is safe.
    """
    if rule.uniform:
        return [j / k for j in range(1, k)]
    is_prior_known = rule.entropic and all_legal and k == rule.num_actions
    if not is_prior_known or k > _SUBSETS:
        return []
    prior = operator.weights(k)
    return [
        sum_in_order(prior[a] for a in subset)
        for subset_size in range(1, k)
        for subset in combinations(range(k), subset_size)
    ]


def regularizer_range(rule: OperatorRule, spread: Array) -> Array:
    """Return a bound on sup D(0, Q-hat) over span(Q-hat) <= spread.

    This is how far -Omega(grad F(Q-hat)) can lie below F(0).
    """
    return np.minimum(bregman_cap(rule, spread), rule.drop)


def bregman_ceiling(rule: OperatorRule, box: Array, spread: Array) -> Array:
    """Return a bound on sup D(Q, Q-hat) over span(Q) <= box, span(Q-hat) <= spread.

    For entropy D = lambda KL(grad F(Q-hat) | grad F(Q)) <= lambda max log
    1/grad F(Q) as well.
    """
    return np.minimum(bregman_cap(rule, box + spread), policy_ceiling(rule, box))


def policy_ceiling(rule: OperatorRule, box: Array) -> Array:
    """Return a bound on lambda max log 1/grad F(Q) over span(Q) <= box, or infinity."""
    if rule.entropic and rule.uniform and rule.num_actions > 1:
        t = rule.temperature
        return t * np.logaddexp(0.0, math.log(rule.num_actions - 1) + box / t)
    return math.inf


# --- the random side ----------------------------------------------------------


def plug_in_noise(
    rule: OperatorRule, n: Array, spread: Array, variance: Array
) -> Array:
    """Return phi, an upper bound on E F(Q-hat) - F(E Q-hat).

    It is the smallest of the bounds that hold for the operator.
    """
    k = rule.num_actions
    if k == 1:
        return 0.0 * (n + spread)
    mean_variance = variance / n
    # S1; sub-Gaussian maximum
    phi = np.minimum(
        np.sqrt(mean_variance) * ((k - 1) / math.sqrt(k)),
        spread * np.sqrt(math.log(k) / 2.0 / n),
    )
    # sub-gamma maximum
    phi = np.minimum(
        phi,
        np.sqrt(2.0 * math.log(k) * mean_variance) + spread * (math.log(k) / 3.0) / n,
    )
    if rule.entropic:
        t = rule.temperature
        # Jensen inside the log, S4
        phi = np.minimum(
            phi, t * n * log_mgf(spread / (t * n), skew_probability(spread, variance))
        )
        if k == 2:
            # S11: exact for two actions
            return np.minimum(phi, t * _log_cosh(np.sqrt(0.5 * mean_variance) / t))
        u = np.minimum(spread / (t * n), _EXPONENT_CAP / 2.0)
        squared_noise = (
            mean_variance / (t * t) * mean_variance
        )  # sigma^4 / (lambda N)^2
        smooth_bound = mean_variance * (
            0.5 + np.expm1(u) / 6.0
        ) + 2.0 * squared_noise * (1.0 / 12.0 + np.expm1(2.0 * u) / 20.0)
        return np.minimum(phi, (1.0 - 1.0 / k) / t * smooth_bound)  # S10
    if rule.strong_convexity > 0.0:
        return np.minimum(
            phi, (k - 1) / (2.0 * rule.strong_convexity) * mean_variance
        )  # S5
    # curv E span^2 / 8, S1
    return (
        phi
        if math.isinf(rule.curvature)
        else np.minimum(phi, rule.curvature * (k - 1) / 4.0 * mean_variance)
    )


def _log_cosh(x: Array) -> Array:
    """Return log cosh x, without overflow or cancellation.

    Below 1e-3 it is the upper bound x^2/2, which is larger by x^4/12.
    """
    return np.minimum(
        0.5 * x * x, np.where(x < 1e-3, math.inf, np.logaddexp(x, -x) - math.log(2.0))
    )


def bregman_noise(
    rule: OperatorRule, n: Array, spread: Array, variance: Array, bias_span: Array
) -> Array:
    """Return an upper bound on E D(Q, Q-hat).

    ``bias_span`` bounds the span of E Q-hat - Q.
    """
    k = rule.num_actions
    if k == 1:
        return 0.0 * (n + spread + bias_span)
    mean_variance = variance / n
    # Minkowski: the root of E span(Q - Q-hat)^2, S1
    root_span = bias_span + np.sqrt(2.0 * (k - 1) * mean_variance)
    loss = root_span
    if math.isinf(rule.curvature):
        return loss
    # E |h - mean h|^2 for h = Q - Q-hat: noise and bias do not mix (S9)
    centred_square = 0.25 * k * bias_span * bias_span + (k - 1) * mean_variance
    loss = np.minimum(
        loss,
        rule.curvature / 8.0 * np.minimum(root_span * root_span, 2.0 * centred_square),
    )
    if rule.strong_convexity > 0.0:
        loss = np.minimum(
            loss, centred_square / (2.0 * rule.strong_convexity)
        )  # S5, S9
    if rule.entropic:
        loss = np.minimum(
            loss, _swapped_bregman_noise(rule, n, spread, mean_variance, bias_span)
        )
    return loss


def _swapped_bregman_noise(
    rule: OperatorRule, n: Array, spread: Array, mean_variance: Array, bias_span: Array
) -> Array:
    """Return a bound on E D for entropy and KL that has no factor K (S2 and S9).

    The proof replaces single samples by independent copies.
    """
    t, k = rule.temperature, rule.num_actions
    u = np.minimum(spread / (t * n), _EXPONENT_CAP / 2.0)
    exp_growth = np.expm1(u)
    squared_noise = mean_variance / (t * t) * mean_variance
    pure_noise = (1.0 - 1.0 / k) * (
        mean_variance * (0.5 + exp_growth / 3.0)
        + 2.0 * squared_noise * (0.25 + np.expm1(2.0 * u) / 5.0)
    )
    cross_term = bias_span * mean_variance / t * (1.0 / 3.0 + exp_growth / 4.0)
    separate_bound = bias_span * bias_span / 8.0 + cross_term + pure_noise
    joint_bound = (bias_span / math.sqrt(8.0) + np.sqrt(pure_noise)) ** 2
    return np.minimum(separate_bound, joint_bound) / t


def plug_in_variance(
    rule: OperatorRule, n: Array, spread: Array, variance: Array
) -> Array:
    """Return an upper bound on Var F(Q-hat) by Efron-Stein.

    It is the smallest of K sigma^2/N, of R^2/N where F is convex, and of e^{2u}
    sigma^2/N for entropy and KL.
    """
    mean_variance = variance / n
    variance_bound = np.minimum(
        rule.num_actions * mean_variance, spread * spread / 4.0
    )
    if rule.convex:
        variance_bound = np.minimum(variance_bound, spread * spread / n)
    if rule.entropic:
        u = np.minimum(spread / (rule.temperature * n), _EXPONENT_CAP / 2.0)
        variance_bound = np.minimum(variance_bound, np.exp(2.0 * u) * mean_variance)
    return variance_bound
