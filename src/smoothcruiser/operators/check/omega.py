"""The constants of the regularizer: F(Q) = max over policies of <pi, Q> - Omega(pi).

value at zero     F(0) = offset(j) for every number j of legal actions
regularizer       F(Q) = <g, Q> - Omega(g) at g = grad F(Q), and at least
                  that at every other policy
omega range       Omega(p), and max Q - F(Q), lie in omega_range
omega width       F(0) + Omega(p), and D(0, Q), are at most omega_width
convex Omega      Omega is strong_convexity-strongly convex, at midpoints
blind policy      blind(w) is grad F(0) (where F has a kink: a subgradient)
alike             without a prior F does not depend on the order of actions
entropic          F(Q) = F(0) + lambda log <grad F(0), exp(Q / lambda)>
unweighted        F does not read prior weights, unless it says so
array forms       batch, omega_rows and both agree with the scalar functions
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from smoothcruiser.operators.base import Operator
from smoothcruiser.operators.check.report import (
    ROUNDING,
    Condition,
    OperatorProbe,
    Point,
    show,
)


def policies(
    probe: OperatorProbe, points: list[Point], rng: np.random.Generator
) -> list[Point]:
    """Corners, uniform policies, ties of two, random ones, and gradients."""
    k = probe.num_actions
    found: list[Point] = [tuple(float(a == b) for b in range(k)) for a in range(k)]
    for j in range(2, k + 1):
        found.append((1.0 / j,) * j + (0.0,) * (k - j))
    for move in (0.02, 0.1, 0.3):
        if k > 1:
            found.append((0.5 + move, 0.5 - move) + (0.0,) * (k - 2))
    for mass in (1.0, 0.2):
        draws = rng.gamma(mass, size=(30, k)) + 1e-300
        found += [tuple(row) for row in (draws.T / draws.sum(axis=1)).T.tolist()]
    found += [tuple(probe.gradient(q)) for q in points[:40]]
    return found


def defined(
    probe: OperatorProbe, candidates: list[Point]
) -> tuple[list[Point], Condition | None]:
    """The policies where Omega is a number, and a failure where it has to be one
    and is not.
    """
    found = []
    high = probe.operator.omega_range(probe.num_actions)[1]
    requirement = "Omega(p) is a finite number at every policy, as omega_range says"
    for p in candidates:
        try:
            value = _omega(probe, p)
            bad = "" if math.isfinite(value) else f"Omega(p) = {value}"
        except Exception as error:
            bad = f"Omega raises {type(error).__name__}: {error}"
        if not bad:
            found.append(p)
        elif math.isfinite(high) or min(p) > 0.0:
            bad += f" at p = {show(p)}"
            return [], Condition("regularizer", False, requirement, bad)
    return found, None


def _scale(probe: OperatorProbe) -> float:
    """The size of F and Omega, for what rounding may do."""
    return abs(probe.operator.strength) + abs(probe.value(probe.zero))


def at_zero(probes: Sequence[OperatorProbe]) -> Condition:
    """F(0) = offset(j), for each number of legal actions."""
    requirement = "F(0) = offset(j) over j actions"
    for probe in probes:
        declared = probe.operator.offset(probe.num_actions)
        value = probe.value(probe.zero)
        if not abs(value - declared) <= ROUNDING * _scale(probe):
            found = (
                f"offset({probe.num_actions}) = {declared:.6g} and F(0) = {value:.6g}"
            )
            return Condition("value at zero", False, requirement, found, probe.zero)
    return Condition("value at zero", True, requirement)


def regularizer(
    probe: OperatorProbe, points: list[Point], candidates: list[Point]
) -> Condition:
    """F(Q) = <g, Q> - Omega(g), which no other policy exceeds."""
    name = "regularizer"
    requirement = "F(Q) = max over policies p of <p, Q> - Omega(p), at the gradient"
    penalties = [_omega(probe, p) for p in candidates]
    for q in points:
        value, gradient = probe.value(q), probe.gradient(q)
        room = ROUNDING * (_scale(probe) + max(abs(x) for x in q))
        there = _dot(gradient, q) - _omega(probe, gradient)
        if not abs(value - there) <= room:
            found = f"F = {value:.6g} and <g, Q> - Omega(g) = {there:.6g}"
            return Condition(name, False, requirement, found, q)
        for p, penalty in zip(candidates, penalties, strict=True):
            if _dot(p, q) - penalty > value + room:
                found = (
                    f"F = {value:.6g} and <p, Q> - Omega(p) = "
                    f"{_dot(p, q) - penalty:.6g} at p = {show(p)}"
                )
                return Condition(name, False, requirement, found, q)
    return Condition(name, True, requirement)


def omega_range(
    probe: OperatorProbe, points: list[Point], candidates: list[Point], declared: Point
) -> Condition:
    """Omega(p) and max Q - F(Q) lie in ``omega_range``."""
    name = "omega range"
    low, high = declared
    requirement = (
        f"Omega(p) and max Q - F(Q) lie in omega_range = ({low:.6g}, {high:.6g})"
    )
    for p in candidates:
        omega = _omega(probe, p)
        room = ROUNDING * (_scale(probe) + (abs(omega) if omega < math.inf else 0.0))
        if not low - room <= omega <= high + room:
            found = f"Omega(p) = {omega:.6g} at p = {show(p)}"
            return Condition(name, False, requirement, found)
    for q in points:
        gap = max(q) - probe.value(q)
        room = ROUNDING * (_scale(probe) + max(abs(x) for x in q))
        if not low - room <= gap <= high + room:
            found = f"max Q - F(Q) = {gap:.6g}"
            return Condition(name, False, requirement, found, q)
    return Condition(name, True, requirement)


def omega_width(
    probe: OperatorProbe, points: list[Point], candidates: list[Point], declared: float
) -> Condition:
    """F(0) + Omega(p) and D(0, Q) are at most ``omega_width``."""
    name = "omega width"
    requirement = f"F(0) + Omega(p) and D(0, Q) <= omega_width = {declared:.6g}"
    zero = probe.value(probe.zero)
    for p in candidates:
        fall = zero + _omega(probe, p)
        if fall > declared + ROUNDING * _scale(probe):
            found = f"F(0) + Omega(p) = {fall:.6g} at p = {show(p)}"
            return Condition(name, False, requirement, found)
    for q in points:
        fall = zero - probe.value(q) + _dot(probe.gradient(q), q)
        if fall > declared + ROUNDING * (_scale(probe) + max(abs(x) for x in q)):
            found = f"D(0, Q) = {fall:.6g}"
            return Condition(name, False, requirement, found, q)
    return Condition(name, True, requirement)


def convex_omega(
    probe: OperatorProbe, candidates: list[Point], constant: float
) -> Condition:
    """Omega at a midpoint lies c |p - p'|^2 / 8 below the mean of its ends."""
    name = "convex Omega"
    requirement = (
        "Omega((p + p')/2) <= (Omega(p) + Omega(p'))/2 - c |p - p'|^2 / 8 with "
        f"strong_convexity c = {constant:.6g}"
    )
    k, omegas = probe.num_actions, [_omega(probe, p) for p in candidates]
    ends = list(zip(candidates, omegas, strict=True))
    near = min(4 * k, 40)
    for i, (p, first) in enumerate(ends):
        for other, second in (*ends[i + 1 : i + 1 + near], *ends[-3:]):
            middle = tuple(0.5 * (x + y) for x, y in zip(p, other, strict=True))
            square = math.fsum((x - y) ** 2 for x, y in zip(p, other, strict=True))
            gain = 0.5 * (first + second) - _omega(probe, middle)
            room = 1e-13 * k * (_scale(probe) + abs(first) + abs(second))
            if gain < constant * square / 8.0 * (1.0 - ROUNDING) - room:
                found = (
                    f"c <= {8.0 * gain / square:.6g} would be needed at p = {show(p)}, "
                    f"p' = {show(other)}"
                )
                return Condition(name, False, requirement, found)
    return Condition(name, True, requirement)


