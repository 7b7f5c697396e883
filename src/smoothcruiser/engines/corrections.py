"""What a randomized level adds to its base, as functions for executor ``python``.

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
    from smoothcruiser.engines.python import Means, PythonEngine

# (state, legal actions, their prior weights, the mover's sign) -> what is added
Correction = Callable[[Any, list[int], list[float], float], float]


def correction(engine: PythonEngine, level: Level, query: Means) -> Correction:
    """A function that samples what ``level`` adds to its base."""
    lacks = _value_lacks if level.kind == Kind.RANDOM_PLUGIN else _rollout_lacks
    lacking = lacks(engine, level)
    rungs, samples = level.rungs, level.samples

    def corrected(
        state: Any, actions: list[int], weights: list[float], sign: float
    ) -> float:
        u = engine.rng.random()
        running = 0.0
        for j, chance in enumerate(rungs):
            running += chance
            if u < running:
                m = samples << j
                first = [sign * x for x in query(state, actions, m)]
                second = [sign * x for x in query(state, actions, m)]
                whole = [0.5 * (x + y) for x, y in zip(first, second, strict=True)]
                parts = ((1.0, whole), (-0.5, first), (-0.5, second))
                return lacking(state, actions, weights, sign, parts) / chance
        return 0.0

    return corrected


Parts = tuple[tuple[float, list[float]], ...]
Lacking = Callable[[Any, list[int], list[float], float, Parts], float]


def _value_lacks(engine: PythonEngine, level: Level) -> Lacking:
    operator = engine.problem.operator
    value_of, strength = operator.scalar.value, operator.strength

    def lacking(
        state: Any, actions: list[int], weights: list[float], sign: float, parts: Parts
    ) -> float:
        total = 0.0
        for share, y in parts:
            total += share * value_of(y, weights, strength)
        return sign * total

    return lacking


def _rollout_lacks(engine: PythonEngine, level: Level) -> Lacking:
    operator, baseline = engine.problem.operator, level.constant
    both, unit = operator.both, operator.shift_invariant
    oracle, discount = engine.oracle, engine.problem.discount
    onward = engine.draws[level.continuation]

    def lacking(
        state: Any, actions: list[int], weights: list[float], sign: float, parts: Parts
    ) -> float:
        total, delta = 0.0, [0.0] * len(actions)
        for share, y in parts:
            value, gradient = both(y, weights)
            inner = 0.0
            for i, g in enumerate(gradient):
                inner += y[i] * g
                delta[i] += share * g
            total += share * (value - inner)
        bracket = sign * total
        norm = drift = 0.0
        for d in delta:
            norm += abs(d)
            drift += d
        if norm == 0.0:
            return bracket
        if not unit:
            bracket += baseline * drift
        sizes = [abs(d) for d in delta]
        chosen = proportional(sizes, len(sizes), engine.rng.random() * norm)
        reward, after, ended = oracle(state, actions[chosen])
        xi = (
            reward - baseline
            if ended
            else reward + (discount * onward(after) - baseline)
        )
        return bracket + (norm if delta[chosen] > 0.0 else -norm) * xi

    return lacking
