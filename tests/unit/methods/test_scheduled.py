"""Methods that run a schedule: what they say when no schedule can be paid for."""

import pytest
from worlds import mdp

import smoothcruiser as sc


def test_an_unpayable_epsilon_is_called_unpayable():
    """It was "The root's 59311707951422423040 draws do not keep epsilon; raise
    the samples".
    """
    made = mdp(
        lambda state, action, rng: (rng.random(), state),
        num_actions=1,
        discount=0.0,
        operator=sc.Max(),
    )
    with pytest.raises(sc.Unpayable):
        sc.plan(made, epsilon=1e-10, delta=0.1, method="smoothcruiser")
