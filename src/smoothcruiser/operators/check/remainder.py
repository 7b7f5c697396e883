"""The constants that bound D(Q, Q') = F(Q) - F(Q') - <Q - Q', grad F(Q')>.

    L-smooth          |D| <= L |h|^2                 h = Q - Q'; method="paper"
    curvature         D <= curv span(h)^2 / 8        every sharp schedule
    strong convexity  D <= |h - mean h|^2 / (2 c)    S5 and S9 of docs/theory.md
    convex            D >= 0

The last three are read where F(Q + c) = F(Q) + c; where F need not be convex,
schedules take |D| in the place of D. The points tried: random ones, and those
where curvature sits, which are ties of some actions with the rest at any
distance below, seen at steps of any size relative to the temperature. From the
worst pairs found a few random steps climb on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from smoothcruiser.operators.check.report import (
    ROUNDING,
    Condition,
    OperatorProbe,
    Pair,
    Point,
)

CLIMBS, CLIMB_STEPS = 2, 80
MOST = 12  # actions moved one by one at a random point; others at other points
# distances below the tie, and steps, in temperatures; where there is none, in
# ranges of the action values
GAPS, STEPS = (0.5, 2.0, 30.0, 1000.0), (0.01, 0.1, 0.5, 2.0, 10.0)
BLIND = (1e3, 1e2, 10.0, 1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5)


def all_pairs(
    probe: OperatorProbe, points: list[Point], rng: np.random.Generator, span: float
) -> list[Pair]:
    """Pairs at the points and at ties. Far ones find a gradient that changes too
    much, near ones along e_a and e_a - e_b the curvature itself.
    """
    found = []
    for base in points:
        found += probe.pairs(base, _partners(base, points, rng, span))
    for base in ties(probe, span, 0.5 * (points[0][0] + points[-1][0])):
        found += probe.pairs(base, steps(probe, base, rng, span))
    return found


def _scales(
    probe: OperatorProbe, span: float, warm: tuple[float, ...]
) -> tuple[float, ...]:
    """Distances at which an operator may change its mind."""
    strength = probe.operator.strength
    if strength > 0.0:
        return (*(strength * x for x in warm), 0.1 * span)
    return tuple(span * x for x in BLIND)


def ties(probe: OperatorProbe, span: float, level: float) -> Iterator[Point]:
    """Some actions tied at ``level``, the others tied at a distance below; where
    there is a prior, also such that its weights are levelled out.
    """
    k, w = probe.num_actions, probe.weights
    top = max(w)
    tilt = [probe.operator.strength * math.log(top / x) if x > 0.0 else 0.0 for x in w]
    for tied in sorted({1, 2, k // 2, k - 1, k} & set(range(1, k + 1))):
        for gap in _scales(probe, span, GAPS):
            base = (level,) * tied + (level - gap,) * (k - tied)
            yield base
            if any(tilt):
                yield tuple(x + y for x, y in zip(base, tilt, strict=True))
            if tied == k:
                break


def steps(
    probe: OperatorProbe, base: Point, rng: np.random.Generator, span: float
) -> Iterator[Point]:
    """From a tie: one action, one against the next, one half against the other,
    the tied against the rest, and at random.
    """
    k = probe.num_actions
    top = max(base)
    directions = [
        [float(a == 0) for a in range(k)],
        [float(a == 0) - float(a == 1) for a in range(k)],
        [float(a < k // 2) - 0.5 for a in range(k)],
        [float(a % 2) for a in range(k)],
        [float(x == top) for x in base],
        [-float(x == top) for x in base],
    ]
    for scale in _scales(probe, span, STEPS):
        for direction in (*directions, rng.normal(size=k).tolist()):
            q = tuple(x + scale * d for x, d in zip(base, direction, strict=True))
            if q != base:
                yield q


def _partners(
    base: Point, points: list[Point], rng: np.random.Generator, span: float
) -> Iterator[Point]:
    yield from (points[int(rng.integers(len(points)))] for _ in range(2))
    for scale in (0.3, 0.03, 0.003):
        h = scale * span
        direction = rng.normal(size=len(base))
        yield tuple(float(x + h * d) for x, d in zip(base, direction, strict=True))
        few = range(len(base))
        for a in few if len(few) <= MOST else rng.choice(few, MOST).tolist():
            yield moved(base, a, h)
            b = (a + 1) % len(base)
            if b != a:
                yield moved(moved(base, a, h), b, -h)


def moved(q: Point, a: int, h: float) -> Point:
    """Q + h e_a."""
    return (*q[:a], q[a] + h, *q[a + 1 :])


# --- the conditions -----------------------------------------------------------


def smooth(
    probe: OperatorProbe, pairs: list[Pair], constant: float, rng: np.random.Generator
) -> Condition:
    """|D| <= L |Q - Q'|^2, the paper's condition."""
    requirement = (
        "|F(Q) - F(Q') - <Q - Q', gradient(Q')>| <= L |Q - Q'|^2 with L = "
        f"{constant:.6g}"
    )
    if not math.isfinite(constant):
        return Condition("L-smooth", False, requirement, "no finite L is claimed")

    def bound(pair: Pair) -> float:
        return constant * pair.square

    worst = _worst(probe, pairs, bound, lambda pair: abs(pair.remainder), rng)
    if worst is None:
        return Condition("L-smooth", True, requirement)
    size = abs(worst.remainder)
    needed = size / worst.square
    return Condition(
        "L-smooth",
        False,
        requirement,
        f"the left side is {size:.6g}, so L >= {needed:.6g} would be needed",
        worst.q,
        worst.base,
    )


def curved(
    probe: OperatorProbe, pairs: list[Pair], constant: float, rng: np.random.Generator
) -> Condition:
    """D <= curv span(Q - Q')^2 / 8."""
    side, left = _side(probe)
    requirement = (
        f"{left} <= curvature * span(Q - Q')^2 / 8 with curvature = {constant:.6g}"
    )

    def bound(pair: Pair) -> float:
        return constant * pair.span**2 / 8.0

    worst = _worst(probe, pairs, bound, side, rng)
    if worst is None:
        return Condition("curvature", True, requirement)
    needed = math.inf if worst.span == 0.0 else 8.0 * side(worst) / worst.span**2
    return Condition(
        "curvature",
        False,
        requirement,
        f"the left side is {side(worst):.6g}, so curvature >= {needed:.6g} would be "
        "needed",
        worst.q,
        worst.base,
    )


def strongly_convex(
    probe: OperatorProbe, pairs: list[Pair], constant: float, rng: np.random.Generator
) -> Condition:
    """D <= |h - mean h|^2 / (2 c), which is what c-strong convexity of Omega says
    of F.
    """
    side, left = _side(probe)
    requirement = (
        f"{left} <= |h - mean h|^2 / (2 c) for h = Q - Q', with strong_convexity c = "
        f"{constant:.6g}"
    )

    def bound(pair: Pair) -> float:
        return pair.centred / (2.0 * constant) if constant > 0.0 else math.inf

    worst = _worst(probe, pairs, bound, side, rng)
    if worst is None:
        return Condition("strong convexity", True, requirement)
    needed = worst.centred / (2.0 * side(worst))
    return Condition(
        "strong convexity",
        False,
        requirement,
        f"the left side is {side(worst):.6g}, so c <= {needed:.6g} would be needed",
        worst.q,
        worst.base,
    )


def convex(pairs: list[Pair]) -> Condition:
    """D >= 0."""
    requirement = (
        "the operator says that F is convex, so F(Q) >= F(Q') + <Q - Q', gradient(Q')>"
    )
    for pair in pairs:
        if pair.remainder < -10.0 * pair.noise:
            found = f"the left side is less by {-pair.remainder:.6g}"
            return Condition("convex", False, requirement, found, pair.q, pair.base)
    return Condition("convex", True, requirement)


# --- the search ---------------------------------------------------------------

Measure = Callable[[Pair], float]


def _side(probe: OperatorProbe) -> tuple[Measure, str]:
    """D, or |D| where F need not be convex, and its name."""
    remainder = "F(Q) - F(Q') - <Q - Q', gradient(Q')>"
    if probe.operator.convex:
        return (lambda pair: pair.remainder), remainder
    return (lambda pair: abs(pair.remainder)), f"|{remainder}|"


def _worst(
    probe: OperatorProbe,
    pairs: list[Pair],
    bound: Measure,
    side: Measure,
    rng: np.random.Generator,
) -> Pair | None:
    """The first pair that refutes ``side <= bound``, beyond what rounding can."""

    def refutes(pair: Pair) -> bool:
        return side(pair) > bound(pair) * (1.0 + ROUNDING) + pair.noise

    def ratio(pair: Pair) -> float:
        limit = bound(pair)
        # where rounding is a part of it, a ratio says nothing
        if not side(pair) > 1e3 * pair.noise or not math.isfinite(limit):
            return 0.0
        return math.inf if limit == 0.0 else side(pair) / limit

    for pair in pairs:
        if refutes(pair):
            return pair
    for start in sorted(pairs, key=ratio, reverse=True)[:CLIMBS]:
        best, size = start, 0.3
        for _ in range(CLIMB_STEPS if ratio(start) > 0.0 else 0):
            pair = _nearby(probe, best, size, rng)
            if refutes(pair):
                return pair
            if ratio(pair) > ratio(best):
                best = pair
            else:
                size = max(0.95 * size, 1e-2)
    return None


def _nearby(
    probe: OperatorProbe, pair: Pair, size: float, rng: np.random.Generator
) -> Pair:
    """Another pair: Q' moved by a part of the step, and the step itself changed."""
    k = len(pair.q)
    probe = probe.over(k)
    step = np.subtract(pair.q, pair.base)
    step *= np.exp(size * rng.normal())
    step += size * pair.span * rng.normal(size=k) * (rng.random(k) < 0.5)
    width = max(pair.span, probe.operator.strength)
    base = np.asarray(pair.base) + size * width * rng.normal(size=k)
    q = tuple(float(x) for x in base + step)
    return probe.pairs(tuple(float(x) for x in base), [q])[0]
