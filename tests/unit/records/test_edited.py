"""JSON that a person has edited is refused in one sentence, or read and shown.

Law: whatever stands at any one place of the data of any kind, reading ends with an
object that can be printed, tabled and written again, or with a SmoothcruiserError.
"""

from __future__ import annotations

import copy
import json
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
from smoothcruiser.schedule.compiler.optimizer import compile_schedule

FACTS = Facts(2, 2, 0.5, sc.Entropy(1.0), (0.0, 1.0))
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
