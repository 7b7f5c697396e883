"""``gap`` through the front door: requests, refusals, known models, the answer as data.

Laws: a known model gives the exact regret of a policy, for every operator and in games
against independent values; what cannot be bounded is refused in one sentence that names
the remedy; an answer comes back from JSON equal to itself, and every display shows its
sentence.
"""

import math

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.exact.policy_value import policy_value

OPERATORS = [
    sc.Max(),
    sc.Entropy(0.5),
    sc.Sparsemax(0.5),
    sc.SquareRoot(0.3),
    sc.KL(0.5, prior=[0.2, 0.3, 0.5]),
]


def random_model(operator, players=None, horizon=None):
    rng = np.random.default_rng(7)
    P = rng.dirichlet(np.ones(6), (6, 3))
    R = rng.normal(size=(6, 3))
    legal = rng.random((6, 3)) < 0.7
    legal[:, 1] = True
    problem = sc.tabular(
        P,
        R,
        discount=0.9,
        operator=operator,
        legal=legal,
        players=players,
        horizon=horizon,
    )
    policy = np.where(legal, rng.random((6, 3)), 0.0)
    return problem, policy / policy.sum(1, keepdims=True)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: o.name)
@pytest.mark.parametrize("horizon", [None, 4])
def test_a_known_model_gives_the_exact_regret(operator, horizon):
    problem, policy = random_model(operator, horizon=horizon)
    gap = sc.gap(problem, policy=policy)
    best = float(sc.solve(problem).values[0])
    own = float(policy_value(problem, policy)[0])
    assert (gap.upper, gap.num_calls, gap.delta) == ("exact", 0, 0.0)
    assert gap.interval[0] <= best <= gap.interval[1]
    assert gap.policy_interval[0] <= own <= gap.policy_interval[1]
    assert gap.policy_interval[1] - gap.policy_interval[0] < 1e-8
    assert best - own <= gap.regret <= best - own + 1e-8


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: o.name)
def test_both_policies_of_a_known_game_are_bracketed(operator):
    problem, policy = random_model(operator, players=[1, 2, 1, 2, 2, 1])
    gap = sc.gap(problem, policies=(policy, policy))
    value = float(sc.solve(problem).values[0])
    own = float(policy_value(problem, policy)[0])
    assert gap.interval[0] <= min(own, value) <= max(own, value) <= gap.interval[1]
    assert gap.nash_conv == gap.regret > 0.1
    best = sc.gap(problem)
    assert best.nash_conv < 1e-8
    assert "equilibrium" in best.sentence


def test_the_answer_comes_back_from_json_and_shows_itself():
    problem, policy = random_model(sc.Max())
    gap = sc.gap(problem, policy=policy, seed=3)
    assert sc.Gap.from_json(gap.to_json()) == gap
    assert gap.to_dict()["sentence"] == gap.sentence
    assert "your policy is within" in gap.sentence
    assert "Your policy is within" in str(gap)
    assert "Your policy is within" in gap._repr_html_()
    assert [row["action"] for row in gap.records()] == [0, 1, 2]
    assert math.isnan(gap.q_values[0]) == (not problem.legal(0, 0))
    with pytest.raises(AttributeError, match="regret"):
        gap.suboptimality  # noqa: B018
    with pytest.raises(sc.InvalidInput, match="best_actions"):
        sc.Gap.from_dict(gap.to_dict() | {"best_actions": [7]})


def test_a_plot_has_a_row_for_v_the_policy_and_each_action():
    pytest.importorskip("matplotlib").use("Agg")
    problem, policy = random_model(sc.Max())
    gap = sc.gap(problem, policy=policy)
    labels = [text.get_text() for text in gap.plot().get_yticklabels()]
    legal = [str(a) for a in range(3) if problem.legal(0, a)]
    assert labels == ["optimal", "policy", *legal]


def test_a_terminal_state_has_no_gap():
    P, R = np.full((2, 1, 2), 0.5), np.ones((2, 1))
    problem = sc.tabular(P, R, discount=0.9, operator=sc.Max(), terminal=[False, True])
    gap = sc.gap(problem, policy=lambda state: 0, state=1)
    assert (gap.regret, gap.interval, gap.num_calls) == (0.0, (0.0, 0.0), 0)


def coin(state, action, rng):
    return float(rng.random() < 0.5 + 0.2 * action), state


def mdp(step=coin, **changes):
    usual = {"num_actions": 2, "discount": 0.5, "operator": sc.Max()}
    return sc.MDP(step, **(usual | {"initial_state": 0} | changes))


