"""Prices of rows: oracle calls and visits of a table, exact or on average.

They are functions of rows, the same for a draft of the compiler and for a finished
table. For each of its samples, a level with a query makes K N calls of its own, and a
level with a continuation makes one. The calls of its children are added. A randomized
level makes corrections by chance: on average sum_j 2 p_j m_j more samples per action
and sum_j p_j more continuations, m_j = 2^(j-1) N.

Averages are fractions, rounded up to a multiple of 2^-40. The number that a run
exceeds with a chance below ``RARELY`` follows from the cumulants of the calls
(docs/randomized.md, R9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smoothcruiser.schedule.schedule import Level, Root

Number = int | Fraction

RARELY = 1e-9  # the chance that a run makes more calls than a schedule's price says
_FINEST = 2**40
_STEPS = 120  # of a golden section: the golden ratio to the power 120 is 10^25
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
# relative: what rounding may do to a sum over some thousand rows, with room to spare
_ROUNDING = 1e-9


def _up(x: Number) -> Number:
    return x if isinstance(x, int) else Fraction(math.ceil(x * _FINEST), _FINEST)


def _asked(level: Level) -> Number:
    """Return how many samples of its query one sample of ``level`` takes per action."""
    if level.query < 0:
        return 0
    more = sum(Fraction(p) * 2**j for j, p in enumerate(level.rungs, 1))
    return level.samples if more == 0 else level.samples * (1 + more)


def _followed(level: Level) -> Number:
    """Return how many continuations one sample of ``level`` follows."""
    if level.continuation < 0:
        return 0
    return 1 + sum(Fraction(p) for p in level.rungs) if level.rungs else 1


def _calls_per_sample(level: Level, num_actions: int) -> Number:
    """Return the oracle calls of one sample of ``level``, without its children's."""
    return num_actions * _asked(level) + _followed(level)


def mean_level_calls(levels: Sequence[Level], num_actions: int) -> tuple[Number, ...]:
    """Return the calls of one sample of each level, its children's included."""
    calls: list[Number] = []
    for level in levels:
        total = _calls_per_sample(level, num_actions)
        if level.query >= 0:
            total += num_actions * _asked(level) * calls[level.query]
        if level.continuation >= 0:
            total += _followed(level) * calls[level.continuation]
        calls.append(_up(total))
    return tuple(calls)


def level_calls(levels: Sequence[Level], num_actions: int) -> tuple[int, ...]:
    """Return ``mean_level_calls`` as whole numbers, rounded up."""
    return tuple(math.ceil(calls) for calls in mean_level_calls(levels, num_actions))


def price(levels: Sequence[Level], root: Root, num_actions: int) -> int:
    """Return the oracle calls of the whole run, on average over the rungs."""
    child = mean_level_calls(levels, num_actions)[root.child]
    visits = root_visits(root, num_actions)
    return root_calls(root, num_actions) + math.ceil(visits * child)


def root_calls(root: Root, num_actions: int) -> int:
    """Return the oracle calls that the root makes itself.

    It makes one per sample for action values, and none where it samples the
    value.
    """
    return root_visits(root, num_actions) if root.target == "q_values" else 0


def root_visits(root: Root, num_actions: int) -> int:
    """Return how often the root samples its child."""
    return root.samples * (num_actions if root.target == "q_values" else 1)


def _visits(
    levels: Sequence[Level], child: int, times: int, num_actions: int
) -> list[Number]:
    counts: list[Number] = [0] * len(levels)
    counts[child] = times
    for i in range(len(levels) - 1, -1, -1):
        level = levels[i]
        counts[i] = _up(counts[i])
        if level.query >= 0:
            counts[level.query] += counts[i] * num_actions * _asked(level)
        if level.continuation >= 0:
            counts[level.continuation] += counts[i] * _followed(level)
    return counts


def level_visits(
    levels: Sequence[Level], child: int, times: int, num_actions: int
) -> tuple[int, ...]:
    """Return how often each level is sampled if level ``child`` is, ``times`` times."""
    return tuple(math.ceil(x) for x in _visits(levels, child, times, num_actions))


def own_calls(levels: Sequence[Level], root: Root, num_actions: int) -> tuple[int, ...]:
    """Return the oracle calls that each level itself makes in a run.

    With the root's they add up to the price, up to rounding where it is an average.
    """
    times = root_visits(root, num_actions)
    visits = _visits(levels, root.child, times, num_actions)
    return tuple(
        math.ceil(count * _calls_per_sample(level, num_actions))
        for count, level in zip(visits, levels, strict=True)
    )


# --- the tail ------------------------------------------------------------------


def most_calls(levels: Sequence[Level], root: Root, num_actions: int) -> int:
    """Return a number of calls that a run exceeds with a chance below ``RARELY``.

    For every theta > 0, P(calls > x) <= exp(visits Lambda(theta) - theta x), Lambda the
    cumulant function of the calls of one root sample. Without rungs it is the price.
    """
    mean = price(levels, root, num_actions)
    if not any(level.rungs for level in levels):
        return mean
    own = 1.0 if root.target == "q_values" else 0.0
    visits = float(root_visits(root, num_actions))
    if mean > 1e250:  # nobody runs it; Markov's inequality
        return math.ceil(mean / Fraction(RARELY))

    def bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        log_mean = visits * (own * theta + _cumulant(levels, root, num_actions, theta))
        return (log_mean - math.log(RARELY)) / theta

    low, high = math.log(1e-6 / mean), math.log(1e3)
    for _ in range(_STEPS):  # the bound is quasi-convex in theta
        inner = _GOLDEN * (high - low)
        if bound(high - inner) <= bound(low + inner):
            high = low + inner
        else:
            low = high - inner
    return max(mean, math.ceil(bound(0.5 * (low + high)) * (1.0 + _ROUNDING)))


def _cumulant(
    levels: Sequence[Level], root: Root, num_actions: int, theta: float
) -> float:
    """Return log E exp(theta calls) of one sample of the root's child."""
    found: list[float] = []
    for level in levels:
        asked = step = 0.0
        if level.query >= 0:
            asked = num_actions * level.samples * (theta + found[level.query])
        if level.continuation >= 0:
            step = theta + found[level.continuation]
        total = asked + step
        # a correction takes 2 m_j = 2^j N samples per action and a continuation
        costs = [asked * 2.0**j + step for j in range(1, len(level.rungs) + 1)]
        if costs and max(costs) > 700.0:
            return math.inf
        if costs:
            grown = sum(
                p * math.expm1(c) for p, c in zip(level.rungs, costs, strict=True)
            )
            total += math.log1p(grown)
        found.append(total)
    return found[root.child]
