"""Limits choose the schedule: what is run for a budget, for seconds, and for both."""

import time
from dataclasses import replace

import pytest

import smoothcruiser as sc
from smoothcruiser.engines.stopping_rule import stopping_rule
from smoothcruiser.methods.schedule_run import start_run
from smoothcruiser.methods.schedule_within_limits import (
    OVERFULL,
    FittedSchedule,
    fit_schedule,
)
from smoothcruiser.query import Query
from smoothcruiser.schedule.alternatives import quick_schedule
from smoothcruiser.schedule.reach import OutOfTime, patience

pytestmark = pytest.mark.compiles


def step(state, action, rng):
    return rng.random(), (state + action) % 3


def problem(oracle=step, **more):
    facts = {"discount": 0.3, "operator": sc.Max(), "initial_state": 0}
    return sc.MDP(oracle, num_actions=2, **(facts | more))


@pytest.mark.parametrize(
    "method", [sc.SmoothCruiser(), sc.SparseSampling(), sc.Paper()]
)
def test_a_budget_alone_asks_for_the_best_promise(method):
    """Law: the schedule fits the budget, and that of a tenth less epsilon does not."""
    budget = 10**9 if isinstance(method, sc.Paper) else 5_000
    query = Query.of(problem(), delta=0.1, budget=budget)
    found = fit_schedule(method, query)
    room = budget - query.problem.inspection_calls
    assert found.schedule.num_calls <= room
    finer = replace(query.promise, epsilon=0.9 * found.schedule.epsilon)
    assert method.schedule(replace(query, promise=finer)).num_calls > room
    assert found.schedule.method == method.name
    assert f"fits the budget of {budget:,}" in found.notes[0]
    assert (query.ledger.total, found.shards) == (0, None)


def test_a_budget_for_nothing_has_an_answer():
    """Law: an interval for any budget, and never more calls than it."""
    asked = problem(discount=0.9)
    widths = []
    for budget in (1, 3, 10, 31):
        found = sc.plan(asked, delta=0.1, budget=budget, method="smoothcruiser")
        low, high = found.interval
        widths.append(high - low)
        assert found.calls_spent <= budget
        assert any("stopped at its budget" in note for note in found.notes)
        assert any("as far as that goes" in note for note in found.notes)
    assert widths[0] == pytest.approx(10.0)
    again = sc.plan(asked, delta=0.1, budget=31, method="smoothcruiser")
    assert again.value == found.value  # a budget does not depend on the machine


def test_seconds_choose_a_schedule_for_the_measured_speed():
    """Law: a simulator that waits gets a cheaper schedule, the calls that measure it
    are counted, and what was asked for is named with its price.
    """

    def slow(state, action, rng):
        time.sleep(2e-3)
        return step(state, action, rng)

    asked = {"delta": 0.1, "seconds": 2.0, "epsilon": 0.005}
    query = Query.of(problem(slow), **asked)
    found = fit_schedule(sc.SmoothCruiser(), query)
    promise = replace(query.promise, epsilon=found.schedule.epsilon)
    chosen = sc.SmoothCruiser().schedule(replace(query, promise=promise))
    assert chosen.num_calls < 1_000  # 2 s of 2 ms
    # it has more samples at the root, of the same levels, and the clock ends it
    assert found.schedule.levels == chosen.levels
    assert found.schedule.num_calls <= OVERFULL * 1_000
    assert found.wanted == 0.005
    assert 0 < query.ledger.total < 100
    assert "Epsilon 0.005 would cost" in found.notes[0]
    assert "the 2 s allowed" in found.notes[0]


def test_a_promise_that_fits_the_time_keeps_its_bits():
    """Law: seconds change nothing where the requested schedule fits."""
    asked = {"epsilon": 0.2, "delta": 0.1, "method": "smoothcruiser"}
    plain = sc.plan(problem(), **asked)
    timed = sc.plan(problem(), seconds=600.0, **asked)
    assert (timed.value, timed.interval) == (plain.value, plain.interval)
    assert timed.num_calls > plain.num_calls  # the calls that measured the speed
    assert timed.notes == plain.notes


