"""``minimize=True``: every number is a cost, and pages say so.

Two states; action 0 costs 1 and stays, action 1 costs 3 and leads to state 1, where
nothing costs anything. At discount 1/2 the lowest cost of state 0 is 1 + 1/2 + … = 2.
"""

import dataclasses
import json
import math

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.problem.make import from_spec
from smoothcruiser.progress.bar import Bar

# under load the clock changes searches and solvers over to compiled loops
pytestmark = pytest.mark.compiles

COSTS = [[1.0, 3.0], [0.0, 0.0]]
P = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])


def table(**changes):
    usual = {"discount": 0.5, "operator": sc.Max(), "minimize": True}
    return sc.tabular(P, changes.pop("R", COSTS), **(usual | changes))


def cost_step(state, action, rng):
    return COSTS[state][action], 1 if action == 1 else state


def gain_step(state, action, rng):
    cost, after = cost_step(state, action, rng)
    return -cost, after


def mdp(step=cost_step, **changes):
    usual = {
        **{"num_actions": 2, "discount": 0.5, "operator": sc.Max()},
        **{"initial_state": 0, "reward_range": (0.0, 3.0), "minimize": True},
    }
    return sc.MDP(step, **(usual | changes))


def test_the_least_cost_is_found():
    estimate = sc.plan(table(), method="exact")
    assert estimate.value == pytest.approx(2.0)
    assert estimate.q_values == pytest.approx((2.0, 3.0))
    assert estimate.action == 0
    assert estimate.minimize


def test_the_regularized_cost_is_minus_f_of_minus_q():
    estimate = sc.plan(table(operator=sc.Entropy(0.5)), method="exact")
    q = np.array(estimate.q_values)
    assert estimate.value == pytest.approx(-0.5 * math.log(np.exp(-2.0 * q).sum()))


def test_one_player_minimizes():
    problem = table()
    assert (problem.sole_player, problem.minimizes, problem.mover(0)) == (2, True, 2)
    assert problem.tables.player.tolist() == [2, 2]
    assert problem.facts.sole_player == 2
    assert problem.facts.value_bounds(2) == (0.0, 6.0)
    game = sc.make("random-game", discount=0.5, temperature=1)
    assert (game.sole_player, game.minimizes) == (None, False)
    assert sc.make("chain:n=3", discount=0.5, temperature=1).sole_player == 1


def test_tables_follow_the_field():
    rewards = dataclasses.replace(table(), minimize=False)
    assert rewards.tables.player.tolist() == [1, 1]
    assert sc.plan(rewards, method="exact").value == pytest.approx(3.0)


@pytest.mark.parametrize(
    "text", ["chain:n=4,minimize=true", "gym:FrozenLake-v1,minimize=true"]
)
def test_names_take_it(text):
    pytest.importorskip("gymnasium")
    problem = sc.make(text, discount=0.5, temperature=0.1)
    assert problem.minimizes
    assert from_spec(problem.spec).minimizes


def test_make_takes_it_and_a_spec_keeps_it():
    problem = sc.make("chain:n=4", discount=0.5, temperature=0.1, minimize=True)
    assert problem.spec["declared"] == {"minimize": True}
    assert from_spec(problem.spec).minimizes
    taken_back = sc.make("chain:n=4,minimize=none", discount=0.5, temperature=0.1)
    assert not taken_back.minimizes
    game = sc.make("random-game", discount=0.5, temperature=1, minimize=False)
    assert game.sole_player is None
    with pytest.raises(sc.InvalidInput, match="two, one of whom minimizes"):
        sc.make("random-game", discount=0.5, temperature=1, minimize=True)


def test_bounds_of_the_maximizer_do_not_stay():
    rewards = table(minimize=False, value_bounds=(0.0, 3.0))
    from smoothcruiser.problem.declarations import declare

    costs = declare(rewards, {"minimize": True})
    assert costs.value_bounds is None
    given = declare(rewards, {"minimize": True, "value_bounds": (0.0, 2.0)})
    assert given.facts.value_bounds(2) == (0.0, 2.0)


def test_an_infinite_cost_is_an_illegal_action():
    estimate = sc.plan(table(R=[[math.inf, 3.0], [0.0, 0.0]]), method="exact")
    assert estimate.policy == (0.0, 1.0)
    assert estimate.value == pytest.approx(3.0)


