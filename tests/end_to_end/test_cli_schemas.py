"""What ``--json`` prints is what the schemas say, and Python reads it back."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

import smoothcruiser as sc
from smoothcruiser.checks import Check
from smoothcruiser.comparison import Comparison
from smoothcruiser.methods.base import Forecast
from smoothcruiser.playing.episodes import Summary
from smoothcruiser.schedule.relaxation import Relaxation

CHAIN = ["chain:n=5", "--discount", "0.2", "--temperature", "10"]
PROMISE = ["--epsilon", "20%", "--delta", "0.1"]
FAST = ["chain:n=5", "--discount", "0.2", "--temperature", "1"]  # quick to compile
SHARP = ["--method", "smoothcruiser", "--executor", "reference"]
RELAX = ["--option", "relax=entropy"]
SEARCH = ["--method", "certified"]
TREE = ["--method", "uct"]


def valid(done: Any, kind: str) -> dict[str, Any]:
    """The printed object, which its schema allows."""
    data: dict[str, Any] = json.loads(done.out, parse_constant=pytest.fail)
    jsonschema.Draft202012Validator(sc.schema(kind)).validate(data)
    if kind != "problems":
        assert (data["schema"], data["kind"]) == (1, kind)
    return data


@pytest.mark.parametrize(
    ("arguments", "kind", "cls"),
    [
        (["problems"], "problems", None),
        (["explain", *CHAIN, *PROMISE], "schedule", sc.Schedule),
        (["explain", *FAST, *PROMISE, "--method", "paper"], "schedule", sc.Schedule),
        (["explain", *FAST, *PROMISE, *RELAX], "relaxation", Relaxation),
        (["explain", *CHAIN, *PROMISE, *SEARCH], "certified-forecast", None),
        (["explain", *CHAIN, *TREE], "forecast", Forecast),
        (["explain", *CHAIN, *PROMISE, "--method", "auto"], "forecast", Forecast),
        (["plan", *CHAIN, *PROMISE, *SHARP], "estimate", sc.Estimate),
        (["plan", *CHAIN, *PROMISE, *SHARP, "--compare-exact"], "estimate", None),
        (["plan", *CHAIN, *PROMISE, *SEARCH], "estimate", sc.Estimate),
        (["plan", *CHAIN, *TREE, "--budget", "1e3"], "estimate", sc.Estimate),
        (["plan", *CHAIN, *PROMISE, "--states", "[0, 4]"], "estimates", sc.Estimates),
        (["exact", *CHAIN], "estimate", sc.Estimate),
        (
            ["compare", *CHAIN, "--budget", "1e3", "--methods", "uct,certified"],
            "comparison",
            Comparison,
        ),
        (["play", *CHAIN, "--episodes", "2"], "play", Summary),
        (["play", *CHAIN, "--episodes", "1"], "play", Summary),
        (["check", *CHAIN], "check", Check),
    ],
    ids=lambda x: " ".join(x[:1] + x[6:]) if isinstance(x, list) else "",
)
def test_what_is_printed_fits_its_schema(
    run: Any, arguments: list[str], kind: str, cls: Any
) -> None:
    done = run(*arguments, "--json")
    assert done.code == 0, done.err
    data = valid(done, kind)
    if cls is not None:
        read = cls.from_json(done.out)
        again = json.loads(read.to_json())
        assert {name: data[name] for name in again}.keys() == again.keys()
        for name, value in again.items():
            # explain adds moments and shares to the rows of the levels
            assert data[name] == value or name == "levels", name


def test_the_choice_of_auto_fits_its_schema(run: Any, own: Any) -> None:
    done = run("explain", f"{own}:problem", *PROMISE, "--method", "auto", "--json")
    assert done.code == 0, done.err
    assert valid(done, "decision")["pilot"]["calls"] > 0


def test_the_runs_of_a_store_fit_their_schema(run: Any, tmp_path: Any) -> None:
    store = str(tmp_path / "runs.db")
    planned = run("plan", *CHAIN, *PROMISE, *SHARP, "--store", store, "--json")
    listed = run("runs", "--store", store, "--json")
    (row,) = valid(listed, "runs")["runs"]
    assert row["status"] == "finished"
    answer = sc.Estimate.from_dict(row["estimate"])
    assert answer.value == sc.Estimate.from_json(planned.out).value
    from smoothcruiser.store import Store

    with Store(store, write=False) as opened:
        frame = opened.runs().to_frame()
    assert list(frame.value) == [answer.value]
    assert answer.interval is not None
    assert (frame.low[0], frame.high[0]) == answer.interval
