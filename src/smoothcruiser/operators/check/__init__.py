"""Does an operator meet the conditions under which the promises hold? A
numerical check that says which one fails, and where.

The paper's section "Generalization" asks of F, for all Q and Q' over k actions:

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
whether Numba compiles the scalar functions to what Python makes of them.

Points are random in [low, high]^k, and those where operators usually break: all
equal, two or more actions tied at the top. A check of finitely many points can
refute and not prove; what it reports as failing fails at the point it names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.operators.base import Operator
from smoothcruiser.operators.check import omega as omega
from smoothcruiser.operators.check import remainder as remainder
from smoothcruiser.operators.check.constants import constants
from smoothcruiser.operators.check.remainder import moved
from smoothcruiser.operators.check.report import (
    ROUNDING,
    Condition,
    OperatorProbe,
    OperatorReport,
    Pair,
    Point,
)
from smoothcruiser.operators.custom import CustomOperator

# of the difference quotients: their error is about L h + 1e-15/h, so some step
# serves any L < 1e6
STEPS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
# sqrt(L * 1e-15) is far below it for L < 1e6, and a kink or a wrong formula far
# above
MISMATCH = 1e-4
MOST_COUNTS = 32  # of the numbers of legal actions tried below that of the check
NAMES = (
    "differentiable",
    "gradient norm",
    "nonnegative gradient",
    "sums to one",
)


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
        operator: what to test, such as a ``CustomOperator``.
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
    points = list(_points(rng, num_actions, low, high, samples))

    def report(*conditions: Condition) -> OperatorReport:
        return OperatorReport(operator.name, num_actions, len(points), conditions)

    declared = constants(operator, num_actions)
    # the constants of a user's two functions are made of them
    if not (declared.holds or isinstance(operator, CustomOperator)):
        return report(declared)
    broken = _broken(operator, points)
    if broken is not None or not declared.holds:
        return report(broken or declared)
    probe = OperatorProbe(operator, tuple(operator.weights(num_actions)))
    pairs = remainder.all_pairs(probe, points, rng, high - low)
    conditions = [
        declared,
        _differentiable(operator, points),
        _norm(operator, points),
        _nonnegative(operator, points),
        remainder.smooth(probe, pairs, operator.smoothness(num_actions), rng),
    ]
    if operator.shift_invariant:
        conditions.append(_sums_to_one(operator, points))
    ties = list(remainder.ties(probe, high - low, 0.0))
    return report(
        *conditions,
        *_of_remainders(probe, pairs, rng, high - low),
        *_of_omega(probe, points[:60] + ties, rng),
    )


def _of_remainders(
    probe: OperatorProbe, pairs: list[Pair], rng: np.random.Generator, span: float
) -> Iterator[Condition]:
    """Bounds on D that a sharp schedule reads: those of an operator that is
    shift invariant, over all of the actions and over two of them.
    """
    operator, k = probe.operator, probe.num_actions
    if operator.convex:
        yield remainder.convex(pairs)
    if not operator.shift_invariant:
        return
    for fewer in _fewer(probe):
        if fewer.num_actions == 2:
            for base in remainder.ties(fewer, span, 0.0):
                steps = remainder.steps(fewer, base, rng, span)
                pairs = pairs + fewer.pairs(base, steps)
    yield remainder.curved(probe, pairs, operator.curvature(k), rng)
    if operator.strong_convexity() > 0.0:
        yield remainder.strongly_convex(probe, pairs, operator.strong_convexity(), rng)


def _of_omega(
    probe: OperatorProbe, points: list[Point], rng: np.random.Generator
) -> Iterator[Condition]:
    """What is declared of F at zero, of Omega, and of the order of actions."""
    operator, k = probe.operator, probe.num_actions
    low, high = operator.omega_range(k)
    probes = [probe, *_fewer(probe)]
    yield omega.at_zero(probes)
    yield omega.blind(probes, points)
    candidates: list[Point] = []
    if operator.has_omega:
        candidates, bad = omega.defined(probe, omega.policies(probe, points, rng))
        if bad is not None:
            yield bad
            return
        yield omega.regularizer(probe, points, candidates)
        yield omega.convex_omega(probe, candidates, operator.strong_convexity())
    if math.isfinite(low) or math.isfinite(high):
        yield omega.omega_range(probe, points, candidates, (low, high))
    if operator.shift_invariant:
        width = operator.omega_width(k)
        if math.isfinite(width):
            yield omega.omega_width(probe, points, candidates, width)
        if operator.entropic:
            yield omega.entropic(probe, points)
    if operator.convex and not operator.has_prior:
        yield omega.alike(probe, points)
    if not operator.weighted:
        yield omega.unweighted(probe, points[:20], rng)
    yield omega.array_forms(probe, points, candidates)


def _fewer(probe: OperatorProbe) -> list[OperatorProbe]:
    """The operator over fewer legal actions, as far as it takes them: a user's two
    functions may be written for one number of actions.
    """
    found: list[OperatorProbe] = []
    if isinstance(probe.operator, CustomOperator):
        return found
    for j in range(1, min(probe.num_actions, MOST_COUNTS)):
        fewer = probe.over(j)
        try:
            numbers = (probe.operator.offset(j), fewer.value(fewer.zero))
            if all(math.isfinite(x) for x in numbers) and fewer.gradient(fewer.zero):
                found.append(fewer)
        except Exception:
            continue
    return found


def _points(
    rng: np.random.Generator, k: int, low: float, high: float, samples: int
) -> Iterator[Point]:
    """Ties first (where kinks and curvature sit), then random points."""
    middle = 0.5 * (low + high)
    for level in (middle, low, high):
        yield (level,) * k
    for tied in range(2, k):  # the first few tied at the top, the rest far below
        yield (high,) * tied + (low,) * (k - tied)
        yield (low,) * (k - tied) + (high,) * tied
    for _ in range(samples):
        yield tuple(float(x) for x in rng.uniform(low, high, size=k))


def _broken(operator: Operator, points: list[Point]) -> Condition | None:
    """A failed first condition if F or its gradient is not a finite number (of
    the right count) somewhere.
    """
    requirement = "F and its gradient are finite numbers, one per action"
    for q in points:
        try:
            value, gradient = operator.value(q), operator.gradient(q)
            value, gradient = float(value), [float(g) for g in gradient]
        except SmoothcruiserError:
            raise
        except Exception as error:
            found = f"they raise {type(error).__name__}: {error}"
            return Condition(NAMES[0], False, requirement, found, q)
        if not math.isfinite(value):
            return Condition(NAMES[0], False, requirement, f"F = {value}", q)
        if len(gradient) != len(q) or not all(math.isfinite(g) for g in gradient):
            return Condition(NAMES[0], False, requirement, f"gradient = {gradient}", q)
    return None


def _differentiable(operator: Operator, points: list[Point]) -> Condition:
    requirement = (
        "the gradient is the limit of (F(Q + h e_a) - F(Q))/h from both "
        f"sides (within {MISMATCH:g})"
    )
    for q in points:
        value, gradient = operator.value(q), operator.gradient(q)
        for a in range(len(q)):
            for side in (1.0, -1.0):
                quotients = [
                    (operator.value(moved(q, a, side * h)) - value) / (side * h)
                    for h in STEPS
                ]
                nearest = min(quotients, key=lambda d: abs(d - gradient[a]))
                if not abs(nearest - gradient[a]) <= MISMATCH:
                    name = "above" if side > 0 else "below"
                    found = (
                        f"dF/dQ[{a}] from {name} is {nearest:.6g}, the gradient "
                        f"says {gradient[a]:.6g}"
                    )
                    return Condition(NAMES[0], False, requirement, found, q)
    return Condition(NAMES[0], True, requirement)


def _norm(operator: Operator, points: list[Point]) -> Condition:
    requirement = "0 < |gradient|_1 <= 1"
    for q in points:
        norm = math.fsum(abs(g) for g in operator.gradient(q))
        if not 0.0 < norm <= 1.0 + ROUNDING:
            return Condition(
                NAMES[1], False, requirement, f"|gradient|_1 = {norm:.9g}", q
            )
    return Condition(NAMES[1], True, requirement)


def _nonnegative(operator: Operator, points: list[Point]) -> Condition:
    requirement = "every entry of the gradient >= 0"
    for q in points:
        gradient = operator.gradient(q)
        if min(gradient) < -ROUNDING:
            a = gradient.index(min(gradient))
            return Condition(
                NAMES[2], False, requirement, f"gradient[{a}] = {gradient[a]:.6g}", q
            )
    return Condition(NAMES[2], True, requirement)


def _sums_to_one(operator: Operator, points: list[Point]) -> Condition:
    requirement = "the operator says F(Q + c) = F(Q) + c, so its gradient sums to 1"
    for q in points:
        total = math.fsum(operator.gradient(q))
        if abs(total - 1.0) > ROUNDING:
            return Condition(NAMES[3], False, requirement, f"the sum is {total:.9g}", q)
    return Condition(NAMES[3], True, requirement)
