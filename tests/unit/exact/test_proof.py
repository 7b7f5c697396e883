"""The checks behind bounds at discount 1 refuse what is false, whoever proposes it."""

import numpy as np
import pytest

from smoothcruiser.exact.proof import Arena, is_above, is_below
from smoothcruiser.exact.undiscounted.chains import Rows

pytestmark = pytest.mark.compiles

OUT = 2  # the number of the outside, of two states


def rows_of(listed):
    """Rows (state, [(probability, target)], reward), the outside being ``OUT``."""
    targets = [z for _, outcomes, _ in listed for _, z in outcomes]
    weights = [p for _, outcomes, _ in listed for p, _ in outcomes]
    lengths = [len(outcomes) for _, outcomes, _ in listed]
    reward = np.array([r for _, _, r in listed])
    return Rows(
        size=2,
        owner=np.array([s for s, _, _ in listed]),
        start=np.concatenate([[0], np.cumsum(lengths)]),
        target=np.array(targets),
        weight=np.array(weights),
        reward=reward,
        pays=reward != 0.0,
        row=np.arange(len(listed)),
    )


# 0 and 1 lead to each other for free; from 1 one may leave for 0.6 in the mean
CIRCLE = rows_of([(0, [(1.0, 1)], 0.0), (1, [(1.0, 0)], 0.0), (1, [(1.0, OUT)], 0.6)])
STALL, LEAVE = np.array([0, 1]), np.array([0, 2])


def arena(rows, is_max, *, signed=False):
    paid = rows.reward[rows.entry_row]
    return Arena(rows, rows, paid, np.array(is_max), signed)


def at(*values):
    return np.array([[*values, 0.0], [0.0] * (len(values) + 1)])


def test_above_needs_no_assumption_on_end_components():
    circle = arena(CIRCLE, [True, True])
    assert is_above(circle, at(0.61, 0.61), LEAVE)
    assert is_above(circle, at(7.0, 7.0), STALL)
    assert not is_above(circle, at(0.59, 0.59), LEAVE)
    assert not is_above(circle, at(0.5, 0.5), STALL)  # what the max player leaves out
    assert not is_above(circle, at(0.61, 0.62), LEAVE)  # not constant in the circle
    assert not is_above(circle, at(np.inf, np.inf), LEAVE)
    assert not is_above(circle, at(-1.0, -1.0), LEAVE)


def test_below_refuses_a_policy_that_stalls():
    """1 = max(1, 0.6) in the circle, a fixed point of T that nobody ever earns."""
    circle = arena(CIRCLE, [True, True])
    assert not is_below(circle, at(1.0, 1.0), STALL)
    assert not is_below(circle, at(0.5, 0.5), STALL)
    assert is_below(circle, at(0.59, 0.59), LEAVE)
    assert not is_below(circle, at(0.61, 0.61), LEAVE)
    assert is_below(circle, at(0.0, 0.0), STALL)


def test_below_counts_every_reply_of_the_min_player():
    """The min player, who moves at 1, goes back for ever: nothing is earned."""
    circle = arena(CIRCLE, [True, False])
    assert not is_below(circle, at(0.5, 0.5), LEAVE)
    assert is_above(circle, at(0.0, 0.0), STALL)


def test_rounding_counts_against_a_bound():
    """A bound that is right to the last digit leaves no room for roundings."""
    third = arena(rows_of([(0, [(1.0, 1)], 0.1), (1, [(1.0, OUT)], 0.2)]), [True] * 2)
    exact = 0.1 + 0.2
    assert not is_above(third, at(exact, 0.2), STALL)
    assert not is_below(third, at(exact, 0.2), STALL)
    assert not is_above(third, at(exact + 2e-16, 0.2 + 6e-17), STALL)
    assert not is_below(third, at(exact - 2e-16, 0.2 - 6e-17), STALL)
    assert is_above(third, at(exact + 1e-14, 0.2 + 5e-15), STALL)
    assert is_below(third, at(exact - 1e-14, 0.2 - 5e-15), STALL)


def test_signed_bounds_may_be_negative():
    line = arena(rows_of([(0, [(1.0, 1)], 1.0), (1, [(1.0, OUT)], -3.0)]), [True] * 2)
    signed = arena(line.raw, [True, True], signed=True)
    assert is_above(signed, at(-1.9, -2.95), STALL)
    assert not is_above(signed, at(-2.1, -3.05), STALL)
    assert is_below(signed, at(-2.1, -3.05), STALL)
    assert not is_below(signed, at(-1.9, -2.95), STALL)
