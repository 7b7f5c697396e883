"""Tables of results: with pandas a DataFrame, without it the same rows as dicts."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from results import a_comparison, an_estimate

import smoothcruiser as sc
from smoothcruiser.certified.state_table import KeptTable, Row
from smoothcruiser.checks.probe import Finding
from smoothcruiser.records.data import Framed
from smoothcruiser.store.record import DamagedRun, Runs


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
