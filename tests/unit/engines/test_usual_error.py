"""The usual standard error of a schedule's value: hand-computed sums of root samples."""

from types import SimpleNamespace

import pytest

from smoothcruiser.engines.root_answer import usual_error
from smoothcruiser.engines.run import RootSums

# distances 1, -1, 1, -1: variance 4/3; and 2, 2: variance 0
SPREAD = RootSums(draws=4, total=0.0, square=4.0)
EQUAL = RootSums(draws=2, total=4.0, square=8.0)


def rule_of(bias):
    return SimpleNamespace(promise=SimpleNamespace(bias=bias))


def test_shares_of_the_policy_weigh_the_errors_of_the_actions():
    tallies = {0: SPREAD, 2: EQUAL}
    by_hand = 0.25 * (4.0 / 3.0 / 4.0) ** 0.5
    error = usual_error(rule_of(0.0), tallies, (0.25, 0.0, 0.75))
    assert error == pytest.approx(by_hand)
    error = usual_error(rule_of(0.0), {0: SPREAD}, ())
    assert error == pytest.approx((1.0 / 3.0) ** 0.5)


def test_there_is_none_where_it_would_mislead():
    policy, one = (1.0,), RootSums(draws=1, total=1.0, square=1.0)
    assert usual_error(rule_of(0.0), {0: one}, policy) is None
    assert usual_error(rule_of(1.0), {0: SPREAD}, policy) is None
    assert usual_error(SimpleNamespace(promise=None), {0: SPREAD}, policy) is None
