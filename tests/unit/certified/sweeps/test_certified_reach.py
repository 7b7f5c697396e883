"""Certified search reaches epsilon: rewards at the edge of their range, steering that
fails, prices that suffice; and what decides where the next samples go.
"""

from __future__ import annotations

import dataclasses
import math

import numba
import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified import steering
from smoothcruiser.certified.bounds.base import SCAN
from smoothcruiser.certified.bounds.betting import rounding_floor
from smoothcruiser.certified.bounds.counts import missing
from smoothcruiser.certified.price_forecast import price_bound
from smoothcruiser.certified.query_limits import make_limits
from smoothcruiser.certified.sweeps.region import Region
from smoothcruiser.problem.zoo import garnet, random_game

pytestmark = pytest.mark.compiles


def coin(discount=0.9, edge=0.0):
    """Two states, one action: a fair coin that pays ``edge`` or 1 - ``edge``."""
    P, R = np.full((2, 1, 2), 0.5), np.full((2, 1, 2), edge)
    R[:, :, 1] = 1.0 - edge
    return sc.tabular(
        P, R, discount=discount, operator=sc.Max(), reward_range=(0.0, 1.0)
    )


def covers(found, exact, epsilon):
    """Epsilon was reached, and the exact value lies in the interval."""
    assert found.epsilon == epsilon
    assert found.interval[1] - found.interval[0] <= 2.0 * epsilon
    assert found.interval[0] - 1e-9 <= exact <= found.interval[1] + 1e-9


@pytest.mark.parametrize("edge", [0.0, 1e-12, 1e-6])
def test_draws_at_the_edge_of_the_range_do_not_end_the_search(edge):
    """A draw at the edge makes the bound of the nearest pole trivial, and its
    slope 0; no seed may stop there.
    """
    problem = coin(edge=edge)
    exact = float(sc.solve(problem).values[0])
    for seed in range(10):
        covers(
            sc.Certified(problem, delta=0.01, seed=seed).query(epsilon=0.5), exact, 0.5
        )


def test_the_walk_over_poles_ends_at_the_best():
    """After a query on coins, trying every pole narrows nothing that walking
    from pole to pole did not.
    """
    memory = sc.Certified(coin(), delta=0.1, seed=1)
    memory.query(budget=3_000, progress=lambda told: told.calls < 2_000)
    memory.position.swept = 0
    memory.loop.sweeps.settle(
        memory.position, make_limits(None, 1, None, None, "value")
    )
    before = memory.memory.graph.pairs[: memory.memory.num_pairs].copy()
    memory.region.sweep(SCAN)
    after = memory.memory.graph.pairs[: memory.memory.num_pairs]
    assert np.array_equal(before["pole_up"], after["pole_up"])
    assert np.array_equal(before["pole_down"], after["pole_down"])
    assert (before["slope_up"] > 0.0).all()


class Idle(sc.Certified):
    """Certified search that never finds a sample worth its price."""

    class steering(steering.Steering):
        def steered_jobs(self, root, limits, calls):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)


class Wasteful(sc.Certified):
    """Certified search that samples the asked state's first action alone."""

    class steering(steering.Steering):
        def steered_jobs(self, root, limits, calls):
            return np.array([self.memory.graph.nodes["first"][root]]), np.array(
                [calls]
            )


@pytest.mark.parametrize("target", ["q_values", "value"])
def test_where_steering_finds_nothing_draws_are_equal(target):
    """Without one steered draw, every pair in reach is drawn until the promise
    is kept.
    """
    problem = sc.make("garnet:states=6,seed=3", discount=0.7, operator=sc.Entropy(0.2))
    found = Idle(problem, delta=0.01).query(epsilon=0.3, target=target)
    covers(found, float(sc.solve(problem).values[0]), 0.3)


