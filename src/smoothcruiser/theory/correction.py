"""Second moments of one correction of a randomized level (docs/randomized.md, R1-R4).

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

from smoothcruiser.theory.noise import OperatorRule

Array = Any


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
    tail_share = np.where(fourth_cumulant > 0.0, 1.0 / 6.0, (k - 1.0) / (k * (k + 1.0)))
    return (k * k - 1.0) * (
        16.0 * v * v / m**2 + 8.0 * tail_share * fourth_cumulant / m**3
    )
