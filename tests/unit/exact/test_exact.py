"""The exact solver against closed forms, the paper's environments, QuantEcon,
backward induction in NumPy; stops that are never silent.
"""

import math

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from exact_worlds import METHODS, OPERATORS, random_arrays

import smoothcruiser as sc

pytestmark = pytest.mark.compiles


def one_state(rewards, discount, operator, **more):
    P = np.ones((1, len(rewards), 1))
    return sc.tabular(P, [rewards], discount=discount, operator=operator, **more)


# --- closed forms -------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [("chain:n=5", 8.664929), ("chain:n=10", 8.664340), ("gridworld:n=10", 17.328680)],
)
def test_the_papers_environments(name, value):
    """gamma = 0.2, lambda = 10 (theory, section 2, item 7)."""
    found = sc.solve(sc.make(name, discount=0.2, temperature=10))
    assert found.values[0] == pytest.approx(value, abs=5e-7)


# --- against QuantEcon and NumPy ----------------------------------------------


@pytest.mark.parametrize("discount", [0.3, 0.95])
@pytest.mark.parametrize("method", METHODS)
def test_max_against_quantecon_dense_and_sparse(discount, method):
    from quantecon.markov import DiscreteDP

    P, R = random_arrays(40, 3, 2)
    P[P < 0.02] = 0.0
    P /= P.sum(axis=2, keepdims=True)
    reference = DiscreteDP(R, P, discount).solve("policy_iteration").v
    best = (R + discount * P @ reference).argmax(axis=1)
    # the same matrix, its indices no longer in order
    shuffled = sp.csr_matrix(P.reshape(120, 40))[:, ::-1][:, ::-1]
    for model in (P, shuffled):
        problem = sc.tabular(model, R, discount=discount, operator=sc.Max())
        found = sc.solve(problem, method=method)
        assert np.max(np.abs(found.values - reference)) <= found.residual_bound + 1e-11
        assert found.residual_bound <= 1e-10
        assert np.array_equal(found.policy.argmax(axis=1), best)


# --- methods, operators of one's own ------------------------------------------


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
def test_policy_iteration_takes_a_handful_of_steps(operator):
    """Newton's method: a dozen sweeps where value iteration needs more, for
    dense and sparse tables (whose evaluations differ in code).
    """
    P, R = random_arrays(40, 3, 6)
    # slow to mix, so that steps of value iteration are small
    P = 0.1 * P + 0.9 * np.eye(40)[:, None, :]
    thin = np.where(P < 0.001, 0.0, P).reshape(120, 40)
    for model in (P, sp.csr_matrix(thin / thin.sum(axis=1, keepdims=True))):
        problem = sc.tabular(model, R, discount=0.99, operator=operator)
        slow = sc.solve(problem, method="value-iteration", tolerance=1e-7)
        fast = sc.solve(problem, method="policy-iteration", tolerance=1e-7)
        assert slow.sweeps > 100
        assert fast.sweeps <= 12


def half_value(q):
    top = q.max()
    return 0.5 * (top + math.log(np.exp(q - top).sum()))


def half_gradient(q):
    weight = np.exp(q - q.max())
    return 0.5 * weight / weight.sum()


@pytest.mark.parametrize("game", [False, True])
def test_custom_operators_plain_and_compiled_whose_gradients_do_not_sum_to_one(game):
    """V = F(Q) with |grad F|_1 = 1/2: still a contraction. Reference: value
    iteration in Python to the last bit.
    """
    P, R = random_arrays(6, 3, 5)
    players = [1, 2, 1, 1, 2, 2] if game else [1] * 6
    plain = sc.CustomOperator(half_value, half_gradient, smooth=0.125)
    functions = numba.njit(half_value), numba.njit(half_gradient)
    value = np.zeros(6)
    for _ in range(100):
        q = R + 0.9 * P @ value
        value = [plain.value(list(q[s]), player=players[s]) for s in range(6)]
        value = np.array(value)
    for operator in (plain, sc.CustomOperator(*functions, smooth=0.125)):
        known = {"operator": operator, "players": players if game else None}
        for method in METHODS:
            found = sc.solve(sc.tabular(P, R, discount=0.9, **known), method=method)
            bound = found.residual_bound
            assert found.values == pytest.approx(value, abs=bound + 1e-13)
            assert bound <= 1e-10
            assert found.policy.sum(axis=1) == pytest.approx(0.5)


