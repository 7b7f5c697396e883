"""Boxes of trees without chance: they hold the minimax value at every node and at any
time, close where it is proven, and agree between the two trees to the last bit.
"""

import math
from dataclasses import replace
from functools import reduce
from operator import xor

import pytest
from numba import njit
from tree_worlds import BOARD, SURE, grow_in_slices, mdp, nodes_below, same, sure_world

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

METHODS = [
    sc.UCT(solve=True),
    sc.UCT(solve=True, exploration=0.5, expansion=None),
    sc.BTS(solve=True, expansion=3, max_nodes=30),
    sc.BTS(solve=True, average_returns=True, initial_q=0.0),
    sc.DENTS(solve=True),
]


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("game", [True, False])
def test_boxes_hold_the_minimax_value_everywhere(method, game):
    """At 5 and 50 simulations, and in the end: every node of both trees."""
    for seed, discount in enumerate((1.0, 0.9)):
        problem, value = sure_world(seed, game=game, discount=discount, horizon=4)
        for simulations in (5, 50):
            for node, depth in nodes_below(same(problem, method, simulations)):
                low, high = node.box
                assert low - 1e-12 <= value(node.state, 4 - depth) <= high + 1e-12
        tree = same(problem, method, simulations=600)
        if method.max_nodes is None:
            assert tree.proven
            assert tree.simulations < 600  # 3**4 plays, and it stops
            answer = tree.estimate()
            exact = pytest.approx(value(0, 4), abs=1e-12)
            assert answer.value == exact
            assert answer.q_values[tree.action()] == exact


def test_whole_rewards_are_exact_and_others_have_room():
    whole, value = sure_world(1, whole=True)
    certificate = sc.plan(whole, method=METHODS[0], budget=5000).certificate
    assert certificate.kind == "proof"
    assert certificate.interval == (value(0, 5), value(0, 5))
    assert certificate.confidence == 1.0
    assert any("deterministic=True" in said for said in certificate.assumptions)
    rounded, value = sure_world(1, discount=0.9)
    low, high = sc.plan(rounded, method=METHODS[0], budget=5000).interval
    assert low < value(0, 5) < high < low + 1e-13


def test_nothing_is_recommended_that_is_surely_worse():
    """Action 0 is met most often by far before 1 is proven better: visits do not
    decide against a proof.
    """
    for seed in range(8):
        problem, _ = sure_world(seed, horizon=3)
        tree = sc.Tree(problem, method=METHODS[0], seed=seed)
        while not tree.proven:
            root = tree.grow(simulations=1).node(0)
            ends = {
                a: (low, high) if root.player == 1 else (-high, -low)
                for a, (low, high) in zip(root.actions, root.boxes, strict=True)
            }
            low, high = ends[tree.action()]
            floor = max(end[0] for end in ends.values())
            assert high > floor or low == floor


@pytest.mark.parametrize("executor", ["compiled", "reference"])
def test_slices_and_moves_keep_the_boxes(executor):
    problem, value = sure_world(2, horizon=6)
    whole = sc.Tree(problem, method=METHODS[0], seed=5).grow(calls=400)
    sliced = sc.Tree(problem, method=METHODS[0], seed=5, executor=executor)
    grow_in_slices(sliced, whole.num_calls, 7)
    assert sliced.node(0) == whole.node(0)
    action, child = whole.children(0)[0]
    state = whole.node(child).state
    sliced.advance(action, state)
    assert sliced.node(0).boxes == whole.node(child).boxes
    sliced.grow(simulations=5000)
    assert sliced.proven
    assert sliced.estimate().value == pytest.approx(value(state, 5), abs=1e-12)


# --- games in plain Python, by their rules -----------------------------------


