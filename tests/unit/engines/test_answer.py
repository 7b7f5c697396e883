"""From root sums to an answer: intervals by hand, actions that may be best, and
the two halves of a promise (bias and radius).
"""

from __future__ import annotations

import math

import pytest

import smoothcruiser as sc


def lottery(rewards: tuple[float, ...], player: int = 1, **more: object) -> sc.Problem:
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
        ((0.1, 0.5, 0.55, 0.9, 0.95), 2, (0,)),
        ((0.3, 0.05, 0.2, 0.9), 2, (1, 2)),
        ((0.3, 0.95, 0.8, 0.7), 1, (1, 2)),
    ],
)
def test_actions_that_may_be_best(rewards, player, best) -> None:
    """An action is excluded exactly where its best case misses the surest worst
    case of another, for the player who moves.
    """
    found = sc.plan(lottery(rewards, player), **PROMISE)
    boxes = found.certificate.q_intervals
    for box, reward in zip(boxes, rewards, strict=True):
        assert box[0] <= reward <= box[1]
        assert 0.16 < box[1] - box[0] <= 0.2
    assert found.certificate.best_actions == best
    sure = (
        max(low for low, _ in boxes) if player == 1 else min(high for _, high in boxes)
    )
    assert best == tuple(
        a
        for a, (low, high) in enumerate(boxes)
        if (high >= sure if player == 1 else low <= sure)
    )


@pytest.mark.parametrize("player", [1, 2])
def test_boxes_that_touch_exclude_nothing(player: int) -> None:
    """Rewards in [1/2, 1/2] make every box a point: a tie, and all may be best."""
    found = sc.plan(lottery((0.5,) * 3, player, reward_range=(0.5, 0.5)), **PROMISE)
    assert found.certificate.q_intervals == ((0.5, 0.5),) * 3
    assert found.certificate.best_actions == (0, 1, 2)
    assert found.action == 0


@pytest.mark.parametrize("player", [1, 2])
def test_illegal_actions_have_no_box_and_cannot_be_best(player: int) -> None:
    problem = lottery((0.9, 0.5, 0.1), player, legal=lambda state, action: action == 1)
    found = sc.plan(problem, **PROMISE)
    assert found.certificate.best_actions == (1,)
    assert (found.action, found.policy) == (1, (0.0, 1.0, 0.0))
    assert [math.isnan(q) for q in found.q_values] == [True, False, True]
    assert [math.isnan(low) for low, _ in found.certificate.q_intervals] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("player", [1, 2])
def test_the_interval_of_the_value_is_the_operator_at_the_ends(player: int) -> None:
    """Max is monotone, so V lies between the best of the lower and of the upper
    ends.
    """
    pick = max if player == 1 else min
    found = sc.plan(lottery((0.3, 0.4, 0.9), player), **PROMISE)
    boxes = found.certificate.q_intervals
    assert found.interval == (
        pick(low for low, _ in boxes),
        pick(high for _, high in boxes),
    )
    assert found.value == pick(found.q_values)


def test_answers_are_clipped_to_what_rewards_allow() -> None:
    """A reward at the edge: no interval reaches beyond it."""
    found = sc.plan(lottery((0.0, 1.0)), **PROMISE)
    (low, _), (_, high) = found.certificate.q_intervals
    assert (low, high) == (0.0, 1.0)
    assert found.interval[1] == 1.0


def test_one_sampled_value_has_no_action() -> None:
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


def test_a_run_that_ends_early_reports_what_it_promised() -> None:
    """Sure rewards: the first look is enough, epsilon stays the promised one,
    and the certificate names the inequality that used the data.
    """
    found = sc.plan(lottery((0.3, 0.9)), **(PROMISE | {"epsilon": 0.02}))
    assert found.epsilon == 0.02
    assert found.num_calls < found.price
    assert found.certificate.confidence == 0.9
    assert found.certificate.bound == "betting"
    assert any("allowed an early stop" in note for note in found.notes)


def test_a_run_to_its_end_has_the_promised_radius() -> None:
    """Fair coins have the largest variance: no look helps, all samples are taken,
    and the fixed bound closes the promise.
    """
    coin = sc.MDP(
        lambda state, action, rng: (float(rng.random() < 0.5), state),
        num_actions=2,
        discount=0.5,
        horizon=1,
        operator=sc.Max(),
        initial_state=0,
    )
    found = sc.plan(coin, **PROMISE)
    assert found.num_calls == found.price
    assert found.certificate.bound != "betting"
    widths = [high - low for low, high in found.certificate.q_intervals]
    assert max(widths) <= 2 * 0.1 + 1e-12
    assert min(widths) > 2 * 0.09
