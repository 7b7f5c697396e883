"""``smoothcruiser compare``: every planner on one problem, by the same
yardstick; table, JSON, plot, errors. And ``plan`` on trees.
"""

import re

import pytest

import smoothcruiser as sc

GARNET = "garnet:states=8,actions=2 --discount 0.5 --temperature 0.5"


PLANNERS = [
    "smoothcruiser",
    "certified",
    "uct",
    "ments",
    "rents",
    "tents",
    "bts",
    "dents",
    "puct",
    "gumbel",
]


def truth_of(problem):
    """The exact values that a comparison holds its runs against."""
    return sc.compare(problem, budgets=[1], methods=["uct"]).truth


def garnet():
    return sc.make("garnet:states=8,actions=2", discount=0.5, temperature=0.5)


def test_json_has_a_row_for_every_planner(run):
    done = run(f"compare {GARNET} --budget 2e4 --repeats 2 --json")
    assert done.code == 0, done.err
    data = done.data
    assert [s["method"] for s in data["means"]] == PLANNERS
    assert len(data["rows"]) == 2 * len(PLANNERS)
    assert data["exact"] == pytest.approx(sc.solve(garnet()).values[0])
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


def test_the_table_has_every_budget_and_what_is_estimated(run, tmp_path):
    curves = tmp_path / "curves.svg"
    line = f"compare {GARNET} --budget 1e4 --methods uct,ments --points 3"
    done = run(f"{line} --plot {curves}")
    assert done.code == 0, done.err
    assert "exact value" in done.out
    lines = [text.split()[0] for text in done.out.splitlines() if text]
    assert (lines.count("uct"), lines.count("ments")) == (3, 3)
    told = "Not all estimate V, the value of entropy(0.5): uct that of max."
    assert told in done.words
    assert curves.read_text().count("<path") > 10


def test_what_cannot_be_run_says_why(run):
    problem = "garnet --discount 0.99 --temperature 0.1"
    done = run(f"compare {problem} --budget 10 --methods smoothcruiser,uct")
    assert done.code == 0, done.err
    assert "can be paid with 10 calls" in done.words
    assert "Not one simulation was finished" in done.words


def test_plan_takes_options_of_tree_searches(run):
    options = "temperature=0.16", "expansion=null", "initial-q=0"
    line = "plan d-chain:final=0.5 --discount 1 --operator max --method ments"
    line += "".join(f" --option {option}" for option in options)
    answer = run(f"{line} --simulations 5000 --json").data
    assert answer["action"] == 0  # too warm: the published failure
    assert answer["certificate"] is None


def test_regrets_by_hand():
    """A bandit with values 1 and 0 under entropy 1: the best policy is the
    softmax; always taking the second action loses log(1 + e). The min player
    regrets what is large.
    """
    rewards = [[[1.0], [1.0]]], [[1.0, 0.0]]
    problem = sc.tabular(*rewards, discount=0.0, operator=sc.Entropy(1.0))
    truth = truth_of(problem)
    assert truth.action_regret(1) == pytest.approx(1.0)
    assert truth.policy_regret([0.0, 1.0]) == pytest.approx(1.3132616875182228)
    best = sc.solve(problem).policy[0]
    assert truth.policy_regret(best) == pytest.approx(0.0, abs=1e-12)
    least = sc.tabular(*rewards, discount=0.0, operator=sc.Max(), players=[2])
    truth = truth_of(least)
    assert (truth.action_regret(0), truth.action_regret(1)) == (1.0, 0.0)


def test_the_bound_of_the_truth_is_kept(run):
    """Exact values have a proven error: rows and JSON carry it, and the table
    prints no error that is below it.
    """
    bound = sc.solve(garnet()).residual_bound
    assert truth_of(garnet()).bound == bound > 0.0
    line = f"compare {GARNET} --budget 500 --methods uct"
    data = run(f"{line} --json").data
    assert data["exact_bound"] == data["rows"][0]["truth_bound"] == bound
    shown = run(line).out
    told = re.search(r"exact value [0-9.]+ ± (\S+);", shown)
    assert bound <= float(told[1]) <= 11 * bound
    assert data["rows"][0]["action_regret"] == 0.0
    # 0 by a truth that is known up to its bound
    assert re.search(r"uct .* ≤ \de-\d+ ", shown)


def test_ladder_and_unknown_models(run):
    line = f"compare {GARNET} --budget 1000 --methods uct --json"
    for points, budgets in ((1, [1000]), (4, [1, 10, 100, 1000])):
        rows = run(f"{line} --points {points}").data["rows"]
        assert [row["budget"] for row in rows] == budgets
    facts = {"discount": 0.5, "operator": sc.Max(), "initial_state": 0}
    problem = sc.MDP(lambda s, a, rng: (0.5, s), num_actions=2, **facts)
    (row,) = sc.compare(problem, budgets=[500], methods=["uct"])
    assert row.error is None
    assert row.value == pytest.approx(1.0, abs=0.1)
