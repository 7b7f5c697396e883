"""Moments of randomized levels (docs/randomized.md).

A rollout with N samples loses E D(N), whose noise falls as 1/N. A randomized rollout
has the mean of a rollout with 2^J N0 samples, and makes about N0:

  base         a rollout with N0 samples
  correction   with probability p_j, one estimate of the difference between rollouts
               of 2^j N0 and 2^(j-1) N0 samples, divided by p_j; j = 1, ..., J

The sum telescopes, so the bias is that of 2^J N0 samples. What it costs is variance:
the sum over j of e_j/p_j, with e_j the second moment of a correction (``correction``).
A randomized plug-in has the same with F in the place of the rollout.

legend   symbol    name
  p_j              ``rungs``, shape (J, M): one row per rung, one column per candidate
  N0               ``samples``
  e_j              ``Terms.second``, shape (J, P, M)

What this file leaves out: the choice of p_j (``schedule.compiler``).
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
    shifted,
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
    """What the corrections of a level are: one row per rung.

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
    parts = correction(base.rule, m[:, None, :], query.spread, query.variance)
    middle, about = onward.centered
    second = parts.second(onward.tilt + query.tilt, about)
    return Terms(second, parts.policy**2 + np.zeros(second.shape), m, middle)


def plug_in_terms(base: Ground, query: Backup, samples: Array, rungs: int) -> Terms:
    """Return the second moments of the corrections of a plug-in (R4)."""
    m = _rung_samples(samples, rungs)
    root = plug_in_correction(base.rule, m[:, None, :], query.spread, query.variance)
    second = root**2
    return Terms(second, np.zeros_like(second), m, np.zeros(m.shape[1]))


def _added(terms: Terms, rungs: Array) -> Array:
    """Return the sum of e_j/p_j, shape (P, M); infinite where a needed p_j is 0.

    A chance of -0.0 is 0 too: without its sign, which would make the sum minus infinity.
    A second moment that is no number promises nothing, so the sum is infinite.
    """
    p = np.abs(rungs[:, None, :])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        each = np.where(terms.second <= 0.0, 0.0, terms.second / p)
    return np.sum(np.where(np.isnan(each), np.inf, each), axis=0)


def _noises(
    rule: OperatorRule,
    samples: tuple[Array, Array],
    query: Backup,
    tilts: tuple[Array, Array],
) -> Array:
    """Return E D for every tilt and number of samples: shape (tilt, samples, P, M)."""
    n = np.array(np.broadcast_arrays(*samples))[:, None, :]
    tilt = np.array(np.broadcast_arrays(*tilts))[:, None]
    return bregman_noise(rule, n, query.spread, query.variance, tilt)


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
    last = n0 * 2.0 ** len(rungs)
    rule, spread, apart = base.rule, query.spread, onward.tilt + query.tilt
    # as ``rollout_loss`` and ``regularizer_range`` have them, in one pass
    box = base.q_box(remaining)
    cap, wider, fall = bregman_caps(
        rule, *np.broadcast_arrays(box + spread, box + onward.tilt + spread, spread)
    )
    ceiling = np.minimum(cap, base.policy_ceiling(remaining))
    top = np.minimum(wider, policy_ceiling(rule, box + onward.tilt))
    fall = np.minimum(fall, rule.drop)
    noises = _noises(rule, (last, n0), query, (query.tilt, apart))
    (loss, first), (lost, won) = (
        np.minimum(noise, most)
        for noise, most in zip(noises, (ceiling, top), strict=True)
    )
    added = _added(terms, rungs)
    down, up = one_sided(base, loss, above=False)
    fall_down, fall_up = one_sided(base, fall, above=False)
    # what the corrections add in the mean: -E D(last) to E D(first), about E xi''
    lost_down, lost_up = one_sided(base, lost, above=False)
    won_down, won_up = one_sided(base, won, above=True)
    asked = n0 + 2.0 * np.sum(rungs * terms.samples, axis=0)
    calls = np.logaddexp(
        np.log(asked * base.facts.num_actions) + query.log_calls,
        np.log1p(np.sum(rungs, axis=0)) + onward.log_calls,
    )
    rare = onward.rare + added
    state = onward.spread + fall_down + fall_up
    noise = variance_of_mean(base, first, ceiling, onward)
    calls = calls + 0.0 * loss[0]
    moments = Moments(
        bias_low=onward.bias_low - down,
        bias_high=onward.bias_high + up,
        low=onward.low + base.offset_low - fall_down - lost_down - won_down,
        high=onward.high + base.offset_high + fall_up + lost_up + won_up,
        variance=np.minimum(state**2 / 4.0 + rare, onward.variance + noise + added),
        log_calls=calls,
        shift=np.zeros(calls.shape),
        rare=rare,
        baseline=terms.baseline + 0.0 * loss[0],
    )
    return shifted(base, moments, None)


def random_plug_in(
    base: Ground, query: Backup, samples: Array, rungs: Array, terms: Terms
) -> Moments:
    """Return the moments of F(Q-hat) with corrections of chance ``rungs``, (J, M)."""
    n0 = np.asarray(samples, dtype=np.float64)
    rule = base.rule
    first, last = (
        plug_in_noise(rule, n, query.spread, query.variance)
        for n in (n0, n0 * 2.0 ** len(rungs))
    )
    down, up = one_sided(base, last, above=True)
    # the corrections take E F(N0) - E F(2^J N0), at most phi(N0) of either sign
    low_part, high_part = one_sided(base, first, above=False)
    asked = n0 + 2.0 * np.sum(rungs * terms.samples, axis=0)
    calls = np.log(asked * base.facts.num_actions) + query.log_calls
    added = _added(terms, rungs)
    moments = Moments(
        bias_low=query.bias_low - down,
        bias_high=query.bias_high + up,
        low=query.low + base.offset_low - low_part,
        high=query.high + base.offset_high + high_part,
        variance=plug_in_variance(rule, n0, query.spread, query.variance) + added,
        log_calls=calls + 0.0 * last[0],
        shift=np.zeros_like(calls + 0.0 * last[0]),
        rare=added,
        baseline=np.zeros_like(calls + 0.0 * last[0]),
    )
    return shifted(base, moments, None)
