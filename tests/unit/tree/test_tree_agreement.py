"""The compiled tree is the plain one (an instance of the paper's template) to
the last bit, for every method and kind of state.
"""

from dataclasses import replace
from typing import NamedTuple

import numba
import numpy as np
import pytest
from tree_worlds import grow_in_slices, mdp, same

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

METHODS = [sc.UCT, sc.MENTS, sc.RENTS, sc.TENTS, sc.BTS, sc.DENTS]
VARIANTS = [
    {},
    {"expansion": None, "depth": 7},
    {"expansion": 3, "max_nodes": 20, "depth": 9},
    {"initial_q": 0.25, "depth": 6},
    {"widening": (1.0, 0.3), "action_widening": (1.0, 0.3), "depth": 7},
    {"samples": 2, "expansion": None, "max_nodes": 40},
]
PROBLEMS = {
    "garnet": sc.make(
        "garnet:states=12,actions=3,seed=1", discount=0.8, temperature=0.3
    ),
    "game": sc.make(
        "random-game:states=9,actions=3,seed=2", discount=0.7, temperature=0.2
    ),
    "sailing": sc.make("sailing:n=4", discount=1.0, operator="max"),
}
each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=str)
each_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


@each_variant
@each_problem
def test_compiled_is_plain(problem, variant):
    """Every method; RENTS with either prior."""
    for method in METHODS:
        same(problem, method(**variant))
    same(problem, sc.RENTS(prior="parent", **variant))


@each_variant
@each_problem
def test_slices_of_calls_change_nothing(problem, variant):
    """A simulation that the calls cut short waits and is resumed: dropping
    it would drop the long ones, and bias every value.
    """
    for method in (
        sc.UCT(**variant),
        sc.DENTS(**variant),
        sc.RENTS(prior="parent", **variant),
    ):
        whole = sc.Tree(problem, method=method, seed=5).grow(calls=600)
        for executor in ("compiled", "reference"):
            for size in (1, 7, 50):
                sliced = sc.Tree(problem, method=method, seed=5, executor=executor)
                grow_in_slices(sliced, 600, size)
                assert sliced.backend.counts == whole.backend.counts
                assert sliced.node(0) == whole.node(0)


def test_a_cold_search_with_hopeful_untried_actions():
    """exp((Q - top)/t) underflows for every tried action here; only the tried
    ones have weight.
    """
    method = sc.RENTS(temperature=1e-4, exploration=0.0, initial_q=50.0)
    assert same(PROBLEMS["garnet"], method).estimate().value < 50.0


@pytest.mark.parametrize("method", [sc.BTS, sc.DENTS])
def test_average_returns(method):
    same(PROBLEMS["garnet"], method(average_returns=True))


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


@numba.njit
def mirror(state, action, rng):
    return 0.5, state * (1.0 if action == 1 else -1.0)


GAME = sc.Game(
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
def test_named_tuples_legal_moves_ends_and_players():
    """A user's own compiled game: NamedTuple states, moves that are not always
    legal, an end flagged by the step.
    """
    tree = same(GAME, sc.MENTS(depth=8), simulations=80)
    assert isinstance(tree.node(1).state, Place)
    assert {tree.node(i).player for i in range(tree.num_nodes)} == {1, 2}


@pytest.mark.parametrize("executor", ["compiled", "reference"])
def test_compiled_errors_name_state_and_action(executor):
    """Rewards of 0.1 against a declared range of (0, 0.05): the code that the
    kernel returns becomes the sentence of the plain tree.
    """
    narrow = replace(GAME, reward_range=(0.0, 0.05))
    tree = sc.Tree(narrow, method="uct", seed=2, executor=executor)
    words = r"reward 0\.1 at state Place\(x=-?\d+, level=[\d.]+\), action 1"
    with pytest.raises(sc.OracleError, match=words):
        tree.grow(simulations=10)


@numba.njit
def nobody(state):
    return 0 if state.x == 1 else 1


@pytest.mark.parametrize("executor", ["compiled", "reference"])
def test_players_are_one_or_two(executor):
    game = replace(GAME, player=nobody)
    words = r"player\(.*must be 1 \(max\) or 2 \(min\)"
    with pytest.raises(sc.InvalidInput, match=words):
        sc.Tree(game, method="uct", executor=executor).grow(simulations=20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "children"),
    [
        (
            ARRAYS,
            4,
        ),  # two next states an action: arrays that came back were recognized
        (
            mdp(mirror, initial_state=np.zeros(2)),
            2,
        ),  # zeros of both signs are one state
    ],
)
def test_arrays_are_states(problem, children):
    tree, plain = (
        sc.Tree(problem, method="bts", seed=1, executor=executor).grow(simulations=60)
        for executor in (None, "reference")
    )
    assert tree.num_nodes == plain.num_nodes
    assert tree.node(0).edge_totals == plain.node(0).edge_totals
    assert len(tree.children(0)) == children


@pytest.mark.slow
def test_a_tree_of_arrays_moves_with_its_memory():
    """Nodes are moved when the tree advances: a state that was read before must
    not change under the reader's hands.
    """
    tree = sc.Tree(ARRAYS, method="bts", seed=1).grow(simulations=200)
    for _ in range(3):
        action, child = tree.children(0)[-1]
        state = tree.node(child).state
        tree.advance(action, state).grow(simulations=20)
        assert np.array_equal(tree.state, tree.node(0).state)
        assert tree.deepest >= 1


@pytest.mark.slow
@pytest.mark.parametrize("problem", [GAME, ARRAYS], ids=["NamedTuple", "array"])
def test_slices_of_calls_with_users_states(problem):
    """What waits between two slices is stored in the state's own form."""
    whole = sc.Tree(problem, method=sc.BTS(depth=9), seed=5).grow(calls=400)
    sliced = sc.Tree(problem, method=sc.BTS(depth=9), seed=5)
    grow_in_slices(sliced, whole.num_calls, 3)
    assert sliced.backend.counts == whole.backend.counts
    assert sliced.node(0).edge_visits == whole.node(0).edge_visits
    assert sliced.node(0).edge_totals == whole.node(0).edge_totals
