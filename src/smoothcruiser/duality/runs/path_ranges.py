"""The most that a path can be worth, from declared facts and the rule of the path.

The confidence of ``gap`` (``mixture_bounds``) needs a number nu that no path exceeds.
Here p = 1 for relaxed player 1 and -1 for player 2, and all numbers are p times those
of the problem, so that U bounds from above; a minimizer's are the mirror image.

legend   symbol        meaning
  W_0                  W at the root, clipped
  [w-_t, w+_t]         the clip of W at time t; next to it 0 where a step may end
  [r_lo, r_hi]         the range of rewards
  f                    the most that one step adds to U by its regularizer: -Omega_lo
                       where the relaxed player moves, Omega_hi where the other does
  i_lo, i_hi           one step's income under a policy, with its regularizer
  D_t                  the weight of step t: gamma^min(t, h)
  Vbar_t, v-_t, v+_t   bounds after a cut: on V, and on every policy's value
  T                    the most steps of a path
  c                    the level of the cut
  x+                   max(x, 0)

With g_t = (r_hi + gamma w+_t+1 - w-_t)+, every path has U <= nu_U, the smaller of

  cut     W_0 + c + max over 1 <= t <= T of [D_t-1 g_t-1 + D_t (Vbar_t - w-_t)+]
              + f sum over t < T of D_t                                       (N)
  no cut  W_0 + max over 1 <= t <= T of [D_t (Vbar_t - w-_t)+
              + sum over u < t of D_u (r_hi + f + gamma w+_u+1 - w-_u)+]

*Proof of (N).* Let E_t = U_t - W_t. At a node that is not cut,
E_t <= max over a of [Qhat - W + g E_t+1(s')] + f, with g = gamma in the head, and g = 1
or 0 behind it: F(x) <= max x + f, a mean under a policy is at most the maximum, and
g E_t+1 is absent where the episode ends or the coin ends the path. Unroll along the
maximizing actions. The weight of step t is the product of the g before it, D_t. The
sequence stays at nodes whose score is below c, which is at least its own sum of
D_u (Qhat_u - W_u); so before its last step t - 1 that sum is below c, also for t = 1
(an empty sum, c >= 0). The last step adds D_t-1 g_t-1 at the most. Then the path ends
(nothing more), or the node is cut or the path truncated, which adds
D_t (Vbar_t - W_t). Each step adds f. Positive parts cover an end of either kind.
Killed paths have a last step too: their length is a function of one number with 53
bits, hence T < h + 2 + 53 log 2/(-log gamma). Nothing else in the proof knows whether
g is gamma or a coin. *No cut:* the same sum without the stop at c; the cap on the
states of a layer may still cut at any t. At a horizon Vbar and W are 0. ∎

The killed form has the right mean: the coin of step t is part of the noise of step t,
so E[1{alive} (U_t+1 - W)] = gamma E[U_t+1 - W] given what was drawn before t. The
expected length is short, T is long: with f > 0 the sum in (N) is
f (1 - gamma^h)/(1 - gamma) + f gamma^h (T - h), so that a long head is the better one.

For a walk the score has -Omega in it, so that no sum is left:

  nu_walk  = W_0 + c + max [D_t-1 (i_hi + gamma w+_t - w-_t-1)+ + D_t (v+_t - w-_t)+]
  nu_lower = W_0 - c - max [D_t-1 (w+_t-1 - i_lo - gamma w-_t)+ + D_t (w+_t - v-_t)+]

(U cut above, L+ cut above, L cut below.) U - L is at most nu_U - nu_lower. Every number
is rounded outwards: ``ROUNDED`` covers the sums, ``operators.outward`` the weights.

Rounding of the samples themselves. A backup at k actions is off by
u (16 (k + 2) S + (2 k^2 + 16) lambda), the mean of m inner samples by u (m + 6) S
(certified.md, section 4), with u = 2^-53 and S a bound on all sizes; sums and weights
of d steps by u 4 (d + 4) S per step. ``rounding_losses`` adds this up along a path.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.duality.machines.gap_rules import (
    CLIP_HIGH,
    CLIP_LOW,
    DEEPEST,
    LOWER,
    POLICY_HIGH,
    POLICY_LOW,
    POLICY_UPPER,
    STEPS,
    TIME_COLUMNS,
    UPPER,
    VALUE_HIGH,
    VALUE_LOW,
    GapRule,
)
from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.evaluation.path_fitting import COINS, UNIT
from smoothcruiser.evaluation.path_rules import earned_range, step_income, value_range
from smoothcruiser.operators.outward import Interval, discounted_sum
from smoothcruiser.problem.problem import Problem

Floats = NDArray[np.float64]

LENGTH_BITS = 53  # of the number that decides the length of a killed path
MOST_ROWS = 10**7  # of ``times``: more steps than any path is played
MOST_OUTCOMES = 4096  # of one state and action, for the rounding of an exact mean
ROUNDED = 16.0  # units per term, far above what a sum and a product lose


class PathRanges(NamedTuple):
    """Bounds on the numbers of a path, in the units of the problem.

    ``upper`` and ``lower`` enclose the two numbers of ``interval``: U and L for player
    1, the walk and U for player 2. ``walk`` is the range of the walk beyond its cuts.
    """

    upper: float
    lower: float
    gap: float  # upper - lower
    walk_upper: float  # of POLICY_UPPER
    walk_lower: float  # of LOWER
    is_cut: bool  # whether the cut of U gives the smaller range


@dataclass(frozen=True)
class _Pass:
    """The facts of one pass from the relaxed player's side."""

    root: float
    rewards: Interval
    income: Interval
    lift: float
    first_lift: float  # of the first action, outside a walk that begins with another
    clip_low: Floats
    clip_high: Floats
    value_high: Floats
    policy_low: Floats
    policy_high: Floats


