"""The command line as a person or a script meets it: outputs, JSON, exit codes,
errors in one sentence, no control characters in a pipe.
What --json prints is what the schemas say, and Python reads it back.
"""

import json
import math
import re
from xml.etree import ElementTree

import jsonschema
import pytest

import smoothcruiser as sc
from fresh_process import run_python, run_words
from smoothcruiser.methods.base import Forecast
from smoothcruiser.methods.schedules.schedule_run import store_record
from smoothcruiser.query import Query
from smoothcruiser.schedule.relaxation import Relaxation
from smoothcruiser.schedule.text import picture
from smoothcruiser.store import Store

CHAIN = "chain:n=5 --discount 0.2 --temperature 10"
PROMISE = "--epsilon 20% --delta 0.1"
SHARP = "--method smoothcruiser --executor reference"  # nothing to compile
HARD = "chain:n=5 --discount 0.995 --temperature 0.1 --epsilon 1% --delta 0.1"


def chain(discount=0.2, temperature=10):
    return sc.make("chain:n=5", discount=discount, temperature=temperature)


# --- what is shown ------------------------------------------------------------


def test_problems_lists_the_zoo_with_its_parameters(run):
    done = run("problems")
    assert done.code == 0
    names = "chain gridworld garnet random-game gym:… openspiel:… module:attribute"
    for name in (*names.split(), "smoothcruiser[openspiel]"):
        assert name in done.out
    assert run("problems --json").data["garnet"]["parameters"]["branching"] == 3


def test_explain_shows_promise_price_levels_and_rivals(run):
    done = run(f"explain {CHAIN} --epsilon 5%")
    price = sc.explain(chain(), epsilon="5%", delta=0.05).num_calls
    assert done.code == 0
    assert f"at most {price:,} oracle calls" in done.words
    promise = "within ±0.0625 (5% of the value span 1.25) with probability 0.95"
    assert promise in done.words
    assert "No delta was named: 0.05" in done.words
    assert re.search(r"SmoothCruiser, paper's constants +\d\.\d\de\d\d", done.out)
    assert re.search(r"└ 0 constant", done.out)
    assert "refuse" not in done.out
    assert "plan without --method solves this problem exactly, 0 calls" in done.words


def whole_numbers(data):
    """The largest whole number in plain data."""
    if isinstance(data, dict | list):
        values = data.values() if isinstance(data, dict) else data
        return max(map(whole_numbers, values), default=0)
    return data if isinstance(data, int) else 0


def test_explain_json_has_the_table_the_rivals_and_no_number_that_a_reader_cannot_hold(
    run,
):
    promise = "--epsilon 5% --delta 0.1 --method paper"
    data = run(f"explain {CHAIN} {promise} --json").data
    schedule = sc.explain(chain(), epsilon="5%", delta=0.1, method="paper")
    assert schedule.num_calls > 10**29
    assert data["num_calls"] is None  # no float64 tells it from its neighbours
    assert data["log10_calls"] == pytest.approx(math.log10(schedule.num_calls))
    kinds = [level.kind.name.lower() for level in schedule.levels]
    assert [row["kind"] for row in data["levels"]] == kinds
    own_calls = sum(10.0 ** row["log10_own_calls"] for row in data["levels"])
    assert own_calls == pytest.approx(schedule.num_calls, rel=1e-6)
    assert whole_numbers(data) <= 2**53
    assert data["rivals"][0]["name"] == "smoothcruiser"
    assert data["rivals"][0]["num_calls"] < 10**5
    assert any("keeps this very promise" in offer for offer in data["offers"])


def test_prices_beyond_what_anybody_pays_are_refused_with_a_bound_or_logarithms(run):
    """The schedule of this promise has about 10^5766 calls; none is built."""
    shown = run(f"explain {HARD} --method smoothcruiser")
    assert shown.code == 2
    told = r"Error: This promise costs at least 10\^1\d\d oracle calls"
    assert re.match(told, shown.err)
    data = run(f"explain {HARD} --method certified --json").data
    assert data["num_calls"] is None
    assert whole_numbers(data) <= 2**53
    assert all(bound["log10_most_calls"] > 10.0 for bound in data["bounds"])


