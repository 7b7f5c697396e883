"""What certified search concludes from boxes of action values: the loss of a
policy, and the actions that may be best.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from smoothcruiser.certified.estimate import not_excluded, policy_loss
from smoothcruiser.operators.base import (
    KL,
    Entropy,
    Max,
    Sparsemax,
    SquareRoot,
)

OPERATORS = [
    Entropy(0.2),
    KL(0.2, prior=(0.5, 0.3, 0.2)),
    Sparsemax(0.5),
    SquareRoot(0.3),
    Max(),
]


def test_policy_loss_bounds_every_point_of_the_box():
    """The loss at 300 random points of a box, for all operators and both
    players, stays below the bound, which a corner attains.
    """
    rng = np.random.default_rng(0)
    for operator, player in product(OPERATORS, (1, 2)):
        weights = operator.weights(3)
        boxes = [
            (low, low + width)
            for low, width in zip(rng.normal(size=3), rng.random(3), strict=True)
        ]
        middle = [sum(box) / 2 for box in boxes]
        bound = policy_loss(operator, boxes, player, weights)
        policy = operator.gradient(middle, player=player, weights=weights)
        sign = 1 if player == 1 else -1
        losses = []
        for _ in range(300):
            q = [
                low + (high - low) * rng.integers(2)
                if rng.random() < 0.5
                else rng.uniform(low, high)
                for low, high in boxes
            ]
            linear = sum(p * (x - m) for p, x, m in zip(policy, q, middle, strict=True))
            gap = operator.value(q, player=player, weights=weights) - operator.value(
                middle, player=player, weights=weights
            )
            losses.append(sign * (gap - linear))
        assert min(losses) >= -1e-9
        assert max(losses) <= bound
        assert max(losses) >= 0.5 * bound - 1e-12
    assert policy_loss(Max(), [(0.0, 1.0)], 1, [1.0]) == 0.0


def test_actions_not_excluded():
    """By hand: for max an action whose top is below another's bottom is out;
    for min mirrored.
    """
    boxes = [(0.0, 1.0), (0.5, 2.0), (-1.0, 0.4)]
    assert not_excluded(boxes, 1) == [0, 1]
    assert not_excluded(boxes, 2) == [0, 2]
