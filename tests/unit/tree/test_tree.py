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
from tree_worlds import mdp, same

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

GARNET = sc.make("garnet:states=20,actions=3,seed=1", discount=0.8, temperature=0.3)
WALK = sc.make("chain:n=5", discount=0.9, temperature=0.1)
CHAIN = sc.make("d-chain", discount=1.0, operator="max")
EXECUTORS = pytest.mark.parametrize("executor", ["compiled", "reference"])


@EXECUTORS
def test_calls_are_counted_and_never_exceeded(executor):
    """A simulation that would need more calls waits: 100 calls of 21-step
    simulations are four of them and a part.
    """
    tree = sc.Tree(GARNET, method="uct", executor=executor).grow(calls=100)
    assert tree.setting.limit == 21  # 0.8**21 < 0.01
    assert (tree.num_calls, tree.simulations) == (100, 4)
    assert tree.grow(calls=50).num_calls == 150


def test_seconds_and_progress(monkeypatch):
    """A clock that moves by 1/8 s at each reading, read three times per slice and once
    before: the third slice ends after 1 s, and the two before it are reported, between
    the beginning and the end.
    """
    tree, calls = sc.Tree(GARNET, method="ments"), []
    clock = SimpleNamespace(perf_counter=itertools.count(0.0, 0.125).__next__)
    for module in ("tree.tree", "run_control.clock"):
        monkeypatch.setattr(f"smoothcruiser.{module}.time", clock)
    tree.grow(seconds=1.0, progress=lambda news: calls.append(news.calls))
    assert calls == [0, 1, 2, 3]
    assert tree.num_calls == 3


def test_memory_is_bounded_and_the_search_goes_on():
    tree = sc.Tree(GARNET, method=sc.MENTS(max_nodes=50)).grow(simulations=5000)
    assert (tree.num_nodes, tree.simulations) == (50, 5000)
    assert any("full" in note for note in tree.estimate().notes)


def test_memory_doubles_without_a_trace():
    """More nodes than the first 1,024 rows: the same tree as in plain Python."""
    assert same(GARNET, "bts", simulations=1500).num_nodes > 1024


@EXECUTORS
def test_advance_keeps_what_is_below(executor):
    tree = sc.Tree(GARNET, method="ments", seed=1, executor=executor)
    tree.grow(simulations=2000)

    def below(number):
        nodes = [(a, tree.node(i)) for a, i in tree.children(number)]
        return sorted((a, node.visits, node.value) for a, node in nodes)

    action, child = max(tree.children(0), key=lambda pair: tree.node(pair[1]).visits)
    node, grandchildren = tree.node(child), below(child)
    tree.advance(action, node.state)
    assert (tree.state, tree.elapsed) == (node.state, 1)
    root = tree.node(0)
    assert (root.visits, root.value) == (node.visits, node.value)
    assert root.edge_totals == node.edge_totals
    assert below(0) == grandchildren
    assert tree.num_nodes < 2001
    tree.grow(simulations=500)  # and it still grows
    assert tree.node(0).visits == node.visits + 500


def test_advance_shortens_the_horizon_and_may_start_anew():
    tree = sc.Tree(CHAIN, method="bts").grow(simulations=5)
    assert tree.setting.limit == 10
    assert tree.advance(0, 1).setting.limit == 9
    with pytest.raises(sc.InvalidInput, match="terminal"):
        tree.advance(1, 10)
    with pytest.raises(sc.InvalidInput, match="not legal"):
        tree.advance(7, 2)
    fresh = sc.Tree(GARNET, method="bts").grow(simulations=3)
    states, before = (
        {fresh.node(i).state for _, i in fresh.children(0)},
        fresh.num_calls,
    )
    fresh.advance(0, next(s for s in range(20) if s not in states))
    assert (fresh.num_nodes, fresh.node(0).visits) == (1, 0)
    fresh.grow(simulations=2)  # and goes on counting
    assert (fresh.simulations, fresh.node(0).visits) == (5, 2)
    assert fresh.num_calls > before


def test_a_tree_promises_nothing():
    estimate = sc.plan(GARNET, method="ments", budget=20_000, seed=3)
    assert estimate.certificate is None
    assert estimate.interval is None
    assert (estimate.epsilon, estimate.delta) == (None, None)
    assert estimate.num_calls <= 20_000
    assert math.isclose(sum(estimate.policy), 1.0)
    again = sc.plan(GARNET, method=sc.MENTS(), budget=20_000, seed=3)
    assert again.q_values == estimate.q_values


def test_simulations_and_methods_in_plan():
    method = sc.DENTS(search_temperature=1.0, expansion=None, initial_q=0.0)
    first = sc.plan(CHAIN, method=method, simulations=10_000)
    assert (first.action, first.method) == (0, "dents")
    assert first.policy == (1.0, 0.0)  # under Max the policy is the recommended action
    with pytest.raises(sc.InvalidInput, match="exact does not use simulations"):
        sc.plan(GARNET, method="exact", simulations=10)
    few = sc.plan(GARNET, method="uct", budget=5)
    assert few.notes[0].startswith("Not one simulation was finished")


def test_illegal_actions_have_no_value():
    problem = sc.make("sailing", discount=1.0, operator="max")
    estimate = sc.plan(problem, method="uct", simulations=500)
    shares = zip(estimate.q_values, estimate.policy, strict=True)
    for a, (q, share) in enumerate(shares):
        assert math.isnan(q) == (a not in problem.legal_actions(3))
        assert share == 0.0 or not math.isnan(q)


