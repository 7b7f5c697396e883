"""The command line as a person or a script meets it: outputs, JSON, exit codes,
errors in one sentence, no control characters in a pipe.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import smoothcruiser as sc
from smoothcruiser.display.page import answer_page, html_document
from smoothcruiser.errors import Unpayable
from smoothcruiser.methods.schedule_run import store_record
from smoothcruiser.query import Query
from smoothcruiser.schedule.text import picture, plan_lines
from smoothcruiser.store import Store
from smoothcruiser.store.record_checks import schedule_from

CHAIN = ["chain:n=5", "--discount", "0.2", "--temperature", "10"]
PROMISE = ["--epsilon", "20%", "--delta", "0.1"]
# reference: nothing to compile
SHARP = ["--method", "smoothcruiser", "--executor", "reference"]

# --- what is shown ------------------------------------------------------------


def test_problems_lists_the_zoo_with_its_parameters(run: Any) -> None:
    done = run("problems")
    assert done.code == 0
    for name in (
        "chain",
        "gridworld",
        "garnet",
        "random-game",
        "gym:…",
        "openspiel:…",
        "module:attribute",
        "smoothcruiser[openspiel]",
    ):
        assert name in done.out
    assert run("problems", "--json").data["garnet"]["parameters"]["branching"] == 3


def test_explain_shows_promise_price_levels_and_rivals(run: Any) -> None:
    done = run("explain", *CHAIN, "--epsilon", "5%", "--delta", "0.1")
    price = sc.explain(
        sc.make("chain:n=5", discount=0.2, temperature=10), epsilon="5%", delta=0.1
    ).num_calls
    assert done.code == 0
    assert f"at most {price:,} oracle calls" in done.words
    assert (
        "within ±0.0625 (5% of the value span 1.25) with probability 0.9" in done.words
    )
    assert re.search(r"SmoothCruiser, paper's constants +3\.\d\de29", done.out)
    assert re.search(r"└ 0 constant", done.out)
    assert "refuse" not in done.out


@pytest.mark.parametrize("limit", [("--budget", "1e4"), ("--seconds", "1")])
def test_explain_takes_a_limit_in_place_of_epsilon(run: Any, limit: Any) -> None:
    """What ``plan`` takes, ``explain`` explains."""
    done = run("explain", *CHAIN, "--delta", "0.1", *limit)
    assert done.code == 0
    assert "oracle calls" in done.words
    assert "Without --method, plan decides by itself" in done.words
    assert ("until the clock ends" in done.words) == (limit[0] == "--seconds")


def test_explain_names_the_usual_delta(run: Any) -> None:
    """``plan`` takes an epsilon alone, and so does ``explain``."""
    done = run("explain", *CHAIN, "--epsilon", "5%")
    assert done.code == 0
    assert "with probability 0.95" in done.words
    assert "No delta was named: 0.05" in done.words


def test_explain_json_has_the_table_the_rivals_and_no_number_that_a_reader_cannot_hold(
    run: Any,
) -> None:
    data = run(
        "explain",
        *CHAIN,
        "--epsilon",
        "5%",
        "--delta",
        "0.1",
        "--method",
        "paper",
        "--json",
    ).data
    schedule = sc.explain(
        sc.make("chain:n=5", discount=0.2, temperature=10),
        epsilon="5%",
        delta=0.1,
        method="paper",
    )
    assert schedule.num_calls > 10**29
    assert data["num_calls"] is None  # no float64 tells it from its neighbours
    assert data["log10_calls"] == pytest.approx(math.log10(schedule.num_calls))
    assert [row["kind"] for row in data["levels"]] == [
        level.kind.name.lower() for level in schedule.levels
    ]
    assert sum(
        10.0 ** row["log10_own_calls"] for row in data["levels"]
    ) == pytest.approx(schedule.num_calls, rel=1e-6)
    assert whole_numbers(data) <= 2**53
    assert data["rivals"][0]["name"] == "smoothcruiser"
    assert data["rivals"][0]["num_calls"] < 10**5
    assert any("keeps this very promise" in offer for offer in data["offers"])


def whole_numbers(data: Any) -> int:
    """The largest whole number in plain data."""
    if isinstance(data, dict):
        return max(map(whole_numbers, data.values()), default=0)
    if isinstance(data, list):
        return max(map(whole_numbers, data), default=0)
    return data if isinstance(data, int) else 0


HARD = "chain:n=5 --discount 0.995 --temperature 0.1 --epsilon 1% --delta 0.1"


def test_prices_beyond_what_anybody_pays_are_refused_with_a_bound(run: Any) -> None:
    """The schedule of this promise has about 10^5766 calls; none is built."""
    shown = run("explain", *HARD.split(), "--method", "smoothcruiser")
    assert shown.code == 2
    assert re.search(r"at least 10\^1\d\d oracle calls", shown.err)
    problem = sc.make("chain:n=5", discount=0.995, temperature=0.1)
    with pytest.raises(Unpayable, match="can be paid"):
        sc.explain(problem, epsilon="1%", delta=0.1, method="smoothcruiser")


def test_prices_of_certified_search_beyond_2_to_the_53_are_logarithms(
    run: Any,
) -> None:
    data = run("explain", *HARD.split(), "--method", "certified", "--json").data
    assert data["num_calls"] is None
    assert whole_numbers(data) <= 2**53
    assert all(bound["log10_most_calls"] > 10.0 for bound in data["bounds"])


def test_a_price_beyond_2_to_the_53_stays_readable_in_stores_and_answers(
    run: Any, tmp_path: Path
) -> None:
    """Such a plan may run (a large budget, an early stop): its price is no
    whole number in JSON, its logarithm is there.
    """
    problem = sc.make("chain:n=5", discount=0.9, temperature=1.0)
    schedule = sc.explain(problem, epsilon="10%", delta=0.1)
    assert schedule.num_calls > 2**53
    path = str(tmp_path / "runs.db")
    with Store(path) as store:
        number = store.begin(store_record(Query.of(problem), schedule))
        assert schedule_from(store.get(number).plan, problem.facts) == schedule
    listed = run("runs", "--store", path, "--json").data["runs"][0]
    assert listed["num_calls"] is None
    assert listed["log10_calls"] == pytest.approx(math.log10(schedule.num_calls))
    assert f" 10^{listed['log10_calls']:.0f} " in run("runs", "--store", path).words
    answer = replace(sc.plan(problem), price=schedule.num_calls).to_dict()
    assert (answer["price"], answer["log10_price"]) == (None, listed["log10_calls"])


@pytest.mark.parametrize(
    ("name", "method", "told"),
    [
        ("cold", None, "plan would answer by certified search instead"),
        ("cold", "smoothcruiser", "plan would refuse it"),
        ("unhashable", None, "plan would refuse it"),
        ("unhashable", "auto", "plan would refuse it"),
        ("chain", None, "plan would solve the model instead, 0 calls"),
    ],
)
def test_explain_says_what_plan_would_do_above_the_budget(
    run: Any, own: str, name: str, method: str | None, told: str
) -> None:
    """And plan, with the same options and a small budget, does that."""
    problem = (
        ("chain:n=5", "--discount", "0.9", "--temperature", "1")
        if name == "chain"
        else (f"{own}:{name}",)
    )
    promise = ("--epsilon", "10%", "--delta", "0.1")
    promise += () if method is None else ("--method", method)
    assert (
        f"Above the budget of 1,000,000,000 calls: {told}. What can be paid:"
        in run("explain", *problem, *promise).words
    )
    done = run("plan", *problem, *promise, "--budget", "1000", "--json")
    assert done.code == 0
    if "refuse" in told:
        assert done.data["method"] == "smoothcruiser"
        assert "more than the budget of 1,000" in " ".join(done.data["notes"])
    else:
        assert f"auto chose {done.data['method']}" in done.data["notes"][0]
        assert done.data["method"] == ("exact" if name == "chain" else "certified")
        # where plan answers, explain has no reason to refuse
        small = run("explain", *problem, *promise, "--budget", "1000")
        assert f"Above the budget of 1,000 calls: {told}" in small.words


def test_explain_counts_the_papers_calls_exactly(run: Any) -> None:
    """Issue 2: gamma = 0.2, lambda = 1, K = 2, epsilon = 0.9, delta' = 0.1
    takes 2,828,268 calls.
    """
    options = ["--epsilon", "0.9", "--delta-prime", "0.1", "--method", "paper"]
    assert (
        "exactly 2,828,268 oracle calls"
        in run(
            "explain", "chain:n=5", "--discount", "0.2", "--temperature", "1", *options
        ).words
    )


def test_explain_above_the_default_budget_shows_the_plan_and_what_can_be_paid(
    run: Any,
) -> None:
    done = run(
        "explain",
        "chain:n=5",
        "--discount",
        "0.5",
        "--temperature",
        "0.1",
        "--epsilon",
        "2%",
        "--delta",
        "0.1",
    )
    assert done.code == 0
    assert "What can be paid" in done.out
    assert "• epsilon" in done.out


def test_plan_shows_value_interval_actions_calls_and_bound(run: Any) -> None:
    done = run("plan", *CHAIN, *PROMISE, *SHARP, "--compare-exact")
    assert done.code == 0
    assert re.search(
        r"value +\d\.\d+ ± 0\.\d+ +in \[\d\.\d+, \d\.\d+\] with probability 0\.9",
        done.out,
    )
    assert "inside the interval" in done.out
    assert "recommended" in done.out
    assert re.search(r"calls +\d+ oracle calls, counted; \d+% of the price", done.out)
    assert "closed by" in done.out
    assert re.search(r"running, .* compiling", done.words)
    assert "assuming" in done.out


def test_plan_json_is_the_estimate(run: Any) -> None:
    data = run("plan", *CHAIN, *PROMISE, *SHARP, "--seed", "7", "--json").data
    problem = sc.make("chain:n=5", discount=0.2, temperature=10)
    estimate = sc.plan(
        problem,
        epsilon="20%",
        delta=0.1,
        method="smoothcruiser",
        seed=7,
        executor="reference",
    )
    timing = ("seconds", "compile_seconds")
    assert {k: v for k, v in data.items() if k not in timing} == {
        k: v for k, v in estimate.to_dict().items() if k not in timing
    }
    assert data["interval"][0] <= data["value"] <= data["interval"][1]


def test_plan_of_the_value_alone(run: Any) -> None:
    data = run("plan", *CHAIN, *PROMISE, *SHARP, "--target", "value", "--json").data
    assert data["interval"][1] - data["interval"][0] <= 2 * 0.25 * 1.01
    # theory, section 5: 96 calls for the value alone; at most 25% more for the bets
    assert data["price"] <= 1.25 * 96


def test_exact_agrees_with_the_closed_form(run: Any) -> None:
    """Strong regularization on the chain: V is close to lambda log 2/(1-gamma),
    and 8.664929 in the paper's own table.
    """
    data = run("exact", *CHAIN, "--json").data
    assert data["value"] == pytest.approx(8.664929, abs=1e-6)
    assert data["num_calls"] == 0
    assert data["delta"] == 0.0
    assert "proven, not sampled" in run("exact", *CHAIN, "--state", "3").out


def test_temperature_zero_and_operator_max_are_the_same_plain_problem(
    run: Any,
) -> None:
    zero = run(
        "exact",
        "chain:n=5",
        "--discount",
        "0.5",
        "--temperature",
        "0",
        "--state",
        "3",
        "--json",
    ).data
    plain = run(
        "exact",
        "chain:n=5",
        "--discount",
        "0.5",
        "--operator",
        "max",
        "--state",
        "3",
        "--json",
    ).data
    assert zero["value"] == plain["value"] == pytest.approx(1.0)
    assert zero["policy"] == [0.0, 1.0]


def test_own_problems_are_found_in_the_current_folder(run: Any, own: str) -> None:
    data = run(
        "plan",
        f"{own}:problem",
        *PROMISE,
        "--state",
        "[4, 1]",
        "--budget",
        "1e6",
        "--json",
    ).data
    assert data["state"] == [4, 1]
    assert data["problem"] == f"{own}:problem"
    assert data["method"] == "certified"
    hot = run("plan", f"{own}:hot", *PROMISE, "--temperature", "20", "--json").data
    assert hot["value"] > 20 * 0.69 / 0.8


def test_own_problems_with_a_known_model_are_solved(run: Any, own: str) -> None:
    """Reward 1 with probability 1/2 whatever is done: Q is the same, V = (1/2 +
    log 2)/(1 - 1/2).
    """
    data = run("exact", f"{own}:outcomes", "--json").data
    assert data["value"] == pytest.approx(2 * (0.5 + 0.6931471805599453), abs=1e-9)


def test_a_time_is_measured_on_demand(run: Any, own: str) -> None:
    assert (
        "unknown for a plain Python simulator"
        in run("explain", f"{own}:problem", *PROMISE).words
    )
    data = run("explain", f"{own}:problem", *PROMISE, "--calibrate", "--json").data
    assert data["calls_per_second_measured"] is True
    assert 1e3 < data["calls_per_second"] < 1e8
    assert data["seconds_estimate"] == pytest.approx(
        data["num_calls"] / data["calls_per_second"], rel=1e-6
    )


def test_stores_runs_and_resume(run: Any, own: str) -> None:
    first = run(
        "plan", f"{own}:problem", *PROMISE, "--store", "runs.db", "--json"
    ).data
    listed = run("runs", "--store", "runs.db", "--json").data["runs"]
    assert [row["status"] for row in listed] == ["finished"]
    again = run(
        "plan", "--resume", "1", "--trust", "--store", "runs.db", "--json"
    ).data
    assert again["value"] == first["value"]
    assert "finished" in run("runs", "--store", "runs.db").out


def test_a_stored_run_shows_its_number_and_is_resumed_like_a_fresh_one(
    run: Any, own: str
) -> None:
    """The second run was killed before its first shard; resumed, it has its
    NamedTuple state again, and the first one draws nothing: its calls look at
    the step, which could have been edited since.
    """
    assert (
        "run 1 in runs.db"
        in run("plan", f"{own}:points", *PROMISE, *SHARP, "--store", "runs.db").words
    )
    problem = sc.make(f"{own}:points")
    with Store("runs.db") as store:
        schedule = sc.explain(problem, epsilon="20%", delta=0.1)
        assert store.begin(store_record(Query.of(problem), schedule)) == 2
    listed = run("runs", "--store", "runs.db")
    assert "unfinished" in listed.out
    assert "smoothcruiser plan --resume 2 --store runs.db" in listed.out
    assert re.search(r"^ +1 .* smoothcruiser ", listed.out, re.MULTILINE), (
        "method names stay whole at 80 columns"
    )
    again = run("plan", "--resume", "1", "--trust", "--store", "runs.db")
    for word in (
        "state Point(x=0, y=0)",
        "run 1, resumed",
        "promise",
        "price",
        "run 1 in runs.db",
    ):
        assert word in again.words
    assert f"; {problem.inspection_calls} calls in this session" in again.words
    assert (
        "state Point(x=0, y=0)"
        in run("plan", "--resume", "2", "--trust", "--store", "runs.db").words
    )
    assert "unfinished" not in run("runs", "--store", "runs.db").out


def test_a_method_that_keeps_nothing_says_so(run: Any, tmp_path: Path) -> None:
    assert (
        "stored nothing: method exact"
        in run("plan", *CHAIN, *PROMISE, "--store", str(tmp_path / "runs.db")).words
    )


def test_the_report_is_one_page_that_asks_nothing_of_the_network(
    run: Any, tmp_path: Path
) -> None:
    """Law: everything that the terminal shows, with a well-formed picture, in
    one file without an address in it.
    """
    page = tmp_path / "answer.html"
    done = run(
        "plan",
        *CHAIN,
        *PROMISE,
        *SHARP,
        "--compare-exact",
        "--report",
        str(page),
        "--json",
    )
    text = page.read_text(encoding="utf-8")
    assert re.search(r"(src|href)\s*=|https?:|@import|url\(|<script", text) is None
    for word in (
        "chain:n=5",
        "within ±0.25",
        "oracle calls",
        "recommended",
        "with probability 0.9",
        "draws of the oracle are independent",
    ):
        assert word in text
    assert done.data["labels"] == ["left", "right"]
    boxes = done.data["certificate"]["q_intervals"]
    for label, (low, _) in zip(done.data["labels"], boxes, strict=True):
        assert f"<td>{label}</td>" in text
        assert f"[{low:.2f}" in text
    schedule = sc.explain(
        sc.make("chain:n=5", discount=0.2, temperature=10), epsilon="20%", delta=0.1
    )
    assert len(picture(schedule)) == 1 + len(plan_lines(schedule))
    for line in picture(schedule):
        assert line in text
    (svg,) = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    drawn = ElementTree.fromstring(svg)
    # the estimate and the exact value of each action
    assert len(drawn.findall(".//circle")) == 2 * len(done.data["q_values"])
    for bar, dot in zip(
        drawn.findall(".//line[@stroke-width='5']"),
        drawn.findall(".//circle[@r='4']"),
        strict=True,
    ):
        assert (
            float(bar.attrib["x1"])
            <= float(dot.attrib["cx"])
            <= float(bar.attrib["x2"])
        )


def test_the_report_of_other_methods_and_names(
    run: Any, own: str, tmp_path: Path
) -> None:
    """Exact has no plan and no chance, a value alone has no actions, a tree
    search has no certificate; a user's text is escaped.
    """
    for arguments, fragment in (
        ([*PROMISE], "proven, not sampled"),
        ([*PROMISE, *SHARP, "--target", "value"], "Plan: smoothcruiser"),
        (["--method", "uct", "--budget", "500"], "this method promises nothing"),
    ):
        assert run("plan", *CHAIN, *arguments, "--report", "page.html").code == 0
        assert fragment in (tmp_path / "page.html").read_text(encoding="utf-8")
    estimate = sc.plan(
        sc.make("chain:n=5", discount=0.2, temperature=10), method="exact"
    )
    hostile = replace(estimate, problem="<b>", state="<b>", notes=("<b>",))
    assert "<b>" not in html_document(answer_page(hostile))


def test_a_report_that_cannot_be_written_is_refused_before_the_run(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One that can be written needs nothing but the package."""
    done = run(
        "plan",
        *CHAIN,
        *PROMISE,
        *SHARP,
        "--report",
        str(tmp_path / "no" / "page.html"),
    )
    assert (done.code, done.out) == (2, "")
    assert "does not exist" in done.err
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = run(
        "plan", *CHAIN, *PROMISE, *SHARP, "--report", str(tmp_path / "page.html")
    )
    assert done.code == 0
    assert (tmp_path / "page.html").exists()


