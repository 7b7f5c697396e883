"""Operators: numbers worked out by hand, SciPy as an independent reference,
equal bits from Python and compiled code.
"""

import math

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.operators import make_operator
from smoothcruiser.operators.outward import sum_in_order

BUILT_IN = [
    sc.Entropy(0.7),
    sc.KL(0.7),
    sc.KL(0.7, (0.2, 0.5, 0.3)),
    sc.Sparsemax(0.7),
    sc.SquareRoot(0.7),
    sc.Max(),
]


# --- hand numbers -------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "q", "value", "policy"),
    [
        # exp(q/2) = (1, 3)
        (sc.Entropy(2.0), [0, 2 * math.log(3)], 2 * math.log(4), [0.25, 0.75]),
        # the prior 1:3 is (1/4, 3/4), exp(q) = (3, 1): F = log(3/4 + 3/4)
        (sc.KL(1.0, (1.0, 3.0)), [math.log(3), 0], math.log(1.5), [0.5, 0.5]),
        # support {0, 1}, tau = (1.5 - 1)/2; F = 0.75 + 0.125 - (0.5625 + 0.0625 - 1)/2
        (sc.Sparsemax(1.0), [1.0, 0.5, -1.0], 1.0625, [0.75, 0.25, 0.0]),
        # a lead of lambda or more takes everything
        (sc.Sparsemax(1.0), [2.0, 0.5, -1.0], 2.0, [1.0, 0.0, 0.0]),
        # (1/(U - q))^2 = p with U = sqrt 5; F = (4/5) sqrt(5)/2 + 2 (1 + 2)/sqrt 5
        (sc.SquareRoot(2.0), [0, math.sqrt(5) / 2], 8 / math.sqrt(5), [0.2, 0.8]),
        (sc.Max(), [1.0, 3.0, 3.0], 3.0, [0.0, 1.0, 0.0]),  # the first of the largest
    ],
    ids=str,
)
def test_values_and_policies_by_hand(operator, q, value, policy):
    assert operator.value(q) == pytest.approx(value, abs=1e-14)
    assert operator.gradient(q) == pytest.approx(policy, abs=1e-15)


@pytest.mark.parametrize("operator", BUILT_IN, ids=str)
def test_min_player_mirrors_the_max_player(operator):
    q = [0.4, -1.2, 0.9]
    assert operator.value(q, player=2) == -operator.value([-x for x in q])
    assert operator.gradient(q, player=2) == operator.gradient([-x for x in q])
    # near the minimum, not the maximum
    assert operator.value(q, player=2) <= min(q) + abs(operator.offset(3)) + 0.7


# --- limits and extremes ------------------------------------------------------


@pytest.mark.parametrize("kind", [sc.Entropy, sc.KL, sc.Sparsemax, sc.SquareRoot])
@pytest.mark.parametrize("temperature", [1e-300, 1e-12, 1e12, 1e200, 1e300])
def test_no_overflow_at_any_temperature(kind, temperature):
    operator = kind(temperature)
    for q in (
        [1e6, -1e6, 0.0],
        [0.0, 0.0, 0.0],
        [1e-9, 0.0, -1e-9],
        [-1e300, 1.0, 2.0],
    ):
        policy = operator.gradient(q)
        assert math.isfinite(operator.value(q))
        assert all(0.0 <= p <= 1.0 for p in policy)
        assert sum(policy) == pytest.approx(1.0, abs=1e-12)


# --- bad input ----------------------------------------------------------------


@pytest.mark.parametrize("kind", [sc.Entropy, sc.KL, sc.Sparsemax, sc.SquareRoot])
@pytest.mark.parametrize(
    "temperature", [0.0, 5e-324, -1.0, math.inf, math.nan, "1", True, None]
)
def test_bad_temperatures_are_refused(kind, temperature):
    with pytest.raises(sc.InvalidInput, match="temperature above 0") as caught:
        kind(temperature)
    assert repr(temperature) in str(caught.value)
    assert "Max()" in str(caught.value)


@pytest.mark.parametrize(
    "prior", [(), (0.5, 0.0), (0.5, -0.5), (0.5, math.nan), (math.inf, 1.0)]
)
def test_bad_priors_are_refused(prior):
    with pytest.raises(sc.InvalidInput, match="positive weights"):
        sc.KL(1.0, prior)


def test_priors_of_another_length_and_other_players_are_refused():
    assert sc.KL(1.0, (1.0, 3.0)).prior == (0.25, 0.75)
    with pytest.raises(sc.InvalidInput, match="2 weights for 3 actions"):
        sc.KL(1.0, (0.5, 0.5)).value([0.0, 0.0, 0.0])
    with pytest.raises(sc.InvalidInput, match="got 3"):
        sc.Entropy(1.0).value([0.0], player=3)


def test_make_operator():
    assert make_operator("entropy", 2.0) == sc.Entropy(2.0)
    assert make_operator("square-root", 2.0) == sc.SquareRoot(2.0)
    # temperature 0 is plain max for every name
    assert make_operator("sparsemax", 0) == sc.Max()
    assert make_operator("max", None) == sc.Max()
    with pytest.raises(sc.InvalidInput, match=r"Unknown operator 'softmax'.*entropy"):
        make_operator("softmax", 1.0)
    with pytest.raises(sc.InvalidInput, match="needs a temperature"):
        make_operator("entropy", None)


def test_custom_operators_check_what_they_are_given():
    half = sc.CustomOperator(
        lambda q: 0.5 * float(q.sum()) / len(q),
        lambda q: np.full(len(q), 0.5 / len(q)),
        smooth=0.0,
    )
    assert half.value([1.0, 3.0]) == 1.0
    assert half.value([1.0, 3.0], player=2) == 1.0  # linear: -F(-Q) = F(Q)
    assert half.gradient([1.0, 3.0]) == [0.25, 0.25]
    assert half.offset(4) == 0.0
    assert not half.shift_invariant
    with pytest.raises(sc.InvalidInput, match="two functions"):
        sc.CustomOperator(1.0, lambda q: q, smooth=1.0)
    with pytest.raises(sc.InvalidInput, match="finite smoothness"):
        sc.CustomOperator(max, max, smooth=-1.0)


def test_sparsemax_ends_at_ties():
    """Rounding at a tie must not make the support flip for ever (found by a
    random search; it hung).
    """
    q = [0.30000000000000004, 0.6000000000000001, 0.7]
    operator = sc.Sparsemax(0.7)
    policy = operator.gradient(q)
    assert sum(policy) == pytest.approx(1.0, abs=1e-12)
    assert operator.value(q) == pytest.approx(
        sum(p * x for p, x in zip(policy, q, strict=True))
        - 0.35 * (sum(p * p for p in policy) - 1)
    )


def test_each_number_is_rounded_as_it_is_added():
    """From left to right: the built-in ``sum`` of Python 3.12, or ``math.fsum``, gives 2."""
    assert sum_in_order([1.0, 1e100, 1.0, -1e100]) == 0.0
    assert sum_in_order([0.1] * 10) == 0.9999999999999999
    assert sum_in_order([]) == 0.0