@pytest.mark.parametrize(
    ("name", "method", "told"),
    [
        ("cold", "", "plan would answer by certified search instead"),
        ("unhashable", "", "plan would refuse it"),
        ("cold", "--method smoothcruiser", "plan would refuse it"),
        ("chain", "", "plan would solve the model instead, 0 calls"),
    ],
)
def test_explain_says_what_plan_would_do_above_the_budget(
    run, own, name, method, told
):
    """And plan, with the same options and a small budget, does that."""
    known = "chain:n=5 --discount 0.9 --temperature 1"
    problem = known if name == "chain" else f"{own}:{name}"
    request = f"{problem} --epsilon 10% --delta 0.1 {method}"
    sentence = f"Above the budget of 1,000,000,000 calls: {told}. What can be paid:"
    assert sentence in run(f"explain {request}").words
    done = run(f"plan {request} --budget 1000 --json")
    assert done.code == 0
    if "refuse" in told:
        assert done.data["method"] == "smoothcruiser"
        assert "more than the budget of 1,000" in " ".join(done.data["notes"])
    else:
        assert f"auto chose {done.data['method']}" in done.data["notes"][0]
        assert done.data["method"] == ("exact" if name == "chain" else "certified")
        # where plan answers, explain has no reason to refuse
        small = run(f"explain {request} --budget 1000")
        assert f"Above the budget of 1,000 calls: {told}" in small.words


def test_plan_shows_value_interval_actions_calls_and_bound(run):
    done = run(f"plan {CHAIN} --epsilon 5% --delta 0.1 {SHARP} --compare-exact")
    assert done.code == 0
    interval = r"\d\.\d+ ± 0\.\d+ +in \[\d\.\d+, \d\.\d+\] with probability 0\.9"
    assert re.search("value +" + interval, done.out)
    assert "inside the interval" in done.out
    assert "recommended" in done.out
    assert re.search(r"calls +[\d,]+ oracle calls, counted; [\d.]+% of", done.words)
    assert re.search(r"closed by +(Bennett|Hoeffding|Bernstein|betting)", done.out)
    assert re.search(r"running, .* compiling", done.words)
    assert "assuming" in done.out
    assert done.words.count("data allowed an early stop") == 1


@pytest.mark.parametrize("target", ["q_values", "value"])
def test_plan_json_is_the_estimate(run, target):
    line = f"plan {CHAIN} {PROMISE} {SHARP} --seed 7 --target {target} --json"
    data = run(line).data
    promise = {"epsilon": "20%", "delta": 0.1, "target": target}
    how = {"method": "smoothcruiser", "executor": "reference", "seed": 7}
    answer = sc.plan(chain(), **promise, **how).to_dict()
    for seconds in ("seconds", "compile_seconds"):
        del data[seconds], answer[seconds]
    assert data == answer
    assert data["interval"][0] <= data["value"] <= data["interval"][1]
    # theory, section 5: 96 calls for the value alone; at most 25% more for the bets
    assert (data["price"] <= 1.25 * 96) == (target == "value")


def test_own_problems_are_found_in_the_current_folder(run, own):
    data = run(
        f"plan {own}:problem {PROMISE} --state '[4, 1]' --budget 1e6 --json"
    ).data
    assert data["state"] == [4, 1]
    assert data["problem"] == f"{own}:problem"
    assert data["method"] == "certified"
    hot = run(f"plan {own}:hot {PROMISE} --temperature 20 --json").data
    assert hot["value"] > 20 * 0.69 / 0.8
    # reward 1 with probability 1/2 whatever is done: V = (1/2 + log 2)/(1 - 1/2)
    solved = run(f"exact {own}:outcomes --json").data
    assert solved["value"] == pytest.approx(2 * (0.5 + math.log(2)), abs=1e-9)
    unknown = run(f"plan {own}:problem {PROMISE} --compare-exact")
    assert unknown.code == 0
    assert "There is no model to compare with" in unknown.words