def test_certify_bounds_from_below():
    exact = sc.solve(GARNET).values[0]
    asked = {"budget": 200_000, "certify": True, "delta": 0.01}
    estimate = sc.plan(GARNET, method="ments", **asked)
    assert estimate.certificate.kind == "policy"
    assert estimate.interval[0] <= exact <= estimate.interval[1]
    assert estimate.interval[0] > exact - 1.0
    assert estimate.num_calls <= 200_000
    game = sc.make("random-game", discount=0.5, temperature=1.0)
    with pytest.raises(sc.InvalidInput, match="game"):
        sc.plan(game, method="uct", budget=1000, certify=True)


@pytest.mark.parametrize(
    ("step", "state", "error", "words"),
    [
        (
            lambda s, a, r: (0.5, s + 1, s == 2),
            0,
            sc.OracleError,
            "declares no termin",
        ),
        (lambda s, a, r: (0.5, [1]), (0,), sc.InvalidInput, "unhashable"),
    ],
)
def test_steps_that_no_tree_can_take(step, state, error, words):
    with pytest.raises(error, match=words):
        sc.plan(mdp(step, initial_state=state), method="ments", budget=1000)


def test_advance_checks_before_it_changes_anything():
    """A state that is none used to end the process; a horizon that is over used
    to leave the tree half moved.
    """
    tree = sc.Tree(WALK, method="ments").grow(simulations=100)
    for wrong in (99, -1, 10**8, "x"):
        with pytest.raises(sc.InvalidInput):
            tree.advance(0, wrong)
    short = sc.Tree(replace(WALK, horizon=2), method="ments").grow(simulations=100)
    short.advance(1, 1)
    with pytest.raises(sc.InvalidInput, match="The horizon of 2 steps is over"):
        short.advance(1, 2)
    assert (short.state, short.elapsed, short.node(0).state) == (1, 1, 1)


def test_nodes_and_limits_are_checked():
    tree = sc.Tree(WALK, method="ments", options={"temperature": 0.5})
    with pytest.raises(sc.InvalidInput, match="Not one simulation was finished"):
        tree.estimate()
    tree.grow(simulations=np.int64(20))
    for number in (tree.num_nodes, -1, 1.5, True):
        with pytest.raises(sc.InvalidInput, match="The tree has nodes 0 to"):
            tree.node(number)
    wrong = {"simulations": (1.5, -1), "calls": (True,), "seconds": (-1, "1")}
    for name, value in ((name, v) for name, values in wrong.items() for v in values):
        with pytest.raises(sc.InvalidInput, match="must be a"):
            tree.grow(**{name: value})
    with pytest.raises(sc.InvalidInput, match="got str"):
        sc.Tree("chain:n=5")
    words = "Tree(problem='chain:n=5', state=0, method='ments(temperature=0.5)', "
    assert repr(tree).startswith(words)


def test_a_shallow_tree_says_what_it_leaves_out():
    problem = sc.make("chain:n=5", discount=0.9, operator="max")
    shallow, deep = (
        sc.Tree(problem, method=method).grow(simulations=50).estimate().notes
        for method in (sc.BTS(depth=1), sc.BTS())
    )
    words = (
        "Beyond 1 step values count as the middle of what is possible: up to 4.5 off."
    )
    assert words in shallow
    assert not any("Beyond" in note for note in deep)


def test_mean_returns_report_what_was_found_and_cool_down():
    """Eight actions: 0 pays 0.5; 1 leads to one that pays 0.9 beside seven that
    pay nothing. Boltzmann means never see past the seven.
    """

    def step(state, action, rng):
        if state == 0:
            return (0.5, 2, True) if action == 0 else (0.0, 1, action != 1)
        return (0.9 if action == 0 else 0.0), 2, True

    problem = mdp(step, num_actions=8, discount=1.0, horizon=2, terminal=True)
    method = sc.BTS(search_temperature=0.5, exploration=0.1, average_returns=True)
    estimate = sc.Tree(problem, method=method).grow(simulations=20_000).estimate()
    assert estimate.action == 1
    assert estimate.value == estimate.q_values[1] > 0.5


@EXECUTORS
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


@pytest.mark.parametrize("trees", [1, 2])
def test_ctrl_c_answers_with_what_was_grown(trees):
    def press(news):
        if news.phase == "sampling" and news.calls:
            raise KeyboardInterrupt

    answer = sc.plan(GARNET, method=sc.UCT(trees=trees), budget=10**9, progress=press)
    assert "Stopped by hand after" in answer.notes[-1]
    assert answer.num_calls < 10**9


def test_a_call_that_hangs_is_ended():
    def step(state, action, rng):
        if state == 2:
            time.sleep(30)
        return 0.5, state + 1

    problem = mdp(step, call_seconds=0.2)
    for ask in (
        lambda: sc.Tree(problem, method="uct").grow(simulations=5),
        lambda: sc.evaluate(problem, lambda s: [0.5, 0.5], budget=100),
    ):
        with pytest.raises(sc.OracleError, match=r"within 0\.2 s at state 2"):
            ask()


def test_a_prior_is_part_of_the_recommendation():
    known = {"discount": 0.5, "operator": sc.KL(0.5, (0.9, 0.1))}
    problem = sc.tabular(np.ones((1, 2, 1)), np.array([[0.5, 0.6]]), **known)
    tree = sc.Tree(problem, method="rents").grow(simulations=500)
    assert tree.estimate().action == sc.plan(problem, method="exact").action == 0
