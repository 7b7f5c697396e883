"""The estimator algebra: moments and price of a level from those of its children.

The moments are bias, range and variance (docs/theory.md, section 3).

For every state in which one player moves, an estimator X of V has E X - V in
[bias_low, bias_high], X in [low, high] almost surely, and Var X <= variance.
One sampled backup over it is xi = r + gamma X(z). Then

  PLUGIN     E F(Q-hat) - V                 in [gamma b-, gamma b+ + phi]
             (Jensen; phi from ``noise``)
  ROLLOUT    E[-Omega + r + gamma X''] - V  in [gamma b''- - E D, gamma b''+]
             (D is the Bregman remainder)
  BLIND      the same with D(Q, 0)
  CONSTANT   c - V                          in [c - V_hi, c - V_lo]
  MIDDLE     (lower + upper)/2 - V          in [-gap/2, gap/2]

for the max player; for the min player phi and E D change sides. A level adds
sign(player) * shift, chosen to centre its interval, so widths obey w = gamma
w' + phi and w = gamma w'' + E D in MDPs and games alike. There is no union
bound, because only means pass upwards.

legend   symbol      name
  P                  number of players; every moment has shape (P, M), player
                     first, M candidates side by side
  b-, b+, w          ``bias_low``, ``bias_high``, ``width``
  R, sigma^2 of xi   ``Backup.spread``, ``Backup.variance``
  C                  ``log_calls``: natural log of the oracle calls of one
                     sample (-inf for none)

This file leaves out bounds on V (``analysis``), which levels to build
(``schedule.compiler``) and the root (``stopping``).

Moments of the levels without children, in which every table ends.

CONSTANT   c - V                       in [c - V_hi, c - V_lo]
MIDDLE     (lower + upper)/2 - V       in [-gap/2, gap/2]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothcruiser.problem.bounds import bounds_slack
from smoothcruiser.theory.analysis import Ground
from smoothcruiser.theory.noise import (
    bregman_cap,
    bregman_caps,
    bregman_noise,
    plug_in_noise,
    plug_in_variance,
)

Array = Any  # float64 array, shape (P, M) unless said otherwise


def over_players(x: Array) -> Array:
    """Return the largest over the players of an array (P, M), shape (M,)."""
    return x[0] if len(x) == 1 else np.max(x, axis=0)


def largest(x: Array) -> float:
    """Return the largest number in ``x``, which is often the only one."""
    if isinstance(x, float):
        return x
    return float(x.item() if x.size == 1 else x.max())


@dataclass(frozen=True)
class Moments:
    """Bounds on one sample of a level, per player to move: shape (P, M).

    ``log_calls``, ``shift`` and ``baseline`` have shape (M,). A sample X lies in
    [low, high] where ``rare`` is 0. Otherwise X = Y + Z with Y in [low, high], E Z = 0
    whatever Y is, and E Z^2 <= rare: Z are the corrections of randomized levels
    (docs/randomized.md, Lemma V).
    """

    bias_low: Array
    bias_high: Array
    low: Array
    high: Array
    variance: Array
    log_calls: Array
    shift: Array  # (M,): number that the level adds with the sign of the player
    rare: Array = 0.0
    baseline: Array = 0.0  # (M,): origin of the corrections of a rollout

    @property
    def width(self) -> Array:
        """The length of the longest bias interval over the players, shape (M,)."""
        return over_players(self.bias_high - self.bias_low)

    @property
    def bias(self) -> Array:
        """The largest |E X - V|, shape (M,)."""
        return over_players(np.maximum(np.abs(self.bias_low), np.abs(self.bias_high)))

    def pick(self, columns: Array) -> Moments:
        """The moments of the candidates ``columns``."""
        low, high, variance = (
            self.low[:, columns],
            self.high[:, columns],
            self.variance[:, columns],
        )
        return Moments(
            self.bias_low[:, columns],
            self.bias_high[:, columns],
            low,
            high,
            variance,
            self.log_calls[columns],
            self.shift[columns],
            np.broadcast_to(self.rare, self.variance.shape)[:, columns],
        )


@dataclass(frozen=True)
class Backup:
    """Bounds on one backup xi = r + gamma X(z), per player: shape (P, M).

    ``log_calls`` has shape (M,) and includes the call that samples r and z.
    """

    bias_low: Array
    bias_high: Array
    low: Array
    high: Array
    variance: Array
    log_calls: Array
    # E[xi | r, z] lies in [mean_low, mean_high], and Var[xi | r, z] <= within
    mean_low: Array
    mean_high: Array
    within: Array
    rare: Array = 0.0  # as of ``Moments``, for xi

    @property
    def spread(self) -> Array:
        """R, the length of the interval that holds xi, or its part Y."""
        return self.high - self.low

    @property
    def bias_span(self) -> Array:
        """The bias span gamma w: how far the biases of xi can be apart in one state."""
        return self.bias_high - self.bias_low

    @property
    def bias(self) -> Array:
        """The largest |E xi - Q|, shape (M,)."""
        return over_players(np.maximum(np.abs(self.bias_low), np.abs(self.bias_high)))

    def about(self, center: Array) -> Array:
        """Return a bound on E (xi - center)^2, shape (P, M)."""
        enclosures = (
            (self.low, self.high, self.rare),
            (self.mean_low, self.mean_high, self.within),
        )
        range_moment, mean_moment = (
            np.maximum(np.abs(a - center), np.abs(b - center)) ** 2 + v
            for a, b, v in enclosures
        )
        return np.minimum(range_moment, mean_moment)

    @property
    def center(self) -> Array:
        """A number about which xi has a small second moment, shape (M,).

        It is the middle of an interval that holds xi, its part Y or its conditional
        mean, over both players.
        """
        return self.center_and_moment[0]

    @property
    def center_and_moment(self) -> tuple[Array, Array]:
        """``center``, and a bound on the second moment about it, shape (P, M)."""
        end_pairs = (self.low, self.high), (self.mean_low, self.mean_high)
        if len(self.low) == 1:
            middles = [0.5 * (a[0] + b[0]) for a, b in end_pairs]
        else:
            middles = [
                0.5 * (np.min(a, axis=0) + np.max(b, axis=0)) for a, b in end_pairs
            ]
        second_moments = [self.about(middle) for middle in middles]
        range_moment, mean_moment = second_moments
        if len(self.low) > 1:
            range_moment, mean_moment = (
                np.max(range_moment, axis=0),
                np.max(mean_moment, axis=0),
            )
        is_range_nearer = range_moment <= mean_moment
        smaller_moments = np.where(is_range_nearer, *second_moments)
        return np.where(
            is_range_nearer if is_range_nearer.ndim == 1 else is_range_nearer[0],
            *middles,
        ), smaller_moments

    @property
    def centers(self) -> Array:
        """The center of each player, for roots where the player is known: (P, M)."""
        end_pairs = (self.low, self.high), (self.mean_low, self.mean_high)
        middles = [0.5 * (a + b) for a, b in end_pairs]
        range_moment, mean_moment = (self.about(middle) for middle in middles)
        return np.where(range_moment <= mean_moment, middles[0], middles[1])

    @property
    def draw(self) -> tuple[Array, Array, Array]:
        """The numbers that a root needs: (bias, spread, variance), each of shape (M,).

        Where xi has no range the spread is infinite, and a second moment about
        ``centers`` takes the place of the variance (docs/randomized.md, R8).
        """
        zeros = 0.0 * self.low
        spread, variance, rare = (
            over_players(x + zeros) for x in (self.spread, self.variance, self.rare)
        )
        if isinstance(self.rare, float):
            return self.bias, spread, variance
        if np.any(rare > 0.0):
            second_moment = np.max(self.about(self.centers), axis=0)
            variance = np.where(rare > 0.0, second_moment, variance)
            spread = np.where(rare > 0.0, np.inf, spread)
        return self.bias, spread, variance

    def pick(self, columns: Array) -> Backup:
        """The backups of the candidates ``columns``."""
        shape = self.variance.shape
        return Backup(
            self.bias_low[:, columns],
            self.bias_high[:, columns],
            self.low[:, columns],
            self.high[:, columns],
            self.variance[:, columns],
            self.log_calls[columns],
            self.mean_low[:, columns],
            self.mean_high[:, columns],
            self.within[:, columns],
            np.broadcast_to(self.rare, shape)[:, columns],
        )


# --- the pieces ---------------------------------------------------------------


def backup(base: Ground, child: Moments, child_remaining: int | None) -> Backup:
    """Return the moments of xi = r + gamma X(z), where ``child`` describes X.

    ``child_remaining`` is the number of steps left in z.

    Var xi <= min(R^2/4 + gamma^2 rare, (rho + gamma m)^2/4 + gamma^2 v'), where m is
    the length of the interval that holds E[X(z) | z]. The first bound is Popoviciu
    for xi, or for its part Y (Lemma V). The second is Popoviciu for E[xi | r, z] plus
    the mean of Var[xi | r, z]. Where the total of rewards is known, r + gamma V(z) has
    a span of its own (Lemma T), and the bias is added to it.
    """
    facts = base.facts
    gamma, (reward_min, reward_max) = facts.discount, facts.reward_range
    squared_discount, reward_span = gamma * gamma, facts.reward_span
    low, high = base.after(child.low, child.high)
    value_low, value_high = base.values(child_remaining)
    mean_low, mean_high = base.after(
        np.maximum(child.low, value_low + child.bias_low),
        np.minimum(child.high, value_high + child.bias_high),
    )
    within_variance = squared_discount * base.largest_after(child.variance)
    rare = child.rare
    if not isinstance(rare, float):  # which may be infinite
        rare = rare + np.zeros(child.variance.shape)
        rare = squared_discount * base.largest_after(rare)
    bias_low, bias_high = base.after(child.bias_low, child.bias_high)
    child_span = high - low
    backup_span = reward_span + gamma * child_span
    mean_span = reward_span + gamma * np.minimum(
        child_span, np.maximum(mean_high - mean_low, 0.0)
    )
    if facts.known_total is not None:
        # E[xi | r, z] = r + gamma V(z) + gamma bias(z): a total holds the first two
        mean_span = np.minimum(
            mean_span, base.next_span(child_remaining) + gamma * (bias_high - bias_low)
        )
    return Backup(
        bias_low=gamma * bias_low,
        bias_high=gamma * bias_high,
        low=reward_min + gamma * low,
        high=reward_max + gamma * high,
        variance=np.minimum(
            backup_span * backup_span / 4.0 + rare,
            mean_span * mean_span / 4.0 + within_variance,
        ),
        log_calls=np.logaddexp(0.0, child.log_calls),
        mean_low=reward_min + gamma * mean_low,
        mean_high=reward_max + gamma * np.maximum(mean_low, mean_high),
        within=within_variance,
        rare=rare,
    )


def itself(base: Ground, x: Moments, remaining: int | None) -> Backup:
    """Return X itself in the form of a backup, which a root of the value samples."""
    value_low, value_high = base.values(remaining)
    mean_low = np.maximum(x.low, value_low + x.bias_low)
    return Backup(
        bias_low=x.bias_low,
        bias_high=x.bias_high,
        low=x.low,
        high=x.high,
        variance=x.variance,
        log_calls=x.log_calls,
        mean_low=mean_low,
        mean_high=np.maximum(mean_low, np.minimum(x.high, value_high + x.bias_high)),
        within=x.variance,
        rare=x.rare,
    )


def shift_moments(base: Ground, x: Moments, shift: Array | None) -> Moments:
    """Return ``x`` plus sign * shift.

    Without a shift, the one number is taken that makes the largest |bias| over
    the players smallest.
    """
    if shift is None and base.alone:
        signed_shift = -0.5 * (x.bias_low[0] + x.bias_high[0])
        shift = base.sign[0] * signed_shift
    elif shift is None:
        bias_min = np.min(np.where(base.sign > 0.0, x.bias_low, -x.bias_high), axis=0)
        bias_max = np.max(np.where(base.sign > 0.0, x.bias_high, -x.bias_low), axis=0)
        shift = -0.5 * (bias_min + bias_max)
        signed_shift = base.sign * shift
    else:
        signed_shift = base.sign * shift
    return Moments(
        x.bias_low + signed_shift,
        x.bias_high + signed_shift,
        x.low + signed_shift,
        x.high + signed_shift,
        x.variance,
        x.log_calls,
        shift + np.zeros(x.shift.shape),
        x.rare,
        x.baseline,
    )


def replace_shift(base: Ground, x: Moments, shift: float) -> Moments:
    """``x`` with its shift replaced by ``shift``."""
    shift_change = base.sign * (shift - x.shift)
    return Moments(
        x.bias_low + shift_change,
        x.bias_high + shift_change,
        x.low + shift_change,
        x.high + shift_change,
        x.variance,
        x.log_calls,
        np.full_like(x.shift, shift),
        x.rare,
        x.baseline,
    )


def one_sided(base: Ground, gap: Array, *, above: bool) -> tuple[Array, Array]:
    """Split an error of at most ``gap`` into (down, up), per player.

    A max player makes the error upwards if ``above``, else downwards; a min
    player the other way round. Where F is not convex, both parts are ``gap``.
    """
    if not base.rule.convex:
        return gap, gap
    if base.alone:
        above = above == (base.sign[0, 0] > 0.0)
        return (0.0, gap) if above else (gap, 0.0)
    is_upward = (base.sign > 0) == above
    return np.where(is_upward, 0.0, gap), np.where(is_upward, gap, 0.0)


def plug_in(
    base: Ground, query: Backup, samples: Array, shift: Array | None = None
) -> Moments:
    """Return the moments of F(Q-hat) with ``samples`` backups per action.

    ``query`` holds one candidate or as many as ``samples``.
    """
    n = np.asarray(samples, dtype=np.float64)
    phi = plug_in_noise(base.rule, n, query.spread, query.variance)
    noise_down, noise_up = one_sided(base, phi, above=True)
    log_calls = np.log(n * base.facts.num_actions) + query.log_calls
    moments = Moments(
        bias_low=query.bias_low - noise_down,
        bias_high=query.bias_high + noise_up,
        low=query.low + base.offset_low + 0.0 * n,
        high=query.high + base.offset_high + 0.0 * n,
        variance=plug_in_variance(base.rule, n, query.spread, query.variance),
        log_calls=log_calls,
        shift=np.zeros(log_calls.shape),
    )
    return shift_moments(base, moments, shift)


def rollout_loss(
    base: Ground, query: Backup, samples: Array, remaining: int | None
) -> tuple[Array, Array]:
    """Return (E D, sup D), the mean and the largest loss of following grad F(Q-hat)."""
    n = np.asarray(samples, dtype=np.float64)
    spread = query.spread
    span_cap = bregman_cap(base.rule, base.q_box(remaining) + spread)
    loss_ceiling = np.minimum(span_cap, base.policy_ceiling(remaining))
    noise_loss = bregman_noise(base.rule, n, spread, query.variance, query.bias_span)
    return np.minimum(noise_loss, loss_ceiling), loss_ceiling


def rollout(
    base: Ground,
    query: Backup,
    samples: Array,
    continuation: Backup,
    remaining: int | None,
    shift: Array | None = None,
) -> Moments:
    """Return the moments of -Omega(pi) + r(s, A) + gamma X''(z), pi = grad F(Q-hat).

    The action A is sampled from pi. Q-hat is the mean of ``samples`` backups of
    ``query`` per action.
    """
    n = np.asarray(samples, dtype=np.float64)
    rule, spread = base.rule, query.spread
    # as ``rollout_loss`` and ``regularizer_range`` have it, in one pass
    span_cap, omega_drop = bregman_caps(rule, base.q_box(remaining) + spread, spread)
    loss_ceiling = np.minimum(span_cap, base.policy_ceiling(remaining))
    omega_drop = np.minimum(omega_drop, rule.drop)
    loss = bregman_noise(rule, n, spread, query.variance, query.bias_span)
    loss = np.minimum(loss, loss_ceiling)
    log_calls = np.logaddexp(
        np.log(n * base.facts.num_actions) + query.log_calls, continuation.log_calls
    )
    mean_variance = variance_of_mean(base, loss, loss_ceiling, continuation)
    return _follow_action(
        base, continuation, loss, omega_drop, mean_variance, log_calls, shift
    )


def variance_of_mean(
    base: Ground, loss: Array, ceiling: Array, continuation: Backup
) -> Array:
    """Return a bound on Var E[X | Q-hat] of a rollout (S3)."""
    if base.rule.convex:  # by Bhatia-Davis
        capped_loss = np.minimum(loss, 0.5 * ceiling)
        deviation = np.sqrt(capped_loss * (ceiling - capped_loss))
    else:
        deviation = np.sqrt(loss * ceiling)
    return (deviation + 0.5 * continuation.bias_span) ** 2


def blind(
    base: Ground,
    continuation: Backup,
    remaining: int | None,
    shift: Array | None = None,
) -> Moments:
    """Return the moments of F(0) + r(s, A) + gamma X''(z), A ~ grad F(0).

    It is a rollout that makes no estimates.
    """
    zero = np.zeros_like(continuation.bias_low)
    return _follow_action(
        base,
        continuation,
        base.blind(remaining) + zero,
        zero,
        zero,
        continuation.log_calls,
        shift,
    )


def _follow_action(
    base: Ground,
    continuation: Backup,
    loss: Array,
    omega_drop: Array,
    mean_variance: Array,
    log_calls: Array,
    shift: Array | None,
) -> Moments:
    """Return the moments of a level that samples one action and continues after it.

    E D = ``loss``, -Omega lies in [F(0) - ``fall``, F(0)], and Var
    E[X | Q-hat] <= ``mean_variance``.
    """
    loss_down, loss_up = one_sided(base, loss, above=False)
    drop_down, drop_up = one_sided(base, omega_drop, above=False)
    within_state = continuation.spread + drop_down + drop_up
    zeros, rare = 0.0 * loss, continuation.rare
    log_calls = log_calls + zeros[0]
    moments = Moments(
        bias_low=continuation.bias_low - loss_down,
        bias_high=continuation.bias_high + loss_up,
        low=continuation.low + base.offset_low - drop_down,
        high=continuation.high + base.offset_high + drop_up,
        variance=np.minimum(
            within_state**2 / 4.0 + continuation.rare,
            continuation.variance + mean_variance,
        ),
        log_calls=log_calls,
        shift=np.zeros(log_calls.shape),
        rare=rare if isinstance(rare, float) else rare + zeros,
    )
    return shift_moments(base, moments, shift)


def constant(
    base: Ground,
    remaining: int | None,
    value: float | None = None,
    shift: float | None = None,
) -> Moments:
    """Return the moments of the constant ``value`` + sign * ``shift``; it is free.

    The default is the middle of each player's bounds. With no steps left it is
    exact.
    """
    value_low, value_high = base.values(remaining)
    middle_values = 0.5 * (value_low + value_high)
    if value is None:
        value = float(np.mean(middle_values))
    if shift is None:
        shift = (
            float(middle_values[0, 0] - middle_values[1, 0]) / 2.0
            if base.sign.shape[0] == 2
            else 0.0
        )
    guess = value + base.sign * shift
    return Moments(
        guess - value_high,
        guess - value_low,
        guess,
        guess,
        np.zeros_like(guess),
        np.array([-math.inf]),
        np.array([shift]),
    )


def middle(base: Ground, remaining: int | None) -> Moments:
    """Return the moments of the middle of bounds that depend on the state; it is free.

    With V and the middle m both between lower(s) and upper(s), |m - V| <= gap/2. So
    m lies within gap/2 of the bounds on V, and between the bounds that its own are
    clipped to. It is no random number: in one state its variance is 0.
    """
    facts = base.facts
    assert facts.given_gap is not None
    rounding_slack = bounds_slack(facts)
    half_gap = 0.5 * facts.given_gap + rounding_slack
    value_low, value_high = base.values(remaining)
    hull_low, hull_high = facts.value_hull()
    zero = np.zeros_like(value_low)
    return Moments(
        zero - half_gap,
        zero + half_gap,
        np.maximum(value_low - half_gap, hull_low - rounding_slack),
        np.minimum(value_high + half_gap, hull_high + rounding_slack),
        zero,
        np.array([-math.inf]),
        np.array([0.0]),
    )
