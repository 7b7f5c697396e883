"""Trees that ask an evaluator: compiled and plain ones agree to the last bit, batches
are deterministic, and slices of calls change nothing.
"""

import numba
import numpy as np
import pytest
from benchmarks.tree.board_games import connect_four
from tree_worlds import same

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

GAME = sc.make("random-game:states=9,actions=3,seed=2", discount=0.7, temperature=0.2)
SAIL = sc.make("sailing:n=4", discount=1.0, operator="max")


def value(state):
    return 0.3 * ((7 * state) % 5) - 0.4


def prior(state):
    return np.array([1.0 + state % 3, 2.0, 0.5])


FIRSTS = np.add.outer(np.arange(9) % 4, np.arange(3)) / 5.0
METHODS = [
    sc.PUCT(),
    sc.Gumbel(),
    sc.PUCT(value=value, prior=prior, exploration=1.25),
    sc.PUCT(value=sc.solve(GAME), prior=prior, mix=0.5, depth=4),
    sc.PUCT(prior=sc.solve(GAME), max_nodes=20, depth=3),
    sc.Gumbel(value=value, prior=prior, leaf_batch=4, considered=2),
    sc.UCT(value=value, leaf_batch=8, virtual_loss=0.3),
    sc.UCT(value=value, initial_q=FIRSTS),
    sc.MENTS(value=sc.solve(GAME), initial_q=FIRSTS, leaf_batch=3),
    sc.RENTS(value=value, prior="parent"),
    sc.RENTS(value=value, leaf_batch=8),
    sc.DENTS(value=value, leaf_batch=5, mix=0.25),
    sc.BTS(value=value, average_returns=True, leaf_batch=64),
]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_compiled_is_plain(method):
    same(GAME, method, simulations=60)


@pytest.mark.parametrize("calls", [1, 30])
def test_a_simulation_that_waits_reads_alike(calls):
    """A node that was added and not asked about yet has the same numbers in both."""
    for method in (sc.PUCT(), sc.UCT(value=value, initial_q=FIRSTS, mix=0.5)):
        same(GAME, method, calls=calls)


def test_a_horizon_and_varying_actions():
    same(SAIL, sc.PUCT(value=sc.solve(SAIL), leaf_batch=4), simulations=60)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_slices_of_calls_change_nothing(method):
    """A leaf that waits goes on waiting; only the end of a growth closes a batch."""
    whole = sc.Tree(GAME, method=method, seed=5)
    sliced = {e: sc.Tree(GAME, method=method, seed=5, executor=e) for e in ENGINES}
    for tree in (whole, *sliced.values()):
        tree.grow(simulations=10)  # the plan of Gumbel's root depends on it
    before = whole.num_calls
    whole.grow(calls=200)
    for tree in sliced.values():
        backend, spent = tree.backend, before
        while spent < before + 200:
            spent = min(spent + 7, before + 200)
            backend.grow_to(2**60, spent)
        backend.flush()
        assert tree.backend.counts == whole.backend.counts
        assert tree.node(0) == whole.node(0)


ENGINES = ("compiled", "reference")


def test_checks_of_the_clock_close_no_batch():
    """One growth is one run of the machine, however it is sliced by the clock."""
    method = sc.UCT(value=value, leaf_batch=8)
    tree = sc.Tree(GAME, method=method, seed=5).grow(simulations=300)
    backend = sc.Tree(GAME, method=method, seed=5).backend
    backend.grow_to(300, 2**60)
    assert backend.node(0) == tree.node(0)


def test_a_batch_of_one_is_no_batch():
    """The same bits whether leaves wait for Python, or are answered inside."""
    table = np.array([value(s) for s in range(9)])
    for loss in (0.0, 5.0):
        nodes = set()
        for form in (table, value, sc.batched(lambda s: table[s])):
            method = sc.UCT(value=form, leaf_batch=1, virtual_loss=loss)
            tree = sc.Tree(GAME, method=method, seed=2).grow(simulations=150)
            nodes.add(tree.node(0))
        assert len(nodes) == 1


def test_trees_move_and_are_copied():
    for method in (METHODS[2], METHODS[5], METHODS[6]):
        trees = [sc.Tree(GAME, method=method, seed=1, executor=e) for e in ENGINES]
        for tree in trees:
            tree.grow(simulations=50)
            action, child = tree.children(0)[0]
            tree.advance(action, tree.node(child).state).grow(simulations=40)
            tree.advance(2, 8).grow(simulations=20)  # a state that may be new
        assert trees[0].node(0) == trees[1].node(0)
        assert trees[0].action() == trees[1].action()
        twin = trees[0].__copy__()
        assert twin.grow(simulations=9).node(0) == trees[0].grow(simulations=9).node(0)


@numba.njit
def four_value(state):
    return 0.01 * ((state.x * 7 + state.o * 13) % 101 - 50)


@numba.njit
def four_prior(state):
    out = np.ones(7)
    out[(state.x + state.o) % 7] = 3.0
    return out


def four_batch(states):
    priors = np.ones((len(states.x), 7))
    priors[np.arange(len(states.x)), (states.x + states.o) % 7] = 3.0
    return priors, 0.01 * ((states.x * 7 + states.o * 13) % 101 - 50)


@pytest.mark.slow
def test_compiled_functions_run_inside_the_tree():
    problem = connect_four()
    inside = sc.PUCT(value=four_value, prior=four_prior, leaf_batch=4)
    outside = sc.PUCT(network=sc.batched(four_batch), leaf_batch=4)
    tree = same(problem, inside, simulations=200)
    assert tree.backend.evaluators.leaf_setting.inside
    assert same(problem, outside, simulations=200).node(0) == tree.node(0)
