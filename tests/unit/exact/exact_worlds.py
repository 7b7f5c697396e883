"""Operators and random models that the tests of exact solutions share."""

import numpy as np

from smoothcruiser.operators import KL, Entropy, Max, Operator, Sparsemax, SquareRoot

OPERATORS: list[Operator] = [
    Entropy(0.5),
    KL(0.5),
    KL(0.5, (0.2, 0.3, 0.5)),
    Sparsemax(0.5),
    SquareRoot(0.5),
    Max(),
]


def random_arrays(
    states: int, actions: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(states), size=(states, actions)), rng.random(
        (states, actions)
    )
