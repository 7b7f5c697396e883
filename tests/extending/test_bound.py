"""A certified bound is one file: the recipe's bound keeps the promise of the search,
and one whose radii are too small is found out.
"""

import importlib

import numpy as np
import pytest
import recipes

import smoothcruiser as sc
from smoothcruiser.certified.bounds import BOUNDS
from smoothcruiser.certified.price_forecast import price_bound
from smoothcruiser.exact import solve
from smoothcruiser.problem.zoo import garnet, random_game

HEADING = "A certified bound"


def coins():
    """One state, eight fair coins: nothing for a radius to hide behind."""
    R = np.zeros((2, 8, 2))
    R[:, :, 1] = 1.0
    return sc.tabular(np.full((2, 8, 2), 0.5), R, discount=0.0, operator=sc.Max())


WORLDS = {
    "coins": coins(),
    "mdp": garnet(states=6, discount=0.7, operator=sc.Entropy(0.2), seed=3),
    "game": random_game(states=5, actions=2, discount=0.6, operator=sc.Entropy(0.2)),
}


@pytest.fixture(scope="module")
def hoeffding(tmp_path_factory):
    """The recipe, registered while this file is tested."""
    known = dict(BOUNDS)
    with recipes.written(HEADING, tmp_path_factory.mktemp("recipe")) as module:
        yield module
    BOUNDS.clear()
    BOUNDS.update(known)


def misses(problem, word, seed):
    """Whether an interval of 4,000 calls leaves out an exact value, or bounds cross."""
    try:
        found = sc.Certified(problem, delta=0.1, seed=seed, bound=word).query(
            budget=4_000
        )
    except sc.OracleError:  # of a correct oracle: the bounds exclude each other
        return True
    assert found.certificate is not None
    assert found.certificate.bound == word
    exact = solve(problem)
    boxes = [found.interval, *found.certificate.q_intervals]
    truth = [exact.values[0], *exact.q_values[0]]
    return any(
        not low - 1e-9 <= q <= high + 1e-9
        for (low, high), q in zip(boxes, truth, strict=True)
    )


def test_the_recipe_keeps_the_promise_and_is_named(hoeffding):
    """Every interval of the recipe's bound holds the exact value (delta = 0.1, so
    that these fixed seeds are no luck: Hoeffding pays for all n), and the certificate
    says which bound it was.
    """
    word = hoeffding.HOEFFDING.word
    for world in WORLDS.values():
        assert not any(misses(world, word, seed) for seed in range(5))


def test_the_price_that_the_recipe_states_suffices(hoeffding):
    """2 N n(N) calls reach epsilon, and half of n(N) is not certain to."""
    problem, bound = coins(), hoeffding.HOEFFDING
    pairs = 16
    price = price_bound(
        problem.facts, epsilon=0.2, delta=0.1, num_pairs=pairs, bound=bound
    )
    found = sc.Certified(problem, delta=0.1, bound=bound.word).query(
        epsilon=0.2, budget=price
    )
    assert found.epsilon == 0.2
    assert found.num_calls <= price
    n, cost = price // (2 * pairs), float(bound.cost(pairs, 0.1))
    assert hoeffding.radius(n, cost) <= 0.2 < hoeffding.radius(n // 2, cost)


def test_it_also_runs_with_a_plain_python_operator(hoeffding):
    """Where the operator is plain Python the loops and the bound run uncompiled."""
    own = sc.CustomOperator(
        lambda q: float(np.log(np.sum(np.exp(q)))),
        lambda q: np.exp(q) / np.sum(np.exp(q)),
        smooth=1.0,
        sums_to_one=True,
    )
    problem = sc.tabular(np.ones((1, 2, 1)), np.eye(2)[:1], discount=0.0, operator=own)
    found = sc.Certified(problem, delta=0.1, bound="hoeffding").query(budget=200)
    exact = float(np.log(1.0 + np.e))
    assert found.interval[0] <= exact <= found.interval[1]
    assert found.interval[1] - found.interval[0] < 1.0


def test_radii_divided_by_four_miss(hoeffding, tmp_path):
    """The same test with the recipe's radius divided by 4: it fails, as it must."""
    text = recipes.recipe(HEADING)
    broken = text.replace("(2.0 * n))", "(2.0 * n)) / 4.0")
    broken = broken.replace('word="hoeffding"', 'word="quarter"')
    assert broken.count("/ 4.0") == broken.count('"quarter"') == 1
    (tmp_path / "quarter_bound.py").write_text(broken)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        importlib.import_module("quarter_bound")
        assert any(misses(WORLDS["coins"], "quarter", seed) for seed in range(5))


def test_a_word_that_no_bound_has_is_refused():
    """The message names the bounds there are."""
    with pytest.raises(sc.InvalidInput, match="betting"):
        sc.Certified(coins(), delta=0.1, bound="bayes")
