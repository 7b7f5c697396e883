"""Intervals for the value of a policy that hold surely: rounding is part of them."""

from worlds import mdp

import smoothcruiser as sc


def test_a_sure_value_of_a_policy_allows_for_rounding():
    """Ten rewards of 0.1 are worth more than their rounded sum; an interval
    that holds surely has to hold both.
    """
    from fractions import Fraction

    problem = mdp(
        lambda state, action, rng: (0.1, state + 1),
        num_actions=1,
        discount=1.0,
        horizon=10,
        operator=sc.Max(),
        deterministic=True,
    )
    low, high = sc.evaluate(problem, lambda state: [1.0]).interval
    assert Fraction(low) <= 10 * Fraction(0.1) <= Fraction(high)
