"""A tree's budget, memory, reuse and answers; ``plan`` with tree searches;
errors that name the remedy.
"""

import copy
import itertools
import math
import pickle
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

GARNET = sc.make("garnet:states=20,actions=3,seed=1", discount=0.8, temperature=0.3)
CHAIN = sc.make("d-chain", discount=1.0, operator="max")


def test_calls_are_counted_and_never_exceeded():
    """A simulation that would need more calls waits: 100 calls of 21-step
    simulations are four of them and a part.
    """
    tree = sc.Tree(GARNET, method="uct").grow(calls=100)
    assert tree.setting.limit == 21  # 0.8**21 < 0.01
    assert (tree.num_calls, tree.simulations) == (100, 4)
    tree.grow(calls=50)
    assert tree.num_calls == 150
    plain = sc.Tree(GARNET, method="uct", executor="reference").grow(calls=100)
    assert (plain.num_calls, plain.simulations) == (100, 4)


def test_growth_in_pieces_is_growth_at_once():
    whole = sc.Tree(GARNET, method="dents", seed=4).grow(simulations=300)
    pieces = sc.Tree(GARNET, method="dents", seed=4)
    for _ in range(3):
        pieces.grow(simulations=100)
    assert pieces.node(0) == whole.node(0)
    assert sc.Tree(GARNET, method="dents", seed=5).grow(simulations=300).node(
        0
    ) != whole.node(0)


def test_seconds_and_progress(monkeypatch):
    """A clock that moves by 1/8 s at each reading, read twice per slice: the
    fourth slice ends at 1 s, and the three before it are reported, between the
    beginning and the end.
    """
    tree, seen = sc.Tree(GARNET, method="ments"), []
    clock = SimpleNamespace(perf_counter=itertools.count(0.0, 0.125).__next__)
    monkeypatch.setattr("smoothcruiser.tree.tree.time", clock)
    tree.grow(seconds=1.0, progress=lambda news: seen.append(news.calls))
    assert seen == [0, 1, 2, 3, 4]
    assert tree.num_calls == 4


def test_memory_is_bounded_and_the_search_goes_on():
    tree = sc.Tree(GARNET, method=sc.MENTS(max_nodes=50)).grow(simulations=5000)
    assert tree.num_nodes == 50
    assert tree.simulations == 5000
    assert any("full" in note for note in tree.estimate().notes)


def test_room_doubles_without_a_trace():
    """More nodes than the first 1,024 rows: the same tree as in plain Python,
    which has no rows.
    """
    compiled = sc.Tree(GARNET, method="bts", seed=2).grow(simulations=1500)
    assert compiled.num_nodes > 1024
    assert compiled.node(0) == sc.Tree(
        GARNET, method="bts", seed=2, executor="reference"
    ).grow(simulations=1500).node(0)


@pytest.mark.parametrize("executor", ["compiled", "reference"])
def test_advance_keeps_what_is_below(executor):
    tree = sc.Tree(GARNET, method="ments", seed=1, executor=executor).grow(
        simulations=2000
    )
    action, child = max(tree.children(0), key=lambda pair: tree.node(pair[1]).visits)
    kept = tree.node(child)
    grandchildren = sorted(
        (a, tree.node(i).visits, tree.node(i).value) for a, i in tree.children(child)
    )
    tree.advance(action, kept.state)
    assert (tree.state, tree.elapsed) == (kept.state, 1)
    root = tree.node(0)
    assert (root.visits, root.value, root.edge_totals) == (
        kept.visits,
        kept.value,
        kept.edge_totals,
    )
    assert (
        sorted(
            (a, tree.node(i).visits, tree.node(i).value) for a, i in tree.children(0)
        )
        == grandchildren
    )
    assert tree.num_nodes < 2001
    tree.grow(simulations=500)  # and it still grows
    assert tree.node(0).visits == kept.visits + 500


def test_advance_agrees_between_executors():
    trees = [
        sc.Tree(GARNET, method="dents", seed=1, executor=e).grow(simulations=400)
        for e in ("compiled", "reference")
    ]
    action, child = trees[0].children(0)[0]
    state = trees[0].node(child).state
    for tree in trees:
        tree.advance(action, state).grow(simulations=200)
    assert trees[0].node(0) == trees[1].node(0)
    assert trees[0].num_calls == trees[1].num_calls


def test_advance_shortens_the_horizon_and_may_start_anew():
    tree = sc.Tree(CHAIN, method="bts").grow(simulations=5)
    assert tree.setting.limit == 10
    tree.advance(0, 1)
    assert tree.setting.limit == 9
    fresh = sc.Tree(GARNET, method="bts").grow(simulations=3)
    seen = {fresh.node(i).state for _, i in fresh.children(0)}
    unseen = next(s for s in range(20) if s not in seen)
    fresh.advance(0, unseen)
    assert (fresh.num_nodes, fresh.node(0).visits) == (1, 0)
    with pytest.raises(sc.InvalidInput, match="terminal"):
        tree.advance(1, 10)
    with pytest.raises(sc.InvalidInput, match="not legal"):
        tree.advance(7, 2)