@pytest.mark.parametrize("kind", [sc.Certified, Idle, Wasteful])
def test_the_price_suffices_whatever_the_steering(kind):
    """2 N n(N) calls are enough for N pairs, also where all steered draws are
    wasted; for those half is not.
    """
    problem = coin(discount=0.3)
    epsilon = 0.05 * problem.facts.value_span()
    price = price_bound(problem.facts, epsilon=epsilon, delta=0.1, num_pairs=2)
    for seed in range(10):
        memory = kind(problem, delta=0.1, seed=seed)
        covers(
            memory.query(epsilon=epsilon, budget=price),
            float(sc.solve(problem).values[0]),
            epsilon,
        )
        assert memory.memory.num_pairs == 2
    if kind is Wasteful:
        half = kind(problem, delta=0.1).query(epsilon=epsilon, budget=price // 2)
        assert "budget" in half.notes[0]


def test_flow_that_is_not_passed_on_does_not_end_the_search(monkeypatch):
    """With all flow cut off at the asked state, the states behind it are found
    over outcomes seen.
    """
    monkeypatch.setattr(steering, "SPREAD_SHARE", 1e9)
    problem = dataclasses.replace(
        sc.make("chain:n=9", discount=0.9, operator=sc.Entropy(0.3)),
        deterministic=True,
    )
    covers(
        sc.Certified(problem, delta=0.1).query(epsilon=1e-6),
        float(sc.solve(problem).values[0]),
        1e-6,
    )


def test_sweeps_that_were_cut_off_are_made_up_for(monkeypatch):
    """With one sweep a round, the sweeps at the end alone carry the far reward
    to the asked state.
    """
    monkeypatch.setattr(Region, "most_sweeps", 1)
    problem = dataclasses.replace(
        sc.make("chain:n=9", discount=0.9, operator=sc.Entropy(0.3)),
        deterministic=True,
    )
    covers(
        sc.Certified(problem, delta=0.1).query(epsilon=1e-9),
        float(sc.solve(problem).values[0]),
        1e-9,
    )


def test_what_rounding_hides_is_told():
    """Epsilon below what doubles hold ends with a note: after sampling at 1e9,
    and where outcomes are exact.
    """
    P = np.ones((1, 1, 1))
    far = sc.tabular(
        P,
        np.full((1, 1), 1e9 + 0.5),
        discount=0.5,
        operator=sc.Max(),
        reward_range=(1e9, 1e9 + 1.0),
    )
    found = sc.Certified(far, delta=0.1).query(epsilon=1e-9)
    assert "double precision" in found.notes[0]
    assert 1e-9 < found.epsilon <= rounding_floor(far.facts)
    assert found.interval[0] <= 2e9 + 1.0 <= found.interval[1]
    sure = dataclasses.replace(
        sc.make("chain:n=4", discount=0.9, operator=sc.Entropy(0.3)),
        deterministic=True,
    )
    found = sc.Certified(sure, delta=0.1).query(epsilon=1e-300)
    assert "rounding" in found.notes[0]
    assert found.interval[1] - found.interval[0] < 1e-11


# --- operators of one's own ---------------------------------------------------


def softmax_value(q):
    top = q.max()  # an empty vector has no maximum
    return top + np.log(np.sum(np.exp(q - top)))


def softmax_gradient(q):
    weights = np.exp(q - q.max())
    return weights / weights.sum()


PLAIN = (softmax_value, softmax_gradient)
COMPILED = tuple(numba.njit(function) for function in PLAIN)


@pytest.mark.slow
@pytest.mark.parametrize("make", [garnet, random_game], ids=["mdp", "game"])
@pytest.mark.parametrize("functions", [PLAIN, COMPILED], ids=["plain", "njit"])
def test_an_operator_of_ones_own_reaches_epsilon(make, functions):
    """Functions that fail on an empty vector: epsilon is reached, and covers
    the value of the built-in.
    """
    own = sc.CustomOperator(*functions, smooth=1.0, sums_to_one=True)
    problem = make(states=4, actions=2, discount=0.5, operator=own, seed=1)
    exact = sc.solve(
        make(states=4, actions=2, discount=0.5, operator=sc.Entropy(1.0), seed=1)
    ).values[0]
    covers(sc.Certified(problem, delta=0.01).query(epsilon=0.3), float(exact), 0.3)


def test_auto_with_an_operator_of_ones_own():
    """Where no schedule can be paid, auto runs certified search with it."""
    own = sc.CustomOperator(*PLAIN, smooth=1.0, sums_to_one=True)
    problem = mdp(
        lambda s, a, rng: (float(rng.random() < 0.5), (s + a) % 2), operator=own
    )
    found = sc.plan(problem, epsilon=0.25, delta=0.1, budget=20_000)
    assert found.method == "certified"
    covers(found, 2.0 * (0.5 + math.log(2.0)), 0.25)


# --- states that are objects --------------------------------------------------


class Place:
    """A state without ==."""

    def __init__(self, number):
        self.number = number


def places(**rest):
    """Ten places on a ring, each visit a new object; 0/1 rewards."""

    def step(state, action, rng):
        shift = 1 if rng.random() < 0.5 else 2
        after = (state.number + shift * (action + 1)) % 10
        return float(after < 5), Place(after)

    return sc.MDP(
        step,
        num_actions=2,
        discount=0.5,
        operator=sc.Max(),
        initial_state=Place(0),
        **rest,
    )


def test_objects_without_equality_need_a_key():
    """One sentence that names key=; with it ten states are seen, and the
    certificate names the assumption.
    """
    with pytest.raises(sc.InvalidInput, match="give key="):
        sc.Certified(places(), delta=0.1).query(epsilon=0.3)
    memory = sc.Certified(places(key=lambda s: s.number), delta=0.1)
    found = memory.query(epsilon=0.3)
    P, R = np.zeros((10, 2, 10)), np.zeros((10, 2, 10))
    R[:, :, :5] = 1.0
    for s in range(10):
        for a in range(2):
            P[s, a, [(s + a + 1) % 10, (s + 2 * a + 2) % 10]] = 0.5
    covers(
        found,
        float(sc.solve(sc.tabular(P, R, discount=0.5, operator=sc.Max())).values[0]),
        0.3,
    )
    assert memory.memory.num_nodes == 11
    assert any("key=" in line for line in found.certificate.assumptions)


def test_auto_does_not_choose_what_would_refuse():
    """Where no schedule can be paid and states cannot be recognized, auto runs the
    best schedule that can be; with key= it searches.
    """
    promise = {"epsilon": 0.3, "delta": 0.1, "budget": 50_000}
    coarse = sc.plan(places(), **promise)
    assert (coarse.method, coarse.epsilon > 0.3) == ("smoothcruiser", True)
    assert coarse.num_calls <= 50_000
    assert sc.plan(places(key=lambda s: s.number), **promise).method == "certified"


def test_pairs_that_have_enough_wait_for_those_that_lag_behind():
    """The floor is the gain at which radii slope/n add up to the goal."""
    search = sc.Certified(
        sc.make("chain:n=4", discount=0.8, operator=sc.Entropy(0.1)), delta=0.1
    )
    search.query(budget=2_000, target="value")
    steer, g, root = search.loop.steering, search.memory.graph, search.position.root
    search.region.list_reach()
    size = search.memory.num_pairs
    limits = make_limits(0.3, None, None, None, "value")
    g.pairs["total"][:size], g.pairs["gain"][:size] = 100.0, 1e-6
    usual = steer._floor(root, limits)
    width = 2.0 * search.memory.half_width(root, "value")
    assert usual == pytest.approx(0.25 * width / (100.0 * size))
    g.pairs["gain"][0] = 1.0  # one that needs far more than it can get at once
    roots = 100.0 * (1e-3 * (size - 1) + 1.0)
    assert steer._floor(root, limits) == pytest.approx(max(usual, (0.6 / roots) ** 2))
    no_goal = make_limits(None, 10, None, None, "value")
    assert steer._floor(root, no_goal) == usual


def trap(least: float) -> sc.Problem:
    """Two states, each of which leads to the other; from 0 one may leave as well."""

    def step(state: int, action: int, rng: np.random.Generator):
        if state == 1 or action == 0:
            return 0.0, 1 - state
        return (1.0, 2) if rng.random() < 0.5 else (0.0, 3)

    return mdp(
        step,
        discount=1.0,
        operator=sc.Max(),
        payoffs="end",
        terminal=lambda state: state > 1,
        min_probability=least,
    )


def test_supports_are_completed_where_nothing_else_brings_the_bound_down():
    """Then no further sample is missing, and the upper bound leaves the edge."""
    search = sc.Certified(trap(0.01), delta=0.1, seed=1)
    found = search.query(epsilon=0.1, target="value", budget=30_000)
    pairs = search.memory.graph.pairs[: search.memory.num_pairs]
    assert found.interval[1] <= found.interval[0] + 0.2
    assert found.interval[0] <= 0.5 <= found.interval[1]
    assert missing(pairs, 0.01).sum() == 0.0
    region = search.region
    assert region.urgent_jobs(100) is None
