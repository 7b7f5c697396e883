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
from smoothcruiser.operators.check.check_report import (
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
    candidate_policies: list[Point] = [
        tuple(float(a == b) for b in range(k)) for a in range(k)
    ]
    for support_size in range(2, k + 1):
        candidate_policies.append(
            (1.0 / support_size,) * support_size + (0.0,) * (k - support_size)
        )
    for imbalance in (0.02, 0.1, 0.3):
        if k > 1:
            candidate_policies.append(
                (0.5 + imbalance, 0.5 - imbalance) + (0.0,) * (k - 2)
            )
    for gamma_shape in (1.0, 0.2):
        gamma_samples = rng.gamma(gamma_shape, size=(30, k)) + 1e-300
        candidate_policies += [
            tuple(policy)
            for policy in (gamma_samples.T / gamma_samples.sum(axis=1)).T.tolist()
        ]
    candidate_policies += [tuple(probe.gradient(q)) for q in points[:40]]
    return candidate_policies


def check_finite(
    probe: OperatorProbe, candidates: list[Point]
) -> tuple[list[Point], Condition | None]:
    """Return the policies at which Omega is a number, and a failed condition.

    The condition is None unless Omega has to be a number somewhere and is not.
    """
    finite_policies = []
    omega_max = probe.operator.omega_range(probe.num_actions)[1]
    requirement = "Omega(p) is a finite number at every policy, as omega_range says"
    for p in candidates:
        try:
            value = _omega(probe, p)
            failure_text = "" if math.isfinite(value) else f"Omega(p) = {value}"
        except Exception as error:
            failure_text = f"Omega raises {type(error).__name__}: {error}"
        if not failure_text:
            finite_policies.append(p)
        elif math.isfinite(omega_max) or min(p) > 0.0:
            failure_text += f" at p = {show(p)}"
            return [], Condition("regularizer", False, requirement, failure_text)
    return finite_policies, None


def _scale(probe: OperatorProbe) -> float:
    """Return the size of F and Omega, to which rounding errors are proportional."""
    return abs(probe.operator.strength) + abs(probe.value(probe.zero))


def check_at_zero(probes: Sequence[OperatorProbe]) -> Condition:
    """F(0) = offset(j), for each number of legal actions."""
    requirement = "F(0) = offset(j) over j actions"
    for probe in probes:
        declared_offset = probe.operator.offset(probe.num_actions)
        value_at_zero = probe.value(probe.zero)
        if not abs(value_at_zero - declared_offset) <= ROUNDING * _scale(probe):
            finding = (
                f"offset({probe.num_actions}) = {declared_offset:.6g} and "
                f"F(0) = {value_at_zero:.6g}"
            )
            return Condition("value at zero", False, requirement, finding, probe.zero)
    return Condition("value at zero", True, requirement)


def check_regularizer(
    probe: OperatorProbe, points: list[Point], candidates: list[Point]
) -> Condition:
    """F(Q) = <g, Q> - Omega(g), which no other policy exceeds."""
    name = "regularizer"
    requirement = "F(Q) = max over policies p of <p, Q> - Omega(p), at the gradient"
    penalties = [_omega(probe, p) for p in candidates]
    for q in points:
        value, gradient = probe.value(q), probe.gradient(q)
        rounding_error = ROUNDING * (_scale(probe) + max(abs(x) for x in q))
        dual_value = _dot(gradient, q) - _omega(probe, gradient)
        if not abs(value - dual_value) <= rounding_error:
            finding = f"F = {value:.6g} and <g, Q> - Omega(g) = {dual_value:.6g}"
            return Condition(name, False, requirement, finding, q)
        for p, penalty in zip(candidates, penalties, strict=True):
            if _dot(p, q) - penalty > value + rounding_error:
                finding = (
                    f"F = {value:.6g} and <p, Q> - Omega(p) = "
                    f"{_dot(p, q) - penalty:.6g} at p = {show(p)}"
                )
                return Condition(name, False, requirement, finding, q)
    return Condition(name, True, requirement)


def check_omega_range(
    probe: OperatorProbe, points: list[Point], candidates: list[Point], declared: Point
) -> Condition:
    """Omega(p) and max Q - F(Q) lie in ``omega_range``."""
    name = "omega range"
    omega_min, omega_max = declared
    requirement = (
        "Omega(p) and max Q - F(Q) lie in omega_range = "
        f"({omega_min:.6g}, {omega_max:.6g})"
    )
    for p in candidates:
        omega = _omega(probe, p)
        rounding_error = ROUNDING * (
            _scale(probe) + (abs(omega) if omega < math.inf else 0.0)
        )
        if not omega_min - rounding_error <= omega <= omega_max + rounding_error:
            finding = f"Omega(p) = {omega:.6g} at p = {show(p)}"
            return Condition(name, False, requirement, finding)
    for q in points:
        value_gap = max(q) - probe.value(q)
        rounding_error = ROUNDING * (_scale(probe) + max(abs(x) for x in q))
        if not omega_min - rounding_error <= value_gap <= omega_max + rounding_error:
            finding = f"max Q - F(Q) = {value_gap:.6g}"
            return Condition(name, False, requirement, finding, q)
    return Condition(name, True, requirement)


def check_omega_width(
    probe: OperatorProbe, points: list[Point], candidates: list[Point], declared: float
) -> Condition:
    """F(0) + Omega(p) and D(0, Q) are at most ``omega_width``."""
    name = "omega width"
    requirement = f"F(0) + Omega(p) and D(0, Q) <= omega_width = {declared:.6g}"
    value_at_zero = probe.value(probe.zero)
    for p in candidates:
        drop = value_at_zero + _omega(probe, p)
        if drop > declared + ROUNDING * _scale(probe):
            finding = f"F(0) + Omega(p) = {drop:.6g} at p = {show(p)}"
            return Condition(name, False, requirement, finding)
    for q in points:
        drop = value_at_zero - probe.value(q) + _dot(probe.gradient(q), q)
        if drop > declared + ROUNDING * (_scale(probe) + max(abs(x) for x in q)):
            finding = f"D(0, Q) = {drop:.6g}"
            return Condition(name, False, requirement, finding, q)
    return Condition(name, True, requirement)


def check_convex_omega(
    probe: OperatorProbe, candidates: list[Point], constant: float
) -> Condition:
    """Omega at a midpoint lies c |p - p'|^2 / 8 below the mean of its ends."""
    name = "convex Omega"
    requirement = (
        "Omega((p + p')/2) <= (Omega(p) + Omega(p'))/2 - c |p - p'|^2 / 8 with "
        f"strong_convexity c = {constant:.6g}"
    )
    k, omegas = probe.num_actions, [_omega(probe, p) for p in candidates]
    policy_omegas = list(zip(candidates, omegas, strict=True))
    num_neighbours = min(4 * k, 40)
    for i, (p, first_omega) in enumerate(policy_omegas):
        for other_policy, second_omega in (
            *policy_omegas[i + 1 : i + 1 + num_neighbours],
            *policy_omegas[-3:],
        ):
            midpoint = tuple(
                0.5 * (x + y) for x, y in zip(p, other_policy, strict=True)
            )
            squared_distance = math.fsum(
                (x - y) ** 2 for x, y in zip(p, other_policy, strict=True)
            )
            convexity_gap = 0.5 * (first_omega + second_omega) - _omega(
                probe, midpoint
            )
            rounding_error = (
                1e-13 * k * (_scale(probe) + abs(first_omega) + abs(second_omega))
            )
            if (
                convexity_gap
                < constant * squared_distance / 8.0 * (1.0 - ROUNDING) - rounding_error
            ):
                needed_constant = 8.0 * convexity_gap / squared_distance
                finding = (
                    f"c <= {needed_constant:.6g} would be needed at p = {show(p)}, "
                    f"p' = {show(other_policy)}"
                )
                return Condition(name, False, requirement, finding)
    return Condition(name, True, requirement)


def check_blind(probes: Sequence[OperatorProbe], points: list[Point]) -> Condition:
    """blind(w) is grad F(0), or one of its subgradients where F has a kink."""
    name = "blind policy"
    requirement = "blind(w) is the gradient at Q = 0"
    for probe in probes:
        blind_policy = probe.operator.blind(probe.weights)
        gradient = probe.gradient(probe.zero)
        if len(blind_policy) == len(gradient) and (
            _is_close(blind_policy, gradient)
            or _is_subgradient(probe, blind_policy, points)
        ):
            continue
        claim = " (uniform_at_zero)" if probe.operator.uniform_at_zero else ""
        finding = (
            f"blind{claim} says {show(blind_policy)}, the gradient {show(gradient)}"
        )
        return Condition(name, False, requirement, finding, probe.zero)
    return Condition(name, True, requirement)


def _is_subgradient(
    probe: OperatorProbe, policy: Sequence[float], points: list[Point]
) -> bool:
    """Whether F(Q) >= F(0) + <policy, Q>, where F claims no smoothness.

    At a kink more than one policy is a subgradient.
    """
    k = probe.num_actions
    if math.isfinite(probe.operator.smoothness(k)):
        return False
    value_at_zero = probe.value(probe.zero)
    return all(
        probe.value(q[:k]) + ROUNDING * (1.0 + max(abs(x) for x in q))
        >= value_at_zero + _dot(policy, q[:k])
        for q in points
    )


def check_order_free(probe: OperatorProbe, points: list[Point]) -> Condition:
    """Without a prior, F does not depend on the order of the actions."""
    name = "alike"
    requirement = (
        "has_prior is False, so F does not depend on the order of the actions"
    )
    for q in points:
        value = probe.value(q)
        for permuted_q in (q[::-1], q[1:] + q[:1]):
            rounding_error = ROUNDING * (_scale(probe) + max(abs(x) for x in q))
            if not abs(probe.value(permuted_q) - value) <= rounding_error:
                finding = (
                    f"F(Q) = {value:.6g} and F(Q') = {probe.value(permuted_q):.6g}"
                )
                return Condition(name, False, requirement, finding, q, permuted_q)
    return Condition(name, True, requirement)


def check_entropic(probe: OperatorProbe, points: list[Point]) -> Condition:
    """F(Q) = F(0) + lambda log <grad F(0), exp(Q / lambda)>."""
    name, t = "entropic", probe.operator.strength
    requirement = (
        "the operator says entropic, so F(Q) = F(0) + lambda log <gradient(0), "
        f"exp(Q / lambda)> with lambda = strength = {t:.6g}"
    )
    if not t > 0.0:
        return Condition(name, False, requirement, "the strength is not above 0")
    value_at_zero, prior = probe.value(probe.zero), probe.gradient(probe.zero)
    for q in points:
        max_q = max(q)
        weighted_sum = math.fsum(
            p * math.exp((x - max_q) / t) for p, x in zip(prior, q, strict=True)
        )
        expected_value = (
            value_at_zero + max_q + t * math.log(weighted_sum)
            if weighted_sum > 0.0
            else math.nan
        )
        rounding_error = 10.0 * ROUNDING * (_scale(probe) + max(abs(x) for x in q))
        if not abs(probe.value(q) - expected_value) <= rounding_error:
            finding = (
                f"F = {probe.value(q):.6g} and the right side is {expected_value:.6g}"
            )
            return Condition(name, False, requirement, finding, q)
    return Condition(name, True, requirement)


def check_unweighted(
    probe: OperatorProbe, points: list[Point], rng: np.random.Generator
) -> Condition:
    """F does not read the prior weights."""
    name = "unweighted"
    requirement = "weighted is False, so F does not read the prior weights"
    for q in points:
        random_weights = rng.uniform(0.1, 1.0, size=len(q)).tolist()
        value = probe.operator.value(q, weights=random_weights)
        if value != probe.value(q):
            finding = (
                f"F = {probe.value(q):.6g}, but {value:.6g} with weights "
                f"{show(random_weights)}"
            )
            return Condition(name, False, requirement, finding, q)
    return Condition(name, True, requirement)


def check_array_forms(
    probe: OperatorProbe, points: list[Point], candidates: list[Point]
) -> Condition:
    """``batch``, ``omega_rows`` and ``both`` agree with the scalar functions."""
    name = "array forms"
    requirement = "batch, omega_rows and both agree with value, gradient and omega"
    for form_name, q, value, expected in _forms(probe, points, candidates):
        rounding_error = ROUNDING * (
            _scale(probe) + max((abs(x) for x in q), default=0.0)
        )
        if not _is_close(value, expected, rounding_error):
            finding = (
                f"{form_name} gives {show(value)}, the scalar functions "
                f"{show(expected)}"
            )
            return Condition(name, False, requirement, finding, q or None)
    return Condition(name, True, requirement)


Form = tuple[str, Point, list[float], list[float]]


def _forms(
    probe: OperatorProbe, points: list[Point], candidates: list[Point]
) -> Iterator[Form]:
    """Yield (form, point, its numbers, the numbers of the scalar functions)."""
    operator, w = probe.operator, list(probe.weights)
    for q in points[:40]:
        value, g = operator.both(list(q), w)
        yield "both", q, [value, *g], [probe.value(q), *probe.gradient(q)]
    if type(operator).batch is not Operator.batch:
        value_columns = np.array(points).T
        if len(value_columns) > 1:  # the last action is not legal in every other state
            value_columns[-1, ::2] = -np.inf
        array_values, policy_columns = map(
            np.asarray, operator.batch(value_columns, np.array(w))
        )
        expected_shapes = (value_columns.shape[1:], value_columns.shape)
        if (array_values.shape, policy_columns.shape) != expected_shapes:
            actual_sizes = [
                float(x) for x in (*array_values.shape, *policy_columns.shape)
            ]
            expected_sizes = [
                float(x) for x in (*expected_shapes[0], *expected_shapes[1])
            ]
            yield "batch (n, K, n)", (), actual_sizes, expected_sizes
            return
        expected_values, expected_policies = Operator.batch(
            operator, value_columns, np.array(w)
        )
        for i, q in enumerate(points):
            yield (
                "batch",
                q,
                [float(array_values[i]), *policy_columns[:, i].tolist()],
                [float(expected_values[i]), *expected_policies[:, i].tolist()],
            )
    if operator.has_omega and type(operator).omega_rows is not Operator.omega_rows:
        policy_table = np.array(candidates)
        omega_column = operator.omega_rows(
            policy_table, np.tile(w, (len(policy_table), 1))
        )
        for p, omega_value in zip(candidates, omega_column.tolist(), strict=True):
            yield "omega_rows", p, [omega_value], [_omega(probe, p)]


def _omega(probe: OperatorProbe, p: Sequence[float]) -> float:
    return float(probe.operator.omega(list(p), list(probe.weights)))


def _dot(p: Sequence[float], q: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(p, q, strict=True))


def _is_close(
    numbers: Sequence[float], expected: Sequence[float], tolerance: float = ROUNDING
) -> bool:
    return len(numbers) == len(expected) and all(
        x == y or abs(x - y) <= tolerance
        for x, y in zip(numbers, expected, strict=True)
    )