def test_a_tree_promises_nothing():
    estimate = sc.plan(GARNET, method="ments", budget=20_000, seed=3)
    assert estimate.certificate is None
    assert estimate.interval is None
    assert (estimate.epsilon, estimate.delta) == (None, None)
    assert estimate.num_calls <= 20_000
    assert math.isclose(sum(estimate.policy), 1.0)
    assert (
        sc.plan(GARNET, method=sc.MENTS(), budget=20_000, seed=3).q_values
        == estimate.q_values
    )


def test_simulations_and_methods_in_plan():
    first = sc.plan(
        CHAIN,
        method=sc.DENTS(search_temperature=1.0, expansion=None, initial_q=0.0),
        simulations=10_000,
    )
    assert first.action == 0
    assert first.policy == (1.0, 0.0)  # under Max the policy is the recommended action
    assert first.method == "dents"
    with pytest.raises(sc.InvalidInput, match="exact does not use simulations"):
        sc.plan(GARNET, method="exact", simulations=10)
    few = sc.plan(GARNET, method="uct", budget=5)
    assert few.notes[0].startswith("Not one simulation was finished")


def test_illegal_actions_have_no_value():
    problem = sc.make("sailing", discount=1.0, operator="max")
    estimate = sc.plan(problem, method="uct", simulations=500)
    for a, (q, share) in enumerate(
        zip(estimate.q_values, estimate.policy, strict=True)
    ):
        assert math.isnan(q) == (a not in problem.legal_actions(3))
        assert share == 0.0 or not math.isnan(q)


def test_certify_bounds_from_below():
    exact = sc.solve(GARNET).values[0]
    estimate = sc.plan(
        GARNET, method="ments", budget=200_000, certify=True, delta=0.01
    )
    assert estimate.certificate.kind == "policy"
    assert estimate.interval[0] <= exact <= estimate.interval[1]
    assert estimate.interval[0] > exact - 1.0
    assert estimate.num_calls <= 200_000
    game = sc.make("random-game", discount=0.5, temperature=1.0)
    with pytest.raises(sc.InvalidInput, match="game"):
        sc.plan(game, method="uct", budget=1000, certify=True)


def bad_reward(state, action, rng):
    return (2.0 if state == 3 else 0.5), state + 1


def test_errors_name_state_and_action():
    problem = sc.MDP(
        bad_reward, num_actions=2, discount=0.5, operator=sc.Max(), initial_state=0
    )
    with pytest.raises(sc.OracleError, match=r"reward 2\.0 at state 3, action"):
        sc.plan(problem, method="uct", budget=1000)


def test_an_end_has_to_be_declared():
    problem = sc.MDP(
        lambda s, a, rng: (0.5, s + 1, s == 2),
        num_actions=2,
        discount=0.5,
        operator=sc.Max(),
        initial_state=0,
    )
    with pytest.raises(sc.OracleError, match="declares no terminal"):
        sc.plan(problem, method="ments", budget=1000)


def test_states_have_to_be_told_apart():
    problem = sc.MDP(
        lambda s, a, rng: (0.5, [1]),
        num_actions=2,
        discount=0.5,
        operator=sc.Max(),
        initial_state=(0,),
    )
    with pytest.raises(sc.InvalidInput, match="unhashable"):
        sc.plan(problem, method="ments", budget=1000)


def test_one_state_many_visits():
    """A self-loop is recognized as the same next state each time: one child an
    action.
    """
    problem = sc.make("chain:n=2", discount=0.5, operator="max")
    tree = sc.Tree(problem, 1, method="uct").grow(simulations=100)
    assert len(tree.children(0)) == 2
    assert {tree.node(i).state for _, i in tree.children(0)} == {1}


def test_advance_checks_before_it_changes_anything():
    """A state that is none used to end the process; a horizon that is over used
    to leave the tree half moved.
    """
    tree = sc.Tree(
        sc.make("chain:n=5", discount=0.9, temperature=0.1), method="ments"
    ).grow(simulations=100)
    for wrong in (99, -1, 10**8, "x"):
        with pytest.raises(sc.InvalidInput):
            tree.advance(0, wrong)
    short = sc.Tree(
        replace(sc.make("chain:n=5", discount=0.9, temperature=0.1), horizon=2),
        method="ments",
    ).grow(simulations=100)
    short.advance(1, 1)
    with pytest.raises(sc.InvalidInput, match="The horizon of 2 steps is over"):
        short.advance(1, 2)
    assert (short.state, short.elapsed, short.node(0).state) == (1, 1, 1)


def test_an_unseen_state_starts_anew_and_goes_on_counting():
    tree = sc.Tree(
        sc.make("garnet:states=200,actions=3", discount=0.9, temperature=0.1),
        method="bts",
    ).grow(simulations=3)
    seen = {tree.node(i).state for _, i in tree.children(0)}
    unseen = next(s for s in range(200) if s not in seen)
    before = tree.num_calls
    tree.advance(0, unseen).grow(simulations=2)
    assert tree.simulations == 5
    assert tree.num_calls > before
    assert tree.node(0).visits == 2


