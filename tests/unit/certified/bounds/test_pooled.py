"""Pooled search: its price, its laws, its values, and who may join."""

from __future__ import annotations

import math

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.certified.bounds.base import BoundRules, shared_delta
from smoothcruiser.certified.bounds.counts import BETS_COST, LAW_COST
from smoothcruiser.certified.bounds.law import POOLED, POOLED_UNION
from smoothcruiser.certified.snapshots.snapshot import restore, to_bytes
from smoothcruiser.certified.sweeps.pooled import (
    RATE_LOGS,
    RATES,
    PooledRegion,
    log_price,
)

pytestmark = pytest.mark.compiles


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


@pytest.mark.parametrize(
    "events", [(), (0,), (1,), (0, 1, 0), (1, 0, 0), (1, 1, 0, 1)]
)
def test_the_price_is_that_of_predictions_in_any_order(events) -> None:
    expected = -math.log(predicted(events))
    assert log_price(len(events), sum(events)) == pytest.approx(expected, abs=1e-9)


def test_predictions_sum_to_one() -> None:
    assert sum(predicted((a, b)) for a in (0, 1) for b in (0, 1)) == pytest.approx(1.0)


def test_a_discovery_costs_about_log_of_the_samples() -> None:
    assert log_price(1e5, 0) < 0.7
    assert 10.0 < log_price(1e5, 1) < 17.0
    assert np.all(np.diff([log_price(1e4, d) for d in range(20)]) > 0.0)


def test_shares_add_up_to_delta() -> None:
    problem = a_walk()
    pairs = shared_delta(POOLED, problem.facts, 1.0)
    # a pair's share is 2 exp(-cost): the law's event and both sides of its bets
    law = 0.5 * math.exp(-LAW_COST)
    bets = math.exp(-(BETS_COST + POOLED_UNION))
    assert POOLED.pool_share + pairs * (law + bets) == pytest.approx(1.0, abs=1e-12)


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


def test_the_law_is_worst_among_those_of_the_event(memory) -> None:
    """No law that Lemma K allows has a larger mean than ``largest_mean``."""
    from smoothcruiser.certified.bounds.counts import log_predicted
    from smoothcruiser.certified.sweeps import pooled_kernel
    from smoothcruiser.jit.build import compile_function

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


def test_values_with_a_bonus_are_those_of_plain_iteration(memory) -> None:
    region, g = memory.region, memory.memory.graph
    from smoothcruiser.certified.sweeps import pooled_kernel
    from smoothcruiser.jit.build import compile_function

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


def test_the_interval_holds_and_the_pool_is_used() -> None:
    problem = a_walk()
    search = sc.Certified(problem, delta=0.1, seed=1, bound="pooled")
    found = search.query(epsilon=0.05 * problem.facts.value_span())
    exact = sc.solve(problem).values[0]
    assert isinstance(search.region, PooledRegion)
    assert search.region.joined_total.max() > 0.0
    assert found.interval[0] <= exact <= found.interval[1]


def test_a_round_that_was_left_ends_the_pool() -> None:
    search = sc.Certified(a_walk(), delta=0.1, seed=2, bound="pooled")
    search.query(budget=3_000)
    region = search.region
    assert region.pool()[0] < math.inf
    region.leave_round()
    assert region.pool()[0] < math.inf  # what was entered is in order
    region.mark_last()
    assert region.pool()[0] == math.inf


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


def test_rules_of_other_bounds_are_untouched() -> None:
    rules = sc.Certified(a_walk(), delta=0.1, bound="law")
    rules.query(budget=100)
    assert isinstance(rules.region.rules.bound, BoundRules)
    assert rules.region.rules.bound.union == 0.0


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
