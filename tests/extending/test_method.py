"""A method in one file: it is planned with, explained, acted with and refused options."""

import pytest
from recipes import written

import smoothcruiser as sc
from smoothcruiser.methods import METHODS
from smoothcruiser.tree.searches import TREE_SEARCHES


@pytest.fixture
def flat(tmp_path):
    before = dict(METHODS)
    with written("A method", tmp_path) as module:
        yield module
    METHODS.clear()
    METHODS.update(before)


def chain():
    return sc.make("chain:n=3", discount=0.5, operator="max")


def test_a_new_method_is_known_by_its_name(flat):
    answer = sc.plan(chain(), method="flat", budget=6_000, options={"depth": 5}, seed=1)
    assert answer.method == "flat"
    assert answer.action == sc.plan(chain(), method="exact").action
    assert answer.num_calls <= 6_000
    assert answer.certificate is None
    again = sc.plan(chain(), method=flat.Flat(depth=5), budget=6_000, seed=1)
    assert again.q_values == answer.q_values
    assert sc.explain(chain(), method="flat", budget=6_000).num_calls == 6_000
    assert sc.Agent(chain(), "flat", budget=2_000).act(0) == answer.action


def test_what_it_does_not_take_is_refused_for_it_too(flat):
    with pytest.raises(
        sc.InvalidInput, match=r"flat does not use epsilon .*random play"
    ):
        sc.plan(chain(), method="flat", epsilon=0.1)
    with pytest.raises(sc.InvalidInput, match="flat has no parameter 'deep'"):
        sc.plan(chain(), method="flat", options={"deep": 3})
    with pytest.raises(sc.InvalidInput, match="There is a method 'flat' already"):
        sc.methods.register(flat.Flat())


def test_an_unknown_method_lists_it(flat):
    with pytest.raises(sc.InvalidInput, match="flat"):
        sc.plan(chain(), method="flatt")


def test_a_tree_search_is_one_class(flat):
    """A subclass of Search, registered, is grown, kept by agents and certified."""

    class Greedy(sc.UCT):
        """UCT that explores little."""

        exploration: float = 0.01
        name = "greedy"

    try:
        sc.methods.register(Greedy(exploration=0.01))
        answer = sc.plan(
            chain(), method="greedy", budget=3_000, certify=True, delta=0.1
        )
        assert answer.method == "greedy"
        assert answer.certificate is not None
        assert sc.Agent(chain(), "greedy", budget=500).act(0) in (0, 1)
    finally:
        TREE_SEARCHES.pop("greedy", None)
