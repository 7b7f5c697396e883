"""What does not fit is refused in one sentence: what was required, and what came."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from results import a_comparison, an_estimate

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.states.state_json import state_data, state_from

FACTS = Facts(2, 2, 0.5, sc.Entropy(1.0), (0.0, 1.0))


def written() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(an_estimate().to_json())
    return found


def test_an_estimate_reads_what_it_wrote_and_ignores_the_rest():
    data = written() | {"exact": {"value": 3}, "later": "words"}
    assert sc.Estimate.from_dict(data) == an_estimate()
    assert data["q_values"] == [0.5, 2.5, None, 2.0]
    assert data["state"] == [3, "open"]
    assert "state_form" not in data


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schema": 2}, r'reads "schema": 1, got 2; write the object again'),
        ({"schema": None}, r'reads "schema": 1, got none'),
        ({"kind": "schedule"}, r'reads "kind": "estimate", got \'schedule\''),
        ({"value": "much"}, r"estimate.value must be a number.* got 'much'"),
        ({"value": 10**400}, r"estimate.value must be a number below 1.8e308"),
        ({"interval": [1.0]}, r"estimate.interval must be a list of 2, got a list"),
        ({"interval": [1.0, {}]}, r"estimate.interval\[1\] must be a number"),
        ({"policy": 3}, r"estimate.policy must be a list, got 3"),
        ({"policy": [0.5, "x"]}, r"estimate.policy\[1\] must be a number"),
        ({"num_calls": 1.5}, r"estimate.num_calls must be a whole number, got 1.5"),
        ({"method": 3}, r"estimate.method must be a text, got 3"),
        ({"price_hex": "zz"}, r"estimate.price_hex must be digits in base 16"),
        ({"certificate": 3}, r"estimate.certificate must be an object, got 3"),
        ({"certificate": {"kind": "search"}}, r"must have 'interval', and it is miss"),
        ({"state_form": "odd"}, r"estimate.state_form must be null, 'number'"),
        ({"state_form": {"array": "O"}}, r"must name a type of array such as '<f8'"),
        ({"state_form": {"list": [None]}}, r"must list 2 forms, one per item"),
        ({"state_form": {"text": 5}}, r"estimate.state_form must hold a text"),
    ],
)
def test_what_does_not_fit_is_refused(change, sentence):
    with pytest.raises(sc.InvalidInput, match=sentence):
        sc.Estimate.from_dict(written() | change)


@pytest.mark.parametrize("text", ["", "{", "NaN", '{"value": Infinity}', "[" * 10**5])
def test_text_that_is_no_json_is_refused(text):
    with pytest.raises(sc.InvalidInput, match=r"Estimate.from_json takes JSON text"):
        sc.Estimate.from_json(text)


def test_json_of_something_else_is_refused():
    with pytest.raises(sc.InvalidInput, match="takes a dict, got a list"):
        sc.Estimate.from_json("[]")
    with pytest.raises(sc.InvalidInput, match="must be given a text, got 3"):
        sc.Estimate.from_json(3)  # type: ignore[arg-type]


def test_an_estimate_inside_a_list_is_named():
    many = sc.Estimates((an_estimate(),), 0.1, 1, 0.0, "auto").to_dict()
    many["estimates"][0]["value"] = []
    with pytest.raises(sc.InvalidInput, match=r"estimates\[0\]: estimate.value must"):
        sc.Estimates.from_dict(many)


def test_numbers_that_json_does_not_have():
    odd = an_estimate(value=math.inf, epsilon=math.nan, delta=None, price=2**60 + 1)
    data = odd.to_dict()
    assert (data["value"], data["epsilon"], data["delta"]) == ("Infinity", "NaN", None)
    assert (data["price"], data["price_hex"]) == (None, "0x1000000000000001")
    assert data["log10_price"] == pytest.approx(60 * math.log10(2))
    assert sc.Estimate.from_dict(data).price == 2**60 + 1
    assert "price_hex" not in an_estimate(price=2**53).to_dict()


def test_a_state_that_json_cannot_hold_comes_back_as_its_text():
    class Board:
        def __repr__(self) -> str:
            return "Board(x to move)"

    for state in (Board(), {1, 2}, {(1, 2): 3}, b"bytes", np.array([1j])):
        data, form = state_data(state)
        assert form == {"text": repr(state)}
        assert state_from(json.loads(json.dumps(data)), form, "state") == repr(state)


def test_a_schedule_is_verified_when_it_is_read():
    schedule = compile_schedule(FACTS, epsilon=0.4, delta=0.1)
    data = schedule.to_dict()
    assert sc.Schedule.from_dict(data) == schedule
    with pytest.raises(sc.BrokenPromise):
        sc.Schedule.from_dict(data | {"epsilon": 0.01})
    rows = [{**row, "kind": "magic"} for row in data["levels"]]
    with pytest.raises(sc.InvalidInput, match="no estimator of the kind 'magic'"):
        sc.Schedule.from_dict(data | {"levels": rows})


def test_an_operator_of_ones_own_needs_the_facts():
    own = sc.CustomOperator(max, lambda q: q, smooth=1.0, sums_to_one=True)
    facts = Facts(2, 2, 0.5, own, (0.0, 1.0))
    schedule = compile_schedule(facts, epsilon=0.8, delta=0.1)
    data = json.loads(schedule.to_json())
    with pytest.raises(sc.InvalidInput, match=r"got 'custom'.* give facts=problem.f"):
        sc.Schedule.from_dict(data)
    assert sc.Schedule.from_dict(data, facts=facts) == schedule


def test_a_comparison_has_the_regrets_of_its_truth_after_json():
    comparison = a_comparison()
    found = type(comparison).from_json(comparison.to_json())
    assert found == comparison
    assert found.truth is not None
    assert found.truth.q_values == {0: 0.5, 2: 0.25}
    assert found.truth.policy_regret((0.5, 0.0, 0.5)) == (
        comparison.truth.policy_regret((0.5, 0.0, 0.5))  # type: ignore[union-attr]
    )
    data = comparison.to_dict()
    data["truth"]["q_values"] = {"left": 1.0}
    with pytest.raises(sc.InvalidInput, match="an object named by whole numbers"):
        type(comparison).from_dict(data)
