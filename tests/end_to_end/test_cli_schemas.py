"""What ``--json`` prints is what the schemas say, and Python reads it back."""

import json

import jsonschema
import pytest

import smoothcruiser as sc
from smoothcruiser.methods.base import Forecast
from smoothcruiser.schedule.relaxation import Relaxation
from smoothcruiser.store import Store

CHAIN = "chain:n=5 --discount 0.2 --temperature 10"
PROMISE = "--epsilon 20% --delta 0.1"
FAST = f"chain:n=5 --discount 0.2 --temperature 1 {PROMISE}"  # quick to compile
SHARP = "--method smoothcruiser --executor reference"


def valid(done, kind):
    """The printed object, which its schema allows."""
    assert done.code == 0, done.err
    data = json.loads(done.out, parse_constant=pytest.fail)
    jsonschema.Draft202012Validator(sc.schema(kind)).validate(data)
    if kind != "problems":
        assert (data["schema"], data["kind"]) == (1, kind)
    return data


@pytest.mark.parametrize(
    ("line", "kind", "cls"),
    [
        ("problems", "problems", None),
        (f"explain {CHAIN} {PROMISE}", "schedule", sc.Schedule),
        (f"explain {FAST} --method paper", "schedule", sc.Schedule),
        (f"explain {FAST} --option relax=entropy", "relaxation", Relaxation),
        (f"explain {CHAIN} {PROMISE} --method certified", "certified-forecast", None),
        (f"explain {CHAIN} --method uct", "forecast", Forecast),
        (f"explain {CHAIN} {PROMISE} --method auto", "forecast", Forecast),
        (f"plan {CHAIN} {PROMISE} {SHARP} --compare-exact", "estimate", None),
        (f"plan {CHAIN} {PROMISE} --method certified", "estimate", sc.Estimate),
        (f"plan {CHAIN} --method uct --budget 1e3", "estimate", sc.Estimate),
        (f"plan {CHAIN} {PROMISE} --states '[0, 4]'", "estimates", sc.Estimates),
        (f"exact {CHAIN}", "estimate", sc.Estimate),
        (f"compare {CHAIN} --budget 1e3 --methods uct", "comparison", sc.Comparison),
        (f"play {CHAIN} --episodes 2", "play", sc.Summary),
        (f"play {CHAIN} --episodes 1", "play", sc.Summary),
        (f"check {CHAIN}", "check", sc.Check),
    ],
    ids=lambda text: text if isinstance(text, str) else "",
)
def test_what_is_printed_fits_its_schema(run, line, kind, cls):
    done = run(f"{line} --json")
    data = valid(done, kind)
    if cls is not None:
        again = json.loads(cls.from_json(done.out).to_json())
        assert {name: data[name] for name in again}.keys() == again.keys()
        for name, value in again.items():
            # explain adds moments and shares to the rows of the levels
            assert data[name] == value or name == "levels", name


def test_the_choice_of_auto_fits_its_schema(run, own):
    done = run(f"explain {own}:problem {PROMISE} --method auto --json")
    assert valid(done, "decision")["pilot"]["calls"] > 0


def test_the_runs_of_a_store_fit_their_schema(run, tmp_path):
    store = tmp_path / "runs.db"
    planned = run(f"plan {CHAIN} {PROMISE} {SHARP} --store {store} --json")
    listed = run(f"runs --store {store} --json")
    (row,) = valid(listed, "runs")["runs"]
    assert row["status"] == "finished"
    answer = sc.Estimate.from_dict(row["estimate"])
    assert answer.value == sc.Estimate.from_json(planned.out).value
    with Store(store, write=False) as opened:
        frame = opened.runs().to_frame()
    assert list(frame.value) == [answer.value]
    assert (frame.low[0], frame.high[0]) == answer.interval
