"""Chance that never repeats: how many next states a move keeps, which of them it takes,
and what it costs, by hand.
"""

import copy
import math

import numba
import pytest
from tree_worlds import grow_in_slices, mdp

import smoothcruiser as sc
from smoothcruiser.tree import widening as memory


def fresh(state, action, rng):
    """Every next state is new; the reward is the state's own number."""
    return state, rng.random()


def stay(state, action, rng):
    return 0.5, state


def world(step=fresh, *, num_actions=1, **more):
    return mdp(step, num_actions=num_actions, **({"initial_state": 0.5} | more))


class Stream:
    """An rng whose whole numbers are given."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def integers(self, high):
        assert 0 <= self.numbers[0] < high
        return self.numbers.pop(0)


@pytest.mark.parametrize("k, alpha", [(2.0, 0.5), (1.0, 0.5), (0.5, 0.5), (3.0, 0.0)])
def test_a_move_with_n_visits_has_at_most_k_n_to_the_alpha_next_states(k, alpha):
    tree = sc.Tree(world(), method=sc.UCT(widening=(k, alpha), depth=4))
    for n in range(1, 60):
        tree.grow(simulations=1)
        assert tree.node(0).edge_visits == (n,)
        assert len(tree.children(0)) == min(n, math.ceil(k * n**alpha))


def test_without_a_limit_such_a_tree_stays_shallow():
    tree = sc.Tree(world(num_actions=2), method=sc.UCT(depth=6)).grow(simulations=400)
    assert tree.deepest == 1
    assert len(tree.children(0)) == 400


@pytest.mark.parametrize("c", [1, 2, 5])
def test_sparse_uct_samples_each_move_c_times(c):
    """Depth 2: a simulation that adds a node makes 2 calls (the move and one step of its
    rollout), each later one a call at the last move, which always samples.
    """
    tree = sc.Tree(world(), method=sc.UCT(samples=c, depth=2))
    for n in range(1, 20):
        tree.grow(simulations=1)
        assert len(tree.children(0)) == min(n, c)
        assert tree.num_calls == 2 * min(n, c) + max(0, n - c)


def test_a_stored_state_comes_in_proportion_to_its_samples_with_its_mean_reward():
    """a thrice (rewards 0, 1, 0.5), b once (0.25), an end twice (1, 0)."""
    a, b, (outcomes, paid) = 1, 2, memory.outcome_tables(3, 1)
    children, rewards = (a, -1, a, b, a, -1), (0.0, 1.0, 1.0, 0.25, 0.5, 0.0)
    for child, reward in zip(children, rewards, strict=True):
        if child < 0:
            memory.note_end(outcomes, paid, 0, 0, reward)
        else:
            memory.note_child(outcomes, paid, 0, 0, child, reward)
    found = [memory.stored_outcome(outcomes, paid, 0, 0, Stream(i)) for i in range(6)]
    assert found == [(b, 0.25), (a, 0.5), (a, 0.5), (a, 0.5), (-1, 0.5), (-1, 0.5)]


def test_what_is_taken_again_is_worth_what_it_was():
    """Two samples with rewards 0.5 (the root's) and the values of z_1, z_2 by hand: with
    samples=1 the root is worth 0.5 + (z + z'/2)/2, and z stays the first sample.
    """
    tree = sc.Tree(world(), method=sc.BTS(samples=1, depth=3), seed=4).grow(
        simulations=50
    )
    ((_, child),) = tree.children(0)
    ((_, grandchild),) = tree.children(child)
    z, after = tree.node(child).state, tree.node(grandchild).state
    by_hand = 0.5 + 0.5 * (z + 0.5 * (after + 0.5 * tree.setting.tail))
    # the first simulations ended in rollouts, whose states are others: they fade out of
    # neither mean, so the laws hold for the value of the grandchild exactly
    assert tree.node(grandchild).value == pytest.approx(
        after + 0.5 * tree.setting.tail
    )
    assert tree.estimate().value == pytest.approx(by_hand, abs=0.02)


def test_simulations_that_end_at_once_make_no_call_and_growth_still_ends():
    problem = world(lambda state, action, rng: (1.0, 0.0, True), terminal=True)
    tree = sc.Tree(problem, method=sc.UCT(samples=2)).grow(calls=10)
    assert (tree.num_calls, tree.simulations) == (2, 10)
    assert tree.estimate().value == 1.0
    tree.grow(seconds=0.01)
    assert tree.num_calls == 2


@numba.njit
def drift(state, action, rng):
    after = 0.9 * state + 0.5 * (action - 1) + 0.3 * rng.normal()
    if abs(after) > 2.5:
        return 0.0, after, True
    return 1.0 / (1.0 + after * after), after, False


WIDENED = [
    sc.UCT(widening=(2, 0.5), depth=6),
    sc.DENTS(widening=(1, 0.3), depth=6),
    sc.RENTS(samples=2, depth=5, prior="parent"),
    sc.MENTS(samples=2, depth=4, expansion=None),
    sc.BTS(widening=(4, 0.5), max_nodes=50),
]


@pytest.mark.compiles
@pytest.mark.parametrize("method", WIDENED, ids=str)
def test_slices_copies_moves_and_code_change_nothing(method):
    known = None
    for executor, size in (("compiled", 900), ("compiled", 7), ("reference", 900)):
        problem = world(drift, num_actions=3, terminal=True)
        tree = sc.Tree(problem, method=method, seed=3, executor=executor)
        grow_in_slices(tree, 900, size)
        found = [(tree.backend.counts, tree.node(0))]
        action, number = tree.children(0)[0]
        for twin in (copy.copy(tree), tree):
            twin.grow(simulations=30)
            twin.advance(action, tree.node(number).state).grow(calls=500)
            found.append((twin.backend.counts, twin.node(0)))
        assert found[1] == found[2]
        assert known is None or found == known
        known = found


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"widening": (0, 0.5)}, "widening must be a pair"),
        ({"widening": (1, 1.5)}, "widening must be a pair"),
        ({"widening": 3}, "widening must be a pair"),
        ({"widening": (math.inf, 0)}, "widening must be a pair"),
        ({"widening": (1, 0.5), "samples": 3}, "give one of them"),
        ({"samples": 0}, "samples must be a whole number"),
    ],
)
def test_limits_that_are_none_are_refused(limits, words):
    with pytest.raises(sc.InvalidInput, match=words):
        sc.UCT(**limits)
    assert sc.UCT(widening=[2, 0.5]) == sc.UCT(widening=(2.0, 0.5))
    assert str(sc.UCT(samples=3)) == "uct(samples=3)"


# --- actions ------------------------------------------------------------------


@pytest.mark.parametrize("k, alpha", [(2.0, 0.5), (1.0, 0.5), (3.0, 0.0)])
def test_a_node_considers_its_first_k_n_to_the_alpha_actions(k, alpha):
    """After n decisions the first ceil(k n^alpha) of 40 are open, and all were tried
    where each decision opens at most one.
    """
    problem = world(stay, num_actions=40)
    method = sc.UCT(action_widening=(k, alpha), depth=3)
    tree = sc.Tree(problem, method=method, seed=2)
    for n in range(1, 60):
        tree.grow(simulations=1)
        node = tree.node(0)
        assert node.actions == tuple(range(math.ceil(k * n**alpha)))
        assert sum(v > 0 for v in node.edge_visits) == min(n, len(node.actions))
    q = tree.estimate().q_values
    assert math.isnan(q[-1])
    assert q[0] > 0.0


def test_trees_that_opened_different_numbers_of_actions_are_merged():
    """Calls that divide unevenly leave trees of different sizes: visits add up."""
    problem = world(stay, num_actions=40)
    for seed in range(3):
        method = sc.UCT(action_widening=(2, 0.5), depth=3, trees=3)
        tree = sc.Tree(problem, method=method, seed=seed).grow(calls=200)
        assert sum(tree.node(0).edge_visits) == tree.simulations
        assert tree.estimate().value > 0.0


def test_legal_actions_open_in_their_order():
    problem = world(stay, num_actions=9, legal=lambda state, action: action % 2 == 1)
    tree = sc.Tree(problem, method=sc.BTS(action_widening=(3, 0.0))).grow(
        simulations=50
    )
    assert tree.node(0).actions == (1, 3, 5)
    assert tree.policy()[7] == 0.0