def nim_step(state, action, rng):
    """Heaps and the player to move; who takes the last piece wins."""
    *heaps, turn = state
    heaps[action // 3] -= action % 3 + 1
    after = (*heaps, 3 - turn)
    return (1.0 if turn == 1 else -1.0) if sum(heaps) == 0 else 0.0, after


def nim(*heaps):
    rules = {
        "player": lambda state: state[-1],
        "num_actions": 3 * len(heaps),
        "legal": lambda state, action: state[action // 3] > action % 3,
        "terminal": lambda state: sum(state[:-1]) == 0,
        "initial_state": (*heaps, 1),
        "horizon": sum(heaps),
    }
    return sc.Game(nim_step, **(BOARD | rules))


@pytest.mark.parametrize("heaps", [(1,), (3, 3), (3, 2, 1), (3, 3, 1)])
def test_nim_is_won_unless_the_sum_is_zero(heaps):
    """Bouton's theorem: with heaps of at most three, as many as a move may take, the
    player to move wins unless the heaps' exclusive or is 0.
    """
    estimate = sc.plan(nim(*heaps), method=METHODS[0], budget=200_000)
    wins = reduce(xor, heaps) != 0
    assert estimate.interval == ((1.0, 1.0) if wins else (-1.0, -1.0))
    if wins:  # the recommended move leaves a sum of zero
        after = list(heaps)
        after[estimate.action // 3] -= estimate.action % 3 + 1
        assert reduce(xor, after) == 0
    assert estimate.notes[-1].startswith("Proven: the value is")


# --- what is refused ----------------------------------------------------------


def test_what_cannot_be_proven_is_refused():
    problem, _ = sure_world(0)
    endless = replace(sure_world(0, ends=False)[0], horizon=None, discount=0.9)
    for wrong, method, words in (
        (replace(problem, deterministic=False), METHODS[0], "declare deterministic=T"),
        (replace(problem, operator=sc.Entropy(0.1)), METHODS[0], r"operator Max\(\)"),
        (problem, sc.MENTS(solve=True), "use uct, bts or dents"),
        (endless, METHODS[0], "plays that end"),
    ):
        with pytest.raises(sc.InvalidInput, match=words):
            sc.Tree(wrong, method=method)
    with pytest.raises(sc.InvalidInput, match="drop certify"):
        sc.plan(problem, method=METHODS[0], certify=True, budget=100)
    with pytest.raises(sc.InvalidInput, match="solve must be True or False"):
        sc.UCT(solve=1)


@pytest.mark.parametrize("kind", ["state", "reward", "end"])
def test_a_second_outcome_is_an_error(kind):
    def step(state, action, rng):
        lucky = state == 1 and rng.random() < 0.5
        reward = 0.5 if kind == "reward" and lucky else 0.0
        after = 3 if kind == "state" and lucky else state + 1
        return reward, after, kind == "end" and lucky and action == 1

    liar = mdp(step, horizon=6, **SURE)
    words = r"deterministic=True is declared, but .* two"
    trees = [sc.Tree(liar, method=METHODS[0], seed=seed) for seed in range(8)]
    # some of them meet the end first, which is proven at once and not tried again
    with pytest.raises(sc.OracleError, match=words):
        all(tree.grow(simulations=200) for tree in trees)


@pytest.mark.parametrize("executor", ["reference", "compiled"])
def test_an_end_after_none_is_an_error_in_a_full_tree_too(executor):
    """A full tree keeps no child that would tell; the open box of the action does."""

    @njit
    def step(state, action, rng):
        over = state == 1 and rng.random() < 0.5
        return (1.0 if state == 2 else 0.0), state + 1, over

    liar = mdp(step, num_actions=1, horizon=4, **SURE)
    method, refuted = sc.UCT(solve=True, max_nodes=2), []
    for seed in range(8):
        tree = sc.Tree(liar, method=method, seed=seed, executor=executor)
        try:
            tree.grow(simulations=60)
        except sc.OracleError:
            refuted.append(seed)
    assert refuted == [0, 1, 5, 7]  # the others met the end first


def test_a_play_that_breaks_a_claim_is_an_error():
    """Two steps that pay 1 each, and a declared total of at most 1."""
    claim = {"horizon": 2, "total_reward_range": (0.0, 1.0)}
    liar = mdp(lambda s, a, rng: (1.0, s + 1, s == 1), **SURE, **claim)
    with pytest.raises(sc.OracleError, match="declarations exclude"):
        sc.Tree(liar, method=METHODS[0]).grow(simulations=50)


def test_no_boxes_where_nobody_asked():
    tree = sc.Tree(sure_world(0)[0], method="uct").grow(simulations=50)
    assert tree.node(0).boxes == ()
    assert tree.node(0).box is None
    assert not tree.proven
    assert tree.estimate().certificate is None
    assert math.isfinite(tree.estimate().value)
