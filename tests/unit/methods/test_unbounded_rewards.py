"""Rewards without a range: the law that a declared moment pays for what a cap leaves out.

The law with all its mass beyond the cap at p cap/(p - 1) attains the bound, so that any
smaller one fails here. Its answer comes from a known model: nothing is left to chance.
"""

import math

import numba
import numpy as np
import pytest

import smoothcruiser as sc

EPSILON, DISCOUNT = 0.5, 0.5


def worst_law(p):
    """(the reward beyond the cap, its probability): attains the bound for M = 1."""
    loss = (p - 1.0) ** (p - 1.0) / p**p
    cap = (loss / (1.0 - DISCOUNT) / (0.2 * EPSILON)) ** (1.0 / (p - 1.0))
    reward = p * cap / (p - 1.0)
    return reward, reward**-p


def worst_world(p, sign=1.0, **facts):
    reward, share = worst_law(p)
    rows = [(share, sign * reward, 0), (1.0 - share, 0.0, 0)]

    def step(state, action, rng):
        return (sign * reward if rng.random() < share else 0.0), 0

    open_range = (0.0, None) if sign > 0 else (None, 0.0)
    facts = {
        "num_actions": 1,
        "discount": DISCOUNT,
        "operator": sc.Max(),
        "initial_state": 0,
        "outcomes": lambda state, action: rows,
        "reward_range": open_range,
        "reward_moment": (p, 1.0),
    } | facts
    return sc.MDP(step, **facts), sign * reward * share / (1.0 - DISCOUNT)


@pytest.mark.parametrize("p", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_bias_is_that_of_the_worst_law(p, sign):
    problem, truth = worst_world(p, sign)
    low, high = sc.plan(problem, epsilon=EPSILON, delta=0.1).interval
    assert low - 1e-9 <= truth <= high + 1e-9
    assert math.isclose(truth, high if sign > 0 else low, rel_tol=1e-6)
    assert math.isclose(high - low, 0.2 * EPSILON, rel_tol=1e-6)


def test_both_ends_move_where_both_are_open():
    problem, truth = worst_world(2.0, reward_range=(None, None))
    low, high = sc.plan(problem, epsilon=EPSILON, delta=0.1).interval
    assert low < truth <= high + 1e-9
    assert math.isclose(high - low, 0.4 * EPSILON, rel_tol=1e-6)


@numba.njit
def lognormal(state, action, rng):
    return math.exp(rng.normal()) * (1.0 + action), (state + action) % 2


@pytest.mark.compiles
@pytest.mark.parametrize("compiled", [False, True])
def test_a_lognormal_price_is_planned_and_evaluated(compiled):
    step = lognormal if compiled else lognormal.py_func
    moment = (4.0, 16.0 * math.exp(8.0))
    problem = sc.MDP(
        step, num_actions=2, discount=0.5, operator=sc.Max(), initial_state=0,
        reward_range=(0.0, None), reward_moment=moment,
    )  # fmt: skip
    truth = 4.0 * math.exp(0.5)
    answer = sc.plan(problem, epsilon=4.0, delta=0.1)
    assert answer.interval[0] <= truth <= answer.interval[1]
    assert answer.epsilon <= 4.0
    assert "reward_moment" in answer.certificate.assumptions[-1]
    value = sc.evaluate(problem, lambda state: 1, budget=4000)
    assert value.interval[0] <= truth <= value.interval[1]
    assert (
        sc.explain(problem, epsilon=4.0, delta=0.1, method="certified").epsilon < 4.0
    )


@pytest.mark.parametrize("reward", [-1.0, math.nan, math.inf])
def test_the_closed_end_and_finite_numbers_stay_checked(reward):
    problem, _ = worst_world(2.0, outcomes=None)
    problem = sc.MDP(
        lambda state, action, rng: (reward, 0), num_actions=1, discount=0.5,
        operator=sc.Max(), initial_state=0, reward_range=(0.0, None),
        reward_moment=(2.0, 1.0),
    )  # fmt: skip
    with pytest.raises(sc.OracleError, match="reward"):
        sc.plan(problem, budget=1000)


def test_reports_hold_the_bias():
    problem, truth = worst_world(2.0, outcomes=None)
    reports = []
    sc.plan(problem, budget=20_000, delta=0.1, progress=reports.append)
    intervals = [news.interval for news in reports if news.interval is not None]
    assert all(low <= truth <= high for low, high in intervals)
    bias = sc.plan(problem, budget=20_000, delta=0.1).interval[1] - intervals[-1][1]
    assert np.isclose(bias, 0.0)


def test_check_takes_an_open_range():
    assert sc.check(worst_world(2.0)[0]).ok


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"reward_range": (0, None)}, "declare reward_moment"),
        ({"reward_range": (0, None), "reward_moment": (1, 5)}, "p > 1"),
        ({"reward_range": (0, "x"), "reward_moment": (2, 5)}, "two finite numbers"),
        ({"reward_range": (0, 1), "reward_moment": (2, 5)}, "drop it"),
    ],
)
def test_declarations_that_cannot_be_are_refused(facts, words):
    with pytest.raises(sc.InvalidInput, match=words):
        sc.MDP(lognormal, num_actions=2, discount=0.5, operator=sc.Max(), **facts)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: sc.plan(p, epsilon="5%"), "of value"),
        (lambda p: sc.plan(p, epsilon=-1), "above 0"),
        (lambda p: sc.plan(p, budget=10, store="x.db"), "store= needs"),
        (lambda p: sc.prepare(p, budget=10), "give both ends"),
        (lambda p: sc.Certified(p, delta=0.1).query(budget=9), "give both ends"),
        (lambda p: sc.Agent(p, budget=10).act(0), "give both ends"),
        (lambda p: sc.plan_many(p, [0], budget=10), "give both ends"),
    ],
)
def test_requests_that_need_a_range_say_so(call, words):
    problem, _ = worst_world(2.0)
    with pytest.raises(sc.InvalidInput, match=words):
        call(problem)
