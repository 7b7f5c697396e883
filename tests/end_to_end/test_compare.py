"""``smoothcruiser compare``: every planner on one problem, by the same
yardstick; table, JSON, plot, errors. And ``plan`` on trees.
"""

import json
import re
import subprocess
import sys

import pytest

import smoothcruiser as sc
from smoothcruiser.comparison import compare, ladder, planners, truth_of
from smoothcruiser.schedule.alternatives import payable_epsilon

GARNET = ["garnet:states=8,actions=2", "--discount", "0.5", "--temperature", "0.5"]


def run(*arguments):
    command = [
        sys.executable,
        "-c",
        "from smoothcruiser.cli.app import main; main()",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_json_has_a_row_for_every_planner():
    done = run("compare", *GARNET, "--budget", "2e4", "--repeats", "2", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert [s["method"] for s in data["means"]] == list(planners())
    assert len(data["rows"]) == 2 * len(planners())
    assert data["exact"] == pytest.approx(
        sc.solve(sc.make(GARNET[0], discount=0.5, temperature=0.5)).values[0]
    )
    for row in data["rows"]:
        assert 0 < row["num_calls"] <= 20_000
        assert row["error"] == pytest.approx(abs(row["value"] - data["exact"]))
        assert row["action_regret"] >= 0.0
        assert row["policy_regret"] >= -1e-9
    assert data["state"] == 0
    estimates = {s["method"]: s["estimates"] for s in data["means"]}
    assert estimates["ments"] == estimates["certified"] == "entropy(0.5)"
    assert estimates["uct"] == estimates["rents"] == "max"
    assert estimates["tents"] == "sparsemax(0.5)"
    promised = next(s for s in data["means"] if s["method"] == "certified")
    assert promised["error"] < 0.1


def test_table_and_plot(tmp_path):
    picture = tmp_path / "curves.svg"
    done = run(
        "compare",
        *GARNET,
        "--budget",
        "1e4",
        "--methods",
        "uct,ments",
        "--points",
        "3",
        "--plot",
        str(picture),
    )
    assert done.returncode == 0, done.stderr
    assert "exact value" in done.stdout
    assert "ments" in done.stdout
    assert (
        "Not all estimate V, the value of entropy(0.5): uct that of max."
        in " ".join(done.stdout.split())
    )
    assert picture.read_text().count("<path") > 10


@pytest.mark.slow
def test_every_budget_is_shown_and_a_plot_is_checked_before_the_runs():
    done = run(
        "compare",
        *GARNET,
        "--budget",
        "1e4",
        "--methods",
        "uct,bts",
        "--points",
        "3",
        "--repeats",
        "2",
    )
    assert [
        line.split()[0]
        for line in done.stdout.splitlines()
        if line.startswith(("uct", "bts"))
    ] == ["uct"] * 3 + ["bts"] * 3
    assert "uct, bts that of max." in " ".join(done.stdout.split())
    for wrong, told in (("x.foo", "svg, png or pdf"), ("nowhere/x.svg", "folder")):
        refused = run("compare", *GARNET, "--budget", "1e12", "--plot", wrong)
        assert refused.returncode == 2
        assert told in refused.stderr


def test_what_cannot_be_run_says_why():
    done = run(
        "compare",
        "garnet",
        "--discount",
        "0.99",
        "--temperature",
        "0.1",
        "--budget",
        "10",
        "--methods",
        "smoothcruiser,uct",
    )
    assert done.returncode == 0, done.stderr
    assert "can be paid with 10 calls" in " ".join(done.stdout.split())
    assert "Not one simulation was finished" in " ".join(done.stdout.split())
    wrong = run("compare", *GARNET, "--budget", "1000", "--methods", "alpha")
    assert wrong.returncode == 2
    assert "alpha" in wrong.stderr


def test_plan_takes_options_of_tree_searches():
    done = run(
        "plan",
        "d-chain:final=0.5",
        "--discount",
        "1",
        "--operator",
        "max",
        "--method",
        "ments",
        "--option",
        "temperature=0.16",
        "--option",
        "expansion=null",
        "--option",
        "initial-q=0",
        "--simulations",
        "5000",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["action"] == 0  # too warm: the published failure
    assert answer["certificate"] is None
    wrong = run(
        "plan", *GARNET, "--method", "uct", "--option", "heat=1", "--budget", "1000"
    )
    assert wrong.returncode == 2
    assert "heat" in wrong.stderr


def test_regrets_by_hand():
    """A bandit with values 1 and 0 under entropy 1: the best policy is the
    softmax; always taking the second action loses log(1 + e).
    """
    problem = sc.tabular(
        [[[1.0], [1.0]]], [[1.0, 0.0]], discount=0.0, operator=sc.Entropy(1.0)
    )
    truth = truth_of(problem, 0)
    assert truth.action_regret(1) == pytest.approx(1.0)
    assert truth.policy_regret([0.0, 1.0]) == pytest.approx(1.3132616875182228)
    assert truth.policy_regret(sc.solve(problem).policy[0]) == pytest.approx(
        0.0, abs=1e-12
    )


def test_the_min_player_regrets_what_is_large():
    problem = sc.tabular(
        [[[1.0], [1.0]]], [[1.0, 0.0]], discount=0.0, operator=sc.Max(), players=[2]
    )
    truth = truth_of(problem, 0)
    assert (truth.action_regret(0), truth.action_regret(1)) == (1.0, 0.0)


def test_the_bound_of_the_truth_is_kept():
    """Exact values have a proven error: rows and JSON carry it, and the table
    prints no error that is below it.
    """
    problem = sc.make(GARNET[0], discount=0.5, temperature=0.5)
    bound = sc.solve(problem).residual_bound
    assert truth_of(problem, 0).bound == bound > 0.0
    (row,) = compare(problem, budgets=[500], methods=["uct"])
    assert row.truth_bound == bound
    done = run("compare", *GARNET, "--budget", "500", "--methods", "uct", "--json")
    data = json.loads(done.stdout)
    assert data["exact_bound"] == data["rows"][0]["truth_bound"] == bound
    shown = run("compare", *GARNET, "--budget", "500", "--methods", "uct").stdout
    told = re.search(r"exact value [0-9.]+ ± (\S+);", shown)
    assert bound <= float(told[1]) <= 11 * bound
    assert data["rows"][0]["action_regret"] == 0.0
    # 0 by a truth that is known up to its bound
    assert re.search(r"uct .* ≤ \de-\d+ ", shown)


def test_the_schedule_spends_what_it_may():
    problem = sc.make("chain:n=5", discount=0.2, temperature=10.0)
    epsilon = payable_epsilon(problem.facts, 0.1, "q_values", 10_000)
    assert sc.explain(problem, epsilon=epsilon, delta=0.1).num_calls <= 10_000
    assert sc.explain(problem, epsilon=0.95 * epsilon, delta=0.1).num_calls > 10_000


def test_ladder_and_unknown_models():
    assert ladder(1000, 1) == (1000,)
    assert ladder(1000, 4) == (1, 10, 100, 1000)
    problem = sc.MDP(
        lambda s, a, rng: (0.5, s),
        num_actions=2,
        discount=0.5,
        operator=sc.Max(),
        initial_state=0,
    )
    (row,) = compare(problem, budgets=[500], methods=["uct"])
    assert row.error is None
    assert row.value == pytest.approx(1.0, abs=0.1)
