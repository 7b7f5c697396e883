"""Bounds on V and Q by hand (theory, section 3): a table of declarations and of what
follows from them. Without a change: gamma = 1/2, lambda = 1, K = 2, rewards in [0, 1].
"""

import math
from fractions import Fraction

import pytest
from worlds import mdp, walk

import smoothcruiser as sc

M = math.log(2.0)
PLAIN = {"operator": sc.Max()}
SOME = {"legal": lambda state, action: True}
ENDS = {"terminal": True}
GAME = {"player": lambda state: 1}
TURNS = GAME | {"alternating": True}
LONG = {"discount": 1.0, "horizon": 3}
TOTAL = PLAIN | ENDS | {"reward_range": (-1.0, 1.0)}
LEFT = TOTAL | {"horizon": 4, "total_reward_range": (-3.0, 0.5)}
PAID, COST = ({**PLAIN, "reward_range": ends} for ends in ((1.0, 2.0), (-2.0, -1.0)))
STRICT = TURNS | {"total_reward_range": (0.5, 1.0), "horizon": 3}
LATE = M * (1.0 + 0.5**3) / 1.5  # the offset of three strict turns


class Unshifted(type(sc.Max())):
    """An operator for which Lemma T, F(Q + c) = F(Q) + c, is not known."""

    shift_invariant = False


def facts(**changes):
    if "player" in changes:
        usual = {"num_actions": 2, "discount": 0.5, "operator": sc.Entropy(1.0)}
        return sc.Game(walk, **(usual | changes)).facts
    return mdp(**changes).facts


UNKNOWN = TOTAL | {"operator": Unshifted(), "total_reward_range": (-1.0, 1.0)}
HALF = sc.CustomOperator(lambda q: 0.5 * float(max(q)) + 0.25, lambda q: q, smooth=1.0)
BY_HAND = [
    # the regularizer moves the value and does not widen it
    ({}, "value_range", (), (2 * M, 2 * (1 + M))),
    ({}, "value_span", (), 2.0),
    ({}, "q_bounds", (), (M, 2 + M)),
    # the offset of the fewest and of the most actions
    (SOME, "value_range", (), (0.0, 2 * (1 + M))),
    # ends pull the bounds to zero, and are among the next values
    (ENDS, "value_range", (), (0.0, 2 * (1 + M))),
    (ENDS | {"reward_range": (-5.0, -4.0)}, "value_range", (), (2 * (M - 5), 0.0)),
    (PAID, "q_bounds", (), (2.0, 4.0)),
    (PAID | ENDS, "q_bounds", (), (1.0, 4.0)),
    (PAID | ENDS | {"value_bounds": (3.0, 3.5)}, "q_bounds", (), (1.0, 3.75)),
    (COST | ENDS | {"value_bounds": (-3.5, -3.0)}, "q_bounds", (), (-3.75, -1.0)),
    # games carry the regularizer on both sides, whoever moves next
    (GAME, "value_range", (), (-2 * M, 2 * (1 + M))),
    (GAME, "q_bounds", (1,), (-M, 2 + M)),
    (GAME, "q_bounds", (2,), (-M, 2 + M)),
    # strict turns do not: offsets of M/(1 + gamma), and the other player is next
    (TURNS, "player_offset", (), M / 1.5),
    (TURNS, "value_span", (), 2.0),
    (TURNS, "value_bounds", (1,), (M / 1.5, 2 + M / 1.5)),
    (TURNS, "value_bounds", (2,), (-M / 1.5, 2 - M / 1.5)),
    (TURNS, "q_bounds", (1,), (-M / 3, 2 - M / 3)),
    (TURNS, "q_bounds", (2,), (M / 3, 2 + M / 3)),
    (TURNS | ENDS, "player_offset", (), 0.0),
    (TURNS | LONG, "player_offset", (), M),  # M - M + M
    # a horizon counts the step that is taken
    (LONG, "value_range", (), (3 * M, 3 * (1 + M))),
    (LONG, "value_range", (2,), (2 * M, 2 * (1 + M))),
    (LONG, "value_range", (0,), (0.0, 0.0)),
    (LONG, "q_bounds", (), (2 * M, 3 + 2 * M)),
    (PLAIN | {"horizon": 1}, "q_bounds", (), (0.0, 1.0)),
    (PLAIN | {"horizon": 9}, "q_bounds", (1, 3), (0.0, 1.75)),
    ({"horizon": 2}, "steps", (2,), 1.5),
    # given bounds tighten, and never bind an empty horizon
    ({"value_bounds": (2.0, 3.0)}, "value_range", (), (2.0, 3.0)),
    ({"value_bounds": (-9.0, 9.0)}, "value_range", (), (2 * M, 2 * (1 + M))),
    (LONG | {"value_bounds": (1.5, 3.0)}, "q_bounds", (1, 1), (0.0, 1.0)),
    # without shift invariance: (1 + 0.25)/(1 - 0.5) on both sides
    ({"operator": HALF}, "value_range", (), (-2.5, 2.5)),
    # the distance from plain max; mellowmax lies below by log K
    ({}, "relaxation_bound", (), 2 * M),
    (PLAIN, "relaxation_bound", (), 0.0),
    ({"operator": sc.Sparsemax(1.0)}, "relaxation_bound", (), 0.5),
    ({"operator": sc.KL(1.0)}, "relaxation_bound", (), 2 * M),
    ({"operator": sc.KL(1.0, (0.1, 0.9))}, "relaxation_bound", (), 2 * math.log(10.0)),
    ({"operator": HALF}, "relaxation_bound", (), math.inf),
    # one reward at the end: 1 instead of 1/(1 - gamma)
    (TOTAL | {"payoffs": "end"}, "value_bounds", (), (-1.0, 1.0)),
    (TOTAL | {"payoffs": "end"}, "q_bounds", (), (-1.0, 1.0)),
    # a total in [0, 1], and F(0) = log 2 in each of up to 2 discounted steps
    (ENDS | {"total_reward_range": (0.0, 1.0)}, "value_bounds", (), (0.0, 1 + 2 * M)),
    (ENDS | {"total_reward_range": (0.0, 1.0)}, "q_bounds", (), (0.0, 1 + M)),
    # with one step left both ranges count
    (LEFT, "value_bounds", (1, 1), (-1.0, 0.5)),
    (LEFT, "q_bounds", (1, 1), (-1.0, 0.5)),
    (LEFT, "value_bounds", (1, 0), (0.0, 0.0)),
    # a move into an end is worth its reward alone, whatever the total
    (TOTAL | {"total_reward_range": (0.5, 1.0)}, "q_bounds", (), (0.5, 1.0)),
    # strict turns keep the offset of the mover beside a total
    (STRICT, "value_bounds", (1,), (0.5 + LATE, 1.0 + LATE)),
    (STRICT, "value_bounds", (2,), (0.5 - LATE, 1.0 - LATE)),
    (STRICT, "value_bounds", (1, 0), (0.0, 0.0)),
    (UNKNOWN, "value_bounds", (), (-2.0, 2.0)),
]