def test_a_call_that_never_returns_does_not_hold_the_answer():
    """Law: the answer of a run whose only call sleeps for ever is what is certain."""

    def stuck(state, action, rng):
        time.sleep(3600.0)
        return 0.0, state

    asked = problem(stuck)
    found = sc.plan(asked, delta=0.1, seconds=0.2, method="smoothcruiser")
    assert found.interval == asked.facts.value_bounds()
    assert any("by its time limit" in note for note in found.notes)


def test_quick_search_ends_with_its_time_and_its_best_schedule():
    """Law: the best table so far, or ``OutOfTime`` where there is none."""
    facts = problem(discount=0.97, operator=sc.Entropy(0.3)).facts
    looks = iter(range(10**6))

    def clock():
        return float(next(looks))

    with patience(0.0, clock), pytest.raises(OutOfTime):
        quick_schedule(facts, 0.05, "q_values", 10**7)
    best = quick_schedule(facts, 0.05, "q_values", 10**7)
    assert 0.5e7 <= best.num_calls <= 1e7


@pytest.mark.parametrize("limit", [{"seconds": 60.0}, {"budget": 5e9}])
def test_a_limit_buys_no_promise_that_rounding_breaks(limit):
    """Law: who names no epsilon is never told that it is too fine.

    5e9 calls would pay for 0.00017, and sums of randomized levels are exact to 1e-5.
    """
    table = sc.make("chain:n=5", discount=0.2, temperature=10)
    fit = fit_schedule(sc.SmoothCruiser(), Query.of(table, delta=0.1, **limit))
    stopping_rule(fit.schedule, fit.shards)
    assert 1e-4 < fit.schedule.epsilon < 1e-2


def test_more_samples_at_the_root_keep_levels_and_promise():
    """Law: the price grows to what was asked, checkpoints go on, paper mode stays."""
    query = Query.of(problem(), delta=0.1, epsilon=0.2)
    schedule = sc.SmoothCruiser().schedule(query)
    more = schedule.stretch_root(7.3 * schedule.num_calls)
    assert (more.levels, more.epsilon) == (schedule.levels, schedule.epsilon)
    assert 7.2 < more.num_calls / schedule.num_calls <= 7.3
    kept = len(schedule.root.looks)
    assert more.root.looks[:kept] == schedule.root.looks
    assert schedule.root.samples < more.root.looks[-1] < more.root.samples
    assert list(more.root.looks) == sorted(set(more.root.looks))
    assert schedule.stretch_root(0.5 * schedule.num_calls) is schedule
    printed = sc.Paper().schedule(query)
    assert printed.stretch_root(2.0 * printed.num_calls) is printed


@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_a_schedule_for_a_time_limit_goes_on_below_its_epsilon(factor):
    """Law: it samples to its end, promises what it has reached, and fails no oftener.

    Whether it was stretched or not.
    """
    asked = problem(lambda state, action, rng: (float(rng.random() < 0.2), state))
    truth = sc.plan(
        problem(
            lambda *_: (0.0, 0), outcomes=lambda s, a: [(0.2, 1.0, s), (0.8, 0.0, s)]
        ),
        method="exact",
    ).value
    query = Query.of(asked, delta=0.3, epsilon=0.2)
    schedule = sc.SmoothCruiser().schedule(query)
    early, missed = start_run(query, FittedSchedule(schedule=schedule)), 0
    schedule = schedule.stretch_root(factor * schedule.num_calls)
    assert any("early stop" in note for note in early.notes)
    for seed in range(20):
        to_the_end = FittedSchedule(schedule=schedule, wanted=0.0, inspects=False)
        found = start_run(replace(query, seed=seed), to_the_end)
        assert found.num_calls == schedule.num_calls > early.num_calls
        assert found.epsilon < 0.2
        low, high = found.interval
        missed += not low <= truth <= high
        assert high - low < early.interval[1] - early.interval[0]
    assert missed <= 6  # of 20, with delta 0.3
