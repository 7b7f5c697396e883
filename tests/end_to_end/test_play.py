"""The commands ``play`` and ``check`` as a user calls them: answers on standard
output, one sentence and a code when refused.
"""

import json
import subprocess
import sys

import pytest

pytest.importorskip("gymnasium")


def command(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "smoothcruiser.cli.app", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        check=False,
    )


def test_play_frozen_lake():
    done = command(
        "play",
        "gym:FrozenLake-v1",
        "--discount",
        "0.99",
        "--operator",
        "max",
        "--episodes",
        "60",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["episodes"] == 60
    # the best policy reaches the goal in 82% of episodes
    assert 0.6 < summary["mean_return"] < 0.95
    assert summary["win_rate"] is None


def test_play_a_game_and_read_the_summary():
    pytest.importorskip("pyspiel")
    done = command(
        "play",
        "openspiel:connect_four",
        "--discount",
        "0.99",
        "--operator",
        "max",
        "--episodes",
        "4",
        "--method",
        "uct",
        "--budget",
        "500",
    )
    assert done.returncode == 0, done.stderr
    assert "win rate" in done.stdout
    assert "method uct against random" in done.stdout
    assert "calls per decision" in done.stdout


def test_play_against_a_function_of_the_users_own(tmp_path):
    pytest.importorskip("pyspiel")
    (tmp_path / "rivals.py").write_text(
        "def first(state, problem, rng):\n    return problem.legal_actions(state)[0]\n"
    )
    done = command(
        "play",
        "openspiel:tic_tac_toe",
        "--discount",
        "0.9",
        "--operator",
        "max",
        "--episodes",
        "2",
        "--method",
        "exact",
        "--opponent",
        "rivals:first",
        "--side",
        "1",
        "--json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["wins"] == 2


def test_check_passes_and_fails_with_its_codes(tmp_path):
    good = command(
        "check", "gym:CartPole-v1", "--discount", "0.5", "--temperature", "1"
    )
    assert good.returncode == 0, good.stderr
    assert "usable" in good.stdout
    assert "calls per second" in good.stdout
    (tmp_path / "mine.py").write_text(
        "import random\nimport smoothcruiser as sc\n"
        "def problem(discount, temperature):\n"
        "    return sc.MDP(lambda s, a, rng: (random.random(), s), num_actions=2, "
        "discount=discount,\n"
        "                  operator=sc.Entropy(temperature), initial_state=0)\n"
    )
    bad = command(
        "check",
        "mine:problem",
        "--discount",
        "0.5",
        "--temperature",
        "1",
        "--json",
        cwd=tmp_path,
    )
    assert bad.returncode == 1
    report = json.loads(bad.stdout)
    assert report["ok"] is False
    assert any(
        "draw every number from the rng" in finding["sentence"]
        for finding in report["findings"]
    )


@pytest.mark.parametrize(
    "arguments, words",
    [
        (
            ("play", "gym:NoSuch-v0", "--discount", "0.9", "--temperature", "1"),
            "cannot make 'NoSuch-v0'",
        ),
        (("play", "gym:CartPole-v1", "--temperature", "1"), "discount"),
        (
            (
                "play",
                "chain:n=4",
                "--discount",
                "0.9",
                "--temperature",
                "1",
                "--episodes",
                "0",
            ),
            "episodes must be",
        ),
        (
            ("check", "nothing:here", "--discount", "0.9", "--temperature", "1"),
            "nothing",
        ),
    ],
)
def test_refusals_are_one_sentence(arguments, words):
    done = command(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_play_with_the_options_of_a_tree_search():
    chain = [
        "chain:n=5",
        "--discount",
        "0.9",
        "--temperature",
        "0.1",
        "--episodes",
        "2",
        "--steps",
        "5",
    ]
    done = command(
        "play",
        *chain,
        "--method",
        "rents",
        "--simulations",
        "20",
        "--option",
        "prior=parent",
        "--option",
        "depth=4",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    # twenty simulations of four steps
    assert 0 < json.loads(done.stdout)["calls_per_decision"] <= 80
    wrong = command("play", *chain, "--method", "rents", "--option", "prior=moon")
    assert wrong.returncode == 2
    assert "prior must be 'visits' or 'parent', got 'moon'" in wrong.stderr