def longest_path(rule: GapRule) -> int:
    """T: the most steps of a path."""
    if rule.fixed:
        return rule.head
    if rule.discount == 0.0:
        return rule.head + 1
    if rule.discount == 1.0:
        raise InvalidInput("Paths at discount 1 need a horizon or a truncation.")
    log_length = LENGTH_BITS * math.log(2.0) / -math.log(rule.discount)
    return rule.head + 2 + math.ceil(log_length * (1.0 + 1e-12))


def value_rows(problem: Problem, steps_left: int | None, num_rows: int) -> Floats:
    """``times`` without its clip: bounds on V and on every policy, by time.

    Bounds on V say nothing of a policy below, and nothing at all of the value against
    a fixed opponent: in games both pairs of columns are those of every policy.

    Args:
        problem: Its declared facts are all that is used.
        steps_left: Steps before the horizon at time 0; None without one.
        num_rows: Rows; the last one is about all later times.
    """
    times = np.zeros((num_rows, TIME_COLUMNS))
    times[:, CLIP_LOW], times[:, CLIP_HIGH] = -math.inf, math.inf
    if steps_left is None:
        times[:, VALUE_LOW:] = _value_row(problem, None)
        return times
    for t in range(num_rows):
        left = steps_left - t
        if left > 0:
            times[t, VALUE_LOW:] = _value_row(problem, left)
        else:  # the end: worth 0
            times[t, :] = 0.0
    return times


def _value_row(problem: Problem, steps_left: int | None) -> tuple[float, ...]:
    policy_bounds = value_range(problem, steps_left)
    if problem.is_game:
        policy_bounds = earned_range(problem, steps_left)
        return *policy_bounds, *policy_bounds
    value_bounds = problem.facts.value_bounds(1, steps_left)
    return *value_bounds, *policy_bounds


def path_ranges(
    problem: Problem, rule: GapRule, times: Floats, root_value: float
) -> PathRanges:
    """The ranges of the numbers of every path of ``rule``.

    Args:
        problem: Declared rewards, operator, ends.
        rule: The rule; its cuts are used where they help.
        times: Clips and bounds by time (``value_rows`` with the clips filled in).
        root_value: W at the root; it is clipped here.
    """
    root = min(max(root_value, float(times[0, CLIP_LOW])), float(times[0, CLIP_HIGH]))
    sign = 1.0 if rule.relaxed == 1 else -1.0
    own = _read_pass(problem, times, root, sign)
    cut_end = _cut_end(problem, rule, own, rule.upper_cut, for_walk=False)
    open_end = _open_end(problem, rule, own, for_walk=False)
    upper = min(cut_end, open_end)
    walk_high = _walk_end(problem, rule, own)
    mirrored = _read_pass(problem, times, root, -sign)
    walk_low = _walk_end(problem, rule, mirrored)
    ends = (upper, -walk_low, walk_high)
    if not all(math.isfinite(end) for end in ends):
        raise InvalidInput(
            "gap needs finite ranges: declare reward_range (and value_bounds or a "
            "horizon at discount 1), and use a built-in operator."
        )
    gap = math.nextafter(upper + walk_low, math.inf)
    if sign > 0.0:
        return PathRanges(
            upper, -walk_low, gap, walk_high, -walk_low, cut_end <= upper
        )
    return PathRanges(walk_low, -upper, gap, walk_low, -walk_high, cut_end <= upper)