def blind(probes: Sequence[OperatorProbe], points: list[Point]) -> Condition:
    """blind(w) is grad F(0), or one of its subgradients where F has a kink."""
    name = "blind policy"
    requirement = "blind(w) is the gradient at Q = 0"
    for probe in probes:
        policy = probe.operator.blind(probe.weights)
        gradient = probe.gradient(probe.zero)
        if len(policy) == len(gradient) and (
            _close(policy, gradient) or _subgradient(probe, policy, points)
        ):
            continue
        claim = " (uniform_at_zero)" if probe.operator.uniform_at_zero else ""
        found = f"blind{claim} says {show(policy)}, the gradient {show(gradient)}"
        return Condition(name, False, requirement, found, probe.zero)
    return Condition(name, True, requirement)


def _subgradient(
    probe: OperatorProbe, policy: Sequence[float], points: list[Point]
) -> bool:
    """Whether F(Q) >= F(0) + <policy, Q>, where F claims no smoothness: at a kink
    more than one policy will do.
    """
    k = probe.num_actions
    if math.isfinite(probe.operator.smoothness(k)):
        return False
    zero = probe.value(probe.zero)
    return all(
        probe.value(q[:k]) + ROUNDING * (1.0 + max(abs(x) for x in q))
        >= zero + _dot(policy, q[:k])
        for q in points
    )


