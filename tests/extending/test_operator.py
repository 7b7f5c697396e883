"""The recipes of an operator and of a bound, from docs/extending.md."""

import importlib

import numpy as np
import pytest
import recipes
from recipes import written

import smoothcruiser as sc
from smoothcruiser.certified.bounds import BOUNDS
from smoothcruiser.certified.price_forecast import price_bound
from smoothcruiser.exact import solve
from smoothcruiser.exact.policy_value import policy_value
from smoothcruiser.operators import OPERATORS
from smoothcruiser.problem.zoo import garnet, random_game
from smoothcruiser.schedule.relaxation import relax, step_band

DISCOUNT, TEMPERATURE, K = 0.4, 0.5, 3
BONUS = 0.5 * TEMPERATURE * (1.0 - 1.0 / K)
PROMISE = {"epsilon": "30%", "delta": 0.1}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """The page's code as a module; its registration is undone afterwards."""
    before = dict(OPERATORS)
    with written("An operator", tmp_path_factory.mktemp("recipe")) as module:
        yield module
    OPERATORS.clear()
    OPERATORS.update(before)


@pytest.fixture(scope="module")
def truth(recipe):
    return sc.plan(recipe.problem, 0, method="exact")


def test_it_keeps_the_conditions_of_the_promises(recipe):
    for k in (1, 2, 5):
        report = sc.check_operator(recipe.CentredSparsemax(TEMPERATURE), k)
        assert report.ok, str(report)


def test_exact_values_have_the_closed_form(recipe, truth):
    sparsemax = sc.make(
        "garnet:states=8,actions=3",
        discount=DISCOUNT,
        temperature=TEMPERATURE,
        operator="sparsemax",
    )
    other = sc.plan(sparsemax, 0, method="exact")
    assert recipe.problem.operator == recipe.CentredSparsemax(TEMPERATURE)
    assert truth.value == pytest.approx(other.value - BONUS / (1.0 - DISCOUNT))
    assert truth.policy == pytest.approx(other.policy)


def test_plans_keep_their_promise_and_the_bits_of_every_executor(recipe, truth):
    """|estimate - Q| <= epsilon for every action, and the price is the one that
    ``explain`` named; batches have bits of their own.
    """
    schedule = sc.explain(recipe.problem, 0, method="smoothcruiser", **PROMISE)
    values = {}
    for executor in ("compiled", "reference", "python", "batched"):
        found = sc.run(recipe.problem, schedule, 0, executor=executor, seed=3)
        values[executor] = found.value
        assert found.num_calls <= schedule.num_calls
        assert found.q_values == pytest.approx(truth.q_values, abs=found.epsilon)
    assert values["compiled"] == values["reference"] == values["python"]


def test_certified_search_encloses_the_truth(recipe, truth):
    found = sc.plan(recipe.problem, 0, method="certified", seed=3, **PROMISE)
    assert (
        found.certificate.interval[0] <= truth.value <= found.certificate.interval[1]
    )
    assert any("CentredSparsemax" in note for note in found.certificate.assumptions)


def test_a_policy_is_evaluated_with_its_regularizer(recipe):
    """Rollouts, compiled and plain, against the linear equations of the policy."""
    policy = np.full((8, K), 1.0 / K)
    policy[:, 0], policy[:, 1] = 0.5, 0.5 - 1.0 / K
    policy[:, 2] = 1.0 - policy[:, 0] - policy[:, 1]
    value = policy_value(recipe.problem, policy)[0]
    for executor in (None, "reference"):
        found = sc.evaluate(
            recipe.problem, policy, 0, budget=4_000, delta=1e-3, executor=executor
        )
        assert abs(found.value - value) <= found.epsilon


def test_tree_search_and_relaxation_take_it(recipe):
    found = sc.plan(recipe.problem, 0, method="uct", simulations=50, certify=True)
    assert sum(found.policy) == pytest.approx(1.0)
    facts = recipe.problem.facts
    assert step_band(facts) == (-BONUS, 0.0)
    plan = relax(facts, epsilon=1.0, delta=0.1, family=recipe.CentredSparsemax)
    assert isinstance(plan.operator, recipe.CentredSparsemax | sc.Max)


def test_a_name_is_given_once(recipe):
    from smoothcruiser.operators import register

    with pytest.raises(sc.InvalidInput, match="registered already"):
        register(recipe.CentredSparsemax)


# --- a bound of certified search ----------------------------------------------


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
