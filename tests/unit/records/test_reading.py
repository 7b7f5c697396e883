"""What is read: JSON that a person has edited is refused in one sentence, or read and
shown; tables of results have the same rows with pandas and without it.

Law: whatever stands at any one place of the data of any kind, reading ends with an
object that can be printed, tabled and written again, or with a SmoothcruiserError.
"""

from __future__ import annotations

import copy
import json
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from results import a_comparison, an_estimate

import smoothcruiser as sc
from smoothcruiser.certified.price_forecast import CertifiedForecast
from smoothcruiser.certified.state_table import KeptTable, Row
from smoothcruiser.checks.probe import Finding
from smoothcruiser.comparison import Comparison
from smoothcruiser.exact import Solution
from smoothcruiser.methods.base import Forecast
from smoothcruiser.problem.facts import Facts
from smoothcruiser.records.data import Framed
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.states.state_json import state_data, state_from
from smoothcruiser.store.record import DamagedRun, Runs

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


# --- a wrong value at any one place -------------------------------------------


GONE = object()
WRONG = [GONE, None, -1, 10**400, "x", [], [[1]], {}]


def table() -> KeptTable:
    q_intervals = (0.0, 0.5), (0.5, 1.0)
    row = Row(3, 2, 1, 0.7, (0.0, 1.0), q_intervals, (0.4, 0.6), 1, (7, 5))
    return KeptTable("shop", 0.9, 12, (row,))


def solution() -> Solution:
    q = np.array([[0.0, 1.0], [2.0, 0.5]])
    policy = np.array([[0.0, 1.0], [1.0, 0.0]])
    values, names = q.max(axis=1), ("a", "b")
    return Solution(
        *(values, q, policy, 0.5, "by hand", 1, 0.1, 0.0, np.stack([values, values])),
        **{"states": (0, (1, 2)), "problem": "shop", "labels": names},
    )


def comparison() -> Comparison:
    whole = a_comparison()
    return Comparison((whole.runs[0], whole.runs[-1]), whole.truth, "shop")


OBJECTS = {
    "estimate": an_estimate,
    "estimates": lambda: sc.Estimates((an_estimate(),), 0.1, 5, 0.5, "auto", ("n",)),
    "schedule": lambda: compile_schedule(FACTS, epsilon=0.8, delta=0.1),
    "solution": solution,
    "comparison": comparison,
    "table": table,
    "check": lambda: sc.Check("p", (Finding("states", "ok", "s"),), 3, 1.0, 7, 2.0),
    "forecast": lambda: Forecast("uct", 10, "ten calls", 0.5, 0.1),
    "certified-forecast": lambda: CertifiedForecast(FACTS, 0.5, 0.1),
}


