"""Moments of randomized levels (docs/randomized.md).

A rollout with N samples loses E D(N), and its noise falls as 1/N. A randomized rollout
has the mean of a rollout with 2^J N0 samples, and makes about N0:

  base         a rollout with N0 samples
  correction   with probability p_j, one estimate of the difference between rollouts
               of 2^j N0 and 2^(j-1) N0 samples, divided by p_j; j = 1, ..., J

The sum telescopes, so the bias is that of 2^J N0 samples. The cost is variance: the
sum over j of e_j/p_j, with e_j the second moment of a correction (``correction``).
A randomized plug-in has the same with F in the place of the rollout.

legend   symbol    name
  p_j              ``rungs``, shape (J, M): one row per rung, one column per candidate
  N0               ``samples``
  e_j              ``Terms.second``, shape (J, P, M)

This file leaves out the choice of p_j (``schedule.compiler``).

Second moments of one correction of a randomized level (docs/randomized.md, R1-R4).

A correction compares a policy (or a value) at the average of two independent means
of m samples per action with those at the two means. Its mean is the difference
between a level with 2m and one with m samples. Three quantities enter:

  Delta   span(q' - q''), the distance of the two means
  B       1/2 D(q-bar, q') + 1/2 D(q-bar, q''), between 0 and Delta^2/(32 lambda)
  delta   pi(q-bar) - 1/2 pi(q') - 1/2 pi(q''); its 1-norm is of second order in
          Delta where the policy has a second derivative

legend   symbol       name here
  R, sigma^2          ``spread``, ``variance``: of one sample of the query; those of
                      all actions lie in one interval of this length
  E Delta^2, ^4, ^6   ``Spans.second``, ``Spans.fourth``, ``Spans.sixth``
  curv                ``OperatorRule.curvature``
  bend                ``OperatorRule.bend``: |delta|_1 <= bend Delta^2

Every function takes arrays, is non-increasing in m and non-decreasing in the other
arguments, so upper bounds may stand for them. This file leaves out the moments of a
level (``randomized``), and how often a correction is made (``schedule.compiler``).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.moments import (
    Backup,
    Moments,
    one_sided,
    shift_moments,
    variance_of_mean,
)
from smoothcruiser.theory.noise import (
    OperatorRule,
    bregman_caps,
    bregman_noise,
    plug_in_noise,
    plug_in_variance,
    policy_ceiling,
)

Array = Any


class Terms(NamedTuple):
    """Second moments of the corrections of a level: one row per rung.

    ``second`` bounds the second moment, and ``passed`` is the share of the
    continuation's own second moment in it (0 for a plug-in).
    """

    second: Array  # (J, P, M)
    passed: Array  # (J, P, M)
    samples: Array  # (J, M): m of one of the two means
    baseline: Array  # (M,)


def _rung_samples(samples: Array, rungs: int) -> Array:
    """Return m_j = 2^(j-1) N0, shape (J, M)."""
    n = np.atleast_1d(np.asarray(samples, dtype=np.float64))
    return n[None, :] * 2.0 ** np.arange(rungs)[:, None]


def rollout_terms(
    base: Ground, query: Backup, samples: Array, onward: Backup, rungs: int
) -> Terms:
    """Return the second moments of the corrections of a rollout (R3)."""
    m = _rung_samples(samples, rungs)
    root_moments = correction(base.rule, m[:, None, :], query.spread, query.variance)
    baseline, around_moment = onward.center_and_moment
    second_moments = root_moments.second(
        onward.bias_span + query.bias_span, around_moment
    )
    return Terms(
        second_moments,
        root_moments.policy**2 + np.zeros(second_moments.shape),
        m,
        baseline,
    )


def plug_in_terms(base: Ground, query: Backup, samples: Array, rungs: int) -> Terms:
    """Return the second moments of the corrections of a plug-in (R4)."""
    m = _rung_samples(samples, rungs)
    root_moments = plug_in_correction(
        base.rule, m[:, None, :], query.spread, query.variance
    )
    second_moments = root_moments**2
    return Terms(
        second_moments, np.zeros_like(second_moments), m, np.zeros(m.shape[1])
    )


def _correction_variance(terms: Terms, rungs: Array) -> Array:
    """Return the sum of e_j/p_j, shape (P, M); infinite where a needed p_j is 0.

    A chance of -0.0 is 0 too: its sign would make the sum minus infinity.
    A second moment that is no number promises nothing, so the sum is infinite.
    """
    p = np.abs(rungs[:, None, :])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rung_terms = np.where(terms.second <= 0.0, 0.0, terms.second / p)
    return np.sum(np.where(np.isnan(rung_terms), np.inf, rung_terms), axis=0)


def _noises(
    rule: OperatorRule,
    samples: tuple[Array, Array],
    query: Backup,
    bias_spans: tuple[Array, Array],
) -> Array:
    """Return E D for every bias span and number of samples.

    The shape is (spans, samples, P, M).
    """
    n = np.array(np.broadcast_arrays(*samples))[:, None, :]
    span_column = np.array(np.broadcast_arrays(*bias_spans))[:, None]
    return bregman_noise(rule, n, query.spread, query.variance, span_column)


def random_rollout(
    base: Ground,
    query: Backup,
    samples: Array,
    onward: Backup,
    remaining: int | None,
    rungs: Array,
    terms: Terms,
) -> Moments:
    """Return the moments of a rollout with corrections of chance ``rungs``, (J, M).

    Its mean is that of a rollout with 2^J N0 samples.
    """
    n0 = np.asarray(samples, dtype=np.float64)
    last_samples = n0 * 2.0 ** len(rungs)
    rule, spread, joint_span = (
        base.rule,
        query.spread,
        onward.bias_span + query.bias_span,
    )
    # as ``rollout_loss`` and ``regularizer_range`` have them, in one pass
    q_span = base.q_box(remaining)
    span_cap, wider_cap, omega_drop = bregman_caps(
        rule,
        *np.broadcast_arrays(
            q_span + spread, q_span + onward.bias_span + spread, spread
        ),
    )
    loss_ceiling = np.minimum(span_cap, base.policy_ceiling(remaining))
    wider_ceiling = np.minimum(
        wider_cap, policy_ceiling(rule, q_span + onward.bias_span)
    )
    omega_drop = np.minimum(omega_drop, rule.drop)
    noise_losses = _noises(
        rule, (last_samples, n0), query, (query.bias_span, joint_span)
    )
    (loss, first_loss), (lost, won) = (
        np.minimum(losses, largest_loss)
        for losses, largest_loss in zip(
            noise_losses, (loss_ceiling, wider_ceiling), strict=True
        )
    )
    correction_variance = _correction_variance(terms, rungs)
    loss_down, loss_up = one_sided(base, loss, above=False)
    drop_down, drop_up = one_sided(base, omega_drop, above=False)
    # the corrections add -E D(last) to E D(first) in the mean, about E xi''
    lost_down, lost_up = one_sided(base, lost, above=False)
    won_down, won_up = one_sided(base, won, above=True)
    num_queries = n0 + 2.0 * np.sum(rungs * terms.samples, axis=0)
    log_calls = np.logaddexp(
        np.log(num_queries * base.facts.num_actions) + query.log_calls,
        np.log1p(np.sum(rungs, axis=0)) + onward.log_calls,
    )
    rare = onward.rare + correction_variance
    state_spread = onward.spread + drop_down + drop_up
    mean_variance = variance_of_mean(base, first_loss, loss_ceiling, onward)
    log_calls = log_calls + 0.0 * loss[0]
    moments = Moments(
        bias_low=onward.bias_low - loss_down,
        bias_high=onward.bias_high + loss_up,
        low=onward.low + base.offset_low - drop_down - lost_down - won_down,
        high=onward.high + base.offset_high + drop_up + lost_up + won_up,
        variance=np.minimum(
            state_spread**2 / 4.0 + rare,
            onward.variance + mean_variance + correction_variance,
        ),
        log_calls=log_calls,
        shift=np.zeros(log_calls.shape),
        rare=rare,
        baseline=terms.baseline + 0.0 * loss[0],
    )
    return shift_moments(base, moments, None)


def random_plug_in(
    base: Ground, query: Backup, samples: Array, rungs: Array, terms: Terms
) -> Moments:
    """Return the moments of F(Q-hat) with corrections of chance ``rungs``, (J, M)."""
    n0 = np.asarray(samples, dtype=np.float64)
    rule = base.rule
    first_noise, last_noise = (
        plug_in_noise(rule, n, query.spread, query.variance)
        for n in (n0, n0 * 2.0 ** len(rungs))
    )
    noise_down, noise_up = one_sided(base, last_noise, above=True)
    # the corrections take E F(N0) - E F(2^J N0), at most phi(N0) of either sign
    low_part, high_part = one_sided(base, first_noise, above=False)
    num_queries = n0 + 2.0 * np.sum(rungs * terms.samples, axis=0)
    log_calls = np.log(num_queries * base.facts.num_actions) + query.log_calls
    correction_variance = _correction_variance(terms, rungs)
    moments = Moments(
        bias_low=query.bias_low - noise_down,
        bias_high=query.bias_high + noise_up,
        low=query.low + base.offset_low - low_part,
        high=query.high + base.offset_high + high_part,
        variance=plug_in_variance(rule, n0, query.spread, query.variance)
        + correction_variance,
        log_calls=log_calls + 0.0 * last_noise[0],
        shift=np.zeros_like(log_calls + 0.0 * last_noise[0]),
        rare=correction_variance,
        baseline=np.zeros_like(log_calls + 0.0 * last_noise[0]),
    )
    return shift_moments(base, moments, None)


class Spans(NamedTuple):
    """Bounds on E Delta^2, E Delta^4 and E Delta^6."""

    second: Array
    fourth: Array
    sixth: Array


def span_moments(actions: int, m: Array, spread: Array, variance: Array) -> Spans:
    """Return bounds on the even moments of span(q' - q''), each a mean of ``m``.

    They hold for span(q' + q'' - 2 E q') as well (R1). Two actions: Delta is the size
    of one sum of 4m centred terms. More: span^2 <= 2 |d - mean d|^2 for the fourth
    moment, span^4 <= 8 sum d^4 and span^6 <= 32 sum d^6.
    """
    k = actions
    v, squared_spread = variance, spread * spread
    second = 4.0 * (k - 1) * v / m
    # the fourth cumulant of a sample is at most v (R^2 - 6 v)
    fourth_cumulant = v * (squared_spread - 6.0 * v)
    fourth = (
        16.0 * (k * k - 1) * v * v / m**2
        + 8.0 * (k - 1) ** 2 / k * fourth_cumulant / m**3
    )
    if k > 2:
        action_fourth = 12.0 * v * v / m**2 + 2.0 * fourth_cumulant / m**3
        fourth = np.minimum(fourth, 8.0 * k * action_fourth)
        return Spans(
            second, fourth, 32.0 * k * _sixth(2.0 * m, v, squared_spread) / m**6
        )
    return Spans(second, fourth, _sixth(4.0 * m, v, squared_spread) / m**6)


def _sixth(n: Array, variance: Array, square: Array) -> Array:
    """Return a bound on E S^6 for a sum S of ``n`` independent centred terms.

    Each lies in an interval of length sqrt(``square``). Third and fourth moments are
    largest at a variance of a sixth of ``square``, so beyond they stay there.
    """
    v = np.minimum(variance, square / 6.0)
    fourth_moment = v * (square - 3.0 * v)
    squared_third = v * v * np.maximum(square - 4.0 * v, 0.0)  # the square of it
    num_pairs = n * (n - 1.0)
    return (
        n * fourth_moment * square
        + num_pairs * (15.0 * fourth_moment * variance + 10.0 * squared_third)
        + 15.0 * num_pairs * (n - 2.0) * variance**3
    )


class Correction(NamedTuple):
    """The components of a correction of a rollout, as roots of second moments.

    ``own`` bounds that of B - <delta, n-bar> and ``policy`` that of |delta|_1.
    """

    own: Array
    policy: Array

    def second(self, apart: Array, around: Array) -> Array:
        """Return a bound on the second moment of the correction (R3).

        ``apart`` bounds the span of E xi'' - E xi over actions, and ``around`` the
        second moment of the continuation's xi'' about the baseline.
        """
        mean_root = self.own + 0.5 * apart * self.policy
        return mean_root * mean_root + around * self.policy * self.policy


def correction(
    rule: OperatorRule, m: Array, spread: Array, variance: Array
) -> Correction:
    """Return bounds on a correction over means of ``m`` samples.

    F must be convex with a finite curvature.
    """
    unit, spans = _in_units(rule, m, spread, variance)
    has_two_actions = rule.num_actions == 2
    slope = (
        rule.curvature * unit / (8.0 if has_two_actions else 4.0)
    )  # |delta| <= slope Delta
    policy_cap = 1.0 if has_two_actions else 2.0  # |delta| <= most
    e2, e4 = spans.second, spans.fourth
    policy_root = np.minimum(slope * np.sqrt(e2), policy_cap)
    # |delta| span(n-bar): E Delta^2 span(2 n-bar)^2 <= e4, E span(2 n-bar)^2 <= e2
    product_root = np.minimum(slope * np.sqrt(e4), policy_cap * np.sqrt(e2))
    if rule.bend < math.inf:
        bend = rule.bend * unit * unit
        policy_root = np.minimum(policy_root, bend * np.sqrt(e4))
        product_root = np.minimum(product_root, bend * np.sqrt(spans.sixth))
    own_root = _bracket(rule, unit, m, spread, variance, spans) + 0.25 * product_root
    return Correction(unit * own_root, policy_root)


def plug_in_correction(
    rule: OperatorRule, m: Array, spread: Array, variance: Array
) -> Array:
    """Return a bound on the root of the second moment of B, or of a plug-in's own."""
    unit, spans = _in_units(rule, m, spread, variance)
    return unit * _bracket(rule, unit, m, spread, variance, spans)


def _in_units(
    rule: OperatorRule, m: Array, spread: Array, variance: Array
) -> tuple[Array, Spans]:
    """Return a unit near the spread, and the spans in it.

    The sixth power of a spread is no float above 1e51, and below 1e-53 it would be 0,
    which is no bound. The unit is a power of 2, so nothing is rounded by it.
    """
    unit = np.ldexp(1.0, np.frexp(spread)[1])
    return unit, span_moments(
        rule.num_actions, m, spread / unit, variance / unit / unit
    )


def _bracket(
    rule: OperatorRule,
    unit: Array,
    m: Array,
    spread: Array,
    variance: Array,
    spans: Spans,
) -> Array:
    """Return a bound on the root of the second moment of either bracket, in units.

    Both lie between 0 and min(curv Delta^2/32, Delta/4) (R2), and for entropy below
    M d'Pd/(8 lambda) as well, M the largest chance of an action (R2a).
    """
    linear_bound = 0.25 * np.sqrt(spans.second)
    if np.any(np.isinf(rule.curvature)):
        return linear_bound
    curvature = rule.curvature * unit
    root_bound = np.minimum(linear_bound, curvature / 32.0 * np.sqrt(spans.fourth))
    if not (rule.entropic and rule.uniform and rule.num_actions > 2):
        return root_bound
    even_fourth = _even_fourth(
        rule.num_actions, m, spread / unit, variance / unit / unit
    )
    chance_cap = largest_chance(rule, spread)
    return np.minimum(root_bound, curvature / 16.0 * chance_cap * np.sqrt(even_fourth))


def largest_chance(rule: OperatorRule, spread: Array) -> Array:
    """Return the largest chance of one of K actions with values of span ``spread``."""
    with np.errstate(under="ignore"):
        other_weight = (rule.num_actions - 1) * np.exp(-spread / rule.temperature)
    return 1.0 / (1.0 + other_weight)


def _even_fourth(actions: int, m: Array, spread: Array, variance: Array) -> Array:
    """Return a bound on 4 E (d'Pd)^2, which times M^2 also holds for fewer actions."""
    k, v = actions, variance
    fourth_cumulant = v * (spread * spread - 6.0 * v)
    tail_share = np.where(
        fourth_cumulant > 0.0, 1.0 / 6.0, (k - 1.0) / (k * (k + 1.0))
    )
    return (k * k - 1.0) * (
        16.0 * v * v / m**2 + 8.0 * tail_share * fourth_cumulant / m**3
    )