REFUSED = [
    ({"upper": "best"}, "upper must be one of"),
    ({"inner": "mesh"}, "without a bound"),
    ({"inner": 0}, "inner must be"),
    ({"policies": (None, None)}, "one player"),
    ({"features": 3}, "function of the state"),
    ({"features": len, "value": 0.0}, "drop it"),
    ({"epsilon": "tight"}, "epsilon must be"),
    ({"delta": 95}, "delta=0.05"),
    ({"epsilom": 1}, "did you mean epsilon="),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=lambda w: str(w)[:30])
def test_a_request_that_cannot_be_is_refused(words, said):
    with pytest.raises(sc.InvalidInput, match=said):
        sc.gap(mdp(), **words)


def batched_coin(states, actions, rng):
    return rng.random(len(states)), states


PROBLEMS = [
    (lambda: mdp(sample_action=lambda s, rng: 0, num_actions=None), "samples them"),
    (lambda: mdp(sc.batched(batched_coin)), "no stream for each row"),
    (
        lambda: mdp(operator=sc.CustomOperator(max, lambda q: [1.0, 0.0], smooth=1.0)),
        "convex and monotone",
    ),
]


@pytest.mark.parametrize(("make", "said"), PROBLEMS, ids=lambda w: str(w)[:12])
def test_a_problem_without_a_bound_is_refused(make, said):
    with pytest.raises(sc.InvalidInput, match=said):
        sc.gap(make(), policy=lambda state: 0)


def test_an_estimate_is_no_policy_of_a_gap():
    chain = sc.make("chain:n=5", discount=0.5, operator="max")
    with pytest.raises(sc.InvalidInput, match="one state alone"):
        sc.gap(chain, policy=sc.plan(chain))


def test_certified_search_gives_the_upper_end_where_it_is_named():
    gap = sc.gap(
        mdp(),
        policy=lambda state: 1,
        upper="certified",
        budget=20_000,
        seed=1,
        executor="reference",
    )
    assert gap.interval[0] <= 1.4 <= gap.interval[1]
    assert gap.policy_interval[0] <= 1.4 <= gap.policy_interval[1]
    assert gap.calls["search"] + gap.calls["policy"] == gap.num_calls <= 20_000
    assert gap.certificate.shares == {"search": 0.025, "policy": 0.025}
    assert sc.Gap.from_json(gap.to_json()) == gap


# --- paths ----------------------------------------------------------------------

PATHS = {"upper": "paths", "executor": "reference", "seed": 1}


@pytest.mark.parametrize("operator", OPERATORS[:3], ids=lambda o: o.name)
@pytest.mark.parametrize("players", [None, [1, 2, 1, 2, 2, 1]], ids=["mdp", "game"])
def test_paths_hold_what_the_known_model_says(operator, players):
    problem, policy = random_model(operator, players, horizon=3)
    known = sc.gap(problem, policy=policy)
    gap = sc.gap(problem, policy, sc.solve(problem), budget=40_000, **PATHS)
    assert gap.upper == "paths"
    assert sum(gap.calls.values()) == gap.num_calls <= 40_000
    assert gap.interval[0] <= known.interval[0] <= known.interval[1] <= gap.interval[1]
    assert gap.policy_interval[0] <= known.policy_value <= gap.policy_interval[1]
    assert known.regret - 1e-9 <= gap.regret < known.regret + 1.5
    if players is None:
        for low_high, q in zip(gap.q_intervals, known.q_values, strict=True):
            assert math.isnan(q) or low_high[0] <= q <= low_high[1]
    assert sc.Gap.from_json(gap.to_json()) == gap


def test_a_bound_on_v_says_nothing_of_a_policy_that_loses():
    """gap-referee, item 7: V >= 0 is declared and true, the policy earns -5 a step."""

    def step(state, action, rng):
        return (-5.0 if action == 0 else 0.1 * rng.random()), 1 - state

    problem = mdp(step, reward_range=(-5, 1), value_bounds=(0.0, 2.0))
    gap = sc.gap(problem, lambda state: 0, 0.0, budget=20_000, **PATHS)
    assert gap.policy_interval[0] <= -10.0 <= gap.policy_interval[1] < -8.0
    assert gap.regret >= 10.0 + gap.interval[0]


@pytest.mark.parametrize("upper", ["paths", "certified"])
def test_a_minimizer_s_regret_is_what_its_policy_costs_more(upper):
    asked = {**PATHS, "upper": upper, "budget": 20_000}
    gap = sc.gap(mdp(minimize=True), lambda state: 1, 1.0, **asked)
    assert gap.interval[0] <= 1.0 <= gap.interval[1]
    assert gap.policy_interval[0] <= 1.4 <= gap.policy_interval[1]
    assert 0.4 <= gap.regret < 0.6
    assert gap.minimize
    assert sc.Gap.from_json(gap.to_json()) == gap


