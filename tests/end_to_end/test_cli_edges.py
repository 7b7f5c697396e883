"""Edges of the command line: odd terminals, states, sizes, times, and Ctrl-C."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fresh_process import run_words

PROBLEM = "chain:n=4 --discount 0.5 --temperature 1"
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("size", ["0", "-1", "²", "", "9" * 30])
def test_a_size_that_no_terminal_has_changes_nothing(run, size, monkeypatch):
    monkeypatch.setenv("LINES", size)
    done = run("problems", columns=size)
    assert done.code == 0
    assert "the paper's" in done.out


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[" * 900 + "]" * 900, "nested too deeply"),
        ("[" * 90 + "]" * 90, "must be a whole number"),
        ("9" * 5_000, "not JSON"),
        ("[" + "1," * 60_000 + "1]", "must be a whole number"),
        ("NaN", "not JSON"),
        ('{"a": 1, "a": 2}', "not JSON"),
        ("\x1b[31m", "not JSON"),
        ("9" * 30, "must be a whole number"),
    ],
)
def test_a_state_that_is_none_is_refused_in_a_short_sentence(run, state, told):
    done = run(f"exact {PROBLEM}", "--state", state)
    assert (done.code, told in done.err) == (2, True), done.err[:300]
    assert len(done.err) < 2_100


@pytest.mark.parametrize(
    "problem",
    [
        "chain:n=1000000000000",
        "gridworld:n=100000",
        "garnet:states=1000000000",
        "random-game:actions=100000000000",
        "d-chain:d=1000000000000",
        "frozen-lake:horizon=1000000",
        "sailing:n=100000",
        "synthetic-tree:k=3,d=1000000000",
        "synthetic-tree:k=1000000000,d=2",
        f"chain:n={'9' * 4_000}",
    ],
)
def test_a_problem_that_cannot_be_built_is_refused_before_it_allocates(run, problem):
    done = run(f"exact {problem} --discount 0.5 --temperature 1")
    assert done.code == 2
    assert "take smaller" in done.err


@pytest.mark.compiles
@pytest.mark.parametrize("form", ["", "--json"])
def test_ctrl_c_ends_a_comparison_with_the_runs_that_are_done(run, own, form):
    done = run(f"compare {own}:pressed --budget 1000 --methods uct,ments,tents {form}")
    assert done.code == 130
    if not form:
        assert "uct" in done.out
        assert "cut, by planner: ments (1), tents (1)." in done.words
        return
    assert done.data["stopped"] is True
    assert [row["method"] for row in done.data["rows"]] == ["uct"]
    assert [job["method"] for job in done.data["not_run"]] == ["ments", "tents"]


def test_a_report_is_written_even_if_standard_output_takes_nothing(tmp_path):
    line = f"-m smoothcruiser plan {PROBLEM} --method exact --report page.html"
    command = [sys.executable, *line.split()]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "chain" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
@pytest.mark.compiles
def test_random_command_lines_run_or_are_refused_in_a_sentence(tmp_path, monkeypatch):
    line = "-m benchmarks.reliability.command_lines --lines 60 --cheap --seed 0"
    monkeypatch.chdir(tmp_path)
    done = run_words(*line.split(), PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "60 lines, 0 violations" in done.stdout


def test_the_law_of_random_lines_can_be_broken():
    from benchmarks.reliability.command_line_grammar import Line
    from benchmarks.reliability.command_lines import Ended, faults

    fine = Line(("exact", "--json"))
    bad = Line(("exact", "--json"), is_valid=False)
    assert list(faults(Ended(fine, 0, json.dumps({"a": 1})))) == []
    assert list(faults(Ended(bad, 2, "", "Error: no.\n"))) == []
    for ended in (
        Ended(fine, 2, "", "Error: no.\n"),
        Ended(fine, 0, '{"a": NaN}'),
        Ended(fine, 0, "{}{}"),
        Ended(bad, 1, "", "Error: no.\n"),
        Ended(bad, 2, "", "Traceback: no.\n"),
        Ended(bad, 2, "", "Error: \x1b[31m\n"),
        Ended(bad, None),
        Ended(bad, 130, "", "Error: Stopped.\n"),
        Ended(bad, 2, "", "Error: no.\n", wrote=("open /etc/x",)),
    ):
        assert list(faults(ended)), ended
