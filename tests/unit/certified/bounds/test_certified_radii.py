"""Radii of certified search: shares that sum to one, closed forms,
monotonicity, and the price they allow to state.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.certified import price_forecast
from smoothcruiser.certified.bounds.betting import (
    BETTING,
    POLE_COSTS,
    POLE_OFFSETS,
    best_bound,
    pair_cost,
    rounding_floor,
    worst_radius,
)
from smoothcruiser.certified.price_forecast import price_bound
from smoothcruiser.certified.sweeps.ranges import box, discounted_width
from smoothcruiser.problem.facts import Facts


def test_shares_of_poles_and_pairs_sum_to_at_most_one():
    """The union bound of Proposition 3: sum of w_j <= 1, and sum of p_k <= 1
    with the tail bounded by its integral.
    """
    assert np.exp(-POLE_COSTS).sum() <= 1.0
    last = 1_000_000
    shares = np.exp(-pair_cost(np.arange(1, last + 1), 0.1)) * 2.0 / 0.1
    # the integral of 1/(x log(x)**2) beyond the last
    tail = 1.0 / math.log(last + math.e)
    assert shares.sum() + tail <= 1.0
    assert shares.sum() + tail > 0.8  # and little of delta is given away
    assert pair_cost(1, 0.05) == pytest.approx(
        math.log(2 / 0.05 * (1 + math.e) * math.log(1 + math.e) ** 2)
    )


@pytest.mark.parametrize("in_order", [0.25, 0.5, 0.75])
def test_the_two_parts_of_a_tables_delta_sum_to_at_most_one(in_order, monkeypatch):
    """Pairs in order and evenly: whatever part is shared in order, the other is even."""
    monkeypatch.setattr(price_forecast, "IN_ORDER_SHARE", in_order)
    problem, last = sc.make("chain:n=4", discount=0.5, temperature=1.0), 1_000_000
    costs = price_forecast.pair_costs(BETTING, problem, np.arange(1, last + 1), 0.1)
    shares = np.exp(-costs) * 2.0 / 0.1
    tail = in_order / math.log(last + math.e)
    assert 1.0 - 0.2 * in_order < shares.sum() + tail <= 1.0


def test_constant_draws_have_a_closed_form():
    """All draws x: at the pole M the bound is M - (M - x) exp(-cost/n), cost =
    that of the pair and of the pole.
    """
    cost = 10.0
    for n in (1, 7, 1000):
        expected = 5.0 - (5.0 - 2.0) * math.exp(-(cost + math.log(4.0)) / n)
        assert best_bound(np.full(n, 2.0), 1.0, 5.0, cost) == pytest.approx(
            expected, rel=1e-12
        )
        expected = 1.0 + (2.0 - 1.0) * math.exp(-(cost + math.log(4.0)) / n)
        assert best_bound(np.full(n, 2.0), 1.0, 5.0, cost, side=-1.0) == pytest.approx(
            expected, rel=1e-12
        )


def test_bounds_stay_in_range_and_are_monotone_in_the_draws():
    """Raising a draw never lowers a bound: that is what lets U stand in for V."""
    rng = np.random.default_rng(0)
    for n in (2, 20, 200):
        for side in (1.0, -1.0):
            for _ in range(20):
                x = rng.random(n)
                y = np.minimum(1.0, x + rng.random(n) * (rng.random(n) < 0.3))
                assert (
                    best_bound(x, 0.0, 1.0, 8.0, side=side)
                    <= best_bound(y, 0.0, 1.0, 8.0, side=side) + 1e-15
                )
                assert (
                    side * (best_bound(x, 0.0, 1.0, 8.0, side=side) - x.mean()) >= 0.0
                )
                assert 0.0 <= best_bound(x, 0.0, 1.0, 8.0, side=side) <= 1.0


def test_radii_are_near_the_normal_ones_and_below_bernsteins():
    """At n = 10,000 the radius is at most 20% above sigma sqrt(2 cost/n), which
    no bound can beat, and below Maurer and Pontil's.
    """
    rng, cost, n = np.random.default_rng(1), 14.0, 10_000
    for x in (
        (rng.random(n) < 0.5).astype(float),
        rng.random(n),
        0.4 + 0.2 * rng.random(n),
    ):
        radius = best_bound(x, 0.0, 1.0, cost) - x.mean()
        assert radius <= 1.2 * x.std() * math.sqrt(2 * cost / n)
        assert radius <= math.sqrt(
            2 * x.var(ddof=1) * (cost + math.log(2)) / n
        ) + 7 * (cost + math.log(2)) / (3 * (n - 1))


def test_worst_radius_is_attained_by_coins():
    """No law on [0, 1] has a larger radius, and some coin comes within the grid
    of means.
    """
    cost, n = 9.0, 400
    worst = worst_radius(n, cost)
    radii = []
    for ones in range(n + 1):
        x = np.repeat([1.0, 0.0], [ones, n - ones])
        radii.append(best_bound(x, 0.0, 1.0, cost) - x.mean())
    assert max(radii) <= worst + 1e-12
    # several poles serve several means, one is best for the worst
    assert max(radii) >= 0.95 * worst
    rng = np.random.default_rng(2)
    assert all(
        best_bound(x, 0.0, 1.0, cost) - x.mean() <= worst
        for x in rng.beta(0.3, 0.3, size=(50, n))
    )


def test_price_bound_pays_for_what_it_says():
    """Twice N n(N): n draws keep radius * steps within epsilon less the share
    of the sweeps, n - 1 do not.
    """
    facts = Facts(
        num_actions=2,
        min_actions=2,
        discount=0.9,
        operator=sc.Entropy(0.1),
        reward_range=(0.0, 1.0),
    )
    calls = price_bound(facts, epsilon=1.0, delta=0.05, num_pairs=50)
    n, cost = calls // (2 * 50), float(pair_cost(50, 0.05))
    low, high = facts.q_bounds()
    per_unit = (high - low) * 10.0
    assert (
        per_unit * worst_radius(n, cost)
        <= 0.995
        < per_unit * worst_radius(n - 1, cost)
    )
    assert price_bound(facts, epsilon=0.5, delta=0.05, num_pairs=50) > 3 * calls
    assert price_bound(facts, epsilon=1.0, delta=0.05, num_pairs=500) > 10 * calls
    assert price_bound(facts, epsilon=1000.0, delta=0.05, num_pairs=50) == 0
    with pytest.raises(sc.InvalidInput, match="num_pairs"):
        price_bound(facts, epsilon=1.0, delta=0.05, num_pairs=0)


def test_price_is_that_of_the_box_the_memory_uses():
    """Bounds of (5, 6) on V beside an end worth 0: a draw spans r + gamma {0,
    5..6}, not r + gamma (5, 6).
    """
    common = {
        "num_actions": 2,
        "min_actions": 2,
        "discount": 0.5,
        "operator": sc.Max(),
        "reward_range": (0.0, 10.0),
    }
    ends = Facts(**common, terminals=True, given_bounds=(5.0, 6.0))
    assert box(ends, 1, None) == (5.0, 6.0, 0.0, 13.0)
    assert discounted_width(ends) == pytest.approx(2.0 * 13.0)


def test_price_of_a_horizon_adds_up_its_stages():
    """Three steps of rewards in [0, 1], discount 1: boxes 3, 2 and 1 wide, six
    in all.
    """
    facts = Facts(
        num_actions=2,
        min_actions=2,
        discount=1.0,
        operator=sc.Max(),
        reward_range=(0.0, 1.0),
        horizon=3,
    )
    assert discounted_width(facts) == pytest.approx(6.0)
    calls = price_bound(facts, epsilon=0.1, delta=0.05, num_pairs=9)
    # three functions V share the samples, and a pair may have two shares of delta
    n, cost = calls // (3 * 9), float(pair_cost(2 * 9, 0.05 / 3))
    assert 6.0 * worst_radius(n, cost) <= 0.0995 < 6.0 * worst_radius(n - 1, cost)


def test_price_knows_rounding():
    """Rewards at 1e12: a millionth is below what doubles hold there, whatever
    is drawn.
    """
    facts = Facts(
        num_actions=2,
        min_actions=2,
        discount=0.5,
        operator=sc.Max(),
        reward_range=(1e12, 1e12 + 1.0),
    )
    assert 1e-6 < rounding_floor(facts) < 1.0
    with pytest.raises(sc.InvalidInput, match="ask for more"):
        price_bound(facts, epsilon=1e-6, delta=0.05, num_pairs=4)


def test_poles_are_in_order():
    """A walk downhill from pole to pole needs them sorted, and the first one at
    the end of the range.
    """
    assert POLE_OFFSETS[0] == 0.0
    assert np.all(np.diff(POLE_OFFSETS) > 0.0)
