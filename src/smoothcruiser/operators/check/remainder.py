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

from smoothcruiser.operators.check.check_report import (
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
    """Return pairs at the points and at ties.

    Far ones detect a gradient that changes too much, near ones along e_a and
    e_a - e_b the curvature itself.
    """
    point_pairs = []
    for base in points:
        point_pairs += probe.pairs(base, _partners(base, points, rng, span))
    for base in ties(probe, span, 0.5 * (points[0][0] + points[-1][0])):
        point_pairs += probe.pairs(base, steps(probe, base, rng, span))
    return point_pairs


def _scales(
    probe: OperatorProbe, span: float, warm: tuple[float, ...]
) -> tuple[float, ...]:
    """Return distances at which the gradient of an operator may change."""
    strength = probe.operator.strength
    if strength > 0.0:
        return (*(strength * x for x in warm), 0.1 * span)
    return tuple(span * x for x in BLIND)


def ties(probe: OperatorProbe, span: float, level: float) -> Iterator[Point]:
    """Yield points with some actions tied at ``level``, the others tied below.

    Where there is a prior, they also come with its weights levelled out.
    """
    k, w = probe.num_actions, probe.weights
    max_weight = max(w)
    prior_shifts = [
        probe.operator.strength * math.log(max_weight / x) if x > 0.0 else 0.0
        for x in w
    ]
    for num_tied in sorted({1, 2, k // 2, k - 1, k} & set(range(1, k + 1))):
        for gap in _scales(probe, span, GAPS):
            base = (level,) * num_tied + (level - gap,) * (k - num_tied)
            yield base
            if any(prior_shifts):
                yield tuple(x + y for x, y in zip(base, prior_shifts, strict=True))
            if num_tied == k:
                break


def steps(
    probe: OperatorProbe, base: Point, rng: np.random.Generator, span: float
) -> Iterator[Point]:
    """Yield points one step away from a tie.

    Directions are one action, one against the next, one half against the other, the
    tied actions against the remaining ones, and random ones.
    """
    k = probe.num_actions
    max_value = max(base)
    directions = [
        [float(a == 0) for a in range(k)],
        [float(a == 0) - float(a == 1) for a in range(k)],
        [float(a < k // 2) - 0.5 for a in range(k)],
        [float(a % 2) for a in range(k)],
        [float(x == max_value) for x in base],
        [-float(x == max_value) for x in base],
    ]
    for step_size in _scales(probe, span, STEPS):
        for direction in (*directions, rng.normal(size=k).tolist()):
            q = tuple(x + step_size * d for x, d in zip(base, direction, strict=True))
            if q != base:
                yield q


def _partners(
    base: Point, points: list[Point], rng: np.random.Generator, span: float
) -> Iterator[Point]:
    yield from (points[int(rng.integers(len(points)))] for _ in range(2))
    for relative_step in (0.3, 0.03, 0.003):
        step_size = relative_step * span
        direction = rng.normal(size=len(base))
        yield tuple(
            float(x + step_size * d) for x, d in zip(base, direction, strict=True)
        )
        actions = range(len(base))
        for a in (
            actions if len(actions) <= MOST else rng.choice(actions, MOST).tolist()
        ):
            yield move_action(base, a, step_size)
            b = (a + 1) % len(base)
            if b != a:
                yield move_action(move_action(base, a, step_size), b, -step_size)


def move_action(q: Point, a: int, h: float) -> Point:
    """Q + h e_a."""
    return (*q[:a], q[a] + h, *q[a + 1 :])


# --- the conditions -----------------------------------------------------------


def check_smooth(
    probe: OperatorProbe, pairs: list[Pair], constant: float, rng: np.random.Generator
) -> Condition:
    """|D| <= L |Q - Q'|^2, the paper's condition."""
    requirement = (
        "|F(Q) - F(Q') - <Q - Q', gradient(Q')>| <= L |Q - Q'|^2 with L = "
        f"{constant:.6g}"
    )
    if not math.isfinite(constant):
        return Condition("L-smooth", False, requirement, "no finite L is claimed")

    def pair_bound(pair: Pair) -> float:
        return constant * pair.square

    worst_pair = _worst_pair(
        probe, pairs, pair_bound, lambda pair: abs(pair.remainder), rng
    )
    if worst_pair is None:
        return Condition("L-smooth", True, requirement)
    remainder_size = abs(worst_pair.remainder)
    needed_constant = remainder_size / worst_pair.square
    return Condition(
        "L-smooth",
        False,
        requirement,
        f"the left side is {remainder_size:.6g}, so L >= {needed_constant:.6g} would "
        "be needed",
        worst_pair.q,
        worst_pair.base,
    )


def check_curvature(
    probe: OperatorProbe, pairs: list[Pair], constant: float, rng: np.random.Generator
) -> Condition:
    """D <= curv span(Q - Q')^2 / 8."""
    remainder_measure, left_side = _remainder_side(probe)
    requirement = f"{left_side} <= curvature * span(Q - Q')^2 / 8 with curvature = {constant:.6g}"

    def pair_bound(pair: Pair) -> float:
        return constant * pair.span**2 / 8.0

    worst_pair = _worst_pair(probe, pairs, pair_bound, remainder_measure, rng)
    if worst_pair is None:
        return Condition("curvature", True, requirement)
    needed_curvature = (
        math.inf
        if worst_pair.span == 0.0
        else 8.0 * remainder_measure(worst_pair) / worst_pair.span**2
    )
    return Condition(
        "curvature",
        False,
        requirement,
        f"the left side is {remainder_measure(worst_pair):.6g}, so "
        f"curvature >= {needed_curvature:.6g} would be needed",
        worst_pair.q,
        worst_pair.base,
    )


def check_strongly_convex(
    probe: OperatorProbe, pairs: list[Pair], constant: float, rng: np.random.Generator
) -> Condition:
    """D <= |h - mean h|^2 / (2 c), which follows from c-strong convexity of Omega."""
    remainder_measure, left_side = _remainder_side(probe)
    requirement = (
        f"{left_side} <= |h - mean h|^2 / (2 c) for h = Q - Q', with strong_convexity "
        f"c = {constant:.6g}"
    )

    def pair_bound(pair: Pair) -> float:
        return pair.centred / (2.0 * constant) if constant > 0.0 else math.inf

    worst_pair = _worst_pair(probe, pairs, pair_bound, remainder_measure, rng)
    if worst_pair is None:
        return Condition("strong convexity", True, requirement)
    needed_convexity = worst_pair.centred / (2.0 * remainder_measure(worst_pair))
    return Condition(
        "strong convexity",
        False,
        requirement,
        f"the left side is {remainder_measure(worst_pair):.6g}, so "
        f"c <= {needed_convexity:.6g} would be needed",
        worst_pair.q,
        worst_pair.base,
    )


def check_convex(pairs: list[Pair]) -> Condition:
    """D >= 0."""
    requirement = (
        "the operator says that F is convex, so F(Q) >= F(Q') + <Q - Q', gradient(Q')>"
    )
    for pair in pairs:
        if pair.remainder < -10.0 * pair.noise:
            finding = f"the left side is less by {-pair.remainder:.6g}"
            return Condition("convex", False, requirement, finding, pair.q, pair.base)
    return Condition("convex", True, requirement)


# --- the search ---------------------------------------------------------------

Measure = Callable[[Pair], float]


def _remainder_side(probe: OperatorProbe) -> tuple[Measure, str]:
    """D, or |D| where F need not be convex, and its name."""
    remainder_text = "F(Q) - F(Q') - <Q - Q', gradient(Q')>"
    if probe.operator.convex:
        return (lambda pair: pair.remainder), remainder_text
    return (lambda pair: abs(pair.remainder)), f"|{remainder_text}|"


def _worst_pair(
    probe: OperatorProbe,
    pairs: list[Pair],
    pair_bound: Measure,
    remainder_measure: Measure,
    rng: np.random.Generator,
) -> Pair | None:
    """Return the first pair that refutes the bound by more than rounding errors.

    The bound is ``remainder_measure <= pair_bound``; None where every pair keeps it.
    """

    def refutes(pair: Pair) -> bool:
        return (
            remainder_measure(pair) > pair_bound(pair) * (1.0 + ROUNDING) + pair.noise
        )

    def ratio(pair: Pair) -> float:
        limit = pair_bound(pair)
        # where rounding is a part of it, a ratio says nothing
        if not remainder_measure(pair) > 1e3 * pair.noise or not math.isfinite(limit):
            return 0.0
        return math.inf if limit == 0.0 else remainder_measure(pair) / limit

    for pair in pairs:
        if refutes(pair):
            return pair
    for start_pair in sorted(pairs, key=ratio, reverse=True)[:CLIMBS]:
        best_pair, step_scale = start_pair, 0.3
        for _ in range(CLIMB_STEPS if ratio(start_pair) > 0.0 else 0):
            pair = _nearby_pair(probe, best_pair, step_scale, rng)
            if refutes(pair):
                return pair
            if ratio(pair) > ratio(best_pair):
                best_pair = pair
            else:
                step_scale = max(0.95 * step_scale, 1e-2)
    return None


def _nearby_pair(
    probe: OperatorProbe, pair: Pair, step_scale: float, rng: np.random.Generator
) -> Pair:
    """Return a pair near ``pair``, with Q' and the step between them changed."""
    k = len(pair.q)
    probe = probe.over(k)
    step = np.subtract(pair.q, pair.base)
    step *= np.exp(step_scale * rng.normal())
    step += step_scale * pair.span * rng.normal(size=k) * (rng.random(k) < 0.5)
    point_scale = max(pair.span, probe.operator.strength)
    base = np.asarray(pair.base) + step_scale * point_scale * rng.normal(size=k)
    q = tuple(float(x) for x in base + step)
    return probe.pairs(tuple(float(x) for x in base), [q])[0]
