"""The tree machine interpreted and compiled: the same bits at every node, however growth
is sliced, for every method and kind of state.
"""

from dataclasses import replace
from typing import NamedTuple

import numba
import numpy as np
import pytest
from tree_worlds import grow_in_slices, mdp, same

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

FORMS = ("compiled", "reference")
GAME = sc.make("random-game:states=9,actions=3,seed=2", discount=0.7, temperature=0.2)
SAIL = sc.make("sailing:n=4", discount=1.0, operator="max")
FIRSTS = np.add.outer(np.arange(9) % 4, np.arange(3)) / 5.0


def value(state):
    return 0.3 * ((7 * state) % 5) - 0.4


def prior(state):
    return np.array([1.0 + state % 3, 2.0, 0.5])


METHODS = [
    sc.UCT(),
    sc.MENTS(expansion=None, depth=7),
    sc.RENTS(prior="parent", expansion=3, max_nodes=20, depth=9),
    sc.TENTS(initial_q=0.25, depth=6),
    sc.BTS(widening=(1.0, 0.3), action_widening=(1.0, 0.3), depth=7),
    sc.BTS(average_returns=True),
    sc.DENTS(samples=2, expansion=None, max_nodes=40),
    # exp((Q - top)/t) underflows for every tried action here
    sc.RENTS(temperature=1e-4, exploration=0.0, initial_q=50.0),
]
ASKING = [
    sc.Gumbel(),
    sc.PUCT(value=value, prior=prior, exploration=1.25),
    sc.PUCT(value=sc.solve(GAME), prior=prior, mix=0.5, depth=4),
    sc.Gumbel(value=value, prior=prior, leaf_batch=4, considered=2),
    sc.UCT(value=value, leaf_batch=8, virtual_loss=0.3, mix=0.5),
    sc.MENTS(value=sc.solve(GAME), initial_q=FIRSTS, leaf_batch=3),
    sc.RENTS(value=value, prior="parent"),
    sc.DENTS(value=value, leaf_batch=5, mix=0.25),
]


@pytest.mark.parametrize("method", [*METHODS, *ASKING], ids=str)
def test_both_forms_agree_at_every_node(method):
    same(GAME, method, simulations=60)
    same(GAME, method, calls=30)  # a simulation waits


@pytest.mark.parametrize(
    "method", [*METHODS[:5], sc.PUCT(value=sc.solve(SAIL), leaf_batch=4)], ids=str
)
def test_both_forms_agree_with_a_horizon_and_varying_actions(method):
    same(SAIL, method, simulations=60)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_slices_of_calls_change_nothing(method, form):
    """A simulation that the calls cut short waits and is resumed: dropping it would drop
    the long ones, and bias every value.
    """
    whole = sc.Tree(GAME, method=method, seed=5).grow(calls=300)
    for size in (1, 7):
        sliced = sc.Tree(GAME, method=method, seed=5, executor=form)
        grow_in_slices(sliced, 300, size)
        assert sliced.backend.counts == whole.backend.counts
        assert sliced.node(0) == whole.node(0)


@pytest.mark.parametrize("method", ASKING, ids=str)
def test_slices_answer_no_leaf_early_and_mistake_no_leaf(method):
    """Between two slices leaves wait; between two growths all are answered, but for the
    one whose rollout ran out of calls: that is asked about its own state later.
    """
    trees = [sc.Tree(GAME, method=method, seed=5, executor=form) for form in FORMS]
    for tree in trees:
        tree.grow(simulations=10)  # the plan of Gumbel's root depends on it
        for calls in range(tree.num_calls, tree.num_calls + 100, 7):
            tree.backend.grow_to(2**60, calls)
        tree.backend.flush()
        for _ in range(9):
            tree.grow(calls=11)
    assert trees[0].backend.counts == trees[1].backend.counts
    assert trees[0].node(0) == trees[1].node(0)


def test_checks_of_the_clock_close_no_batch():
    """One growth is one run of the machine, however it is sliced by the clock."""
    method = sc.UCT(value=value, leaf_batch=8)
    tree = sc.Tree(GAME, method=method, seed=5).grow(simulations=300)
    backend = sc.Tree(GAME, method=method, seed=5).backend
    backend.grow_to(300, 2**60)
    assert backend.node(0) == tree.node(0)


def test_trees_move_and_are_copied():
    for method in (METHODS[4], ASKING[1], ASKING[3]):
        trees = [sc.Tree(GAME, method=method, seed=1, executor=form) for form in FORMS]
        for tree in trees:
            tree.grow(simulations=50)
            action, child = tree.children(0)[0]
            tree.advance(action, tree.node(child).state).grow(simulations=40)
            tree.advance(2, 8).grow(simulations=20)  # a state that may be new
        assert trees[0].node(0) == trees[1].node(0)
        for tree in trees:
            twin = tree.__copy__().grow(simulations=9)
            assert twin.node(0) == tree.grow(simulations=9).node(0)


class Place(NamedTuple):
    x: int
    level: float


@numba.njit
def walk(state, action, rng):
    step = 1 if rng.random() < 0.7 else 2
    x = state.x + (step if action == 1 else -step)
    return 0.1 * action, Place(x, state.level + 0.5), x >= 4


@numba.njit
def inside(state, action):
    return action == 1 or state.x > -2


@numba.njit
def turn(state):
    return 1 if state.x % 2 == 0 else 2


@numba.njit
def spin(state, action, rng):
    after = state.copy()
    after[action] += rng.integers(2)
    return after[0] / 100.0, after


WALK = sc.Game(
    walk,
    player=turn,
    num_actions=2,
    discount=0.9,
    operator=sc.Entropy(0.1),
    legal=inside,
    terminal=True,
    initial_state=Place(0, 0.0),
)
ARRAYS = mdp(spin, initial_state=np.zeros(2, dtype=np.int64))


@pytest.mark.slow
def test_users_named_tuples_with_legal_moves_ends_and_players():
    tree = same(WALK, sc.MENTS(depth=8), simulations=80)
    assert {tree.node(i).player for i in range(tree.num_nodes)} == {1, 2}


@pytest.mark.slow
def test_users_arrays_are_recognized_and_stay_when_the_tree_moves():
    trees = [sc.Tree(ARRAYS, method="bts", seed=1, executor=form) for form in FORMS]
    for tree in trees:
        tree.grow(simulations=60)
        assert len(tree.children(0)) == 4  # two next states an action came back
        action, child = tree.children(0)[-1]
        tree.advance(action, tree.node(child).state).grow(simulations=20)
        assert np.array_equal(tree.state, tree.node(0).state)
    assert trees[0].node(0).edge_totals == trees[1].node(0).edge_totals


@pytest.mark.parametrize("form", FORMS)
def test_errors_name_state_and_action(form):
    """Rewards of 0.1 against a declared range of (0, 0.05), and a player of 0."""
    narrow = replace(WALK, reward_range=(0.0, 0.05))
    words = r"reward 0\.1 at state Place\(x=-?\d+, level=[\d.]+\), action 1"
    with pytest.raises(sc.OracleError, match=words):
        sc.Tree(narrow, method="uct", seed=2, executor=form).grow(simulations=10)
    nobody = replace(WALK, player=numba.njit(lambda state: 0 if state.x == 1 else 1))
    words = r"player\(.*must be 1 \(max\) or 2 \(min\)"
    with pytest.raises(sc.InvalidInput, match=words):
        sc.Tree(nobody, method="uct", executor=form).grow(simulations=20)
