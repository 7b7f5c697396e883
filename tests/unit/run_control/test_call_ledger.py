"""One ledger of calls: what a step counts is what an answer says, within the price."""

import pytest

import smoothcruiser as sc
from smoothcruiser.methods.base import run_request
from smoothcruiser.query import Query
from smoothcruiser.run_control.call_ledger import CallLedger, CallRole

PROMISE = {"epsilon": "30%", "delta": 0.1}
REQUESTS = {
    "smoothcruiser": PROMISE,
    "sparse-sampling": PROMISE,
    "paper": PROMISE | {"budget": 2_000},
    "certified": PROMISE | {"budget": 2_000},
    "auto": PROMISE | {"budget": 5_000},
    "uct": {"budget": 500},
}


def counting_problem(calls, stop=0):
    """A ring of three states; each call is listed, and one of them is interrupted."""

    def step(state, action, rng):
        calls.append((state, action))
        if len(calls) == stop:
            raise KeyboardInterrupt
        return 0.5 * rng.random() + 0.25 * action, (state + rng.integers(2)) % 3

    facts = {"num_actions": 2, "discount": 0.2, "operator": sc.Entropy(2.0)}
    return sc.MDP(step, initial_state=0, **facts)


@pytest.mark.parametrize("method", REQUESTS)
def test_every_call_of_a_step_is_counted_and_within_the_price(method):
    calls = []
    ready = sc.prepare(counting_problem(calls), method=method, **REQUESTS[method])
    assert len(calls) == ready.looked
    answer = ready.run()
    assert len(calls) == (answer.calls_spent or answer.num_calls)
    assert len(calls) <= ready.price


@pytest.mark.parametrize("stop", [1, 5])
def test_a_stop_while_the_step_is_timed_or_inspected_loses_no_call(stop):
    calls = []
    problem = counting_problem(calls, stop)
    query = Query.of(problem, seconds=60.0, budget=10_000, **PROMISE)
    answer = run_request(sc.SmoothCruiser(), query)
    assert answer.num_calls == len(calls) == stop
    assert 0 < query.ledger.count(CallRole.TIMING) == query.ledger.total <= stop


def test_a_ledger_sums_parts_and_knows_what_is_left():
    ledger, part = CallLedger(price=10), CallLedger()
    ledger.spend(CallRole.TIMING, 2)
    part.spend(CallRole.SAMPLES, 3)
    part.spend(CallRole.AHEAD, 1)
    again = ledger.copy(price=20)
    part.move_to(ledger)
    assert (ledger.total, ledger.used_calls, ledger.left, part.total) == (6, 5, 4, 0)
    assert (again.total, again.left, part.left) == (2, 18, None)
