"""The budget's edge: a price that equals the budget is paid, one call less is
refused; the calls that inspect the step are part of the price.
"""

import pytest
from worlds import mdp

import smoothcruiser as sc

PROMISE = {"epsilon": 0.3, "delta": 0.1}


def step(state, action, rng):
    return rng.random(), (state + action) % 3


def problem():
    return mdp(step, discount=0.2, operator=sc.Max())


def price(asked, method):
    found = sc.explain(asked, method=method, **PROMISE)
    assert asked.inspection_calls > 0
    return found.num_calls + asked.inspection_calls


@pytest.mark.parametrize("method", ["smoothcruiser", "sparse-sampling"])
@pytest.mark.parametrize("verb", [sc.explain, sc.plan])
def test_a_budget_of_the_price_is_enough_and_one_call_less_is_not(verb, method):
    """One call less runs the schedule of a larger epsilon, within the budget."""
    asked = problem()
    budget = price(asked, method)
    whole = sc.explain(asked, method=method, **PROMISE).epsilon
    paid = verb(asked, method=method, budget=budget, **PROMISE)
    assert (paid.num_calls <= budget, paid.epsilon) == (True, whole)
    less = verb(asked, method=method, budget=budget - 1, **PROMISE)
    assert less.num_calls < budget
    assert whole < less.epsilon < 1.2 * whole


def test_a_run_that_cannot_end_early_costs_the_price_that_was_told():
    """Fair coins over one step: every sample is taken, so the calls counted are
    the budget to the last one.
    """
    coin = mdp(
        lambda state, action, rng: (float(rng.random() < 0.5), state),
        horizon=1,
        operator=sc.Max(),
    )
    promise = PROMISE | {"epsilon": 0.1}
    planned = sc.explain(coin, method="smoothcruiser", **promise).num_calls
    budget = planned + coin.inspection_calls
    found = sc.plan(coin, method="smoothcruiser", budget=budget, **promise)
    assert found.num_calls == found.price == budget


def test_auto_takes_the_schedule_up_to_its_price_and_certified_search_below():
    asked = problem()
    budget = price(asked, "smoothcruiser")
    enough, less = (
        sc.prepare(asked, method="auto", budget=calls, **PROMISE)
        for calls in (budget, budget - 1)
    )
    assert (enough.method.name, less.method.name) == ("smoothcruiser", "certified")
    assert "would cost" in less.notes[0]
    assert (
        sc.explain(asked, method="auto", budget=budget - 1, **PROMISE).method
        == "certified"
    )
