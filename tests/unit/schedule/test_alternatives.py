"""What is offered where a promise cannot be paid: as it is printed, it can be."""

import math
import re

import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.schedule import alternatives
from smoothcruiser.schedule.compiler.optimizer import compile_schedule


def stays(state, action, rng):
    return rng.random(), state


def problem(discount, operator, num_actions=2):
    return mdp(stays, num_actions=num_actions, discount=discount, operator=operator)


def refusal(asked, budget, **promise):
    """What is offered for the calls of a budget that remain beside the inspections."""
    schedule = sc.explain(asked, **promise)
    return "\n".join(
        alternatives.list_alternatives(
            asked.facts, schedule, budget - asked.inspection_calls
        )
    )


PROMISE = {"epsilon": 0.01, "delta": 0.1, "method": "smoothcruiser"}


@pytest.mark.parametrize("budget", range(500, 1_000, 50))
def test_the_offered_epsilon_is_payable_as_it_is_printed(budget):
    """The printed digits, given back, are accepted within the same budget, the
    calls that inspect the step included.
    """
    asked = problem(0.2, sc.Max())
    offered = re.search(r"epsilon (\S+) \(", refusal(asked, budget, **PROMISE))
    assert offered is not None
    promise = PROMISE | {"epsilon": float(offered[1])}
    accepted = sc.explain(asked, budget=budget, **promise)
    assert accepted.num_calls + asked.inspection_calls <= budget


@pytest.mark.compiles
def test_the_offered_temperature_is_the_first_whose_price_fits():
    """Temperatures 4, 16, ...: the price of 4 is enough for it, and one call less
    takes 16.
    """
    facts = problem(0.3, sc.Entropy(1.0)).facts
    prices = {
        t: compile_schedule(
            facts.under(sc.Entropy(t)), epsilon=0.2, delta=0.1
        ).num_calls
        for t in (4.0, 16.0)
    }
    assert prices[16.0] < prices[4.0]
    for budget, step in ((prices[4.0], 4.0), (prices[4.0] - 1, 16.0)):
        found = alternatives.payable_temperature(facts, 0.2, 0.1, "q_values", budget)
        assert found is not None
        temperature, calls, distance = found
        assert (temperature, calls) == (step, prices[step])
        # |V_lambda - V_0| <= lambda log 2 / (1 - gamma)
        assert distance == pytest.approx(step * math.log(2.0) / (1.0 - 0.3))


@pytest.mark.compiles
def test_a_dearer_method_is_told_that_the_sharp_one_keeps_its_promise():
    """Within the budget it is offered at its price; below its price it is not."""
    asked = problem(0.3, sc.Entropy(1.0))
    promise = {"epsilon": 0.2, "delta": 0.1}
    price = sc.explain(asked, method="smoothcruiser", **promise).num_calls
    paid = price + asked.inspection_calls
    sentence = f"keeps this very promise for {price:,} calls"
    assert sentence in refusal(asked, paid, method="paper", **promise)
    assert "this very promise" not in refusal(
        asked, paid - 1, method="paper", **promise
    )


@pytest.mark.parametrize(
    ("epsilon", "printed"),
    [(0.12301, 0.124), (0.1230, 0.123), (0.9991, 1.0), (0.0, 0.0), (1234.5, 1240.0)],
)
def test_epsilon_is_rounded_up_to_three_digits(epsilon, printed):
    assert alternatives._round_up(epsilon) == printed
