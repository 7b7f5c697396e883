"""Several trees as one: any number of workers gives the same answer to the last bit, the
compiled forest is the plain one, and a forest is the sum of its trees.
"""

import copy
from dataclasses import replace

import pytest
from tree_worlds import everything, grow_in_slices, sure_world

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

GARNET = sc.make("garnet:states=12,actions=3,seed=1", discount=0.8, temperature=0.3)
GAME = sc.make("random-game:states=9,actions=3,seed=2", discount=0.7, operator="max")
METHODS = [
    sc.UCT(trees=3),
    sc.MENTS(trees=3),
    sc.RENTS(trees=2),
    sc.DENTS(trees=2, expansion=None, depth=7),
    sc.BTS(trees=4, widening=(1.0, 0.5)),
]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_workers_slices_and_code_change_nothing(method):
    """One, two and five threads; slices of 37 calls; plain Python; to the very call."""
    known = None
    for executor, workers, size in (
        ("compiled", 1, 900),
        ("compiled", 2, 900),
        ("compiled", 5, 37),
        ("reference", None, 900),
        ("reference", None, 37),
    ):
        tree = sc.Tree(
            GARNET, method=method, seed=3, executor=executor, workers=workers
        )
        tree.grow(simulations=58)  # which leaves trees with different calls
        end = tree.num_calls + 900
        grow_in_slices(tree, end, size)
        assert tree.num_calls == end
        tree.grow(simulations=10)
        found = tree.backend.counts, everything(tree), tree.policy()
        assert known is None or found == known
        known = found


def test_a_forest_is_the_sum_of_its_trees():
    forest, fresh = (sc.Tree(GAME, method=sc.UCT(trees=3), seed=5) for _ in range(2))
    forest.grow(calls=1000)
    alone = []
    for number in range(3):
        tree = sc.Tree(GAME, method=sc.UCT(max_nodes=1_000_000 // 3), seed=5)
        tree.backend.rng = fresh.backend.trees[number].rng
        alone.append(tree.grow(calls=1000 // 3 + (number == 0)))
    roots = [tree.node(0) for tree in alone]
    root = forest.node(0)
    assert root.visits == sum(r.visits for r in roots)
    for j in range(3):
        assert root.edge_visits[j] == sum(r.edge_visits[j] for r in roots)
        assert root.edge_totals[j] == sum((r.edge_totals[j] for r in roots), 0.0)
    assert len({r.edge_totals for r in roots}) == 3  # streams of their own
    states = [{(a, t.node(i).state) for a, i in t.children(0)} for t in alone]
    merged = {(a, forest.node(i).state) for a, i in forest.children(0)}
    assert merged == set().union(*states)
    assert "3 independent trees" in forest.estimate().notes[1]


def test_simulations_and_calls_together_end():
    tree = sc.Tree(GARNET, method=sc.UCT(trees=3), seed=1)
    tree.grow(simulations=50, calls=700)
    assert tree.simulations <= 50
    assert tree.num_calls <= 700
    again = sc.Tree(GARNET, method=sc.UCT(trees=3), seed=1, executor="reference")
    again.grow(simulations=50, calls=700)
    assert everything(again) == everything(tree)


@pytest.mark.parametrize("executor", ["compiled", "reference"])
def test_a_forest_moves_with_the_play(executor):
    tree = sc.Tree(GAME, method=sc.UCT(trees=3), seed=2, executor=executor)
    tree.grow(simulations=60)
    for action, child in tree.children(0):
        node, moved = tree.node(child), copy.copy(tree)
        moved.advance(action, node.state)
        kept = replace(moved.node(0), number=child)
        assert (kept.visits, kept.edge_visits) == (node.visits, node.edge_visits)
        moved.grow(simulations=30)
        assert moved.simulations == 90
    seen = {tree.node(i).state for a, i in tree.children(0) if a == 0}
    unseen = next(s for s in range(9) if s not in seen)
    tree.advance(0, unseen)
    assert tree.node(0).visits == 0
    assert tree.grow(simulations=30).node(0).visits == 30


def test_agents_and_plans_take_workers():
    one = sc.plan(GAME, method=sc.UCT(trees=4), budget=2000, workers=1, seed=1)
    two = sc.plan(GAME, method=sc.UCT(trees=4), budget=2000, workers=2, seed=1)
    assert replace(one, seconds=0.0, compile_seconds=0.0) == replace(
        two, seconds=0.0, compile_seconds=0.0
    )
    assert one.num_calls == 2000
    agents = [sc.Agent(GAME, sc.UCT(trees=2), budget=300, workers=w) for w in (1, 2)]
    played = [sc.play(agent, episodes=2, steps=6, seed=4) for agent in agents]
    assert played[0].mean_return == played[1].mean_return
    timed = sc.plan(GAME, method=sc.UCT(trees=2), seconds=0.05)
    assert timed.num_calls > 0


def test_proofs_of_several_trees_hold_together():
    game, value = sure_world(0, horizon=4)
    for budget in (40, 5000):
        many = sc.plan(game, method=sc.UCT(solve=True, trees=3), budget=budget)
        low, high = many.interval
        assert low <= value(0, 4) <= high
    assert high - low < 1e-12


# --- elsewhere ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "executor"),
    [
        (sc.DENTS(trees=2, widening=(1.0, 0.5)), "processes"),
        pytest.param(sc.UCT(leaf_rollouts=3), "processes", marks=pytest.mark.slow),
        pytest.param(sc.UCT(trees=3), "dask", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_processes_and_clusters_give_the_same_bits(method, executor):
    """Trees that travel, and rollouts from leaves at once."""
    plain = {"method": method, "budget": 600, "seed": 3}
    here = sc.plan(GARNET, executor="reference", **plain)
    there = sc.plan(GARNET, executor=executor, workers=2, **plain)
    assert there.executor == executor
    assert here.num_calls == there.num_calls == 600
    timeless = {"seconds": 0.0, "compile_seconds": 0.0, "executor": None}
    assert replace(here, **timeless) == replace(there, **timeless)


def test_rollouts_from_a_leaf_are_averaged_in_order():
    """Slices that cut rollouts short change nothing, and one rollout is the default."""
    whole = sc.Tree(GARNET, method=sc.BTS(leaf_rollouts=4), seed=1).grow(calls=1500)
    assert whole.backend.name == "reference"
    sliced = sc.Tree(GARNET, method=sc.BTS(leaf_rollouts=4), seed=1)
    grow_in_slices(sliced, 1500, 23)
    assert everything(sliced) == everything(whole)
    # a simulation makes one step in the tree and four rollouts at first
    first = sc.Tree(GARNET, method=sc.UCT(leaf_rollouts=4), seed=1).grow(simulations=1)
    assert first.num_calls == 1 + 4 * (first.setting.limit - 1)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"executor": "processes"}, "give uct trees="),
        ({"executor": "dask"}, "give uct trees="),
        ({"workers": 2}, "does not use workers"),
        ({"method": sc.UCT(trees=2), "certify": True}, "policy of one tree"),
        ({"method": sc.UCT(leaf_rollouts=2), "executor": "compiled"}, "use trees="),
    ],
)
def test_what_is_of_no_use_is_refused(asked, words):
    with pytest.raises(sc.InvalidInput, match=words):
        sc.plan(GARNET, **({"method": "uct", "budget": 10} | asked))


@pytest.mark.parametrize("wrong", [0, 1.5, True, 10**6])
def test_numbers_of_trees_are_checked(wrong):
    with pytest.raises(sc.InvalidInput, match="trees must be a whole number"):
        sc.UCT(trees=wrong)
