"""A tree-search rule in one file: every form of the tree descends by it."""

import numba
import pytest
from recipes import written

import smoothcruiser as sc
from smoothcruiser.methods import METHODS
from smoothcruiser.tree.search_rules import TREE_SEARCHES


@pytest.fixture
def rules(tmp_path):
    before, searches = dict(METHODS), dict(TREE_SEARCHES)
    with written("A tree-search rule", tmp_path) as module:
        yield module
    for table, rows in ((METHODS, before), (TREE_SEARCHES, searches)):
        table.clear()
        table.update(rows)


def walk(place, action, rng):
    """A walk that pays for the height reached."""
    move = action - 1 if rng.random() < 0.8 else rng.integers(3) - 1
    after = min(6, max(0, place + move))
    return after / 6.0, after


def grow(step, method, **more):
    problem = sc.MDP(
        step, num_actions=3, discount=0.6, operator=sc.Max(), initial_state=3
    )
    tree = sc.Tree(problem, method=method, seed=4, **more)
    return tree.grow(simulations=300).node(0)


def test_it_is_planned_with_by_its_name(rules):
    chain = sc.make("chain:n=3", discount=0.5, operator="max")
    answer = sc.plan(chain, method="root-uct", budget=3_000, seed=1)
    assert answer.method == "root-uct"
    assert answer.action == sc.plan(chain, method="exact").action


def test_its_own_descent_decides_the_visits(rules):
    """Of three actions it goes down by those that its formula ranks first."""
    node = grow(walk, rules.RootUCT(), executor="reference")
    flat = grow(walk, rules.RootUCT(exploration=1e6), executor="reference")
    assert max(flat.edge_visits) - min(flat.edge_visits) <= 1
    assert max(node.edge_visits) - min(node.edge_visits) > 50


@pytest.mark.compiles
@pytest.mark.parametrize("leaves", [{}, {"value": lambda place: 0.5}])
def test_both_forms_have_the_same_bits(rules, leaves):
    method = rules.RootUCT(**leaves)
    plain = grow(walk, method, executor="reference")
    compiled = grow(numba.njit(walk), method, executor="compiled")
    assert plain.edge_visits == compiled.edge_visits
    assert plain.edge_totals == compiled.edge_totals


def test_a_rule_without_its_function_is_refused(rules):
    class Forgetful(rules.RootUCT):
        pick = None

    with pytest.raises(sc.InvalidInput, match="needs a function pick"):
        grow(walk, Forgetful())