def test_explain_tells_of_a_known_model(run: Any, own: str) -> None:
    assert (
        "plan without --method solves this problem exactly, 0 calls"
        in run("explain", *CHAIN, *PROMISE).words
    )
    assert "model is known" not in run("explain", f"{own}:problem", *PROMISE).words
    for method in ("exact", "auto"):
        shown = run("explain", *CHAIN, *PROMISE, "--method", method).words
        assert "method exact" in shown
        assert "0 calls: the model is known" in shown
    assert run("explain", *CHAIN, "--method", "exact", "--json").data["num_calls"] == 0
    refused = run("explain", f"{own}:problem", *PROMISE, "--method", "exact")
    assert refused.code == 2
    assert "has no model" in refused.err


def test_a_comparison_without_a_model_is_a_note_not_an_error(
    run: Any, own: str
) -> None:
    done = run("plan", f"{own}:problem", *PROMISE, "--compare-exact")
    assert done.code == 0
    assert "There is no model to compare with" in done.words


def test_an_early_stop_is_told_once_and_bounds_have_their_names(run: Any) -> None:
    done = run("plan", *CHAIN, "--epsilon", "5%", "--delta", "0.1", *SHARP)
    assert done.words.count("data allowed an early stop") == 1
    assert re.search(r"closed by +(Bennett|Hoeffding|Bernstein|betting)", done.out)


