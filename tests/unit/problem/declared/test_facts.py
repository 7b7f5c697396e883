"""The box that holds every action value, by hand: r_lo + gamma V_lo to r_hi +
gamma V_hi, with V that of the next state, its mover and the steps then left.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from smoothcruiser.operators import Entropy, Max
from smoothcruiser.problem.facts import Facts

LOG2 = math.log(2.0)


def facts(**more: object) -> Facts:
    common = {"discount": 0.5, "operator": Max(), "reward_range": (0.0, 1.0)}
    return Facts(2, 2, **(common | more))


def test_without_a_horizon() -> None:
    """V in [0, 2]: Q in [0, 1 + 1]."""
    assert facts().q_bounds() == pytest.approx((0.0, 2.0))


@pytest.mark.parametrize(("horizon", "top"), [(1, 1.0), (2, 1.5), (3, 1.75)])
def test_a_horizon_counts_the_step_that_is_taken(horizon: int, top: float) -> None:
    """With h steps left the next state has h - 1; asked for or by default."""
    assert facts(horizon=horizon).q_bounds() == pytest.approx((0.0, top))
    assert facts(horizon=9).q_bounds(remaining=horizon) == pytest.approx((0.0, top))


def test_terminals_put_zero_among_the_next_values() -> None:
    """Rewards in [1, 2], V in [2, 4] or 0: Q in [1, 4]; without ends [2, 4]."""
    paid = {"reward_range": (1.0, 2.0)}
    assert facts(**paid).q_bounds() == pytest.approx((2.0, 4.0))
    assert facts(terminals=True, **paid).q_bounds() == pytest.approx((1.0, 4.0))
    known = facts(terminals=True, given_bounds=(3.0, 3.5), **paid)
    assert known.q_bounds() == pytest.approx((1.0, 2.0 + 0.5 * 3.5))
    lost = facts(terminals=True, given_bounds=(-3.5, -3.0), reward_range=(-2.0, -1.0))
    assert lost.q_bounds() == pytest.approx((-2.0 - 0.5 * 3.5, -1.0))


def test_turns_that_alternate_have_the_other_player_next() -> None:
    """V less the mover's offset log(2)/(1 + gamma) is in [0, 2]; after player 1
    comes player 2, whose offset is subtracted.
    """
    turns = facts(operator=Entropy(1.0), game=True, alternating=True)
    offset = LOG2 / 1.5
    assert turns.q_bounds(1) == pytest.approx((-0.5 * offset, 2.0 - 0.5 * offset))
    assert turns.q_bounds(2) == pytest.approx((0.5 * offset, 2.0 + 0.5 * offset))


def test_turns_in_any_order_allow_for_either_player() -> None:
    """V in [-2 log 2, 2 + 2 log 2], whoever moves next."""
    game = facts(operator=Entropy(1.0), game=True)
    for player in (1, 2):
        assert game.q_bounds(player) == pytest.approx((-LOG2, 2.0 + LOG2))


@pytest.mark.parametrize("discount", [0.0, 0.3, 0.5, 0.9, 0.999999995, 1 - 2.0**-52])
@pytest.mark.parametrize("steps", [0, 1, 3, 20])
def test_discounted_steps_near_one_lose_no_digit(discount: float, steps: int) -> None:
    """1 - gamma**3 has nine digits left at 0.999999995: bounds on V were as wrong."""
    exact = sum((Fraction(discount) ** i for i in range(steps)), Fraction(0))
    found = Fraction(facts(discount=discount).steps(steps))
    assert abs(found - exact) <= 3 * Fraction(2) ** -52 * exact