@pytest.mark.parametrize(("changes", "name", "arguments", "expected"), BY_HAND)
def test_bounds_by_hand(changes, name, arguments, expected):
    assert getattr(facts(**changes), name)(*arguments) == pytest.approx(expected)


def test_what_is_known_of_actions_ends_and_rewards():
    assert (facts().min_actions, facts(**SOME).min_actions) == (2, 1)
    assert facts(**SOME, min_actions=2).min_actions == 2
    assert [facts(terminal=x).terminals for x in (True, False)] == [True, False]
    assert facts(**TURNS).game
    assert facts(**TURNS).alternating
    prices = [facts(**x).price_is_exact for x in ({}, SOME, ENDS)]
    assert prices == [True, False, False]
    wide = facts(reward_range=(-3.0, 1.0), operator=sc.Entropy(2.0))
    assert (wide.reward_span, wide.reward_bound) == (4.0, 3.0)
    assert wide.regularizer_bound == pytest.approx(2.0 * M)
    assert (wide.smoothness, wide.curvature) == (0.5, 0.5)


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.999999995, 1 - 2.0**-52])
@pytest.mark.parametrize("steps", [0, 3, 20])
def test_discounted_steps_near_one_lose_no_digit(discount, steps):
    """1 - gamma**3 has nine digits left at 0.999999995: bounds on V were as wrong."""
    exact = sum((Fraction(discount) ** i for i in range(steps)), Fraction(0))
    computed = Fraction(facts(discount=discount).steps(steps))
    assert abs(computed - exact) <= 3 * Fraction(2) ** -52 * exact
