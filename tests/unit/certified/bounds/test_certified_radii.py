"""Radii of certified search: shares that sum to one, closed forms, monotonicity, and
the price they allow to state; the pool's price, laws, values and who may join; and what
choosing among noisy action values adds.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified import price_forecast
from smoothcruiser.certified.bounds.base import BoundRules, shared_delta
from smoothcruiser.certified.bounds.betting import (
    BETTING,
    POLE_COSTS,
    POLE_OFFSETS,
    best_bound,
    pair_cost,
    rounding_floor,
    worst_radius,
)
from smoothcruiser.certified.bounds.counts import BETS_COST, LAW_COST, log_predicted
from smoothcruiser.certified.bounds.law import POOLED, POOLED_UNION
from smoothcruiser.certified.price_forecast import price_bound
from smoothcruiser.certified.snapshots.snapshot import restore, to_bytes
from smoothcruiser.certified.sweeps import pooled_kernel
from smoothcruiser.certified.sweeps.counted_kernel import (
    choice_excess,
    curvature_excess,
    maximum_excess,
)
from smoothcruiser.certified.sweeps.pooled import (
    RATE_LOGS,
    RATES,
    PooledRegion,
    log_price,
)
from smoothcruiser.certified.sweeps.ranges import box, discounted_width
from smoothcruiser.jit.build import compile_function
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
    facts = Facts(2, 2, 0.9, sc.Entropy(0.1), (0.0, 1.0))
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
    ends = Facts(
        2, 2, 0.5, sc.Max(), (0.0, 10.0), terminals=True, given_bounds=(5.0, 6.0)
    )
    assert box(ends, 1, None) == (5.0, 6.0, 0.0, 13.0)
    assert discounted_width(ends) == pytest.approx(2.0 * 13.0)


def test_price_of_a_horizon_adds_up_its_stages():
    """Three steps of rewards in [0, 1], discount 1: boxes 3, 2 and 1 wide, six
    in all.
    """
    facts = Facts(2, 2, 1.0, sc.Max(), (0.0, 1.0), horizon=3)
    assert discounted_width(facts) == pytest.approx(6.0)
    calls = price_bound(facts, epsilon=0.1, delta=0.05, num_pairs=9)
    # three functions V share the samples, and a pair may have two shares of delta
    n, cost = calls // (3 * 9), float(pair_cost(2 * 9, 0.05 / 3))
    assert 6.0 * worst_radius(n, cost) <= 0.0995 < 6.0 * worst_radius(n - 1, cost)


def test_price_knows_rounding():
    """Rewards at 1e12: a millionth is below what doubles hold there, whatever
    is drawn.
    """
    facts = Facts(2, 2, 0.5, sc.Max(), (1e12, 1e12 + 1.0))
    assert 1e-6 < rounding_floor(facts) < 1.0
    with pytest.raises(sc.InvalidInput, match="ask for more"):
        price_bound(facts, epsilon=1e-6, delta=0.05, num_pairs=4)


def test_poles_are_in_order():
    """A walk downhill from pole to pole needs them sorted, and the first one at
    the end of the range.
    """
    assert POLE_OFFSETS[0] == 0.0
    assert np.all(np.diff(POLE_OFFSETS) > 0.0)


def a_walk(**rest):
    """A walk on a ring of six states; one of them pays."""
    n = 6
    P = np.zeros((n, 2, n))
    for s in range(n):
        for a in range(2):
            P[s, a, (s + 1) % n] += 0.5
            P[s, a, (s + 2 * a - 1) % n] += 0.5
    R = np.zeros((n, 2, n))
    R[:, :, 3] = 1.0
    facts = {"discount": 0.8, "operator": sc.Entropy(0.1), "reward_range": (0.0, 1.0)}
    return sc.tabular(P, R, **(facts | rest))


@pytest.fixture(scope="module")
def memory():
    """A memory with a pool, after some thousands of calls."""
    search = sc.Certified(a_walk(), delta=0.1, seed=3, bound="pooled")
    search.query(budget=6_000)
    search.region.mark_last()
    search.query(budget=2_000)
    return search


def predicted(events):
    """The probability of a sequence of new (1) and seen (0), step by step."""
    logs = np.array(RATE_LOGS)
    for t, event in enumerate(events):
        found = sum(events[:t])
        new = (RATES + found) / (RATES + 1.0 + t)
        logs = logs + np.log(new if event else 1.0 - new)
    return float(np.exp(logs).sum())


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize(
    "events", [(), (0,), (1,), (0, 1, 0), (1, 0, 0), (1, 1, 0, 1)]
)
def test_the_price_is_that_of_predictions_in_any_order(events) -> None:
    expected = -math.log(predicted(events))
    assert log_price(len(events), sum(events)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
@pytest.mark.compiles
def test_predictions_sum_to_one() -> None:
    assert sum(predicted((a, b)) for a in (0, 1) for b in (0, 1)) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.compiles
def test_a_discovery_costs_about_log_of_the_samples() -> None:
    assert log_price(1e5, 0) < 0.7
    assert 10.0 < log_price(1e5, 1) < 17.0
    assert np.all(np.diff([log_price(1e4, d) for d in range(20)]) > 0.0)


@pytest.mark.slow
@pytest.mark.compiles
def test_shares_add_up_to_delta() -> None:
    problem = a_walk()
    pairs = shared_delta(POOLED, problem.facts, 1.0)
    # a pair's share is 2 exp(-cost): the law's event and both sides of its bets
    law = 0.5 * math.exp(-LAW_COST)
    bets = math.exp(-(BETS_COST + POOLED_UNION))
    assert POOLED.pool_share + pairs * (law + bets) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.slow
@pytest.mark.compiles
def test_the_pool_is_for_samples_of_one_player_with_a_discount() -> None:
    game = sc.make(
        "random-game:states=6,branching=2,seed=1", discount=0.9, operator=sc.Max()
    )
    for problem in (
        game,
        a_walk(horizon=3, discount=1.0),
        a_walk(min_probability=0.5),
    ):
        with pytest.raises(sc.InvalidInput, match="drop bound="):
            sc.Certified(problem, delta=0.1, bound="pooled")


@pytest.mark.slow
@pytest.mark.compiles
def test_the_law_is_worst_among_those_of_the_event(memory) -> None:
    """No law that Lemma K allows has a larger mean than ``largest_mean``."""

    region, g = memory.region, memory.memory.graph
    _, repeats = region.pool()
    predict, worst = (
        compile_function(log_predicted),
        compile_function(pooled_kernel.largest_mean),
    )
    rng, tried = np.random.default_rng(5), 0
    work = region._work(1.0, (repeats >= 1.0).astype(np.int64))
    work.values[:] = rng.normal(size=len(work.values))
    work.values[0] = 0.0
    region.loops.prepare(g, region.order, region.count, work, region.rules)
    for p in np.flatnonzero(repeats >= 1.0).tolist():
        pair = g.pairs[p]
        part = slice(int(pair["start"]), int(pair["start"] + pair["length"]))
        again = g.entries.weight[part] - 1.0
        f = g.entries.reward[part] + 0.8 * work.values[g.entries.target[part]]
        bound = worst(g, p, 1.0, region.scale, work, region.rules)
        assert work.weights[part].sum() == pytest.approx(1.0, abs=1e-6)
        least = predict(g, p)[0] - (pair["cost"] + LAW_COST)
        laws = rng.dirichlet(again + 0.5, size=4_000)
        inside = (again * np.log(laws)).sum(axis=1) >= least
        assert inside.any()
        assert (laws[inside] @ f).max() <= bound
        tried += int(pair["length"] > 1)
    assert tried > 0


@pytest.mark.slow
@pytest.mark.compiles
def test_values_with_a_bonus_are_those_of_plain_iteration(memory) -> None:
    region, g = memory.region, memory.memory.graph

    backup = compile_function(pooled_kernel.residual)
    _, repeats = region.pool()
    pooled = (repeats >= 1.0).astype(np.int64)
    at = int(np.flatnonzero(pooled)[0])
    known = (g, region.order, region.count, at, 0.1, 1.0, region.scale)
    plain = region._work(1.0, pooled)
    region.loops.prepare(g, region.order, region.count, plain, region.rules)
    for _ in range(300):
        backup(*known, plain, region.rules)
        plain.values[region.listed_nodes] = plain.backed[region.listed_nodes]
    work = region._work(1.0, pooled)
    away = region.loops.solve(*known, 1e-8, work, region.rules)
    listed = region.listed_nodes
    assert away < 1e-6
    assert np.allclose(work.values[listed], plain.values[listed], atol=1e-4)
    # from far below, what has to be added makes it an upper bound all the same
    work.values[listed] = plain.values[listed] - 1.0
    rho = backup(*known, work, region.rules)
    assert np.all(work.values[listed] + rho / 0.2 >= plain.values[listed] - 1e-9)


@pytest.mark.slow
@pytest.mark.compiles
def test_the_interval_holds_and_the_pool_is_used() -> None:
    problem = a_walk()
    search = sc.Certified(problem, delta=0.1, seed=1, bound="pooled")
    found = search.query(epsilon=0.05 * problem.facts.value_span())
    exact = sc.solve(problem).values[0]
    assert isinstance(search.region, PooledRegion)
    assert search.region.joined_total.max() > 0.0
    assert found.interval[0] <= exact <= found.interval[1]


@pytest.mark.slow
@pytest.mark.compiles
def test_a_round_that_was_left_ends_the_pool() -> None:
    search = sc.Certified(a_walk(), delta=0.1, seed=2, bound="pooled")
    search.query(budget=3_000)
    region = search.region
    assert region.pool()[0] < math.inf
    region.leave_round()
    assert region.pool()[0] < math.inf  # what was entered is in order
    region.mark_last()
    assert region.pool()[0] == math.inf


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("budget", [None, 1])
def test_dropping_the_round_of_a_snapshot_ends_the_pool(budget, monkeypatch) -> None:
    """A snapshot is written before a round is left. Who goes on with less budget, or
    asks something else, leaves it too: only its own end keeps the order.
    """
    kept: list[bytes] = []
    search = sc.Certified(a_walk(), delta=0.1, seed=2, bound="pooled")
    search.query(budget=3_000)
    begin = search.loop.begin_batch

    def begin_and_keep(at) -> None:
        begin(at)
        kept.append(to_bytes(search))

    monkeypatch.setattr(search.loop, "begin_batch", begin_and_keep)
    search.query(budget=1_000)
    again = sc.Certified(a_walk(), delta=0.1, seed=2, bound="pooled")
    restore(again, kept[0])
    assert again.position.sampling
    assert again.region.pool()[0] < math.inf
    again.query(budget=500) if budget is None else again.go_on(budget=budget)
    again.region.mark_last()
    assert again.region.pool()[0] == math.inf


@pytest.mark.slow
@pytest.mark.compiles
def test_a_saved_pool_goes_on_as_it_was(tmp_path) -> None:
    epsilon = 0.02 * a_walk().facts.value_span()
    whole = sc.Certified(a_walk(), delta=0.1, seed=4, bound="pooled")
    whole.query(budget=3_000)
    whole.save(tmp_path / "runs.db")
    again = sc.Certified.load(tmp_path / "runs.db", a_walk())
    first, second = whole.query(epsilon=epsilon), again.query(epsilon=epsilon)
    assert first.interval == second.interval
    assert first.num_calls == second.num_calls
    assert np.array_equal(whole.region.joined_total, again.region.joined_total)


@pytest.mark.slow
@pytest.mark.compiles
def test_rules_of_other_bounds_are_untouched() -> None:
    rules = sc.Certified(a_walk(), delta=0.1, bound="law")
    rules.query(budget=100)
    assert isinstance(rules.region.rules.bound, BoundRules)
    assert rules.region.rules.bound.union == 0.0


@pytest.mark.slow
@pytest.mark.compiles
def test_a_plain_simulator_is_pooled_too() -> None:
    """Nothing of the proof needs a table; ends and tuples are states as any others."""
    problem = sc.MDP(
        lambda s, a, rng: (
            float(rng.random() < 0.2 + 0.2 * a),
            (min(s[0] + 1, 3), rng.random() < 0.4),
        ),
        num_actions=2,
        discount=0.8,
        operator=sc.Max(),
        initial_state=(0, False),
        reward_range=(0.0, 1.0),
        terminal=lambda s: s[0] == 3 and s[1],
    )
    # every step pays 0.4; from place 2 on each step ends with 0.4
    tail = 0.4 / (1.0 - 0.8 * 0.6)
    truth = 0.4 * (1.0 + 0.8) + 0.64 * tail
    for seed in range(10):
        search = sc.Certified(problem, delta=0.1, seed=seed, bound="pooled")
        found = search.query(epsilon=0.1)
        assert found.interval[0] <= truth <= found.interval[1]


def rules_of(operator, q):
    return SimpleNamespace(
        operator=operator.code,
        temperature=getattr(operator, "temperature", 0.0),
        q=np.array(q),
        w=np.ones(len(q)),
    )


def test_the_mean_of_a_maximum_of_two_normal_variables():
    """E max(X, Y) = theta phi(0) for two equal means, theta**2 the sum of variances."""
    noise = np.array([3.0, 4.0])
    by_hand = 5.0 / math.sqrt(2.0 * math.pi)
    assert maximum_excess(np.array([7.0, 7.0]), noise, 2) == pytest.approx(by_hand)
    # a gap of one theta is what noise alone makes of equal values
    assert maximum_excess(np.array([7.0, 2.0]), noise, 2) == pytest.approx(by_hand)
    # a gap of sqrt(2) theta is taken for theta: theta phi(1) - theta (1 - Phi(1))
    far = np.array([7.0, 7.0 - 5.0 * math.sqrt(2.0)])
    assert maximum_excess(far, noise, 2) == pytest.approx(5.0 * 0.0833155, rel=1e-5)


def test_a_smooth_operator_adds_its_curvature():
    """Half the trace of Hessian times covariance: pi (1 - pi) / t per action."""
    operator, noise = sc.Entropy(2.0), np.array([0.01, 0.02])
    rules = rules_of(operator, [1.0, 1.0])
    by_hand = 0.5 * 0.25 / 2.0 * (0.01**2 + 0.02**2)
    assert curvature_excess(noise, 2, rules) == pytest.approx(by_hand, rel=1e-4)
    assert choice_excess(noise, 2, rules) == pytest.approx(by_hand, rel=1e-4)
    assert rules.q.tolist() == [1.0, 1.0]
    # where noise is far above the temperature, it is a maximum
    cold = rules_of(sc.Entropy(1e-6), [1.0] * 10)
    largest = maximum_excess(cold.q, np.ones(10), 10)
    assert choice_excess(np.ones(10), 10, cold) == largest


@pytest.mark.compiles
@pytest.mark.parametrize(("horizon", "truth"), [(None, 5.0), (6, 3.0)])
def test_equal_actions_are_within_their_usual_errors(horizon, truth):
    """Ten fair coins in each of twelve states: the best frequency is above one half.

    Without what choosing adds no run is within 2 errors.
    """
    problem = mdp(
        lambda state, action, rng: (float(rng.integers(2)), (state + 1) % 12),
        num_actions=10,
        discount=0.9 if horizon is None else 1.0,
        horizon=horizon,
        operator=sc.Max(),
    )
    answers = [
        sc.Certified(problem, delta=0.1, seed=seed).query(budget=2_500)
        for seed in range(10)
    ]
    off = np.array([answer.value - truth for answer in answers])
    errors = np.array([answer.standard_error for answer in answers])
    assert (off > 0.0).all()
    assert (off <= 2.0 * errors).all()
    assert errors.mean() <= 1.5 * np.sqrt((off**2).mean())


@pytest.mark.compiles
def test_samples_that_all_agree_get_the_note_of_evaluate():
    """A cost of 1,000 with probability 1e-4 is not met in 500 calls."""

    def step(state, action, rng):
        return (-1000.0 if rng.random() < 1e-4 else -1.0), 0

    problem = mdp(step, discount=0.9, operator=sc.Max(), reward_range=(-1000.0, 0.0))
    answer = sc.plan(problem, method="certified", budget=500, delta=0.1, seed=1)
    assert answer.value == pytest.approx(-10.0, rel=1e-3)
    told = "standard error knows nothing of events that none of them met"
    assert any(told in note for note in answer.notes)
    evaluated = sc.evaluate(problem, lambda state: 0, budget=500, delta=0.1, seed=1)
    assert any(told in note for note in evaluated.notes)
