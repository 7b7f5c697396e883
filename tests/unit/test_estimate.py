"""The recommended action and the actions that may be best: ties, ends of boxes
that touch, illegal actions, both players.
"""

import math

import pytest

from smoothcruiser.estimate import best_action


@pytest.mark.parametrize(
    ("policy", "q_values", "player", "action"),
    [
        # the most likely action, whatever the values say
        ((0.2, 0.5, 0.3), (9.0, 0.0, 1.0), 1, 1),
        # equal shares: the larger value for player 1, the smaller for player 2
        ((0.4, 0.4, 0.2), (1.0, 2.0, 3.0), 1, 1),
        ((0.4, 0.4, 0.2), (1.0, 2.0, 0.0), 2, 0),
        # equal shares and values: the first
        ((0.25, 0.25, 0.25, 0.25), (1.0, 2.0, 2.0, 0.0), 1, 1),
        ((0.25, 0.25, 0.25, 0.25), (1.0, 0.0, 2.0, 0.0), 2, 1),
        ((0.5, 0.5), (1.0, 1.0), 1, 0),
        # illegal actions are never recommended
        ((0.0, 0.0, 1.0), (math.nan, 1.0, 0.0), 1, 2),
        ((0.0, 0.0, 0.0), (math.nan, 1.0, 2.0), 2, 1),
    ],
)
def test_ties_are_broken_by_value_for_the_mover_and_then_by_index(
    policy, q_values, player, action
):
    assert best_action(policy, q_values, player) == action
