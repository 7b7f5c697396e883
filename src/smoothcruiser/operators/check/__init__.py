"""Numerical check of the conditions under which the promises of an operator hold.

It says which condition fails, and where.

The paper's section "Generalization" requires of F, for all Q and Q' over k actions:

    1. differentiable         here: the gradient is the limit of one-sided
                              difference quotients, in every direction +-e_a
    2. gradient norm          0 < |grad F(Q)|_1 <= 1
    3. nonnegative gradient   grad F(Q) >= 0
    4. L-smooth               |F(Q) - F(Q') - <Q - Q', grad F(Q')>| <=
                              L |Q - Q'|_2^2 with the operator's ``smoothness`` L
    5. sums to one            only where the operator is ``shift_invariant``:
                              sum grad F(Q) = 1, which bounds of the solver and
                              of schedules use

Promises rest on every constant that an operator declares, so each is tested:
that it is a number (``check.constants``), those that bound the remainder D
(``check.remainder``), and those of Omega, of F(0) and of the order of actions
(``check.omega``). Not tested: ``rounding_scale`` beyond being a number, and
whether the scalar functions give the same in Numba as in Python.

Points are random in [low, high]^k, and those where operators usually break: all
equal, two or more actions tied at the top. A check of finitely many points can
refute and not prove. A condition that it reports as failing does fail at the named
point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.operators.base import Operator
from smoothcruiser.operators.check import omega as omega
from smoothcruiser.operators.check import remainder as remainder
from smoothcruiser.operators.check.check_report import (
    ROUNDING,
    Condition,
    OperatorProbe,
    OperatorReport,
    Pair,
    Point,
    check_constants,
)
from smoothcruiser.operators.check.remainder import move_action
from smoothcruiser.operators.custom import CustomOperator

# of the difference quotients: their error is about L h + 1e-15/h, so some step
# serves any L < 1e6
STEPS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
# sqrt(L * 1e-15) is far below it for L < 1e6, and a kink or a wrong formula far
# above
MISMATCH = 1e-4
MOST_COUNTS = 32  # of the numbers of legal actions tried below that of the check
NAMES = ("differentiable", "gradient norm", "nonnegative gradient", "sums to one")


def check_operator(
    operator: Operator,
    num_actions: int = 3,
    *,
    low: float = -5.0,
    high: float = 5.0,
    samples: int = 200,
    seed: int = 0,
) -> OperatorReport:
    """A report on the conditions that an operator of your own has to meet.

    The paper's four conditions and every constant that the operator declares
    are tested, at random points and at ties. The same seed gives the same
    report.

    Args:
        operator: the operator to test, such as a ``CustomOperator``.
        num_actions: length of the vectors of action values; 3 by default.
        low: smallest action value, in units of reward; -5 by default.
        high: largest action value, in units of reward; 5 by default.
        samples: number of random points; 200 by default.
        seed: of the generator of the points; 0 by default.

    Example:
        >>> import smoothcruiser as sc
        >>> sc.check_operator(sc.Entropy(0.5), num_actions=4).ok
        True
    """
    if (
        isinstance(num_actions, bool)
        or not isinstance(num_actions, int)
        or num_actions < 1
    ):
        raise InvalidInput(
            f"num_actions must be a whole number of at least 1, got {num_actions!r}."
        )
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise InvalidInput(
            f"samples must be a whole number of at least 1, got {samples!r}."
        )
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput(
            f"low and high must be finite numbers with low < high, got {low!r} and "
            f"{high!r}."
        )
    rng = np.random.default_rng(seed)
    test_points = list(_points(rng, num_actions, low, high, samples))

    def report(*conditions: Condition) -> OperatorReport:
        return OperatorReport(operator.name, num_actions, len(test_points), conditions)

    constants_condition = check_constants(operator, num_actions)
    # the constants of a user's two functions are made of them
    if not (constants_condition.holds or isinstance(operator, CustomOperator)):
        return report(constants_condition)
    broken_condition = _find_broken(operator, test_points)
    if broken_condition is not None or not constants_condition.holds:
        return report(broken_condition or constants_condition)
    probe = OperatorProbe(operator, tuple(operator.weights(num_actions)))
    pairs = remainder.all_pairs(probe, test_points, rng, high - low)
    conditions = [
        constants_condition,
        _check_differentiable(operator, test_points),
        _check_norm(operator, test_points),
        _check_nonnegative(operator, test_points),
        remainder.check_smooth(probe, pairs, operator.smoothness(num_actions), rng),
    ]
    if operator.shift_invariant:
        conditions.append(_check_sum(operator, test_points))
    tie_points = list(remainder.ties(probe, high - low, 0.0))
    return report(
        *conditions,
        *_remainder_conditions(probe, pairs, rng, high - low),
        *_omega_conditions(probe, test_points[:60] + tie_points, rng),
    )


def _remainder_conditions(
    probe: OperatorProbe, pairs: list[Pair], rng: np.random.Generator, span: float
) -> Iterator[Condition]:
    """Yield the conditions on D that a sharp schedule relies on.

    They concern shift-invariant operators, over all actions and over two of them.
    """
    operator, k = probe.operator, probe.num_actions
    if operator.convex:
        yield remainder.check_convex(pairs)
    if not operator.shift_invariant:
        return
    for smaller_probe in _smaller_probes(probe):
        if smaller_probe.num_actions == 2:
            for tie_point in remainder.ties(smaller_probe, span, 0.0):
                near_points = remainder.steps(smaller_probe, tie_point, rng, span)
                pairs = pairs + smaller_probe.pairs(tie_point, near_points)
    yield remainder.check_curvature(probe, pairs, operator.curvature(k), rng)
    if operator.strong_convexity() > 0.0:
        yield remainder.check_strongly_convex(
            probe, pairs, operator.strong_convexity(), rng
        )


def _omega_conditions(
    probe: OperatorProbe, points: list[Point], rng: np.random.Generator
) -> Iterator[Condition]:
    """Yield the conditions on F at zero, on Omega, and on the order of actions."""
    operator, k = probe.operator, probe.num_actions
    omega_min, omega_max = operator.omega_range(k)
    probes = [probe, *_smaller_probes(probe)]
    yield omega.check_at_zero(probes)
    yield omega.check_blind(probes, points)
    candidate_policies: list[Point] = []
    if operator.has_omega:
        candidate_policies, failed_condition = omega.check_finite(
            probe, omega.policies(probe, points, rng)
        )
        if failed_condition is not None:
            yield failed_condition
            return
        yield omega.check_regularizer(probe, points, candidate_policies)
        yield omega.check_convex_omega(
            probe, candidate_policies, operator.strong_convexity()
        )
    if math.isfinite(omega_min) or math.isfinite(omega_max):
        yield omega.check_omega_range(
            probe, points, candidate_policies, (omega_min, omega_max)
        )
    if operator.shift_invariant:
        omega_width = operator.omega_width(k)
        if math.isfinite(omega_width):
            yield omega.check_omega_width(
                probe, points, candidate_policies, omega_width
            )
        if operator.entropic:
            yield omega.check_entropic(probe, points)
    if operator.convex and not operator.has_prior:
        yield omega.check_order_free(probe, points)
    if not operator.weighted:
        yield omega.check_unweighted(probe, points[:20], rng)
    yield omega.check_array_forms(probe, points, candidate_policies)


def _smaller_probes(probe: OperatorProbe) -> list[OperatorProbe]:
    """Return the operator over fewer legal actions, where it can be evaluated.

    A user's two functions may be written for one number of actions.
    """
    smaller_probes: list[OperatorProbe] = []
    if isinstance(probe.operator, CustomOperator):
        return smaller_probes
    for num_legal in range(1, min(probe.num_actions, MOST_COUNTS)):
        smaller_probe = probe.over(num_legal)
        try:
            values_at_zero = (
                probe.operator.offset(num_legal),
                smaller_probe.value(smaller_probe.zero),
            )
            if all(
                math.isfinite(x) for x in values_at_zero
            ) and smaller_probe.gradient(smaller_probe.zero):
                smaller_probes.append(smaller_probe)
        except Exception:
            continue
    return smaller_probes


def _points(
    rng: np.random.Generator, k: int, low: float, high: float, samples: int
) -> Iterator[Point]:
    """Yield ties (where kinks and curvature sit), then random points."""
    middle = 0.5 * (low + high)
    for level in (middle, low, high):
        yield (level,) * k
    for num_tied in range(2, k):  # some tied at the top, the others far below
        yield (high,) * num_tied + (low,) * (k - num_tied)
        yield (low,) * (k - num_tied) + (high,) * num_tied
    for _ in range(samples):
        yield tuple(float(x) for x in rng.uniform(low, high, size=k))


def _find_broken(operator: Operator, points: list[Point]) -> Condition | None:
    """Return a failed condition if F or its gradient is not finite somewhere.

    A gradient with a wrong number of entries fails too.
    """
    requirement = "F and its gradient are finite numbers, one per action"
    for q in points:
        try:
            value, gradient = operator.value(q), operator.gradient(q)
            value, gradient = float(value), [float(g) for g in gradient]
        except SmoothcruiserError:
            raise
        except Exception as error:
            finding = f"they raise {type(error).__name__}: {error}"
            return Condition(NAMES[0], False, requirement, finding, q)
        if not math.isfinite(value):
            return Condition(NAMES[0], False, requirement, f"F = {value}", q)
        if len(gradient) != len(q) or not all(math.isfinite(g) for g in gradient):
            return Condition(NAMES[0], False, requirement, f"gradient = {gradient}", q)
    return None


def _check_differentiable(operator: Operator, points: list[Point]) -> Condition:
    requirement = (
        "the gradient is the limit of (F(Q + h e_a) - F(Q))/h from both "
        f"sides (within {MISMATCH:g})"
    )
    for q in points:
        value, gradient = operator.value(q), operator.gradient(q)
        for action in range(len(q)):
            for step_sign in (1.0, -1.0):
                difference_quotients = [
                    (
                        operator.value(move_action(q, action, step_sign * step_size))
                        - value
                    )
                    / (step_sign * step_size)
                    for step_size in STEPS
                ]
                nearest_quotient = min(
                    difference_quotients, key=lambda d: abs(d - gradient[action])
                )
                if not abs(nearest_quotient - gradient[action]) <= MISMATCH:
                    side_name = "above" if step_sign > 0 else "below"
                    finding = (
                        f"dF/dQ[{action}] from {side_name} is {nearest_quotient:.6g}, "
                        f"the gradient says {gradient[action]:.6g}"
                    )
                    return Condition(NAMES[0], False, requirement, finding, q)
    return Condition(NAMES[0], True, requirement)


def _check_norm(operator: Operator, points: list[Point]) -> Condition:
    requirement = "0 < |gradient|_1 <= 1"
    for q in points:
        gradient_norm = math.fsum(abs(g) for g in operator.gradient(q))
        if not 0.0 < gradient_norm <= 1.0 + ROUNDING:
            return Condition(
                NAMES[1], False, requirement, f"|gradient|_1 = {gradient_norm:.9g}", q
            )
    return Condition(NAMES[1], True, requirement)


def _check_nonnegative(operator: Operator, points: list[Point]) -> Condition:
    requirement = "every entry of the gradient >= 0"
    for q in points:
        gradient = operator.gradient(q)
        if min(gradient) < -ROUNDING:
            action = gradient.index(min(gradient))
            return Condition(
                NAMES[2],
                False,
                requirement,
                f"gradient[{action}] = {gradient[action]:.6g}",
                q,
            )
    return Condition(NAMES[2], True, requirement)


def _check_sum(operator: Operator, points: list[Point]) -> Condition:
    requirement = "the operator says F(Q + c) = F(Q) + c, so its gradient sums to 1"
    for q in points:
        gradient_sum = math.fsum(operator.gradient(q))
        if abs(gradient_sum - 1.0) > ROUNDING:
            return Condition(
                NAMES[3], False, requirement, f"the sum is {gradient_sum:.9g}", q
            )
    return Condition(NAMES[3], True, requirement)
