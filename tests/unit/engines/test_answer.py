"""From root sums to an answer: intervals by hand, actions that may be best, and
the two halves of a promise (bias and radius).
"""

import math
from dataclasses import replace

import pytest

import smoothcruiser as sc


def lottery(rewards, player=1, **more):
    """One step, each action with a sure reward."""
    kind = sc.MDP if player == 1 else sc.Game
    if player == 2:
        more["player"] = lambda state: 2
    return kind(
        lambda state, action, rng: (rewards[action], state),
        num_actions=len(rewards),
        discount=0.5,
        horizon=1,
        operator=sc.Max(),
        initial_state=0,
        **more,
    )


PROMISE = {"method": "smoothcruiser", "epsilon": 0.1, "delta": 0.1}


@pytest.mark.parametrize(
    ("rewards", "player", "best"),
    [
        # boxes of nearly 0.2: actions within 0.15 of the best may be best
        ((0.1, 0.5, 0.55, 0.9, 0.95), 1, (3, 4)),
        ((0.3, 0.05, 0.2, 0.9), 2, (1, 2)),
    ],
)
def test_actions_that_may_be_best(rewards, player, best):
    """An action is excluded exactly where its best case misses the surest worst case of
    another, for the player who moves. Max is monotone, so V lies between the best of the
    lower and of the upper ends.
    """
    found = sc.plan(lottery(rewards, player), **PROMISE)
    boxes = found.certificate.q_intervals
    for (low, high), reward in zip(boxes, rewards, strict=True):
        assert low <= reward <= high
        assert 0.16 < high - low <= 0.2
    assert found.certificate.best_actions == best
    pick = max if player == 1 else min
    lows, highs = zip(*boxes, strict=True)
    assert found.interval == (pick(lows), pick(highs))
    assert found.value == pick(found.q_values)
    sure = max(lows) if player == 1 else min(highs)
    reach = [high >= sure if player == 1 else low <= sure for low, high in boxes]
    assert [a for a, reaches in enumerate(reach) if reaches] == list(best)


@pytest.mark.parametrize("player", [1, 2])
def test_boxes_that_touch_exclude_nothing(player):
    """Rewards in [1/2, 1/2] make every box a point: a tie, and all may be best."""
    found = sc.plan(lottery((0.5,) * 3, player, reward_range=(0.5, 0.5)), **PROMISE)
    assert found.certificate.q_intervals == ((0.5, 0.5),) * 3
    assert found.certificate.best_actions == (0, 1, 2)
    assert found.action == 0


@pytest.mark.parametrize("player", [1, 2])
def test_illegal_actions_have_no_box_and_cannot_be_best(player):
    problem = lottery((0.9, 0.5, 0.1), player, legal=lambda state, action: action == 1)
    found = sc.plan(problem, **PROMISE)
    assert found.certificate.best_actions == (1,)
    assert (found.action, found.policy) == (1, (0.0, 1.0, 0.0))
    lows = [low for low, _ in found.certificate.q_intervals]
    for numbers in (found.q_values, lows):
        assert [math.isnan(x) for x in numbers] == [True, False, True]


def test_answers_are_clipped_to_what_rewards_allow():
    """A reward at the edge: no interval reaches beyond it."""
    found = sc.plan(lottery((0.0, 1.0)), **PROMISE)
    (low, _), (_, high) = found.certificate.q_intervals
    assert (low, high) == (0.0, 1.0)
    assert found.interval[1] == 1.0


def test_one_sampled_value_has_no_action():
    """Where samples of V itself are cheaper, there are no action values, no
    policy, and no best actions; the interval is clipped all the same.
    """
    problem = sc.MDP(
        lambda state, action, rng: (1.0, state),
        num_actions=10,
        discount=0.1,
        operator=sc.Entropy(10.0),
        initial_state=0,
    )
    found = sc.plan(problem, **(PROMISE | {"target": "value", "epsilon": 0.2}))
    high = problem.facts.value_bounds()[1]
    assert (found.q_values, found.policy, found.action) == ((), (), None)
    assert found.certificate.best_actions is None
    assert found.interval[1] == high


def test_a_run_that_ends_early_reports_what_it_promised():
    """Sure rewards: the first look is enough, epsilon stays the promised one,
    and the certificate names the inequality that used the data.
    """
    found = sc.plan(lottery((0.3, 0.9)), **(PROMISE | {"epsilon": 0.02}))
    assert found.epsilon == 0.02
    assert found.num_calls < found.price
    assert found.certificate.confidence == 0.9
    assert found.certificate.bound == "betting"
    assert any("allowed an early stop" in note for note in found.notes)


def test_a_run_to_its_end_has_the_promised_radius():
    """Fair coins have the largest variance: no look helps, all samples are taken,
    and the fixed bound closes the promise.
    """
    coin = replace(
        lottery((0.5, 0.5)),
        oracle=lambda state, action, rng: (float(rng.random() < 0.5), state),
    )
    found = sc.plan(coin, **PROMISE)
    assert found.num_calls == found.price
    assert found.certificate.bound != "betting"
    widths = [high - low for low, high in found.certificate.q_intervals]
    assert max(widths) <= 2 * 0.1 + 1e-12
    assert min(widths) > 2 * 0.09
