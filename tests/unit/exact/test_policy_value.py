"""The exact value of a given policy: by hand, by iteration, and below the optimum."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from exact_worlds import OPERATORS

import smoothcruiser as sc
from smoothcruiser.exact import policy_value

pytestmark = pytest.mark.compiles


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
    assert policy_value(problem, found.policy) == pytest.approx(found.values, abs=1e-8)


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
def test_no_policy_beats_the_optimal_value(operator):
    problem = sc.make("garnet:states=9,seed=4", discount=0.9, operator=operator)
    best = sc.solve(problem).values
    rng = np.random.default_rng(0)
    for _ in range(20):
        value = policy_value(problem, rng.dirichlet(np.full(3, 0.5), size=9))
        assert np.all(value <= best + 1e-9)


def test_policy_value_by_hand_and_by_iteration():
    """Uniform policy, one state: V = (mean r + lambda log 2)/(1 - gamma). Large
    problems iterate to the same as a solve.
    """
    problem = sc.tabular(
        np.ones((1, 2, 1)), [[0.0, 1.0]], discount=0.5, operator=sc.Entropy(1.0)
    )
    assert policy_value(problem, [[0.5, 0.5]]) == pytest.approx(
        [2.0 * (0.5 + math.log(2.0))]
    )
    ring = sp.csr_matrix(
        (np.ones(3000), np.roll(np.arange(3000), -1), np.arange(3001)),
        shape=(3000, 3000),
    )
    long = sc.tabular(ring, np.ones((3000, 1)), discount=0.9, operator=sc.Max())
    assert policy_value(long, np.ones((3000, 1))) == pytest.approx(10.0, abs=1e-10)
    small = sc.tabular(
        ring, np.full((3000, 1), 1e-12), discount=0.9, operator=sc.Max()
    )
    assert policy_value(small, np.ones((3000, 1))) == pytest.approx(1e-11, rel=1e-10)


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
    problem = sc.tabular(
        np.ones((1, 2, 1)), [[0.0, 1.0]], discount=0.5, operator=sc.Entropy(1.0)
    )
    with pytest.raises(sc.InvalidInput, match=message):
        policy_value(problem, policy)


def test_policy_value_refuses_operators_without_a_regularizer():
    custom = sc.CustomOperator(
        lambda q: float(np.mean(q)),
        lambda q: np.full(len(q), 1.0 / len(q)),
        smooth=0.0,
    )
    problem = sc.tabular(
        np.ones((1, 2, 1)), [[0.0, 1.0]], discount=0.5, operator=custom
    )
    with pytest.raises(sc.InvalidInput, match="built-in"):
        policy_value(problem, [[0.5, 0.5]])
