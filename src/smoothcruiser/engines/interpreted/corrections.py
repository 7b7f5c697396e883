"""Corrections of randomized levels, as functions for executor ``python``.

legend   symbol       here
  N                   samples of the base, per legal action
  p_j                 ``level.rungs``: the chance of rung j, from 1
  y', y''             means of 2**(j-1) N samples each, times the mover's sign
  ybar                (y' + y'')/2, which is a mean of 2**j N samples
  b                   ``level.constant``: the baseline

  RANDOM_PLUGIN    1/p_j [F(ybar) - F(y')/2 - F(y'')/2], times the mover's sign
  RANDOM_ROLLOUT   the same with h(y) = F(y) - <y, grad F(y)> in the place of F, plus
                   1/p_j <delta, r + gamma X''(z)>, sampled at one action,
                   delta = grad F(ybar) - grad F(y')/2 - grad F(y'')/2

The arithmetic and the order of random numbers are those of ``reference``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smoothcruiser.operators.sampling import proportional
from smoothcruiser.schedule.schedule import Kind, Level

if TYPE_CHECKING:
    from smoothcruiser.engines.interpreted.python import Means, PythonEngine

# (state, legal actions, their prior weights, the mover's sign) -> the correction
Correction = Callable[[Any, list[int], list[float], float], float]


def correction(engine: PythonEngine, level: Level, query: Means) -> Correction:
    """A function that samples the correction of ``level`` to its base."""
    make_lacking = _value_lacks if level.kind == Kind.RANDOM_PLUGIN else _rollout_lacks
    lacking_value = make_lacking(engine, level)
    rungs, base_samples = level.rungs, level.samples

    def sample_correction(
        state: Any, actions: list[int], weights: list[float], sign: float
    ) -> float:
        u = engine.rng.random()
        running_sum = 0.0
        for j, chance in enumerate(rungs):
            running_sum += chance
            if u < running_sum:
                half_samples = base_samples << j
                first_half = [sign * x for x in query(state, actions, half_samples)]
                second_half = [sign * x for x in query(state, actions, half_samples)]
                full_means = [
                    0.5 * (x + y) for x, y in zip(first_half, second_half, strict=True)
                ]
                weighted_means = (
                    (1.0, full_means),
                    (-0.5, first_half),
                    (-0.5, second_half),
                )
                return (
                    lacking_value(state, actions, weights, sign, weighted_means)
                    / chance
                )
        return 0.0

    return sample_correction


Parts = tuple[tuple[float, list[float]], ...]
Lacking = Callable[[Any, list[int], list[float], float, Parts], float]


def _value_lacks(engine: PythonEngine, level: Level) -> Lacking:
    operator = engine.problem.operator
    value_of, strength = operator.scalar.value, operator.strength

    def lacking(
        state: Any,
        actions: list[int],
        weights: list[float],
        sign: float,
        weighted_means: Parts,
    ) -> float:
        lacking_sum = 0.0
        for share, y in weighted_means:
            lacking_sum += share * value_of(y, weights, strength)
        return sign * lacking_sum

    return lacking


def _rollout_lacks(engine: PythonEngine, level: Level) -> Lacking:
    operator, baseline = engine.problem.operator, level.constant
    value_and_gradient, is_shift_invariant = operator.both, operator.shift_invariant
    oracle, discount = engine.oracle, engine.problem.discount
    sample_continuation = engine.level_samplers[level.continuation]

    def lacking(
        state: Any,
        actions: list[int],
        weights: list[float],
        sign: float,
        weighted_means: Parts,
    ) -> float:
        lacking_sum, delta = 0.0, [0.0] * len(actions)
        for share, y in weighted_means:
            value, gradient = value_and_gradient(y, weights)
            inner_product = 0.0
            for i, g in enumerate(gradient):
                inner_product += y[i] * g
                delta[i] += share * g
            lacking_sum += share * (value - inner_product)
        bracket = sign * lacking_sum
        delta_norm = drift = 0.0
        for d in delta:
            delta_norm += abs(d)
            drift += d
        if delta_norm == 0.0:
            return bracket
        if not is_shift_invariant:
            bracket += baseline * drift
        delta_sizes = [abs(d) for d in delta]
        chosen_slot = proportional(
            delta_sizes, len(delta_sizes), engine.rng.random() * delta_norm
        )
        reward, next_state, is_over = oracle(state, actions[chosen_slot])
        xi = (
            reward - baseline
            if is_over
            else reward + (discount * sample_continuation(next_state) - baseline)
        )
        return bracket + (delta_norm if delta[chosen_slot] > 0.0 else -delta_norm) * xi

    return lacking
