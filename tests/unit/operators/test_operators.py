"""Operators: numbers worked out by hand, SciPy as an independent reference,
equal bits from Python and compiled code.
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import logsumexp, softmax

import smoothcruiser as sc
from smoothcruiser.jit.build import compile_function
from smoothcruiser.operators import make_operator
from smoothcruiser.operators.dispatch import builtin_gradient, builtin_value

BUILT_IN = [
    sc.Entropy(0.7),
    sc.KL(0.7),
    sc.KL(0.7, (0.2, 0.5, 0.3)),
    sc.Sparsemax(0.7),
    sc.SquareRoot(0.7),
    sc.Max(),
]
SMOOTH = BUILT_IN[:-1]


# --- hand numbers -------------------------------------------------------------


def test_entropy_by_hand():
    # lambda = 2, q = (0, 2 log 3): exp(q/2) = (1, 3), so F = 2 log 4 and the policy
    # is (1/4, 3/4).
    operator = sc.Entropy(2.0)
    assert operator.value([0.0, 2.0 * math.log(3.0)]) == pytest.approx(
        2.0 * math.log(4.0), abs=1e-15
    )
    assert operator.gradient([0.0, 2.0 * math.log(3.0)]) == pytest.approx(
        [0.25, 0.75], abs=1e-15
    )


def test_kl_by_hand():
    # mu = (1/4, 3/4), exp(q) = (3, 1): F = log(3/4 + 3/4), policy (1/2, 1/2).
    # Weights 1:3 are normalized.
    operator = sc.KL(1.0, (1.0, 3.0))
    assert operator.prior == (0.25, 0.75)
    assert operator.value([math.log(3.0), 0.0]) == pytest.approx(
        math.log(1.5), abs=1e-15
    )
    assert operator.gradient([math.log(3.0), 0.0]) == pytest.approx(
        [0.5, 0.5], abs=1e-15
    )


def test_mellowmax_is_entropy_less_log_k():
    q = [0.3, -1.0, 2.0]
    assert sc.KL(0.5).value(q) == pytest.approx(
        sc.Entropy(0.5).value(q) - 0.5 * math.log(3.0), abs=1e-14
    )


def test_sparsemax_by_hand():
    # lambda = 1. q = (1, 0.5, -1): support {0, 1}, tau = (1.5 - 1)/2 = 0.25, p =
    # (0.75, 0.25, 0); F = 0.75 + 0.125 - (0.5625 + 0.0625 - 1)/2 = 1.0625.
    operator = sc.Sparsemax(1.0)
    assert operator.gradient([1.0, 0.5, -1.0]) == pytest.approx(
        [0.75, 0.25, 0.0], abs=1e-15
    )
    assert operator.value([1.0, 0.5, -1.0]) == pytest.approx(1.0625, abs=1e-15)
    # a lead of lambda or more takes everything
    assert operator.gradient([2.0, 0.5, -1.0]) == [1.0, 0.0, 0.0]


def test_square_root_by_hand():
    # lambda = 2 and p = (1/5, 4/5): (1/(U - q))^2 = p gives U - q = (sqrt 5,
    # sqrt(5)/2). With q = (0, sqrt(5)/2): U = sqrt 5, F = <p, q> + 2 sum sqrt p =
    # (4/5)(sqrt(5)/2) + 2 (1 + 2)/sqrt 5 = 8/sqrt 5.
    operator = sc.SquareRoot(2.0)
    q = [0.0, math.sqrt(5.0) / 2.0]
    assert operator.gradient(q) == pytest.approx([0.2, 0.8], abs=1e-15)
    assert operator.value(q) == pytest.approx(8.0 / math.sqrt(5.0), abs=1e-14)


def test_max_takes_the_first_of_the_largest():
    assert sc.Max().value([1.0, 3.0, 3.0]) == 3.0
    assert sc.Max().gradient([1.0, 3.0, 3.0]) == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("operator", BUILT_IN, ids=str)
def test_offset_is_f_of_zero(operator):
    for k in (1, 2, 3, 7):
        if isinstance(operator, sc.KL) and operator.prior is not None and k != 3:
            continue
        assert operator.offset(k) == pytest.approx(
            operator.value([0.0] * k), abs=1e-14
        )


@pytest.mark.parametrize("operator", BUILT_IN, ids=str)
def test_min_player_mirrors_the_max_player(operator):
    q = [0.4, -1.2, 0.9]
    assert operator.value(q, player=2) == -operator.value([-x for x in q])
    assert operator.gradient(q, player=2) == operator.gradient([-x for x in q])
    # near the minimum, not the maximum
    assert operator.value(q, player=2) <= min(q) + abs(operator.offset(3)) + 0.7


# --- independent references ---------------------------------------------------


def _random_q(seed, k):
    return np.random.default_rng(seed).normal(scale=2.0, size=k)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("temperature", [0.05, 1.0, 30.0])
def test_entropy_and_kl_against_scipy(seed, temperature):
    q = _random_q(seed, 5)
    prior = np.random.default_rng(seed + 100).dirichlet(np.ones(5))
    assert sc.Entropy(temperature).value(q) == pytest.approx(
        temperature * logsumexp(q / temperature), rel=1e-13
    )
    assert sc.Entropy(temperature).gradient(q) == pytest.approx(
        softmax(q / temperature), abs=1e-13
    )
    kl = sc.KL(temperature, tuple(prior))
    assert kl.value(q) == pytest.approx(
        temperature * logsumexp(q / temperature, b=prior), rel=1e-12
    )
    assert kl.gradient(q) == pytest.approx(
        softmax(q / temperature + np.log(prior)), abs=1e-13
    )


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # SciPy 1.13
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_sparsemax_and_square_root_against_a_numerical_optimizer(seed, temperature):
    """F(Q) = max over the simplex of <p, Q> - Omega(p), straight from the
    definition, by SLSQP.
    """
    q = _random_q(seed, 4)
    regularizers = {
        sc.Sparsemax(temperature): lambda p: 0.5 * temperature * (p @ p - 1.0),
        sc.SquareRoot(temperature): lambda p: (
            -temperature * np.sum(np.sqrt(np.maximum(p, 0.0)))
        ),
    }
    for operator, omega in regularizers.items():
        found = minimize(
            lambda p, omega=omega: omega(p) - p @ q,
            np.full(4, 0.25),
            method="SLSQP",
            bounds=[(1e-12, 1.0)] * 4,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1.0},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert found.success
        assert operator.value(q) == pytest.approx(-found.fun, abs=1e-6)
        # the optimizer cannot beat the maximum
        assert operator.value(q) >= -found.fun - 1e-9
        assert operator.gradient(q) == pytest.approx(found.x, abs=1e-3)


@pytest.mark.parametrize("temperature", [1e-3, 0.3, 1.0, 50.0])
def test_square_root_level_against_a_root_finder(temperature):
    q = _random_q(7, 6)
    half, top = temperature / 2.0, float(q.max())
    U = brentq(
        lambda u: np.sum((half / (u - q)) ** 2) - 1.0,
        top + half * 0.999,
        top + half * math.sqrt(6.0) * 1.001,
        xtol=1e-15,
    )
    assert sc.SquareRoot(temperature).gradient(q) == pytest.approx(
        (half / (U - q)) ** 2, abs=1e-9
    )
    assert sc.SquareRoot(temperature).value(q) == pytest.approx(
        U + np.sum(half**2 / (U - q)), rel=1e-12
    )


# --- one definition for Python and compiled code ------------------------------


@pytest.mark.compiles
@pytest.mark.parametrize("operator", BUILT_IN, ids=str)
def test_python_and_compiled_return_the_same_bits(operator):
    value, gradient = (
        compile_function(builtin_value),
        compile_function(builtin_gradient),
    )
    rng = np.random.default_rng(3)
    w = operator.weights(3)
    for scale in (1e-6, 1.0, 1e3):
        for _ in range(200):
            q = rng.normal(scale=scale, size=3)
            assert value(
                operator.code, q, np.array(w), operator.strength
            ) == builtin_value(operator.code, q.tolist(), w, operator.strength)
            fast, slow = np.empty(3), [0.0] * 3
            gradient(operator.code, q, np.array(w), operator.strength, fast)
            builtin_gradient(operator.code, q.tolist(), w, operator.strength, slow)
            assert fast.tolist() == slow


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


@pytest.mark.parametrize("kind", [sc.Entropy, sc.KL, sc.Sparsemax, sc.SquareRoot])
def test_cold_operators_tend_to_the_maximum(kind):
    """0 <= F(Q) - max Q <= F(0) for entropy, sparsemax, square root; KL lies
    below by lambda log K at most.
    """
    q = [0.2, 1.0, 0.7]
    for temperature in (1e-2, 1e-4, 1e-8):
        assert abs(kind(temperature).value(q) - 1.0) <= temperature * 2.0 + 1e-15


@pytest.mark.parametrize("kind", [sc.Entropy, sc.KL, sc.Sparsemax, sc.SquareRoot])
def test_hot_operators_tend_to_the_mean(kind):
    """F(Q) - F(0) - mean Q is a Bregman remainder at 0: between 0 and curv
    span^2/8, which vanishes.
    """
    q = [0.2, 1.0, 0.7]
    for temperature in (1e2, 1e4):
        operator = kind(temperature)
        rest = operator.value(q) - operator.offset(3) - sum(q) / 3.0
        assert -1e-11 <= rest <= operator.curvature(3) * 0.8**2 / 8.0 + 1e-11


def test_one_action_has_no_curvature():
    for operator in (
        sc.Entropy(0.5),
        sc.KL(0.5),
        sc.Sparsemax(0.5),
        sc.SquareRoot(0.5),
        sc.Max(),
    ):
        assert operator.curvature(1) == 0.0
        assert operator.gradient([3.0]) == [1.0]
        assert operator.value([3.0]) == pytest.approx(3.0 + operator.offset(1))


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


def test_a_prior_of_the_wrong_length_is_refused():
    with pytest.raises(sc.InvalidInput, match="2 weights for 3 actions"):
        sc.KL(1.0, (0.5, 0.5)).value([0.0, 0.0, 0.0])


def test_players_are_one_or_two():
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