def alike(probe: OperatorProbe, points: list[Point]) -> Condition:
    """Without a prior, F does not depend on the order of the actions."""
    name = "alike"
    requirement = "has_prior is False, so F does not depend on the order of the actions"
    for q in points:
        value = probe.value(q)
        for other in (q[::-1], q[1:] + q[:1]):
            room = ROUNDING * (_scale(probe) + max(abs(x) for x in q))
            if not abs(probe.value(other) - value) <= room:
                found = f"F(Q) = {value:.6g} and F(Q') = {probe.value(other):.6g}"
                return Condition(name, False, requirement, found, q, other)
    return Condition(name, True, requirement)


def entropic(probe: OperatorProbe, points: list[Point]) -> Condition:
    """F(Q) = F(0) + lambda log <grad F(0), exp(Q / lambda)>."""
    name, t = "entropic", probe.operator.strength
    requirement = (
        "the operator says entropic, so F(Q) = F(0) + lambda log <gradient(0), "
        f"exp(Q / lambda)> with lambda = strength = {t:.6g}"
    )
    if not t > 0.0:
        return Condition(name, False, requirement, "the strength is not above 0")
    zero, prior = probe.value(probe.zero), probe.gradient(probe.zero)
    for q in points:
        top = max(q)
        mass = math.fsum(
            p * math.exp((x - top) / t) for p, x in zip(prior, q, strict=True)
        )
        expected = zero + top + t * math.log(mass) if mass > 0.0 else math.nan
        room = 10.0 * ROUNDING * (_scale(probe) + max(abs(x) for x in q))
        if not abs(probe.value(q) - expected) <= room:
            found = f"F = {probe.value(q):.6g} and the right side is {expected:.6g}"
            return Condition(name, False, requirement, found, q)
    return Condition(name, True, requirement)


def unweighted(
    probe: OperatorProbe, points: list[Point], rng: np.random.Generator
) -> Condition:
    """F does not read the prior weights."""
    name = "unweighted"
    requirement = "weighted is False, so F does not read the prior weights"
    for q in points:
        other = rng.uniform(0.1, 1.0, size=len(q)).tolist()
        value = probe.operator.value(q, weights=other)
        if value != probe.value(q):
            found = (
                f"F = {probe.value(q):.6g}, but {value:.6g} with weights {show(other)}"
            )
            return Condition(name, False, requirement, found, q)
    return Condition(name, True, requirement)


def array_forms(
    probe: OperatorProbe, points: list[Point], candidates: list[Point]
) -> Condition:
    """``batch``, ``omega_rows`` and ``both`` agree with the scalar functions."""
    name = "array forms"
    requirement = "batch, omega_rows and both agree with value, gradient and omega"
    for form, q, value, expected in _forms(probe, points, candidates):
        room = ROUNDING * (_scale(probe) + max((abs(x) for x in q), default=0.0))
        if not _close(value, expected, room):
            found = f"{form} gives {show(value)}, the scalar functions {show(expected)}"
            return Condition(name, False, requirement, found, q or None)
    return Condition(name, True, requirement)


Form = tuple[str, Point, list[float], list[float]]


def _forms(
    probe: OperatorProbe, points: list[Point], candidates: list[Point]
) -> Iterator[Form]:
    """(form, where, what it gives, what the scalar functions give)."""
    operator, w = probe.operator, list(probe.weights)
    for q in points[:40]:
        value, g = operator.both(list(q), w)
        yield "both", q, [value, *g], [probe.value(q), *probe.gradient(q)]
    if type(operator).batch is not Operator.batch:
        columns = np.array(points).T
        if len(columns) > 1:  # the last action is not legal in every other state
            columns[-1, ::2] = -np.inf
        values, shares = map(np.asarray, operator.batch(columns, np.array(w)))
        shapes = (columns.shape[1:], columns.shape)
        if (values.shape, shares.shape) != shapes:
            sizes = [float(x) for x in (*values.shape, *shares.shape)]
            needed = [float(x) for x in (*shapes[0], *shapes[1])]
            yield "batch (n, K, n)", (), sizes, needed
            return
        expected, policy = Operator.batch(operator, columns, np.array(w))
        for i, q in enumerate(points):
            yield (
                "batch",
                q,
                [float(values[i]), *shares[:, i].tolist()],
                [float(expected[i]), *policy[:, i].tolist()],
            )
    if operator.has_omega and type(operator).omega_rows is not Operator.omega_rows:
        table = np.array(candidates)
        rows = operator.omega_rows(table, np.tile(w, (len(table), 1)))
        for p, row in zip(candidates, rows.tolist(), strict=True):
            yield "omega_rows", p, [row], [_omega(probe, p)]


def _omega(probe: OperatorProbe, p: Sequence[float]) -> float:
    return float(probe.operator.omega(list(p), list(probe.weights)))


def _dot(p: Sequence[float], q: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(p, q, strict=True))


def _close(
    found: Sequence[float], expected: Sequence[float], room: float = ROUNDING
) -> bool:
    return len(found) == len(expected) and all(
        x == y or abs(x - y) <= room for x, y in zip(found, expected, strict=True)
    )