def test_a_time_is_measured_on_demand(run, own):
    unmeasured = run(f"explain {own}:problem {PROMISE}").words
    assert "unknown for a plain Python simulator" in unmeasured
    data = run(f"explain {own}:problem {PROMISE} --calibrate --json").data
    assert data["calls_per_second_measured"] is True
    assert 1e3 < data["calls_per_second"] < 1e8
    seconds = data["num_calls"] / data["calls_per_second"]
    assert data["seconds_estimate"] == pytest.approx(seconds, rel=1e-6)


def test_a_stored_run_shows_its_number_and_is_resumed_like_a_fresh_one(run, own):
    """The second run was killed before its first shard; resumed, it has its
    NamedTuple state again, and the first one draws nothing: its calls look at
    the step, which could have been edited since.
    """
    first = run(f"plan {own}:points {PROMISE} {SHARP} --store runs.db").words
    assert "run 1 in runs.db" in first
    problem = sc.make(f"{own}:points")
    with Store("runs.db") as store:
        schedule = sc.explain(problem, epsilon="20%", delta=0.1)
        assert store.begin(store_record(Query.of(problem), schedule)) == 2
    listed = run("runs --store runs.db")
    assert "unfinished" in listed.out
    assert "smoothcruiser plan --resume 2 --store runs.db" in listed.out
    # method names stay whole at 80 columns
    assert re.search(r"^ +1 .* smoothcruiser ", listed.out, re.MULTILINE)
    again = run("plan --resume 1 --trust --store runs.db").words
    assert "run 1, resumed" in again
    for words in ("state Point(x=0, y=0)", "promise", "price", "run 1 in runs.db"):
        assert words in again
    assert re.search(r"value [\d.]+", again)[0] == re.search(r"value [\d.]+", first)[0]
    assert f"; {problem.inspection_calls} calls in this session" in again
    second = run("plan --resume 2 --trust --store runs.db").words
    assert "state Point(x=0, y=0)" in second
    assert "unfinished" not in run("runs --store runs.db").out
    rows = run("runs --store runs.db --json").data["runs"]
    assert [row["status"] for row in rows] == ["finished", "finished"]
    unsaved = run(f"plan {CHAIN} {PROMISE} --store runs.db").words
    assert "stored nothing: method exact" in unsaved


def test_the_report_is_one_page_that_asks_nothing_of_the_network(run, tmp_path):
    """Law: everything that the terminal shows, with a well-formed picture, in
    one file without an address in it.
    """
    page = tmp_path / "answer.html"
    done = run(
        f"plan {CHAIN} {PROMISE} {SHARP} --compare-exact --report {page} --json"
    )
    text = page.read_text(encoding="utf-8")
    assert re.search(r"(src|href)\s*=|https?:|@import|url\(|<script", text) is None
    for words in ("chain:n=5", "within ±0.25", "oracle calls", "recommended"):
        assert words in text
    assert "with probability 0.9" in text
    assert "draws of the oracle are independent" in text
    assert done.data["labels"] == ["left", "right"]
    boxes = done.data["certificate"]["q_intervals"]
    for label, (low, _) in zip(done.data["labels"], boxes, strict=True):
        assert f"<td>{label}</td>" in text
        assert f"[{low:.2f}" in text
    for line in picture(sc.explain(chain(), epsilon="20%", delta=0.1)):
        assert line in text
    (svg,) = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    drawn = ElementTree.fromstring(svg)
    # the estimate and the exact value of each action
    assert len(drawn.findall(".//circle")) == 2 * len(done.data["q_values"])
    bars = drawn.findall(".//line[@stroke-width='5']")
    for bar, dot in zip(bars, drawn.findall(".//circle[@r='4']"), strict=True):
        x = float(dot.attrib["cx"])
        assert float(bar.attrib["x1"]) <= x <= float(bar.attrib["x2"])