def places(data, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every name, and the last item of every list, as the way to it."""
    names: list[Any] = list(data) if isinstance(data, dict) else []
    if isinstance(data, list) and data:
        names = [len(data) - 1]
    for name in names:
        yield (*at, name)
        yield from places(data[name], (*at, name))


def edited(data, way: tuple[Any, ...], wrong):
    found = inner = copy.deepcopy(data)
    for name in way[:-1]:
        inner = inner[name]
    if wrong is GONE:
        del inner[way[-1]]
    else:
        inner[way[-1]] = wrong
    return found


def reading(cls, data) -> tuple[Any, str | None]:
    """What was read, or why not."""
    try:
        return cls.from_dict(data), None
    except sc.SmoothcruiserError as error:
        return None, str(error)


@pytest.mark.parametrize("kind", OBJECTS)
def test_it_is_refused_in_a_sentence_or_shown(kind):
    made = OBJECTS[kind]()
    data = json.loads(made.to_json())
    assert data["kind"] == kind
    refused = 0
    for way in places(data):
        for wrong in WRONG:
            changed = edited(data, way, wrong)
            read, said = reading(type(made), changed)
            if said is not None:
                refused += 1
                assert "\n" not in said
                assert len(said) < 700  # a level is told whole
                assert said.endswith(".")
            elif read != made:
                assert str(read)
                assert repr(read)
                assert read.to_json()
                assert getattr(read, "records", list)() is not None
    assert refused > 20


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        ("estimate", {"policy": [1.0]}, "estimate: policy must have 4 entries, one"),
        ("estimate", {"action": 4}, "must name one of 4 actions, from 0 on, got 4"),
        ("estimate", {"labels": []}, "labels must have 4 entries, one per action, g"),
        ("estimate", {"num_calls": -1}, "must count calls, from 0 on, got -1"),
        ("solution", {"labels": ["a"]}, "solution: labels must have 2 entries"),
        ("solution", {"states": [0]}, "states must have 2 entries, one per state, g"),
        ("solution", {"policy": [[1.0]]}, "policy must be lists of equal lengths"),
        ("solution", {"stages": [[1.0]]}, "stages must be lists of one number per"),
        ("certified-forecast", {"delta": 2.0}, "0 < delta < 1, got"),
    ],
)
def test_what_does_not_fit_together_is_named(kind, change, sentence):
    made = OBJECTS[kind]()
    with pytest.raises(sc.InvalidInput, match=sentence):
        type(made).from_dict(json.loads(made.to_json()) | change)


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("num_actions", 0, "1 <= min_actions <= num_actions"),
        ("num_actions", 10**400, "<= 1,000,000"),
        ("discount", 1.5, r"discount must lie in \[0, 1\], got 1.5"),
        ("reward_range", [1.0, 0.0], "two finite numbers in order"),
        ("horizon", 0, "horizon must be at least 1"),
    ],
)
def test_facts_that_no_problem_has_are_refused(name, wrong, said):
    data = json.loads(OBJECTS["schedule"]().to_json())
    with pytest.raises(sc.InvalidInput, match=said):
        sc.Schedule.from_dict(data | {"facts": data["facts"] | {name: wrong}})


# --- tables of results --------------------------------------------------------


def a_solution(**more) -> sc.Solution:
    values = np.array([1.5, 0.0, np.inf])
    q_values = np.array([[1.0, 1.4], [np.nan, np.nan], [np.inf, 0.0]])
    policy = np.array([[0.25, 0.75], [0.0, 0.0], [np.nan, np.nan]])
    return sc.Solution(values, q_values, policy, 1e-12, "by hand", 1, 0.0, **more)


def everything() -> list[Framed]:
    row = Row((1, 2), None, 2, 0.4, (0.0, 1.0), ((0.0, 1.0),), (1.0,), 0, (7,))
    return [
        an_estimate(),
        sc.Estimates((an_estimate(), an_estimate(interval=None)), 0.1, 9, 0.1, "auto"),
        a_solution(states=("a", "b", "c")),
        a_comparison(),
        KeptTable("shop", 0.9, 7, (row,)),
        sc.Check("shop", (Finding("states", "ok", "fine"),), 3, None, None, None),
        Runs([DamagedRun(3, "a seal does not fit")]),
    ]


@pytest.fixture
def no_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)


def test_an_estimate_by_hand():
    frame = an_estimate().to_frame()
    assert list(frame.columns) == [
        *("action", "label", "value", "low", "high", "policy", "excluded")
    ]
    assert list(frame.label) == ["wait", "buy", "sell", "ask"]
    assert list(frame.excluded) == [True, False, True, False]
    assert frame.low[3] == 1.5
    assert math.isnan(frame.value[2])
    assert math.isnan(frame.low[2])
    assert frame.policy.sum() == pytest.approx(1.0)
    assert list(frame.action) == [0, 1, 2, 3]


def test_estimate_usual_error_and_promise_are_in_every_frame_of_answers():
    sure = an_estimate(standard_error=0.05)
    numbers = {"value": 2.8, "standard_error": 0.05, "delta": 0.1}
    assert sure.to_frame().attrs == numbers | {"interval": (2.2, 3.4)}
    many = sc.Estimates((sure, an_estimate()), 0.1, 9, 0.1, "auto").to_frame()
    assert many.standard_error[0] == 0.05
    assert math.isnan(many.standard_error[1])


def test_an_estimate_without_a_promise_or_actions():
    rows = an_estimate(certificate=None, labels=None).records()
    assert [row["label"] for row in rows] == ["0", "1", "2", "3"]
    assert all(row["excluded"] is None and math.isnan(row["low"]) for row in rows)
    alone = an_estimate(q_values=(), policy=()).to_frame()
    assert alone.empty
    assert "excluded" in alone.columns


def test_a_solution_by_hand():
    frame = a_solution().to_frame()
    assert list(frame.columns) == [
        *("state", "value", "action", "label"),
        *("policy_0", "policy_1", "q_0", "q_1"),
    ]
    assert list(frame.state) == [0, 1, 2]
    assert [None if math.isnan(a) else a for a in frame.action] == [1, None, None]
    assert frame.q_1[0] == 1.4


def test_the_others_by_hand():
    many, comparison, table, report, runs = (
        x.to_frame() for i, x in enumerate(everything()) if i not in (0, 2)
    )
    assert list(many.state) == [(3, "open")] * 2
    assert math.isnan(many.low[1])
    assert list(many.label) == ["buy", "buy"]
    assert len(comparison) == 9
    assert comparison.error[1] == 0.2
    assert math.isnan(comparison.low[8])
    assert comparison.note[8] == "cannot be paid"
    assert (table.state[0], table.high[0], table.samples[0]) == ((1, 2), 1.0, 7)
    assert report.verdict[0] == "ok"
    assert (runs.run[0], runs.status[0]) == (3, "damaged")


def test_the_rows_have_the_columns_that_an_empty_frame_has():
    for shown in everything():
        for row in shown.records():
            columns = list(row)[: len(shown.frame_columns)]
            assert columns == list(shown.frame_columns)
            if not isinstance(shown, sc.Solution):  # policy_0, q_0 and so on follow
                assert list(row) == columns


@pytest.mark.usefixtures("no_pandas")
def test_without_pandas_they_are_lists_of_dicts():
    for shown in everything():
        found = shown.to_frame()
        assert isinstance(found, list)
        assert [list(row) for row in found] == [list(row) for row in shown.records()]


def test_pandas_has_the_same_rows():
    for shown in everything():
        frame = shown.to_frame()
        again = frame.to_dict("records")
        for row, found in zip(shown.records(), again, strict=True):
            for name, value in row.items():
                if value is None or value != value:
                    assert found[name] is None or found[name] != found[name]
                else:
                    assert found[name] == value
