"""The exact value of a given policy: by hand, by iteration, and below the optimum."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from exact_worlds import OPERATORS

import smoothcruiser as sc
from smoothcruiser import exact

pytestmark = pytest.mark.compiles


def two_arms(operator=sc.Entropy(1.0)):
    """One state, rewards 0 and 1."""
    return sc.tabular(np.ones((1, 2, 1)), [[0, 1]], discount=0.5, operator=operator)


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
@pytest.mark.parametrize(
    "name",
    [
        "garnet:states=9,seed=3",
        "random-game:states=9,seed=3",
        "garnet:states=9,seed=3,horizon=1",
    ],
)
def test_the_value_of_the_optimal_policy_is_the_optimal_value(operator, name):
    problem = sc.make(name, discount=0.9, operator=operator)
    found = sc.solve(problem)
    assert exact.policy_value(problem, found.policy) == pytest.approx(
        found.values, abs=1e-8
    )


def test_policy_value_by_hand_and_by_iteration():
    """Uniform policy, one state: V = (mean r + lambda log 2)/(1 - gamma). Large
    problems iterate to the same as a solve.
    """
    by_hand = [2.0 * (0.5 + math.log(2.0))]
    assert exact.policy_value(two_arms(), [[0.5, 0.5]]) == pytest.approx(by_hand)
    ring = sp.csr_matrix(np.roll(np.eye(3000), 1, axis=1))
    for paid in (1.0, 1e-12):
        rewards = np.full((3000, 1), paid)
        long = sc.tabular(ring, rewards, discount=0.9, operator=sc.Max())
        value = exact.policy_value(long, np.ones((3000, 1)))
        assert value == pytest.approx(10.0 * paid, rel=1e-10)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([[1.0]], "shape"),
        ([[0.5, 0.6]], "sums to 1.1"),
        ([[1.5, -0.5]], "negative"),
        ([[math.nan, 1.0]], "undefined"),
    ],
)
def test_bad_policies_are_refused(policy, message):
    with pytest.raises(sc.InvalidInput, match=message):
        exact.policy_value(two_arms(), policy)


def test_policy_value_refuses_operators_without_a_regularizer():
    custom = sc.CustomOperator(np.mean, lambda q: np.full(len(q), 0.5), smooth=0.0)
    with pytest.raises(sc.InvalidInput, match="built-in"):
        exact.policy_value(two_arms(custom), [[0.5, 0.5]])
