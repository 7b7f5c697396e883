"""A numerical check of the conditions under which the promises hold.

It says which condition an operator fails, and where.

The paper's section "Generalization" requires, for all Q and Q' over k actions:

    1. differentiable         here: the gradient is the limit of one-sided
                              difference quotients, in every direction +-e_a
    2. gradient norm          0 < |grad F(Q)|_1 <= 1
    3. nonnegative gradient   grad F(Q) >= 0
    4. L-smooth               |F(Q) - F(Q') - <Q - Q', grad F(Q')>| <=
                              L |Q - Q'|_2^2 with the operator's ``smoothness`` L
    5. sums to one            only where the operator is ``shift_invariant``:
                              sum grad F(Q) = 1, which bounds of the solver and
                              of schedules use

Points are random in [low, high]^k, and those where operators usually break: all
equal, two or more actions tied at the top. A check of finitely many points can
refute a condition, but not prove it. A condition reported as failing does fail
at the point that is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators.base import Operator

# Of the difference quotients. Their error is about L h + 1e-15/h, so one of the steps
# serves any L < 1e6.
STEPS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
# For L < 1e6 the error sqrt(L * 1e-15) is below it, and a kink or a wrong formula is
# far above.
MISMATCH = 1e-4
ROUNDING = 1e-9  # what sums of k numbers near 1 may miss
NAMES = (
    "differentiable",
    "gradient norm",
    "nonnegative gradient",
    "L-smooth",
    "sums to one",
)

Point = tuple[float, ...]


@dataclass(frozen=True)
class Condition:
    """One condition, and whether it held at every point tried.

    If not, it has the first point and the numbers that refute it.
    """

    name: str
    holds: bool
    requirement: str
    finding: str = ""  # what was found instead, with its numbers
    q: Point | None = None
    other: Point | None = None  # Q', for L-smooth


@dataclass(frozen=True)
class OperatorReport:
    """What ``check_operator`` found; ``str()`` is a table."""

    operator: str
    num_actions: int
    points: int
    conditions: tuple[Condition, ...]

    @property
    def ok(self) -> bool:
        """Whether every condition held at every point tried."""
        return all(condition.holds for condition in self.conditions)

    @property
    def failures(self) -> tuple[str, ...]:
        """Names of the conditions that failed."""
        return tuple(
            condition.name for condition in self.conditions if not condition.holds
        )

    def __getitem__(self, name: str) -> Condition:
        """The condition called ``name``."""
        for condition in self.conditions:
            if condition.name == name:
                return condition
        raise InvalidInput(
            f"No condition is called {name!r}; there are "
            f"{', '.join(c.name for c in self.conditions)}."
        )

    def __str__(self) -> str:
        lines = [
            (
                f"{self.operator} over {self.num_actions} actions, {self.points} "
                f"points: {'all hold' if self.ok else 'FAILS'}"
            )
        ]
        for condition in self.conditions:
            lines.append(
                f"  {'ok  ' if condition.holds else 'FAIL'}  {condition.name:<21} "
                f"{condition.requirement}"
            )
            if not condition.holds:
                where = "" if condition.q is None else f" at Q = {_show(condition.q)}"
                where += (
                    ""
                    if condition.other is None
                    else f", Q' = {_show(condition.other)}"
                )
                lines.append(f"        {condition.finding}{where}")
        return "\n".join(lines)


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

    The paper's four conditions are tested at random points and at ties. The
    same seed gives the same report.

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
    broken = _broken(operator, points)
    if broken is not None:
        return OperatorReport(operator.name, num_actions, len(points), (broken,))
    conditions = [
        _differentiable(operator, points),
        _norm(operator, points),
        _nonnegative(operator, points),
        _smooth(operator, points, rng, high - low),
    ]
    if operator.shift_invariant:
        conditions.append(_sums_to_one(operator, points))
    return OperatorReport(operator.name, num_actions, len(points), tuple(conditions))


def _points(
    rng: np.random.Generator, k: int, low: float, high: float, samples: int
) -> Iterator[Point]:
    """Return ties first, where kinks and curvature are, then random points."""
    middle = 0.5 * (low + high)
    for level in (middle, low, high):
        yield (level,) * k
    for tied in range(2, k):  # the first few tied at the top, the rest far below
        yield (high,) * tied + (low,) * (k - tied)
        yield (low,) * (k - tied) + (high,) * tied
    for _ in range(samples):
        yield tuple(float(x) for x in rng.uniform(low, high, size=k))


def _broken(operator: Operator, points: list[Point]) -> Condition | None:
    """Return a failed first condition if F or its gradient is not finite somewhere.

    A gradient of the wrong length fails as well.
    """
    requirement = "F and its gradient are finite numbers, one per action"
    for q in points:
        value, gradient = operator.value(q), operator.gradient(q)
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
                    (operator.value(_moved(q, a, side * h)) - value) / (side * h)
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


def _smooth(
    operator: Operator, points: list[Point], rng: np.random.Generator, span: float
) -> Condition:
    """Check that F is L-smooth, at far and at near pairs of points.

    Far pairs find a gradient that changes too much. Near pairs along e_a and
    e_a - e_b find the curvature itself.
    """
    constant = operator.smoothness(len(points[0]))
    requirement = (
        "|F(Q) - F(Q') - <Q - Q', gradient(Q')>| <= L |Q - Q'|^2 with L = "
        f"{constant:.6g}"
    )
    if not math.isfinite(constant):
        return Condition(NAMES[3], False, requirement, "no finite L is claimed")
    for base in points:
        value, gradient = operator.value(base), operator.gradient(base)
        for q in _partners(base, points, rng, span):
            step = [x - y for x, y in zip(q, base, strict=True)]
            square = math.fsum(x * x for x in step)
            gap = abs(
                operator.value(q)
                - value
                - math.fsum(x * g for x, g in zip(step, gradient, strict=True))
            )
            # the rounding of the cancelling sums
            noise = (
                1e-14
                * len(base)
                * (1.0 + abs(value) + max(abs(x) for x in (*q, *base)))
            )
            if gap > constant * square * (1.0 + ROUNDING) + noise:
                needed = gap / square
                return Condition(
                    NAMES[3],
                    False,
                    requirement,
                    f"the left side is {gap:.6g}, so L >= {needed:.6g} would be needed",
                    q,
                    base,
                )
    return Condition(NAMES[3], True, requirement)


def _partners(
    base: Point, points: list[Point], rng: np.random.Generator, span: float
) -> Iterator[Point]:
    yield from (points[int(rng.integers(len(points)))] for _ in range(2))
    for scale in (0.3, 0.03, 0.003):
        h = scale * span
        direction = rng.normal(size=len(base))
        yield tuple(float(x + h * d) for x, d in zip(base, direction, strict=True))
        for a in range(len(base)):
            yield _moved(base, a, h)
            b = (a + 1) % len(base)
            if b != a:
                yield _moved(_moved(base, a, h), b, -h)


def _sums_to_one(operator: Operator, points: list[Point]) -> Condition:
    requirement = "the operator says F(Q + c) = F(Q) + c, so its gradient sums to 1"
    for q in points:
        total = math.fsum(operator.gradient(q))
        if abs(total - 1.0) > ROUNDING:
            return Condition(NAMES[4], False, requirement, f"the sum is {total:.9g}", q)
    return Condition(NAMES[4], True, requirement)


def _moved(q: Point, a: int, h: float) -> Point:
    return (*q[:a], q[a] + h, *q[a + 1 :])


def _show(q: Point) -> str:
    return "[" + ", ".join(f"{x:.4g}" for x in q) + "]"
