"""Laws of the operators (theory, section 1), on numbers that Hypothesis looks
for: monotone, shift-invariant, 1-Lipschitz, curvature.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smoothcruiser import KL, Entropy, Max, Operator, Sparsemax, SquareRoot

LAWS = settings(derandomize=True, deadline=None, max_examples=300)
Pair = tuple[Operator, list[float], list[float]]

numbers = st.floats(-50.0, 50.0, allow_nan=False).map(lambda x: round(x, 6))
vectors = st.lists(numbers, min_size=1, max_size=6)
temperatures = st.floats(-2.0, 2.0).map(lambda x: 10.0**x)


@st.composite
def operators(draw: st.DrawFn, k: int, smooth: bool = False) -> Operator:
    heat = draw(temperatures)
    kinds = [kind(heat) for kind in (Entropy, KL, Sparsemax, SquareRoot)]
    prior = draw(st.lists(st.floats(0.05, 1.0), min_size=k, max_size=k))
    kinds += [KL(heat, tuple(prior)), *([] if smooth else [Max()])]
    return draw(st.sampled_from(kinds))


@st.composite
def cases(draw: st.DrawFn, smooth: bool = False) -> tuple[Operator, list[float]]:
    q = draw(vectors)
    return draw(operators(len(q), smooth)), q


@st.composite
def pairs(draw: st.DrawFn, smooth: bool = False) -> Pair:
    operator, q = draw(cases(smooth))
    scale = draw(st.sampled_from([1e-3, 1e-1, 1.0, 30.0]))
    step = draw(st.lists(st.floats(-1.0, 1.0), min_size=len(q), max_size=len(q)))
    return operator, q, [x + scale * d for x, d in zip(q, step, strict=True)]


def noise(operator: Operator, *vectors: list[float]) -> float:
    """Rounding of a value: some hundred units in the last place of the largest
    number that enters.
    """
    return 1e-13 * (1.0 + operator.strength + max(abs(x) for q in vectors for x in q))


@LAWS
@given(cases())
def test_the_policy_is_a_distribution(case):
    operator, q = case
    for player in (1, 2):
        policy = operator.gradient(q, player=player)
        assert all(p >= 0.0 for p in policy)
        assert math.fsum(policy) == pytest.approx(1.0, abs=1e-12)


@LAWS
@given(cases(), st.floats(-1e4, 1e4))
def test_shift_invariance(case, c):
    """F(Q + c) = F(Q) + c for both players."""
    operator, q = case
    shifted = [x + c for x in q]
    for player in (1, 2):
        here, there = (operator.value(x, player=player) for x in (q, shifted))
        assert there - here == pytest.approx(c, abs=noise(operator, q, shifted))


@LAWS
@given(pairs())
def test_one_lipschitz_in_the_sup_norm(case):
    operator, q, other = case
    gap = max(abs(x - y) for x, y in zip(q, other, strict=True))
    for player in (1, 2):
        one, two = (operator.value(x, player=player) for x in (q, other))
        assert abs(one - two) <= gap + noise(operator, q, other)


@LAWS
@given(cases(smooth=True))
def test_the_gradient_is_the_limit_of_difference_quotients(case):
    """Central differences with h = 1e-4 lambda: their error is at most curv h
    (the gradient moves by no more) plus rounding over h.
    """
    operator, q = case
    h = 1e-4 * operator.strength
    gradient = operator.gradient(q)
    allowed = operator.curvature(len(q)) * h + noise(operator, q) / h
    for a in range(len(q)):
        up, down = list(q), list(q)
        up[a] += h
        down[a] -= h
        slope = (operator.value(up) - operator.value(down)) / (up[a] - down[a])
        assert slope == pytest.approx(gradient[a], abs=allowed)


def bregman(operator, base, q):
    """The remainder D(base, q), and the step between the two."""
    step = [x - y for x, y in zip(q, base, strict=True)]
    slope = operator.gradient(base)
    inner = math.fsum(d * g for d, g in zip(step, slope, strict=True))
    return operator.value(q) - operator.value(base) - inner, step


@LAWS
@given(pairs(smooth=True))
@example((Entropy(1.0), [0.0, 0.0], [0.005, -0.005]))
@example((Sparsemax(1.0), [0.0, 0.0, 0.0, 0.0], [0.01, 0.01, 0.0, 0.0]))
def test_the_bregman_remainder_is_between_zero_and_curvature(case):
    """0 <= D(Q, Q') <= curv span(Q - Q')^2 / 8, and D <= L |Q - Q'|_2^2 with
    the paper's L.
    """
    operator, base, q = case
    remainder, step = bregman(operator, base, q)
    slack, k = noise(operator, q, base), len(q)
    span = max(step) - min(step)
    assert remainder >= -slack
    assert remainder <= operator.curvature(k) * span * span / 8.0 + slack
    square = math.fsum(d * d for d in step)
    assert remainder <= operator.smoothness(k) * square + slack


@pytest.mark.parametrize(
    ("operator", "base", "q", "share"),
    [
        # Entropy at a tie: D = lambda log cosh(h/(2 lambda)), which tends to h^2/(8
        # lambda).
        (Entropy(2.0), [0.0, 0.0], [0.01, -0.01], 0.9999),
        (KL(2.0), [0.0, 0.0], [0.01, -0.01], 0.9999),
        # Sparsemax at 0, half the actions up: |h - mean h|^2 / (2 lambda) = K
        # span^2 / (8 lambda), exactly.
        (Sparsemax(2.0), [0.0] * 4, [0.1, 0.1, 0.0, 0.0], 0.999999),
        # Square root at a tie of two: (sum pi^1.5) (4/lambda) Var = 2^-0.5 of the
        # bound.
        (SquareRoot(2.0), [0.0, 0.0], [0.01, -0.01], 0.70),
    ],
    ids=str,
)
def test_curvature_is_nearly_attained(operator, base, q, share):
    """The constants of theory, section 1, cannot be made smaller (square root:
    not by more than 30 percent).
    """
    remainder, step = bregman(operator, base, q)
    bound = operator.curvature(len(q)) * (max(step) - min(step)) ** 2 / 8.0
    assert share * bound <= remainder <= bound * (1.0 + 1e-6)


@LAWS
@given(vectors, temperatures)
def test_order_of_the_operators(q, temperature):
    """max <= entropy <= max + lambda log K; KL <= max; max <= sparsemax <= max
    + F(0) (and the like for the square root).
    """
    top = max(q)
    for kind in (Entropy, Sparsemax, SquareRoot, KL):
        operator = kind(temperature)
        slack, size = noise(operator, q), operator.offset(len(q))
        if kind is KL:  # the entropy's less its offset
            top, size = (
                top - temperature * math.log(len(q)),
                temperature * math.log(len(q)),
            )
        assert top - slack <= operator.value(q) <= top + size + slack
