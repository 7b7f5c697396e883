"""How much choosing among noisy action values adds to a node's value, compiled.

F is convex, so F of means overestimates: E F(q^) >= F(q), by much where many actions are
nearly as good as the best one (the winner's curse). No deviation of the chosen action
says so. With n(a) the usual error of q^(a), two approximations; the smaller one counts.

- The mean of a maximum of normal variables, by Clark's moments ("The greatest of a finite
  set of random variables", 1961), action after action. The gaps to the best action are
  themselves too wide by noise: E (q^(b) - q^(a))**2 = (q(b) - q(a))**2 + n(a)**2 + n(b)**2.
  So each gap is taken for the root of its square less the noise, or for 0.
- For a smooth operator: half the second differences of F, each action moved by n(a) to
  both sides, which is half the trace of Hessian times covariance where n is small.

Nothing here is a bound.
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.operators.dispatch import builtin_value, is_greedy
from smoothcruiser.problem.tabular import Floats

ROOT_TWO, ROOT_TWO_PI = math.sqrt(2.0), math.sqrt(2.0 * math.pi)


def maximum_excess(q: Any, noise: Floats, size: int) -> float:
    """How far the mean of the maximum lies above the largest mean."""
    best = 0
    for a in range(size):
        if q[a] > q[best]:
            best = a
    mean, variance = 0.0, noise[best] * noise[best]
    for a in range(size):
        if a == best:
            continue
        action_variance = noise[a] * noise[a]
        gap = q[best] - q[a]
        gap = math.sqrt(
            max(0.0, gap * gap - action_variance - noise[best] * noise[best])
        )
        width = math.sqrt(variance + action_variance)
        if width == 0.0:
            continue
        gap_in_widths = (mean + gap) / width
        win_probability = 0.5 * math.erfc(-gap_in_widths / ROOT_TWO)
        density = width * math.exp(-0.5 * gap_in_widths * gap_in_widths) / ROOT_TWO_PI
        first_moment = mean * win_probability - gap * (1.0 - win_probability) + density
        second_moment = (mean * mean + variance) * win_probability
        second_moment += (gap * gap + action_variance) * (1.0 - win_probability) + (
            mean - gap
        ) * density
        mean, variance = (
            first_moment,
            max(0.0, second_moment - first_moment * first_moment),
        )
    return float(max(0.0, mean))


def curvature_excess(noise: Floats, size: int, rules: Any) -> float:
    """Half the second differences of F at ``rules.q``, which is left as it was."""
    q, w = rules.q[:size], rules.w[:size]
    operator, temperature = rules.operator, rules.temperature
    value_here, excess = builtin_value(operator, q, w, temperature), 0.0
    for a in range(size):
        if noise[a] > 0.0:
            q_before = q[a]
            q[a] = q_before + noise[a]
            value_above = builtin_value(operator, q, w, temperature)
            q[a] = q_before - noise[a]
            value_below = builtin_value(operator, q, w, temperature)
            q[a] = q_before
            excess += 0.5 * (value_above + value_below - 2.0 * value_here)
    return float(max(0.0, excess))


def choice_excess(noise: Floats, size: int, rules: Any) -> float:
    """The excess of choosing at the mover's action values in ``rules.q``."""
    excess = maximum_excess(rules.q, noise, size)
    if excess > 0.0 and not is_greedy(rules.operator):
        excess = min(excess, curvature_excess(noise, size, rules))
    return excess