def _read_pass(problem: Problem, times: Floats, root: float, sign: float) -> _Pass:
    """The facts times ``sign``."""
    low_reward, high_reward = (float(r) for r in problem.reward_range)
    income = step_income(problem)
    # the first step of a walk that begins with an action has no regularizer
    income = min(income[0], low_reward), max(income[1], high_reward)
    omega_low, omega_high = problem.operator.omega_range(problem.num_actions)
    lift = max(0.0, -omega_low, omega_high if problem.is_game else 0.0)
    lift *= 1.0 + ROUNDED * UNIT
    first_lift = -omega_low if sign > 0.0 else omega_high
    if problem.is_game:
        first_lift = max(-omega_low, omega_high)
    first_lift = max(0.0, first_lift) * (1.0 + ROUNDED * UNIT)
    columns = [times[:, column] for column in range(TIME_COLUMNS)]
    if sign < 0.0:
        low_reward, high_reward = -high_reward, -low_reward
        income = (-income[1], -income[0])
        columns = [-times[:, column] for column in (1, 0, 3, 2, 5, 4)]
    return _Pass(
        sign * root,
        (low_reward, high_reward),
        income,
        lift,
        first_lift,
        columns[CLIP_LOW],
        columns[CLIP_HIGH],
        columns[VALUE_HIGH],
        columns[POLICY_LOW],
        columns[POLICY_HIGH],
    )


def _walk_end(problem: Problem, rule: GapRule, own: _Pass) -> float:
    """The range of a walk that is cut above, or not at all.

    The mean over walks that begin with each action adds one -Omega to them.
    """
    walk_end = min(
        _cut_end(problem, rule, own, rule.lower_cut, for_walk=True),
        _open_end(problem, rule, own, for_walk=True),
    )
    if not rule.walks_every_action:
        return walk_end
    return _round_up(walk_end + own.first_lift, (walk_end, own.first_lift))


def _cut_end(
    problem: Problem, rule: GapRule, own: _Pass, cut: float, *, for_walk: bool
) -> float:
    """(N), rounded up; a walk has its regularizer in its score."""
    if not cut < math.inf:
        return math.inf
    steps, rows = longest_path(rule), len(own.clip_low)
    # behind the last row nothing changes and weights fall: the maximum is before
    num_terms = min(steps, rows)
    weights = path_weights(rule, num_terms + 1)
    gains = np.maximum(_gains(problem, rule, own, num_terms, for_walk=for_walk), 0.0)
    exits = _exits(rule, own, num_terms, for_walk=for_walk)
    terms = weights[:num_terms] * gains + weights[1:] * exits
    largest = float(terms.max()) if num_terms else 0.0
    lift = 0.0 if for_walk else own.lift * total_weight(rule)
    return _round_up(own.root + cut + largest + lift, (own.root, cut, largest, lift))


def _open_end(problem: Problem, rule: GapRule, own: _Pass, *, for_walk: bool) -> float:
    """The range without the cut at c, rounded up; other cuts may be anywhere."""
    steps, rows = longest_path(rule), len(own.clip_low)
    num_terms = min(steps, rows)
    weights = path_weights(rule, num_terms + 1)
    lift = 0.0 if for_walk else own.lift
    gains = np.maximum(
        _gains(problem, rule, own, num_terms, for_walk=for_walk) + lift, 0.0
    )
    exits = weights[1:] * _exits(rule, own, num_terms, for_walk=for_walk)
    sums = np.add.accumulate(weights[:num_terms] * gains)
    largest = float((sums + exits).max()) if num_terms else 0.0
    if steps > num_terms:  # all later steps gain as much as the last row's
        rest_weight = max(0.0, total_weight(rule) - float(np.sum(weights[:-1])))
        # the difference may have lost some units of the whole
        rest_weight += ROUNDED * UNIT * (num_terms + 1) * total_weight(rule)
        rest = rest_weight * float(gains[-1]) + float(exits[-1])
        largest = max(largest, float(sums[-1]) + rest)
    slack = (num_terms + 1) * largest * UNIT * ROUNDED
    return _round_up(own.root + largest + slack, (own.root, largest))


def _exits(rule: GapRule, own: _Pass, num_terms: int, *, for_walk: bool) -> Floats:
    """The most that a cut at t = 1, 2, ... adds, before its weight."""
    later = np.minimum(np.arange(1, num_terms + 1), len(own.clip_low) - 1)
    bounds = own.policy_high if for_walk else own.value_high
    exits = np.maximum(bounds[later] - own.clip_low[later], 0.0)
    if _reaches_horizon(rule, num_terms):
        exits[-1] = 0.0
    return exits