def test_play_offers_a_method_without_a_promise_and_no_option_it_lacks(
    run: Any, own: str
) -> None:
    assert "--method uct --budget 10000" in run("play", f"{own}:problem").err
    lost = run("play", f"{own}:nowhere", *PROMISE)
    assert lost.code == 2
    assert "initial_state=" in lost.err
    assert "--state" not in lost.err
    episode = ("--method", "uct", "--seconds-total", "0.01", "--episodes", "1")
    assert run("play", *CHAIN, *episode, "--steps", "2", "--ponder").code == 0
    assert "keeps none" in run("play", *CHAIN, "--method", "exact", "--ponder").err


def test_an_unexpected_error_is_one_sentence_and_its_place_is_shown_on_demand(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("smoothcruiser.api.prepare", fault)
    done = run("explain", *CHAIN, *PROMISE)
    assert done.code == 1
    assert done.err.startswith(
        "Error: unexpected ZeroDivisionError: by nothing; please report it"
    )
    assert "Traceback" not in done.err
    monkeypatch.setenv("SMOOTHCRUISER_TRACEBACK", "1")
    assert "Traceback" in run("explain", *CHAIN, *PROMISE).err


# --- a pipe and a terminal ----------------------------------------------------


def shell(
    *arguments: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
        env=os.environ | environment,
    )


def test_nothing_but_text_in_a_pipe_and_no_line_ends_in_spaces(run: Any) -> None:
    for arguments in (
        ["problems"],
        ["explain", *CHAIN, *PROMISE],
        ["plan", *CHAIN, *PROMISE, *SHARP],
        ["exact", *CHAIN],
    ):
        done = run(*arguments)
        assert done.err == ""
        for line in done.out.splitlines():
            assert line.isprintable(), line
            assert line == line.rstrip()


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_fit_the_terminal(run: Any, columns: int) -> None:
    certified = ["explain", *CHAIN, *PROMISE, "--method", "certified"]
    for arguments in (
        ["explain", *CHAIN, *PROMISE],
        certified,
        ["plan", *CHAIN, *PROMISE, *SHARP],
        ["exact", *CHAIN],
        ["check", "garnet", *CHAIN[1:]],
    ):
        widest = max(
            len(line) for line in run(*arguments, columns=columns).out.splitlines()
        )
        assert widest <= columns


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], "numpy"),
        (["plan", "--help"], "numba"),
        (["problems"], "numba"),
        (["explain", *CHAIN, *PROMISE], "numba"),
    ],
)
def test_help_loads_no_numpy_and_explain_no_numba(
    arguments: list[str], heavy: str
) -> None:
    program = (
        "import sys\n"
        f"sys.argv = ['smoothcruiser', *{arguments!r}]\n"
        "from smoothcruiser.cli.app import main\n"
        f"try:\n    main()\nfinally:\n    assert {heavy!r} not in sys.modules\n"
    )
    done = shell("-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_terminal_without_unicode_is_served_too() -> None:
    done = shell(
        "-m", "smoothcruiser.cli.app", "exact", *CHAIN, PYTHONIOENCODING="ascii"
    )
    assert done.returncode == 0, done.stderr
    assert "recommended" in done.stdout


# --- stops --------------------------------------------------------------------


def test_ctrl_c_before_anything_is_known(run: Any, own: str) -> None:
    done = run("plan", f"{own}:early", "--epsilon", "10%", "--delta", "0.1")
    assert done.code == 130
    assert (
        done.err == "Error: Stopped by Ctrl-C; the answer is what was known by then.\n"
    )
    assert "which is all that the rewards allow not sampled" in done.words


def test_ctrl_c_after_a_look_answers_with_what_is_known(run: Any, own: str) -> None:
    """4,000 calls are beyond the first checkpoint of this schedule and before the end of
    the run: its interval holds, wider than promised.
    """
    promise = ("--epsilon", "10%", "--delta", "0.1", *SHARP)
    done = run("plan", f"{own}:late", *promise, "--json")
    assert done.code == 130
    assert done.data["interval"] is not None
    assert done.data["epsilon"] > 0.2


def test_seconds_too_short_for_the_promise_give_what_they_allow(run: Any) -> None:
    promise = ("--epsilon", "1%", "--delta", "0.1", *SHARP, "--seconds", "0.01")
    done = run("plan", *CHAIN, *promise, "--json")
    assert (done.code, done.err) == (0, "")
    low, high = done.data["interval"]
    assert low <= run("exact", *CHAIN, "--json").data["value"] <= high
    assert "more than the 0.01 s allowed" in " ".join(done.data["notes"])