class Changes:
    """A function whose answers change after some calls."""

    def __init__(self, calls):
        self.calls = calls

    def __call__(self, state):
        self.calls -= 1
        return 0 if self.calls > 0 else 1


@pytest.mark.parametrize("calls", [3, 300])
def test_a_value_that_remembers_is_refused(calls):
    with pytest.raises(sc.InvalidInput, match="one fixed function"):
        sc.gap(mdp(), lambda state: 1, Changes(calls), budget=20_000, **PATHS)


def test_a_policy_that_learns_is_refused():
    with pytest.raises(sc.InvalidInput, match="learns or remembers"):
        sc.gap(mdp(), Changes(100), 1.2, budget=20_000, **PATHS)


def test_declared_bounds_that_are_false_are_an_error():
    problem = mdp(value_bounds=(1.9, 2.0))
    with pytest.raises(sc.OracleError, match="exclude each other"):
        sc.gap(problem, lambda state: 1, 1.2, budget=20_000, **PATHS)


def test_the_seed_is_fresh_unless_it_is_named():
    asked = {**PATHS, "seed": None, "budget": 2_000}
    seeds = {sc.gap(mdp(), lambda state: 1, 1.2, **asked).seed for _ in range(2)}
    assert len(seeds) == 2
    gap = sc.gap(mdp(), lambda state: 1, 1.2, **{**asked, "seed": 5})
    assert gap.seed == gap.certificate.seed == 5
    again = sc.gap(mdp(), lambda state: 1, 1.2, **{**asked, "seed": 5})
    assert (again.interval, again.regret) == (gap.interval, gap.regret)


def test_a_world_that_never_merges_says_so():
    def drift(state, action, rng):
        return min(1.0, abs(state)), 0.9 * state + 0.5 * action + 0.3 * rng.normal()

    problem = mdp(drift, num_actions=3, discount=0.9, initial_state=0.0)
    gap = sc.gap(problem, lambda state: 1, 1.0, budget=10_000, **PATHS)
    assert "K^H" in " ".join(gap.notes)
    assert gap.interval == problem.facts.value_bounds(1) or gap.epsilon > 1.0


def trade(state, action, rng):
    """Storage of three units: the price never comes back, levels merge."""
    level, log_price = state
    later = min(1.2, max(-1.2, 0.9 * log_price + 0.2 * rng.normal()))
    price = math.exp(log_price)
    if action == 0 and level > 0:
        return 0.95 * price, (level - 1, later)
    if action == 2 and level < 3:
        return -price, (level + 1, later)
    return 0.0, (level, later)


@pytest.mark.compiles
def test_auto_follows_paths_where_no_schedule_says_much():
    problem = mdp(
        trade,
        num_actions=3,
        discount=0.8,
        reward_range=(-3.33, 3.17),
        initial_state=(1, 0.0),
    )
    estimate = sc.plan(problem, budget=400_000)
    assert estimate.method == "gap"
    assert "auto chose gap" in estimate.notes[0]
    low, high = estimate.interval
    assert low <= 0.95 <= high < low + 4.0  # 13 wide by the rewards alone
    assert estimate.action == 0
    assert estimate.num_calls <= 400_000
    assert sc.Estimate.from_json(estimate.to_json()) == estimate
    price = sc.explain(problem, epsilon=0.5, method="gap")
    assert "forces" in str(price)
    fixed = sc.plan(
        problem, method="gap", options={"value": 0.9}, budget=60_000, target="value"
    )
    assert (fixed.q_values, fixed.policy, fixed.action) == ((), (), None)
    assert fixed.interval[0] <= 0.95 <= fixed.interval[1]


# --- the command line -----------------------------------------------------------


def run_command(*words):
    from click.testing import CliRunner

    from smoothcruiser.cli.app import app

    return CliRunner().invoke(app, ["gap", *words], catch_exceptions=True)


def test_the_command_prints_the_sentence_and_one_json_object(tmp_path):
    words = ["chain:n=5", "--discount", "0.5", "--operator", "max"]
    shown = run_command(*words, "--policy", "random")
    assert "Your policy is within 90% of optimal" in shown.output
    page = tmp_path / "gap.html"
    data = run_command(*words, "--policy", "greedy", "--json", "--report", str(page))
    gap = sc.Gap.from_json(data.output)
    assert gap.regret < 1e-9
    assert "optimal" in page.read_text()
    np.save(tmp_path / "policy.npy", np.zeros(5, np.int64))
    left = run_command(*words, "--policy", str(tmp_path / "policy.npy"), "--json")
    assert sc.Gap.from_json(left.output).regret == pytest.approx(0.125)
    missing = run_command(*words, "--policy", "nowhere:rule")
    assert "could not be found" in str(missing.exception)
