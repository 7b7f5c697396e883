"""What auto reckons before it runs anything, by hand."""

import pytest

import smoothcruiser as sc
from smoothcruiser.methods.advice import least_of_search, steps_that_matter
from smoothcruiser.query import Query


def asked(discount, epsilon, **more):
    """A coin in one state, and what is asked of it."""

    def step(state, action, rng):
        return rng.integers(2), state

    about = {"num_actions": 2, "operator": sc.Max(), "initial_state": 0}
    problem = sc.MDP(step, discount=discount, **about, **more)
    return problem, Query.of(problem, epsilon=epsilon, delta=0.1).promise


@pytest.mark.parametrize(
    ("discount", "epsilon", "steps"),
    [
        (0.3, "5%", 2),  # 0.3 is above a tenth of the span, 0.09 below it
        (0.5, "5%", 4),
        (0.05, "5%", 1),
        (0.0, "5%", 1),
        (0.9, "5%", 8),  # 22, and at the most 8
        (0.5, None, 8),
        (0.5, "60%", 1),
    ],
)
def test_steps_after_which_nothing_matters(discount, epsilon, steps):
    assert steps_that_matter(*asked(discount, epsilon), 8) == steps


def test_the_least_of_a_search():
    """log(4 * 2/0.1) * 0.5 * 2/(2 * 0.1) = 21.9 for each of two actions."""
    assert least_of_search(*asked(0.5, 0.1)) == 44
    assert least_of_search(*asked(0.5, 0.1, deterministic=True)) == 2
