"""Operators and random models that the tests of exact solutions share."""

import numpy as np

import smoothcruiser as sc

OPERATORS = [
    sc.Entropy(0.5),
    sc.KL(0.5),
    sc.KL(0.5, (0.2, 0.3, 0.5)),
    sc.Sparsemax(0.5),
    sc.SquareRoot(0.5),
    sc.Max(),
]


def random_arrays(states, actions, seed):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(states), size=(states, actions)), rng.random(
        (states, actions)
    )