def test_nodes_and_limits_are_checked():
    tree = sc.Tree(
        sc.make("chain:n=5", discount=0.9, temperature=0.1),
        method="ments",
        options={"temperature": 0.5},
    )
    with pytest.raises(sc.InvalidInput, match="Not one simulation was finished"):
        tree.estimate()
    tree.grow(simulations=np.int64(20))
    for number in (tree.num_nodes, -1, 1.5, True):
        with pytest.raises(sc.InvalidInput, match="The tree has nodes 0 to"):
            tree.node(number)
    for limit in (
        {"simulations": 1.5},
        {"simulations": -1},
        {"calls": True},
        {"seconds": -1},
        {"seconds": "1"},
    ):
        with pytest.raises(sc.InvalidInput, match="must be a"):
            tree.grow(**limit)
    with pytest.raises(sc.InvalidInput, match="got str"):
        sc.Tree("chain:n=5")
    assert repr(tree).startswith(
        "Tree(problem='chain:n=5', state=0, method='ments(temperature=0.5)', "
    )


def test_a_shallow_tree_says_what_it_leaves_out():
    problem = sc.make("chain:n=5", discount=0.9, operator="max")
    shallow = sc.Tree(problem, method=sc.BTS(depth=1)).grow(simulations=50).estimate()
    assert (
        "Beyond 1 step values count as the middle of what is possible: up to 4.5 off."
        in shallow.notes
    )
    assert not any(
        "Beyond" in note
        for note in sc.Tree(problem, method="bts")
        .grow(simulations=50)
        .estimate()
        .notes
    )


def test_mean_returns_report_what_was_found_and_cool_down():
    """Eight actions: 0 pays 0.5; 1 leads to one that pays 0.9 beside seven that
    pay nothing. Boltzmann means never see past the seven.
    """

    def step(state, action, rng):
        if state == 0:
            return (0.5, 2, True) if action == 0 else (0.0, 1, action != 1)
        return (0.9 if action == 0 else 0.0), 2, True

    problem = sc.MDP(
        step,
        num_actions=8,
        discount=1.0,
        horizon=2,
        operator=sc.Max(),
        terminal=True,
        initial_state=0,
    )
    tree = sc.Tree(
        problem,
        method=sc.BTS(search_temperature=0.5, exploration=0.1, average_returns=True),
    ).grow(simulations=20_000)
    estimate = tree.estimate()
    assert estimate.action == 1
    assert estimate.value == estimate.q_values[1] > 0.5


@pytest.mark.parametrize("executor", ["compiled", "reference"])
def test_a_copy_grows_by_itself(executor):
    """A copy has memory and a stream of its own: it goes on as the original
    would, and the original does not notice.
    """
    # in the middle of a simulation
    tree = sc.Tree(GARNET, method="dents", seed=3, executor=executor).grow(calls=505)
    twin = copy.deepcopy(tree)
    twin.grow(calls=500)
    assert tree.num_calls == 505
    tree.grow(calls=500)
    assert twin.node(0) == tree.node(0)
    assert twin.children(0) == tree.children(0)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(tree)


def test_ctrl_c_answers_with_what_was_grown():
    def press(news):
        if news.phase == "sampling" and news.calls:
            raise KeyboardInterrupt

    answer = sc.plan(GARNET, method="uct", budget=10**9, progress=press)
    assert "Stopped by hand after" in answer.notes[-1]
    assert answer.num_calls < 10**9


def test_a_call_that_hangs_is_ended():
    def step(state, action, rng):
        if state == 2:
            time.sleep(30)
        return 0.5, state + 1

    problem = sc.MDP(
        step,
        num_actions=2,
        discount=0.5,
        operator=sc.Max(),
        initial_state=0,
        call_seconds=0.2,
    )
    with pytest.raises(
        sc.OracleError, match=r"did not return within 0\.2 s at state 2"
    ):
        sc.Tree(problem, method="uct").grow(simulations=5)
    with pytest.raises(
        sc.OracleError, match=r"did not return within 0\.2 s at state 2"
    ):
        sc.evaluate(problem, lambda s: [0.5, 0.5], budget=100)


def test_states_without_equality_are_named():
    class Place:
        def __init__(self, x):
            self.x = x

    problem = sc.MDP(
        lambda s, a, rng: (0.5, Place(s.x + a)),
        num_actions=2,
        discount=0.5,
        operator=sc.Max(),
        initial_state=Place(0),
    )
    notes = sc.Tree(problem, method="bts").grow(simulations=20).estimate().notes
    assert any("States of type Place have no equality" in note for note in notes)


def test_a_prior_is_part_of_the_recommendation():
    problem = sc.tabular(
        np.ones((1, 2, 1)),
        np.array([[0.5, 0.6]]),
        discount=0.5,
        operator=sc.KL(0.5, (0.9, 0.1)),
    )
    assert (
        sc.Tree(problem, method="rents").grow(simulations=500).estimate().action
        == sc.plan(problem, method="exact").action
        == 0
    )
