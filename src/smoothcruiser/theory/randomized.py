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
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.theory.correction import correction, plug_in_correction
from smoothcruiser.theory.ground import Ground
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
    return Terms(second_moments, np.zeros_like(second_moments), m, np.zeros(m.shape[1]))


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
