"""Paths beside certified search: one end of the interval from a policy's own value.

Laws, through ``sc.plan``: the interval holds, is far narrower where costs have a wide
range, and stays within its limits; a stored run resumes to the same bits.
"""

import itertools
import math

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.methods.certified_search import is_helped
from smoothcruiser.methods.paths.policy_paths import PolicyPaths
from smoothcruiser.query import Query

pytestmark = pytest.mark.compiles

TRUTH = -86.15409386


def restock(state, order, rng):
    """Up to 15 on hand, orders that arrive a step later, lost sales at 9 each."""
    stock = min(state // 7 + state % 7, 15)
    demand = rng.poisson(3.0)
    rest = stock - min(stock, demand)
    lost = min(demand - min(stock, demand), 10)
    return -rest - 9.0 * lost, rest * 7 + order


def shop(**facts):
    given = {"num_actions": 7, "discount": 0.95, "operator": sc.Max()}
    given |= {"reward_range": (-90.0, 0.0), "initial_state": 38}
    return sc.MDP(restock, **(given | facts))


def exact_shop(close=lambda q: q.max(axis=1)):
    """V(38) by value iteration over the stock after arrivals; ``close`` is F."""
    chances = [math.exp(-3.0) * 3.0**k / math.factorial(k) for k in range(60)]
    moves, income = np.zeros((16, 16)), np.zeros(16)
    for stock, (demand, p) in itertools.product(range(16), enumerate(chances)):
        rest = stock - min(stock, demand)
        moves[stock, rest] += p
        income[stock] -= p * (rest + 9.0 * min(demand - min(stock, demand), 10))
    arrivals = np.minimum(np.arange(16)[:, None] + np.arange(7), 15)
    values = np.zeros(16)
    for _ in range(600):
        values = income + close(0.95 * moves @ values[arrivals])
    return values[arrivals[5, 3]]


def test_the_truth_is_that_of_value_iteration():
    assert exact_shop() == pytest.approx(TRUTH, abs=1e-6)


def test_an_inventory_gets_a_useful_lower_end_and_value():
    """The complaint: (-404, -61) and -523 before."""
    answer = sc.plan(shop(), method="certified", budget=100_000, delta=0.1)
    low, high = answer.interval
    assert -100.0 < low < TRUTH < high
    assert answer.value == pytest.approx(TRUTH, rel=0.04)
    assert abs(answer.value - TRUTH) < 5.0 * answer.standard_error
    assert answer.num_calls <= 100_000
    assert answer.delta == 0.1
    assert answer.certificate.confidence == pytest.approx(0.9)
    assert any(note.startswith("Lower end: ") for note in answer.notes)
    assert any("value_bounds=" in note for note in answer.notes)


def test_a_store_changes_no_bit(tmp_path):
    request = {"method": "certified", "budget": 24_000, "delta": 0.1, "seed": 3}
    plain = sc.plan(shop(), **request)
    stored = sc.plan(shop(), store=tmp_path / "runs.db", **request)
    assert any(note.startswith("Lower end: ") for note in plain.notes)
    assert (stored.value, stored.interval) == (plain.value, plain.interval)


def test_a_run_that_was_stopped_resumes_to_the_same_bits(tmp_path):
    """It is stopped in the middle of a block of paths."""
    path = tmp_path / "runs.db"
    request = {"method": "certified", "budget": 24_000, "delta": 0.1, "seed": 3}
    reports = []

    def stop_late(report):
        reports.append(report.calls)
        return False if report.calls > 17_000 else None

    whole = sc.plan(shop(), **request)
    stopped = sc.plan(shop(), store=path, progress=stop_late, **request)
    assert stopped.num_calls < 24_000
    resumed = sc.resume(stopped.run, path, problem=shop())
    assert (resumed.value, resumed.interval) == (whole.value, whole.interval)
    assert resumed.num_calls == whole.num_calls


@pytest.mark.parametrize("late", [16_100, 18_500, 21_000])
def test_every_stop_of_a_search_for_an_epsilon_resumes(tmp_path, late):
    """The wish, the marks and the counted values go into the store, too."""
    path = tmp_path / "runs.db"
    request = {"method": "certified", "delta": 0.1, "target": "value"}
    request |= {"epsilon": "90% of value", "budget": 24_000}
    whole = sc.plan(shop(), **request)
    stopped = sc.plan(
        shop(), store=path, progress=lambda report: report.calls <= late, **request
    )
    resumed = sc.resume(stopped.run, path, problem=shop())
    assert (resumed.value, resumed.interval) == (whole.value, whole.interval)
    assert resumed.num_calls == whole.num_calls


def test_a_larger_budget_goes_on_with_a_new_generation(tmp_path):
    path = tmp_path / "runs.db"
    request = {"method": "certified", "delta": 0.1}
    first = sc.plan(shop(), store=path, budget=12_000, **request)
    second = sc.resume(first.run, path, problem=shop(), budget=40_000)
    low, high = second.interval
    assert first.interval[0] < low < TRUTH < high
    assert second.num_calls <= 40_000


@pytest.mark.parametrize(
    ("facts", "limits", "helped"),
    [
        ({}, {"budget": 1_000}, True),
        ({}, {"epsilon": 1.0, "target": "value"}, True),
        ({}, {"epsilon": 1.0}, False),  # every action value, and no limit
        ({"discount": 0.5}, {"budget": 1_000}, False),
        ({"horizon": 9}, {"budget": 1_000}, False),
        ({"deterministic": True}, {"budget": 1_000}, False),
    ],
)
def test_what_paths_can_help(facts, limits, helped):
    query = Query.of(shop(**facts), delta=0.1, **limits)
    assert is_helped(query) is helped


def test_generations_share_alpha():
    """0.9, 0.09, ... of it, so that all of them together fail with alpha at most."""
    paths = PolicyPaths(shop(), seed=0, alpha=0.05)
    levels = [paths.bound.level]
    for _ in range(20):
        paths._begin_generation()
        levels.append(paths.bound.level)
    assert sum(math.exp(-level) for level in levels) <= 0.05 * (1.0 + 1e-12)
    again = PolicyPaths(shop(), seed=0, alpha=0.05)
    again.set_state(paths.state())
    assert again.state() == paths.state()


def test_a_regularized_problem_is_bounded_by_its_own_policy():
    """Omega is part of a path; the truth is that of soft value iteration."""
    truth = exact_shop(lambda q: np.log(np.exp(q - q.max()).sum(axis=1)) + q.max())
    soft_shop = shop(operator=sc.Entropy(1.0))
    answer = sc.plan(soft_shop, method="certified", budget=30_000, delta=0.1)
    low, high = answer.interval
    assert truth - 60.0 < low < truth < high
    assert answer.value == pytest.approx(truth, rel=0.1)
    assert any(note.startswith("Lower end: ") for note in answer.notes)