def test_explain_tells_of_a_known_model(run, own):
    assert "model is known" not in run(f"explain {own}:problem {PROMISE}").words
    for method in ("exact", "auto"):
        shown = run(f"explain {CHAIN} {PROMISE} --method {method}").words
        assert "method exact" in shown
        assert "0 calls: the model is known" in shown
    assert run(f"explain {CHAIN} --method exact --json").data["num_calls"] == 0
    refused = run(f"explain {own}:problem {PROMISE} --method exact")
    assert refused.code == 2
    assert "has no model" in refused.err


def test_play_offers_a_method_without_a_promise_and_no_option_it_lacks(run, own):
    assert "--method uct --budget 10000" in run(f"play {own}:problem").err
    lost = run(f"play {own}:nowhere {PROMISE}")
    assert lost.code == 2
    assert "initial_state=" in lost.err
    assert "--state" not in lost.err
    episode = "--method uct --seconds-total 0.01 --episodes 1 --steps 2 --ponder"
    assert run(f"play {CHAIN} {episode}").code == 0
    assert "keeps none" in run(f"play {CHAIN} --method exact --ponder").err


def test_an_unexpected_error_is_one_sentence_and_its_place_is_shown_on_demand(
    run, monkeypatch
):
    def fault(*_, **__):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("smoothcruiser.api.prepare", fault)
    done = run(f"explain {CHAIN} {PROMISE}")
    assert done.code == 1
    sentence = "Error: unexpected ZeroDivisionError: by nothing; please report it"
    assert done.err.startswith(sentence)
    assert "Traceback" not in done.err
    monkeypatch.setenv("SMOOTHCRUISER_TRACEBACK", "1")
    assert "Traceback" in run(f"explain {CHAIN} {PROMISE}").err


# --- a pipe and a terminal ----------------------------------------------------


@pytest.mark.parametrize("columns", [80, 120])
def test_nothing_but_text_that_fits_the_terminal(run, columns):
    for line in (
        "problems",
        f"explain {CHAIN} {PROMISE}",
        f"explain {CHAIN} {PROMISE} --method certified",
        f"plan {CHAIN} {PROMISE} {SHARP}",
        f"exact {CHAIN}",
        "check garnet --discount 0.2 --temperature 10",
    ):
        done = run(line, columns=columns)
        assert done.err == ""
        for text in done.out.splitlines():
            assert text.isprintable(), text
            assert text == text.rstrip()
            assert len(text) <= columns or line == "problems"


@pytest.mark.parametrize(
    ("line", "heavy"), [("--help", "numpy"), (f"explain {CHAIN} {PROMISE}", "numba")]
)
def test_help_loads_no_numpy_and_explain_no_numba(line, heavy):
    program = (
        "import sys\n"
        f"sys.argv = ['smoothcruiser', *{line.split()!r}]\n"
        "from smoothcruiser.cli.app import main\n"
        f"try:\n    main()\nfinally:\n    assert {heavy!r} not in sys.modules\n"
    )
    assert run_python(program).stdout


def test_a_terminal_without_unicode_is_served_too():
    line = f"-m smoothcruiser.cli.app exact {CHAIN}"
    done = run_words(*line.split(), PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "recommended" in done.stdout


# --- stops --------------------------------------------------------------------


def test_ctrl_c_before_anything_is_known(run, own):
    done = run(f"plan {own}:early --epsilon 10% --delta 0.1")
    assert done.code == 130
    told = "Error: Stopped by Ctrl-C; the answer is what was known by then.\n"
    assert done.err == told
    assert "which is all that the rewards allow not sampled" in done.words


# --- schemas ------------------------------------------------------------------


FAST = f"chain:n=5 --discount 0.2 --temperature 1 {PROMISE}"  # quick to compile


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
