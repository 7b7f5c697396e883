"""The price holds: random requests make at most the calls that were printed for them.

The long version is ``benchmarks/reliability/calls_and_price.py``, which also compiles and starts
workers.
"""

from itertools import islice

import pytest
from benchmarks.reliability import calls_and_price as benchmark

import smoothcruiser as sc
from smoothcruiser.engines.inspection import look
from smoothcruiser.methods import schedule_within_limits
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.schedule.reach import OutOfTime


def compiles_layers(request):
    """Whether a certified search with a horizon may run: its loops take 24 s to compile."""
    return request.method in ("auto", "certified") and "horizon" in request.about


def test_random_requests_keep_their_price(tmp_path):
    every = benchmark.requests(0, tmp_path, light=True)
    light = (request for request in every if not compiles_layers(request))
    rows = [benchmark.paid(request) for request in islice(light, 40)]
    assert [row.broken for row in rows if row.broken] == []
    assert sum(row.num_calls for row in rows) > 5_000
    assert sum(bool(row.refused) for row in rows) < 10


FACTS = {"num_actions": 2, "initial_state": 1, "discount": 0.5, "operator": sc.Max()}


def make_world(folder, **more):
    return benchmark.World(
        str(folder / "calls"), **{"seed": 3, "states": 9, "actions": 2} | more
    )


@pytest.mark.parametrize("limits", [{}, {"seconds": 2.0}])
def test_timing_the_simulator_is_within_the_price(tmp_path, limits):
    world = make_world(tmp_path)
    sharp = {"discount": 0.2, "operator": sc.Entropy(2.0)}
    problem = sc.MDP(world, **FACTS | sharp)
    asked = {"epsilon": 0.3, "delta": 0.1, "method": "smoothcruiser", **limits}
    ready = sc.prepare(problem, **asked)
    schedule = ready.explanation
    # timing takes a twentieth of the price at the most
    assert world.calls <= 0.05 * schedule.num_calls
    assert ready.price <= 1.05 * schedule.num_calls + problem.inspection_calls
    shown = " ".join(str(ready).split())
    assert f"at most {ready.price} oracle calls" in shown
    answer = ready.run()
    assert world.calls == answer.calls_spent <= answer.price == ready.price


def test_states_that_cannot_be_compared_keep_the_price_of_inspections(tmp_path):
    world = make_world(tmp_path, actions=1, opaque=True)
    start = world.state(1)
    problem = sc.MDP(world, **FACTS | {"num_actions": 1, "initial_state": start})
    for most in (3, 6, 9, 27):
        before, ledger = world.calls, CallLedger(most)
        looked = look(problem, start, 0, ledger)
        look(problem, start, 0, ledger, looked)
        assert world.calls - before == ledger.total <= most


def test_a_search_that_goes_on_reserves_the_calls_of_its_last_inspection(tmp_path):
    """Each query ends with an inspection; it made 1,010 of 1,000 calls."""
    world = make_world(tmp_path)
    search = sc.Certified(sc.MDP(world, **FACTS), delta=0.1)
    assert search.query(budget=500).num_calls == world.calls == 500
    assert search.go_on(budget=1_000).num_calls == world.calls == 1_000


@pytest.mark.parametrize("verb", ["plan", "agent"])
@pytest.mark.parametrize("is_late", [True, False])
def test_calls_before_and_after_a_choice_are_counted(
    tmp_path, monkeypatch, verb, is_late
):
    """The simulator is timed, and then there may be no time to find a schedule."""

    def late(*asked):
        raise OutOfTime("There was not enough time to look for a schedule.")

    if is_late:
        monkeypatch.setattr(schedule_within_limits, "_payable", late)
    about = {"discount": 0.5, "operator": sc.Entropy(1.0)}
    limits = {"delta": 0.1, "seconds": 0.5, "budget": 5_000}
    if not is_late:
        limits |= {"epsilon": "20%", "seconds": 20.0, "budget": 1805}
    world = make_world(tmp_path, seed=3 if is_late else 0)
    row = benchmark.paid(benchmark.Request(verb, "auto", world, about, limits))
    assert (row.broken, bool(row.refused)) == ("", False)
    assert row.num_calls > 0