def test_json_has_the_word_of_costs_alone():
    costs = sc.plan(table(), method="exact")
    rewards = sc.plan(table(minimize=False), method="exact")
    assert json.loads(costs.to_json())["minimize"] is True
    assert "minimize" not in json.loads(rewards.to_json())
    assert sc.Estimate.from_json(costs.to_json()) == costs
    solution = sc.solve(table())
    assert sc.Solution.from_json(solution.to_json()).minimize
    schedule = sc.explain(mdp(), epsilon="50%", delta=0.1, method="smoothcruiser")
    assert type(schedule).from_json(schedule.to_json()).facts.minimize
    assert costs.frame_attrs()["minimize"] is True


def test_pages_speak_of_costs():
    problem = mdp()
    planned = sc.plan(problem, method="certified", epsilon=0.2, delta=0.1)
    for result in (problem, planned, sc.solve(table())):
        assert "cost" in str(result)
        assert "reward" not in str(result).replace("reward_range", "")
        assert "value " not in str(result)
    explained = str(
        sc.explain(problem, epsilon="50%", delta=0.1, method="smoothcruiser")
    )
    assert "the lowest cost and every action's cost within" in explained
    assert "V, the lowest cost, is at most" in planned._repr_html_()
    assert any(
        x.startswith("every cost lies in [0, 3]")
        for x in planned.certificate.assumptions
    )


def test_a_bar_speaks_of_costs():
    bar = Bar(lines=False)
    sc.plan(mdp(), method="certified", budget=200, delta=0.1, progress=bar)
    assert bar.last.word == "cost"
    assert bar.last.interval[0] >= 0.0


def test_a_policy_bounds_the_least_cost_from_above():
    wasteful = sc.evaluate(mdp(), lambda state: 1, budget=4_000)
    assert wasteful.value == pytest.approx(3.0)
    assert wasteful.interval[0] <= 3.0 <= wasteful.interval[1]
    assert "its upper end is an upper bound on V(state)" in wasteful.certificate.bound
    mirrored = sc.evaluate(
        mdp(gain_step, minimize=False, reward_range=(-3.0, 0.0)),
        lambda state: 1,
        budget=4_000,
    )
    assert wasteful.interval == tuple(-x for x in mirrored.interval[::-1])


def test_a_tree_certifies_its_policy_from_above():
    estimate = sc.plan(mdp(), method="uct", budget=4_000, certify=True)
    assert estimate.interval[0] == 0.0  # what the costs allow
    assert 2.0 <= estimate.interval[1] < 6.0
    assert any("V(state) is at most" in note for note in estimate.notes)


def test_episodes_are_costs_without_wins():
    summary = sc.play(sc.Agent(mdp(), lambda state: 1), episodes=3, steps=5)
    assert (summary.mean_return, summary.win_rate, summary.wins) == (3.0, None, None)
    assert summary.mean_discounted_return == pytest.approx(3.0)
    assert "discounted cost" in str(summary)
    with pytest.raises(sc.InvalidInput, match="one player"):
        sc.play(sc.Agent(mdp(), lambda state: 1), episodes=1, side=2)


def test_comparisons_measure_costs():
    comparison = sc.compare(table(), budgets=[50], methods=["uct", "exact"])
    assert comparison.minimize
    assert comparison.truth.value == pytest.approx(2.0)
    assert comparison.truth.action_regret(1) == pytest.approx(1.0)
    assert "exact cost 2 " in str(comparison)


def test_a_memory_is_a_table_of_costs():
    search = sc.Certified(mdp(), delta=0.1)
    search.query(0, budget=200)
    assert search.table().minimize
    assert "cost" in str(search.table())
    assert search.table().kept().minimize


def test_plots_are_of_costs():
    pytest.importorskip("matplotlib")
    assert sc.plan(table(), method="exact").plot().get_xlabel() == "cost"
    assert sc.solve(table()).plot().get_ylabel() == "V, the lowest cost"


def test_total_costs_without_a_discount():
    problem = table(discount=1.0, terminal=[False, True])
    assert sc.plan(problem, method="exact").value == pytest.approx(3.0)


def test_compiled_and_batched_steps_are_minimized():
    import numba

    compiled = numba.njit(lambda s, a, rng: (1.0 + 2.0 * a, max(s, a)))
    batched = sc.batched(lambda s, a, rng: (1.0 + 2.0 * a, np.maximum(s, a)))
    promise = {"epsilon": 0.5, "delta": 0.1, "method": "smoothcruiser"}
    values = [
        sc.plan(mdp(step, reward_range=(1.0, 3.0)), executor=executor, **promise).value
        for step, executor in ((compiled, "compiled"), (batched, "batched"))
    ]
    assert values == pytest.approx([2.0, 2.0], abs=0.5)
    tree = sc.plan(mdp(compiled, reward_range=(1.0, 3.0)), method="uct", budget=500)
    assert tree.action == 0