def test_an_operator_that_returns_nan_is_refused():
    broken = sc.CustomOperator(lambda q: math.nan, half_gradient, smooth=1.0)
    with pytest.raises(sc.InvalidInput, match="check_operator"):
        sc.solve(one_state([0.0, 1.0], 0.5, broken))


# --- stops are never silent ---------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_too_few_sweeps_raise_and_say_what_was_reached(method):
    # too large for a dense solve, and in no order narrow
    after = np.random.default_rng(1).integers(0, 3000, 6000)
    tangle = sp.csr_matrix(
        (np.full(6000, 0.5), after, np.arange(0, 6001, 2)), shape=(3000, 3000)
    )
    R = np.linspace(0.0, 1.0, 3000)[:, None]
    problem = sc.tabular(tangle, R, discount=0.99, operator=sc.Max())
    with pytest.raises(sc.Unpayable, match=r"max_sweeps=3.*reached.*raise max_sweeps"):
        sc.solve(problem, method=method, max_sweeps=3)


@pytest.mark.parametrize("name", ["garnet", "garnet:horizon=5"])
def test_a_tolerance_below_rounding_raises(name):
    words = r"tolerance=1e-16 cannot be proven.*ask for (at least|that)"
    with pytest.raises(sc.InvalidInput, match=words):
        sc.solve(sc.make(name, discount=0.9, temperature=0.1), tolerance=1e-16)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("operator", [sc.Entropy, sc.Sparsemax, sc.SquareRoot])
def test_the_unit_of_rewards_does_not_matter(operator, method):
    """Rewards and temperature times c = 2^k: values and bound are c times as
    large, to the last bit, since c is a power of two.
    """
    P, R = random_arrays(12, 3, 5)

    def solved(c):
        scaled = sc.tabular(P, c * R, discount=0.95, operator=operator(0.5 * c))
        return sc.solve(scaled, method=method)

    plain = solved(1.0)
    assert plain.residual_bound <= 1e-10
    for c in (2.0**30, 2.0**-30):
        found = solved(c)
        assert found.values.tolist() == (c * plain.values).tolist()
        assert found.residual_bound == c * plain.residual_bound
        assert found.note == ""


@pytest.mark.parametrize(
    ("rewards", "discount", "most"),
    [([1e9, 1e9 + 1.0], 0.9, 1e-3), ([0.3, 1.0], 0.9999, math.inf)],
)
def test_the_bound_is_honest_where_rounding_dominates(rewards, discount, most):
    """Values near 10^10 and 10^4: 1e-10 is out of reach, the note says so, and the bound
    is near the rounding of numbers of that size.
    """
    found = sc.solve(one_state(rewards, discount, sc.Max()))
    assert 1e-10 < found.residual_bound <= most
    assert "rounding" in found.note
    value = rewards[1] / (1.0 - discount)
    assert abs(found.values[0] - value) <= found.residual_bound


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tolerance", 0.0),
        ("tolerance", math.nan),
        ("tolerance", True),
        ("method", "lp"),
        ("max_sweeps", 0),
        ("max_sweeps", 1.5),
    ],
)
def test_bad_parameters_are_refused(name, value):
    with pytest.raises(sc.InvalidInput, match=name) as caught:
        sc.solve(sc.make("chain", discount=0.5, temperature=1.0), **{name: value})
    assert repr(value) in str(caught.value)