def _reaches_horizon(rule: GapRule, num_terms: int) -> bool:
    """Whether the last of so many steps ends at a horizon."""
    is_last = num_terms == longest_path(rule) and num_terms > 0
    return rule.fixed and rule.ends_at_horizon and is_last


def _gains(
    problem: Problem, rule: GapRule, own: _Pass, num_terms: int, *, for_walk: bool
) -> Floats:
    """The most that Qhat_t - W_t can be, for t = 0, 1, ..."""
    rows = len(own.clip_low)
    later = np.minimum(np.arange(1, num_terms + 1), rows - 1)
    next_high = own.clip_high[later].copy()
    if problem.facts.terminals:
        next_high = np.maximum(next_high, 0.0)
    if _reaches_horizon(rule, num_terms):
        next_high[-1] = 0.0
    own_low = own.clip_low[:num_terms].copy()
    if num_terms:
        own_low[0] = own.root
    most = own.income[1] if for_walk else own.rewards[1]
    return most + rule.discount * next_high - own_low


def path_weights(rule: GapRule, count: int) -> Floats:
    """D_t for t < ``count``."""
    factors = np.ones(count)
    factors[1 : rule.head + 1] = rule.discount
    return np.multiply.accumulate(factors) if count else factors


def total_weight(rule: GapRule) -> float:
    """The sum of all D_t of the longest path, rounded up."""
    steps = longest_path(rule)
    head_weight = discounted_sum(rule.discount, min(rule.head, steps))[1]
    later_weight = rule.discount**rule.head * max(0, steps - rule.head)
    return _round_up(head_weight + later_weight, (head_weight, later_weight))


def _round_up(total: float, parts: tuple[float, ...]) -> float:
    """``total`` plus more than a sum of ``parts`` loses, products included."""
    if not math.isfinite(total):
        return total
    return total + ROUNDED * UNIT * sum(abs(part) for part in parts) + 1e-300


def rounding_losses(
    problem: Problem, rule: GapRule, times: Floats, ranges: PathRanges, rows: Floats
) -> Floats:
    """Bounds on the rounding of the numbers of each row, the coin's law included."""
    num_actions = problem.num_actions
    size = max(abs(ranges.upper), abs(ranges.lower))
    size = max(size, abs(ranges.walk_upper), abs(ranges.walk_lower))
    finite_times = np.abs(times[np.isfinite(times)])
    bound_size = float(finite_times.max()) if len(finite_times) else 0.0
    reward_size = max(abs(float(r)) for r in problem.reward_range)
    size = max(size, bound_size) + reward_size
    scale = problem.operator.rounding_scale(num_actions)
    backup_loss = 16.0 * (num_actions + 2) * size
    backup_loss += (2.0 * num_actions**2 + 16.0) * abs(scale)
    num_terms = rule.num_inner if rule.num_inner else MOST_OUTCOMES
    mean_loss = (max(num_terms, num_actions) + 6.0) * size
    depths = np.fmax(rows[:, DEEPEST], rows[:, STEPS]) + 1.0  # NaN without a walk
    weights = np.minimum(depths, total_weight(rule))
    losses = UNIT * weights * (backup_loss + mean_loss + 4.0 * (depths + 4.0) * size)
    if not rule.fixed and rule.discount > 0.0:
        losses = losses + COINS * size / (1.0 - rule.discount)
    return losses


def check_ranges(
    rows: Floats, losses: Floats, ranges: PathRanges, rule: GapRule
) -> None:
    """Refuse a path beyond its range, or one that is no number.

    Such a path shows a false declaration. It is never clipped: that would bring the
    mean below V.
    """
    ends = (None, ranges.upper) if rule.relaxed == 1 else (ranges.lower, None)
    checks: list[tuple[int, float | None, float | None]] = [(UPPER, *ends)]
    if rule.walks:
        checks += [
            (LOWER, ranges.walk_lower, None),
            (POLICY_UPPER, None, ranges.walk_upper),
        ]
    for column, low, high in checks:
        numbers = rows[:, column]
        if not np.isfinite(numbers).all():
            raise OracleError(
                f"A path is worth {numbers[~np.isfinite(numbers)][0]}: value= or the "
                "rewards are no finite numbers."
            )
        excess = np.zeros(len(numbers))
        if high is not None:
            excess = numbers - losses - high
        if low is not None:
            excess = np.maximum(excess, low - numbers - losses)
        if len(excess) and excess.max() > 0.0:
            worst = int(np.argmax(excess))
            raise OracleError(
                f"A path is worth {numbers[worst]:.6g}, beyond "
                f"{high if high is not None else low:.6g}, the most that the declared "
                "reward_range, terminal= and operator allow; correct the declaration "
                "that is false."
            )
