"""What certified search concludes from boxes of action values: the loss of a
policy, and the actions that may be best.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.certified.search_answer import policy_loss
from smoothcruiser.operators import KL, Entropy, Max, Sparsemax, SquareRoot

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
        share = rng.random(3)  # the estimate may lie anywhere in the box
        middle = [
            low + t * (high - low) for t, (low, high) in zip(share, boxes, strict=True)
        ]
        bound = policy_loss(operator, boxes, middle, player, weights)
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
            linear = sum(
                p * (x - m) for p, x, m in zip(policy, q, middle, strict=True)
            )
            gap = operator.value(q, player=player, weights=weights) - operator.value(
                middle, player=player, weights=weights
            )
            losses.append(sign * (gap - linear))
        assert min(losses) >= -1e-9
        assert max(losses) <= bound
        assert max(losses) >= 0.5 * bound - 1e-12
    assert policy_loss(Max(), [(0.0, 1.0)], [0.5], 1, [1.0]) == 0.0


@pytest.mark.compiles
@pytest.mark.parametrize(("player", "best"), [(1, (3, 4)), (2, (1,))])
def test_actions_that_may_be_best_are_named_by_their_numbers(player, best):
    """Action 0 is illegal, so places and numbers differ; rewards are sure, and
    two actions tie for player 1.
    """
    rewards = (9.0, 0.1, 0.5, 0.9, 0.9)
    kind = sc.MDP if player == 1 else sc.Game
    turn = {} if player == 1 else {"player": lambda state: 2}
    problem = kind(
        lambda state, action, rng: (rewards[action], state),
        num_actions=5,
        discount=0.5,
        horizon=1,
        operator=Max(),
        initial_state=0,
        deterministic=True,
        legal=lambda state, action: action > 0,
        **turn,
    )
    found = sc.plan(problem, method="certified", epsilon=0.05, delta=0.1)
    assert found.certificate.best_actions == best
    assert found.action == best[0]
    assert found.q_values[1:] == pytest.approx(rewards[1:], abs=1e-9)
